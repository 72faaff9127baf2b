"""What objects look like in a notebook: bars, highlighted text, tables and small curves as HTML, in light and dark."""
