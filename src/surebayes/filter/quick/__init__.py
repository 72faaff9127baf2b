"""The lean ways: judging from a folder's files alone, without numpy; a lesson, or a script's training, by command."""
