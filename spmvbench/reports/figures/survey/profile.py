"""Fig. 13 and 14: performance profiles of the survey's formats among themselves."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.profiles import performance_profile
from spmvbench.reports import style
from spmvbench.reports.figures import Options, profile
from spmvbench.reports.figures.survey import formats, marks_in, named, printed, roles

name = "survey-profile"
title = "Survey, Fig. 13 and 14: performance profiles"
caption = (
    "Share of matrices on which a format is within a factor tau of the fastest of the survey's formats, as a whole "
    "and near the best. The survey: all formats are best on some matrix; HYB and CSR handle every matrix, so that "
    "their curves reach 1; HYB and HLL rise fastest, CSR late, and HDI is for the few matrices that suit it."
)
papers = "Filippone et al. 2017, Figures 13 and 14"
order = 160
performance = True


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, label, tau, rho, name (the survey's): the run's curves, then those of published figures.

    Raises LeftOut without any of the survey's formats.
    """
    found = roles(rows)
    ours = hot(rows)
    table = profile.data(ours[ours["label"].isin(found.values())], options)
    table = table.assign(name=table["label"].map({label: name for name, label in found.items()}))
    curves = [table.astype({"setting": str})]
    for given in printed(options):
        curve = performance_profile(given.rows).rename(columns={"format": "name"})
        curves.append(curve.assign(setting=given.title, label=curve["name"].map(found).fillna("")))
    return pd.concat(curves, ignore_index=True)


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """As `profile.draw`, with the survey's names."""
    labels = table[table["label"] != ""].drop_duplicates("name").set_index("name")["label"]
    text = named(labels.to_dict())
    names = {name: text.get(labels.get(name), name) for name in formats() if name in set(table["name"])}
    marks = {names[name]: mark for name, mark in marks_in(list(names), labels.to_dict(), options).items()}
    shown = table.assign(label=table["name"].map(names))
    figure = profile.draw(shown, replace(options, marks=marks))
    style.missing(figure, [name for name in formats() if name not in labels])
    return figure
