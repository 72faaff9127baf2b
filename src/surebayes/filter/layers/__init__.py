"""Filters on one another, and filters put together: a site's, and one for each person."""
