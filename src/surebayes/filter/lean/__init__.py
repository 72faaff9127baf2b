"""Judging from a folder's files alone, without numpy: one mail in milliseconds, many documents by several processes."""
