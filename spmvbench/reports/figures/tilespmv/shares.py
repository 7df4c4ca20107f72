"""Fig. 7: what tiles and nonzeros are stored in."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.analysis.tiles import tile_shares
from spmvbench.reports import style
from spmvbench.reports.figures import Options, verified_labels
from spmvbench.reports.figures.tilespmv import METHODS, tile_methods

name = "tilespmv-shares"
title = "TileSpMV, Fig. 7: shares of the tile formats"
caption = (
    "(a) Share of the tiles and (b) share of the nonzeros in each tile format, matrices in the order of their "
    "nonzeros, before anything is deferred; padding does not count as nonzeros. The paper: COO has most tiles and far "
    "fewer of the nonzeros; TSOPF_RS_b2383 has 905 DnsRow and 2,885 DnsCol tiles, and over 80 % of exdata_1 is Dns."
)
papers = "Niu et al. 2021, Figure 7"
order = 220
performance = False

_HATCHES = ("", "....", "////", "xxxx", "", "----", "||||")


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `analysis.tiles.tile_shares`, of `tile` or `tile-deferred-coo`, which select the same. Raises LeftOut."""
    tile_methods(rows)
    return tile_shares(rows[rows["label"] == verified_labels(rows, METHODS[1:])[0]])


def draw(table: pd.DataFrame, options: Options) -> Figure:
    """Two panels, one above the other: tiles and nonzeros."""
    formats = list(table["tile_format"].unique())
    matrices = list(table["matrix"].unique())
    figure, axes = style.grid(2, 1, height=2.8 if len(matrices) <= style.NAMES_FIT else 3.4)
    colors = style.marks(formats)
    edges = np.arange(len(matrices) + 1) - 0.5
    for ax, letter, kind in zip(axes, "ab", ("tiles", "nonzeros"), strict=True):
        shares = table.pivot(index="matrix", columns="tile_format", values=kind).loc[matrices, formats].to_numpy()
        below = np.zeros(len(matrices))
        for label, hatch, share in zip(formats, _HATCHES, shares.T, strict=True):
            ax.stairs(
                below + share, edges, baseline=below, fill=True, facecolor=colors[label].color, hatch=hatch,
                edgecolor="white", linewidth=0, label=label, rasterized=len(table) > style.RASTER_FROM,
            )  # fmt: skip
            below += share
        ax.set(title=f"({letter}) {kind}", ylabel=f"share of the {kind}", xlabel="matrices, most nonzeros last")
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1))
        ax.yaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
        style.names_below(ax, matrices)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(formats))
    return figure
