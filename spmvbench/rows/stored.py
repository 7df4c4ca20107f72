"""Rows as files hold them: without columns that follow from others, and with samples as the clock gave them.

A GPU's clock gives float32 milliseconds for a sample, which is `repeats` SpMVs. Seconds per SpMV and the statistics of
the samples are computed when rows are read, so that no row can hold others. The clock ticks every 32 ns: where all
samples of a row are whole ticks, Parquet holds their numbers, in less than half of the bytes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.rows.schema import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

# Columns that follow from others of their row, where those are known.
OF_SAMPLES = ("n_samples", "t_median", "t_q1", "t_q3", "gflops", "gbps")
DERIVED = (*OF_SAMPLES, "bytes_format", "bytes_per_nnz", "row_len_mean", "row_len_cv")
SAMPLES = "samples_ms"
# What a table of rows has while it is read and merged: samples in milliseconds.
READ = {SAMPLES if name == "samples" else name: column for name, column in COLUMNS.items()} | {
    SAMPLES: (
        "floats",
        "samples in the order of measurement, milliseconds for `repeats` SpMVs, as the clock gives them",
    )
}
TICKS, TICKS_PER_MS = "samples_ticks", 31_250
STORED = {name: column for name, column in READ.items() if name not in DERIVED} | {
    TICKS: (
        "ints",
        f"{SAMPLES} of a row whose samples are all whole ticks of 32 ns, in ticks; {SAMPLES} is empty then",
    ),
}


def milliseconds(samples: Any, repeats: int | np.ndarray) -> np.ndarray:
    """Samples in seconds per SpMV as float32 milliseconds of the clock."""
    return (np.asarray(samples, np.float64) * repeats * 1e3).astype(np.float32)


def packed(table: pa.Table) -> pa.Table:
    """The table with `TICKS` in place of `SAMPLES` in the rows where they are the same numbers."""
    import pyarrow as pa

    counts, clock = _lists(table, SAMPLES)
    with np.errstate(all="ignore"):  # samples may be no numbers
        ticks = np.rint(clock.astype(np.float64) * TICKS_PER_MS)
        same = ((ticks / TICKS_PER_MS).astype(np.float32) == clock) & (abs(ticks) < 2**53)
    row = np.repeat(np.arange(len(counts)), counts)
    whole = np.bincount(row[~same], minlength=len(counts)) == 0
    kept = whole[row]
    places = table.column_names.index(SAMPLES)
    rest = _as_lists(counts * ~whole, pa.array(clock[~kept]))
    ticks_of = _as_lists(counts * whole, pa.array(ticks[kept].astype(np.int64)))
    return table.set_column(places, SAMPLES, rest).append_column(TICKS, ticks_of)


def unpacked(table: pa.Table) -> pa.Table:
    """The table with all samples in `SAMPLES`, those of `TICKS` after the others of their row.

    Raises ArrowException or ValueError for columns of other types.
    """
    if TICKS not in table.column_names:
        return table
    import pyarrow as pa

    counts, ticks = _lists(table, TICKS)
    clock = (ticks / TICKS_PER_MS).astype(np.float32)
    table = table.drop_columns([TICKS])
    if SAMPLES in table.column_names:
        others, before = _lists(table, SAMPLES)
        rows = np.concatenate([np.repeat(np.arange(len(each)), each) for each in (others, counts)])
        counts, clock = others + counts, np.concatenate([before, clock])[np.argsort(rows, kind="stable")]
        table = table.drop_columns([SAMPLES])
    return table.append_column(SAMPLES, _as_lists(counts, pa.array(clock, pa.float32())))


def _lists(table: pa.Table, name: str) -> tuple[np.ndarray, np.ndarray]:
    """How long the lists of a column of numbers are, (rows,), and all numbers, one list after the other."""
    import pyarrow as pa

    kind = {TICKS: pa.int64(), "samples": pa.float64()}.get(name, pa.float32())
    column = table[name].cast(pa.list_(kind)).combine_chunks()
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return counts.astype(np.int64), column.flatten().to_numpy(zero_copy_only=False)


def _as_lists(counts: np.ndarray, values: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32()), values)


def full(table: pa.Table) -> pa.Table:
    """The table with the columns `schema.COLUMNS`: columns that follow from others are computed.

    table: the columns `READ`. A column whose origin is unknown keeps its value: without samples, the time.
    """
    import pyarrow as pa

    counts, clock = _lists(table, SAMPLES)
    repeats = table["repeats"].to_numpy()
    ends, flat = np.cumsum(counts), clock.astype(np.float64)
    with np.errstate(all="ignore"):  # a stranger's rows may hold anything, and are checked after this
        flat /= np.repeat(1e3 * repeats, counts)
        found = _of_samples(table, flat, counts, ends) | _of_bytes(table) | _of_lengths(table)
    for name, values in found.items():
        table = table.set_column(table.column_names.index(name), table.schema.field(name), pa.array(values))
    return table.set_column(table.column_names.index(SAMPLES), "samples", _as_lists(counts, pa.array(flat)))


def clocked(table: pa.Table) -> pa.Table:
    """A table of `full` with its samples as the clock gave them again, as `files.write` takes it."""
    import pyarrow as pa

    counts, seconds = _lists(table, "samples")
    values = milliseconds(seconds, np.repeat(table["repeats"].to_numpy(), counts))
    return table.set_column(table.column_names.index("samples"), SAMPLES, _as_lists(counts, pa.array(values)))


def _of_samples(table: pa.Table, flat: np.ndarray, counts: np.ndarray, ends: np.ndarray) -> dict[str, np.ndarray]:
    quartiles = np.full((3, len(counts)), np.nan)
    for count in np.unique(counts[counts > 0]):
        places = np.flatnonzero(counts == count)
        some = flat[ends[places][:, None] - count + np.arange(count)]
        quartiles[:, places] = np.quantile(some, [0.25, 0.5, 0.75], axis=1)
    q1, median, q3 = quartiles
    work, moved = table["work"].to_numpy(), table["model_bytes"].to_numpy()
    found = {
        "n_samples": counts.astype(np.int64),
        "t_median": median,
        "t_q1": q1,
        "t_q3": q3,
        "gflops": 1e-9 * work / median,
        "gbps": np.where(moved > 0, 1e-9 * moved / median, np.nan),
    }
    timed = counts > 0
    return {name: np.where(timed, values, table[name].to_numpy()) for name, values in found.items()}


def _of_bytes(table: pa.Table) -> dict[str, np.ndarray]:
    footprint = table["bytes_format"].to_numpy().copy()
    share = table["bytes_per_nnz"].to_numpy().copy()
    texts, details, ops = (table[name].to_pylist() for name in ("bytes_arrays", "detail", "op"))
    entries = table["nnz"].to_numpy()
    for place, text in enumerate(texts):
        sizes = parsed(text)
        if not sizes or not all(type(size) is int for size in sizes.values()):
            continue
        footprint[place] = min(sum(sizes.values()), 2**63 - 1)
        stored = parsed(details[place]).get("arcs") if ops[place].startswith("bfs") else entries[place]
        share[place] = footprint[place] / stored if stored else np.nan
    return {"bytes_format": footprint, "bytes_per_nnz": share}


def _of_lengths(table: pa.Table) -> dict[str, np.ndarray]:
    rows, entries, deviation = (table[name].to_numpy() for name in ("rows", "nnz", "row_len_std"))
    mean = np.where(rows > 0, entries / rows, 0.0)
    found = {"row_len_mean": mean, "row_len_cv": np.where(entries > 0, deviation / mean, 0.0)}
    return {name: np.where(np.isnan(deviation), table[name].to_numpy(), values) for name, values in found.items()}


def parsed(text: Any) -> dict[str, Any]:
    """A column of JSON as a mapping; empty if it is none."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
