"""Breadth-first search: formats of a graph's pattern, and the launches of one search."""
