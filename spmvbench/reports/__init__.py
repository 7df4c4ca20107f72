"""From rows to figures, tables and one HTML page."""
