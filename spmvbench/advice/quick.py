"""A choice at little cost: numbers that one kernel finds in a matrix, and a forest of a few comparisons on them.

The forest predicts the logarithm of each format's slowdown, the time of the conversion and of N products over that of
the best format, from the numbers and from N; if N is not known, its mean over several. A tree before it sees the sizes
and N alone: it chooses a format, or that the numbers are worth the time of finding them. Both are trained on published
rows: `publishing.auto`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log2
from pathlib import Path
from threading import get_ident
from typing import Any, NamedTuple, Self

import numpy as np

from spmvbench import formats, paths
from spmvbench.advice import model
from spmvbench.advice.features import LARGE
from spmvbench.errors import SpmvbenchError
from spmvbench.formats.arrays import Array, Csr, cdiv, ordinal
from spmvbench.formats.conversion import runner
from spmvbench.formats.format import Format
from spmvbench.formats.kernels import constant
from spmvbench.formats.launches import Launch, ctype

SOURCE = "row_numbers.cu"
BLOCK, MIXING = constant(SOURCE, "NUMBERS_BLOCK"), constant(SOURCE, "MIXING")
WARP = constant("include/spmv.cuh", "WARP")
PROBES = BLOCK // WARP
COUNTS = 8  # numbers that the kernel finds
SAMPLES = 512  # rows of a sample, at most
BLOCKS = 1024  # that read the row pointers of a large matrix
UNKNOWN = -20.0  # in place of log2 of the number of products; far from these, so that one comparison tells it apart
STEPS = 1000  # of a unit of the natural logarithm, in which slowdowns are stored; 60 made formats equals that are not


class Numbers(NamedTuple):
    """Numbers of a matrix, named as the columns of a row; the last three are estimates from a sample of the rows."""

    rows: int
    cols: int
    nnz: int
    row_len_max: int
    row_len_cv: float
    empty_rows: int
    ell_fill: float
    contiguous_run_mean: float
    repeated_row_share: float
    full_diagonal_share: float

    @classmethod
    def of(cls, a: Csr) -> Self:
        """Of a matrix with entries: by one kernel and one wait on a GPU. The matrix keeps its longest row."""
        samples = min(a.rows, SAMPLES)
        longest, squares, empty, widths, sampled, runs, repeated, on_diagonals = counts(a, samples)
        a.__dict__["row_len_max"] = longest
        variation = max(squares * a.rows / a.nnz**2 - 1, 0.0) ** 0.5
        return cls(
            *a.shape,
            a.nnz,
            longest,
            variation,
            empty,
            a.nnz / (WARP * widths),
            sampled / max(runs, 1),
            repeated / samples,
            on_diagonals / max(sampled, 1),
        )

    @classmethod
    def of_row(cls, columns: Mapping[str, Any]) -> Self:
        """From the columns of a row."""
        return cls(*(columns[name] for name in cls._fields))

    def features(self, spmvs: float) -> list[float]:
        """What the forest compares, for so many products; 0: not known."""
        return [*of_sizes(self.rows, self.cols, self.nnz, spmvs), *self.described()]

    def described(self) -> list[float]:
        """The features that the sizes do not give."""
        return [
            log2(self.row_len_cv + 0.01),
            log2(self.row_len_max),
            log2(self.row_len_max * self.rows / self.nnz),
            self.empty_rows / self.rows,
            self.ell_fill,
            log2(self.row_len_max / (self.nnz + LARGE)),  # see `advice.features`
            log2(max(self.contiguous_run_mean, 1.0)),
            self.repeated_row_share,
            self.full_diagonal_share,
        ]


SIZES = 5  # features that the sizes give, the first of all
LONGEST = SIZES + 1  # the feature that is the logarithm of the longest row
ROWS = 2  # the feature that falls by one if there are half as many rows, each twice as long
PER_ROW = [3, 4, LONGEST, SIZES + 5]  # those that rise by one then


def of_sizes(rows: int, cols: int, nnz: int, spmvs: float) -> list[float]:
    """The features that the sizes give, and what the tree compares; that of the products is the first."""
    return [log2(spmvs) if spmvs else UNKNOWN, log2(nnz), log2(rows), log2(cols / rows), log2(nnz / rows)]


def counts(a: Csr, samples: int) -> list[int]:
    """The longest row, the sum of the squares of the rows' lengths, empty rows, and the longest rows of each 32, added
    up; of the sample its entries, runs of neighbouring columns, rows like the one before, entries on full diagonals.

    The sample is of as many stretches of 32 entries as of rows, of which the first 32 entries are compared. A diagonal
    is full if half of PROBES rows have an entry on it.
    """
    rows, cols = a.shape
    rows_apart, apart = rows // samples, max(a.nnz // samples, 1)
    if run := runner(a):
        index, int32 = a.row_ptr.dtype.type, np.int32
        sizes = int32(rows), int32(cols), int32(samples), int32(rows_apart), index(a.nnz), index(apart)
        grid = max(samples, min(cdiv(rows, BLOCK), BLOCKS))
        on_device = a.xp is not np
        words = _words(ordinal(a.values) if on_device else None, get_ident())
        args = (*sizes, a.row_ptr, a.col_idx, words.sums, words.found)
        try:
            run(Launch(SOURCE, f"row_numbers<{ctype(a.row_ptr)}>", grid, BLOCK, args))
            if on_device:
                a.xp.cuda.get_current_stream().synchronize()
        except BaseException:
            _words.cache_clear()  # the sums may not be zero
            raise
        of_all: list[int] = words.read.tolist()
        return of_all
    lengths = a.row_lengths.astype(np.int64)
    widths = np.maximum.reduceat(lengths, np.arange(0, rows, WARP))
    sample, lane = np.arange(samples)[:, None], np.arange(WARP)
    mixed = sample * MIXING % 2**32
    at = sample * apart + mixed % apart + lane
    inside = at < a.nnz
    at, shift = at[inside], np.broadcast_to(mixed, at.shape)[inside]
    row, column = np.searchsorted(a.row_ptr, at, side="right") - 1, a.col_idx[at].astype(np.int64)
    starts = (at == a.row_ptr[row]) | (a.col_idx[at - 1] + 1 != column)
    diagonal = column - row
    first = np.maximum(-diagonal, 0)
    crossed = np.minimum(rows, cols - diagonal) - first
    hits = np.zeros(len(at), dtype=np.int64)
    for probe in range(PROBES):
        other = first + (probe * crossed + shift % crossed) // PROBES
        hits += _has_entries(a, other, other + diagonal)
    lower = (sample * rows_apart + mixed % rows_apart)[:, 0]
    alike = (lower > 0) & (lengths[lower] > 0) & (lengths[lower] == lengths[lower - 1])
    lower = lower[alike]
    compared = lane < lengths[lower][:, None]
    here, above = (np.where(compared, a.row_ptr[at][:, None] + lane, 0) for at in (lower, lower - 1))
    repeated = np.count_nonzero((a.col_idx[here] == a.col_idx[above]).all(axis=1))
    of_rows = lengths.max(), lengths @ lengths, rows - np.count_nonzero(lengths), widths.sum()
    of_sample = len(at), np.count_nonzero(starts), repeated, np.count_nonzero(2 * hits >= PROBES)
    return [int(number) for number in (*of_rows, *of_sample)]


class Words(NamedTuple):
    """Memory of one thread for the kernel, used again: to allocate, set to zero and copy takes as long as the kernel.

    sums: (COUNTS + 1,), of the device, zero. found: (COUNTS,), of the host, as the device's array. read: as NumPy's.
    """

    sums: Array
    found: Array
    read: np.ndarray


@cache
def _words(gpu: int | None, thread: int) -> Words:
    """Of a GPU, or without one of NumPy's arrays."""
    if gpu is None:
        found = np.zeros(COUNTS, np.uint64)
        return Words(np.zeros(COUNTS + 1, np.uint64), found, found)
    import cupy

    size = COUNTS * np.dtype(np.uint64).itemsize
    memory = cupy.cuda.alloc_pinned_memory(size)
    pointer = cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(memory.ptr, size, memory, gpu), 0)
    sums = cupy.zeros(COUNTS + 1, np.uint64)
    return Words(sums, cupy.ndarray(COUNTS, np.uint64, pointer), np.frombuffer(memory, np.uint64, COUNTS))


def _has_entries(a: Csr, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Whether there are entries at places of the matrix, by bisection of all rows at once."""
    low, high = (a.row_ptr[at].astype(np.int64) for at in (row, row + 1))
    end = high
    while (searching := low < high).any():
        middle = np.where(searching, (low + high) // 2, 0)
        less = searching & (a.col_idx[middle] < column)
        low, high = np.where(less, middle + 1, low), np.where(searching & ~less, middle, high)
    inside = low < end
    found: np.ndarray = inside & (a.col_idx[np.where(inside, low, 0)] == column)
    return found


Node = tuple[int, float, "Node | None", "Node | None"]  # what it compares, and the next; in a leaf its number, and none


def _leaf(node: Node, features: Sequence[float]) -> int:
    """The number of the leaf. Python goes through nested tuples in a tenth of the time that arrays take for so few."""
    feature, threshold, left, right = node
    while left and right:
        feature, threshold, left, right = left if features[feature] <= threshold else right
    return int(threshold)


@dataclass(frozen=True, eq=False)
class Chooser:
    """A tree of the sizes and a forest of regression trees, whose leaves have the slowdown of every format.

    labels: the K formats. feature, threshold: (nodes,), what a node compares; feature is -1 in a leaf. left, right:
    (nodes,), the next node if the feature is at most the threshold, and if it is above. slowdown: (nodes, K + 1), in
    STEPS, the mean of the natural logarithms; the last is that of looking, 0 in the forest. roots: (trees + 1,), that
    of the tree of the sizes last. about: runs and what choosing takes, JSON values.
    """

    labels: tuple[str, ...]
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    slowdown: np.ndarray
    roots: np.ndarray
    about: dict[str, Any]

    @cached_property
    def _trees(self) -> list[Node]:
        nodes: list[Node] = [(0, k, None, None) for k in range(len(self.feature))]
        compared = np.flatnonzero(self.feature >= 0).tolist()
        parts = (part.tolist() for part in (self.feature, self.threshold, self.left, self.right))
        feature, threshold, left, right = parts
        for k in reversed(compared):  # the next nodes come later in the arrays
            nodes[k] = feature[k], threshold[k], nodes[left[k]], nodes[right[k]]
        return [nodes[root] for root in self.roots.tolist()]

    @cached_property
    def _leaves(self) -> list[list[int]]:
        """The slowdowns of each node, without that of looking."""
        found: list[list[int]] = self.slowdown[:, :-1].tolist()
        return found

    @cached_property
    def _by_sizes(self) -> list[tuple[bool, list[str]]]:
        """`by_sizes` of each node of the tree."""
        orders = self.slowdown[self.roots[-1] :].argsort(axis=1, kind="stable").tolist()
        looking = len(self.labels)
        return [(order[0] == looking, [self.labels[k] for k in order if k < looking]) for order in orders]

    def by_sizes(self, sizes: Sequence[float]) -> tuple[bool, list[str]]:
        """Whether the numbers save more than finding them takes, and the labels from the best on without them."""
        return self._by_sizes[_leaf(self._trees[-1], sizes) - int(self.roots[-1])]

    def ranked(self, features: Sequence[float]) -> Iterator[str]:
        """The labels from the best on, by the mean of the trees. For so few NumPy, or to sort them, takes longer."""
        sums = list(map(sum, zip(*(self._leaves[_leaf(tree, features)] for tree in self._trees[:-1]), strict=True)))
        best = sums.index(min(sums))
        yield self.labels[best]
        yield from (self.labels[k] for k in sorted(range(len(sums)), key=sums.__getitem__) if k != best)

    @property
    def digest(self) -> str:
        """A hash of what chooses."""
        found = hashlib.sha256(" ".join(self.labels).encode())
        for name in ARRAYS:
            array = getattr(self, name)
            found.update(f"{name} {array.dtype.str} {array.shape} ".encode() + array.tobytes())
        return found.hexdigest()

    def save(self, path: Path) -> None:
        """Write it to a NumPy archive that `chooser` reads."""
        about = json.dumps({"labels": self.labels, **self.about})
        np.savez_compressed(path, about=np.array(about), **{name: getattr(self, name) for name in ARRAYS})


ARRAYS = ("feature", "threshold", "left", "right", "slowdown", "roots")


def path() -> Path:
    """The file of the forest that ships."""
    return paths.configs() / "auto.npz"


@cache
def chooser() -> Chooser:
    """The forest that ships. Raises OSError if there is none, SpmvbenchError for a damaged file."""
    about, arrays = model.stored(path())
    try:
        return Chooser(tuple(about.pop("labels")), **{name: arrays[name] for name in ARRAYS}, about=about)
    except KeyError as error:
        raise SpmvbenchError(f"{path()} is no model: {error}") from None


def ranked(a: Csr, spmvs: float) -> Iterator[str]:
    """The candidates for a matrix with entries from the best on. The matrix keeps its numbers, if they were found."""
    looks, labels = chooser().by_sizes(of_sizes(*a.shape, a.nnz, spmvs))
    if not looks:
        return iter(labels)
    kept: dict[str, Any] = a.__dict__
    if (numbers := kept.get("numbers")) is None:
        numbers = kept["numbers"] = Numbers.of(a)
    return chooser().ranked(numbers.features(spmvs))


@cache
def parsed(label: str) -> tuple[type[Format], dict[str, Any]]:
    """A format by its label, and the value of every parameter."""
    ((cls, params),) = formats.parse(label)
    return cls, cls.resolve(params)
