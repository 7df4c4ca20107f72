"""Right answers: y = A x in float64 on the host, and how far off an entry of y may be.

Every entry is held to its own bound. With k_i entries in row i and u = eps / 2 the unit roundoff of the values' type,
any order of summation, fused or not, gives an error of at most about k_i u (|A||x|)_i (Higham 2002, section 3.1). The
reference is wrong by as much at most (k_i u of float64), so k_i eps (|A||x|)_i covers both; the bound is
(k_i + 2) eps (|A||x|)_i, the 2 for second-order terms and for y being rounded once more where it is stored. Products
that underflow add half a subnormal each. A row without entries has the bound 0: its y is 0 exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spmvbench.devices.base import Device, Program
from spmvbench.formats.arrays import Csr
from spmvbench.formats.base import Format, Skip


@dataclass(frozen=True)
class Reference:
    """One x with its right answer. x: (cols,) in the matrix's type; y, bound: (rows,) float64."""

    x: np.ndarray
    y: np.ndarray
    bound: np.ndarray


@dataclass(frozen=True)
class Verdict:
    """The largest error over its bound (infinite for a NaN and for any error where the bound is 0), and its row."""

    ratio: float
    row: int
    found: float
    expected: float
    bound: float

    @property
    def right(self) -> bool:
        """Whether every entry is within its bound."""
        return self.ratio <= 1

    def __str__(self) -> str:
        return f"y[{self.row}] is {self.found:.9g}, expected {self.expected:.9g} within {self.bound:.3g}"


def references(a: Csr, seed: int, count: int = 2) -> list[Reference]:
    """`count` different x of both signs, uniform in (-1, 1), with their answers from the values as `a` stores them.

    Raises Skip where the matrix has no right answer in its type: entries that are not finite, sums that overflow.
    """
    from scipy.sparse import csr_array

    exact = csr_array((a.values.astype(np.float64, copy=False), a.col_idx, a.row_ptr), shape=a.shape)
    if not np.isfinite(exact.data).all():
        raise Skip(f"entries are not finite in {a.dtype}")
    magnitude = csr_array((np.abs(exact.data), exact.indices, exact.indptr), shape=a.shape)
    limits = np.finfo(a.dtype)
    found = []
    for index in range(count):
        x = np.random.default_rng((seed, index)).uniform(-1, 1, a.cols).astype(a.dtype)
        with np.errstate(over="ignore"):
            size = magnitude @ np.abs(x).astype(np.float64)
        if not (size <= limits.max).all():
            raise Skip(f"sums of the rows overflow {a.dtype}")
        bound = (a.row_lengths + 2) * float(limits.eps) * size + a.row_lengths * float(limits.smallest_subnormal)
        found.append(Reference(x, exact @ x.astype(np.float64), bound))
    return found


def judge(y: np.ndarray, reference: Reference) -> Verdict:
    """Compare y, (rows,), with its reference."""
    if not len(y):
        return Verdict(0.0, 0, math.nan, math.nan, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.abs(y.astype(np.float64) - reference.y)
        ratio = np.where(error == 0, 0.0, error / reference.bound)
    ratio[np.isnan(ratio)] = math.inf
    row = int(ratio.argmax())
    return Verdict(float(ratio[row]), row, float(y[row]), float(reference.y[row]), float(reference.bound[row]))


def run_and_judge(
    fmt: Format, program: Program, device: Device, x: Any, y: Any, checks: list[tuple[Any, Reference]]
) -> Verdict:
    """Run the program once for each check, on a y filled with NaN, and give the worst verdict.

    program: the launches of `fmt`, bound to x and y. checks: (x on the device, its reference), both in the matrix's
    order: where the format takes another, x is permuted before the run and y back after it.
    """
    verdicts = []
    for right_x, reference in checks:
        x[...] = fmt.ordered_x(right_x)
        y[...] = math.nan
        device.synchronize()
        program.run()
        device.synchronize()
        verdicts.append(judge(device.to_host(fmt.restored_y(y)), reference))
    return max(verdicts, key=lambda verdict: verdict.ratio)
