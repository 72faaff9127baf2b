"""JSON API over HTTP, its OpenAPI description, and rspamd's endpoints."""
