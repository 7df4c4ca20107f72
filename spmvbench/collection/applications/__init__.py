"""Matrices that applications make themselves from published models: a module a domain, imported here to be listed."""

from __future__ import annotations

from spmvbench.collection.applications import markov, spins, tomography

__all__ = ["markov", "spins", "tomography"]
