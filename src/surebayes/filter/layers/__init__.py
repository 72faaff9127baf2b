"""Layers of filters: a site's filter, personal layers on it, and merging or promoting lessons between filters."""
