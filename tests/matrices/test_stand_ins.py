"""Stand-ins have what is known of a matrix, and are named as stand-ins."""

import csv

import numpy as np
import pytest

from spmvbench.errors import UsageError
from spmvbench.matrices import resolve, sets, stand_ins, suitesparse, synthetic

SMALL = ("DRIVCAV/cavity23", "Bai/mhd4800a", "Simon/raefsky2", "HB/orani678", "Grund/bayer10", "SNAP/wiki-Vote")


def facts(**changes):
    known = {"matrix": "a/b", "cols": changes["rows"], "pattern_symmetry": 1.0, "spatial": True}
    return stand_ins.Facts(**known | {"kind": "2D/3D problem", "source": "test"} | changes)


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


HEAD = "matrix,rows,cols,entries,pattern_symmetry,spatial,kind,source,row_len_min,row_len_q1,row_len_median,row_len_q3,"
HEAD += "row_len_max,row_len_std,col_len_min,col_len_q1,col_len_median,col_len_q3,col_len_max,col_len_std"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Facts that a test gives by lines, as an imported run has them."""

    def tell(*lines):
        (tmp_path / "facts.csv").write_text("\n".join([HEAD, *lines]) + "\n")
        monkeypatch.setenv("SPMVBENCH_FACTS", str(tmp_path))
        stand_ins._known.cache_clear()

    return tell


def test_facts_of_an_imported_run(told):
    before = synthetic.generator_hash("like")
    told(
        "New/mixed,4000,6000,60000,0.1,no,directed graph,x,0,2,5,12,900,30,0,1,3,10,700,25",
        "New/mesh,4000,4000,60000,1.0,yes,2D/3D problem,x,2,10,15,20,30,6,2,10,15,20,30,6",
        "HB/bcsstk16,4884,4884,290378,1.0,yes,structural problem,x,9,48,60,72,81,15,9,48,60,72,81,15",
        "HB/orani678,1,1,1,0.1,no,economic problem,x,1,1,1,1,1,0,1,1,1,1,1,0",
    )
    assert synthetic.generator_hash("like") != before
    mixed, mesh = (synthetic.generate(f"like:New/{name}") for name in ("mixed", "mesh"))
    lengths, columns = np.diff(mixed.indptr), np.bincount(mixed.indices, minlength=6000)
    assert (mixed.shape, mixed.nnz, lengths.min()) == ((4000, 6000), 60000, 0)
    assert lengths.max() == pytest.approx(900, abs=2)
    assert np.quantile(lengths, [0.25, 0.5, 0.75]) == pytest.approx([2, 5, 12], abs=1)
    assert lengths.std() == pytest.approx(30, rel=0.25) and 200 < columns.max() < 1500
    # Rows at an end of a mesh do not share their columns.
    assert np.bincount(mesh.indices).max() < 3 * 30
    # What papers say comes first; facts fill what they lack, of a matrix of the same size.
    known = stand_ins.facts("HB/bcsstk16")
    assert known.row_len_max == 81 and known.row_len_median == 60
    assert stand_ins.facts("HB/orani678").row_len_median is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("New/a,4,4,many,1,no,,x", "line 2 of .* holds no facts"),
        ("New/a,4,4,17,1,no,,x", "its entries do not fit its size"),
        ("New/a,4,4,-1,1,no,,x", "entries is -1"),
        (",4,4,1,1,no,,x", "a name or a size is missing"),
        ("New/a,4,4,1,nan,no,,x", "pattern_symmetry is nan"),
    ],
)
def test_what_holds_no_facts(told, line, said):
    told(line)
    with pytest.raises(UsageError, match=said):
        stand_ins.known()


def test_facts_that_are_not_there_and_those_of_the_index_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("SPMVBENCH_FACTS", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="no folder of an imported run"):
        stand_ins.known()
    monkeypatch.delenv("SPMVBENCH_FACTS")
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
