"""The processes of the server: what listens, the workers, the web application that each of them runs."""
