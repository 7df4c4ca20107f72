"""Matrices: where they come from, how they are read, what they look like."""

from __future__ import annotations

from spmvbench.matrices.sources import Matrix, load, resolve

__all__ = ["Matrix", "load", "resolve"]
