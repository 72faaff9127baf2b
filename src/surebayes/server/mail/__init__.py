"""Protocols of mail servers: SPAMD and milter."""
