"""The protocols of mail servers: SPAMD and milter."""
