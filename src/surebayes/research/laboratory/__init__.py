"""Infrastructure of the experiments: corpora as term counts, a cache, worker processes, tables and plots."""
