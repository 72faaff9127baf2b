"""Text to rows or scores: vectorizers, views side by side, streams of documents."""
