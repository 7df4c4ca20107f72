"""The figures of FastLoad: what they compare, what they leave out, and what they say of what the run lacks."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.reports import figures
from spmvbench.reports.figures.fastload import four
from tests.reports.conftest import Family, with_both_kernels

FAMILY = Family("fastload", "csr5", "fastload")

IMPROVED = "fastload[optimized=true]"


def test_the_authors_kernel_of_a_rival_stands_beside_the_paper_s_numbers(loaded):
    table = FAMILY.data("groups", with_both_kernels(loaded, "csr5"))
    published = table.groupby("label")["published_microseconds"].agg(lambda s: s.notna().all())
    assert published["csr5[kernel=paper]"] and not published["csr5"]


def test_groups_are_means_over_matrices_that_all_got_right_beside_the_paper_s(loaded):
    table = FAMILY.data("groups", loaded)
    assert set(table["group"]) == {"HB", "Bai"}  # not the generated matrices
    assert list(table["group"].unique()) == ["HB", "Bai"]  # as the paper orders them
    rows = loaded[(loaded["setting"] == "f64 hot") & (loaded["group"] == "Bai") & (loaded["status"] == "ok")]
    rows = rows[rows["label"].isin(table["label"])]
    wrong = "Bai/matrix0007"  # csr5 is wrong there
    assert (rows.groupby("matrix")["label"].nunique() == table["label"].nunique()).sum() == 7
    rows = rows[(rows["matrix"] != wrong) & (rows["label"] == IMPROVED)]
    cell = table[(table["setting"] == "f64 hot") & (table["group"] == "Bai") & (table["label"] == IMPROVED)].iloc[0]
    assert cell["matrices"] == 7 and cell["published_matrices"] == 78
    assert cell["microseconds"] == pytest.approx(1e6 * np.exp(np.log(rows["t_median"]).mean()))
    assert cell["published_microseconds"] == 6.3013
    assert "Bai (7 of 78)" in FAMILY.words("groups", loaded)
    with pytest.raises(figures.LeftOut, match="Pajek"):
        FAMILY.figure("groups").data(loaded[loaded["group"] == "synthetic"], FAMILY.options)


def test_two_phases_are_rated_by_the_phases_that_the_paper_counts(loaded):
    table = FAMILY.data("two-phase", loaded)
    assert set(table["label"]) == {"two-phase", "csr5", "cusparse-csr-alg1", "tile-deferred-coo"}
    one = table[(table["label"] == "two-phase") & (table["setting"] == "f64 hot")].iloc[0]
    row = loaded[(loaded["setting"] == "f64 hot") & (loaded["label"] == "two-phase")].set_index("matrix")
    row = row.loc[one["matrix"]]
    assert one["gflops"] == pytest.approx(2e-9 * row["nnz"] / (0.5 * row["t_median"]))
    assert set(table["setting"].astype(str)) == {"f64 hot", "f32 hot"}


@pytest.mark.slow
def test_rivals_are_compared_with_the_most_advanced_fastload(loaded):
    table = FAMILY.data("rivals", loaded)
    pairs = table[table["over"] != ""]
    assert set(pairs["label"]) == {IMPROVED}
    assert set(pairs["over"]) == {"cusparse-csr-alg1", "csc-warp", "csr5", "tile-deferred-coo"}
    said = FAMILY.words("rivals", loaded)
    assert "Shown: 16 matrices of the collection, in the paper all 2,757." in said
    assert "No verified row" not in said
    fewer = loaded[~loaded["format"].isin(["csr5", "csc-warp"])]
    assert "No verified row in this run: basic CSC, CSR5." in FAMILY.words("rivals", fewer)
    only = loaded[loaded["format"] == "fastload"]
    with pytest.raises(figures.LeftOut, match="cusparse-csr-alg1, csc-warp, csr5, tile-deferred-coo"):
        FAMILY.data("rivals", only)


def test_speed_ups_stand_at_the_variation_of_the_matrix(loaded):
    table = FAMILY.data("variation", loaded)
    known = loaded.drop_duplicates("matrix").set_index("matrix")["row_len_cv"]
    assert (table["row_len_cv"] == table["matrix"].map(known)).all()
    assert set(table["method"]) == {"cuSPARSE", "basic CSC", "CSR5", "TileSpMV"}


def test_heights_stand_in_the_paper_s_order_beside_its_numbers(loaded):
    table = FAMILY.data("heights", loaded)
    assert list(table["height"].unique()) == ["none", "1", "2", "8", "improved"]
    some = table[(table["setting"] == "f64 hot") & (table["over"] == "csr5")].set_index("height")
    assert some["matrices"].tolist() == [23] * 5 and some["collection"].tolist() == [15] * 5
    assert some.loc["none", "speedup"] == pytest.approx(some.loc["1", "speedup"] / 3)
    assert some.loc["improved", "speedup"] == pytest.approx(some.loc["1", "speedup"] / 0.8)
    assert (some.loc["8", "published_speedup"], some.loc["8", "published_faster"]) == (2.72, 0.92)
    assert np.isnan(some.loc["improved", "published_speedup"])


def test_both_kernels_have_a_curve_over_rivals_of_the_same_kind(loaded):
    both = with_both_kernels(loaded, "csr5", "fastload")
    params = both["params"].where(
        both["label"] != "fastload[kernel=paper]", both["params"].str.replace("fast", "paper")
    )
    table = FAMILY.data("heights", both.assign(params=params))
    of = table.groupby("kernels")
    assert of["height"].unique().map(list).to_dict() == {
        "this project's kernels": ["none", "1", "2", "8", "improved"], "the authors' kernels": ["1"]
    }  # fmt: skip
    rivals = {"cusparse-csr-alg1", "tile-deferred-coo"}
    assert of["over"].agg(set).to_dict() == {
        "this project's kernels": rivals | {"csr5"}, "the authors' kernels": rivals | {"csr5[kernel=paper]"}
    }  # fmt: skip
    assert table.loc[table["height"] == "1", "published_speedup"].notna().all()


def test_four_matrices_are_the_largest_of_their_kinds():
    kinds = {"a": ("x", 5), "b": ("x", 9), "c": ("y", 1), "d": ("z", 7), "e": ("u", 2), "f": ("v", 3)}
    rows = pd.DataFrame([{"matrix": name, "kind": kind, "nnz": nnz} for name, (kind, nnz) in kinds.items()])
    assert four(pd.concat([rows, rows])) == ["e", "f", "d", "b"]
    assert four(rows[rows["kind"] == "x"]) == ["b"]


def test_memory_needs_a_conversion_on_a_device(loaded):
    table = FAMILY.data("memory", loaded)
    assert (table["bytes_peak"] == 3 * table["bytes_format"]).all()
    assert table.groupby("dtype")["matrix"].nunique().tolist() == [3, 3]  # the rows hold three kinds
    with pytest.raises(figures.LeftOut, match="no conversion on a device"):
        FAMILY.data("memory", loaded.assign(bytes_peak=0))


def test_preprocessing_keeps_host_and_device_apart(loaded):
    table = FAMILY.data("preprocessing", loaded)
    assert set(table["label"]) == {IMPROVED, "csr5", "tile-deferred-coo"}
    assert set(table["path"]) == {"host", "device"}
    assert not table.duplicated(["matrix", "label", "dtype", "path"]).any()
