"""Conjugate gradients: the format's launches and three kernels an iteration, stopped by the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.devices import Device
from spmvbench.devices.foreign import check_vector, given, moved
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

KERNEL = "solve/cg.cu"
MORE, ITERATIONS, MOST, BROKEN, CHUNK_AT, CONVERGED = (
    constant(KERNEL, name) for name in ("MORE", "ITERATIONS", "MOST", "BROKEN", "CHUNK", "CONVERGED")
)
STATE = CONVERGED + 1  # elements of the state
RELATIVE, ABSOLUTE, FIRST, RESIDUALS = (
    constant(KERNEL, name) for name in ("RELATIVE", "ABSOLUTE", "FIRST", "RESIDUALS")
)


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
    iteration before. Vectors have the operator's type, scalar products are added up in float64, the same in every run.
    On a GPU the iterations are a CUDA graph that the device repeats; the host looks once in 1,000. The operator keeps
    five vectors and the graph for the next call. It waits for the result.

    Raises TypeError for what is no operator and for complex b, ValueError for a matrix that is not square, for another
    length and for a diagonal that is not positive, UsageError for other values of the options, DeviceFault.

    Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, SIAM 2003, algorithm 9.1.
    """
    require_operator(op, "cg")
    if preconditioner not in ("jacobi", None):
        raise UsageError(f'preconditioner is "jacobi" or None, not {preconditioner!r}')
    n = op.shape[0]
    most = whole("maxiter", maxiter, min(10 * n, 2**31 - 1))
    tolerances = tolerance("rtol", rtol), tolerance("atol", atol)
    right, restore = given(b)
    check_vector("b", right, n)
    guess = None
    if x0 is not None:
        guess, _ = given(x0)
        check_vector("x0", guess, n)
    with own_stream(op.device):
        bound = op.kept(("cg", preconditioner), lambda: _Bound(op, jacobi=preconditioner is not None))
        bound.set_up(right, guess, most, *tolerances)
        state, residuals = bound.iteration.run()
        first = float(op.device.to_host(bound.numbers[FIRST : FIRST + 1])[0])
        x = moved(bound.x.copy(), array_module(right)).reshape(right.shape)
    info = -1 if state[BROKEN] else 0 if state[CONVERGED] else int(state[ITERATIONS])
    return Solution(restore(x), info, np.concatenate(([first], residuals)))


class Recurrence:
    """Vectors of the method on a device, and its launches around a product.

    x: (n,), where the solution is made. inverse_diagonal: (n,), all in the order of the product; empty: without a
    preconditioner. product: gives the launches of q = A p. stops: whether the device ends it, with a state.
    """

    def __init__(self, device: Device, x: Array, inverse_diagonal: Array, product: Product, *, stops: bool):
        n, xp, dtype = len(x), device.xp, x.dtype
        self.x, self.r, self.p, self.q = x, *(xp.zeros(n, dtype) for _ in range(3))
        self.state, self.numbers = xp.zeros(STATE, np.int32), xp.zeros(RESIDUALS + CHUNK, np.float64)
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


class _Bound:
    """Vectors and launches of an operator's solver, made once."""

    def __init__(self, op: Operator, *, jacobi: bool):
        device, n = op.device, op.shape[0]
        xp, dtype = device.xp, op.dtype
        self._device = device
        inverse = inverse_diagonal(op.diagonal(), dtype) if jacobi else xp.zeros(0, dtype)
        method = Recurrence(device, xp.zeros(n, dtype), inverse, op.launches, stops=True)
        self.x, self.r, self.state, self.numbers = method.x, method.r, method.state, method.numbers
        self._starts = [device.compile(method.start(self.r, with_guess=guess)) for guess in (False, True)]
        self.iteration = Iteration(
            device,
            [[*method.product(), *method.vectors(now)] for now in (0, 1)],
            self.state,
            self.numbers[RESIDUALS:],
            more=MORE,
            iterations=ITERATIONS,
            active=0,
        )

    def set_up(self, b: Array, guess: Array | None, most: int, rtol: float, atol: float) -> None:
        """Runs the start: a state from which the iteration goes on, or that is the end."""
        to_device = self._device.to_device
        n = len(self.x)
        self.r[...] = moved(b, self._device.xp).reshape(n)
        if guess is not None:
            self.x[...] = moved(guess, self._device.xp).reshape(n)
        state, numbers = np.zeros(STATE, np.int32), np.zeros(RESIDUALS)
        state[MOST], state[CHUNK_AT] = most, CHUNK
        numbers[RELATIVE], numbers[ABSOLUTE] = rtol, atol
        self.state[...], self.numbers[:RESIDUALS] = to_device(state), to_device(numbers)
        self._starts[guess is not None].run()
        self._device.synchronize()


def inverse_diagonal(diagonal: Array, dtype: np.dtype) -> Array:
    """One over the diagonal. Raises ValueError if an element is not positive."""
    bad = int((~(diagonal > 0)).sum())
    if bad:
        raise ValueError(
            f"{bad:,} of {len(diagonal):,} elements of the diagonal are not positive, so the matrix is not positive "
            "definite and has no Jacobi preconditioner"
        )
    return (1 / diagonal).astype(dtype)
