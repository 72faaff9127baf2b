"""Research commands: comparisons, corpora, reproductions."""
