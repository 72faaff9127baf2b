"""A journal shipped as files: a folder that a source writes, and copies of the filter that follow it."""
