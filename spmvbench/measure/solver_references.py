"""Reference results of solvers with a fixed number of iterations, on the host by SciPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats import Csr
from spmvbench.formats.arrays import Array, on_host
from spmvbench.measure import verify
from spmvbench.measure.verify import Verdict
from spmvbench.solvers import primal_dual

CONVERGED = 1e-30  # of the norm of b: smaller residuals come near the smallest numbers of single precision


class Solved(NamedTuple):
    """The end of conjugate gradients. x: (n,), in the matrix's type. iterations: that were done. ended: why it ended
    before the last iteration, as the end of a sentence; empty if it did not.
    """

    x: np.ndarray
    iterations: int
    ended: str


def matrix_of(a: Csr, dtype: Any = np.float64) -> Any:
    """The matrix as SciPy's, with values of a type."""
    from scipy.sparse import csr_array

    return csr_array((a.values.astype(dtype, copy=False), a.col_idx, a.row_ptr), shape=a.shape)


def conjugate_gradients(a: Csr, b: np.ndarray, inverse_diagonal: np.ndarray, iterations: int) -> Solved:
    """Iterations of conjugate gradients from 0 with a Jacobi preconditioner, rounded as the device rounds.

    Vectors and products are of the type of `a`, scalar products are added up in float64. It ends before the last
    iteration if p^T A p is not positive, if a number is not finite, or if the norm of the residual falls below
    CONVERGED times that of b.

    Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, SIAM 2003, algorithm 9.1.
    """
    matrix, real = matrix_of(a, a.dtype), a.dtype.type
    x, r = np.zeros(len(b), a.dtype), b.astype(a.dtype)
    p = inverse_diagonal * r
    rho, limit = _dot(r, p), CONVERGED * math.sqrt(_dot(r, r))
    for k in range(iterations):
        q = matrix @ p
        pq = _dot(p, q)
        if not pq > 0 or not math.isfinite(rho / pq):
            return Solved(x, k, f"p^T A p is {pq:.3g} in iteration {k + 1}: the matrix is not positive definite")
        alpha = real(rho / pq)
        x, r = x + alpha * p, r - alpha * q
        if k + 1 < iterations and math.sqrt(_dot(r, r)) <= limit:
            return Solved(x, k + 1, f"conjugate gradients have converged after {k + 1} iterations: ask for fewer")
        z = inverse_diagonal * r
        rho, before = _dot(r, z), rho
        p = z + real(rho / before) * p
    return Solved(x, iterations, "")


def _dot(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.dot(x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)))


def residual_norm(matrix: Any, b: np.ndarray, x: np.ndarray) -> float:
    """The norm of b - A x in float64. matrix: from `matrix_of`."""
    with np.errstate(over="ignore", invalid="ignore"):  # of a wrong x: the norm is then infinite or NaN
        return float(np.linalg.norm(b.astype(np.float64) - matrix @ x.astype(np.float64)))


def residual_allowance(a: Csr, b: np.ndarray, x: np.ndarray, iterations: int) -> float:
    """What rounding adds to the norm of b - A x: `iterations` times eps times the norm of |A| |x| + |b|.

    In every iteration the residual and x are rounded once, and drift apart (Greenbaum, SIAM J. Matrix Anal. Appl.
    18(3), 1997).
    """
    size = abs(matrix_of(a)) @ np.abs(x.astype(np.float64)) + np.abs(b.astype(np.float64))
    return iterations * float(np.finfo(a.dtype).eps) * float(np.linalg.norm(size))


def page_ranks(
    a: Csr, firsts: Sequence[np.ndarray], inverse_weights: np.ndarray, damping: float, iterations: int, additions: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Iterations of PageRank from each of the ranks `firsts`, and bounds on the rounding errors of a device's: (n,),
    float64.

    a: entries are not negative; (i, j) is the weight of an arc from j to i. inverse_weights: as the device has them.
    additions: as `solvers.iteration.additions`, of the device's sum of dangling ranks.

    All terms are positive, so in each iteration a row of k entries has a relative error of at most (k + 4) u of the
    matrix's type, in any order of summation; the 4 covers p, the damping, the last addition and storing the rank. What
    all rows get alike has `additions` + 3 roundings of float64, u / 2 each for single precision and less. The errors of
    one iteration enter the next as ranks do, so that damping limits their sum. This computation in float64 has at most
    the same errors: its sum of dangling ranks is pairwise, with fewer roundings than `additions`. eps is 2 u, for both.
    """
    n = a.rows
    inverse = inverse_weights.astype(np.float64)
    dangling = inverse == 0
    local = (a.row_lengths + 4) * float(np.finfo(a.dtype).eps)
    of_all = (additions + 3) * float(np.finfo(np.float64).eps)
    matrix, solved = matrix_of(a), []
    for first in firsts:
        ranks, errors = first.astype(np.float64), np.zeros(n)
        for _ in range(iterations):
            # Sums along an axis of a matrix would be one after the other.
            held, lost = ranks[dangling].sum(), errors[dangling].sum()
            found = matrix @ (inverse[:, None] * np.stack([ranks, errors], axis=1))
            everywhere = (damping * held + (1 - damping)) / n
            ranks = damping * found[:, 0] + everywhere
            errors = damping * (found[:, 1] + lost / n) + local * ranks + of_all * everywhere
        solved.append((ranks, 1.01 * errors))  # terms of second order
    return solved


class PrimalDual:
    """Primal-dual hybrid gradient on the host, in float64, with a bound on what rounding changes.

    steps: (cols + rows,), float32, as `solvers.primal_dual.steps` gives them.

    An iteration is a resolvent in the metric M = [[D, -A^T], [-A, E]], where D and E hold one over the steps of columns
    and rows: it never moves two iterates apart (He and Yuan, SIAM J. Imaging Sci. 5(1), 2012). With STEP = t, M lies
    between 1 - t and 1 + t times diag(D, E). So the distance in the norm of diag(D, E) is at most sqrt((1 + t) /
    (1 - t)) times the sum over all iterations of the rounding errors of one, in that norm. An error d of x' enters y'
    through 2 A, which the steps bound by 2 |d|.
    """

    def __init__(self, a: Csr):
        self._a, matrix = a, matrix_of(a)
        self._matrix, self._size = matrix, abs(matrix)
        sums = [self._size.sum(axis=0), self._size.sum(axis=1)]
        self.steps = np.concatenate([primal_dual.steps(np.asarray(each)) for each in sums])
        self._counts = np.concatenate([np.bincount(a.col_idx, minlength=a.cols), a.row_lengths])

    def program(self, rng: np.random.Generator) -> np.ndarray:
        """C and then b, (cols + rows,), of a program whose solution has about half of the columns at 0."""
        cols = self._a.cols
        x, y, slack = (verify.both_signs(n, rng, np.dtype(np.float64)) for n in (cols, self._a.rows, cols))
        c = self._matrix.T @ y + np.where(x < 0, np.abs(slack), 0)
        return np.concatenate([c, self._matrix @ np.maximum(x, 0)]).astype(self._a.dtype)

    def iterates(self, given: np.ndarray, iterations: int) -> tuple[np.ndarray, float]:
        """X and then y after the last iteration, (cols + rows,), and the bound on the distance of a device's."""
        cols = self._a.cols
        step, exact = self.steps.astype(np.float64), given.astype(np.float64)
        found, most = np.zeros(len(given)), np.zeros(len(given))
        q = np.zeros(self._a.rows)
        for _ in range(iterations):
            g = self._matrix.T @ found[cols:]
            found[:cols] = np.maximum(found[:cols] - step[:cols] * (exact[:cols] - g), 0)
            q, before = self._matrix @ found[:cols], q
            found[cols:] += step[cols:] * (exact[cols:] - 2 * q + before)
            np.maximum(most, np.abs(found), out=most)
        products = np.concatenate([self._size.T @ most[cols:], 3 * (self._size @ most[:cols])])
        once = step * ((self._counts + 6) * products + 4 * np.abs(exact)) + 4 * most
        once *= float(np.finfo(self._a.dtype).eps)
        t = primal_dual.STEP
        of_one = 3 * self._norm(once[:cols], step[:cols]) + self._norm(once[cols:], step[cols:])
        return found, math.sqrt((1 + t) / (1 - t)) * iterations * of_one

    @staticmethod
    def _norm(difference: np.ndarray, step: np.ndarray) -> float:
        return float(np.linalg.norm(difference / np.sqrt(np.where(step > 0, step, 1))))

    def verdict(self, expected: np.ndarray, bound: float, y: Array) -> Verdict:
        """Judges x and y of a device by their distance from those of the host."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a wrong y: the norm is then infinite or NaN
            distance = self._norm(on_host(y).astype(np.float64) - expected, self.steps.astype(np.float64))
        ratio = distance / bound if math.isfinite(distance) else math.inf
        return Verdict(ratio, -1, distance, 0.0, bound, "distance of y from the host's")
