"""Header fields by their use for tokens; `tools/kernel_tables.py` writes `kernels/mail/header_tables.h` from them."""

READ = {
    "from": 2, "reply-to": 2, "sender": 2, "to": 2, "cc": 2, "received": 6, "message-id": 1, "content-type": 1,
    "x-mailer": 1, "user-agent": 1, "date": 1,
}  # fmt: skip
"""Fields that are read, in this order, with a limit for each; the latest Received fields are near the recipient."""

COMMON = (
    "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "delivered-to", "content-type",
    "content-transfer-encoding", "mime-version",
)  # fmt: skip
"""Fields of nearly every message: their presence is no evidence."""

FILTERS = (
    "x-surebayes-",
    "x-spam",  # SpamAssassin, rspamd (X-Spamd-*), SpamBayes (X-Spambayes-*), SpamProbe, SpamExperts and many more
    "x-antiabuse", "x-antispam", "x-antivirus", "x-anti-", "x-amavis", "x-asf-", "x-avast", "x-avg", "x-barracuda",
    "x-bayes", "x-bitdefender", "x-bogosity", "x-brightmail", "x-canit", "x-classification", "x-clamav", "x-cloudmark",
    "x-cmae", "x-cnfs", "x-crm114", "x-ctch", "x-dcc", "x-drweb", "x-dspam", "x-eset", "x-exchange-antispam",
    "x-filter", "x-forefront", "x-fortimail", "x-gm-phishy", "x-gm-spam", "x-gmx-anti", "x-greylist",
    "x-imss", "x-ironport", "x-junk", "x-kaspersky", "x-klms", "x-kse-", "x-mailscanner", "x-mimecast-spam",
    "x-microsoft-antispam", "x-ms-exchange-organization-scl", "x-pmx", "x-policyd-weight", "x-popfile",
    "x-proofpoint", "x-pyzor", "x-quarantine", "x-razor", "x-rspam", "x-sa-", "x-scanned", "x-sophos",
    "x-suspected-spam", "x-symantec", "x-text-classification", "x-tm-as-", "x-tmase", "x-ui-filterresults",
    "x-vade", "x-virus", "x-vr-", "x-ymailisg",
)  # fmt: skip
"""Prefixes of fields that filters add, ours included. They hold past verdicts and any sender can forge them, so they
give no tokens, and are removed before a message's bytes are read."""

TRANSPORT = ("x-original-to", "x-received", "x-google", "x-ms-exchange")
"""Prefixes of fields that the last hop adds: they differ between the copy that is classified and the copy that is
taught."""

MOST_TOKENS = 500
"""Tokens per message: a flood of header fields must not become a flood of tokens."""
MOST_NAMES = 60
"""Names of rare fields that give tokens, per message."""
MOST_ATTACHMENTS = 20
"""Attachments that give tokens, per message."""
