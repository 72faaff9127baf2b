"""Certificates for tests: an authority, servers and clients."""

import datetime
import ssl
import time

import trustme

AUTHORITY = trustme.CA()
OTHER_AUTHORITY = trustme.CA()
NOW = datetime.datetime.now(datetime.UTC)


def issue(path, *names, days=30, authority=AUTHORITY, common_name=None):
    """Write a certificate with its key and chain into one file; return its path."""
    issued = authority.issue_cert(
        *(names or ("localhost", "127.0.0.1")), common_name=common_name, not_after=NOW + datetime.timedelta(days=days),
        not_before=NOW - datetime.timedelta(days=400),
    )  # fmt: skip
    content = issued.private_key_pem.bytes() + b"".join(blob.bytes() for blob in issued.cert_chain_pems)
    replace(path, content)
    return path


def replace(path, content):
    """Put a file in place by a rename, as tools that renew certificates do."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(content)
    beside.replace(path)


def authority_file(path, authority=AUTHORITY):
    path.write_bytes(authority.cert_pem.bytes())
    return path


def client(certificate=None, authority=AUTHORITY):
    """Return the context of a client that trusts the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def serial(connection):
    return connection.getpeercert()["serialNumber"]


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
