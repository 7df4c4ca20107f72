"""Rewrites runs of versions before 1.0 in the form of this one: ``python -m spmvbench.publishing.rewrite FOLDER``.

Columns and metadata get today's names, samples become the milliseconds of the clock, columns that follow from others
go, and the descriptions of matrices go to one file for all runs of the folder. A run that does not come back, samples
within a unit in the last place of float32 and all else as it was, stops it before anything is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spmvbench import paths
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.rows import files, store, stored
from spmvbench.rows.schema import COLUMNS, SCHEMA_VERSION

TICK = 3.2e-5  # ms: the clocks of the GPUs that were measured count 32 ns
TOLERANCE = 1e-6  # relative, of what is computed from samples again

# Names of columns before version 2, and what replaced them.
OLD_COLUMNS = {
    "run_mean": "contiguous_run_mean",
    "alike_rows": "repeated_row_share",  # was a count of rows
    "col_step_log2": "column_step_log2",
    "slice_fill": "ell_fill",
    "own_kernel": "project_kernel",
    "t_parts": "t_kernels",
    "near_launch_floor": "near_launch_overhead",
}

# The same for the metadata of a run's invocations.
OLD_METADATA = {"roofs": "bounds", "launch_floor": "launch_overhead"}


def current(table: pa.Table) -> pa.Table:
    """The table with columns of older versions under today's names, in today's units (`OLD_COLUMNS`).

    Raises ValueError if it holds a column under both names, or counts of repeated rows without the number of rows.
    """
    both = [old for old, name in OLD_COLUMNS.items() if {old, name} <= set(table.column_names)]
    if both:
        raise ValueError(f"it has {both[0]} and {OLD_COLUMNS[both[0]]}, which are one column")
    if "alike_rows" in table.column_names:
        if "rows" not in table.column_names:
            raise ValueError("it has alike_rows and no rows")
        rows, repeated = (table[name].cast(pa.int64()).cast(pa.float64()) for name in ("rows", "alike_rows"))
        share = pc.if_else(pc.greater(rows, 0), pc.divide(repeated, rows), 0.0)
        table = table.set_column(table.column_names.index("alike_rows"), "alike_rows", share)
    return table.rename_columns([OLD_COLUMNS.get(name, name) for name in table.column_names])


def rewritten(path: Path) -> pa.Table:
    """The rows of an older file with the columns `stored.READ`. Raises SpmvbenchError if they would not come back."""
    before = files.Layout("", "", "case_id", COLUMNS, COLUMNS).completed(current(pq.read_table(path)))
    # The oldest rows lack the work that their rate counts.
    work, rate, seconds = (before[name].to_numpy() for name in ("work", "gflops", "t_median"))
    lacking = (work == 0) & (rate > 0)
    known = np.where(lacking, np.round(1e9 * np.where(lacking, rate * seconds, 0)), work).astype(np.int64)
    before = _with(before, "work", pa.array(known))
    after = _with(before, "schema_version", pa.array(np.full(len(before), SCHEMA_VERSION)))
    place = after.column_names.index("samples")
    after = after.set_column(place, stored.SAMPLES, _milliseconds(before["samples"], before["repeats"]))
    kept = files.CASES.completed(after.select([name for name in after.column_names if name in stored.STORED]))
    for name, why in _differences(before, stored.full(kept)):
        raise SpmvbenchError(f"{path}: {name} {why}: nothing is rewritten")
    return kept


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)


def _milliseconds(samples: pa.ChunkedArray, repeats: pa.ChunkedArray) -> pa.Array:
    """What the clock gave: a number of its ticks if that comes back as the sample, else the nearest float32."""
    column = samples.combine_chunks()
    counts = column.value_lengths().to_numpy()
    flat, times = column.flatten().to_numpy(), np.repeat(repeats.to_numpy(), counts)
    exact = flat * times * 1e3
    ticks = (np.round(exact / TICK) * TICK).astype(np.float32)
    same = _ulps(ticks / (1e3 * times), flat) <= 1
    found = np.where(same, ticks, exact.astype(np.float32))
    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), pa.array(found))


def _ulps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Distance of positive numbers in units in the last place of float32."""
    left, right = (np.ascontiguousarray(values, np.float32).view(np.int32).astype(np.int64) for values in (one, other))
    distance: np.ndarray = np.abs(left - right)
    return distance


def _differences(before: pa.Table, after: pa.Table) -> list[tuple[str, str]]:
    found = []
    for name in COLUMNS:
        one, other = before[name].combine_chunks(), after[name].combine_chunks()
        if name == "samples":
            if not one.value_lengths().equals(other.value_lengths()):
                found.append((name, "has other numbers of samples"))
            elif (_ulps(one.flatten().to_numpy(), other.flatten().to_numpy()) > 1).any():
                found.append((name, "differs by more than a unit in the last place"))
        elif name in stored.DERIVED:
            if not np.allclose(one.to_numpy(), other.to_numpy(), TOLERANCE, 0, equal_nan=True):
                found.append((name, "does not follow from the other columns"))
        elif name != "schema_version" and one.to_pylist() != other.to_pylist() and not _same(one, other):
            found.append((name, "differs"))
    return found


def _same(one: pa.Array, other: pa.Array) -> bool:
    """Whether numbers are equal, NaN to NaN."""
    return pa.types.is_floating(one.type) and np.array_equal(one.to_numpy(), other.to_numpy(), equal_nan=True)


def descriptions(runs: list[Path]) -> pa.Table:
    """The descriptions of the matrices of all runs, the first of each matrix."""
    found: dict[str, dict[str, Any]] = {}
    for run in runs:
        if (run / store.MATRICES).is_file():
            for row in pq.read_table(run / store.MATRICES).to_pylist():
                found.setdefault(row["matrix_sha256"], row | {"schema_version": SCHEMA_VERSION})
    numbered = [row | {"sequence": place} for place, row in enumerate(found.values(), start=1)]
    return files.parsed(numbered, files.DESCRIPTIONS)


def main() -> None:
    """Rewrite the runs of the folder that is named. Of several, the descriptions move to one file."""
    if len(sys.argv) != 2:
        raise UsageError("name the folder of the runs: python -m spmvbench.publishing.rewrite results/published")
    folder = Path(sys.argv[1])
    runs = sorted(path.parent for path in folder.glob(f"*/{store.ROWS}"))
    tables = {run: rewritten(run / store.ROWS) for run in runs}
    shared = descriptions(runs)
    if not runs:
        raise UsageError(f"{folder} has no runs")
    place = (folder if len(runs) > 1 else runs[0]) / store.MATRICES
    with paths.written_whole(place) as file:
        files.write(shared, files.DESCRIPTIONS, file, smallest=True)
    for run, table in tables.items():
        record = json.loads((run / store.ENVIRONMENT).read_text(encoding="utf-8"))
        sessions = [_current_metadata(session) for session in record["sessions"]]
        text = json.dumps({"schema_version": SCHEMA_VERSION, "sessions": sessions}, indent=2)
        with paths.written_whole(run / store.ENVIRONMENT) as file:
            file.write(f"{text}\n".encode())
        with paths.written_whole(run / store.ROWS) as file:
            files.write(table, files.CASES, file, smallest=True)
        if place.parent == folder:
            (run / store.MATRICES).unlink(missing_ok=True)


def _current_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {OLD_METADATA.get(name, name): value for name, value in metadata.items()}


if __name__ == "__main__":
    main()
