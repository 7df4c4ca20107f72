"""Solvers that stay on the device: conjugate gradients and PageRank around the launches of an operator.

>>> op = spmvbench.operator("pde:100")
>>> x, info, residuals = spmvbench.solve.cg(op, b, rtol=1e-8)
"""

from __future__ import annotations

from spmvbench.operators.solving import Solution, cg, pagerank

__all__ = ["Solution", "cg", "pagerank"]
