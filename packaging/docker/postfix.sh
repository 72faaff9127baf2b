#!/bin/sh
# Configure postfix for the domain MAIL_DOMAIN, and run it in the foreground.
set -eu
postconf -e "maillog_file = /dev/stdout" "myhostname = mx.$MAIL_DOMAIN" "mydestination =" "mynetworks = 127.0.0.0/8" \
    "inet_protocols = ipv4" "smtpd_relay_restrictions = reject_unauth_destination" "default_transport = error" \
    "virtual_mailbox_domains = $MAIL_DOMAIN" "virtual_mailbox_maps = static:user/" "virtual_transport = lmtp:inet:dovecot:24" \
    "smtpd_milters = inet:surebayes:8026" "milter_default_action = accept" "lmtp_host_lookup = native" \
    "smtp_dns_support_level = disabled"
postconf -F "*/*/chroot = n"
exec postfix start-fg
