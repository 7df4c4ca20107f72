"""Appendix B: the 92 matrices of the paper, as far as the run holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from spmvbench.reports import paper_matrices
from spmvbench.reports.figures import Options
from spmvbench.reports.figures.ehyb import SET, methods
from spmvbench.reports.tables import Table

name = "ehyb-matrices"
title = "EHYB, Appendix B: the 92 matrices"
caption = paper_matrices.CAPTION
papers = "Chen 2022, Appendix B"
order = 305
performance = False


def data(rows: pd.DataFrame, options: Options) -> pd.DataFrame:
    """As `paper_matrices.of_set`. Raises LeftOut."""
    methods(rows)  # so that a run without any gives one reason
    return paper_matrices.of_set(rows, SET)


def show(found: pd.DataFrame, environment: Mapping[str, Any], options: Options) -> list[Table]:
    """One table."""
    return paper_matrices.shown(found, SET)
