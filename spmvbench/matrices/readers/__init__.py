"""A reader a kind of matrix file: what the file stores, whether it is a pattern, and the symmetry to expand.

Files come from anywhere. What one claims is checked (`checked`) before memory of that size is taken and before SciPy,
whose compiled loops trust indices, computes with its arrays; what cannot be read is an SpmvbenchError of one sentence.
"""
