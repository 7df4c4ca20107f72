"""Rows in blocks of similar length, cut by dynamic programming, each in ELLPACK or CSR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spmvbench.formats.arrays import Csr, on_host
from spmvbench.formats.conversion import taken
from spmvbench.formats.csr.rows import CsrRows
from spmvbench.formats.ellpack.ellpack import EllRows
from spmvbench.formats.hybrid.split import Piece, Split
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register


class Block(NamedTuple):
    """The rows of more than `above` and up to `longest` entries."""

    above: int
    longest: int
    csr: bool  # or ELLPACK


def best_blocks(lengths: np.ndarray, rows: np.ndarray, csr: float, block: float) -> list[Block]:
    """The blocks of least cost, shortest rows first.

    lengths: (n,), ascending, the lengths that occur. rows: (n,), the rows of each. A slot of ELLPACK costs 1, an entry
    in CSR `csr`, and each block `block` besides.
    """
    n = len(lengths)
    upto = np.concatenate([[0], np.cumsum(rows)])
    entries = np.concatenate([[0], np.cumsum(rows * lengths)])
    cost, before = np.zeros(n + 1), np.zeros(n + 1, dtype=np.int64)
    is_csr = np.zeros(n + 1, dtype=bool)
    for end in range(1, n + 1):
        in_ell = (upto[end] - upto[:end]) * float(lengths[end - 1])
        in_csr = (entries[end] - entries[:end]) * csr
        total = cost[:end] + np.minimum(in_ell, in_csr)
        before[end] = begin = int(total.argmin())
        cost[end], is_csr[end] = total[begin] + block, in_csr[begin] < in_ell[begin]
    found, end = [], n
    while end:
        begin = int(before[end])
        found.append(Block(int(lengths[begin - 1]) if begin else 0, int(lengths[end - 1]), bool(is_csr[end])))
        end = begin
    return found[::-1]


@register
class CsrEllOptimal(Split):
    """Rows in blocks of similar length, each stored in ELLPACK or in CSR, cut by dynamic programming over the lengths.

    The cuts are those of least cost, where an entry in CSR costs `csr` slots of ELLPACK and each block costs `block`
    slots. Of the paper the abstract was read, which has the distribution of the lengths, the optimal cuts and both
    formats; the costs are our reading. Rows keep their order in a block.
    """

    key = "csr-ell-optimal"
    reference = "Yang, Li & Li, Journal of Computer and System Sciences 92, 2018"
    formats = (EllRows, CsrRows)

    csr = Parameter(1.25, "time of an entry in CSR over that of an ELLPACK slot", low=1.0)
    block = Parameter(500_000, "slots that a block costs besides its own", low=0)

    @classmethod
    def split(cls, a: Csr, *, csr: float, block: int) -> Iterator[Piece]:
        lengths, rows = (on_host(found) for found in a.xp.unique(a.row_lengths, return_counts=True))
        held = lengths > 0
        blocks = best_blocks(lengths[held].astype(np.int64), rows[held].astype(np.int64), csr, block)
        for above, longest, in_csr in blocks or [Block(0, 0, False)]:
            some = taken(a, above=above, upto=longest)
            yield Piece(f"{'csr' if in_csr else 'ell'}{longest}", CsrRows if in_csr else EllRows, some)
