"""Generators of application matrices from published models: one module per domain, registered by this import."""

from __future__ import annotations

from spmvbench.matrices.applications import fem, linear_programs, markov, multigrid, power, spins, tomography

__all__ = ["fem", "linear_programs", "markov", "multigrid", "power", "spins", "tomography"]
