"""Tables of the papers' matrices, and the list of all their figures in docs/reproduce.md."""

import pandas as pd
import pytest

from spmvbench import formats, paths
from spmvbench.formats import descriptions
from spmvbench.matrices import sets
from spmvbench.publishing import reproduce
from spmvbench.reports import figures, style
from spmvbench.reports.figures import matrix_tables

PAPERS = ("survey", "tilespmv", "ehyb", "tilespmspv", "fastload")


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


@pytest.mark.parametrize(
    ("paper", "named", "matrix", "column", "value"),
    [
        ("survey", "survey34", "Simon/olafu", "description", "structural analysis"),
        ("ehyb", "ehyb92", "GHS_psdef/audikw_1", "category", "Structural"),
        ("tilespmspv", "tilespmspv12", "Williams/cant", "tiles_64", 8_000),
        ("tilespmv", "tilespmv16", "Williams/cant", "rows", 5),
    ],
)
def test_tables_have_the_columns_of_the_papers(paper, named, matrix, column, value):
    table = matrix_tables.printed(matrix_tables.of_set(rows(matrix), named), paper)
    assert len(table) == len(sets.members(named)) and table.set_index("matrix").loc[matrix, column] == value
    assert ("tiles" in table) == (paper == "tilespmspv")
    (shown,) = matrix_tables.shown(table, named)
    assert len(shown.columns) == len(table.columns)
    assert table[list({"category", "description", "tiles_16"} & {*table})].notna().all(axis=None)


def test_stand_ins_are_shaded_and_named():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    style.names_below(axes, ["Williams/cant", "synthetic/like:Simon/olafu"])
    (patch,) = axes.patches
    assert patch.get_x() == 0.5
    assert [text.get_text() for text in axes.get_xticklabels()] == ["cant", "like:olafu"]


def test_every_figure_of_the_papers_is_listed():
    listed = reproduce.figures()
    known = {figure.name for name in PAPERS for figure in figures.known()[name]}
    assert {name for names in listed["figures"] for name in names.split()} == known
    assert set(PAPERS) <= {path.stem for path in (paths.configs() / "runs").glob("*.toml")}
    assert set(listed.loc[listed["measured"] > 0, "shown"]) <= set(reproduce.SHOWN)
    assert listed["measured"].sum() == 49
    assert all(sets.get(name) for name in ("survey34", "tilespmv16", "ehyb92", "tilespmspv12"))


def test_every_named_item_is_graded_and_what_is_replaced_says_so():
    found = reproduce.items()
    assert set(found["grade"]) <= set(reproduce.GRADES)
    for item in found[found["paper"] != "Survey"].itertuples():
        ((cls, params),) = formats.parse(item.runs)
        assert item.grade != "other" or cls.runs_project_kernel(params) or descriptions.readings(cls), item
        assert item.grade != "paper" or not cls.runs_project_kernel(params), item
    two = pd.DataFrame({"paper": ["a", "b", "a"], "shown": ["partly", "no", "partly"]})
    assert reproduce.counts(two, "shown", reproduce.SHOWN, [1, 1, 2]).splitlines()[2:] == [
        "| a | 0 | 3 | 0 | 3 |", "| b | 0 | 0 | 1 | 1 |", "| all | 0 | 3 | 1 | 4 |"
    ]  # fmt: skip
