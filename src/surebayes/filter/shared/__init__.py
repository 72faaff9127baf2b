"""A journal in PostgreSQL that several hosts share, and its copy in the folder of each host."""
