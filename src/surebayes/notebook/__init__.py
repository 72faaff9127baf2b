"""HTML views of objects for notebooks: bars, highlighted text, tables and small charts, for light and dark themes."""
