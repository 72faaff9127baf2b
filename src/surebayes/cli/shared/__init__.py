"""What the commands share: options and settings, inputs, tables and bars, sentences for errors."""
