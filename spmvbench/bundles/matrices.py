"""What rows say of their matrices, held to the matrices: generated again, or read where they are at hand."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from spmvbench.bundles.derived import same
from spmvbench.bundles.findings import FAILED, OPEN, PASSED, Bundle, Finding, mapping, named, parsed
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr, Skip
from spmvbench.formats.conversion import EMULATED
from spmvbench.matrices import Matrix, suitesparse, synthetic
from spmvbench.matrices import sources as collected
from spmvbench.matrices.features import features
from spmvbench.measure import bounds, operations, reading
from spmvbench.measure.cases import DTYPES

# Columns that came later than the first runs: blank, 0 or NaN, in rows from before.
LATER = (
    "full_diagonals",
    "full_diagonal_share",
    "contiguous_run_mean",
    "repeated_row_share",
    "column_step_log2",
    "ell_fill",
)


def matrices(
    bundle: Bundle, seconds: float, progress: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[Finding]:
    """Make every matrix again and hold its rows to it, the smallest first, until the seconds are over.

    What is not verified is open: matrices given as files, those that are not here, and those that time was too short
    for. seconds: of the clock; 0 or less is no time at all.
    """
    rows = bundle.rows[bundle.rows["matrix_sha256"] != ""]
    until = clock() + seconds
    total, right, wrong, late = 0, 0, [], []
    away: dict[str, list[str]] = {}
    for (group, name, _), alike in _by_matrix(rows):
        total += 1
        shown = name if group == "synthetic" else f"{group}/{name}"
        matrix = _found(group, name)
        if isinstance(matrix, str):
            away.setdefault(matrix, []).append(shown)
        elif clock() >= until:
            late.append(shown)
        else:
            progress(f"making {shown} again")
            try:
                unlike = _unlike(matrix() if callable(matrix) else matrix, alike, bundle)
            except SpmvbenchError as error:
                away.setdefault(str(error), []).append(shown)
                continue
            right += not unlike
            wrong += [f"{shown}: {', '.join(unlike)}"] if unlike else []
    if wrong:
        yield Finding("matrices", FAILED, f"{len(wrong)} of {total} are not what their names say: {named(wrong)}")
    if right:
        yield Finding("matrices", PASSED, f"{right} of {total} matrices made again: rows say what they are")
    if late:
        text = f"{len(late)} of {total} matrices not made again in {seconds:g} s (--seconds): {named(late)}"
        yield Finding("matrices", OPEN, text)
    for reason, held in away.items():
        yield Finding("matrices", OPEN, f"{len(held)} of {total} matrices not verified, {reason}: {named(held)}")


def _by_matrix(rows: pd.DataFrame) -> Sequence[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Rows by group, name and hash of their matrix, the smallest first."""
    found = list(rows.groupby(["group", "name", "matrix_sha256"], sort=True))
    return sorted(found, key=lambda held: int(held[1]["nnz"].min()))


def _found(group: str, name: str) -> Callable[[], Matrix] | str:
    """What gives a matrix, or why nothing here does. A name is a stranger's: it is no path."""
    if group == "synthetic":
        if not synthetic.is_spec(name):
            return "their names are no generator's"
        return lambda: collected.obtain(name)
    if group == "file":
        return "they were given as files"
    if not suitesparse.at_hand(group, name):
        return "they are not here (spmvbench fetch)"
    return lambda: collected.obtain(f"{group}/{name}")


def _unlike(matrix: Matrix, rows: pd.DataFrame, bundle: Bundle) -> list[str]:
    """The columns in which rows differ from their matrix."""
    digest = rows["matrix_sha256"].iloc[0]
    for seed in bundle.seeds:
        a = Csr.of(matrix.read(seed, "real")).astype(np.float64)
        if reading.digest(a) == digest:
            break
    else:
        return ["matrix_sha256"]
    unlike = _other_features(a, rows)
    processors = {mapping(session.get("properties")).get("multiprocessors") for session in bundle.sessions}
    counts = sorted(n for n in processors if isinstance(n, int) and n > 0)
    unlike |= _other_fetches(a, rows, [*counts, EMULATED.multiprocessors])
    return sorted(unlike | _other_work(a, rows, seed))


def _other_features(a: Csr, rows: pd.DataFrame) -> set[str]:
    """The columns of the matrix that some row has another value in. A blank one is of before that column was."""
    unlike = set()
    for name, value in features(a).items():
        for found in map(float, rows[name].unique()):
            blank = name in LATER and (found == 0 or math.isnan(found))
            if not blank and not same(found, float(value)):
                unlike.add(name)
    return unlike


def _other_fetches(a: Csr, rows: pd.DataFrame, processors: Sequence[int]) -> set[str]:
    """Sectors and lines of x an entry: of one of the devices, in the types that rows have."""
    unlike = set()
    told = rows[rows["x_sectors"].notna() & rows["dtype"].isin(DTYPES)]
    for dtype, alike in told.groupby("dtype"):
        known = [bounds.Fetched.by(a.astype(DTYPES[dtype]), count) for count in processors]
        for found in alike[["x_sectors", "x_lines"]].drop_duplicates().itertuples(index=False):
            if not any(same(found.x_sectors, one.sectors) and same(found.x_lines, one.lines) for one in known):
                unlike |= {"x_sectors", "x_lines"}
    return unlike


def _other_work(a: Csr, rows: pd.DataFrame, seed: int) -> set[str]:
    """Work, and what `detail` says of an operation: sources, levels and arcs of a search, products of a sparse x."""
    unlike: set[str] = set()
    graphs: dict[str, Csr] = {}
    for op, alike in rows[(rows["status"] == "ok") & (rows["op"] != "spmv")].groupby("op"):
        operation, family = operations.get(op), operations.kind(op)
        try:
            graphs[family] = graphs.get(family) or operation.matrix(a)
        except Skip:
            unlike.add(f"{op}, which it cannot have")
            continue
        work, facts = operation.told(graphs[family], seed)
        for row in alike.itertuples(index=False):
            told = parsed(row.detail)
            unlike |= {"work"} if row.work not in (0, work) else set()
            unlike |= {f"{name} in detail" for name, value in facts.items() if told.get(name, value) != value}
    return unlike
