"""From rows to figures and one HTML page."""
