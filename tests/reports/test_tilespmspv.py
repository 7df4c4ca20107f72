"""The figures of TileSpMSpV and TileBFS, and how reports keep operations apart."""

import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.reports import figures, page
from tests.reports.conftest import Family, with_both_kernels

FAMILY = Family("tilespmspv", "tile-bfs")


@pytest.mark.slow
def test_family_is_drawn_whole_and_nothing_else_is_drawn_of_other_operations(
    unrendered, sparse_rows, environment, tmp_path
):
    report = page.write(sparse_rows, environment, tmp_path, names=["tilespmspv", "gflops"], images=[])
    names = ["matrices", "densities", "searches", "representative", "kernels", "levels", "preprocessing", "enterprise"]
    assert [drawn.name for drawn in report.drawn] == ["gflops", *(f"tilespmspv-{name}" for name in names)]
    assert report.left_out == {}
    csv = (tmp_path / "figures" / "gflops.csv").read_text()
    assert "tile" in csv
    assert "bfs" not in csv
    assert "spmspv" not in csv
    text = report.page.read_text(encoding="utf-8")
    assert "pattern hot bfs" in text
    assert "bfs@1" not in text
    assert "GTEPS" in text


def test_searches_from_all_sources_are_one_row_of_the_harmonic_mean(sparse_rows, sparse):
    def of_one(rows):
        return rows[(rows["label"] == "bfs-do") & (rows["name"] == "cant") & (rows["mode"] == "hot")]

    rows = of_one(sparse_rows)
    (one,) = of_one(sparse).itertuples()
    assert one.op == "bfs"
    assert str(one.setting) == "pattern hot bfs"
    assert one.t_median == pytest.approx(rows["t_median"].mean())
    assert one.gflops == pytest.approx(2 / (1 / rows["gflops"]).sum())
    assert "level_seconds" in one.detail
    second = sparse_rows["case_id"] == rows["case_id"].iloc[1]
    wrong = sparse_rows.assign(status=sparse_rows["status"].mask(second, "wrong"))
    assert of_one(latest_cases(wrong))["status"].tolist() == ["wrong"]
    assert len(latest_cases(wrong)) == len(sparse)


def test_dense_comparators_stand_beside_every_density_with_their_one_time(sparse):
    found = FAMILY.data("densities", sparse)
    rates = found[found["over"] == ""]
    densities = [setting for setting in rates["setting"].unique() if setting.startswith("f64")]
    assert densities == [f"f64 hot spmspv@{density}" for density in ("0.1", "0.01", "0.001", "0.0001")]
    assert {setting.split()[1] for setting in rates["setting"]} == {"hot"}
    dense = rates[(rates["label"] == "tile") & rates["setting"].str.startswith("f64")]
    assert (dense.groupby("matrix")["gflops"].nunique() == 1).all()
    assert (dense.groupby("matrix").size() == 4).all()
    pairs = found[(found["over"] == "spmspv-csc-atomic") & (found["label"] == "tile-spmspv")]
    assert pairs["speedup"].to_numpy() == pytest.approx(0.5)
    assert set(found["over"]) == {"", "tile", "spmspv-csc-atomic", "merge-csr"}


def test_the_authors_kernels_have_speed_ups_of_their_own(sparse):
    both = with_both_kernels(sparse, "tile-spmspv", "tile", "tile-bfs")
    over = {name: FAMILY.data(name, both).groupby("label")["over"].agg(set) for name in ("densities", "searches")}
    rivals = {"", "tile[kernel=paper]", "spmspv-csc-atomic", "merge-csr"}
    assert over["densities"]["tile-spmspv[kernel=paper]"] == rivals
    assert over["searches"]["tile-bfs[kernel=paper]"] == {"", "bfs-push", "bfs-do"}
    assert "tile-bfs[kernel=paper]" in set(FAMILY.data("representative", both)["label"])


def test_a_run_without_sparse_vectors_or_searches_says_so(sparse):
    for name, missing in (("densities", "tile-spmspv"), ("searches", "tile-bfs"), ("preprocessing", "tile-bfs")):
        with pytest.raises(figures.LeftOut, match=f"no verified row of {missing}"):
            FAMILY.data(name, sparse[sparse["op"] == "spmv"])
    with pytest.raises(figures.LeftOut, match="no verified row of bfs-push, bfs-do"):
        FAMILY.data("searches", sparse[sparse["format"] == "tile-bfs"])
    with pytest.raises(figures.LeftOut, match=r"no verified row of tile-bfs\[kernels=1\], tile-bfs\[kernels=12\]"):
        FAMILY.data("kernels", sparse[~sparse["label"].str.contains("kernels")])
    with pytest.raises(figures.LeftOut, match="no verified row keeps the levels"):
        FAMILY.data("levels", sparse.assign(detail=""))
    with pytest.raises(figures.LeftOut, match="no verified row of GHS_psdef/audikw_1"):
        FAMILY.data("enterprise", sparse[sparse["name"] != "audikw_1"])
    with pytest.raises(figures.LeftOut, match="the run holds none of the 2,757 matrices"):
        FAMILY.data("searches", sparse.assign(matrix="synthetic/" + sparse["name"]))


@pytest.mark.parametrize("name", ["representative", "kernels", "preprocessing"])
def test_the_papers_matrices_come_first_and_those_that_lack_are_named(sparse, name):
    found = FAMILY.data(name, sparse)
    assert list(found["matrix"].unique())[:3] == ["Williams/cant", "Williams/pdb1HYS", "SNAP/roadNet-TX"]
    assert found["matrix"].nunique() == 8
    words = FAMILY.words(name, sparse)
    assert "LAW/in-2004" in words
    assert "DIMACS10/333SP" in words
    assert "Williams/cant" not in words


def test_every_level_has_its_time_and_kernel(sparse):
    found = FAMILY.data("levels", sparse)
    assert list(found["matrix"].unique())[:2] == ["Williams/cant", "SNAP/roadNet-TX"]
    assert found["matrix"].nunique() == 4
    assert found["label"].unique().tolist() == ["bfs-do", "tile-bfs"]
    one = found[(found["matrix"] == "Williams/cant") & (found["label"] == "tile-bfs")]
    assert one[["level", "kernel", "found"]].to_numpy().tolist() == [[1, 1, 9], [2, 2, 90], [3, 3, 8]]
    assert "INPRO/msdoor" in FAMILY.words("levels", sparse)


def test_conversion_stands_beside_one_search(sparse):
    found = FAMILY.data("preprocessing", sparse).pivot(index="matrix", columns="work", values="seconds")
    assert (found["conversion from CSR"] / found["one search"]).to_numpy() == pytest.approx(4 * 4 / 6)
