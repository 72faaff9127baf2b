"""The page: what an administrator and a curious user see and do in a browser, rendered by the server."""
