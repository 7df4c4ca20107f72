"""NVIDIA cuSPARSE's own formats."""
