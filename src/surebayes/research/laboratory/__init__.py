"""Laboratory of the experiments: corpora as counts, a cache, several processes, results as tables and plots."""
