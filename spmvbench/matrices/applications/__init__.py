"""Matrices that applications make themselves from published models: a module a domain, imported here to be listed."""

from __future__ import annotations

from spmvbench.matrices.applications import fem, markov, multigrid, power, spins, text, tomography

__all__ = ["fem", "markov", "multigrid", "power", "spins", "text", "tomography"]
