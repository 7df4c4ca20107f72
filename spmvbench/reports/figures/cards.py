"""Ranks of five storages on several cards, from imported rows and those measured here."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.cases import hot, verified
from spmvbench.analysis.ranking import SLOWDOWN_CAP
from spmvbench.errors import counted
from spmvbench.reports import style
from spmvbench.reports.figures import LeftOut, Options, ReportFigure, panels

# Storages that Ginkgo's benchmarks measure, each with the label of imported rows and that of the format here that has
# the same storage and rule: the first that a card's rows have counts.
STORAGES = {
    "CSR": ("ginkgo-csr", "csr-vector"),
    "COO": ("ginkgo-coo", "coo-load-balance"),
    "ELL": ("ginkgo-ell", "ell"),
    "hybrid": ("ginkgo-hybrid", "hyb-ginkgo"),
    "SELL-P": ("ginkgo-sellp", "sell-p"),
}
SIZES = {"all": (0, np.inf), "under 100,000 nonzeros": (0, 1e5), "from 100,000 nonzeros": (1e5, np.inf)}


def ranks(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """Columns sizes, matrices, card, storage, mean_slowdown and rank (1 is the best), of f64 hot.

    mean_slowdown: geometric mean of time over the best of the five times, on the matrices that every card has; one
    that has no time there counts as SLOWDOWN_CAP, as longer ones do. Cards come in the order of their best rates.
    Raises LeftOut for a single card.
    """
    known = {label: name for name, labels in STORAGES.items() for label in labels}
    found = hot(verified(rows[rows["dtype"] == "f64"]))
    found = found.assign(storage=found["label"].map(known), name=found["group"] + "/" + found["name"])
    found = found.dropna(subset="storage").drop_duplicates(["device_name", "name", "storage"])
    cards = found.groupby("name")["device_name"].nunique()
    found = found[found["name"].isin(cards.index[cards == found["device_name"].nunique()])]
    if found["device_name"].nunique() < 2:
        raise LeftOut("no matrix has CSR, COO, ELL, hybrid or SELL-P on two cards: name runs of several cards")
    place = ["device_name", "name"]
    times = found.pivot(index=place, columns="storage", values="t_median").reindex(columns=list(STORAGES))
    slowdown = np.log(times.div(times.min(axis="columns"), axis="index").clip(upper=SLOWDOWN_CAP).fillna(SLOWDOWN_CAP))
    about = found.groupby(place).agg(nnz=("nnz", "max"), best=("gflops", "max"))
    order = about["best"].groupby("device_name").median().sort_values().index
    of_matrix = about["nnz"].groupby("name").max().reindex(slowdown.index.get_level_values("name")).to_numpy()
    parts = []
    for sizes, (low, high) in SIZES.items():
        chosen = slowdown[(of_matrix >= low) & (of_matrix < high)]
        if chosen.empty:
            continue
        means = np.exp(chosen.groupby("device_name").mean()).reindex(order)
        count = chosen.index.get_level_values("name").nunique()
        part = means.rename_axis("card").reset_index().melt("card", var_name="storage", value_name="mean_slowdown")
        parts.append(part.assign(sizes=f"{sizes}: {counted(f'{count:,}', 'matrix')}", matrices=count))
    table = pd.concat(parts, ignore_index=True)
    table["rank"] = table.groupby(["sizes", "card"])["mean_slowdown"].rank(method="first").astype(int)
    return table[["sizes", "matrices", "card", "storage", "mean_slowdown", "rank"]]


def _draw(table: pd.DataFrame, options: Options) -> Figure:
    marks = dict(zip(STORAGES, style.marks_of(list(STORAGES), {}).values(), strict=True))
    figure, found = panels(table, "sizes", 3, height=3.4)
    for ax, sizes, part in found:
        cards = list(part["card"].unique())
        for storage, of in part.groupby("storage", sort=False):
            mark = marks[str(storage)]
            ax.plot(
                range(len(cards)), of["rank"], color=mark.color, linestyle=mark.line, marker=mark.marker, markersize=9,
                label=storage,
            )  # fmt: skip
            for place, (value, rank) in enumerate(zip(of["mean_slowdown"], of["rank"], strict=True)):
                ax.annotate(f"{value:.2f}", (place, rank), xytext=(9, 4), textcoords="offset points", fontsize=8)
        ax.set(
            title=sizes, xlabel="card", ylabel="rank", xlim=(-0.3, len(cards) - 0.5), ylim=(len(STORAGES) + 0.4, 0.6)
        )
        ax.set_xticks(range(len(cards)), cards)
        ax.set_yticks(range(1, len(STORAGES) + 1))
    style.below(figure, columns=len(STORAGES))
    return figure


FIGURES = (
    ReportFigure(
        "card-ranks",
        "Five storages from card to card",
        "Ranks of five storages by their mean slowdown among themselves, the number beside each point, on the matrices "
        "that every card of the report has. Imported rows are of Ginkgo's kernels, others of the format here that has "
        "the same storage; a storage without a time counts as 10.",
        63,
        ranks,
        _draw,
        papers="Anzt et al. 2020 (Ginkgo)",
    ),
)
