"""Readers of matrix files: each returns the stored matrix, whether it is a pattern, and the symmetry to expand.

Files are not trusted. Sizes and indices are checked (`checked`) before memory is allocated and before SciPy, whose
compiled loops trust indices, uses the arrays. An unreadable file raises SpmvbenchError with one sentence.
"""
