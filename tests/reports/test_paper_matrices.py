"""Tables of the papers' matrices, and the list of all their figures in docs/reproduce.md."""

import re
from pathlib import Path

import pandas as pd
import pytest

import spmvbench
from spmvbench.matrices import sets
from spmvbench.reports import figures, style
from spmvbench.reports.figures import matrix_tables

PAPERS = ("survey", "tilespmv", "ehyb", "tilespmspv", "fastload")
REPRODUCE = Path(spmvbench.__file__).parents[1] / "docs" / "reproduce.md"


def rows(*matrices):
    about = {"matrix_sha256": "1", "rows": 5, "nnz": 9, "row_len_mean": 1.8, "row_len_max": 3}
    return pd.DataFrame([about | {"matrix": matrix} for matrix in matrices])


def test_table_tells_matrices_from_stand_ins():
    held = rows("Williams/cant", "synthetic/like:Simon/olafu", "synthetic/pde:60", "HB/other")
    table = matrix_tables.of_set(held, "survey34")
    assert len(table) == 34
    measured = table.set_index("matrix")["measured"]
    assert measured[["Williams/cant", "Simon/olafu", "synthetic/pde:60", "Norris/lung2"]].tolist() == [
        "the matrix", "stand-in", "the matrix", "no"
    ]  # fmt: skip
    (shown,) = matrix_tables.shown(table, "survey34")
    assert shown.caption == "The 34 matrices of the survey: 2 measured, 1 by stand-ins"
    with pytest.raises(figures.LeftOut, match="set survey34"):
        matrix_tables.of_set(rows("HB/other"), "survey34")


def test_stand_ins_are_shaded_and_named():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    style.names_below(axes, ["Williams/cant", "synthetic/like:Simon/olafu"])
    (patch,) = axes.patches
    assert patch.get_x() == 0.5
    assert [text.get_text() for text in axes.get_xticklabels()] == ["cant", "like:olafu"]


@pytest.mark.skipif(not REPRODUCE.exists(), reason="not run from a checkout")
def test_every_figure_of_the_papers_is_listed():
    words = "|".join(PAPERS)
    listed = re.findall(rf"`((?:{words})-[a-z-]+)`", REPRODUCE.read_text(encoding="utf-8"))
    ready = {path.stem for path in (REPRODUCE.parents[1] / "configs" / "runs").glob("*.toml")}
    known = {figure.name for name in PAPERS for figure in figures.known()[name]}
    listed = {name for name in listed if name.rpartition("-")[2] != "like" and name != "survey-k40m"}
    assert listed == known
    assert set(PAPERS) <= ready
    assert all(sets.get(name) for name in ("survey34", "tilespmv16", "ehyb92", "tilespmspv12"))
