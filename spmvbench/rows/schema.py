"""The schema of rows: type, unit and meaning of each column. Every case has one row, whatever its status.

A run also has one description of each matrix, with the data of figures of its sparsity pattern (`MATRIX_COLUMNS`).
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 2  # 1 had the names of OLD_COLUMNS

STATUSES = {
    "ok": "measured, and verified before and after timing",
    "skipped": "the format, the device or a limit excludes the matrix; `reason` says why",
    "wrong": "an entry of y exceeds its error bound, or the kernel wrote outside its arrays; enters no ranking",
    "implausible": "verified, but faster than the device can move the bytes; enters no ranking",
    "oom": "out of memory",
    "timeout": "the case exceeded --timeout; its worker was replaced",
    "crashed": "the worker process died or the device failed; the worker was replaced",
    "error": "the format's code raised an exception",
}

SETTLED = ("ok", "skipped")  # statuses that another measurement would not change

# name: (type, meaning). Types: str, int, float (missing is NaN), bool, ints (list of int64), floats (list of float32).
COLUMNS: dict[str, tuple[str, str]] = {
    "schema_version": ("int", "version of this table's layout"),
    "run_id": ("str", "name of the run, the folder under results/"),
    "sequence": ("int", "position in the order in which the run wrote its rows, from 1; 0 in rows of older versions"),
    "case_id": (
        "str",
        "hash of matrix (including a file's content or a generator's source), seed, format, params, dtype, op, mode, "
        "kind of device and rule of timing",
    ),
    "group": ("str", "group of the matrix; ``synthetic`` for generated matrices, ``file`` for files"),
    "name": ("str", "name in the group; only group/name identifies a matrix"),
    "matrix_sha256": ("str", "SHA-256 of shape, row_ptr, col_idx and float64 values of canonical CSR"),
    "file_sha256": ("str", "SHA-256 of the file's bytes if the matrix was given as a file"),
    "generator_hash": (
        "str",
        "hash of the generator's source; empty for other matrices and in rows of older versions",
    ),
    "kind": ("str", "kind according to the SuiteSparse collection, or the generator"),
    "rows": ("int", "rows of the matrix"),
    "cols": ("int", "columns of the matrix"),
    "nnz": ("int", "stored entries, stored zeros included"),
    "stored_zeros": ("int", "entries whose value is zero"),
    "row_len_min": ("int", "shortest row, entries"),
    "row_len_median": ("float", "median row, entries"),
    "row_len_mean": ("float", "mean row, entries"),
    "row_len_max": ("int", "longest row, entries"),
    "row_len_std": ("float", "standard deviation of the row lengths"),
    "row_len_cv": ("float", "coefficient of variation of the row lengths: std / mean"),
    "row_len_gini": ("float", "Gini coefficient of the row lengths, 0 equal to 1 all in one row"),
    "empty_rows": ("int", "rows without entries"),
    "empty_cols": ("int", "columns without entries"),
    "bandwidth": ("int", "largest |col - row| of an entry"),
    "diagonals": ("int", "non-empty diagonals"),
    "pattern_symmetry": ("float", "share of off-diagonal entries whose mirror is stored too; NaN if not square"),
    "tiles": ("int", "non-empty 16 x 16 tiles"),
    "full_diagonals": ("int", "diagonals with entries on at least half of their places"),
    "full_diagonal_share": ("float", "share of the entries on full diagonals; NaN in rows of older versions"),
    "contiguous_run_mean": ("float", "mean length of runs of consecutive columns in a row, entries"),
    "repeated_row_share": ("float", "share of the rows, 0 to 1, that have the columns of the row before"),
    "column_step_log2": ("float", "mean log2 of the step from an entry's column to the next of its row; 0 without any"),
    "ell_fill": ("float", "nnz over slots if each 32 consecutive rows were padded to their longest, 0 to 1"),
    "order": (
        "str",
        "order of rows and columns that the matrix was measured in: none, or a name of run --order; empty in rows of "
        "older versions, which are of the order none",
    ),
    "order_hash": ("str", "hash of the code that computes the order; empty for none"),
    "t_order": ("float", "time to compute the order on the host, without permuting the matrix, s; NaN for none"),
    "format": ("str", "key of the format"),
    "family": ("str", "family of the format in tables and figures; empty in rows of older versions"),
    "params": ("str", "all parameters of the format, JSON with sorted names"),
    "label": ("str", "format in tables: its key and the parameters that differ from their defaults"),
    "experiment": ("bool", "an experiment: its time is not comparable with that of an SpMV; enters no ranking"),
    "project_kernel": ("bool", "the kernel is this project's and not the paper's, or the format is this project's"),
    "compresses_values": (
        "bool",
        "fewer values of the matrix's type are stored than it has nonzero entries; False in rows of older versions",
    ),
    "alias_of": ("str", "label of the format with the same arrays and launches; rankings count both once"),
    "source_hash": (
        "str",
        "hash of the modules and kernel files that the format uses, and of the compiler options; of a solver "
        "with ``+`` and the same of the solver's own",
    ),
    "code_hash": (
        "str",
        "hash of the kernels' machine code (docs/submitting.md); empty on the emulated device and in older rows",
    ),
    "program": (
        "str",
        "hash of what one SpMV runs: machine code, launch geometry, scalar arguments and contents of the arrays. "
        "Formats with the same program on a matrix are one program under several names; empty in rows of older "
        "versions",
    ),
    "dtype": (
        "str",
        "type of values, x and y: f64 or f32; values/vectors if values are stored in another type, such as f32/f64; "
        "pattern if the operation uses no values",
    ),
    "op": (
        "str",
        "spmv: y = A x; spmv-t@1: y = A^T x from the same arrays, spmv-t@2: from those of A^T; "
        "spmspv@D: the same with a sparse x of density D; bfs@K: levels of a breadth-first search from "
        "source K in A | A^T, bfs-directed@K: in A; cg@N: N iterations of conjugate gradients, pagerank@N: of PageRank",
    ),
    "device": ("str", "cuda:0, emulated or emulated-check"),
    "device_name": ("str", "name of the device model"),
    "gpu": (
        "str",
        "hash of the GPU's UUID, or with SPMVBENCH_IDENTIFY the UUID; empty if emulated and in rows of older versions",
    ),
    "numa_node": ("str", "NUMA node of the GPU, as the kernel numbers it; empty if unknown"),
    "host": ("str", "hash of the host's name, or with SPMVBENCH_IDENTIFY the name; empty in rows of older versions"),
    "mode": ("str", "hot: repeated SpMVs, with a warm L2; cold: L2 flushed before every SpMV"),
    "status": ("str", "; ".join(f"{name}: {meaning}" for name, meaning in STATUSES.items())),
    "reason": ("str", "why the status is not ok"),
    "t_median": ("float", "median time of one SpMV, seconds"),
    "t_q1": ("float", "first quartile, seconds"),
    "t_q3": ("float", "third quartile, seconds"),
    "timing_rule": (
        "str",
        "hash of the rule of timing that the invocation has in run.json: rounds, samples, spread, checks of clocks; a "
        "part of case_id; empty for the rule of rows of older versions",
    ),
    "n_samples": ("int", "number of samples"),
    "n_throttled": ("int", "samples discarded because the GPU throttled"),
    "repeats": ("int", "SpMVs in one sample (hot: the length of the replayed graph)"),
    "t_kernels": (
        "str",
        "kernel breakdown of hot rows: seconds of each named kernel, timed on its own, JSON; need not add up to "
        "t_median",
    ),
    "t_x_changed": (
        "float",
        "time of one SpMV if x changes before each one, without the time of the change, seconds; NaN in rows of older "
        "versions",
    ),
    "samples": ("floats", "samples in the order of measurement, seconds per SpMV"),
    "work": (
        "int",
        "work that the rate counts: 2 nnz flops, without padding; for a search the arcs reached; 0 in rows of older "
        "versions",
    ),
    "gflops": ("float", "work / t_median / 1e9: flops, or arcs of a search"),
    "gbps": ("float", "model_bytes / t_median / 1e9; NaN without model_bytes"),
    "x_sectors": (
        "float",
        "distinct 32-byte sectors of x per entry, if multiprocessors have equal shares of the entries in row order",
    ),
    "x_lines": ("float", "distinct 128-byte lines of x per entry, likewise"),
    "bound_gflops": (
        "float",
        "the lower of two upper bounds on gflops: to read model_bytes, and to fetch the lines and sectors of x; NaN "
        "if the device's limits were not measured",
    ),
    "bound_by": ("str", "which of the two bounds that is: bytes or gathers"),
    "model_bytes": (
        "int",
        "bytes_format, less padding and arrays that no kernel reads, + x read once + y written once; 0 for a sparse x "
        "or a search",
    ),
    "bytes_format": ("int", "footprint: bytes of the format's arrays"),
    "bytes_per_nnz": ("float", "bytes_format / nnz; for a search, over the arcs of its graph"),
    "bytes_workspace": ("int", "bytes of further arrays of the launches (carries, buffers)"),
    "bytes_arrays": ("str", "bytes by array, JSON"),
    "bytes_peak": ("int", "peak device memory during conversion, including its input; 0 if not measured"),
    "bytes_needed": ("float", "if skipped for its size: bytes that the format would need, which may be any number"),
    "bytes_limit": (
        "float",
        "if skipped for its size: the limit that it exceeds; the case runs again if the limit is raised",
    ),
    "t_convert_host": ("float", "conversion from canonical CSR on the host (NumPy), seconds; NaN if not measured"),
    "t_convert_device": (
        "float",
        "conversion from canonical CSR on the device (CuPy), tuning included, seconds, median of three if short; NaN "
        "if not measured",
    ),
    "t_transfer": ("float", "copying the format's arrays from host to device, seconds; NaN without a device"),
    "t_setup": (
        "float",
        "preparing the launches (descriptors, buffers, preprocessing), and partitioning, once; seconds; in rows of "
        "older versions for vendors only",
    ),
    "rounding_error": (
        "float",
        "largest relative error of a row of the matrix, in the 1-norm, from rounding its values to the stored type; no "
        "part of error_ratio; NaN in rows of older versions",
    ),
    "t_spmv_host": ("float", "one SpMV by SciPy, same type, one host thread, best of three, seconds"),
    "decoded": (
        "str",
        "whether decoding the arrays gives the matrix, bit for bit: yes, or no with the reason; empty in rows of older "
        "versions",
    ),
    "t_decode": ("float", "decoding the arrays and comparing with the matrix, seconds"),
    "t_compile": ("float", "compiling the kernels, seconds; near 0 from the disk cache"),
    "x_seed": ("int", "seed of all vectors x but the first, drawn at random; 0 in rows of older versions"),
    "error_ratio": (
        "float",
        "largest error of an entry of y as a fraction of its rounding bound, over all checks; verified if at most 1",
    ),
    "launches": ("int", "kernel launches or library calls of one SpMV"),
    "timed_by": (
        "str",
        "what starts the products that are timed: graph (of CUDA), stream (enqueued one after the other between two "
        "events), host (each product waited for, on the emulated device too); empty in rows of older versions",
    ),
    "near_launch_overhead": ("bool", "t_median is below twice the launch overhead, the time of an empty kernel"),
    "energy": ("float", "energy of one SpMV, hot, what the idle device uses included, J; NaN if not measured"),
    "energy_low": ("float", "low end of the 95 % confidence interval of energy, J"),
    "energy_high": ("float", "high end of the 95 % confidence interval of energy, J"),
    "sm_clock_mhz": ("float", "multiprocessor clock after the samples, MHz"),
    "detail": (
        "str",
        "further facts of the format, and of the operation's x and result, JSON; of a tuned format the parameters in "
        "use, and search_seconds, the part of t_convert_device that finding them took",
    ),
    "started_at": ("str", "start of the case, ISO 8601, UTC"),
    "t_case": ("float", "wall time of the case, seconds"),
}

# The description of a matrix: its identity, and what `matrices.features.description` gives.
MATRIX_COLUMNS: dict[str, tuple[str, str]] = {
    "schema_version": COLUMNS["schema_version"],
    "sequence": COLUMNS["sequence"],
    "matrix_sha256": ("str", "hash of the matrix, as in its rows"),
    "group": COLUMNS["group"],
    "name": COLUMNS["name"],
    "row_lengths": ("ints", "distinct row lengths, rising, entries"),
    "row_counts": ("ints", "number of rows of each length"),
    "down": ("int", "cells of a grid over the matrix from top to bottom; 0 without entries"),
    "across": ("int", "cells of the grid from left to right"),
    "density": ("floats", "share of places with an entry, 0 to 1, cell by cell in row order"),
    "zoom_row": ("int", "first row of the enlarged part"),
    "zoom_col": ("int", "its first column"),
    "zoom_rows": ("int", "its rows; 0 if the grid over the matrix has one cell per place"),
    "zoom_cols": ("int", "its columns"),
    "zoom_down": ("int", "cells of the grid over that part from top to bottom"),
    "zoom_across": ("int", "cells of that grid from left to right"),
    "zoom_density": ("floats", "share of places of that part with an entry, cell by cell in row order"),
    "started_at": ("str", "when the matrix was described, ISO 8601, UTC"),
}

# Names of columns before version 2, and what replaced them. `current` renames them wherever rows are read.
OLD_COLUMNS = {
    "run_mean": "contiguous_run_mean",
    "alike_rows": "repeated_row_share",  # was a count of rows
    "col_step_log2": "column_step_log2",
    "slice_fill": "ell_fill",
    "own_kernel": "project_kernel",
    "t_parts": "t_kernels",
    "near_launch_floor": "near_launch_overhead",
}

# The same for the metadata of a run's invocations (run.json) and of models that were trained on them.
OLD_METADATA = {"roofs": "bounds", "launch_floor": "launch_overhead"}

_EMPTY: dict[str, Any] = {"str": "", "int": 0, "float": math.nan, "bool": False, "ints": [], "floats": []}


def rate_unit(op: str) -> str:
    """The unit of the column `gflops` for an operation or a setting: GTEPS counts arcs of a search."""
    return "GTEPS" if "bfs" in op else "GFLOPS"


def blank_row(columns: Mapping[str, tuple[str, str]] = COLUMNS) -> dict[str, Any]:
    """A row of empty values: "" for text, 0 for counts, NaN for floats, [] for lists."""
    empty = {name: _EMPTY[kind] for name, (kind, _) in columns.items()}
    return {name: list(value) if isinstance(value, list) else value for name, value in empty.items()} | {
        "schema_version": SCHEMA_VERSION
    }


def storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row as plain values. If a value does not fit its column, the status becomes `error`.

    The reason then names that value, and the status and reason that the row had.
    """
    plain, refused = fitted(row)
    if refused:
        would = f"; the case was {plain['status']}" + (f": {plain['reason']}" if plain.get("reason") else "")
        reason = f"a row cannot hold what the format gave: {', '.join(refused)}{would if plain.get('status') else ''}"
        plain |= {"status": "error", "reason": reason}
    return plain


def fitted(
    row: Mapping[str, Any], columns: Mapping[str, tuple[str, str]] = COLUMNS
) -> tuple[dict[str, Any], list[str]]:
    """The values in the types of their columns, and in words those that do not fit, or that no reader would take.

    Values that do not fit become the column's empty value, texts that are not Unicode their printable part.
    """
    plain, refused = {}, []
    for name, value in row.items():
        kind = columns[name][0]
        try:
            plain[name] = _PLAIN[kind](value)
            if any(wrong for wrong, _ in _VALUE_FAULTS[kind](name, plain[name])):
                plain[name] = _EMPTY[kind]
                refused.append(f"{name} {_shown(value)}")
        except Exception:  # a format's own type may raise anything here
            text = isinstance(value, str) and kind == "str"
            plain[name] = value.encode(errors="backslashreplace").decode() if text else _EMPTY[kind]
            refused.append(f"{name} {_shown(value)}")
    return plain, refused


def _text(value: Any) -> str:
    value.encode()  # raises for other types and for lone surrogates
    return str(value)


def _count(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():  # estimates may end in a division
        value = int(value)
    return int(np.int64(operator.index(value)))  # raises beyond 64 bits


def _truth(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise TypeError
    return bool(value)


_PLAIN: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _count,
    "float": lambda value: float(value + 0.0),  # raises for text
    "bool": _truth,
    "ints": lambda value: [_count(part) for part in value],
    "floats": lambda value: [float(part) for part in value],
}


def _shown(value: Any, most: int = 80) -> str:
    """A value of any type as a short ASCII text."""
    try:
        text = ascii(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."


def arrow_schema(columns: Mapping[str, tuple[str, str]] = COLUMNS) -> Any:
    """The columns as a pyarrow schema; each field's metadata holds its meaning."""
    import pyarrow as pa

    types = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "ints": pa.list_(pa.int64()),
        "floats": pa.list_(pa.float32()),
    }
    return pa.schema(
        [pa.field(name, types[kind], metadata={"meaning": meaning}) for name, (kind, meaning) in columns.items()],
        metadata={"schema_version": str(SCHEMA_VERSION)},
    )


def current(table: pa.Table) -> pa.Table:
    """The table with columns of older versions under today's names, in today's units (`OLD_COLUMNS`).

    Raises ValueError if it holds a column under both names, or counts of repeated rows without the number of rows.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

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


def current_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of an invocation with entries of older versions under today's names (`OLD_METADATA`)."""
    return {OLD_METADATA.get(name, name): value for name, value in metadata.items()}


# Limits of values in rows that are read; rows may come from untrusted files.
MOST_TEXT, MOST_JSON = 1_000, 1_000_000  # characters of a text, and of one that is JSON
MOST_REASON = 20_000  # characters of a reason, which may hold a compiler's log; longer ones are cut, not refused
_JSON = ("params", "t_kernels", "bytes_arrays", "detail")
_WORDS = {
    "status": re.compile("|".join(STATUSES)),
    "mode": re.compile("hot|cold"),
    "dtype": re.compile("f64|f32|(f32|f16|bf16)/f64|(f16|bf16)/f32|pattern"),
    "op": re.compile(r"spmv|spmv-t@[12]|spmspv@[\d.e+-]{1,32}|bfs(-directed)?@\d{1,9}|(cg|pagerank)@\d{1,9}"),
    "order": re.compile(r"(?:[A-Za-z][\w-]{0,63})?"),
    "device": re.compile(r"cuda:\d{1,9}|emulated(-check)?"),
    "started_at": re.compile(r"\d{4}-\d\d-\d\d(T[\d:.+Z-]{1,32})?"),
}
_SHORTEST, _LONGEST = 1e-12, 1e9  # seconds
_GRIDS = (("down", "across", "density"), ("zoom_down", "zoom_across", "zoom_density"))


def invalid_rows(table: pa.Table, columns: Mapping[str, tuple[str, str]] = COLUMNS) -> dict[int, str]:
    """The rows that violate the schema: the reason, by index in the table.

    table: these columns in the types of `arrow_schema`, without nulls. Checked are words (status, mode, type,
    operation, device), lengths of texts, syntax and shape of JSON, numbers that are infinite or negative, times of
    rows with status ok, and numbers of cells of grids. Sizes may be any number. Whether values are plausible is checked
    by `spmvbench check`.
    """
    found: dict[int, str] = {}
    for name, (kind, _) in columns.items():
        for wrong, why in _FAULTS[kind](name, table):
            for place in np.flatnonzero(wrong):
                found.setdefault(int(place), f"{name} {why}")
    if "status" in columns:
        ok = np.array([status == "ok" for status in table["status"].to_pylist()], dtype=bool)
        for name in ("t_median", "t_q1", "t_q3"):
            times = table[name].to_numpy()
            required = ok if name == "t_median" else ok & ~np.isnan(times)
            for place in np.flatnonzero(required & ~((times >= _SHORTEST) & (times <= _LONGEST))):
                found.setdefault(int(place), f"{name} is {times[place]:g} seconds")
    if "density" in columns:
        of_grids = [name for grid in _GRIDS for name in grid]
        described = table.select([*of_grids, "row_lengths", "row_counts"]).to_pandas()
        for number, row in enumerate(described.to_dict("records")):
            if why := _description_fault(row):
                found.setdefault(number, why)
    return found


def _longest(name: str) -> int:
    """Characters that a text may have."""
    return {"reason": MOST_REASON}.get(name, MOST_JSON if name in _JSON else MOST_TEXT)


def _text_faults(name: str, table: pa.Table) -> Iterator[tuple[Any, str]]:
    import pyarrow.compute as pc

    most = _longest(name)
    lengths = pc.utf8_length(table[name]).to_numpy()
    yield lengths > most, f"has more than {most:,} characters"
    if name in _WORDS or name in _JSON:
        texts = table[name].to_pylist()
        short = {text for text, length in zip(texts, lengths, strict=True) if length <= most}
        bad = {text: why for text in short if (why := _word_fault(name, text))}
        for why in set(bad.values()):
            yield np.array([bad.get(text) == why for text in texts], dtype=bool), why


def _word_fault(name: str, text: str) -> str:
    if not text and name != "status":
        return ""
    if name in _WORDS:
        return "" if _WORDS[name].fullmatch(text) else f"is {_shown(text, 40)}"
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return "is not JSON"
    return "" if _has_shape(name, held) else "is JSON of another shape"


def _has_shape(name: str, held: Any) -> bool:
    if not isinstance(held, dict) or not all(key.isprintable() and len(key) <= MOST_TEXT for key in held):
        return False
    if name == "t_kernels":
        return _numbers(list(held.values())) and 0 < sum(held.values()) < math.inf
    if name == "bytes_arrays":
        return _numbers(list(held.values()))
    if name == "params":
        return all(isinstance(value, str | int | float | bool | None) for value in held.values())
    shares = [held[key] for key in ("tile_share", "nnz_share") if held.get(key) is not None]
    levels = [held[key] for key in ("level_seconds", "level_kernel", "level_found") if key in held]
    return (
        all(isinstance(share, dict) and _numbers(list(share.values())) for share in shares)
        and (not shares or (len(shares) == 2 and shares[0].keys() <= shares[1].keys()))
        and (not levels or (len(levels) == 3 and all(isinstance(of, list) and _numbers(of) for of in levels)))
        and _numbers([held.get("partition_s", 0.0)])
    )


def _numbers(values: list[Any]) -> bool:
    """Whether these are finite numbers, none of them negative."""
    return all(type(value) in (int, float) and 0 <= value < math.inf for value in values)


def _number_faults(name: str, values: Any) -> Iterator[tuple[Any, str]]:
    """Of one number, or of an array of them."""
    if name != "error_ratio":  # errors may be infinite
        yield abs(values) == math.inf, "is infinite"
    if name.startswith("t_"):
        yield (values > 0) & (values < _SHORTEST), "is out of range"
    yield values < 0, "is negative"


def _list_faults(name: str, table: pa.Table) -> Iterator[tuple[Any, str]]:
    import pyarrow.compute as pc

    column = table[name].combine_chunks()
    values = pc.list_flatten(column).fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(column), dtype=bool)
    wrong[pc.list_parent_indices(column).to_numpy()[~(np.isfinite(values) & (values >= 0))]] = True
    yield wrong, "holds a value that is NaN, negative or infinite"


_FAULTS: dict[str, Callable[[str, Any], Iterator[tuple[Any, str]]]] = {
    "str": _text_faults,
    "int": lambda name, table: _number_faults(name, table[name].to_numpy()),
    "float": lambda name, table: _number_faults(name, table[name].to_numpy()),
    "bool": lambda name, table: iter(()),
    "ints": _list_faults,
    "floats": _list_faults,
}


def _value_of_text_faults(name: str, text: str) -> Iterator[tuple[bool, str]]:
    if name != "reason":  # which is cut where it is read
        yield len(text) > _longest(name), "is too long"
    if text and (name in _WORDS or name in _JSON):
        yield bool(_word_fault(name, text)), "is another word"


def _value_of_list_faults(name: str, values: list[Any]) -> Iterator[tuple[bool, str]]:
    yield not all(0 <= value < math.inf for value in values), "holds a value that is NaN, negative or infinite"


# The same for the value of one row. An empty text is one that is not known yet.
_VALUE_FAULTS: dict[str, Callable[[str, Any], Iterator[tuple[Any, str]]]] = {
    "str": _value_of_text_faults,
    "int": _number_faults,
    "float": _number_faults,
    "bool": lambda name, value: iter(()),
    "ints": _value_of_list_faults,
    "floats": _value_of_list_faults,
}


def _description_fault(row: Mapping[str, Any]) -> str:
    """What is wrong with the grids and row lengths of a description, its lists as arrays; empty if nothing."""
    for down, across, density in _GRIDS:
        if row[down] * row[across] != len(row[density]):
            return f"{density} has {len(row[density])} cells and not {row[down]} x {row[across]}"
        if (row[density] > 1).any():
            return f"{density} holds more than 1"
    lengths = row["row_lengths"]
    if len(lengths) != len(row["row_counts"]) or (np.diff(lengths) <= 0).any():
        return "row_lengths do not rise, or are not as many as row_counts"
    return ""
