"""Conjugate gradients: the format's launches and three kernels an iteration, stopped by the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.devices import Device
from spmvbench.formats import Launch
from spmvbench.formats.arrays import Array
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Step, cbool, ctype
from spmvbench.solvers import iteration
from spmvbench.solvers.iteration import BLOCK, Product, blocks_for

KERNEL = "solve/cg.cu"
MORE, ITERATIONS, MOST, BROKEN, CHUNK_AT, CONVERGED = (
    constant(KERNEL, name) for name in ("MORE", "ITERATIONS", "MOST", "BROKEN", "CHUNK", "CONVERGED")
)
STATE = CONVERGED + 1  # elements of the state
LIMIT, RELATIVE, ABSOLUTE, FIRST, RESIDUALS = (
    constant(KERNEL, name) for name in ("LIMIT", "RELATIVE", "ABSOLUTE", "FIRST", "RESIDUALS")
)


class Recurrence:
    """Vectors of the method on a device, and its launches around a product.

    x: (n,), where the solution is made. inverse_diagonal: (n,), all in the order of the product; empty: without a
    preconditioner. product: gives the launches of q = A p. stops: whether the device ends it, with a state.
    """

    def __init__(self, device: Device, x: Array, inverse_diagonal: Array, product: Product, *, stops: bool):
        n, xp, dtype = len(x), device.xp, x.dtype
        self.x, self.r, self.p, self.q = x, *(xp.zeros(n, dtype) for _ in range(3))
        self.state, self.numbers = xp.zeros(STATE, np.int32), xp.zeros(RESIDUALS + iteration.CHUNK, np.float64)
        self._inverse_diagonal, self._product = inverse_diagonal, product
        self._blocks = blocks_for(n, device)
        self._partial = xp.zeros(3 * self._blocks, np.float64)
        self._value, self._jacobi, self._stops = ctype(dtype), cbool(len(inverse_diagonal) > 0), cbool(stops)
        self._size = np.int64(n)

    def start(self, b: Array, *, with_guess: bool) -> list[Step]:
        """The launches before the first iteration. b: (n,), which may be `r`. with_guess: begin at `x`, not at 0."""
        kernel = f"cg_start<{self._value}, {self._jacobi}, {cbool(with_guess)}>"
        vectors = (b, self.q, self._inverse_diagonal, self.x, self.r, self.p, self._partial)
        begin = (np.int32(self._blocks), self._partial, self.state, self.numbers)
        return [
            *(self._product(self.x, self.q) if with_guess else ()),
            Launch(KERNEL, kernel, self._blocks, BLOCK, (self._size, *vectors)),
            Launch(KERNEL, f"cg_begin<{self._stops}>", 1, BLOCK, begin),
        ]

    def product(self) -> list[Step]:
        """The launches of an iteration's product."""
        return list(self._product(self.p, self.q))

    def vectors(self, now: int) -> list[Step]:
        """The launches of an iteration after its product. now: its half, 0 and 1 in turns."""
        x, r, p, q, inverse, partial = self.x, self.r, self.p, self.q, self._inverse_diagonal, self._partial
        state, numbers = self.state, self.numbers

        def launch(name: str, options: str, *args: Any) -> Launch:
            kernel = f"{name}<{self._value}, {options}{self._stops}>"
            return Launch(KERNEL, kernel, self._blocks, BLOCK, (self._size, np.int32(now), *args))

        return [
            launch("cg_dot", "", p, q, state, partial),
            launch("cg_update", f"{self._jacobi}, ", p, q, inverse, x, r, state, numbers, partial),
            launch("cg_direction", f"{self._jacobi}, ", r, inverse, p, state, numbers, partial),
        ]


def inverse_diagonal(diagonal: Array, dtype: np.dtype) -> Array:
    """One over the diagonal. Raises ValueError if an element is not positive."""
    bad = int((~(diagonal > 0)).sum())
    if bad:
        raise ValueError(
            f"{bad:,} of {len(diagonal):,} elements of the diagonal are not positive, so the matrix is not positive "
            "definite and has no Jacobi preconditioner"
        )
    return (1 / diagonal).astype(dtype)
