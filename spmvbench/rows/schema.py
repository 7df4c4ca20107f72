"""The schema of rows: type, unit and meaning of each column. Every case has one row, whatever its status.

A run also has one description of each matrix, with the data of figures of its sparsity pattern (`MATRIX_COLUMNS`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 3  # of version 1.0

STATUSES = {
    "ok": "measured, and verified before and after timing; imported rows are not verified here",
    "skipped": "the format, the device or a limit excludes the matrix; `reason` says why",
    "wrong": "an entry of y exceeds its error bound, or the kernel wrote outside its arrays; enters no ranking",
    "implausible": "verified, but faster than the device can move the bytes; enters no ranking",
    "oom": "out of memory",
    "timeout": "the case exceeded --timeout; its worker was replaced",
    "crashed": "the worker process died or the device failed; the worker was replaced",
    "error": "the format's code raised an exception",
}

IMPORTED = "imported"  # device of rows that others measured, with programs of their own (`import`)
SETTLED = ("ok", "skipped")  # statuses that another measurement would not change
MISSING = "a library is missing: "  # begins the reason of a skipped row
MEASURED = ("ok", "wrong", "implausible")  # verdicts on a measurement

# name: (type, meaning). Types: str, int, int or null (null: not known), float (missing is NaN), bool, ints (list of
# int64), floats (list of float32), doubles (list of float64).
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
    "matrix_sha256": (
        "str",
        "SHA-256 of shape, row_ptr, col_idx and float64 values of canonical CSR; imported:HASH, of the name alone, in "
        "imported rows",
    ),
    "file_sha256": ("str", "SHA-256 of the file's bytes if the matrix was given as a file"),
    "generator_hash": (
        "str",
        "hash of the generator's source; empty for other matrices and in rows of older versions",
    ),
    "kind": ("str", "kind according to the SuiteSparse collection, or the generator"),
    "rows": ("int", "rows of the matrix"),
    "cols": ("int", "columns of the matrix"),
    "nnz": ("int", "stored entries, stored zeros included"),
    "stored_zeros": ("int or null", "entries whose value is zero"),
    "row_len_min": ("int or null", "shortest row, entries"),
    "row_len_median": ("float", "median row, entries"),
    "row_len_mean": ("float", "mean row, entries"),
    "row_len_max": ("int or null", "longest row, entries"),
    "row_len_std": ("float", "standard deviation of the row lengths"),
    "row_len_cv": ("float", "coefficient of variation of the row lengths: std / mean"),
    "row_len_gini": ("float", "Gini coefficient of the row lengths, 0 equal to 1 all in one row"),
    "empty_rows": ("int or null", "rows without entries"),
    "empty_cols": ("int or null", "columns without entries"),
    "bandwidth": ("int or null", "largest |col - row| of an entry"),
    "diagonals": ("int or null", "non-empty diagonals"),
    "pattern_symmetry": ("float", "share of off-diagonal entries whose mirror is stored too; NaN if not square"),
    "tiles": ("int or null", "non-empty 16 x 16 tiles"),
    "full_diagonals": ("int or null", "diagonals with entries on at least half of their places"),
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
        "spmv: y = A x; spmv-t@1: y = A^T x from the same arrays, spmv-t@2: from those of A^T; pair: both; "
        "spmm@K: Y = A X with K vectors, X and Y by rows, spmm-column@K: by columns, spmm-t@K: Y = A^T X; "
        "spmspv@D: the same with a sparse x of density D; bfs@K: levels of a breadth-first search from "
        "source K in A | A^T, bfs-directed@K: in A; cg@N: N iterations of conjugate gradients, pagerank@N: of "
        "PageRank, pdhg@N: of primal-dual hybrid gradient",
    ),
    "k": ("int", "number of vectors of spmm@K; 0 for other operations and in rows of older versions"),
    "layout": ("str", "how X and Y of spmm@K lie in memory, row or column; empty for other operations"),
    "device": (
        "str",
        "cuda:0, emulated or emulated-check; imported: measured by others with a program of their own, and never "
        "verified here",
    ),
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
    "samples": ("doubles", "samples in the order of measurement, seconds per SpMV"),
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
        "conversion from canonical CSR on the device (CuPy), seconds, median of three if short, without tuning but in "
        "rows of older versions; NaN if not measured",
    ),
    "t_tune": (
        "float",
        "finding parameters of the conversion on the device by timing, without compiling, seconds; NaN if there are "
        "none to find",
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
    "same_bits": (
        "str",
        "whether products with the same x had the same bits, from y of different contents and with all arrays in a "
        "second place too, on the emulated device in other orders of blocks and lanes: yes or no; empty if not "
        "compared and in rows of older versions",
    ),
    "distinct_results": ("int", "different results, bit for bit, of these products; 0 if not compared"),
    "compared_results": ("int", "number of these products"),
    "result_bits": (
        "str",
        "checksum of y, if all of these products had the same bits, with an x from the seed: another process that runs "
        "the same program on the same kind of device has the same; empty for sparse x, BFS and solvers, and in rows of "
        "older versions",
    ),
    "float_atomics": (
        "str",
        "whether the compiled kernels add floating-point numbers by atomics, in no fixed order: yes or no, from the "
        "PTX; empty for calls of libraries, without NVRTC and in rows of older versions",
    ),
    "launches": ("int", "kernel launches or library calls of one SpMV"),
    "timed_by": (
        "str",
        "what starts the products that are timed: graph (of CUDA), stream (enqueued one after the other between two "
        "events), host (each product waited for, on the emulated device too), self (a program that says its times "
        "itself); empty in rows of older versions",
    ),
    "near_launch_overhead": ("bool", "t_median is below twice the launch overhead, the time of an empty kernel"),
    "energy": ("float", "energy of one SpMV, hot, what the idle device uses included, J; NaN if not measured"),
    "energy_low": ("float", "low end of the 95 % confidence interval of energy, J"),
    "energy_high": ("float", "high end of the 95 % confidence interval of energy, J"),
    "watts": ("float", "power of the device while energy was measured, W; NaN in rows of older versions, too"),
    "t_in_use": (
        "float",
        "one SpMV, hot, after other work filled L2 with lines that are not marked as read once, as in a solver, median "
        "of one short series, seconds; NaN in rows of older versions",
    ),
    "t_update": (
        "float",
        "putting new values of all entries, in the order of CSR on the device, where the format stores them, hot, "
        "seconds; NaN if not measured, and if values decide what is stored: the matrix is then converted anew",
    ),
    "sm_clock_mhz": ("float", "multiprocessor clock after the samples, MHz"),
    "detail": (
        "str",
        "further facts of the format, and of the operation's x and result, JSON; of a tuned format the parameters in "
        "use; of a format that printed to standard output or changed settings of the process, printed and changed",
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

LISTS = ("ints", "floats", "doubles")  # types
EMPTY: dict[str, Any] = {"str": "", "int": 0, "int or null": None, "float": math.nan, "bool": False}
EMPTY |= {kind: [] for kind in LISTS}


def rate_unit(op: str) -> str:
    """The unit of the column `gflops` for an operation or a setting: GTEPS counts arcs of a search."""
    return "GTEPS" if "bfs" in op else "GFLOPS"


def blank_row(columns: Mapping[str, tuple[str, str]] = COLUMNS) -> dict[str, Any]:
    """A row of empty values: "" for text, 0 or None for counts, NaN for floats, [] for lists."""
    empty = {name: EMPTY[kind] for name, (kind, _) in columns.items()}
    return {name: list(value) if isinstance(value, list) else value for name, value in empty.items()} | {
        "schema_version": SCHEMA_VERSION
    }


def arrow_schema(columns: Mapping[str, tuple[str, str]] = COLUMNS) -> Any:
    """The columns as a pyarrow schema; each field's metadata holds its meaning."""
    import pyarrow as pa

    types = {
        "str": pa.string(),
        **dict.fromkeys(("int", "int or null"), pa.int64()),
        "float": pa.float64(),
        "bool": pa.bool_(),
        "ints": pa.list_(pa.int64()),
        "floats": pa.list_(pa.float32()),
        "doubles": pa.list_(pa.float64()),
    }
    return pa.schema(
        [pa.field(name, types[kind], metadata={"meaning": meaning}) for name, (kind, meaning) in columns.items()],
        metadata={"schema_version": str(SCHEMA_VERSION)},
    )
