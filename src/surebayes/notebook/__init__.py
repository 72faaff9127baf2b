"""HTML views of objects for notebooks: bars, highlighted text, tables and small curves, in light and dark."""
