"""HTTP: the JSON interface, its description, and the paths that rspamd's clients know."""
