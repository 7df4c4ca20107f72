"""Solvers around an operator's launches: conjugate gradients and PageRank, stopped by the device."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spmvbench.devices.foreign import check_vector, given, moved
from spmvbench.errors import UsageError
from spmvbench.formats.arrays import Array, array_module
from spmvbench.runner import arguments
from spmvbench.solvers import conjugate_gradients, iteration, power_method
from spmvbench.solvers.iteration import Iteration, own_stream

if TYPE_CHECKING:
    from spmvbench.operators.linear_operator import Operator

BROKEN_DOWN = -1


class Solution(NamedTuple):
    """What a solver returns.

    x: the solution, of the library that asked. info: 0 if it has converged, the number of iterations if not (1 if none
    was allowed), -1 if the method broke down. residuals: float64 on the host, what the stopping test compared: for CG
    the norms of b - A x, of the start and after each iteration; for PageRank the sum of the changes of all ranks in
    each iteration.
    """

    x: Any
    info: int
    residuals: np.ndarray


def cg(
    op: Operator,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    preconditioner: str | None = "jacobi",
) -> Solution:
    """Solves A x = b for a symmetric positive definite A by conjugate gradients, on the operator's device.

    op: from `spmvbench.operator`. b, x0: (n,) or (n, 1), of NumPy, CuPy or another library as `Operator.matvec` takes
    them; x0 is the first guess, without it 0. It stops when the norm of b - A x, as the recurrence has it, is at most
    max(rtol norm(b), atol), as SciPy's does, or after `maxiter` iterations, without it ten for each row.
    preconditioner: ``jacobi``, the inverse of A's diagonal, or None.

    Returns x, info and residuals (`Solution`): x of b's library and of the operator's type. info is -1 if p^T A p was
    not positive or a number not finite: then A is not positive definite, or b is not finite, and x is that of the last
    iteration before. It is -1, too, if the operator's type cannot hold x. b is scaled by a power of 2 first, so that no
    square leaves the range of float64. Vectors have the operator's type, scalar products are added up in float64, the
    same in every run. On a GPU the iterations are a CUDA graph that the device repeats; the host looks once in 1,000.
    The operator keeps five vectors and the graph for the next call. It waits for the result.

    Raises TypeError for what is no operator and for complex b, ValueError for a matrix that is not square, for another
    length and for a diagonal that is not positive, UsageError for other values of the options, DeviceFault.

    Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, SIAM 2003, algorithm 9.1.
    """
    require_operator(op, "cg")
    if preconditioner not in ("jacobi", None):
        raise UsageError(f'preconditioner is "jacobi" or None, not {preconditioner!r}')
    n = op.shape[0]
    most = min(10 * n, arguments.MAX_COUNT) if maxiter is None else arguments.count("maxiter", maxiter)
    rtol, atol = arguments.number("rtol", rtol, 0), arguments.number("atol", atol, 0)
    right, restore = given(b)
    check_vector("b", right, n)
    guess = None
    if x0 is not None:
        guess, _ = given(x0)
        check_vector("x0", guess, n)
    with own_stream(op.device), np.errstate(over="ignore", under="ignore"):
        bound = op.kept(("cg", preconditioner), lambda: _System(op, jacobi=preconditioner is not None))
        exponent = bound.set_up(right, guess, most, rtol, atol)
        state, residuals = bound.iteration.run()
        first = op.device.to_host(bound.numbers[conjugate_gradients.FIRST : conjugate_gradients.FIRST + 1])
        x, is_held = bound.unscaled(exponent)
        x = moved(x, array_module(right)).reshape(right.shape)
        residuals = np.concatenate((first, residuals))
    broken = state[conjugate_gradients.BROKEN] or not np.isfinite(residuals).all() or not is_held
    info = BROKEN_DOWN if broken else _info(state[conjugate_gradients.CONVERGED], state[conjugate_gradients.ITERATIONS])
    with np.errstate(over="ignore", under="ignore"):
        return Solution(restore(x), info, np.ldexp(residuals, exponent))


def pagerank(op: Operator, damping: float = 0.85, *, tol: float = 1e-6, maxiter: int = 100) -> Solution:
    """Ranks the vertices of a graph by the power method, on the operator's device.

    op: an operator whose product adds up over the arcs that come in: entry (i, j) is the weight of an arc from j to i.
    For a graph A whose entries (i, j) are arcs from i to j it is ``spmvbench.operator(A.T)``, or `T` of A's operator.
    A vertex without arcs that leave it gives its rank to all. It stops when the sum of the changes of all ranks is at
    most `tol`, or after `maxiter` iterations.

    Returns x, info and residuals (`Solution`): x, (n,), the ranks, whose sum is 1, on the device of the operator; the
    residuals are the sums of changes. info is -1 if one of them is not finite. Ranks have the operator's type, sums are
    in float64, the same in every run. On a GPU the iterations are a CUDA graph that the device repeats. The operator
    keeps five vectors and the graph for the next call. It waits for the result.

    Raises TypeError for what is no operator, ValueError for a matrix that is not square and for weights that are
    negative or not finite, UsageError for other values of the options, DeviceFault.

    Page, Brin, Motwani & Winograd, The PageRank citation ranking, Stanford InfoLab technical report 1999-66, 1999.
    """
    require_operator(op, "pagerank")
    damping, tol = arguments.number("damping", damping, 0, 1), arguments.number("tol", tol, 0)
    most = arguments.count("maxiter", maxiter)
    if not op.shape[0]:
        return Solution(op.device.xp.zeros(0, op.dtype), 0, np.zeros(0))
    with own_stream(op.device):
        bound = op.kept("pagerank", lambda: _Ranking(op))
        bound.set_up(damping, tol, most)
        state, changes = bound.iteration.run()
        x = bound.x.copy()
    info = _info(state[power_method.CONVERGED], state[power_method.ITERATIONS])
    return Solution(x, info if np.isfinite(changes).all() else BROKEN_DOWN, changes)


def _info(converged: int, iterations: int) -> int:
    return 0 if converged else max(int(iterations), 1)


def require_operator(op: Any, name: str) -> None:
    """Raise TypeError unless it is an operator, ValueError unless it is square."""
    if not all(hasattr(op, part) for part in ("launches", "kept", "device", "format")):
        raise TypeError(f"{name} takes an operator, not {type(op).__name__}: make one by spmvbench.operator(A)")
    if op.shape[0] != op.shape[1]:
        raise ValueError(f"{name} needs a square matrix, this one is {op.shape[0]} x {op.shape[1]}")


def exponent_of(vector: Array) -> int:
    """The e for which the largest element of a vector is in [2^(e - 1), 2^e); 0 if it is 0 or not finite."""
    largest = float(abs(vector).max()) if len(vector) else 0.0
    return math.frexp(largest)[1] if math.isfinite(largest) else 0


class _System:
    """Vectors and launches of an operator's conjugate gradients, made once."""

    def __init__(self, op: Operator, *, jacobi: bool):
        device, n = op.device, op.shape[0]
        xp, dtype = device.xp, op.dtype
        self._device = device
        inverse = xp.zeros(0, dtype)
        if jacobi and n:
            diagonal = op.diagonal()  # any multiple of it preconditions alike: the inverse of the least becomes about 1
            inverse = conjugate_gradients.inverse_diagonal(
                xp.ldexp(diagonal, -math.frexp(float(diagonal.min()))[1]), dtype
            )
        method = conjugate_gradients.Recurrence(device, xp.zeros(n, dtype), inverse, op.launches, stops=True)
        self.x, self.r, self.state, self.numbers = method.x, method.r, method.state, method.numbers
        self._q, self._guessed = method.q, device.compile(op.launches(method.x, method.q))
        self._starts = [device.compile(method.start(self.r, with_guess=guess)) for guess in (False, True)]
        self.iteration = Iteration(
            device,
            [[*method.product(), *method.vectors(now)] for now in (0, 1)],
            self.state,
            self.numbers[conjugate_gradients.RESIDUALS :],
            more=conjugate_gradients.MORE,
            iterations=conjugate_gradients.ITERATIONS,
            active=0,
        )

    def set_up(self, b: Array, guess: Array | None, most: int, rtol: float, atol: float) -> int:
        """Runs the start: a state from which the iteration goes on, or that is the end. Returns the scale's exponent.

        The system is solved for b / 2^exponent, where the larger of b and the product with the guess is about 1.
        """
        xp, n = self._device.xp, len(self.x)
        right = moved(b, xp).reshape(n).astype(np.float64)
        exponent = exponent_of(right)
        if guess is not None:
            first = moved(guess, xp).reshape(n).astype(np.float64)
            own = exponent_of(first)
            self.x[...] = xp.ldexp(first, -own)
            self._guessed.run()
            product = own + exponent_of(self._q)
            exponent = max(exponent, product) if right.any() else product
            self.x[...] = xp.ldexp(first, -exponent)
        self.r[...] = xp.ldexp(right, -exponent)
        state, numbers = np.zeros(conjugate_gradients.STATE, np.int32), np.zeros(conjugate_gradients.RESIDUALS)
        state[conjugate_gradients.MOST], state[conjugate_gradients.CHUNK_AT] = most, iteration.CHUNK
        numbers[conjugate_gradients.RELATIVE] = rtol
        numbers[conjugate_gradients.ABSOLUTE] = np.ldexp(atol, -exponent)
        self.state[...] = self._device.to_device(state)
        self.numbers[: len(numbers)] = self._device.to_device(numbers)
        self._starts[guess is not None].run()
        self._device.synchronize()
        return exponent

    def unscaled(self, exponent: int) -> tuple[Array, bool]:
        """The solution of the system as it was given, and whether its type can hold it, within the tolerance."""
        xp = self._device.xp
        x = xp.ldexp(self.x, exponent)
        lost = xp.ldexp(x, -exponent) - self.x
        if not lost.any():
            return x, True
        self.x[...] = lost
        self._guessed.run()
        self._device.synchronize()
        limit = self.numbers[conjugate_gradients.LIMIT]
        return x, bool((self._q.astype(np.float64) ** 2).sum() <= limit * limit)


class _Ranking:
    """Vectors and launches of an operator's ranking, made once."""

    def __init__(self, op: Operator):
        device, n = op.device, op.shape[0]
        self._device = device
        _, col, weights = op.format.to_coo()
        with np.errstate(over="ignore", divide="ignore"):
            inverse = power_method.inverse_weights(n, col, weights, op.dtype)
        held = inverse[col[weights > 0]]
        if not bool(((held > 0) & (held < np.inf)).all()):
            raise ValueError(f"the weights of the arcs that leave a vertex add up to what has no inverse in {op.dtype}")
        method = power_method.Recurrence(device, device.xp.zeros(n, op.dtype), inverse, op.launches, stops=True)
        self.x, self.state, self.numbers = method.x, method.state, method.numbers
        self._start = device.compile(method.start(inverse))
        self.iteration = Iteration(
            device,
            [[*method.product(), *method.vectors(now), *method.check()] for now in (0, 1)],
            self.state,
            self.numbers[power_method.CHANGES :],
            more=power_method.MORE,
            iterations=power_method.ITERATIONS,
            active=power_method.ACTIVE,
        )

    def set_up(self, damping: float, limit: float, most: int) -> None:
        """Runs the start: equal ranks."""
        state = np.zeros(power_method.STATE, np.int32)
        state[power_method.MOST], state[power_method.CHUNK_AT] = most, iteration.CHUNK
        self.state[...] = self._device.to_device(state)
        self.numbers[: power_method.CHANGES] = self._device.to_device(np.array([damping, limit]))
        self._start.run()
        self._device.synchronize()
