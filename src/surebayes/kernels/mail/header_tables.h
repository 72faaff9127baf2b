/* Header fields. Written by tools/kernel_tables.py: change that, or mail/header_tables.py. */
#ifndef SUREBAYES_MAIL_HEADER_TABLES_H
#define SUREBAYES_MAIL_HEADER_TABLES_H

#include "../common.h"

/* clang-format off */
enum { MOST_TOKENS = 500, MOST_NAMES = 60, MOST_ATTACHMENTS = 20, MOST_VALUES = 6 };

/* the fields read, in this order */
enum {
    FROM, REPLY_TO, SENDER, TO, CC, RECEIVED, MESSAGE_ID, CONTENT_TYPE, X_MAILER, USER_AGENT, DATE, READ_FIELDS,
};

/* `most`: maximum fields of a name; `common`: in nearly every message, so its presence is no evidence */
static const struct { const char *name; uint8_t size, most; bool common; } token_fields[] = {
    {"from", 4, 2, true}, {"reply-to", 8, 2, false}, {"sender", 6, 2, false}, {"to", 2, 2, true}, {"cc", 2, 2, true},
    {"received", 8, 6, true}, {"message-id", 10, 1, true}, {"content-type", 12, 1, true}, {"x-mailer", 8, 1, false},
    {"user-agent", 10, 1, false}, {"date", 4, 1, true}, {"subject", 7, 0, true}, {"return-path", 11, 0, true},
    {"delivered-to", 12, 0, true}, {"content-transfer-encoding", 25, 0, true}, {"mime-version", 12, 0, true},
};

/* prefixes of field names without tokens: the first FILTER_FIELDS are added by filters, the rest in transit */
enum { FILTER_FIELDS = 66 };
static const struct { const char *name; uint8_t size; } silent_fields[] = {
    {"x-surebayes-", 12}, {"x-spam", 6}, {"x-antiabuse", 11}, {"x-antispam", 10}, {"x-antivirus", 11}, {"x-anti-", 7},
    {"x-amavis", 8}, {"x-asf-", 6}, {"x-avast", 7}, {"x-avg", 5}, {"x-barracuda", 11}, {"x-bayes", 7},
    {"x-bitdefender", 13}, {"x-bogosity", 10}, {"x-brightmail", 12}, {"x-canit", 7}, {"x-classification", 16},
    {"x-clamav", 8}, {"x-cloudmark", 11}, {"x-cmae", 6}, {"x-cnfs", 6}, {"x-crm114", 8}, {"x-ctch", 6}, {"x-dcc", 5},
    {"x-drweb", 7}, {"x-dspam", 7}, {"x-eset", 6}, {"x-exchange-antispam", 19}, {"x-filter", 8}, {"x-forefront", 11},
    {"x-fortimail", 11}, {"x-gm-phishy", 11}, {"x-gm-spam", 9}, {"x-gmx-anti", 10}, {"x-greylist", 10}, {"x-imss", 6},
    {"x-ironport", 10}, {"x-junk", 6}, {"x-kaspersky", 11}, {"x-klms", 6}, {"x-kse-", 6}, {"x-mailscanner", 13},
    {"x-mimecast-spam", 15}, {"x-microsoft-antispam", 20}, {"x-ms-exchange-organization-scl", 30}, {"x-pmx", 5},
    {"x-policyd-weight", 16}, {"x-popfile", 9}, {"x-proofpoint", 12}, {"x-pyzor", 7}, {"x-quarantine", 12},
    {"x-razor", 7}, {"x-rspam", 7}, {"x-sa-", 5}, {"x-scanned", 9}, {"x-sophos", 8}, {"x-suspected-spam", 16},
    {"x-symantec", 10}, {"x-text-classification", 21}, {"x-tm-as-", 8}, {"x-tmase", 7}, {"x-ui-filterresults", 18},
    {"x-vade", 6}, {"x-virus", 7}, {"x-vr-", 5}, {"x-ymailisg", 10}, {"x-original-to", 13}, {"x-received", 10},
    {"x-google", 8}, {"x-ms-exchange", 13},
};
/* clang-format on */

#endif
