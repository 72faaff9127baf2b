"""Fast paths of commands: judging from a folder's files alone, and single lessons, without numpy or click."""
