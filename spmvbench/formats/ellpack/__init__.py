"""ELLPACK, its slices, and jagged diagonals."""
