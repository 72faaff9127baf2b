"""Views of a document, the experts on each, and the pool of their opinions."""
