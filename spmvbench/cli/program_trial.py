"""Tries a program on the hard matrices, in the measuring process of a run, and says what is wrong with it."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench.cli.results import few

if TYPE_CHECKING:
    import pandas as pd

LARGEST = 20_000  # entries or rows
SECONDS = 5.0  # that one matrix may take
BUDGET = 0.01  # seconds of samples of each case
LEAK = 4096  # bytes a matrix: less may be Python's
SHOWN = 3  # matrices of a kind of failure
ENDED = ("crashed", "timeout")
# Of a program that is started for each product: seconds after which no other matrix is begun, and the first matrices.
STARTED_SECONDS = 10.0
STARTED_FIRST = ("4,000 random rows", "empty rows at both ends", "long rows among empty", "duplicates", "0x5", "5x0")


def hard() -> dict[str, Any]:
    """The hard matrices in both precisions, by their labels in a run."""
    import numpy as np
    from scipy import sparse

    from spmvbench.testing import hard_matrices

    small = {name: a for name, a in hard_matrices().items() if max(a.nnz, *a.shape) <= LARGEST}
    # First, for what depends on the size: rows of all lengths, more of them than a block or a wave of blocks has.
    rng = np.random.default_rng(0)
    return {"4,000 random rows": sparse.csr_array(sparse.random_array((4000, 3000), density=0.002, rng=rng))} | small


def findings(labels: Sequence[str], device: str) -> tuple[list[str], int, str]:
    """What is wrong with some formats, a sentence for each kind of failure with the matrices; [] if nothing is. And how
    many matrices were tried, in which types of values.

    labels: as `formats.parse` takes them. After a crash or a hang no other matrix is tried, and of a program that is
    started for each product as many as there is time for.
    """
    rows = _rows(hard(), labels, device)
    tried, types = rows["name"].nunique(), rows.loc[rows["status"] != "skipped", "dtype"].unique()
    found = [
        f"{label}: refuses every matrix: {cases['reason'].iloc[0]}"
        for label, cases in rows.groupby("label", sort=False)
        if (cases["status"] == "skipped").all()
    ]
    kept = rows.assign(kept=[json.loads(detail or "{}").get("bytes_kept", 0) for detail in rows["detail"]])
    for label, most in kept.groupby("label", sort=False)["kept"].max().items():
        if most >= LEAK:
            found.append(f"{label}: {most:,} bytes stay allocated after each matrix of 2,000 entries was released")
    rows = rows[~rows["status"].isin(["ok", "skipped"])]
    # Numbers differ from one matrix to another, where the failure is the same.
    kinds = rows.assign(alike=rows["reason"].str.replace(r"[\d.,e+-]+|nan|inf", "#", regex=True))
    for (label, op, status, _), cases in kinds.groupby(["label", "op", "status", "alike"], sort=False):
        where = list(cases["name"].str.cat(cases["dtype"], sep=", "))
        what = "" if op == "spmv" else f" ({op})"
        end = "; no other matrix was tried" if status in ENDED else ""
        found.append(f"{label}{what}: {status} on {few(where, SHOWN, '; ')}: {cases['reason'].iloc[0]}{end}")
    return found, tried, " and ".join(types) or "no type"


def _rows(matrices: dict[str, Any], labels: Sequence[str], device: str) -> pd.DataFrame:
    from spmvbench import formats
    from spmvbench.programs.self_timed import SelfTimed
    from spmvbench.runner.api import run

    classes = [cls for cls, _ in formats.parse(",".join(labels))]
    started = any(issubclass(cls, SelfTimed) for cls in classes)
    if started:
        matrices = {name: matrices[name] for name in STARTED_FIRST if name in matrices} | matrices
    until = time.monotonic() + (STARTED_SECONDS if started else math.inf)
    with tempfile.TemporaryDirectory() as folder:
        return run(
            matrices,
            list(labels),
            op="spmv,spmv-t" if any(cls.transposes() for cls in classes) else "spmv",
            dtype=("f64", "f32"),
            device=device,
            results=Path(folder),
            budget=BUDGET,
            # A GPU's first kernels are compiled first; a program may take seconds to start.
            timeout=SECONDS if device == "emulated" and not started else None,
            mode="hot",
            progress=lambda row: row["status"] not in ENDED and time.monotonic() < until,
        )
