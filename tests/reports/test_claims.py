"""What papers say beside what a run measured: pairs of kernels, fastest rivals, coverage."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from spmvbench import formats
from spmvbench.analysis import verdicts
from spmvbench.reports import figures
from spmvbench.reports.figures import claims, fastload
from spmvbench.reports.figures.claim_reasons import by_both_sides
from spmvbench.rows.schema import blank_row

TIMES = {  # of matrices of 1,000 and of 400,000 entries
    "csr5": (1.0, 2.0),
    "csr5[kernel=paper]": (2.0, 2.0),
    "hyb": (3.0, 1.0),
    "csr-vector": (2.0, 6.0),
    "merge-csr": (1.0, 1.0),
    "cusparse-csr-alg1": (2.0, 4.0),
    "tile-deferred-coo": (0.5, np.nan),
    "tile-deferred-coo[kernel=paper]": (1.0, 1.0),
    "cusparse-coo": (1.0, 3.0),
}


@pytest.fixture(scope="module")
def rows():
    found = [
        {"matrix": f"a/{nnz}", "nnz": nnz, "label": label, "format": label.partition("[")[0], "t_median": times[k]}
        for label, times in TIMES.items()
        for k, nnz in enumerate((1_000, 400_000))
    ]
    rows = pd.DataFrame([blank_row() | row for row in found]).assign(dtype="f64", mode="hot", op="spmv")
    rows = rows.assign(device="cuda:0", device_name="gpu", setting="f64 hot", experiment=False)
    return rows.assign(status=np.where(rows["t_median"].isna(), "skipped", "ok"))


@pytest.fixture(scope="module")
def table(rows):
    return claims.FIGURE.data(rows, figures.Options(None, {}))


def test_claims_name_formats_and_their_sources():
    found = claims.claims()
    for claim in found.itertuples():
        words = re.sub(r"\[.*?\]", "", f"{claim.format} {claim.baselines}".replace("|", " ")).split()
        assert set(words) <= {*formats.keys(), "gswitch"}
        assert claim.source
        assert claim.dtype in ("f64", "f32", "")
        assert np.isnan(claim.mean) or claim.mean > 0.5
        assert claim.quantity in claims._QUANTITIES and claim.about in ("", "tiles")
        assert claim.baselines or claim.least > 0 or claim.max > 0
        assert not claim.words or claim.faster >= 0
        assert claim.op in ("spmv", "bfs") or re.fullmatch(r"spmspv@0\.0*1", claim.op)
    papers = {"CSR5", "Merge path", "TileSpMV", "EHYB", "TileSpMSpV", "TileBFS", "FastLoad", "DASP", "MERBIT"}
    assert set(found["paper"]) == papers
    assert formats.get("fastload").parameters()["height"].default == fastload.DEFAULT_HEIGHT
    printed = found.set_index(["paper", "over"])["mean"]
    assert printed["TileSpMSpV", "cuSPARSE BSR at 0.0001"] == 24.95
    assert printed["FastLoad", "cuSPARSE CSR, height 2"] == 3.03


def test_claims_about_a_sparse_x_meet_products_with_a_dense_one(rows):
    dense = rows[rows["label"].isin(["tile-deferred-coo", "csr5"]) & (rows["nnz"] == 1_000)]
    sparse = dense[dense["label"] == "csr5"].assign(
        op="spmspv@0.01", setting="f64 hot spmspv@0.01", label="tile-spmspv", format="tile-spmspv", t_median=0.2
    )
    search = sparse.assign(op="bfs", dtype="pattern", setting="pattern hot bfs")
    searches = [search.assign(label=key, format=key, t_median=t) for key, t in (("tile-bfs", 1.0), ("bfs-push", 3.0))]
    found = claims.FIGURE.data(pd.concat([dense, sparse, *searches]), figures.Options(None, {})).set_index("over")
    assert found.loc["TileSpMV at 0.01", ["op", "alike", "setting"]].tolist() == [
        "spmspv@0.01", pytest.approx(2.5), "f64 hot spmspv@0.01"
    ]  # fmt: skip
    assert found.loc["Gunrock", ["alike", "rival", "verdict"]].tolist() == [pytest.approx(3.0), "bfs-push", "holds"]
    assert "GSwitch" not in found.index  # its times are of other matrices
    assert "TileSpMV at 0.1" not in found.index


def test_ehyb_is_compared_in_the_order_of_the_papers_timing(rows):
    ours = rows[rows["label"] == "merge-csr"]
    labels = {"ehyb": 4.0, "ehyb[order=native]": 2.0, "ehyb[kernel=paper,order=native]": 0.5, "merge-csr": 1.0}
    runs = pd.concat([ours.assign(label=k, format=k.partition("[")[0], t_median=t) for k, t in labels.items()])
    found = claims.FIGURE.data(runs, figures.Options(None, {})).set_index("label")
    assert found["alike"].to_dict() == {"ehyb[order=native]": 0.5, "ehyb[kernel=paper,order=native]": 2.0}


def test_a_program_is_timed_on_its_own_card(rows):
    search = rows[rows["label"] == "merge-csr"][:1].assign(
        op="bfs", dtype="pattern", setting="bfs", label="tile-bfs", format="tile-bfs", matrix="synthetic/fem:40:3"
    )
    there = claims.FIGURE.data(search.assign(device_name="NVIDIA H200", t_median=1e-3), figures.Options(None, {}))
    assert there[["over", "rival", "alike"]].to_numpy().tolist()[0] == ["GSwitch", "gswitch", pytest.approx(3.310791)]
    with pytest.raises(figures.LeftOut):
        claims.FIGURE.data(search, figures.Options(None, {}))


@pytest.mark.parametrize(("tiles", "compared"), [(62_000, 1), (90_000, 1), (99_000, 0), (40_000, 0)])
def test_a_claim_about_tiles_takes_stand_ins_that_have_them(rows, tiles, compared):
    given = rows.assign(matrix="synthetic/like:Williams/cant", tiles=tiles)[rows["nnz"] == 1_000]
    found = claims.FIGURE.data(given, figures.Options(None, {}))
    assert ((found["paper"] == "TileSpMV") & (found["over"] == "CSR5")).any() == compared


CLAIM = {"baselines": "csr5", "quantity": "", "words": ""} | dict.fromkeys(("mean", "least", "max", "faster"), np.nan)


@pytest.mark.parametrize(
    ("printed", "measured", "said"),
    [
        ({"mean": 1.3}, [1.1, 1.1], "holds"),
        ({"mean": 2.0}, [1.1, 1.1], "holds by direction"),
        ({"mean": 0.8}, [1.1, 1.1], "differs"),
        ({"faster": 0.7}, [2.0, 2.0, 2.0, 0.5], "holds"),
        ({"faster": 0.7}, [2.0, 2.0], "holds by direction"),
        ({"faster": 0.5, "words": "on most"}, [2.0, 2.0], "holds"),
        ({"faster": 0.07}, [0.5, 0.5], "holds by direction"),
        ({"max": 6.0, "faster": 0.7}, [0.1, 0.1, 6.0], "differs"),
        ({"max": 6.0}, [0.1, 5.0], "holds"),
        ({"max": 6.0}, [0.1, 0.9], "differs"),
        ({"baselines": "", "least": 50.0, "max": 400.0}, [300.0], "holds"),
        ({"baselines": "", "max": 400.0}, [500.0], "differs"),
        ({}, [2.0], "not tested"),
    ],
)
def test_verdicts(printed, measured, said):
    claim, measured = SimpleNamespace(**CLAIM | printed), pd.Series(measured)
    assert verdicts.verdict(claim, measured, measured.mean()) == said


@pytest.mark.parametrize(
    ("label", "rival", "bound", "said"),
    [  # GFLOPS by bytes: the rival takes 1 s for 2e9 flops
        ("tile", "csr5", 1.5, "Limited by its bytes and the bandwidth of this GPU, it can be at most 0.75"),
        ("tile", "csr5", 9.0, "The rival, this project's kernel, takes 0.50 of the time of its authors'."),
        ("tile[kernel=paper]", "csr5[kernel=paper]", 9.0, "The authors' kernel takes 4.00 times the time of this"),
        ("tile", "merge-csr", 9.0, "On the 3 matrices of 1 M entries and more it is 2.00, faster on 100 %."),
        ("tile", "hola", 3.0, "Not examined."),
        ("tile", "hola", 9.0, "These matrices are small: reading its bytes takes 11 % of its time, latency the rest."),
    ],
)
def test_reasons_are_numbers_of_the_rows(label, rival, bound, said):
    times = {"tile": 2.0, "tile[kernel=paper]": 8.0, "csr5": 1.0, "csr5[kernel=paper]": 2.0, "hola": 1.0}
    of = [
        {"matrix": f"m{i}", "label": name, "t_median": t, "nnz": 1000 if i < 6 else 10**6, "bound_gflops": bound}
        for name, t in (times | {"merge-csr": 1.0}).items() for i in range(9)
    ]  # fmt: skip
    of = pd.DataFrame(of).assign(work=2e9)
    of.loc[(of["label"] == "merge-csr") & (of["nnz"] == 10**6), "t_median"] = 4.0
    took, own = (of[of["label"] == name].set_index("matrix")["t_median"] for name in (rival, label))
    claim = SimpleNamespace(**CLAIM | {"mean": 1.5})
    assert verdicts.reason(claim, of, (label, rival), took / own, took).startswith(said)


@pytest.mark.parametrize(
    ("claim", "columns", "said"),
    [
        ({"quantity": "bytes"}, {}, "It takes 8.0 bytes a nonzero in the median, its rival 16.0 bytes a nonzero."),
        ({"quantity": "conversion"}, {}, "It takes 8.00 ms in the median, its rival 16.0 ms."),
        ({"quantity": "products", "baselines": ""}, {}, "It takes 12.0 ms in the median, and a product 3.00 ms."),
        ({"quantity": "dense tiles", "baselines": ""}, {}, "Not examined."),
        ({}, {"bound_gflops": 2.0}, "Of what its bytes allow on this GPU it reaches 33.3 %, hola 50 %."),
        ({}, {"detail": '{"levels": 3}'}, "A level takes 1.00 ms in the median, with hola 667 us."),
        ({}, {"t_kernels": '{"a": 1, "b": 3}'}, "It takes 3.00 ms in the median, 75 % of it in its longest kernel"),
        ({}, {}, "Not examined."),
    ],
)
def test_both_sides_are_told_where_nothing_else_explains_a_difference(claim, columns, said):
    of = pd.DataFrame([("tile", 3e-3), ("hola", 2e-3)], columns=["label", "t_median"])
    of = of.assign(matrix="m", nnz=10, work=2e6, bound_gflops=np.nan, detail="", t_kernels="", t_spmv_host=1.0).assign(
        **columns
    )
    took = {"bytes": 160.0, "conversion": 16e-3}.get(claim.get("quantity"), 4.0)
    claim = SimpleNamespace(**CLAIM | {"op": "spmv"} | claim)
    measured, took = (pd.Series({"m": value}) for value in (2.0 if claim.baselines else 4.0, took))
    assert by_both_sides(claim, of, "tile", "hola", measured, took).startswith(said)


def test_fastloads_groups_explain_a_rival_that_was_slower_then(rows):
    named = rows[rows["label"].isin(["csr5", "cusparse-csr-alg1"])].assign(matrix="HB/a", nnz=1000)
    named = named.drop_duplicates("label").assign(bound_gflops=1e-5, work=2000)
    times = {"cusparse-csr-alg1": 4e-6, "csr5": 5e-6, "fastload-opt": 6e-6}  # the paper: 32.5, 23.9 and 6.6 us
    fast = named[:1].assign(label="fastload-opt", format="fastload-opt")
    given = pd.concat([named, fast]).assign(t_median=lambda r: r["label"].map(times), bound_gflops=1.0)
    found = claims.FIGURE.data(given, figures.Options(None, {})).set_index("over")
    assert found.loc["cuSPARSE CSR", "verdict"] == "differs"
    assert found.loc["cuSPARSE CSR", "reason"] == (
        "In the groups of Figure 1 its rival took 8.1 times the time measured here, FastLoad 1.1 times."
    )


def test_stand_ins_are_counted_and_give_way(rows):
    rows = rows[~rows["format"].str.startswith("tile")]  # which claims about tiles would not take
    stand_in = rows.assign(matrix="synthetic/like:" + rows["matrix"])
    options = figures.Options(None, {})
    both, alone = (figures.table_of(claims.FIGURE, part, options) for part in (pd.concat([rows, stand_in]), stand_in))
    assert set(both["stand_ins"]) == {0}
    assert (alone["stand_ins"] == alone["compared"]).all()


def test_a_kernel_meets_the_same_kind_of_its_rivals(table):
    tile = table[table["over"] == "CSR5"].set_index("label")
    assert dict(tile["rival"]) == {
        "tile-deferred-coo": "csr5",
        "tile-deferred-coo[kernel=paper]": "csr5[kernel=paper]",
    }
    assert tile.loc["tile-deferred-coo", ["geomean", "most", "compared", "coverage"]].tolist() == [2.0, 2.0, 1, 0.5]
    assert tile.loc["tile-deferred-coo[kernel=paper]", ["geomean", "won", "compared"]].tolist() == [2.0, 1.0, 2]


def test_the_fastest_of_several_rivals(table):
    (own, paper) = table[table["paper"] == "CSR5"].itertuples()
    assert (own.rival, own.geomean, own.median) == ("fastest of 3", pytest.approx(1.0), 1.25)
    assert paper.geomean == pytest.approx(0.5**0.5)


def test_the_fastest_is_of_all_rivals_that_the_run_has(rows):
    one = (rows["label"] == "hyb") & (rows["nnz"] == 1_000)
    options = figures.Options(None, {})
    for left, compared in ((rows[~one], 1), (rows.assign(status=rows["status"].mask(one, "skipped")), 2)):
        found = claims.FIGURE.data(left, options)
        assert set(found.loc[found["paper"] == "CSR5", "compared"]) == {compared}


def test_matrices_that_are_too_small_for_the_claim(table):
    whole, large = table[table["paper"] == "Merge path"].itertuples()
    assert (whole.compared, whole.geomean) == (2, pytest.approx(8**0.5))
    assert (large.compared, large.geomean, large.coverage) == (1, 4.0, 0.5)


def test_the_page_shows_them(table):
    (shown,) = claims.FIGURE.show(table, figures.Options(None, {}))
    assert shown.caption == "f64 hot"
    texts = [[cell.text for cell in row] for row in shown.rows]
    assert any(
        row[:2] == ["CSR5", "the best of 11 others, on 10 irregular matrices"] and row[4] == "1.285 arithmetic"
        for row in texts
    )


def test_a_run_without_any(rows):
    with pytest.raises(figures.LeftOut):
        claims.FIGURE.data(rows[rows["label"] == "hyb"], figures.Options(None, {}))
