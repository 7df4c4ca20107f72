"""Algebraic multigrid for the 7-point Laplacian on an N^3 grid, with PyAMG's Ruge-Stüben coarsening."""

from __future__ import annotations

from typing import Any

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices.structures import Structure, application, needs, of_matrix, required

_SOURCE = "Ruge, Stüben, Multigrid Methods, SIAM 1987; PyAMG: Bell, Olson, Schroder, Southworth, JOSS 8(87), 2023"
_RULE = needs("N of 4 to 300 and LEVEL of 1 to 9", lambda N, LEVEL: 4 <= N <= 300 and 1 <= LEVEL <= 9)


def _levels(N: int, LEVEL: int) -> list[Any]:
    pyamg = required("pyamg")
    laplacian = pyamg.gallery.poisson((N, N, N), format="csr")
    levels: list[Any] = pyamg.ruge_stuben_solver(laplacian, max_levels=LEVEL + 1, max_coarse=1).levels
    if len(levels) <= LEVEL:
        raise SpmvbenchError(f"a hierarchy of the {N}^3 grid has {len(levels) - 1} coarse levels")
    return levels


@application("algebraic multigrid", _SOURCE)
@_RULE
def coarse(N: int, LEVEL: int) -> Structure:
    """The operator of an algebraic multigrid's coarse LEVEL for the 7-point Laplacian on an N^3 grid; symmetric."""
    return of_matrix(_levels(N, LEVEL)[LEVEL].A)


@application("algebraic multigrid", _SOURCE)
@_RULE
def prolong(N: int, LEVEL: int) -> Structure:
    """The prolongation from coarse LEVEL of the same multigrid to the level above it: rectangular, short rows."""
    return of_matrix(_levels(N, LEVEL)[LEVEL - 1].P)
