"""Header fields by their use for tokens; `tools/kernel_tables.py` writes `kernels/mail/header_tables.h` from them."""

READ = {
    "from": 2, "reply-to": 2, "sender": 2, "to": 2, "cc": 2, "received": 6, "message-id": 1, "content-type": 1,
    "x-mailer": 1, "user-agent": 1, "date": 1,
}  # fmt: skip
"""Fields to read, in this order, with the maximum number of each; the first Received fields are the most recent."""

COMMON = (
    "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "delivered-to", "content-type",
    "content-transfer-encoding", "mime-version",
)  # fmt: skip
"""Fields of nearly every message, so that their presence is no evidence."""

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
"""Prefixes of fields that filters add, including surebayes. They contain past verdicts, and any sender can forge them,
so they give no tokens and are removed before a message's bytes are read."""

TRANSPORT = ("x-original-to", "x-received", "x-google", "x-ms-exchange")
"""Prefixes of fields that the last hop adds. They differ between the classified and the taught copy of a message."""

MOST_TOKENS = 500
"""Maximum number of tokens per message."""
MOST_NAMES = 60
"""Maximum number of names of rare fields that give tokens, per message."""
MOST_ATTACHMENTS = 20
"""Maximum number of attachments that give tokens, per message."""
