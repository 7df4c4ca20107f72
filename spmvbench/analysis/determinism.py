"""Which formats repeat the bits of their products, by rows, and what a choice among those costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import fewer_values
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.programs import without_aliases
from spmvbench.analysis.ranking import ranked

# The spread of row lengths, standard deviation over mean: its upper limits, and words for what is below.
SPREADS = {0.1: "up to 0.1", 0.5: "0.1 to 0.5", 2.0: "0.5 to 2", float("inf"): "above 2"}


def across_processes(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `same_bits` no if the same program gave other bits in another row of the case, on the same kind of
    device.
    """
    held = rows[rows["result_bits"] != ""]
    results = held.groupby(["case_id", "program", "device_name"])["result_bits"].transform("nunique")
    return rows.assign(same_bits=rows["same_bits"].mask(results.gt(1).reindex(rows.index, fill_value=False), "no"))


COUNTS = ["compared", "differed", "ordered", "varied"]


def bits(rows: pd.DataFrame, by: Sequence[str] = ("label",)) -> pd.DataFrame:
    """By label, or other columns: compared and differed, the numbers of verified cases on GPUs; ordered and varied,
    those on the emulated device, whose products run blocks and lanes in other orders; float_atomics, yes if any row
    has it.

    repeats: yes, no, or empty if the rows do not tell: nothing was compared, or float atomics have not differed on a
    GPU and were not tried in other orders. cards: on which the cases were compared, by their first names.
    """
    rows = rows[rows["status"] == "ok"]
    told, differ, on_gpu = rows["same_bits"] != "", rows["same_bits"] == "no", rows["device"].str.startswith("cuda")
    compared = on_gpu & told
    groups = rows.assign(
        compared=compared,
        differed=compared & differ,
        ordered=~on_gpu & told,
        varied=~on_gpu & differ,
        yes=rows["float_atomics"] == "yes",
        no=rows["float_atomics"] == "no",
        card=rows["device_name"].str.removeprefix("NVIDIA ").str.split().str[0].where(compared),
    ).groupby(list(by), observed=True)
    found = groups[[*COUNTS, "yes", "no"]].sum().astype(int)
    found["float_atomics"] = ["yes" if line.yes else "no" if line.no else "" for line in found.itertuples()]
    found["cards"] = groups["card"].agg(lambda cards: " ".join(sorted(set(cards.dropna()))))
    return _judged(found)


def joined(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """What two sets of rows tell, each as `bits`, that have no case in common."""
    both = pd.concat([one, other]).groupby(level=one.index.names)
    found = both[COUNTS].sum().astype(int)
    found["float_atomics"] = both["float_atomics"].max()  # yes, no, or empty
    found["cards"] = both["cards"].agg(lambda cards: " ".join(sorted(set(" ".join(cards).split()))))
    return _judged(found)


def _judged(found: pd.DataFrame) -> pd.DataFrame:
    differs = (found["differed"] > 0) | (found["varied"] > 0)
    same = (found["ordered"] > 0) | ((found["compared"] > 0) & (found["float_atomics"] != "yes"))
    found["repeats"] = np.select([differs, same], ["no", "yes"], "")
    return found[["compared", "differed", "float_atomics", "ordered", "varied", "cards", "repeats"]]


def costs(rows: pd.DataFrame, repeating: set[str]) -> pd.DataFrame:
    """What bits that repeat cost on each matrix: setting, matrix, spread of the row lengths, and the best format of all
    and of those in `repeating`, with the time of the latter over that of the former (`cost`).

    rows: as `latest_cases`. Formats count that are ranked and store every value.
    """
    rows = ranked(without_aliases(rows))
    rows = rows[~fewer_values(rows)]
    if rows.empty:
        return pd.DataFrame()
    key = ["setting", "matrix"]
    best = rows.loc[rows.groupby(key, observed=True)["t_median"].idxmin()].set_index(key)
    same = rows[rows["label"].isin(repeating)]
    same = same.loc[same.groupby(key, observed=True)["t_median"].idxmin()].set_index(key)
    found = pd.DataFrame({"spread": same["row_len_cv"], "best": best["label"], "repeating": same["label"]})
    found["cost"] = same["t_median"] / best["t_median"]
    return found.dropna().reset_index()


def by_spread(found: pd.DataFrame) -> pd.DataFrame:
    """For each setting and spread of row lengths, and for all matrices: their number, the geometric mean of the costs,
    the largest, and its matrix. found: as `costs`.
    """
    spread = pd.cut(found["spread"], [-1.0, *SPREADS], labels=list(SPREADS.values()))
    kinds = pd.CategoricalDtype([*SPREADS.values(), "all"], ordered=True)
    both = pd.concat([found.assign(spread=spread), found.assign(spread="all")], ignore_index=True)
    both["spread"] = both["spread"].astype(kinds)
    lines = []
    for (setting, words), part in both.groupby(["setting", "spread"], observed=True):
        worst = part.loc[part["cost"].idxmax()]
        lines.append((str(setting), words, len(part), geometric_mean(part["cost"]), worst["cost"], worst["matrix"]))
    return pd.DataFrame(lines, columns=["setting", "spread", "matrices", "mean", "largest", "matrix"])
