"""Solvers of a fixed number of iterations as a list of launches, which is timed like a product."""

from __future__ import annotations

from spmvbench.devices import Device
from spmvbench.formats import Format, Launch
from spmvbench.formats.arrays import Array, inverse
from spmvbench.formats.launches import Step, in_part
from spmvbench.formats.ordered import Ordered, gather
from spmvbench.formats.vectors import in_order, orders
from spmvbench.solvers import conjugate_gradients, power_method, primal_dual
from spmvbench.solvers.iteration import Product
from spmvbench.solvers.primal_dual import SPMV, VECTORS

DAMPING = 0.85


def cg_steps(fmt: Format, b: Array, x: Array, inverse_diagonal: Array, iterations: int, device: Device) -> list[Step]:
    """The launches of `iterations` iterations of conjugate gradients from 0, with a Jacobi preconditioner.

    fmt: a square matrix on the device. b: (n,), the right side, in the order `fmt.x_order`. x: (n,), the solution, in
    the order `fmt.y_order`. inverse_diagonal: (n,), in the matrix's order. Every iteration does the same work, whether
    it has converged or not. The launches of products are the part ``spmv``, all others the part ``vectors``.
    """
    frame = _Frame(fmt, b, x, device)
    method = conjugate_gradients.Recurrence(
        device, frame.result, frame.placed(inverse_diagonal), frame.product, stops=False
    )
    return frame.framed(method, method.start(frame.given, with_guess=False), iterations)


def pagerank_steps(
    fmt: Format, first: Array, x: Array, inverse_weights: Array, iterations: int, device: Device
) -> list[Step]:
    """The launches of `iterations` iterations of PageRank with a damping of 0.85, from the ranks `first`.

    As `cg_steps`. fmt: entry (i, j) is the weight of an arc from j to i. inverse_weights: (n,), as
    `power_method.inverse_weights` gives them, in the matrix's order.
    """
    frame = _Frame(fmt, first, x, device)
    method = power_method.Recurrence(device, frame.result, frame.placed(inverse_weights), frame.product, stops=False)
    method.numbers[:1] = DAMPING
    return frame.framed(method, method.start(frame.given), iterations)


def pdhg_steps(fmt: Format, given: Array, found: Array, steps: Array, iterations: int) -> list[Step]:
    """The launches of `iterations` iterations of `primal_dual.Recurrence` from 0.

    fmt: a matrix on the device, in whose order both vectors of a product are. given: (cols + rows,), c and then b.
    found: (cols + rows,), x and then y. steps: (cols + rows,). Launches are of the parts of `primal_dual`.
    """
    n = fmt.shape[1]
    each = [(vector[:n], vector[n:]) for vector in (found, given, steps)]
    method = primal_dual.Recurrence(*each[0], *each[1], each[2], fmt.launches, fmt.transposed)
    return method.start + iterations * method.iteration


class _Frame:
    """The order in which a solver works: the format's, if x and y have the same one, else the matrix's.

    given, result: what the solver reads and makes, in that order. product: gives the launches of a product in it.
    """

    def __init__(self, fmt: Format, given: Array, result: Array, device: Device):
        x_order, y_order = orders(fmt)
        xp = device.xp
        equal = x_order is y_order or (x_order is not None and y_order is not None and bool((x_order == y_order).all()))
        self._order = x_order if equal else None
        self.given, self.result = given, result
        self.product: Product = fmt.launches if equal else Ordered(fmt).launches
        self._before: list[Launch] = []
        self._after: list[Launch] = []
        if not equal and x_order is not None:
            self.given = xp.empty_like(given)
            self._before = [gather(inverse(x_order), given, self.given)]
        if not equal and y_order is not None:
            self.result = xp.empty_like(result)
            self._after = [gather(y_order, self.result, result)]

    def placed(self, vector: Array) -> Array:
        """A vector in the matrix's order, in the solver's."""
        return in_order(vector, self._order)

    def framed(
        self,
        method: conjugate_gradients.Recurrence | power_method.Recurrence,
        start: list[Step],
        iterations: int,
    ) -> list[Step]:
        """All launches in order."""
        # Bound once: a library's product makes descriptors and a buffer each time.
        product = in_part(SPMV, method.product())
        halves = [in_part(VECTORS, method.vectors(now)) for now in (0, 1)]
        found = in_part(VECTORS, [*self._before, *start])
        for k in range(iterations):
            found += [*product, *halves[k % 2]]
        return [*found, *in_part(VECTORS, self._after)]
