"""Shared parts of the commands: options and settings, inputs, tables and bars, sentences for errors."""
