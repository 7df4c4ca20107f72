"""The run compared with the results that the survey printed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import of_one_path, overheads
from spmvbench.analysis.cases import hot
from spmvbench.matrices.sets import is_stand_in, stands_for
from spmvbench.reports import style, tables
from spmvbench.reports.figures import LeftOut, Options
from spmvbench.reports.figures.survey import cases, confidence, formats, lacks, marks_in, named, printed, roles
from spmvbench.reports.published import Published
from spmvbench.reports.tables import Column, number

name = "survey-published"
title = "Survey: this run and the published results"
caption = (
    "The run's value over the published one, for every matrix and format that both have: GFLOPS in f64 (above the line "
    "the run is faster); bytes per nonzero (below it the run takes less); conversion in SpMVs of the format, which in "
    "the survey includes the copy to the device. The table has the values."
)
papers = "Filippone et al. 2017, Tables 5 to 10"
order = 180
performance = True

_RATIOS = {"gflops": "GFLOPS", "bytes_per_nnz": "bytes per nonzero", "spmvs": "conversion in SpMVs"}
_VALUES = [*_RATIOS, "break_even"]


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """A row for each matrix and format that was published: columns published, setting, matrix, format, label (the
    run's), status, reason, and for gflops, bytes_per_nnz, spmvs and break_even the run's value, NAME_published and,
    but for the last, NAME_ratio. status is empty if the run has no such case.

    Raises LeftOut if no published results were selected, or the run has none of their matrices or formats.
    """
    if not printed(options):
        raise LeftOut("no published results were selected: --published survey-k40m adds them")
    return pd.concat([_compared(rows, given) for given in printed(options)], ignore_index=True)


def _compared(rows: pd.DataFrame, given: Published) -> pd.DataFrame:
    theirs = given.rows[["matrix", "format", *_VALUES]].rename(columns={n: f"{n}_published" for n in _VALUES})
    ours = hot(rows)
    ours = ours[(ours["dtype"] == given.paper.dtype) & ours["matrix"].map(stands_for).isin(theirs["matrix"])]
    if ours.empty:
        raise LeftOut(f"no row of a matrix of {given.name} in {given.paper.dtype}")
    theirs["matrix"] = theirs["matrix"].replace({stands_for(matrix): matrix for matrix in ours["matrix"].unique()})
    found = roles(ours)
    keys = ["setting", "matrix", "label"]
    costs = of_one_path(overheads(ours, found.get("CSR", "")))[[*keys, "spmvs", "break_even"]]
    ours = cases(ours, "gflops", "bytes_per_nnz").merge(costs, on=keys, how="left").astype({"setting": str})
    theirs = theirs.assign(label=theirs["format"].map(found), published=given.name)
    theirs = theirs.merge(pd.DataFrame({"setting": ours["setting"].unique()}), how="cross")
    table = theirs.merge(ours[[*keys, "status", "reason", *_VALUES]], on=keys, how="left")
    ratios = {f"{value}_ratio": table[value] / table[f"{value}_published"] for value in _RATIOS}
    table = table.assign(**ratios)
    pairs = [name for value in _VALUES for name in (value, f"{value}_published", f"{value}_ratio") if name in table]
    words = ["label", "status", "reason"]
    return table[["published", "setting", "matrix", "format", *words, *pairs]].fillna(dict.fromkeys(words, ""))


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """A row for each published device, setting and quantity: matrices from left to right."""
    titles = {given.name: given.title for given in printed(options)}
    found = table[table["label"] != ""].drop_duplicates("format").set_index("format")["label"].to_dict()
    text = named(found)
    marks = marks_in(list(found), found, options)
    panels = [
        (names, value, part.dropna(subset=f"{value}_ratio"))
        for names, part in table.groupby(["published", "setting"], sort=False)
        for value in _RATIOS
        if part[f"{value}_ratio"].notna().any()
    ]
    if not panels:
        raise LeftOut("no verified row of a matrix and format that were published")
    figure, axes = style.grid(len(panels), 1, height=2.9)
    for ax, ((published, setting), value, part) in zip(axes, panels, strict=True):
        matrices = list(part["matrix"].unique())
        places = {matrix: place for place, matrix in enumerate(matrices)}
        for shift, (name, mark) in zip(np.linspace(-0.27, 0.27, len(marks)), marks.items(), strict=True):
            one = part[part["format"] == name]
            x = [places[matrix] + shift for matrix in one["matrix"]]
            ax.scatter(x, one[f"{value}_ratio"], color=mark.color, marker=mark.marker, facecolors=mark.face, s=22)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=f"{_RATIOS[value]}, {setting}, over {titles[published]}", ylabel="ratio", xlabel="matrix")
        ax.set_xlim(-0.6, len(matrices) - 0.4)
        style.names_below(ax, matrices)
        ax.set_yscale("log")
        style.around_one(ax)
    style.legend(figure, {text[found[name]]: mark for name, mark in marks.items()})
    measured = set(table.loc[table["gflops_ratio"].notna(), "matrix"])
    stand_ins = sum(map(is_stand_in, measured))
    also = f", {stand_ins} of them by stand-ins" if stand_ins else ""
    coverage = f"The run holds {len(measured)} of the {table['matrix'].nunique()} matrices that were published{also}."
    style.missing(figure, [name for name in formats() if name not in found], before=coverage)
    return figure


def show(table: pd.DataFrame, options: Options) -> list[tables.Table]:
    """A table for each published device and setting, of the matrices that the run has."""
    heads = {"gflops": "GFLOPS", "bytes_per_nnz": "Bytes/nnz", "spmvs": "Conversion, SpMVs", "break_even": "Break-even"}
    titles = {given.name: given.title for given in printed(options)}
    found = []
    for (published, setting), part in table.groupby(["published", "setting"], sort=False):
        columns = [Column("matrix", "Matrix"), Column("format", "Survey"), Column("label", "Here")]
        columns.append(Column("confidence", "After", about="Confidence: what was read of the format"))
        for value, head in heads.items():
            theirs = f"{value}_published"
            if part[theirs].notna().any():
                columns += [Column(value, head, number), Column(theirs, f"{head}, published", number)]
                if value in _RATIOS:
                    columns.append(Column(f"{value}_ratio", f"{head}, ratio", number, "the run's over the published"))
        columns += [Column("reason", "Why not"), Column("lacks", "Lacks", about="What of the paper is not in it")]
        both = part[part["matrix"].isin(part.loc[part["status"] != "", "matrix"])]
        both = both.assign(confidence=both["label"].map(confidence), lacks=both["label"].map(lacks))
        coverage = f"{both['matrix'].nunique()} of {part['matrix'].nunique()} matrices"
        found.append(tables.table(f"{setting} and {titles[published]}, {coverage}", both, columns))
    return found
