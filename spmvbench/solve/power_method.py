"""PageRank: the format's launches and two kernels an iteration, stopped by the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from spmvbench.devices import Device
from spmvbench.errors import UsageError
from spmvbench.formats import Launch
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Step, cbool, ctype
from spmvbench.solve.iteration import (
    BLOCK,
    CHUNK,
    Iteration,
    Product,
    Solution,
    blocks_for,
    own_stream,
    require_operator,
    tolerance,
    whole,
)

if TYPE_CHECKING:
    from spmvbench.operators import Operator

KERNEL = "solve/pagerank.cu"
ACTIVE, MORE, ITERATIONS, MOST, CHUNK_AT, CONVERGED = (
    constant(KERNEL, name) for name in ("ACTIVE", "MORE", "ITERATIONS", "MOST", "CHUNK", "CONVERGED")
)
STATE = CONVERGED + 1  # elements of the state
CHANGES = constant(KERNEL, "CHANGES")


def pagerank(op: Operator, damping: float = 0.85, *, tol: float = 1e-6, maxiter: int = 100) -> Solution:
    """Ranks the vertices of a graph by the power method, on the operator's device.

    op: an operator whose product adds up over the arcs that come in: entry (i, j) is the weight of an arc from j to i.
    For a graph A whose entries (i, j) are arcs from i to j it is ``spmvbench.operator(A.T)``, or `T` of A's operator.
    A vertex without arcs that leave it gives its rank to all. It stops when the sum of the changes of all ranks is at
    most `tol`, or after `maxiter` iterations.

    Returns x, info and residuals (`Solution`): x, (n,), the ranks, whose sum is 1, on the device of the operator; the
    residuals are the sums of changes. Ranks have the operator's type, sums are in float64, the same in every run. On a
    GPU the iterations are a CUDA graph that the device repeats. The operator keeps five vectors and the graph for the
    next call. It waits for the result.

    Raises TypeError for what is no operator, ValueError for a matrix that is not square and for weights that are
    negative or not finite, UsageError for other values of the options, DeviceFault.

    Page, Brin, Motwani & Winograd, The PageRank citation ranking, Stanford InfoLab technical report 1999-66, 1999.
    """
    require_operator(op, "pagerank")
    if not 0 <= float(damping) <= 1:
        raise UsageError(f"damping is a number from 0 to 1, not {damping!r}")
    most, limit = whole("maxiter", maxiter, 100), tolerance("tol", tol)
    if not op.shape[0]:
        return Solution(op.device.xp.zeros(0, op.dtype), 0, np.zeros(0))
    with own_stream(op.device):
        bound = op.kept("pagerank", lambda: _Bound(op))
        bound.set_up(float(damping), limit, most)
        state, changes = bound.iteration.run()
        x = bound.x.copy()
    return Solution(x, 0 if state[CONVERGED] else int(state[ITERATIONS]), changes)


class Recurrence:
    """Vectors of the method on a device, and its launches around a product.

    x: (n,), where the ranks are made. inverse_weights: (n,), as `inverse_weights` gives them; all in the order of the
    product. product: gives the launches of q = A p. stops: whether the device ends it, with a state.
    """

    def __init__(self, device: Device, x: Array, inverse_weights: Array, product: Product, *, stops: bool):
        n, xp = len(x), device.xp
        self.x, self._inverse_weights, self._product = x, inverse_weights, product
        self._p, self._q = xp.zeros(n, x.dtype), xp.zeros(n, x.dtype)
        self.state, self.numbers = xp.zeros(STATE, np.int32), xp.zeros(CHANGES + CHUNK, np.float64)
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


class _Bound:
    """Vectors and launches of an operator's ranking, made once."""

    def __init__(self, op: Operator):
        device, n = op.device, op.shape[0]
        self._device = device
        _, col, weights = op.format.to_coo()
        inverse = inverse_weights(n, col, weights, op.dtype)
        method = Recurrence(device, device.xp.zeros(n, op.dtype), inverse, op.launches, stops=True)
        self.x, self.state, self.numbers = method.x, method.state, method.numbers
        self._start = device.compile(method.start(inverse))
        self.iteration = Iteration(
            device,
            [[*method.product(), *method.vectors(now), *method.check()] for now in (0, 1)],
            self.state,
            self.numbers[CHANGES:],
            more=MORE,
            iterations=ITERATIONS,
            active=ACTIVE,
        )

    def set_up(self, damping: float, limit: float, most: int) -> None:
        """Runs the start: equal ranks."""
        state = np.zeros(STATE, np.int32)
        state[MOST], state[CHUNK_AT] = most, CHUNK
        self.state[...] = self._device.to_device(state)
        self.numbers[:CHANGES] = self._device.to_device(np.array([damping, limit]))
        self._start.run()
        self._device.synchronize()


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
