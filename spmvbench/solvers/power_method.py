"""PageRank: the format's launches and two kernels an iteration, stopped by the device."""

from __future__ import annotations

import numpy as np

from spmvbench.devices import Device
from spmvbench.formats import Launch
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Step, cbool, ctype
from spmvbench.solvers import iteration
from spmvbench.solvers.iteration import BLOCK, Product, blocks_for

KERNEL = "solve/pagerank.cu"
ACTIVE, MORE, ITERATIONS, MOST, CHUNK_AT, CONVERGED = (
    constant(KERNEL, name) for name in ("ACTIVE", "MORE", "ITERATIONS", "MOST", "CHUNK", "CONVERGED")
)
STATE = CONVERGED + 1  # elements of the state
CHANGES = constant(KERNEL, "CHANGES")


class Recurrence:
    """Vectors of the method on a device, and its launches around a product.

    x: (n,), where the ranks are made. inverse_weights: (n,), as `inverse_weights` gives them; all in the order of the
    product. product: gives the launches of q = A p. stops: whether the device ends it, with a state.
    """

    def __init__(self, device: Device, x: Array, inverse_weights: Array, product: Product, *, stops: bool):
        n, xp = len(x), device.xp
        self.x, self._inverse_weights, self._product = x, inverse_weights, product
        self._p, self._q = xp.zeros(n, x.dtype), xp.zeros(n, x.dtype)
        self.state, self.numbers = xp.zeros(STATE, np.int32), xp.zeros(CHANGES + iteration.CHUNK, np.float64)
        self._blocks, self._size = blocks_for(n, device), np.int64(n)
        self._dangling, self._changes = xp.zeros(2 * self._blocks, np.float64), xp.zeros(self._blocks, np.float64)
        self._options = f"{ctype(x.dtype)}, {cbool(stops)}"

    def start(self, first: Array) -> list[Step]:
        """The launches before the first iteration. first: (n,), ranks to begin with; equal ones if the device stops."""
        args = (self._size, first, self._inverse_weights, self.x, self._p, self.state, self._dangling)
        return [Launch(KERNEL, f"pagerank_start<{self._options}>", self._blocks, BLOCK, args)]

    def product(self) -> list[Step]:
        """The launches of an iteration's product."""
        return list(self._product(self._p, self._q))

    def vectors(self, now: int) -> list[Step]:
        """The launch of an iteration after its product. now: its half, 0 and 1 in turns."""
        vectors = (self._q, self._inverse_weights, self.x, self._p)
        args = (self._size, np.int32(now), *vectors, self.state, self.numbers, self._dangling, self._changes)
        return [Launch(KERNEL, f"pagerank_step<{self._options}>", self._blocks, BLOCK, args)]

    def check(self) -> list[Step]:
        """The launch that decides whether to go on."""
        args = (np.int32(self._blocks), self._changes, self.state, self.numbers)
        return [Launch(KERNEL, "pagerank_check<0>", 1, BLOCK, args)]


def inverse_weights(n: int, sources: Array, weights: Array, dtype: np.dtype) -> Array:
    """One over the weight of all arcs that leave a vertex, (n,); 0 for one that none leaves. Raises ValueError.

    sources, weights: (arcs,), of each arc the vertex that it leaves, and its weight.
    """
    xp = array_module(weights)
    if not bool((weights >= 0).all()) or not bool(xp.isfinite(weights).all()):
        raise ValueError("weights of arcs must be finite and not negative")
    leaving = xp.bincount(sources, weights=weights.astype(np.float64), minlength=n)[:n]
    found = xp.zeros(n, dtype)
    some = leaving > 0
    found[some] = 1 / leaving[some]
    return found
