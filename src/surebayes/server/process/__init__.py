"""Processes of the server: sockets, workers, and the web application in each worker."""
