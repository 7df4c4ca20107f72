"""Measures the formats that the advice ranks first, on the GPU at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spmvbench.advice.choosing import Advice
from spmvbench.advice.model import MEASURED, operation
from spmvbench.devices import cuda
from spmvbench.errors import SpmvbenchError, UsageError

if TYPE_CHECKING:
    import pandas as pd


def require_gpu() -> None:
    """Raise UsageError if there is no GPU to measure on."""
    if missing := cuda.why_unavailable():
        raise UsageError(f"measuring needs a GPU: {missing}")


def measured(
    advice: Advice,
    matrix: Any,
    dtype: str,
    spmvs: float,
    seed: int = 0,
    real_part: bool = False,
    device: str = "auto",
    vectors: int = 1,
) -> pd.DataFrame:
    """Measures the best few formats, cuSPARSE's and the fallback on this machine's GPU, in a temporary run.

    matrix: as `spmvbench.run` takes it. dtype: f64 or f32. seed: of generated values. real_part: of a complex matrix.
    vectors: of each product.

    Returns their rows, the fastest first, with four more columns: seconds of the conversion (`made`) and of conversion
    and SpMVs (`total`), the prediction (`expected`), and the format whose program is the same (`same_as`). Raises
    SpmvbenchError if nothing could be measured.
    """
    import tempfile

    from spmvbench.analysis.breakeven import ready  # with pandas, which advice without measuring does not need
    from spmvbench.analysis.programs import same_as
    from spmvbench.runner import api

    tried = dict.fromkeys((*advice.ranked[:MEASURED], advice.vendor, advice.fallback))
    expected = {e.label: e.total for e in tried}
    with tempfile.TemporaryDirectory() as results:
        rows = api.run(
            [matrix],
            list(expected),
            op=operation(vectors),
            dtype=dtype,
            mode="hot",
            device=device,
            results=results,
            convert="device",
            seed=seed,
            real_part=real_part,
        )
    if not (rows["status"] == "ok").any():
        reasons = dict.fromkeys(rows["label"] + ": " + rows["status"] + ", " + rows["reason"])
        raise SpmvbenchError(f"nothing could be measured here: {'; '.join(reasons)}")
    made = ready(rows)
    rows = rows.assign(made=made, total=made + spmvs * rows["t_median"], expected=rows["label"].map(expected))
    rows = rows.assign(same_as=same_as(rows.assign(setting="", matrix="the matrix")))
    return rows.sort_values("total", ignore_index=True)
