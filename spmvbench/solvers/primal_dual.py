"""Primal-dual hybrid gradient for linear programs: the launches of both products and two kernels an iteration."""

from __future__ import annotations

import numpy as np

from spmvbench.formats import Launch
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.launches import Step, ctype, in_part, per_thread, zero_fill
from spmvbench.solvers.iteration import Product

KERNEL = "solve/pdhg.cu"
SPMV, SPMV_T, VECTORS = "spmv", "spmv-t", "vectors"  # the parts of an iteration
STEP = 0.99  # of the steps of Pock and Chambolle: below 1 the errors of all iterations have a bound


class Recurrence:
    """Vectors of the method on a device, and its launches around two products.

    min c^T x, A x = b, x >= 0, from 0. x, c: (cols,). y, b: (rows,); solutions are made in x and y. steps: those of
    columns and of rows, as `steps` gives them. plain, transposed: give the launches of q = A x and of g = A^T y.
    """

    def __init__(
        self, x: Array, y: Array, c: Array, b: Array, steps: tuple[Array, Array], plain: Product, transposed: Product
    ):
        xp = array_module(x)
        self.x, self.y, self._c, self._b, (self._of_cols, self._of_rows) = x, y, c, b, steps
        self._g, self._q = xp.zeros(len(x), x.dtype), xp.zeros((2, len(y)), y.dtype)
        # Bound once: a library's product makes descriptors and a buffer each time.
        self._transposed = in_part(SPMV_T, transposed(y, self._g))
        self._plain = [in_part(SPMV, plain(x, q)) for q in self._q]

    def start(self) -> list[Step]:
        """The launches before the first iteration."""
        return in_part(VECTORS, [zero_fill(vector) for vector in (self.x, self.y, self._q[1])])

    def iteration(self, now: int) -> list[Step]:
        """The launches of an iteration. now: its half, 0 and 1 in turns."""
        types = f"<{ctype(self.x)}, {ctype(self._of_cols)}>"
        primal = (np.int64(len(self.x)), self._g, self._c, self._of_cols, self.x)
        dual = (np.int64(len(self.y)), self._q[now], self._q[1 - now], self._b, self._of_rows, self.y)
        return [
            *self._transposed,
            Launch(KERNEL, f"pdhg_primal{types}", *per_thread(len(self.x)), primal, part=VECTORS),
            *self._plain[now],
            Launch(KERNEL, f"pdhg_dual{types}", *per_thread(len(self.y)), dual, part=VECTORS),
        ]


def steps(sums: Array) -> Array:
    """The steps of columns or rows from the sums of the absolute values of their entries, (n,), in float32: STEP over
    the sum; 0 for one without entries.
    """
    xp = array_module(sums)
    return xp.where(sums > 0, STEP / xp.where(sums > 0, sums, 1), 0).astype(np.float32)
