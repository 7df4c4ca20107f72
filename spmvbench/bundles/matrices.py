"""Checks of matrices: each is generated or read again, and compared with its rows."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd

from spmvbench import orders
from spmvbench.bundles import limited
from spmvbench.bundles.derived import same
from spmvbench.bundles.findings import FAILED, OPEN, PASSED, Bundle, Finding, mapping, shortened
from spmvbench.errors import SpmvbenchError, counted
from spmvbench.formats import Csr, Skip
from spmvbench.formats.conversion import EMULATED
from spmvbench.matrices import Matrix, lookup, suitesparse, synthetic
from spmvbench.matrices.features import features
from spmvbench.measure import bounds, operations, reading
from spmvbench.measure.cases import DTYPES
from spmvbench.rows.stored import parsed

# Columns that the first runs did not have: 0 or NaN in their rows.
LATER = (
    "full_diagonals",
    "full_diagonal_share",
    "contiguous_run_mean",
    "repeated_row_share",
    "column_step_log2",
    "ell_fill",
)

OWN_MEMORY, ENTRY_MEMORY = 2 << 30, 1000.0  # bytes for making a matrix: for any, and for each row, column and entry


def matrices(
    bundle: Bundle, seconds: float, progress: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> Iterator[Finding]:
    """Make every matrix again and compare its rows with it, the smallest first, within the time limit.

    Each is made in a process of its own, with memory for the size that its rows tell. OPEN: matrices given as files,
    those that are not available here, those whose generators have changed since and make others, and those beyond the
    limits. seconds: of the clock; 0 or less allows none.
    """
    rows = bundle.rows[bundle.rows["matrix_sha256"] != ""]
    until = clock() + seconds
    told = {mapping(session.get("properties")).get("multiprocessors") for session in bundle.sessions}
    processors = [*sorted(n for n in told if isinstance(n, int) and n > 0), EMULATED.multiprocessors]
    total, passed, wrong, late = 0, 0, [], []
    unavailable: dict[str, list[str]] = {}
    for (group, name, order, _), group_rows in by_matrix(rows):
        total += 1
        shown = name if group == "synthetic" else f"{group}/{name}"
        shown += f" in order {order}" if order else ""
        matrix = at_hand(group, name)
        if isinstance(matrix, str):
            unavailable.setdefault(matrix, []).append(shown)
        elif (left := until - clock()) <= 0:
            late.append(shown)
        else:
            progress(f"making {shown} again")
            memory = OWN_MEMORY + ENTRY_MEMORY * sum(size_of(group_rows))
            try:
                arguments = (matrix(), order, group_rows, bundle.seeds, processors)
                wrong_columns = limited.call(_compared, *arguments, seconds=left, memory=memory)
            except limited.OverTime:
                late.append(shown)
                continue
            except SpmvbenchError as error:
                # An error names its matrix: the rest of it is the reason.
                reason = re.sub(" of '[^']*'", " of them", str(error).partition("; did you mean ")[0])
                unavailable.setdefault(reason, []).append(shown)
                continue
            passed += not wrong_columns
            wrong += [f"{shown}: {', '.join(wrong_columns)}"] if wrong_columns else []
    if wrong:
        yield Finding("matrices", FAILED, f"{len(wrong)} of {total} do not match their names: {shortened(wrong)}")
    if passed:
        yield Finding("matrices", PASSED, f"{passed} of {counted(total, 'matrix')} made again: their rows match")
    if late:
        text = (
            f"{len(late)} of {counted(total, 'matrix')} not made again in {seconds:g} s (--seconds): {shortened(late)}"
        )
        yield Finding("matrices", OPEN, text)
    for reason, names in unavailable.items():
        yield Finding(
            "matrices", OPEN, f"{len(names)} of {counted(total, 'matrix')} not verified, {reason}: {shortened(names)}"
        )


OfMatrix = tuple[tuple[str, str, str, str], pd.DataFrame]  # group, name, order, hash of a matrix, and its rows


def by_matrix(rows: pd.DataFrame) -> Sequence[OfMatrix]:
    """Rows by group, name, order (empty for the natural one) and hash of their matrix, the smallest first."""
    rows = rows.assign(order=rows["order"].replace(orders.NATURAL, ""))
    found = list(rows.groupby(["group", "name", "order", "matrix_sha256"], sort=True))
    return sorted(found, key=lambda item: int(item[1]["nnz"].min()))


def at_hand(group: str, name: str) -> Callable[[], Matrix] | str:
    """A function that returns a matrix, or why it is not available. The name is untrusted and not used as a path."""
    if group == "synthetic":
        if not synthetic.is_spec(name):
            return "no generator has their names"
        return lambda: lookup.obtain(name)
    if group == "file":
        return "they were given as files"
    if not suitesparse.at_hand(group, name):
        return "they are not here (spmvbench fetch)"
    return lambda: lookup.obtain(f"{group}/{name}")


Size = tuple[int, int, int]  # rows, columns, entries


def size_of(rows: pd.DataFrame) -> Size:
    """The size that the rows of a matrix tell."""
    row = rows.iloc[0]
    return int(row["rows"]), int(row["cols"]), int(row["nnz"])


def made_again(matrix: Matrix, order: str, digest: str, seeds: Sequence[int], size: Size) -> tuple[Csr, int] | None:
    """The matrix of a hash, in double precision, and the seed that gives it; None if no seed does.

    order: of rows and columns; empty for the natural one. size: that of its rows, with which the matrix is compared
    before its entries are made. Raises as `orders.ordered` and `Matrix.read`.
    """
    for seed in seeds:
        made = synthetic.generate(matrix.name, seed, size) if matrix.path is None else matrix.read(seed, "real")
        if made is None:
            continue
        a = Csr.of(made).astype(np.float64)
        a, _ = orders.ordered(a, order or orders.NATURAL)
        if reading.digest(a) == digest:
            return a, seed
    return None


def _compared(
    matrix: Matrix, order: str, rows: pd.DataFrame, seeds: Sequence[int], processors: Sequence[int]
) -> list[str]:
    """As `_wrong_columns`. Raises SpmvbenchError, too, if they differ and the matrix's generator has changed since."""
    wrong_columns = _wrong_columns(matrix, order, rows, seeds, processors)
    if wrong_columns and rows["group"].iloc[0] == "synthetic":
        kind = rows["name"].iloc[0].partition(":")[0]
        if synthetic.generator_hash(kind) not in set(rows["generator_hash"]):
            raise SpmvbenchError("their generators make others today")
    return wrong_columns


def _wrong_columns(
    matrix: Matrix, order: str, rows: pd.DataFrame, seeds: Sequence[int], processors: Sequence[int]
) -> list[str]:
    """The columns in which rows differ from their matrix. processors: numbers of multiprocessors of the devices.

    Raises SpmvbenchError if the order of the rows cannot be computed as it was: another version of a library may give
    another one, and the rows are neither confirmed nor refuted.
    """
    found = made_again(matrix, order, rows["matrix_sha256"].iloc[0], seeds, size_of(rows))
    if found is None:
        if order:
            raise SpmvbenchError(f"order {order} is another one here")
        return ["matrix_sha256"]
    a, seed = found
    wrong_columns = _wrong_features(a, rows)
    wrong_columns |= _wrong_fetches(a, rows, processors)
    return sorted(wrong_columns | _wrong_work(a, rows, seed))


def _wrong_features(a: Csr, rows: pd.DataFrame) -> set[str]:
    """The feature columns in which a row differs from the matrix. A blank one is from before the column existed."""
    wrong_columns = set()
    for name, value in features(a).items():
        for found in map(float, rows[name].unique()):
            blank = name in LATER and (found == 0 or math.isnan(found))
            if not blank and not same(found, float(value)):
                wrong_columns.add(name)
    return wrong_columns


def _wrong_fetches(a: Csr, rows: pd.DataFrame, processors: Sequence[int]) -> set[str]:
    """Columns of sectors and lines of x per entry that fit none of the devices, in the types of the rows.

    An operation counts those of the matrix that it multiplies with: ``spmv-t@2`` those of A^T.
    """
    wrong_columns: set[str] = set()
    known: dict[tuple[str, str], list[bounds.Fetched]] = {}
    with_sectors = rows[rows["x_sectors"].notna() & rows["dtype"].isin(DTYPES)]
    for (op, dtype), op_rows in with_sectors.groupby(["op", "dtype"]):
        operation = operations.get(op)
        case = operations.group_of(op), dtype
        if case not in known:
            try:
                multiplied = operation.matrix(a).astype(DTYPES[dtype])
            except Skip:
                wrong_columns.add(f"{op}, which is not possible")
                continue
            known[case] = [bounds.Fetched.by(multiplied, count, **operation.gathered) for count in processors]
        for found in op_rows[["x_sectors", "x_lines"]].drop_duplicates().itertuples(index=False):
            if not any(same(found.x_sectors, one.sectors) and same(found.x_lines, one.lines) for one in known[case]):
                wrong_columns |= {"x_sectors", "x_lines"}
    return wrong_columns


def _wrong_work(a: Csr, rows: pd.DataFrame, seed: int) -> set[str]:
    """Work, and details of an operation: sources, levels and arcs of a search, products of a sparse x."""
    wrong_columns: set[str] = set()
    graphs: dict[str, Csr] = {}
    for op, group_rows in rows[(rows["status"] == "ok") & (rows["op"] != "spmv")].groupby("op"):
        operation, family = operations.get(op), operations.kind(op)
        try:
            graphs[family] = graphs.get(family) or operation.matrix(a)
        except Skip:
            wrong_columns.add(f"{op}, which is not possible")
            continue
        work, facts = operation.work_and_details(graphs[family], seed)
        for row in group_rows[["detail", "work"]].itertuples(index=False):
            detail = parsed(row.detail)
            wrong_columns |= {"work"} if row.work not in (0, work) else set()
            wrong_columns |= {f"{name} in detail" for name, value in facts.items() if detail.get(name, value) != value}
    return wrong_columns
