"""The processes of the server: addresses, workers, readiness, logs and counters."""
