"""The figures of FastLoad: Hu, Luo, Jiang, Xiao & Li, TPDS 2024."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from spmvbench import paths
from spmvbench.analysis.breakeven import setups
from spmvbench.analysis.cases import NAMES, both_kernels, hot, labels_of, matching_kernels, one_per_matrix, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.details import kernel_times
from spmvbench.analysis.ranking import ranked
from spmvbench.analysis.speedup import pair_speedups
from spmvbench.errors import counted
from spmvbench.matrices.sets import is_stand_in, stands_for
from spmvbench.reports import head_to_head, style
from spmvbench.reports.figures import (
    AUTHORS,
    Family,
    LeftOut,
    Options,
    ReportFigure,
    bars,
    by_kernel,
    collected,
    over_nonzeros,
    panels,
    verified_labels,
)
from spmvbench.reports.tables import number

FASTLOAD = ("fastload", "fastload-opt")  # the second has equal rows added up within a warp
IMPROVED = ("fastload-opt", "fastload[optimized=true]")  # two names of one format
# The paper's rivals, and the formats that correspond to each, the most similar first. Of cuSPARSE it names no
# algorithm; its text gives the basic CSC a warp a column, its program a thread.
RIVALS = {
    "cuSPARSE": ("cusparse-csr-alg1", "cusparse-csr-alg2"),
    "basic CSC": ("csc-warp", "csc-thread", "csc-atomic"),
    "CSR5": ("csr5",),
    "TileSpMV": ("tile-deferred-coo", "tile", "tile-csr"),
}
FAMILY = Family(
    "fastload",
    lambda: (*FASTLOAD, *(keys[0] for keys in RIVALS.values())),
    "the 2,757 matrices of FastLoad's paper, the SuiteSparse collection",
    collected,
)
PROJECT = ", project kernel"  # suffix of a rival's name, if the run has both this project's and the authors' kernel
HEIGHTS = ("none", "1", "2", "4", "8", "16", "32", "improved")
DEFAULT_HEIGHT = "1"  # of the label without parameters
MATRICES = 2757  # of the SuiteSparse collection, in the paper
PHASES = ("multiply", "add")  # kernels of two-phase that the paper times
_KEYS = tuple(key for keys in RIVALS.values() for key in keys)
# The rivals that the paper's figures compare with, in its panels.
OF_PHASES, OF_HEIGHTS, OF_SETUPS = (
    ("TileSpMV", "cuSPARSE", "CSR5"),
    ("TileSpMV", "CSR5", "cuSPARSE"),
    ("CSR5", "TileSpMV"),
)
PAIRS = (("cuSPARSE", "basic CSC"), ("CSR5", "TileSpMV"))  # of its figure of variation


def most_advanced(rows: pd.DataFrame) -> str:
    """The label of FastLoad in the run: with both improvements if measured, else the default. Raises LeftOut."""
    best = verified_labels(rows, FASTLOAD)[0]
    measured = set(verified(rows.filter(items=NAMES))["label"].unique())
    return next((label for label in IMPROVED if label in measured), best)


def variants(rows: pd.DataFrame) -> dict[str, str]:
    """Labels of FastLoad in the run and the height of each (improved: equal rows summed), in the paper's order.

    With both kernels. Raises LeftOut if there is none.
    """
    verified_labels(rows, FASTLOAD)
    measured = verified(rows.filter(items=(*NAMES, "params")))
    measured = measured[measured["format"].isin(FASTLOAD)].drop_duplicates("label")
    settings = {row.label: json.loads(row.params) for row in measured.itertuples()}
    heights = {label: "improved" if given["optimized"] else given["height"] for label, given in settings.items()}
    return {label: heights[label] for label in sorted(heights, key=lambda label: HEIGHTS.index(heights[label]))}


def _pairs_over(ours: Iterable[str], rivals: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each label of FastLoad with each rival (`rival_labels`), of those with both kernels the same kind."""
    return matching_kernels(list(ours), sorted(rivals.values(), key=lambda label: "kernel=paper" in label))


def rival_labels(rows: pd.DataFrame, names: Iterable[str] = tuple(RIVALS)) -> dict[str, str]:
    """The label in the run for each of these rivals. Raises LeftOut if there is none.

    If the run has the authors' kernel, it is that one's, and this project's kernel follows as the name + PROJECT.
    """
    found: dict[str, str] = {}
    for name in names:
        ours = labels_of(rows, RIVALS[name])[:1]
        *_, found[name] = both_kernels(rows, ours) or [""]
        if ours and found[name] != ours[0]:
            found[name + PROJECT] = ours[0]
    found = {name: label for name, label in found.items() if label}
    if not found:
        raise LeftOut(f"no verified row of {', '.join(RIVALS[name][0] for name in names)}")
    return found


def published(table: str) -> pd.DataFrame:
    """A table that the paper printed, from configs/published/fastload."""
    return pd.read_csv(paths.configs() / "published" / "fastload" / f"{table}.csv")


def four(rows: pd.DataFrame) -> list[str]:
    """The largest matrices of the four kinds with the largest, by nonzeros rising; of fewer where there are fewer.

    The paper takes four matrices of different kinds, and its text does not name them. Rows do not have the kind of the
    matrix that a stand-in stands for: its group takes the place.
    """
    sizes = rows.drop_duplicates("matrix").sort_values(["nnz", "matrix"])
    group = sizes["matrix"].map(stands_for).str.replace(r"/.*", "", regex=True)
    sizes = sizes.assign(kind=group.where(sizes["matrix"].map(is_stand_in), sizes["kind"]))
    return list(sizes.drop_duplicates("kind", keep="last")["matrix"].tail(4))


def _missing(labels: Iterable[str], names: Iterable[str] = tuple(RIVALS)) -> list[str]:
    keys = {label.partition("[")[0] for label in labels}
    return [name for name in names if not keys & set(RIVALS[name])]


def _held(matrices: pd.Series) -> int:
    """How many different ones of these matrices (group/name) are of the collection."""
    return int(collected(pd.Series(matrices.unique())).sum())


def _note_coverage(figure: Figure, held: int, missing: Sequence[str] = ()) -> Figure:
    """Above the panels: how many of the collection's matrices they show, and which rivals the run lacks."""
    text = f"Shown: {counted(f'{held:,}', 'matrix')} of the collection, in the paper all {MATRICES:,}."
    style.missing(figure, missing, before=text)
    return figure


def _marks(labels: pd.Series, options: Options) -> Mapping[str, style.Mark]:
    return options.marks_of(labels, _KEYS)


def group_times(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Mean times of the methods in the groups of the paper's Figure 1, microseconds, and those that it prints.

    Columns setting, group, matrices, label, microseconds, published_matrices and published_microseconds.
    """
    methods = {"FastLoad": most_advanced(rows)} | rival_labels(rows)
    paper = published("group_times_us").rename(columns={"matrices": "published_matrices"})
    rows = rows.assign(group=rows["matrix"].map(stands_for).str.partition("/")[0])
    table = verified(hot(rows[rows["label"].isin(methods.values()) & rows["group"].isin(paper["group"])]))
    if table.empty:
        raise LeftOut(f"no verified row of a matrix of the groups {', '.join(paper['group'])}")
    of_all = table.groupby("setting", observed=True)["label"].transform("nunique")
    table = table[table.groupby(["setting", "matrix"], observed=True)["label"].transform("nunique") == of_all]
    groups = table.groupby(["setting", "group", "label"], observed=True)["t_median"]
    found = groups.agg(matrices="size", microseconds=lambda t: 1e6 * geometric_mean(t)).reset_index()
    paper = paper.reindex(columns=[*paper.columns, *(name for name in methods if name not in paper.columns)])
    times = paper.melt(["group", "published_matrices"], list(methods), "method", "published_microseconds")
    times["label"] = times.pop("method").map(methods)
    found = found.merge(times, on=["group", "label"])
    place = {name: at for names in (paper["group"], methods.values()) for at, name in enumerate(names)}
    found = found.sort_values(
        ["setting", "group", "label"], key=lambda v: v if v.name == "setting" else v.map(place), ignore_index=True
    )
    columns = ["setting", "group", "matrices", "label", "microseconds"]
    return found[[*columns, "published_matrices", "published_microseconds"]]


def _draw_groups(table: pd.DataFrame, options: Options) -> Figure:
    most = table.groupby("setting", observed=True)["group"].nunique().max()
    figure, found = panels(table, columns=2 if table["label"].nunique() <= 5 else 1, height=1.0 + 0.42 * most)
    norm = LogNorm(table["microseconds"].min(), max(table["microseconds"].max(), table["microseconds"].min() * 1.01))
    for ax, setting, part in found:
        groups = part.drop_duplicates("group")
        labels = list(part["label"].unique())
        cells = part.set_index(["group", "label"])
        times = cells["microseconds"].unstack().reindex(index=groups["group"], columns=labels)
        drawn = ax.pcolormesh(np.ma.masked_invalid(times.to_numpy()), norm=norm, cmap="YlGnBu", edgecolors="white")
        for (group, label), cell in cells.iterrows():
            ax.text(
                labels.index(label) + 0.5, list(times.index).index(group) + 0.5,
                f"{cell['microseconds']:.3g}\n({number(cell['published_microseconds'])})", ha="center", va="center",
                fontsize=7, color="white" if norm(cell["microseconds"]) > 0.5 else style.INK,
            )  # fmt: skip
        rows = [f"{g.group} ({g.matrices} of {g.published_matrices})" for g in groups.itertuples()]
        ax.set(title=f"{setting}, microseconds (paper)", xlabel="method")
        narrow = style.width() < style.WIDTH
        names = labels if narrow else [label.replace("[", "\n[") for label in labels]
        ax.set_xticks(np.arange(len(labels)) + 0.5, names, fontsize=7.5, rotation=90 * narrow)
        ax.set_yticks(np.arange(len(rows)) + 0.5, rows, fontsize=7.5)
        ax.grid(visible=False)
        ax.invert_yaxis()
    style.colorbar(figure, drawn, "time of one SpMV, microseconds", pad=0.02)
    style.missing(figure, _missing(table["label"]))
    return figure


def _phases(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    kernels = kernel_times(rows[rows["format"] == "two-phase"])
    kernels = kernels[kernels["kernel"].isin(PHASES)]
    if kernels.empty:
        raise LeftOut("no verified row of two-phase with a kernel breakdown")
    keys = ["setting", "matrix", "label", "nnz"]
    phases = kernels.groupby(keys, observed=True)["seconds"].agg(["sum", "size"]).reset_index()
    phases = phases[(phases["size"] == len(PHASES)) & (phases["nnz"] > 0)]
    phases = phases.assign(gflops=2e-9 * phases["nnz"] / phases["sum"])
    whole = rows[
        rows["label"].isin(rival_labels(rows, OF_PHASES).values()) & rows["matrix"].isin(phases["matrix"].unique())
    ]
    return pd.concat([ranked(hot(whole)), phases], ignore_index=True)[[*keys, "gflops"]]


def _draw_phases(table: pd.DataFrame, options: Options) -> Figure:
    figure, found = panels(table)
    shown = _marks(table["label"], options)
    for ax, setting, part in found:
        over_nonzeros(ax, part, "gflops", shown, title=setting, ylabel="GFLOPS")
    style.legend(figure, shown)
    return _note_coverage(figure, _held(table["matrix"]), _missing(table["label"], OF_PHASES))


def _rivals(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    ours, rivals = both_kernels(rows, [most_advanced(rows)]), rival_labels(rows)
    return head_to_head.table(hot(rows), [*ours, *rivals.values()], _pairs_over(ours, rivals))


def _draw_rivals(table: pd.DataFrame, options: Options) -> Figure:
    figure = head_to_head.draw(table, _marks(table["label"], options))
    return _note_coverage(figure, _held(table["matrix"]), _missing(table["label"]))


def _variation(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, matrix, label, over, method (the rival's name in the paper), row_len_cv, speedup."""
    ours, rivals = both_kernels(rows, [most_advanced(rows)]), rival_labels(rows)
    found = pair_speedups(hot(rows), _pairs_over(ours, rivals))
    found["method"] = found["over"].map({rival: name.removesuffix(PROJECT) for name, rival in rivals.items()})
    variation = rows.drop_duplicates("matrix").set_index("matrix")["row_len_cv"]
    found = found.join(variation, on="matrix")
    return found[["setting", "matrix", "label", "over", "method", "row_len_cv", "speedup"]]


def _draw_variation(table: pd.DataFrame, options: Options) -> Figure:
    """One row per setting and kernel of FastLoad: a panel a pair of rivals, as the paper has them."""
    shown = _marks(table["over"], options)
    points = table.rename(columns={"over": "label", "label": "ours"})  # points bear the mark of the rival
    pairs = [pair for pair in PAIRS if set(pair) & set(table["method"])]
    found = list(product(table["setting"].unique(), table["label"].unique(), pairs))
    figure, axes = style.grid(len(found), len(pairs))
    for ax, (setting, ours, pair) in zip(axes, found, strict=True):
        part = points[(points["setting"] == setting) & (points["ours"] == ours) & points["method"].isin(pair)]
        ax.set_title(f"{setting}, {ours}\nover {' and '.join(pair)}", fontsize=8.5)
        ax.set(yscale="log", ylabel="speed-up")
        style.scatter(ax, part, "row_len_cv", "speedup", shown)
        style.around_one(ax)
        ax.set_xscale("symlog", linthresh=0.1)
        ax.set_xlim(-0.01, max(table["row_len_cv"].max(), 0.1) * 1.5)
        ax.set_xlabel("coefficient of variation of the row lengths")
        ax.xaxis.set_major_formatter("{x:g}")
    style.legend(figure, shown)
    return _note_coverage(figure, _held(table["matrix"]), _missing(table["over"]))


def _heights(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns setting, kernels, label, height, over, matrices, collection (how many of them are the collection's),
    speedup, faster (share of the matrices, 0 to 1), published_speedup and published_faster (NaN if not published).
    """
    labels, rivals = variants(rows), rival_labels(rows, OF_HEIGHTS)
    groups = pair_speedups(hot(rows), _pairs_over(labels, rivals)).groupby(["setting", "label", "over"], observed=True)
    found = groups.agg(
        matrices=("matrix", "size"),
        collection=("matrix", _held),
        speedup=("speedup", geometric_mean),
        faster=("speedup", lambda s: float((s > 1).mean())),
    ).reset_index()
    paper = published("heights").rename(columns={"faster": "published_faster", "speedup": "published_speedup"})
    names = pd.DataFrame({"over": rivals.values(), "rival": [name.removesuffix(PROJECT) for name in rivals]}, dtype=str)
    paper = paper.merge(names, on="rival").drop(columns="rival")
    found["height"] = found["label"].map(labels)
    found = by_kernel(found.merge(paper, on=["height", "over"], how="left"))
    order = {height: at for at, height in enumerate(labels.values())}
    return found.sort_values(
        ["setting", "kernels", "over", "height"],
        key=lambda v: v.map(order) if v.name == "height" else v == AUTHORS if v.name == "kernels" else v,
        ignore_index=True,
    )


def _draw_heights(table: pd.DataFrame, options: Options) -> Figure:
    heights = list(dict.fromkeys(table["height"]))
    shown = _marks(table["over"], options)
    texts = {"speedup": "speed-up, geometric mean", "faster": "share of matrices"}
    found = list(product(table[["setting", "kernels"]].drop_duplicates().itertuples(index=False), texts.items()))
    figure, axes = style.grid(len(found), 2, height=3.0)
    for ax, ((setting, kernels), (value, text)) in zip(axes, found, strict=True):
        of_panel = table[(table["setting"] == setting) & (table["kernels"] == kernels)]
        for over, mark in shown.items():
            part = of_panel[of_panel["over"] == over].set_index("height").reindex(heights)
            places = range(len(heights))
            ax.plot(places, part[value], color=mark.color, marker=mark.marker, linestyle=mark.line, label=over)
            paper = part[f"published_{value}"]
            ax.plot(
                places, paper, color=mark.color, markersize=8, marker=mark.marker, linestyle="", markerfacecolor="none"
            )
        ax.set(title=f"{setting}, {kernels}", ylabel=text)
        ax.set_xticks(range(len(heights)), heights)
        ax.set_xlim(-0.4, len(heights) - 0.6)  # those of a panel may be missing
        ax.set(xlabel="most entries of a column in a block", ylim=(0, 1.02 if value == "faster" else None))
        if value == "speedup":
            ax.axhline(1, color="black", linewidth=1)
        else:
            ax.yaxis.set_major_formatter(style.PERCENT)
    handles = [Line2D([], [], color=m.color, marker=m.marker, linestyle=m.line, label=k) for k, m in shown.items()]
    handles.append(
        Line2D(
            [], [], color=style.INK, marker="o", linestyle="", markerfacecolor="none", markersize=8, label="the paper"
        )
    )
    style.below(figure, handles, len(handles), handlelength=3)
    return _note_coverage(figure, table["collection"].max(), _missing(table["over"], OF_HEIGHTS))


def _matrices(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    labels = variants(rows)
    table = ranked(hot(rows[rows["label"].isin(labels)]))
    table = table[table["matrix"].isin(four(table))]
    table = by_kernel(table.assign(height=table["label"].map(labels)))
    return table[["setting", "kernels", "matrix", "nnz", "label", "height", "gflops"]]


def _draw_matrices(table: pd.DataFrame, options: Options) -> Figure:
    heights = table.drop_duplicates("height").set_index("height")["label"]
    ordered = [height for height in HEIGHTS if height in heights]
    marks = options.marks_of([heights[height] for height in ordered]).values()
    shown = dict(zip(ordered, marks, strict=True))
    by_size = table.sort_values("nnz", kind="stable")
    return bars(by_size, "gflops", "GFLOPS", shown, by=["setting", "kernels"], label="height", title="height")


def _setups(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns matrix, label, dtype, path, nnz, setup (seconds)."""
    labels = [most_advanced(rows), *rival_labels(rows, OF_SETUPS).values()]
    table = setups(one_per_matrix(rows[rows["label"].isin(labels)]))
    table = table[(table["nnz"] > 0) & (table["setup"] > 0)]
    return table[["matrix", "label", "dtype", "path", "nnz", "setup"]]


def _draw_setups(table: pd.DataFrame, options: Options) -> Figure:
    ordered = table.assign(path="converted on the " + table["path"])
    ordered = ordered.sort_values(["dtype", "path"], ascending=[False, True], kind="stable")
    shown = _marks(table["label"], options)
    figure, found = panels(ordered, ["dtype", "path"], height=3.0)
    for ax, title, part in found:
        over_nonzeros(ax, part, "setup", shown, title=title, ylabel="time")
        style.time_ticks(ax.yaxis)
    style.legend(figure, shown)
    return _note_coverage(figure, _held(table["matrix"]), _missing(table["label"], OF_SETUPS))


def _memory(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    labels = [most_advanced(rows), *rival_labels(rows).values()]
    table = one_per_matrix(rows[rows["label"].isin(labels) & (rows["bytes_peak"] > 0)])
    table = table[table["matrix"].isin(four(table))]
    return table[["dtype", "matrix", "nnz", "label", "bytes_peak", "bytes_format"]]


def _draw_memory(table: pd.DataFrame, options: Options) -> Figure:
    by_size = table.sort_values(["dtype", "nnz"], ascending=[False, True])
    shown, ticks = _marks(table["label"], options), lambda axis: axis.set_major_formatter(EngFormatter(unit="B"))
    figure = bars(by_size, "bytes_peak", "bytes at the peak", shown, by=["dtype"], ticks=ticks)
    style.missing(figure, _missing(table["label"]))
    return figure


_figure = partial(ReportFigure, family=FAMILY)
FIGURES = (
    _figure(
        "fastload-groups",
        "FastLoad, Fig. 1: mean times by group",
        "Geometric mean of the time of one SpMV over the matrices of a group that are verified for all of these "
        "methods, in microseconds; in brackets the paper's, on an RTX 3090 Ti over the whole group. The number of "
        "these matrices follows the group's name. The paper sorts x and sets y to zero outside of its times; here both "
        "count.",
        410,
        group_times,
        _draw_groups,
        papers="Hu et al. 2024, Figure 1",
    ),
    _figure(
        "fastload-two-phase",
        "FastLoad, Fig. 5: bound of coalesced loads and stores",
        "2 nnz over the time of two kernels of two-phase, all products and all sums. The paper leaves out the "
        "rearrangement between them, sorting x and setting y to zero; so does this figure. No program could multiply "
        "like this: it is a bound that enters no ranking. The paper: faster than all others on over 200 matrices.",
        420,
        _phases,
        _draw_phases,
        papers="Hu et al. 2024, Figure 5",
    ),
    _figure(
        "fastload-rivals",
        "FastLoad, Fig. 7: speed-up by workload",
        "GFLOPS, and the speed-up of FastLoad over each rival: above the line FastLoad is faster. The paper, in double "
        "precision on an RTX 3090 Ti: faster than cuSPARSE on 2,326, than CSR5 on 2,402, than the basic CSC on 2,342 "
        "and than TileSpMV on 1,978 of 2,757 matrices, in the geometric mean 2.98, 2.88, 2.12 and 1.22 times as fast; "
        "the larger the matrix, the less over cuSPARSE and CSR5. It sorts x and sets y to zero outside of its times.",
        430,
        _rivals,
        _draw_rivals,
        papers="Hu et al. 2024, Figure 7",
    ),
    _figure(
        "fastload-variation",
        "FastLoad, Fig. 8: speed-up by variation of row lengths",
        "Speed-up of FastLoad over each rival, by the coefficient of variation of the row lengths (0: all rows are "
        "equally long); above the line FastLoad is faster. The paper: the gain is largest if row lengths vary little; "
        "over TileSpMV there is little gain if they vary much.",
        440,
        _variation,
        _draw_variation,
        papers="Hu et al. 2024, Figure 8",
    ),
    _figure(
        "fastload-heights",
        "FastLoad, Table I: heights of blocks",
        "For each limit of the height of blocks, and with equal rows added up within a warp (improved, height 1): the "
        "geometric mean of the speed-up over each rival, and the share of the matrices on which FastLoad is faster. "
        "Hollow: the paper, on an RTX 3090 Ti over 2,757 matrices; heights 1 to 8 are nearly equal there, none is "
        "worst.",
        450,
        _heights,
        _draw_heights,
        papers="Hu et al. 2024, Table I",
    ),
    _figure(
        "fastload-matrices",
        "FastLoad, Fig. 9: heights of blocks on four matrices",
        "GFLOPS for each limit of the height of blocks, and with equal rows summed within a warp (improved, height 1), "
        "on the largest matrix of each of the four kinds with the largest matrices; the paper does not name its four. "
        "The paper: improved is the fastest on all four, on one of them by far.",
        460,
        _matrices,
        _draw_matrices,
        papers="Hu et al. 2024, Figure 9",
    ),
    _figure(
        "fastload-preprocessing",
        "FastLoad, Fig. 10: preprocessing",
        "Seconds from CSR to FastLoad, CSR5 and TileSpMV, converted on the host (and copied to the device) or on the "
        "device. The paper converts to FastLoad and CSR5 on the GPU and to TileSpMV on the CPU: FastLoad takes less "
        "than TileSpMV on most matrices, about as much as CSR5 below 10,000 nonzeros, and more above.",
        470,
        _setups,
        _draw_setups,
        papers="Hu et al. 2024, Figure 10",
    ),
    _figure(
        "fastload-memory",
        "FastLoad, Fig. 11: peak memory",
        "Peak device memory during conversion on the device, including the CSR input, on the largest matrix of each of "
        "the four kinds with the largest matrices. The paper: FastLoad takes more than the basic CSC, cuSPARSE, CSR5 "
        "and TileSpMV on all of its four matrices, because of its three auxiliary arrays.",
        480,
        _memory,
        _draw_memory,
        papers="Hu et al. 2024, Figure 11",
        performance=False,
        nothing="no conversion on a device was measured",
    ),
)
