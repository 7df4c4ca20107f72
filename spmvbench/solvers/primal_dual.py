"""Primal-dual hybrid gradient for linear programs: both products, which take the vectors along or have a kernel on
vectors after them.
"""

from __future__ import annotations

import numpy as np

from spmvbench.formats import Launch, epilogue
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.launches import Step, Struct, ctype, in_part, per_thread, zero_fill
from spmvbench.solvers.iteration import Product

KERNEL = "solve/pdhg.cu"
SPMV, SPMV_T, VECTORS = "spmv", "spmv-t", "vectors"  # the parts of an iteration; with an epilogue ``spmv+vectors``
STEP = 0.99  # of the steps of Pock and Chambolle: below 1 the errors of all iterations have a bound


class Recurrence:
    """Vectors of the method on a device, and its launches around two products.

    min c^T x, A x = b, x >= 0, from 0. x, c: (cols,). y, b: (rows,); solutions are made in x and y. steps: those of
    columns and of rows, as `steps` gives them. plain, transposed: give the launches of q = A x and of g = A^T y.
    """

    def __init__(
        self, x: Array, y: Array, c: Array, b: Array, steps: tuple[Array, Array], plain: Product, transposed: Product
    ):
        xp, (of_cols, of_rows) = array_module(x), steps
        ahead = xp.zeros(len(y), y.dtype)
        start = np.int64(len(y)), b, of_rows, ahead, y
        kernel = f"pdhg_start<{ctype(x)}, {ctype(of_rows)}>"
        self.start: list[Step] = in_part(
            VECTORS, [zero_fill(x), Launch(KERNEL, kernel, *per_thread(len(y)), start)]
        )  # the launches before the first iteration
        types = f"<{ctype(x)}, {ctype(of_cols)}>"
        # Bound once: a library's product makes descriptors and a buffer each time.
        self.iteration = [
            *_half(SPMV_T, transposed, y, xp.zeros_like(x), f"Primal{types}", Struct((c, of_cols, x))),
            *_half(SPMV, plain, x, xp.zeros_like(y), f"Dual{types}", Struct((b, of_rows, ahead, y))),
        ]  # the launches of an iteration


def _half(part: str, product: Product, factor: Array, sums: Array, update: str, members: Struct) -> list[Step]:
    """The launches of a product and of what becomes of its sums of rows: `update`, of include/epilogue.cuh."""
    steps = product(factor, sums)
    if (fused := epilogue.fused(steps, sums, update, members)) is not None:
        return in_part(f"{part}+{VECTORS}", fused)
    return [*in_part(part, steps), *in_part(VECTORS, [epilogue.after(sums, update, members)])]


def steps(sums: Array) -> Array:
    """The steps of columns or rows from the sums of the absolute values of their entries, (n,), in float32: STEP over
    the sum; 0 for one without entries.
    """
    xp = array_module(sums)
    return xp.where(sums > 0, STEP / xp.where(sums > 0, sums, 1), 0).astype(np.float32)
