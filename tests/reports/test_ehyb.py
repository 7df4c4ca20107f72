"""The figures of EHYB: what they compare, and what they say of what the run lacks."""

import pandas as pd
import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.speedup import pair_summary
from spmvbench.reports import figures
from tests.reports.conftest import Family

FAMILY = Family("ehyb", "csr5", "ehyb")


def test_matrices_rise_by_nonzeros_and_are_those_that_ehyb_holds(partitioned):
    table = FAMILY.data("lines", partitioned)
    ours = partitioned[partitioned["format"].str.startswith("ehyb") & (partitioned["status"] == "ok")]
    assert set(table["matrix"]) == set(ours.loc[ours["mode"] == "hot", "matrix"])
    assert set(table["label"]) == {"ehyb", "ehyb-rcm", "csr5", "cusparse-csr-alg1"}
    for _, part in table.groupby("setting", observed=True):
        assert part["nnz"].is_monotonic_increasing


@pytest.mark.parametrize("name", ["lines", "bars"])
def test_figures_say_what_is_missing(name, partitioned):
    above = FAMILY.words(name, partitioned).replace("\n", " ")
    assert "Of the paper's 92 matrices the run holds 2." in above
    assert "No verified row in this run: bccoo, hola, merge-csr, cusparse-csr-alg2." in above


def test_lines_show_both_kernels_of_ehyb_and_of_rivals(partitioned):
    labels = {
        "ehyb": ("ehyb[kernel=paper]", "ehyb[kernel=paper,order=native]", "ehyb[order=native]"),
        "csr5": ("csr5[kernel=paper]",),
    }
    more = [partitioned[partitioned["label"] == key].assign(label=label) for key in labels for label in labels[key]]
    both = pd.concat([partitioned, *more], ignore_index=True)
    shown = {"ehyb[order=native]", "ehyb[kernel=paper,order=native]", "ehyb-rcm"}
    rivals = {"csr5", "csr5[kernel=paper]", "cusparse-csr-alg1"}
    assert set(FAMILY.data("lines", both)["label"]) == shown | rivals
    assert set(FAMILY.data("speedups", both)["over"]) == rivals


def test_speedups_in_a_solver_have_a_column(ehyb_rows):
    figure = FAMILY.figure("speedups")
    plain = FAMILY.data("speedups", latest_cases(ehyb_rows))
    assert "cg" not in plain
    few = sorted(ehyb_rows["name"].unique())[:3]
    solved = ehyb_rows[ehyb_rows["name"].isin(few)].assign(op="cg@100")
    solved = solved.assign(t_median=100 * solved["t_median"] + 1e-3 * solved["format"].str.startswith("csr5"))
    both = pd.concat([ehyb_rows, solved.assign(case_id="s" + solved["case_id"])], ignore_index=True)
    table = FAMILY.data("speedups", latest_cases(both))
    pd.testing.assert_frame_equal(table.drop(columns=["cg", "cg_matrices"]), plain)
    pair = (table["label"] == "ehyb") & (table["over"] == "csr5") & (table["setting"] == "f64 hot")
    times = latest_cases(solved).query("dtype == 'f64' and mode == 'hot' and status == 'ok'")
    times = times.pivot(index="matrix", columns="label", values="t_median")[["ehyb", "csr5"]].dropna()
    assert table.loc[pair, "cg"].item() == pytest.approx((times["csr5"] / times["ehyb"]).mean())
    assert table.loc[pair, "cg_matrices"].item() == len(times) > 0
    heads = [column.heading for shown in figure.show(table, FAMILY.options) for column in shown.columns]
    assert "CG" in heads
    assert "CG" not in [column.heading for shown in figure.show(plain, FAMILY.options) for column in shown.columns]


def test_a_run_without_ehyb_says_so(partitioned):
    with pytest.raises(figures.LeftOut, match=r"^no verified row of ehyb, ehyb-rcm"):
        FAMILY.data("lines", partitioned[~partitioned["format"].str.startswith("ehyb")])


def test_bars_prefer_the_matrices_of_the_paper(partitioned):
    table = FAMILY.data("bars", partitioned)
    assert {"DNVS/ship_003", "Janna/Hook_1498"} <= set(table["matrix"])
    assert table.groupby("setting", observed=True)["matrix"].nunique().max() == 16


def test_steps_of_preprocessing_are_in_spmvs(partitioned):
    table = FAMILY.data("preprocessing", partitioned)
    assert table["partitioning"].to_numpy() == pytest.approx(400)
    assert table["reordering"].to_numpy() == pytest.approx(50)


def test_statistics_of_pairs():
    table = pd.DataFrame(
        {"setting": "f64 hot", "label": "ehyb", "over": "csr5", "matrix": list("abcd"), "speedup": [2.0, 0.5, 1.0, 1.5]}
    )
    (row,) = pair_summary(table).itertuples(index=False)
    assert (row.matrices, row.won, row.max, row.min, row.mean) == (4, 0.5, 2.0, 0.5, 1.25)
