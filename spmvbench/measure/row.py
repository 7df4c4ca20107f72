"""The row of a case, made from the results of its stages: where each measured column comes from.

The driver adds the columns that are known before (`cases.Case.columns`) and those of the matrix (`worker.measure`).
Meaning and unit of each column: `rows.schema.COLUMNS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from spmvbench.formats import footprint
from spmvbench.formats.vectors import parts
from spmvbench.measure import bounds, timing
from spmvbench.measure.cases import Case
from spmvbench.measure.context import Context
from spmvbench.measure.failures import Failure
from spmvbench.measure.results import Bound, Converted, Decoded, Finished, HostConversion, IntegerTest

NEAR_LAUNCH_OVERHEAD = 2  # shorter times, as multiples of the launch overhead, say little about the format


def converted_columns(
    context: Context,
    host: HostConversion | None,
    integer_test: IntegerTest | None,
    converted: Converted | None,
    decoded: Decoded | None,
) -> dict[str, Any]:
    """Columns of the stages up to decoding, the same for every case of a format."""
    found: dict[str, Any] = {}
    if host is not None:
        known = {"t_convert_host": host.seconds, "t_transfer": host.transfer}
        found |= {name: seconds for name, seconds in known.items() if not math.isnan(seconds)}
    if converted is not None:
        nnz, size = context.references.a.nnz, converted.fmt.nbytes
        found |= {
            "bytes_format": size,
            "bytes_per_nnz": size / nnz if nnz else math.nan,
            "compresses_values": footprint.compresses_values(converted.fmt, context.references.stored),
            "bytes_arrays": json.dumps({name: array.nbytes for name, array in converted.fmt.arrays().items()}),
        }
        if not math.isnan(converted.seconds):
            found |= {"t_convert_device": converted.seconds, "bytes_peak": converted.peak}
    if decoded is not None:
        found |= {"decoded": decoded.decoded, "t_decode": decoded.seconds}
    if integer_test is not None and integer_test.passed:
        found["t_compile"] = integer_test.compile
    return found


def bound_columns(context: Context, op: str, integer_test: IntegerTest, bound: Bound) -> dict[str, Any]:
    """Columns of the binding stage, the same for every mode of an operation."""
    found: dict[str, Any] = {
        "launches": len(bound.steps),
        "code_hash": bound.program.code_hash,
        "program": bound.program_hash,
        "t_setup": bound.setup,
        "t_compile": bound.program.compile_seconds + integer_test.compile,
        "bytes_workspace": bound.workspace,
        "detail": json.dumps(bound.detail, default=float) if bound.detail else "",
    }
    known, a = context.ops[op], context.references.a
    if known.streams:
        vectors = known.vector_elements(a.rows, a.cols) * a.dtype.itemsize
        found["model_bytes"] = known.iterations * (bound.read + vectors)
    return found


def finished_columns(case: Case, finished: Finished, known: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the stages after the last round."""
    found: dict[str, Any] = {"t_x_changed": finished.t_x_changed.get(case.mode, math.nan)}
    if case.mode == "hot":
        used = finished.energy
        found |= {"energy": used.joules, "energy_low": used.low, "energy_high": used.high}
        if finished.t_kernels:
            found["t_kernels"] = json.dumps(finished.t_kernels)
    if finished.detail:
        found["detail"] = json.dumps(json.loads(known.get("detail") or "{}") | finished.detail)
    return found


def timed_columns(context: Context, case: Case, series: timing.Series, known: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the samples, and of the rates and bounds that follow from their median."""
    found = timing.summary(series)
    median, work = found["t_median"], context.references.checks[case.op].work
    found |= {
        "work": work,
        "near_launch_overhead": median < NEAR_LAUNCH_OVERHEAD * context.facts["launch_overhead"][case.mode],
    }
    if median > 0:
        found["gflops"] = 1e-9 * work / median
    return found | byte_columns(context, case, median, known)


def byte_columns(context: Context, case: Case, median: float, known: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of timing that follow from the bytes of this format: formats that run one program may differ in them."""
    if "model_bytes" not in known:
        return {}
    iterations = context.ops[case.op].iterations
    return ({"gbps": 1e-9 * known["model_bytes"] / median} if median > 0 else {}) | bounds.columns(
        context.facts.get("bounds", {}),
        nnz=context.references.a.nnz,
        fetched=context.fetched if context.ops[case.op].gathers else bounds.Fetched(0.0, 0.0),
        model_bytes=known["model_bytes"] // iterations,
        flops=context.references.checks[case.op].work / iterations,
        x_bytes=parts(context.x[case.op])[-1].nbytes,
    )


def failure_columns(failure: Failure | None) -> dict[str, Any]:
    """Status and reason of a case."""
    if failure is None:
        return {"status": "ok"}
    sizes = {"bytes_needed": failure.bytes_needed, "bytes_limit": failure.bytes_limit}
    return {"status": failure.status, "reason": failure.reason} | (sizes if failure.status == "skipped" else {})


def implausible(context: Context, case: Case, known: Mapping[str, Any]) -> Failure | None:
    """A failure if the time is shorter than reading the arrays and writing y takes; None otherwise."""
    found = context.facts.get("bounds", {})
    if not found or "model_bytes" not in known or not known.get("samples"):
        return None
    x_bytes = sum(array.nbytes for array in parts(context.x[case.op]))
    # What an iteration of a solver reads may be in L2 from the one before, though all together read more than L2 holds.
    iterations = context.ops[case.op].iterations
    least = iterations * bounds.least_seconds(found, known["model_bytes"] // iterations - x_bytes, case.mode)
    longest = timing.median_interval(known["samples"])[2]
    if not longest < least / (1 + bounds.ERROR):
        return None
    return Failure(
        "implausible",
        f"{known['t_median']:.3g} s is less than the {least:.3g} s that reading its arrays and writing y takes at the "
        "device's measured peak rate",
    )
