"""Diagonals."""
