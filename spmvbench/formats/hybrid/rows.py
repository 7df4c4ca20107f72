"""Hybrids that assign whole rows: short ones to ELLPACK, long ones to CSR."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from spmvbench.formats.arrays import Csr
from spmvbench.formats.conversion import Run, device_limits, notes, rows_by_length, runner, summing, taken
from spmvbench.formats.csr.rows import CONVERT, CsrPieces, CsrRows, listed_rows
from spmvbench.formats.ellpack.ellpack import EllRows
from spmvbench.formats.ellpack.sell_convert import WARP, Slices
from spmvbench.formats.hybrid.split import Made, Piece, Split
from spmvbench.formats.launches import ctype
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

WIDEST = 64  # entries of the longest rows that classes of `Shec` tell apart: few enough to count in Python


@register
class CsrEllWarp(Split):
    """Rows of up to 32 entries in ELLPACK, one thread per row; longer rows in CSR, one warp per row.

    Each part holds its own rows alone, with the list of them: our reading, for the survey does not say whether ELLPACK
    keeps places for the long rows.
    """

    key = "csr-ell-warp"
    survey_name = "CSR + ELL [75]"
    reference = "Maringanti, Athavale & Patkar, HiPC 2009"
    formats = (EllRows, CsrRows)

    @classmethod
    def split(cls, a: Csr, **params: Any) -> Iterator[Piece]:
        yield Piece("ell", EllRows, taken(a, upto=WARP))
        yield Piece("csr", CsrRows, taken(a, above=WARP), {"lanes": WARP, "step": 1})


def power_of_two(least: float) -> int:
    """The smallest power of two that is at least `least`."""
    return 1 << max(math.ceil(least) - 1, 0).bit_length()


@register
class CsrEllMatam(Split):
    """Short rows in ELLPACK, one thread per row; long rows in CSR, in pieces with 1 to 32 threads by length.

    Three thresholds bound the work of a thread and of a warp and say what is short. That there are three, and that all
    rows may go to one of the two parts, is the survey's; the rest is our reading. A row is short up to a power of two,
    at least mean and deviation of the lengths, from 4 to 64; a piece has up to 256 entries, and as many threads as
    leave each 8; all rows are ELLPACK where the longest has at most 1.25 times the mean, and CSR where less than a
    tenth of them is short. The pieces of a row meet in y by atomics.
    """

    key = "csr-ell-matam"
    survey_name = "CSR + ELL [76]"
    reference = "Matam & Kothapalli, ICPP 2011"
    formats = (EllRows, CsrPieces)

    per_thread = Parameter(8, "entries of a piece for each of its threads", low=1)
    per_warp = Parameter(256, "most entries of a piece", low=1)

    @classmethod
    def split(cls, a: Csr, *, per_thread: int, per_warp: int) -> Iterator[Piece]:
        lengths, mean = a.row_lengths, a.row_len_mean
        limit = min(max(power_of_two(mean + float(lengths.std()) if a.rows else 0), 4), 64)
        if a.row_len_max <= 1.25 * mean:
            limit = a.row_len_max
        elif int((lengths <= limit).sum()) < 0.1 * a.rows:
            limit = 0
        yield Piece("ell", EllRows, taken(a, upto=limit))
        yield Piece("csr", CsrPieces, taken(a, above=limit), {"per_thread": per_thread, "per_warp": per_warp})


class Class(NamedTuple):
    """Rows of more than `low` entries and up to `high`, to be stored alike."""

    low: int
    high: int
    ell: bool


def by_classes(
    a: Csr, found: np.ndarray, bounds: Sequence[tuple[int, int]], ell: Sequence[bool], run: Run
) -> Iterator[tuple[dict[str, Any], int]]:
    """The fields of `EllRows` if `ell` says so, of `CsrRows` if not, and their entries, for classes of rows.

    By kernels, without a wait. bounds: a class has rows of more entries than the first number and at most the second,
    from which the next goes on, at 64 at most. found: as `rows_by_length` gives it, (longest + 1,) or fewer; the last
    class has all rows that are longer.
    """
    xp, index, short = a.xp, ctype(a.row_ptr), found[: WIDEST + 1].tolist()
    rows = [sum(short[low + 1 : high + 1]) for low, high in bounds]
    entries = [sum(n * short[n] for n in range(low + 1, high + 1)) for low, high in bounds[:-1]]
    rows[-1] = a.rows - sum(short[: bounds[-1][0] + 1])
    entries.append(a.nnz - sum(entries))
    places, n = xp.empty(sum(rows), dtype=np.int32), len(bounds) * a.rows
    ends = np.uint64(sum(1 << high - 1 for _, high in bounds[:-1]))
    args = (np.int64(n), np.int32(a.rows), ends, a.row_ptr, places)
    run(summing(CONVERT, f"rows_of_classes<{index}>", args, notes(xp, n)))
    begins = [0, *accumulate(rows)]
    for (begin, end), (low, high), is_ell, nnz in zip(pairwise(begins), bounds, ell, entries, strict=True):
        listed = places[begin:end]
        if is_ell:
            longest = max(length for length in range(low, high + 1) if short[length])
            s = Slices.whole(a, perm=listed)
            s = s._replace(slots=longest * s.height)
            yield EllRows.filled(a, EllRows.layout(a), s), nnz
        else:
            yield CsrRows.convert(a) if nnz == a.nnz else listed_rows(a, listed, nnz, run), nnz


@register
class Shec(Split):
    """Rows in classes by length, each in ELLPACK if that pads little, else in CSR with threads per row by length.

    Classes double in length, up to 64 entries and beyond. One of fewer than `least_rows` rows joins the next longer. A
    class is ELLPACK where its rows have up to 32 entries and padding takes a quarter more slots at most; else it is
    halved at its median once, and the halves are tried. All of that, and a launch per class, is our reading: the survey
    mentions segments of similar rows, stored in either way, and that launches mind the occupancy.
    """

    key = "shec"
    survey_name = "SHEC"
    reference = "Feng, Jin, Zheng, Shao & Zhu, CCPE 26(1), 2014"
    formats = (EllRows, CsrRows)

    least_rows = Parameter(0, "fewer rows join the next longer class; 0: 128 for each multiprocessor", low=0)

    @classmethod
    def classes(cls, found: np.ndarray, least_rows: int) -> list[Class]:
        """The classes of a matrix with found[n] rows of n entries, those without entries left out; by length."""
        longest, short = len(found) - 1, found[: WIDEST + 1].tolist()
        bounds, low = [], 0
        for high in (1, 2, 4, 8, 16, 32, WIDEST, longest):
            if high >= longest or sum(short[low + 1 : high + 1]) >= least_rows:
                bounds.append((low, min(high, longest)))
                low = bounds[-1][1]
            if low >= longest:
                break
        made = []
        for low, high in bounds:
            if high <= 32 and (rows := list(accumulate(short[low + 1 : high + 1]))) and rows[-1]:
                middle = low + 1 + bisect_left(rows, rows[-1] / 2)
                whole = cls.pads_little(short, low, high)
                if whole or middle == high:
                    made.append(Class(low, high, whole))
                else:
                    made += [Class(*half, cls.pads_little(short, *half)) for half in ((low, middle), (middle, high))]
            else:
                made.append(Class(low, high, False))
        return made

    @staticmethod
    def pads_little(found: Sequence[int], low: int, high: int) -> bool:
        """Whether ELLPACK of these rows has at most a quarter more slots than entries."""
        lengths = [length for length in range(low + 1, high + 1) if found[length]]
        rows, entries = sum(found[n] for n in lengths), sum(n * found[n] for n in lengths)
        return max(lengths, default=0) * rows <= 1.25 * entries

    @classmethod
    def split(cls, a: Csr, *, least_rows: int) -> Iterator[Piece]:
        run = runner(a)
        found = rows_by_length(a, run)
        classes = cls.classes(found, least_rows or 128 * device_limits(a).multiprocessors)
        if not classes:
            yield Piece("ell_0", EllRows, a)
        # Counts do not tell all rows of the last class apart.
        bounds = [(low, high if high < len(found) - 1 else a.row_len_max) for low, high, _ in classes]
        held = iter(() if run is None else by_classes(a, found, bounds, [c.ell for c in classes], run))
        for (low, high, ell), (_, last) in zip(classes, bounds, strict=True):
            name, part = (f"ell_{last}", EllRows) if ell else (f"csr_{last}", CsrRows)
            lanes = {} if ell else {"lanes": min(max(power_of_two(high) // 4, 1), 32)}
            if run is None:
                yield Piece(name, part, taken(a, above=low, upto=last), lanes)
            else:
                fields, nnz = next(held)
                yield Piece(name, part, Made(part.holding(a.shape, fields, **lanes), nnz))
