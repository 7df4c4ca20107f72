"""PageRank: the format's launches and two kernels an iteration, stopped by the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.errors import UsageError
from spmvbench.formats import Launch
from spmvbench.formats.arrays import Array
from spmvbench.formats.base import ctype
from spmvbench.solve.iteration import (
    BLOCK,
    CHUNK,
    Iteration,
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
# As in that file.
ACTIVE, MORE, ITERATIONS, MOST, CHUNK_AT, CONVERGED, STATE = 0, 1, 2, 3, 4, 5, 6
CHANGES = 2


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


class _Bound:
    """Vectors and launches of an operator's ranking, made once."""

    def __init__(self, op: Operator):
        device, n = op.device, op.shape[0]
        xp, dtype = device.xp, op.dtype
        self._device = device
        inverse_weight = _inverse_weights(op)
        self.x, p, q = (xp.zeros(n, dtype) for _ in range(3))
        self.state, self.numbers = xp.zeros(STATE, np.int32), xp.zeros(CHANGES + CHUNK, np.float64)
        blocks = blocks_for(n, device)
        dangling, changes = xp.zeros(2 * blocks, np.float64), xp.zeros(blocks, np.float64)
        value, size = ctype(dtype), np.int64(n)
        start = (size, inverse_weight, self.x, p, self.state, dangling)
        self._start = device.compile([Launch(KERNEL, f"pagerank_start<{value}>", blocks, BLOCK, start)])
        check = (np.int32(blocks), changes, self.state, self.numbers)

        def body(now: int) -> list[Any]:
            args = (size, np.int32(now), q, inverse_weight, self.x, p, self.state, self.numbers, dangling, changes)
            return [
                *op.launches(p, q),
                Launch(KERNEL, f"pagerank_step<{value}>", blocks, BLOCK, args),
                Launch(KERNEL, "pagerank_check<0>", 1, BLOCK, check),
            ]

        self.iteration = Iteration(
            device,
            [body(0), body(1)],
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


def _inverse_weights(op: Operator) -> Array:
    """One over the weight of all arcs that leave a vertex; 0 for one that none leaves. Raises ValueError."""
    _, sources, weights = op.format.to_coo()
    xp = op.device.xp
    if not bool((weights >= 0).all()) or not bool(xp.isfinite(weights).all()):
        raise ValueError("weights of arcs must be finite and not negative")
    leaving = xp.bincount(sources, weights=weights.astype(np.float64), minlength=op.shape[0])[: op.shape[0]]
    found = xp.zeros(op.shape[0], op.dtype)
    some = leaving > 0
    found[some] = 1 / leaving[some]
    return found
