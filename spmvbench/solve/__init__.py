"""Solvers that stay on the device: conjugate gradients and PageRank around the launches of an operator.

>>> op = spmvbench.operator("pde:100")
>>> x, info, residuals = spmvbench.solve.cg(op, b, rtol=1e-8)
"""

from __future__ import annotations

from spmvbench.solve.conjugate_gradients import cg
from spmvbench.solve.iteration import Solution
from spmvbench.solve.power_method import pagerank

__all__ = ["Solution", "cg", "pagerank"]
