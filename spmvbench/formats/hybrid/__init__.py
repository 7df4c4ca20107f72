"""Hybrids: parts of a matrix in different formats."""
