# A mail was moved, copied or saved to Junk: it is learnt as spam.
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.user" "*" { set "username" "${1}"; }
pipe :copy "surebayes-learn" ["spam", "${username}"];
