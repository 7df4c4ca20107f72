"""Table 3: the matrices of the paper, as far as the run holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.reports import paper_matrices
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.survey import SET
from spmvbench.reports.tables import Table

name = "survey-matrices"
title = "Survey, Table 3: the matrices"
caption = paper_matrices.CAPTION
papers = "Filippone et al. 2017, Table 3"
order = 102
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `paper_matrices.of_set`. Raises LeftOut."""
    return paper_matrices.of_set(rows, SET)


def show(found: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """One table."""
    return paper_matrices.shown(found, SET)
