"""Storage of a filter: the journal and the model's files."""
