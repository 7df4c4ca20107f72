"""Matrices: sources, readers, generators and features."""

from __future__ import annotations

from spmvbench.matrices.sources import Matrix, load, resolve

__all__ = ["Matrix", "load", "resolve"]
