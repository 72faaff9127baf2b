# dovecot that files spam into Junk, and teaches surebayes what users move. Passwords: see dovecot.conf.
FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends dovecot-imapd dovecot-lmtpd dovecot-sieve spamc \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 5000 --create-home --home-dir /srv/mail vmail
COPY examples/mail/sieve/ /etc/dovecot/sieve/
COPY --chmod=755 examples/mail/bin/surebayes-learn /etc/dovecot/sieve/bin/surebayes-learn
COPY examples/mail/dovecot/imapsieve-2.3.conf packaging/docker/dovecot.conf /etc/dovecot/
RUN mv /etc/dovecot/imapsieve-2.3.conf /etc/dovecot/surebayes.conf \
    && sed -i 's|spamc -x -s 67108864 -U /run/surebayes/spamd.sock|spamc -x -s 67108864 -d surebayes -p 7830|' \
       /etc/dovecot/sieve/bin/surebayes-learn \
    && for script in junk learn-spam learn-ham; do sievec -c /etc/dovecot/dovecot.conf "/etc/dovecot/sieve/$script.sieve"; done
EXPOSE 143 24
CMD ["dovecot", "-F"]
