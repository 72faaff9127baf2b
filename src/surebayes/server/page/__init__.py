"""Web interface for administrators and users, rendered by the server."""
