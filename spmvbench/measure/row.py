"""The row of a case, made from the results of its stages: where each measured column comes from.

What is known before (`plan.Case.columns`) and of the matrix (`worker.measure`) is added by the driver; the meaning and
unit of each column is in `record.COLUMNS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from spmvbench.formats.vectors import parts
from spmvbench.measure import bounds, timing
from spmvbench.measure.cases import Case
from spmvbench.measure.stages import Bound, Context, Converted, Decoded, Failure, Finished, HostConversion, Proof


def converted_columns(
    context: Context,
    host: HostConversion | None,
    proof: Proof | None,
    converted: Converted | None,
    decoded: Decoded | None,
) -> dict[str, Any]:
    """What the stages up to decoding tell: columns of every case of a format."""
    found: dict[str, Any] = {}
    if host is not None:
        known = {"t_convert_host": host.seconds, "t_transfer": host.transfer}
        found |= {name: seconds for name, seconds in known.items() if not math.isnan(seconds)}
    if converted is not None:
        nnz, size = context.shared.a.nnz, converted.fmt.nbytes
        found |= {
            "bytes_format": size,
            "bytes_per_nnz": size / nnz if nnz else math.nan,
            "bytes_arrays": json.dumps({name: array.nbytes for name, array in converted.fmt.arrays().items()}),
        }
        if not math.isnan(converted.seconds):
            found |= {"t_convert_device": converted.seconds, "bytes_peak": converted.peak}
    if decoded is not None:
        found |= {"decoded": decoded.decoded, "t_decode": decoded.seconds}
    if proof is not None and proof.passed:
        found["t_compile"] = proof.compile
    return found


def bound_columns(context: Context, op: str, proof: Proof, bound: Bound) -> dict[str, Any]:
    """What binding tells: columns of every mode of an operation."""
    found: dict[str, Any] = {
        "launches": len(bound.steps),
        "code_hash": bound.program.code_hash,
        "program": bound.program_hash,
        "t_setup": bound.setup,
        "t_compile": bound.program.compile_seconds + proof.compile,
        "bytes_workspace": bound.workspace,
        "detail": json.dumps(bound.detail, default=float) if bound.detail else "",
    }
    if context.ops[op].streams:
        vectors = sum(array.nbytes for array in (*parts(context.x[op]), context.y))
        found["model_bytes"] = bound.read + vectors
    return found


def finished_columns(case: Case, finished: Finished, known: Mapping[str, Any]) -> dict[str, Any]:
    """What is found after the last round."""
    found: dict[str, Any] = {"t_x_changed": finished.t_x_changed.get(case.mode, math.nan)}
    if case.mode == "hot" and finished.t_parts:
        found["t_kernels"] = json.dumps(finished.t_parts)
    if finished.detail:
        found["detail"] = json.dumps(json.loads(known.get("detail") or "{}") | finished.detail)
    return found


def timed_columns(context: Context, case: Case, series: timing.Series, known: Mapping[str, Any]) -> dict[str, Any]:
    """The samples, and what sets their median beside the work, the bytes and the device."""
    found = timing.summary(series)
    median, work = found["t_median"], context.shared.checks[case.op].work
    found |= {"work": work, "near_launch_overhead": median < 2 * context.facts["launch_overhead"][case.mode]}
    if median > 0:
        found["gflops"] = 1e-9 * work / median
    if "model_bytes" in known:
        if median > 0:
            found["gbps"] = 1e-9 * known["model_bytes"] / median
        found |= bounds.columns(
            context.facts.get("bounds", {}),
            nnz=context.shared.a.nnz,
            fetched=context.fetched,
            model_bytes=known["model_bytes"],
            x_bytes=parts(context.x[case.op])[-1].nbytes,
        )
    return found


def failure_columns(failure: Failure | None) -> dict[str, Any]:
    """The status of a case, and why."""
    if failure is None:
        return {"status": "ok"}
    sizes = {"bytes_needed": failure.bytes_needed, "bytes_limit": failure.bytes_limit}
    return {"status": failure.status, "reason": failure.reason} | (sizes if failure.status == "skipped" else {})


def implausible(context: Context, case: Case, known: Mapping[str, Any]) -> Failure | None:
    """The verdict on a time that is shorter than reading the arrays and writing y takes; None where it is not."""
    found = context.facts.get("bounds", {})
    if not found or "model_bytes" not in known or not known.get("samples"):
        return None
    x_bytes = sum(array.nbytes for array in parts(context.x[case.op]))
    least = bounds.least_seconds(found, known["model_bytes"] - x_bytes, case.mode)
    longest = timing.median_interval(known["samples"])[2]
    if not longest < least / (1 + bounds.ERROR):
        return None
    return Failure(
        "implausible",
        f"{known['t_median']:.3g} s is less than the {least:.3g} s that reading its arrays and writing y takes at the "
        "device's measured peak rate",
    )
