"""What a filter has on disk: the journal, the model, archives and dumps."""
