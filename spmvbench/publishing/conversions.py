"""The table of docs/results/conversion.md: what conversion on the device takes, beside the least time of its bytes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from spmvbench.advice import model, quick
from spmvbench.analysis.cases import hot, latest_cases, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.roofline import INDEX_BYTES, VALUE_BYTES
from spmvbench.errors import UsageError
from spmvbench.publishing import in_page
from spmvbench.rows import store

SMALL, LARGE = 10**6, 10**7  # entries: fewer than the first, more than the second
MOST_SECONDS, MOST_BOUNDS = 0.15e-3, 3.0  # the targets below SMALL and above LARGE
# Formats that neither the advice nor `auto` takes, in which matrices are often asked for.
OTHERS = (
    *("bellpack", "csr-adaptive-l", "csr-row-tiles", "hll", "hub-cache", "hyb", "sell", "sell-c-sigma"),
    *("sell-cusparse", "sell-local", "sell-p"),
)


def conversions(rows: pd.DataFrame, bytes_per_second: float) -> pd.DataFrame:
    """Verified hot rows of a device's conversions: setting, matrix, label, nnz, seconds, tuning, bounds.

    seconds: without tuning. bounds: them in multiples of the time that reading CSR and writing the arrays takes at so
    many bytes a second.
    """
    counted = hot(verified(rows)).dropna(subset=["t_convert_device"])
    entry = INDEX_BYTES + counted["dtype"].map(VALUE_BYTES)
    read = counted["nnz"] * entry + INDEX_BYTES * (counted["rows"] + 1)
    least = (read + counted["bytes_format"]) / bytes_per_second
    found = counted[["setting", "matrix", "label", "nnz"]].assign(
        seconds=counted["t_convert_device"], tuning=counted["t_tune"], bounds=counted["t_convert_device"] / least
    )
    return found.reset_index(drop=True)


def lines(found: pd.DataFrame, labels: Iterable[str]) -> list[list[str]]:
    """Of one setting, a line for each label: milliseconds by size, multiples of the bound, and what misses a target."""
    made = []
    for label in labels:
        part = found[found["label"] == label]
        sizes = np.digitize(part["nnz"], (SMALL, LARGE))
        small, medium, large = (part[sizes == size] for size in range(3))
        seconds = (1e3 * each["seconds"].median() for each in (small, medium, large))
        cells = [in_page.number(ms, 2, "-") for ms in seconds]
        mean = geometric_mean(large["bounds"]) if len(large) else np.nan
        over = [
            f"{len(missed)} of {len(each)} {name}"
            for each, missed, name in (
                (small, small[small["seconds"] > MOST_SECONDS], "small"),
                (large, large[large["bounds"] > MOST_BOUNDS], "large"),
            )
            if len(missed)
        ]
        most = large["bounds"].max()
        tuning = part["tuning"].median()
        made.append(
            [
                f"`{label}`",
                *cells,
                in_page.number(mean, 1, "-"),
                in_page.number(most, 1, "-"),
                in_page.number(1e3 * tuning, 0),
                ", ".join(over),
            ]
        )
    return made


HEAD = (
    "Format",
    "< 1 M entries: ms",
    "1 to 10 M: ms",
    "> 10 M: ms",
    "x bound",
    "largest",
    "tuning: ms",
    "over the target",
)


def named() -> set[str]:
    """The formats of the advice, of `auto` and OTHERS."""
    return {*model.loaded("h200").labels, *quick.chooser().labels, *OTHERS}


def of_run(run: str) -> str:
    """The tables of a run, a setting each. Raises UsageError if it has no conversions on a device."""
    rate = float(store.environment(run).get("read_bandwidth_gbps") or np.nan) * 1e9
    found = conversions(latest_cases(store.load(run)), rate)
    parts = []
    for setting, part in found.groupby("setting", observed=True):
        labels = sorted(named() & set(part["label"]))
        matrices = part.groupby("matrix")["nnz"].first()
        sizes = map(str, np.bincount(np.digitize(matrices, (SMALL, LARGE)), minlength=3))
        parts.append(
            f"{setting}, {rate / 1e12:.1f} TB/s; matrices: {', '.join(sizes)}.\n\n"
            + in_page.markdown(HEAD, lines(part, labels), HEAD[1:-1])
        )
    if not parts:
        raise UsageError(f"{run} has no verified row of a conversion on a device")
    return "\n\n".join(parts)


main = in_page.command(lambda given: "\n\n".join(map(of_run, given.runs)), in_page.RUNS)
