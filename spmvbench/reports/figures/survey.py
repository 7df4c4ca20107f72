"""The survey's tables: Filippone, Cardellini, Barbieri & Fanfarillo, ACM TOMS 43(4), 2017."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.breakeven import of_one_path, overheads
from spmvbench.analysis.cases import hot, labels_of
from spmvbench.analysis.lessons import EVEN, FULL, POWER_LAW, lessons
from spmvbench.analysis.ranking import TIE
from spmvbench.analysis.roofline import VALUE_BYTES
from spmvbench.errors import counted
from spmvbench.formats.survey import CONFIDENCE, confidence, lacks
from spmvbench.matrices.sets import is_stand_in, stands_for
from spmvbench.reports import published, style, tables
from spmvbench.reports.figures import Family, LeftOut, Options, ReportFigure, distributions
from spmvbench.reports.figures.matrix_tables import matrix_table
from spmvbench.reports.published import Published
from spmvbench.reports.tables import Column, Table, number, seconds

PAPER = "survey"
FAMILY = Family(
    "survey",
    lambda: [key for keys in formats().values() for key in keys],
    "the survey's matrices (the set survey34)",
    lambda matrices: matrices.isin(published.paper(PAPER).matrices["matrix"]),
    "survey34",
)
MOST_FORMATS, MOST_MATRICES = 24, 100  # in a table of the page; its CSV file has all
_HDI_SLOT_PUBLISHED = 12  # bytes: Table 9 counts a value and an integer for each
_STORED = "[footprint=psblas]"  # of a label, whose row has all arrays that the survey's library allocates
_RATIOS = {"gflops": "GFLOPS", "bytes_per_nnz": "bytes per nonzero", "spmvs": "conversion in SpMVs"}
_VALUES = [*_RATIOS, "break_even"]
_CONVERSION = {
    "setup": ("Conversion time", seconds),
    "spmvs": ("Conversion, SpMVs", number),
    "break_even": ("Break-even, SpMVs", number),
}


def formats() -> Mapping[str, Sequence[str]]:
    """The formats that the survey measured, by its names, with the keys that correspond to each."""
    return published.paper(PAPER).formats


def roles(rows: pd.DataFrame) -> dict[str, str]:
    """The label of a verified row for each of the survey's formats, by its name there. Raises LeftOut for none."""
    found = {name: labels[0] for name, keys in formats().items() if (labels := labels_of(rows, keys))}
    if not found:
        raise LeftOut(f"no verified row of {', '.join(FAMILY.compared())}")
    return found


def key(label: str) -> str:
    """The key of a label."""
    return label.partition("[")[0]


def printed(options: Options) -> list[published.Published]:
    """The survey's own figures, as far as they were asked for."""
    return [given for given in options.published if given.paper.name == PAPER]


def named(found: Mapping[str, str]) -> dict[str, str]:
    """Names in drawings, by label: the survey's name, and the key if it differs."""
    return {label: name if label == name.lower() else f"{name} ({label})" for name, label in found.items()}


def marks_in(names: Sequence[str], labels: Mapping[str, str], options: Options) -> dict[str, style.Mark]:
    """The marks of these names of formats, in the survey's order: each that of its label, which `labels` gives by name,
    and a free one where the run has none.
    """
    chosen = [name for name in formats() if name in names]
    marks = options.marks_of([labels.get(name) or name for name in chosen])
    return dict(zip(chosen, marks.values(), strict=True))


def tried(rows: pd.DataFrame, *values: str) -> pd.DataFrame:
    """Every case of a matrix with entries, the matrices that the survey measured first, in its order.

    values: columns that are NaN unless the case is verified.
    """
    known = list(published.paper(PAPER).matrices["matrix"])
    place = {matrix: number for number, matrix in enumerate(known)}
    found = rows[(rows["matrix_sha256"] != "") & (rows["nnz"] > 0) & ~rows["experiment"]]
    found = found.assign(**{value: found[value].where(found["status"] == "ok") for value in values})
    order = found["matrix"].map(lambda matrix: place.get(stands_for(matrix), len(known)))
    return found.assign(order=order).sort_values(["order", "matrix"], kind="stable").drop(columns="order")


def _grids(
    table: pd.DataFrame,
    options: Options,
    by: str,
    quantities: Mapping[str, tuple[str, Callable[[Any], str]]],
    *,
    best: str = "",
    winner: str = "",
    tie: float = 1.0,
) -> list[Table]:
    """A table for each value of the column `by` and each quantity, as `tables.by_matrix`.

    The survey's formats come first, then highlighted ones, then others, up to MOST_FORMATS.
    quantities: heading, and how a number is shown, by column.
    """
    found = roles(table)
    there = sorted(table["label"].unique())
    labels = [label for label in dict.fromkeys([*found.values(), *options.marks, *there]) if label in there]
    matrices = table["matrix"].unique()
    here = [f"{name} is {label}" for name, label in found.items() if label != name.lower()]
    notes = [f"the survey's {', '.join(here)}"] if here else []
    least = [label for label in found.values() if confidence(key(label)) == CONFIDENCE[-1]]
    notes += [f"{', '.join(least)} after the {CONFIDENCE[-1]}"] if least else []
    notes += [
        f"{most} of {len(names)} {what}, the file has all"
        for names, most, what in ((labels, MOST_FORMATS, "formats"), (matrices, MOST_MATRICES, "matrices"))
        if len(names) > most
    ]
    more = f" ({'; '.join(notes)})" if notes else ""
    shown = table[table["matrix"].isin(matrices[:MOST_MATRICES])]
    return [
        tables.by_matrix(
            f"{heading}, {group}{more}",
            part,
            column,
            [label for label in labels[:MOST_FORMATS] if label in held],
            show=show,
            best=best,
            winner=winner,
            tie=tie,
        )
        for group, part in shown.groupby(by, observed=True, sort=False)
        for held in (set(part["label"].unique()),)
        for column, (heading, show) in quantities.items()
    ]


def _conversion(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, format, label, path, setup (seconds), spmvs, break_even (SpMVs), status, reason."""
    roles(rows)
    costs = distributions.breakeven(rows, options)[["setting", "matrix", "label", "path", *_CONVERSION]]
    known = tried(hot(rows))[["setting", "matrix", "format", "label", "status", "reason"]]
    return known.merge(costs, on=["setting", "matrix", "label"], how="left")


def _footprint(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    roles(rows)
    table = rows.assign(failed=rows["status"] != "ok").sort_values("failed", kind="stable")
    table = table.drop_duplicates(["dtype", "matrix", "label"])  # the same hot and cold, and on every device
    columns = ["dtype", "matrix", "format", "label", "bytes_per_nnz", "status", "reason"]
    return tried(table, "bytes_per_nnz")[columns].sort_values(
        "dtype", ascending=False, kind="stable", ignore_index=True
    )


def _gflops(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    roles(rows)
    return tried(hot(rows), "gflops")[["setting", "matrix", "format", "label", "gflops", "status", "reason"]]


def _lessons(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, formats (the survey's name and the run's label of each) and those of `analysis.lessons`."""
    found = roles(rows)
    ours = tried(hot(rows), "gflops", "bytes_per_nnz")
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


def _show_lessons(table: pd.DataFrame, options: Options) -> list[Table]:
    settings = list(table["setting"].unique())
    verdicts = table.assign(text=table["verdict"] + ": " + table["numbers"])
    grid = verdicts.pivot(index=["lesson", "claim"], columns="setting", values="text")
    grid = grid.loc[table["lesson"].unique()].reset_index()
    heads = {"lesson": "About", "claim": "The survey's rule"} | {setting: setting for setting in settings}
    used = next(filter(None, table["formats"]), "")
    columns = [Column(*head) for head in heads.items()]
    return [tables.table(f"The survey's rules of thumb ({used})", grid, columns)]


def _published(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
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
    ours = _as_the_library(tried(ours, "gflops", "bytes_per_nnz"))
    ours = ours.merge(costs, on=keys, how="left").astype({"setting": str})
    theirs = theirs.assign(label=theirs["format"].map(found), published=given.name)
    theirs = theirs.merge(pd.DataFrame({"setting": ours["setting"].unique()}), how="cross")
    table = theirs.merge(ours[[*keys, "status", "reason", *_VALUES]], on=keys, how="left")
    ratios = {f"{value}_ratio": table[value] / table[f"{value}_published"] for value in _RATIOS}
    table = table.assign(**ratios)
    pairs = [name for value in _VALUES for name in (value, f"{value}_published", f"{value}_ratio") if name in table]
    words = ["label", "status", "reason"]
    return table[["published", "setting", "matrix", "format", *words, *pairs]].fillna(dict.fromkeys(words, ""))


def _as_the_library(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the bytes of Table 9, where the run has a row of a format as the survey's library stores it."""
    plain = table["label"].str.removesuffix(_STORED)
    keys = ["setting", "matrix", "label"]
    stored = table.assign(label=plain)[plain != table["label"]].drop_duplicates(keys)[[*keys, "bytes_per_nnz"]]
    theirs = table[keys].merge(stored, on=keys, how="left")["bytes_per_nnz"].to_numpy()
    return table.assign(bytes_per_nnz=np.where(np.isnan(theirs), table["bytes_per_nnz"], theirs))


def _draw_published(table: pd.DataFrame, options: Options) -> Figure:
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
    for ax, ((device, setting), value, part) in zip(axes, panels, strict=True):
        matrices = list(part["matrix"].unique())
        places = {matrix: place for place, matrix in enumerate(matrices)}
        for shift, (name, mark) in zip(np.linspace(-0.27, 0.27, len(marks)), marks.items(), strict=True):
            one = part[part["format"] == name]
            x = [places[matrix] + shift for matrix in one["matrix"]]
            ax.scatter(x, one[f"{value}_ratio"], color=mark.color, marker=mark.marker, facecolors=mark.face, s=22)
        ax.axhline(1, color="black", linewidth=1)
        ax.set(title=f"{_RATIOS[value]}, {setting}, over {titles[device]}", ylabel="ratio", xlabel="matrix")
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


def _show_published(table: pd.DataFrame, options: Options) -> list[Table]:
    """A table for each published device and setting, of the matrices that the run has."""
    heads = {"gflops": "GFLOPS", "bytes_per_nnz": "Bytes/nnz", "spmvs": "Conversion, SpMVs", "break_even": "Break-even"}
    titles = {given.name: given.title for given in printed(options)}
    found = []
    for (name, setting), part in table.groupby(["published", "setting"], sort=False):
        columns = [Column("matrix", "Matrix"), Column("format", "Survey"), Column("label", "Here")]
        columns.append(Column("confidence", "After", about="Confidence: what was read of the format"))
        for value, head in heads.items():
            theirs = f"{value}_published"
            if part[theirs].notna().any():
                columns += [Column(value, head, number), Column(theirs, f"{head}, published", number)]
                if value in _RATIOS:
                    columns.append(Column(f"{value}_ratio", f"{head}, ratio", number, "the run's over the published"))
        columns += [Column("reason", "Why not"), Column("lacks", "Lacks", about="What of the paper is not in it")]
        both = part[part["matrix"].isin(part.loc[part["status"] != "", "matrix"].unique())]
        keys = both["label"].map(key)
        both = both.assign(confidence=keys.map(confidence), lacks=keys.map(lacks))
        coverage = f"{both['matrix'].nunique()} of {counted(part['matrix'].nunique(), 'matrix')}"
        found.append(tables.table(f"{setting} and {titles[name]}, {coverage}", both, columns))
    return found


_figure = partial(ReportFigure, family=FAMILY)
FIGURES = (
    matrix_table(FAMILY, "Survey, Table 3: the matrices", "Filippone et al. 2017, Table 3", 102),
    _figure(
        "survey-lessons",
        "Survey, section 5.5: rules of thumb",
        "The survey's rules of thumb, tested on the run's rows of the survey's formats, and on published results if "
        "they were selected. A rule about matrices of a kind holds if it is true on more than half of them. Rows "
        f"are even if the longest is at most {EVEN} times the mean, power-law if it is {POWER_LAW} times the mean or "
        f"more; entries lie along diagonals if HDI has at most {FULL} slots per nonzero.",
        105,
        _lessons,
        show=_show_lessons,
        papers="Filippone et al. 2017, sections 5.2, 5.4 and 5.5",
    ),
    _figure(
        "survey-gflops",
        "Survey, Tables 5 to 8: GFLOPS",
        "2 nnz over the median time, by matrix and format. The fastest format of a row is highlighted, and named even "
        "if the table has no column for it. A dash is a format that does not hold the matrix; the note says why.",
        110,
        _gflops,
        show=partial(
            _grids,
            by="setting",
            quantities={"gflops": ("GFLOPS", number)},
            best="max",
            winner="Fastest",
            tie=TIE,
        ),
        papers="Filippone et al. 2017, Tables 5 to 8",
    ),
    _figure(
        "survey-bytes",
        "Survey, Table 9: bytes per nonzero",
        "Bytes of the allocated arrays over the nonzeros, by matrix and format; the smallest value of a row is "
        "highlighted. The survey's library allocates an integer for every value of HDI, as hdi[footprint=psblas] does; "
        "in hdi one integer serves 32 values.",
        120,
        _footprint,
        show=partial(
            _grids,
            by="dtype",
            quantities={"bytes_per_nnz": ("Bytes per nonzero", number)},
            best="min",
            winner="Smallest",
        ),
        papers="Filippone et al. 2017, Table 9",
        performance=False,
    ),
    _figure(
        "survey-conversion",
        "Survey, Table 10: conversion",
        "Conversion from CSR in seconds, in SpMVs of the format, and the number of SpMVs after which the format breaks "
        "even with {baseline}: 0 is at once, never is a slower format. Converted on the device if that was measured, "
        "else on the host and copied. The survey starts from sorted coordinates on the host: its times include a copy "
        "to the device.",
        130,
        _conversion,
        show=partial(_grids, by="setting", quantities=_CONVERSION),
        papers="Filippone et al. 2017, Table 10",
    ),
    _figure(
        "survey-published",
        "Survey: this run and the published results",
        "The run's value over the published one, for every matrix and format that both have: GFLOPS in f64 (above the "
        "line the run is faster); bytes per nonzero (below it the run takes less); conversion in SpMVs of the format, "
        "which in the survey includes the copy to the device. The table has the values.",
        180,
        _published,
        _draw_published,
        _show_published,
        papers="Filippone et al. 2017, Tables 5 to 10",
    ),
)
