"""Dense blocks."""
