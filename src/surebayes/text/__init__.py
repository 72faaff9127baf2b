"""Text to rows or scores: vectorizers, several views at once, document streams."""
