"""The row of a case: where each column comes from. No other module names a column of a row that it makes.

Features of a matrix have the names of columns already (`matrices.features`); the writer numbers the rows of a run
(`run_id`, `sequence`). Meaning and unit of each column: `rows.schema.COLUMNS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from spmvbench import formats
from spmvbench.formats import Csr, footprint
from spmvbench.formats.precision import rounding_error
from spmvbench.formats.vectors import parts
from spmvbench.measure import bounds, operations, timing
from spmvbench.measure.cases import Case
from spmvbench.measure.context import Context
from spmvbench.measure.failures import Failure
from spmvbench.measure.results import Bits, Bound, Converted, Decoded, Finished, HostConversion, IntegerTest

NEAR_LAUNCH_OVERHEAD = 2  # shorter times, as multiples of the launch overhead, say little about the format


def known_columns(case: Case) -> dict[str, Any]:
    """Columns that are known before the measurement."""
    cls, params, matrix = formats.get(case.format), dict(case.params), case.matrix
    return {
        "case_id": case.case_id,
        "group": matrix.group,
        "name": matrix.name,
        "file_sha256": matrix.file_sha256,
        "generator_hash": matrix.generator_hash,
        "order": case.order,
        "order_hash": matrix.order_hash,
        "kind": matrix.kind,
        "format": case.format,
        "family": cls.family,
        "params": formats.params_text(params),
        "label": case.label,
        "experiment": cls.experiment,
        "project_kernel": cls.runs_project_kernel(params),
        "alias_of": cls.alias_of if params == cls.resolve({}) else "",
        "source_hash": case.source_hash,
        "dtype": case.dtype,
        "op": case.op,
        **operations.get(case.op).columns,
        "mode": case.mode,
        "timing_rule": case.timing_rule,
    }


def device_columns(facts: Mapping[str, Any], host: str = "") -> dict[str, Any]:
    """Columns of where a case was measured. facts: of the device. host: its pseudonym."""
    properties = facts.get("properties", {})
    known = {name: str(properties.get(name, "")) for name in ("device_name", "gpu", "numa_node")}
    return {"device": facts["device"], "host": host} | known


def matrix_columns(
    a: Csr, stored: Csr, fetched: bounds.Fetched, seconds: float, known: Mapping[str, Any]
) -> dict[str, Any]:
    """Columns of a matrix in one type. a: as it was read, in float64. stored: as its type stores it. seconds: of one
    SpMV by the host. known: `identity_columns`.
    """
    return {
        **known,
        "t_spmv_host": seconds,
        "rounding_error": rounding_error(a, stored),
        "x_sectors": fetched.sectors,
        "x_lines": fetched.lines,
    }


def identity_columns(found: Mapping[str, Any], x_seed: int) -> dict[str, Any]:
    """Columns of a matrix in any type. found: by `reading.read`. x_seed: of all x but the first."""
    return {**found, "x_seed": x_seed}


def case_columns(started_at: str, seconds: float | None = None) -> dict[str, Any]:
    """Columns of a case with any status. seconds: of work on it; None if no work was done."""
    return {"started_at": started_at} | ({} if seconds is None else {"t_case": seconds})


def host_columns(host: HostConversion) -> dict[str, Any]:
    """Columns of the conversion on the host; none if it was left out."""
    known = {"t_convert_host": host.seconds, "t_transfer": host.transfer}
    return {name: seconds for name, seconds in known.items() if not math.isnan(seconds)}


def integer_test_columns(test: IntegerTest) -> dict[str, Any]:
    """Columns of the exact integer test, until the launches are bound."""
    return {"t_compile": test.compile} if test.passed else {}


def converted_columns(context: Context, converted: Converted) -> dict[str, Any]:
    """Columns of the format's arrays."""
    nnz, size = context.references.a.nnz, converted.fmt.nbytes
    sizes = {name: array.nbytes for name, array in converted.fmt.arrays().items()}
    if converted.fmt.hidden_bytes:
        sizes[footprint.HIDDEN] = converted.fmt.hidden_bytes
    found = {
        "bytes_format": size,
        "bytes_per_nnz": size / nnz if nnz else math.nan,
        "compresses_values": footprint.compresses_values(converted.fmt, context.references.stored),
        "bytes_arrays": json.dumps(sizes),
    }
    if not math.isnan(converted.seconds):
        found |= {"t_convert_device": converted.seconds, "bytes_peak": converted.peak}
    if not math.isnan(converted.search):
        found |= {"t_tune": converted.search}
    return found


def decoded_columns(decoded: Decoded) -> dict[str, Any]:
    """Columns of decoding."""
    return {"decoded": decoded.decoded, "t_decode": decoded.seconds}


def bound_columns(context: Context, op: str, integer_test: IntegerTest, bound: Bound) -> dict[str, Any]:
    """Columns of the binding stage, the same for every mode of an operation."""
    found: dict[str, Any] = {
        "launches": len(bound.steps),
        "timed_by": bound.timed_by,
        "code_hash": bound.program.code_hash,
        "float_atomics": bound.float_atomics,
        "program": bound.program_hash,
        "t_setup": bound.setup,
        "t_compile": bound.program.compile_seconds + integer_test.compile,
        "bytes_workspace": bound.workspace,
        "detail": json.dumps(bound.detail, default=float) if bound.detail else "",
    }
    if bound.timed_by == "host" and context.device.kind == "cuda":
        found["experiment"] = True  # its time is the host's as well
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
        found |= {"energy": used.joules, "energy_low": used.low, "energy_high": used.high, "watts": used.watts}
        found |= {"t_in_use": finished.t_in_use, "t_update": finished.t_update}
        if finished.t_kernels:
            found["t_kernels"] = json.dumps(finished.t_kernels)
    if finished.detail:
        found["detail"] = json.dumps(json.loads(known.get("detail") or "{}") | finished.detail)
    return found


def note_columns(notes: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Column of what a format did in the process; none if it did nothing. known: the row's other columns."""
    return {"detail": json.dumps(json.loads(known.get("detail") or "{}") | notes)} if notes else {}


def bits_columns(bits: Bits) -> dict[str, Any]:
    """Columns of the comparison of bits."""
    return {
        "same_bits": "yes" if bits.distinct == 1 else "no",
        "distinct_results": bits.distinct,
        "compared_results": bits.products,
        "result_bits": "" if bits.result is None else f"{bits.result:016x}",
    }


def error_columns(error_ratio: float) -> dict[str, Any]:
    """Column of the largest error as a fraction of its bound."""
    return {"error_ratio": error_ratio}


def timed_columns(context: Context, case: Case, series: timing.Series, known: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of the samples, and of the rates and bounds that follow from their median."""
    q1, median, q3 = timing.quartiles(series)
    work = context.references.checks[case.op].work
    found: dict[str, Any] = {
        "t_median": median,
        "t_q1": q1,
        "t_q3": q3,
        "n_samples": len(series.seconds),
        "n_throttled": series.throttled,
        "repeats": series.repeats,
        "samples": series.seconds,
        "sm_clock_mhz": series.sm_clock_mhz,
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
    found: dict[str, Any] = {"gbps": 1e-9 * known["model_bytes"] / median} if median > 0 else {}
    bound = bounds.upper(
        context.facts.get("bounds", {}),
        nnz=context.references.a.nnz,
        fetched=context.fetched if context.ops[case.op].gathers else bounds.Fetched(0.0, 0.0),
        model_bytes=known["model_bytes"] // iterations,
        flops=context.references.checks[case.op].work / iterations,
        x_bytes=parts(context.x[case.op])[-1].nbytes,
    )
    return found if bound is None else found | {"bound_gflops": bound.gflops, "bound_by": bound.by}


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
