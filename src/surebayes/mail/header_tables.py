"""Header fields by what their tokens say; `tools/kernel_tables.py` writes `kernels/mail/header_tables.h` from them."""

READ = {
    "from": 2, "reply-to": 2, "sender": 2, "to": 2, "cc": 2, "received": 6, "message-id": 1, "content-type": 1,
    "x-mailer": 1, "user-agent": 1, "date": 1,
}  # fmt: skip
"""Fields that are read, in this order, and how many of each: of Received the latest, which the reader's side wrote."""

COMMON = (
    "from", "to", "cc", "subject", "date", "message-id", "received", "return-path", "delivered-to", "content-type",
    "content-transfer-encoding", "mime-version",
)  # fmt: skip
"""Fields that nearly every mail has: their names say nothing."""

FILTERS = (
    "x-surebayes-",
    "x-spam",  # SpamAssassin, rspamd (X-Spamd-*), SpamBayes (X-Spambayes-*), SpamProbe, SpamExperts and many others
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
"""How the names of fields start that a filter adds, ours or another's. They tell the verdict of the past, and whoever
sends a mail can forge them: they give no tokens, and are taken out before the bytes of a mail are read."""

TRANSPORT = ("x-original-to", "x-received", "x-google", "x-ms-exchange")
"""How the names of fields start that the last mile of transport adds: they differ between the copy that is judged and
the copy that is taught."""

MOST_TOKENS = 500
"""Of one message; a header flood must not become a flood of tokens."""
MOST_NAMES = 60
"""Names of less usual fields that give tokens."""
MOST_ATTACHMENTS = 20
"""Attachments that give tokens."""
