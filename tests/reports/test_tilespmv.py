"""The figures of TileSpMV: what they compare, and what they say of what the run lacks."""

import numpy as np
import pytest

from spmvbench.matrices import sets
from spmvbench.reports import figures, page, style
from tests.reports.conftest import Family, with_both_kernels

FAMILY = Family("tilespmv", "csr5", "tile")


def without(rows, *formats):
    return rows[~rows["format"].isin(formats)]


def test_each_method_is_compared_with_the_one_before(tiled):
    table = FAMILY.data("methods", tiled)
    assert pairs_of(table) == {("tile", "tile-csr"), ("tile-deferred-coo", "tile")}
    assert set(table["setting"].astype(str)) == {"f64 hot", "f32 hot"}
    some = table[(table["setting"] == "f64 hot") & (table["matrix"] == "Williams/cant")].set_index(["label", "over"])
    rate = some["gflops"]
    assert some.loc[("tile", "tile-csr"), "speedup"] == pytest.approx(rate["tile", ""] / rate["tile-csr", ""])


def test_methods_that_the_run_lacks_are_named(tiled):
    assert "No verified row in this run: tile." in FAMILY.words("methods", without(tiled, "tile"))
    with pytest.raises(figures.LeftOut, match="no verified row of tile-csr, tile-deferred-coo"):
        FAMILY.data("methods", without(tiled, "tile-csr", "tile-deferred-coo"))


def pairs_of(table):
    return set(table.loc[table["over"] != "", ["label", "over"]].itertuples(index=False, name=None))


def test_the_authors_kernels_meet_the_authors(tiled):
    both = with_both_kernels(tiled, "tile", "tile-deferred-coo", "csr5")
    steps = {("tile", "tile-csr"), ("tile-deferred-coo", "tile")}
    theirs = {("tile[kernel=paper]", "tile-csr"), ("tile-deferred-coo[kernel=paper]", "tile[kernel=paper]")}
    assert pairs_of(FAMILY.data("methods", both)) == steps | theirs
    pairs = pairs_of(FAMILY.data("rivals", both))
    rivals = ("merge-csr", "cusparse-bsr")
    assert pairs == {
        *(("tile-deferred-coo", rival) for rival in (*rivals, "csr5")),
        *(("tile-deferred-coo[kernel=paper]", rival) for rival in (*rivals, "csr5[kernel=paper]")),
    }


def test_rivals_are_compared_with_the_most_advanced_method(tiled):
    table = FAMILY.data("rivals", without(tiled, "tile-deferred-coo", "merge-csr"))
    assert set(table.loc[table["over"] != "", "label"]) == {"tile"}
    assert set(table["over"]) == {"", "csr5", "cusparse-bsr"}
    with pytest.raises(figures.LeftOut, match="no verified row of merge-csr, csr5, cusparse-bsr"):
        FAMILY.data("rivals", without(tiled, "merge-csr", "csr5", "cusparse-bsr"))


def test_rivals_figure_says_wins_and_the_largest_speed_up(tiled):
    table = FAMILY.data("rivals", tiled)
    pair = table[(table["over"] == "csr5") & (table["setting"] == "f64 hot")]
    assert len(pair) == 23  # csr5 is wrong on one of 24
    best = pair.loc[pair["speedup"].idxmax()]
    name = best["matrix"].split("/")[1]
    said = f"faster on {(pair['speedup'] > 1).sum()} of 23\nat most {best['speedup']:.2f}x ({name})"
    assert said in FAMILY.words("rivals", tiled)


def test_rival_of_one_type_only_leaves_its_other_panel_empty(tiled):
    rows = tiled[(tiled["format"] != "cusparse-bsr") | (tiled["dtype"] == "f64")]
    assert FAMILY.words("rivals", rows).count("no matrix in common") == 1


def test_shares_add_up_and_come_from_the_classification_before_deferring(tiled):
    for rows, label in ((tiled, "tile"), (without(tiled, "tile"), "tile-deferred-coo")):
        table = FAMILY.data("shares", rows)
        assert set(table["label"]) == {label}
        assert table.groupby("matrix")[["tiles", "nonzeros"]].sum().to_numpy() == pytest.approx(1.0)
        assert table["nnz"].is_monotonic_increasing


def test_matrices_of_the_set_that_are_missing_are_named(tiled):
    members = sets.members("tilespmv16")
    said = FAMILY.words("representative", tiled)
    measured = ["TSOPF/TSOPF_RS_b2383", "Williams/cant", "GHS_indef/exdata_1", "Andrianov/mip1"]
    assert set(FAMILY.data("representative", tiled)["matrix"]) == set(measured)
    for matrix in set(members) - set(measured):
        assert matrix in said
    for matrix in measured:
        assert matrix not in said and matrix.split("/")[1] in said
    with pytest.raises(figures.LeftOut, match="tilespmv16"):
        FAMILY.data("representative", tiled[~tiled["matrix"].isin(members)])


def test_space_is_over_plain_csr(tiled):
    table = FAMILY.data("space", tiled)
    assert set(table["label"]) == {"csr-vector", "tile-csr", "tile"}
    assert set(table.loc[table["label"] == "csr-vector", "ratio"]) == {1.0}
    with pytest.raises(figures.LeftOut, match="cusparse-csr-alg1"):
        FAMILY.data("space", without(tiled, "csr-vector"))


def test_conversions_of_both_kernels_stand_beside_one_spmv_of_the_host(tiled):
    both = with_both_kernels(tiled, "tile-deferred-coo")
    table = FAMILY.data("preprocessing", both)
    works = {"tile-deferred-coo", "tile-deferred-coo[kernel=paper]", "csr5", "SpMV by SciPy"}
    assert set(table["work"]) == works and set(table["path"]) == {"host", "device"}
    assert list(table["matrix"].unique())[:2] == ["TSOPF/TSOPF_RS_b2383", "Williams/cant"]
    assert table["matrix"].nunique() == 16
    one = table[(table["matrix"] == "Williams/cant") & (table["work"] == "SpMV by SciPy")]
    assert set(one["seconds"]) == set(both.loc[both["matrix"] == "Williams/cant", "t_spmv_host"])
    assert set(FAMILY.data("preprocessing", both.assign(t_spmv_host=np.nan))["work"]) == works - {"SpMV by SciPy"}


def test_marks_are_those_of_the_report_and_differ_in_a_figure():
    blue = style.Mark(style.COLOR, "p", "-")
    assert style.marks_of(["a", "b"], {"a": style.marks(["a"])["a"], "b": blue})["b"].color != style.COLOR
    shown = style.marks(["a", "b", "c", "d", "e", "f", "g", "h"], "csr")
    found = style.marks_of(["x", "b", "csr", "y"], shown)
    assert list(found) == ["x", "b", "csr", "y"]
    assert found["b"] is shown["b"] and found["csr"] is shown["csr"]
    assert len({mark.color for mark in found.values()}) == 4
    few = style.marks(["a", "b"])
    assert style.marks_of(["x"], few)["x"] not in few.values()


@pytest.mark.slow
def test_a_run_with_tiles_in_one_type_only_is_drawn_whole(unrendered, tile_rows, environment, tmp_path):
    tiles = tile_rows["format"].str.startswith("tile")
    report = page.write(tile_rows[~tiles | (tile_rows["dtype"] == "f64")], environment, tmp_path, names=["tilespmv"])
    assert report.left_out == {}
    assert "f32" not in (tmp_path / "figures" / "tilespmv-space.csv").read_text()
