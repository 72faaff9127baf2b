"""Where the experiments run: corpora as counts, a cache, several processes, and results as tables and plots."""
