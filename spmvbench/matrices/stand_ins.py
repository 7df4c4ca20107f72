"""Stand-ins: generated matrices with the facts that papers and the collection's index give of a matrix not at hand.

A stand-in is not the matrix. It has its rows, columns and stored entries, row lengths of the same least, mean and
largest value and spread, and quartiles if those are known, its dense blocks or diagonals if they follow from the
numbers, and the locality that is usual for its kind of problem. `configs/stand_ins.csv` holds the facts, and the files
of SPMVBENCH_FACTS, as `spmvbench import` writes them, hold more. docs/matrices.md says how well times agree.
"""

from __future__ import annotations

import csv
import itertools
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats.arrays import offsets
from spmvbench.matrices.structures import Structure, grid, register

FACTS = paths.configs() / "stand_ins.csv"
FILE = "facts.csv"  # of an imported run

# Kinds of the index whose matrices couple points in space that are near each other in the numbering.
_SPATIAL = ("structural", "fluid", "2D/3D", "electromagnetics", "thermal", "acoustics", "materials", "model reduction")
_SPREAD = 0.3  # spread of the row lengths over their mean is about this times sqrt(longest / mean - 1)
_LONG = 25  # mean row length from which problems in space have several unknowns per node
_GROUP = 16  # neighbouring points with the same displacement of their neighbours, in meshes without a regular grid
# Of a kind whose name contains the word: longest over mean row length if unknown, and the share of the entries whose
# distance from the diagonal is log-uniform; the others prefer columns as rows are long. Medians of matrices at hand.
_USUAL = {
    "undirected graph": (30.0, 0.4),
    "directed": (70.0, 0.4),
    "graph": (10.0, 0.5),
    "circuit": (100.0, 0.9),
    "power network": (7.0, 0.9),
    "": (10.0, 0.6),
}


@dataclass(frozen=True)
class Facts:
    """What is known of a matrix. entries: stored ones; spatial: 2D or 3D, by the index; None: unknown.

    row_len_min, row_len_max, row_len_std and bandwidth are as in rows.schema; q1, median and q3 are quartiles, those
    that begin with col_len the same of columns.
    """

    matrix: str
    rows: int
    cols: int
    entries: int
    pattern_symmetry: float
    spatial: bool
    kind: str
    source: str
    row_len_min: int | None = None
    row_len_max: int | None = None
    row_len_std: float | None = None
    bandwidth: int | None = None
    row_len_q1: float | None = None
    row_len_median: float | None = None
    row_len_q3: float | None = None
    col_len_min: int | None = None
    col_len_q1: float | None = None
    col_len_median: float | None = None
    col_len_q3: float | None = None
    col_len_max: int | None = None
    col_len_std: float | None = None

    @property
    def mean(self) -> float:
        """Entries per row."""
        return self.entries / self.rows

    @property
    def of_columns(self) -> Facts:
        """The facts of the transpose: what is known of columns in place of rows."""
        of_cols = {f"row_{name}": getattr(self, f"col_{name}") for name in _LENGTHS}
        return replace(self, rows=self.cols, cols=self.rows, **of_cols)

    @property
    def is_mesh(self) -> bool:
        """Whether the kind says that neighbours in space are coupled."""
        return self.rows == self.cols and (self.spatial or any(word in self.kind for word in _SPATIAL))


_LENGTHS = ("len_min", "len_q1", "len_median", "len_q3", "len_max", "len_std")
_FIELDS = {field.name: str(field.type).partition(" |")[0] for field in fields(Facts)}


def data() -> tuple[Path, ...]:
    """The files of facts: configs/stand_ins.csv, then those of SPMVBENCH_FACTS. Part of the generator's hash.

    Raises UsageError for a name that is neither a file nor a folder with one.
    """
    found = [FACTS]
    for name in filter(None, os.environ.get("SPMVBENCH_FACTS", "").split(os.pathsep)):
        path = Path(name).expanduser()
        found.append(path / FILE if path.is_dir() else path)
        if not found[-1].is_file():
            raise UsageError(
                f"SPMVBENCH_FACTS names {name}, which is no file of facts and no folder of an imported run"
            )
    return tuple(found)


DATA = data


def known() -> dict[str, Facts]:
    """The facts by ``group/name``. Of a matrix in several files the first counts; the others fill what it lacks, if
    they have the same rows and entries. Raises UsageError for a file that holds other than facts.
    """
    return _known(data())


@cache
def _known(files: tuple[Path, ...]) -> dict[str, Facts]:
    found: dict[str, Facts] = {}
    for path in files:
        with open(path, newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                try:
                    about = _parsed(row)
                except (ValueError, KeyError, TypeError, OverflowError) as error:
                    raise UsageError(f"line {number} of {path} holds no facts of a matrix: {error}") from None
                first = found.setdefault(about.matrix, about)
                if (first.rows, first.cols, first.entries) == (about.rows, about.cols, about.entries):
                    lacking = {name: getattr(about, name) for name in _FIELDS if getattr(first, name) is None}
                    found[about.matrix] = replace(first, **lacking)
    return found


def _parsed(row: dict[str, str]) -> Facts:
    """A line of a file. Raises ValueError, KeyError, TypeError and OverflowError."""
    values: dict[str, Any] = {"spatial": row["spatial"] == "yes"}
    for name, kind in _FIELDS.items():
        text = row.get(name) or ""
        if kind == "str":
            values[name] = text
        elif kind != "bool":
            number = float(text) if text else None
            if number is not None and not 0 <= number < 2**62:
                raise ValueError(f"{name} is {text}")
            values[name] = number if kind == "float" or number is None else int(number)
    if not values["matrix"] or None in (values["rows"], values["cols"], values["entries"], values["pattern_symmetry"]):
        raise ValueError("a name or a size is missing")
    if not values["rows"] * values["cols"] >= values["entries"] > 0:
        raise ValueError("its entries do not fit its size")
    return Facts(**values)


def facts(name: str) -> Facts:
    """The facts of ``group/name``; followed by ``:index``, those of the index alone. Raises UsageError."""
    matrix, colon, part = name.partition(":")
    found = known().get(matrix)
    if found is None or (colon and part != "index"):
        hint = did_you_mean(matrix, list(known())) or ""
        raise UsageError(f"no facts are known of {name!r} to generate a stand-in from{hint}")
    if not colon:
        return found
    return Facts(
        found.matrix, found.rows, found.cols, found.entries, found.pattern_symmetry, found.spatial, found.kind, "index"
    )


@register
def like(MATRIX: str, *, seed: int) -> Structure:
    """A stand-in for MATRIX of the collection (GROUP/NAME), by rows, entries, row lengths, blocks and kind of problem.

    If the entries are exactly those of a 5-, 7-, 9- or 27-point stencil on a grid, with dense blocks of up to 6, it is
    that grid. Else, for a problem in space, points in a lexicographic order on a box are coupled with their nearest
    neighbours, displaced by groups of points. Other kinds mix entries near the diagonal with popular columns.
    """
    about = facts(MATRIX)
    if found := regular_grid(about):
        shape, steps, degrees = found
        return grid(shape, steps, degrees)
    degrees = dense_block(about)
    lengths = row_lengths(about, degrees, seed)
    if about.is_mesh:
        return _mesh(about, lengths, degrees, seed)
    return _mixed(about, lengths, seed)


def dense_block(about: Facts) -> int:
    """Unknowns per point of a problem in space: the largest of 6, 5, 4, 3 and 2 that rows and entries allow, else 1.

    Entries of dense blocks are a multiple of the square, which by chance holds for 1 matrix in 8 or fewer. A point has
    at least 5 blocks.
    """
    if not about.is_mesh:
        return 1
    fits = (b for b in (6, 5, 4, 3, 2) if about.rows % b == 0 and about.entries % b**2 == 0 and about.mean >= 5 * b)
    return next(fits, 1)


def regular_grid(about: Facts) -> tuple[tuple[int, ...], list[tuple[int, ...]], int] | None:
    """Shape, steps and unknowns per point of the stencil on a grid that has exactly these rows and entries, or None."""
    if not about.is_mesh or about.pattern_symmetry < 1:
        return None
    for degrees in (1, 2, 3, 4, 5, 6):
        if about.rows % degrees or about.entries % degrees**2:
            continue
        points, entries = about.rows // degrees, about.entries // degrees**2
        for dimensions, full in itertools.product((3, 2), (False, True)):
            shape = next(_shapes(points, entries, dimensions, full), None)
            if shape:
                steps = [
                    step for step in itertools.product((-1, 0, 1), repeat=dimensions) if full or sum(map(abs, step)) < 2
                ]
                return shape, steps, degrees
    return None


def _shapes(points: int, entries: int, dimensions: int, full: bool) -> Iterator[tuple[int, ...]]:
    """Boxes of so many points on which the stencil has so many entries; full: all neighbours at distance 1."""
    firsts = range(3, round(points ** (1 / 3)) + 1) if dimensions == 3 else (1,)
    for a in firsts:
        if points % a:
            continue
        rest = points // a
        if dimensions == 2:
            total = (9 * points + 4 - entries) / 6 if full else (5 * points - entries) / 2
        elif full:
            if entries % (3 * a - 2):
                continue
            total = (9 * rest + 4 - entries // (3 * a - 2)) / 6
        else:
            total = ((7 * points - entries) / 2 - rest) / a
        root = math.isqrt(int(max(total * total - 4 * rest, 0))) if total == int(total) else 0
        b, c = (int(total) - root) // 2, (int(total) + root) // 2
        if root * root == total * total - 4 * rest and min(b, c) >= 3 and b * c == rest:
            yield (b, c) if dimensions == 2 else tuple(sorted((a, b, c)))


def row_lengths(about: Facts, degrees: int, seed: int) -> np.ndarray:
    """Row lengths, one for each point of `degrees` rows, in blocks of `degrees` entries.

    Least, mean and largest value are those of the facts, and quartiles where they are known; else it is a beta
    distribution of the spread of the facts. Those not known are usual values.
    """
    rows, entries, cols = about.rows // degrees, about.entries // degrees**2, about.cols // degrees
    mean = entries / rows
    usual = 1.6 if about.is_mesh else next(value[0] for word, value in _USUAL.items() if word in about.kind)
    if not about.is_mesh and mean < 4 and about.pattern_symmetry == 1:
        usual = 3.0  # road networks and other planar graphs
    most = max(round(about.row_len_max / degrees) if about.row_len_max is not None else usual * mean, math.ceil(mean))
    most = int(min(most, cols))
    least = about.row_len_min // degrees if about.row_len_min is not None else (mean / 3 if about.is_mesh else mean > 1)
    least = min(int(least), int(mean))
    spread = (
        about.row_len_std / degrees
        if about.row_len_std is not None
        else mean * _SPREAD * max(most / mean - 1, 0) ** 0.5
    )
    rng = np.random.default_rng([seed, 1])
    quartiles = [about.row_len_q1, about.row_len_median, about.row_len_q3]
    width, place = most - least, mean - least
    if None not in quartiles:
        marks = [least, *(float(q or 0) / degrees for q in quartiles), most]
        lengths = _by_quartiles(np.clip(marks, least, most), mean, spread, rows, rng)
    elif width and 0 < place < width and spread > 0:
        share = place / width
        sum_of_both = max(share * (1 - share) / (spread / width) ** 2 - 1, 0.02)
        lengths = least + np.rint(width * rng.beta(share * sum_of_both, (1 - share) * sum_of_both, rows)).astype(
            np.int64
        )
        lengths[rng.integers(rows)] = most
    else:
        lengths = np.full(rows, round(mean), dtype=np.int64)
    return _summing_to(lengths, entries, least, most, rng)


def _by_quartiles(marks: np.ndarray, mean: float, spread: float, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Row lengths with these least, quartiles and largest: uniform up to the third quartile, above a beta distribution
    that gives the mean and the standard deviation `spread`.
    """
    quarter = (rng.permutation(rows) + rng.random(rows)) * 4 / rows  # each quarter has its share of the rows
    number = np.minimum(quarter.astype(np.int64), 3)
    within, width = quarter - number, marks[4] - marks[3]
    if width > 0:
        low, high = marks[:3], marks[1:4]
        first = 4 * mean - np.sum(low + high) / 2 - marks[3]
        second = 4 * (spread**2 + mean**2) - np.sum(low**2 + low * high + high**2) / 3
        share = min(max(first / width, 1e-6), 1 - 1e-6)
        variance = (second - marks[3] ** 2 - 2 * marks[3] * width * share) / width**2 - share**2
        both = min(max(share * (1 - share) / variance - 1, 0.02), 1e6) if variance > 0 else 1e6
        within = np.where(number == 3, rng.beta(share * both, (1 - share) * both, rows), within)
    lengths = np.rint(marks[number] + within * np.diff(marks)[number]).astype(np.int64)
    lengths[quarter.argmin()], lengths[quarter.argmax()] = marks[0], marks[4]
    return lengths


def _summing_to(lengths: np.ndarray, total: int, least: int, most: int, rng: np.random.Generator) -> np.ndarray:
    """The lengths, some changed by a few so that their sum is `total`; the bounds give way if they must."""
    while missing := total - int(lengths.sum()):
        step = 1 if missing > 0 else -1
        free = np.flatnonzero((lengths < most) if step > 0 else (lengths > least))
        if not len(free):
            least, most = (least, most + 1) if step > 0 else (least - 1, most)
            continue
        lengths[rng.choice(free, min(abs(missing), len(free)), replace=False)] += step
    return lengths


def _mesh(about: Facts, lengths: np.ndarray, degrees: int, seed: int) -> Structure:
    """Points of a box in lexicographic order, each coupled with its nearest neighbours, as many as its row is long.

    Without dense blocks, three consecutive points with long rows have the same neighbours and are neighbours together,
    as unknowns of one node are if some of their entries were dropped.
    """
    points = len(lengths)
    together = 3 if degrees == 1 and about.mean >= _LONG else 1
    nodes, most = points // together, -(-int(lengths.max(initial=1)) // together)
    flat = about.mean / (degrees * together) < 9.5
    side = round(nodes ** (1 / 2 if flat else 1 / 3))
    reach = math.ceil((most ** (1 / 2 if flat else 1 / 3)) / 2)
    if about.bandwidth is not None:
        far = max(about.bandwidth // (degrees * together) // max(reach, 1), 2)
        side = min(side, far if flat else math.isqrt(far))
    side = max(side, 4 * reach + 2)
    near = range(-2 * reach, 2 * reach + 1)
    steps = np.array(list(itertools.product([0] if flat else near, near, near)))
    steps = steps[np.lexsort((*steps.T, (steps**2).sum(axis=1)))[:most]]
    away = steps @ np.array([side * side, side, 1])
    strip = steps[:, 0] * 64 + steps[:, 1]  # neighbours in one line of points stay together
    if 2 * int(abs(away).max()) >= nodes:  # too few nodes for a box: neighbours in the numbering
        away, strip = np.array([(k + 1) // 2 * (1 if k % 2 else -1) for k in range(most)]), np.zeros(most, dtype=int)
    room = max(side - 4 * reach - 1, 1)
    away = (away[:, None] * together + np.arange(together)).ravel()
    strip = np.repeat(strip, together)

    def columns(first: int, last: int) -> np.ndarray:
        point = np.arange(first // degrees, last // degrees)
        base = point // together * together
        counts = lengths[point]
        starts = offsets(counts)
        found = np.empty(int(starts[-1]), dtype=np.int64)
        for count in np.unique(counts):
            rows = np.flatnonzero(counts == count)
            chosen = np.argsort(away[:count], kind="stable")
            moved = _hashed(base[rows, None] // _GROUP, strip[chosen], seed) % room - room // 2
            moved = moved * together * (strip[chosen] != 0)  # a node's own line stays where it is
            found[starts[rows, None] + np.arange(count)] = _reflected(base[rows, None] + away[chosen] + moved, points)
        found = _ascending(found, counts, starts, points)
        wide = (found[:, None] * degrees + np.arange(degrees)).ravel()
        repeated = np.repeat(counts * degrees, degrees)  # each row of a point has its columns
        source = np.repeat(starts[:-1] * degrees, degrees) - offsets(repeated)[:-1]
        every: np.ndarray = wide[np.arange(len(wide) * degrees) + np.repeat(source, repeated)]
        return every

    whole = np.repeat(lengths * degrees, degrees)
    return Structure((about.rows, about.cols), whole, columns, symmetric=about.pattern_symmetry == 1, unit=degrees)


def _mixed(about: Facts, lengths: np.ndarray, seed: int) -> Structure:
    """Entries at log-uniform distances from the diagonal, and others in columns as popular as the rows are long."""
    near = next(value[1] for word, value in _USUAL.items() if word in about.kind)
    if (
        about.pattern_symmetry == 1
        and about.mean < 7
        and (about.row_len_max is None or about.row_len_max < 4 * about.mean)
    ):
        near = 1.0
    row_ptr = offsets(lengths)
    popularity = row_ptr if (of_cols := _column_lengths(about, seed)) is None else offsets(of_cols)
    furthest = max(min(about.bandwidth or about.cols, about.cols) - 1, 1)

    def columns(first: int, last: int) -> np.ndarray:
        rng = np.random.default_rng([seed, 2, first])
        counts = lengths[first:last]
        starts = offsets(counts)
        row = np.repeat(np.arange(first, last), counts)
        distance = np.rint(np.exp(rng.random(len(row)) * math.log(furthest + 1)) - 1).astype(np.int64)
        local = row * about.cols // about.rows + distance * rng.choice((-1, 1), len(row))
        local = np.where((local < 0) | (local >= about.cols), abs(2 * about.cols - local) % about.cols, local)
        popular = np.searchsorted(popularity, rng.integers(0, about.entries, len(row)), side="right") - 1
        popular = popular * about.cols // (len(popularity) - 1)
        chosen = np.where(rng.random(len(row)) < near, local, popular)
        key = np.sort((row << 32) | chosen)
        return _ascending(key & 0xFFFF_FFFF, counts, starts, about.cols)

    return Structure((about.rows, about.cols), lengths, columns, symmetric=about.pattern_symmetry == 1)


def _reflected(columns: np.ndarray, points: int) -> np.ndarray:
    """Columns beyond an end, mirrored at it: were they moved to the end, its columns would be the longest of all."""
    columns = np.where(columns < 0, -1 - columns, columns)
    return np.where(columns >= points, 2 * points - 1 - columns, columns)


def _column_lengths(about: Facts, seed: int) -> np.ndarray | None:
    """Lengths of the columns of a pattern that is not symmetric, if they are known."""
    if about.pattern_symmetry == 1 or about.col_len_max is None:
        return None
    return row_lengths(about.of_columns, 1, seed + 1)


def _hashed(a: np.ndarray, b: np.ndarray, seed: int) -> np.ndarray:
    """Non-negative numbers that depend on a, b and the seed and look random: the finalizer of splitmix64."""
    x = (a.astype(np.uint64) << np.uint64(20)) + (b + (1 << 16)).astype(np.uint64) + (np.uint64(seed) << np.uint64(52))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _ascending(columns: np.ndarray, counts: np.ndarray, starts: np.ndarray, cols: int) -> np.ndarray:
    """Columns sorted in each row, changed as little as it takes to be distinct and from 0 to cols - 1."""
    row = np.repeat(np.arange(len(counts)), counts)
    rank = np.arange(len(columns)) - starts[row]
    key = np.sort((row << 32) | np.clip(columns, 0, cols - 1))
    ahead = (row << 33) + (key & 0xFFFF_FFFF) - rank + (1 << 32)
    found = np.maximum.accumulate(ahead) - (row << 33) - (1 << 32) + rank
    distinct: np.ndarray = np.minimum(found, cols - counts[row] + rank)
    return distinct
