"""Conversion of text into rows or scores: vectorizers, several views at once, and document streams."""
