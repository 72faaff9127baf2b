"""A filter while it is open: what it knows, in memory, and how that comes into its folder."""
