"""Stand-ins have what is known of a matrix, and are named as stand-ins."""

import csv

import numpy as np
import pytest

from spmvbench.errors import UsageError
from spmvbench.matrices import resolve, sets, stand_ins, suitesparse, synthetic

SMALL = ("DRIVCAV/cavity23", "Bai/mhd4800a", "Simon/raefsky2", "HB/orani678", "Grund/bayer10", "SNAP/wiki-Vote")


def facts(**changes):
    known = {
        "matrix": "a/b",
        "cols": changes["rows"],
        "pattern_symmetry": 1.0,
        "spatial": True,
        "kind": "2D/3D problem",
    }
    return stand_ins.Facts(**known | {"source": "test"} | changes)


@pytest.mark.parametrize("name", [*SMALL, "SNAP/wiki-Vote:index"])
def test_sizes_and_row_lengths_are_those_known(name):
    about = stand_ins.facts(name)
    a = synthetic.generate(f"like:{name}")
    lengths = np.diff(a.indptr)
    assert (a.shape, a.nnz) == ((about.rows, about.cols), about.entries)
    same_row = np.repeat(np.arange(a.shape[0]), lengths)
    assert ((np.diff(a.indices) > 0) | (np.diff(same_row) > 0)).all(), "columns ascend in each row"
    if about.row_len_max:
        assert lengths.max() == pytest.approx(about.row_len_max, abs=stand_ins.dense_block(about) + 1)
    if about.row_len_std:
        assert lengths.std() == pytest.approx(about.row_len_std, rel=0.15)
        assert lengths.min() >= about.row_len_min


def test_facts_of_the_index_alone():
    whole, index = stand_ins.facts("HB/bcsstk16"), stand_ins.facts("HB/bcsstk16:index")
    assert whole.row_len_max == 81
    assert index.row_len_max is index.row_len_std is index.bandwidth is None
    assert (index.rows, index.entries) == (whole.rows, whole.entries)


@pytest.mark.parametrize(
    ("spec", "shape"),
    [("pde:9", (9, 9, 9)), ("fem:5:3", (5, 5, 5)), ("poisson2d:11", (11, 11)), ("fem:4:1", (4, 4, 4))],
)
def test_grids_are_found_from_their_numbers(spec, shape):
    a = synthetic.generate(spec)
    found = stand_ins.regular_grid(facts(rows=a.shape[0], entries=a.nnz))
    assert found[0] == shape
    assert found[2] == (3 if spec == "fem:5:3" else 1)
    assert stand_ins.regular_grid(facts(rows=a.shape[0], entries=a.nnz, pattern_symmetry=0.9)) is None


def test_dense_blocks_follow_from_divisibility():
    assert stand_ins.dense_block(facts(rows=300, entries=300 * 45)) == 6
    assert stand_ins.dense_block(facts(rows=300, entries=300 * 6)) == 1  # a point would have one block
    assert stand_ins.dense_block(facts(rows=300, entries=300 * 45, spatial=False, kind="linear programming")) == 1


def test_rows_of_a_point_have_the_same_columns():
    about = facts(rows=3 * 700, entries=9 * 700 * 21 - 9 * 13)
    a = stand_ins._mesh(about, stand_ins.row_lengths(about, 3, 0), 3, 0)
    assert a.unit == 3
    first = np.split(a.columns(0, 3), np.cumsum(a.lengths[:3])[:-1])
    assert all((row == first[0]).all() for row in first)


def test_a_set_with_stand_ins_takes_them_for_what_is_not_at_hand(monkeypatch):
    monkeypatch.setattr(suitesparse, "at_hand", lambda group, name: name == "cant")
    members = sets.members("tilespmspv12-like")
    assert len(members) == 12
    assert members[1] == "Williams/cant"
    assert members[0] == "like:Schenk_AFE/af_5_k101"
    assert sets.members("survey34-like")[23] == "pde:60"
    (matrix,), missing = resolve(["like:DRIVCAV/cavity23"])
    assert (matrix.id, matrix.nnz, missing) == ("synthetic/like:DRIVCAV/cavity23", 138187, [])
    assert sets.is_stand_in(matrix.id)
    assert sets.stands_for(matrix.id) == sets.stands_for(f"{matrix.id}:index") == "DRIVCAV/cavity23"
    assert sets.stands_for("synthetic/pde:4") == "synthetic/pde:4"


@pytest.mark.parametrize("name", ["HB/nothing", "DRIVCAV/cavity23:all", "../x", ""])
def test_unknown_matrices_have_none(name):
    with pytest.raises(UsageError, match="no facts are known"):
        synthetic.canonical(f"like:{name}")


def test_facts_are_those_of_the_index(mirror):
    with open(mirror / "files/ssstats.csv", newline="") as file:
        index = {"/".join(row[:2]): row for row in csv.reader(file) if len(row) > 2}
    papers = {name for known in ("survey34", "tilespmv16", "tilespmspv12", "ehyb92") for name in sets.members(known)}
    assert {name for name in papers if ":" not in name} <= set(stand_ins.known())
    for name, about in stand_ins.known().items():
        row = index[name]
        assert (about.rows, about.cols, about.entries, about.kind) == (int(row[2]), int(row[3]), int(row[12]), row[11])
