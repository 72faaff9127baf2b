# postfix that asks the milter of surebayes, and delivers to dovecot by LMTP.
FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postfix \
    && rm -rf /var/lib/apt/lists/*
COPY --chmod=755 packaging/docker/postfix.sh /usr/local/bin/postfix-in-container
EXPOSE 25
CMD ["/usr/local/bin/postfix-in-container"]
