"""Table II: the 16 matrices of the paper, as far as the run holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.reports import paper_matrices
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.tilespmv import SET, tile_methods
from spmvbench.reports.tables import Table

name = "tilespmv-matrices"
title = "TileSpMV, Table II: the 16 matrices"
caption = paper_matrices.CAPTION
papers = "Niu et al. 2021, Table II"
order = 205
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `paper_matrices.of_set`. Raises LeftOut."""
    tile_methods(rows)  # so that a run without any gives one reason
    return paper_matrices.of_set(rows, SET)


def show(found: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """One table."""
    return paper_matrices.shown(found, SET)
