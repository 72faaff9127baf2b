# A mail was moved or copied out of Junk: it is learnt as ham, unless it went to Trash.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.mailbox" "*" { set "mailbox" "${1}"; }
if string :is "${mailbox}" "Trash" { stop; }
if environment :matches "imap.user" "*" { set "username" "${1}"; }
pipe :copy "surebayes-learn" ["ham", "${username}"];
