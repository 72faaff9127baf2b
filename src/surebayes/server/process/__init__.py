"""Server processes: the parent with the sockets, the workers, and the web application of each worker."""
