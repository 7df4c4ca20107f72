"""Tables by format or class of matrices."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot
from spmvbench.analysis.programs import shared
from spmvbench.analysis.several_vectors import several_by_format, several_vectors
from spmvbench.analysis.solvers import solvers
from spmvbench.analysis.stand_ins import pairs, summary
from spmvbench.analysis.transposed import transposed, transposed_by_format
from spmvbench.matrices.sets import STAND_IN
from spmvbench.reports import style, tables
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, panels
from spmvbench.reports.tables import Column, by_setting, count, number, percent, seconds

_SOLVERS = [
    Column("label", "Format"),
    Column("seconds", "Iteration", seconds, "geometric mean over the matrices"),
    Column("share", "SpMV", percent, "share of the products in the time of all kernels"),
    Column("slowdown", "Slowdown", number, "mean slowdown in the solver"),
    Column("rank", "Rank", number, "by the mean slowdown in the solver"),
    Column("slowdown_spmv", "Slowdown, SpMV", number, "mean slowdown in y = A x alone"),
    Column("rank_spmv", "Rank, SpMV", number, "by the mean slowdown in y = A x alone"),
    Column("matrices", "Matrices", number),
]
_TRANSPOSED = [
    Column("label", "Format"),
    Column("one", "One copy", number, "time of y = A^T x from the arrays of A over that of y = A x"),
    Column("two", "Two copies", number, "time of y = A^T x from a second copy over that of y = A x"),
    Column("bytes_two", "Bytes", number, "bytes of both copies over those of one"),
    Column("two_faster", "Second faster", percent, "share of the matrices on which the second copy is faster"),
    Column("break_even", "Products", number, "until the second copy has paid: median over the matrices"),
    Column("matrices", "Matrices", number),
]
_SEVERAL = [
    Column("k", "Vectors", number),
    Column("layout", "Layout", None, "how X and Y lie in memory: by rows or by columns"),
    Column("label", "Format"),
    Column("gflops", "GFLOPS", number, "geometric mean over the matrices"),
    Column("speedup", "Speed-up", number, "time of as many products of one vector over it, geometric mean"),
    Column("pays", "Faster", percent, "share of the matrices on which one product is faster than one for each vector"),
    Column("pays_from", "Pays from", number, "vectors from which on it is faster, of those measured: median"),
    Column("matrices", "Matrices", number),
]
_STAND_INS = [
    Column("label", "Format"),
    Column("facts", "Facts", None, "what the stand-in was generated from"),
    Column("matrices", "Matrices", count),
    Column("time", "Time ratio", number, "geometric mean of the time on the stand-in over that on the matrix"),
    Column("time_median", "Time, median", percent, "median deviation of the time"),
    Column("time_p90", "Time, 90 %", percent, "90th percentile of the deviation of the time"),
    Column("bytes_median", "Bytes, median", percent, "median deviation of the bytes of the format"),
    Column("bytes_p90", "Bytes, 90 %", percent, "90th percentile of the deviation of the bytes of the format"),
]


def _programs(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    if not (rows["program"] != "").any():
        raise LeftOut("no row names its program: rows of older versions do not")
    return shared(rows)


def _stand_ins(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    found = pairs(hot(rows), STAND_IN)
    return found if found.empty else summary(found)


def _draw_several(table: pd.DataFrame, options: Options) -> Figure:
    """Rates and speed-ups over the number of vectors, a line for each format."""
    found = several_by_format(table)
    marks = options.marks_of(sorted(set(found["label"].unique())))
    axes_of = {"gflops": "GFLOPS", "speedup": "speed-up"}
    long = found.melt(["setting", "layout", "label", "k"], list(axes_of), "shown").sort_values(
        ["setting", "layout", "k"]
    )
    figure, parts = panels(long, ["setting", "layout", "shown"])
    for ax, _, part in parts:
        first = part.iloc[0]
        for label, line in part.groupby("label"):
            mark = marks[label]
            ax.plot(line["k"], line["value"], color=mark.color, marker=mark.marker, mfc=mark.face, markersize=4)
        counts = sorted(set(part["k"]))
        ax.set(title=f"{first['setting']}, by {first['layout']}s", xlabel="vectors", ylabel=axes_of[first["shown"]])
        ax.set(xscale="log", yscale="log", xticks=counts, xticklabels=counts)
        ax.minorticks_off()
        if first["shown"] == "speedup":
            style.around_one(ax)
        else:
            style.plain_ticks(ax.yaxis)
    style.legend(figure, marks)
    return figure


FIGURES = (
    ReportFigure(
        "programs",
        "Programs",
        "Formats that have the same arrays, kernels and launches on a matrix are one program under several names "
        "there. It was timed once for all of them. Wins, ties and the fastest format of each matrix count it once, "
        "under the name in the column Same as; a format that is another's name on every matrix is not ranked. In other "
        "figures each name has its own point or curve, and these coincide.",
        7,
        _programs,
        show=lambda table, options: [tables.shared_programs(table)],
        performance=False,
        nothing="all formats are different programs on every matrix",
    ),
    ReportFigure(
        "solvers",
        "Formats in solvers",
        "Solvers with a fixed number of iterations. The time of an iteration is the geometric mean over the matrices. "
        "The share of SpMV is that of the products in the sum of products and vector kernels, each timed on its own. "
        "Ranks are by mean slowdown, in the solver and in y = A x alone, of the same formats on the same matrices.",
        94,
        lambda rows, options: solvers(rows),
        show=lambda table, options: by_setting(table, _SOLVERS, "Formats in solvers"),
        every_operation=True,
        nothing="no verified row of a solver (run --op cg@100,pagerank@50)",
    ),
    ReportFigure(
        "transposed",
        "Transposed products: one copy or two",
        "y = A^T x from the arrays of A (one copy), and from a second copy, which is A^T in the same format. Times are "
        "geometric means, over the matrices, relative to y = A x in the same format.",
        99,
        lambda rows, options: transposed(hot(rows)),
        show=lambda table, options: by_setting(transposed_by_format(table), _TRANSPOSED, "Transposed products"),
        every_operation=True,
        nothing="no verified row of y = A^T x (run --op spmv,spmv-t)",
    ),
    ReportFigure(
        "several-vectors",
        "Several vectors",
        "Y = A X of several vectors, compared with as many products y = A x in the same format: geometric means over "
        "the matrices. The line is a speed-up of 1.",
        100,
        lambda rows, options: several_vectors(hot(rows)),
        _draw_several,
        show=lambda table, options: by_setting(several_by_format(table), _SEVERAL, "Several vectors"),
        every_operation=True,
        nothing="no format is verified for several vectors and for one (run --op spmv,spmm)",
    ),
    ReportFigure(
        "stand-ins",
        "Stand-ins and their matrices",
        "Stand-ins are generated from what is known of a matrix: its rows, entries and row lengths (all), or what the "
        "collection's index says (index). If a run holds both, this compares each format on both: the geometric mean "
        "of the time on the stand-in divided by the time on the matrix, and the deviations of times and bytes. The "
        "deviation is how much the larger value exceeds the smaller one: its median and its 90th percentile over the "
        "matrices.",
        101,
        _stand_ins,
        show=lambda table, options: by_setting(table, _STAND_INS),
        keeps_stand_ins=True,
        nothing="the run holds no stand-in together with its matrix",
    ),
)
