"""The commands of researchers: comparisons, corpora, reproductions."""
