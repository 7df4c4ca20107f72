"""Section 5.5: the survey's rules of thumb, tested on the run."""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.breakeven import of_one_path, overheads
from spmvbench.analysis.cases import hot
from spmvbench.analysis.lessons import EVEN, FULL, POWER_LAW, lessons
from spmvbench.analysis.roofline import VALUE_BYTES
from spmvbench.reports import tables
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import cases, printed, roles
from spmvbench.reports.tables import Column

name = "survey-lessons"
title = "Survey, section 5.5: rules of thumb"
caption = (
    "The survey's rules of thumb, tested on the run's rows of the survey's formats, and on published results if they "
    "were selected. A rule about matrices of a kind holds if it is true on more than half of them. Rows "
    f"are even if the longest is at most {EVEN} times the mean, power-law if it is {POWER_LAW} times the mean or "
    f"more; entries lie along diagonals if HDI has at most {FULL} slots per nonzero."
)
papers = "Filippone et al. 2017, sections 5.2, 5.4 and 5.5"
order = 105
performance = True

_HDI_SLOT_PUBLISHED = 12  # bytes: Table 9 counts a value and an integer for each


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, formats (the survey's name and the run's label of each) and those of `analysis.lessons.lessons`.

    Raises LeftOut without any of the survey's formats.
    """
    found = roles(rows)
    ours = cases(hot(rows), "gflops", "bytes_per_nnz")
    keys = ["setting", "matrix", "label"]
    costs = of_one_path(overheads(ours, found.get("CSR", "")))
    ours = ours.merge(costs[[*keys, "break_even"]], on=keys, how="left")
    ours["format"] = ours["label"].map({label: name for name, label in found.items()})
    used = ", ".join(f"{name} {label}" for name, label in found.items())
    verdicts = [
        lessons(part, VALUE_BYTES[part["dtype"].iloc[0]]).assign(setting=str(setting), formats=used)
        for setting, part in ours.dropna(subset="format").groupby("setting", observed=True)
    ]
    verdicts += [
        lessons(given.rows, _HDI_SLOT_PUBLISHED).assign(setting=given.title, formats="") for given in printed(options)
    ]
    table = pd.concat(verdicts, ignore_index=True)
    return table[["setting", "formats", "lesson", "claim", "verdict", "yes", "of", "numbers"]]


def show(table: pd.DataFrame, options: Options) -> list[tables.Table]:
    """One table: a row a rule, a column for each setting and published device."""
    settings = list(table["setting"].unique())
    verdicts = table.assign(text=table["verdict"] + ": " + table["numbers"])
    grid = verdicts.pivot(index=["lesson", "claim"], columns="setting", values="text")
    grid = grid.loc[table["lesson"].unique()].reset_index()
    heads = {"lesson": "About", "claim": "The survey's rule"} | {setting: setting for setting in settings}
    used = next(filter(None, table["formats"]), "")
    columns = [Column(*head) for head in heads.items()]
    return [tables.table(f"The survey's rules of thumb ({used})", grid, columns)]
