"""Speed-up, ranking, break-even, roofline and what rows are made ready with, on tables small enough to do by hand."""

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.breakeven import break_even, footprints, largest_footprints, overheads, setups
from spmvbench.analysis.cases import hot, labels_of, latest_cases
from spmvbench.analysis.coverage import coverage
from spmvbench.analysis.details import gflops_per_watt, kernel_times, tile_shares
from spmvbench.analysis.determinism import across_processes, bits, by_spread, costs, joined
from spmvbench.analysis.profiles import performance_profile
from spmvbench.analysis.ranking import best_formats, by_mean_slowdown, default_baseline, ranked
from spmvbench.analysis.roofline import attainable, ceilings, efficiency, gather_bounds, intensity_bounds, points
from spmvbench.analysis.speedup import pair_speedups, pair_summary, speedup_summary, speedups
from spmvbench.analysis.updates import updates, updates_by_format, with_updates
from spmvbench.reports import figures, published
from tests.made import row, rows

K40M = {"architecture": "sm_35", "multiprocessors": 15, "max_sm_clock_mhz": 745}


@pytest.fixture
def three():
    """csr right on three matrices, ell on two (twice and half as fast), dia wrong where it claims to be best."""
    return rows(
        row("a", "csr", 2e-3),
        row("b", "csr", 2e-3),
        row("c", "csr", 2e-3),
        row("a", "ell", 1e-3),
        row("b", "ell", 4e-3),
        row("c", "ell", math.nan, status="skipped", gflops=math.nan),
        row("c", "dia", 1e-9, status="wrong"),
    )


def test_formats_that_repeat_their_bits_and_what_they_cost():
    """fast differs once, still and once add by atomics and have not differed, library is a call; slow costs most on c.

    In other orders once does not differ either, and cut does.
    """
    words = {"cuda": {"device": "cuda", "device_name": "NVIDIA H100 80GB"}, "emulated": {"device": "emulated"}}
    kinds = [("fast", "no", "yes", 1), ("still", "yes", "yes", 2), ("slow", "yes", "no", 3), ("library", "yes", "", 4),
             ("unseen", "", "no", 5), ("once", "yes", "yes", 6), ("cut", "yes", "yes", 7)]  # fmt: skip
    made = [
        row(name, label, time * (2 if (name, label) == ("c", "slow") else 1), float_atomics=adds, row_len_cv=cv,
            same_bits="yes" if name == "a" and same == "no" else same, **words["cuda"])
        for name, cv in (("a", 0.0), ("b", 0.3), ("c", 9.0))
        for label, same, adds, time in kinds
    ]  # fmt: skip
    orders = [row("a", label, 1, same_bits=same, float_atomics="yes", **words["emulated"])
              for label, same in (("once", "yes"), ("cut", "no"))]  # fmt: skip
    found = bits(rows(*made, *orders))
    known = {"fast": "no", "still": "", "slow": "yes", "library": "yes", "unseen": "", "once": "yes", "cut": "no"}
    assert found["repeats"].to_dict() == known
    assert found.loc["fast"].tolist() == [3, 2, "yes", 0, 0, "H100", "no"]
    assert found.loc["unseen"].tolist() == [0, 0, "no", 0, 0, "", ""]
    assert found.loc["cut"].tolist() == [3, 0, "yes", 1, 1, "H100", "no"]
    of_one = words["cuda"] | {"same_bits": "yes", "program": "p", "case_id": "c"}
    twice = pd.concat(
        [rows(row("a", "csr", 1, result_bits=bits, **of_one)) for bits in ("1f", "2f")], ignore_index=True
    )
    assert set(across_processes(twice)["same_bits"]) == {"no"}
    assert set(across_processes(twice[:1])["same_bits"]) == {"yes"}
    later = bits(rows(row("d", "library", 1, same_bits="no", **words["cuda"] | {"device_name": "NVIDIA H200"}),
                      row("d", "unseen", 1, same_bits="yes", float_atomics="no", **words["cuda"])))  # fmt: skip
    both = joined(found, later)
    assert both["repeats"].to_dict() == known | {"library": "no", "unseen": "yes"}
    assert both.loc["library"].tolist() == [4, 1, "", 0, 0, "H100 H200", "no"]
    table = by_spread(costs(rows(*made), {"slow", "library"}))
    assert table["spread"].tolist() == ["up to 0.1", "0.1 to 0.5", "above 2", "all"]
    assert table["largest"].tolist() == [3, 3, 4, 4] and table["matrix"].iloc[-1].endswith("c")
    assert table["mean"].iloc[-1] == pytest.approx(36 ** (1 / 3))


def test_updates_in_products_and_when_they_pay():
    """ell leads from (3 - 1) / (2 - 1) products on; dict is converted anew, in 0.5 s, and is slower."""
    made = [row("a", "cusparse-csr-alg1", 2.0, t_update=1.0), row("a", "ell", 1.0, t_update=3.0), row("a", "dict", 4.0)]
    found = updates(rows(*made, row("b", "ell", 1.0), row("a", "jad", 1.0, gpu="another")))
    table = updates_by_format(found).set_index("label")
    assert table["products"].to_dict() == {"cusparse-csr-alg1": 0.5, "ell": 1.5, "dict": 0.25}
    assert table["break_even"].to_dict() == {"cusparse-csr-alg1": 0, "ell": 2, "dict": math.inf}
    assert table["anew"].to_dict() == {"cusparse-csr-alg1": "", "ell": "", "dict": "converted anew"}
    ratios = with_updates(found).set_index(["label", "between"])["ratio"]
    assert ratios["ell", 1.0] == pytest.approx(4 / 3) and ratios["ell", 10000.0] == pytest.approx(0.5, rel=1e-3)
    assert updates(rows(row("b", "ell", 1.0))).empty


def test_a_clock_set_back_makes_no_row_older():
    late, early = ({"started_at": f"{year}-01-01T00:00:00.000000+00:00"} for year in (2030, 2020))
    given = [
        row("a", "ell", 1.0, run_id="r", sequence=1, **late),
        row("a", "ell", 2.0, run_id="r", sequence=2, **early),
        row("b", "ell", 3.0, run_id="new", sequence=1, **late),
        row("b", "ell", 4.0, run_id="old", sequence=9, **early),
    ]
    for order in itertools.permutations(given):
        assert rows(*order)["t_median"].tolist() == [2.0, 3.0]


def test_an_edited_file_is_another_matrix():
    edited = [row("a", "ell", 1.0, group="file", file_sha256=sha) for sha in ("0123456789", "9876543210")]
    same = [row("b", "ell", 1.0, group="file", file_sha256="ab", run_id=run) for run in "xy"]
    older = row("b", "csr", 1.0, group="file")
    assert sorted(rows(*edited, *same, older)["matrix"]) == ["file/a@01234567", "file/a@98765432", "file/b", "file/b"]


RANKINGS = (
    ranked, best_formats, points, lambda table: speedups(table, "csr"), lambda table: speedup_summary(table, "csr"),
    lambda table: performance_profile(table, by="label"),
)  # fmt: skip


def test_another_name_of_a_format_that_is_there_is_counted_once(three):
    three = three.assign(alias_of="")
    same = three[three["label"] == "ell"].assign(label="bell", alias_of="ell")
    both = pd.concat([three, same])
    for ranking in RANKINGS:
        pd.testing.assert_frame_equal(ranking(both), ranking(three))
    assert coverage(both).set_index("label").loc["bell", ["cases", "ok", "wins"]].tolist() == [3, 2, 0]
    alone = pd.concat([three[three["label"] != "ell"], same])
    assert coverage(alone).set_index("label").loc["bell", "wins"] == 1


def test_an_experiment_however_fast_enters_no_ranking(three):
    table = pd.concat([three, rows(row("a", "trial", 1e-9, experiment=True), row("b", "trial", 1e-9, experiment=True))])
    for ranking in RANKINGS:
        pd.testing.assert_frame_equal(ranking(table), ranking(three))
    assert speedups(table, "trial").empty
    assert default_baseline(rows(row("a", "trial", 1.0, experiment=True))) is None
    counts = coverage(table).set_index("label")
    assert counts.loc["trial", ["cases", "ok", "wins", "worst_matrix"]].tolist() == [2, 2, 0, ""]
    assert math.isnan(counts.loc["trial", "gflops"])
    assert counts.loc["ell", "wins"] == 1


def test_settings_stand_in_the_order_of_the_report_and_name_the_device_where_there_are_several():
    kinds = [("f32", "cold"), ("f64", "cold"), ("f32", "hot"), ("f64", "hot")]
    table = rows(*(row("a", "csr", 1.0, dtype=dtype, mode=mode) for dtype, mode in kinds))
    assert list(table["setting"].cat.categories) == ["f64 hot", "f64 cold", "f32 hot", "f32 cold"]
    table = rows(row("a", "csr", 1.0), row("a", "csr", 1.0, device="emulated", device_name="host"))
    assert list(table["setting"].cat.categories) == ["f64 hot GPU", "f64 hot emulated"]


def test_order_of_rows_does_not_matter(three):
    pd.testing.assert_frame_equal(latest_cases(three.sample(frac=1, random_state=3)), three)


def test_speedups_are_of_matrices_that_both_hold_and_have_their_coverage_beside_them(three):
    table = speedups(three, "csr")
    assert dict(zip(table["matrix"], table["speedup"], strict=True)) == {"G/a": 2.0, "G/b": 0.5}
    (summary,) = speedup_summary(three, "csr").to_dict("records")
    expected = {"geomean": 1.0, "median": 1.25, "min": 0.5, "max": 2.0, "wins": 1, "matrices": 2, "coverage": 2 / 3}
    assert summary["label"] == "ell" and {name: summary[name] for name in expected} == pytest.approx(expected)
    assert speedups(three, "dia").empty and speedup_summary(three, "dia").empty, "no right row"


def test_best_format_is_never_a_wrong_one(three):
    best = best_formats(three).set_index("matrix")
    assert best["label"].to_dict() == {"G/a": "ell", "G/b": "csr", "G/c": "csr"}
    assert best.loc["G/a", "margin"] == 2
    assert math.isnan(best.loc["G/c", "margin"])


def test_of_those_that_share_a_win_the_one_that_stands_first_is_shown():
    tied = [row("a", "ell", 1.0), row("a", "csr", 1.004), row("a", "dia", 1.1)]
    (best,) = best_formats(rows(*tied)).to_dict("records")
    assert (best["label"], best["tied"], best["margin"]) == ("ell", "csr", pytest.approx(1.004))
    both = best_formats(rows(*tied, row("b", "csr", 1.0), row("b", "ell", 2.0))).set_index("matrix")
    assert both["label"].to_dict() == {"G/a": "csr", "G/b": "csr"}
    assert both["tied"].to_dict() == {"G/a": "ell", "G/b": ""}


def test_what_is_highlighted_stands_first_over_all_settings():
    hot = [row("a", "ell", 1.0), row("a", "csr", 2.0), row("a", "dia", math.nan, status="skipped")]
    cold = [row("a", "ell", 9.0, mode="cold"), row("a", "csr", 1.0, mode="cold")]
    assert by_mean_slowdown(rows(*hot)) == ["ell", "csr"]
    assert by_mean_slowdown(rows(*hot, *cold)) == ["csr", "ell"]
    assert by_mean_slowdown(rows(hot[-1])) == []


def test_default_baseline_is_plain_csr_else_the_widest(three):
    assert default_baseline(rows(row("a", "hyb", 1.0), row("a", "csr-vector", 2.0))) == "csr-vector"
    assert default_baseline(three) == "csr"
    assert default_baseline(three[three["status"] == "wrong"]) is None


@pytest.mark.parametrize(
    ("setup", "t", "expected", "why"),
    [
        (3.0, 0.5, 4.0, "two seconds more, half a second gained each time"),
        (1.0, 0.5, 0.0, "sets up as fast and runs faster"),
        (0.5, 0.5, 0.0, "sets up faster and runs faster"),
        (1.0, 1.0, 0.0, "the baseline itself"),
        (0.5, 1.0, 0.0, "ahead by the setup for good"),
        (2.0, 1.0, math.inf, "behind by the setup for good"),
        (2.0, 1.5, math.inf, "slower in both"),
        (0.5, 1.5, math.inf, "ahead at first, behind for good"),
        (math.nan, 0.5, math.nan, "setup not measured"),
        (1.0, math.nan, math.nan, "time not measured"),
    ],
)
def test_break_even_against_setup_and_time_of_one(setup, t, expected, why):
    assert float(break_even(setup, t, 1.0, 1.0)) == pytest.approx(expected, nan_ok=True), why


def within(low, high, printed):
    """Whether a printed figure, rounded up to an integer, lies in a range; inf is never."""
    return low - 1 <= printed <= high + 1 if np.isfinite(printed) else np.isinf(high)


def test_every_break_even_of_the_survey_follows_from_its_own_times():
    """Table 10's seconds and Table 8's rates are rounded: what they allow is a range for each figure of Table 10."""
    rows = published.get("survey-k40m").rows.dropna(subset=["gflops", "break_even"])
    csr = rows[rows["format"] == "CSR"].set_index("matrix")
    checked, off = 0, []

    def time(m, shift):
        return 2e-9 * m.nnz / (m.gflops + shift)

    for m in rows[rows["format"] != "CSR"].itertuples():
        base = csr.loc[m.matrix]
        found = [
            float(break_even(m.seconds + a, time(m, b), base.seconds + c, time(base, d)))
            for a, b, c, d in itertools.product((-5e-4, 5e-4), (-0.05, 0.05), (-5e-4, 5e-4), (-0.05, 0.05))
        ]
        checked += 1
        if not within(min(found), max(found), m.break_even):
            off.append((m.matrix, m.format, m.break_even))
    assert checked == 49
    # Table 8 has ELL slower than CSR there (9.3 and 9.6), so that it never pays; Table 10 prints 900.
    assert off == [("SNAP/amazon0302", "ELL", 900.0)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"t_setup": 0.1, "t_tune": 0.25}, {"device": 0.85, "host": 1.35}),
        # Nothing is copied on the emulated device.
        ({"device": "emulated", "t_convert_device": math.nan, "t_transfer": math.nan}, {"host": 1.0}),
        ({"t_convert_device": math.nan, "t_transfer": math.nan}, {}),
    ],
)
def test_setup_by_host_and_by_device(columns, expected):
    table = setups(rows(row("a", "csr", 1.0, **columns)))
    assert table.set_index("path")["setup"].to_dict() == pytest.approx(expected)


def test_overheads_count_in_spmvs_and_to_the_baseline():
    table = rows(
        row("a", "csr", 0.5, t_spmv_host=5.0), row("a", "ell", 0.25, t_convert_device=1.5), row("b", "ell", 0.25)
    )
    table = overheads(table, "csr").query("path == 'device'").set_index(["matrix", "label"])
    keys = [("G/a", "csr"), ("G/a", "ell"), ("G/b", "ell")]
    found = table.loc[keys, ["spmvs", "break_even", "host_spmvs"]].to_numpy().ravel().tolist()
    assert found == pytest.approx([1, 0, 0.1, 6, 4, math.nan, 2, math.nan, math.nan], nan_ok=True)


def test_footprint_counts_once_for_hot_and_cold():
    table = rows(*(row("a", "csr", 1.0, mode=mode, bytes_per_nnz=12.0) for mode in ("hot", "cold")))
    assert footprints(table)["bytes_per_nnz"].tolist() == [12.0]


def test_ceilings_and_intensities_are_the_surveys():
    assert intensity_bounds("f64") == {"values only": 1 / 4, "values and indices": 1 / 6}
    assert intensity_bounds("f32") == {"values only": 1 / 2, "values and indices": 1 / 4}
    # Section 5.3, of the K40M: 95, 45 and about 3 GFLOPS; 190 GB/s at an intensity of 1/6 give 32 GFLOPS.
    found = ceilings(K40M, "f64").set_index("ceiling")["gflops"].round().to_dict()
    assert list(found.values()) == [1430, 95, 45, 3] and list(found)[1:3] == ["single multiprocessor", "idle threads"]
    assert attainable(1 / 6, 190) == pytest.approx(31.7, abs=0.1)
    assert attainable(100, 190, found["peak"]) == 1430


@pytest.mark.parametrize("missing", [*K40M, "unknown architecture"])
def test_ceilings_of_an_unknown_device_are_none(missing):
    properties = {name: value for name, value in K40M.items() if name != missing}
    if missing == "unknown architecture":
        properties["architecture"] = "gfx942"
    assert ceilings(properties, "f64").empty


def test_points_lie_at_flops_over_model_bytes():
    table = points(rows(row("a", "csr", 1.0, model_bytes=12_000_000), row("b", "csr", 1.0, status="wrong")))
    assert table["intensity"].tolist() == [pytest.approx(1 / 6)]


def test_label_of_a_format_is_that_of_its_defaults_where_it_is_right():
    table = rows(
        row("a", "tile[kernel=paper]", 1.0, format="tile"),
        row("a", "tile", 2.0),
        row("a", "csr5[sigma=8]", 1.0, format="csr5"),
        row("a", "csr5[sigma=16]", 1.0, format="csr5"),
        row("a", "merge-csr", 1.0, status="wrong"),
    )
    assert labels_of(table, ["merge-csr", "csr5", "tile"]) == ["csr5[sigma=16]", "tile"]


def test_hot_rows_are_all_where_none_is_hot():
    both = rows(row("a", "csr", 1.0), row("a", "csr", 2.0, mode="cold"))
    assert hot(both)["t_median"].tolist() == [1.0]
    assert hot(both[both["mode"] == "cold"])["t_median"].tolist() == [2.0]


def test_pairs_count_wins_and_name_the_best_matrix(three):
    table = pair_speedups(three, [("ell", "csr"), ("csr", "ell"), ("ell", "dia")])
    assert len(table) == 4
    summary = pair_summary(table).set_index(["label", "over"])
    assert summary.loc[("ell", "csr"), ["matrices", "wins", "max", "best"]].tolist() == [2, 1, 2.0, "G/a"]
    assert summary.loc[("csr", "ell"), ["matrices", "wins", "max", "best"]].tolist() == [2, 1, 2.0, "G/b"]
    assert ("ell", "dia") not in summary.index


def test_largest_footprints_are_over_the_baseline_with_the_most_nonzeros_last():
    given = [
        row(name, label, 1.0, nnz=nnz, bytes_format=size, device_name=device)
        for device in ("GPU", "GPU 2")
        for name, nnz, label, size in [
            ("a", 10, "csr", 100), ("b", 30, "csr", 300), ("c", 20, "csr", 200), ("d", 99, "tile", 1),
            ("b", 30, "tile", 150), ("c", 20, "tile", 500),
        ]
    ]  # fmt: skip
    found = largest_footprints(rows(*given), "csr", most=2)
    assert list(dict.fromkeys(found["matrix"])) == ["G/c", "G/b"]
    assert found.groupby("label")["ratio"].apply(list).to_dict() == {"csr": [1.0, 1.0], "tile": [2.5, 0.5]}


def test_tile_shares_are_of_right_rows_once_a_matrix_in_the_order_of_nonzeros():
    def detail(csr):
        shares = {"csr": csr, "coo": 1 - csr}
        return json.dumps({"tile_share": shares, "nnz_share": {"csr": 1.0, "coo": 0.0}})

    table = tile_shares(
        rows(
            row("a", "tile", 1.0, nnz=20, detail=detail(0.25)),
            row("a", "tile", 1.0, nnz=20, detail=detail(0.25), dtype="f32"),
            row("b", "tile", 1.0, nnz=10, detail=detail(0.5)),
            row("c", "tile", 1.0, nnz=5, detail=detail(0.5), status="wrong"),
            row("d", "csr", 1.0, nnz=5),
        )
    )
    assert table["matrix"].tolist() == ["G/b", "G/b", "G/a", "G/a"]
    assert table["tiles"].tolist() == [0.5, 0.5, 0.25, 0.75]
    assert table["nonzeros"].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_shares_of_kernels_are_of_their_sum_and_experiments_count():
    table = rows(
        row("a", "hyb", 1.0, t_kernels=json.dumps({"ell": 0.6, "coo": 0.2})),
        row("a", "trial", 1.0, t_kernels=json.dumps({"add": 0.5}), experiment=True),
        row("b", "hyb", 1.0, t_kernels=json.dumps({"ell": 0.5}), status="wrong"),
        row("a", "csr", 1.0),
    )
    found = kernel_times(table)
    assert found[["label", "kernel", "seconds"]].to_numpy().tolist() == [
        ["hyb", "ell", 0.6], ["hyb", "coo", 0.2], ["trial", "add", 0.5],
    ]  # fmt: skip
    assert found["share"].tolist() == pytest.approx([0.75, 0.25, 1.0])
    assert kernel_times(table[table["label"] == "csr"]).empty


def test_a_row_that_knows_its_bound_has_a_share_of_it():
    table = rows(
        row("a", "x", 1.0, gflops=50.0, bound_gflops=100.0, bound_by="gathers"),
        row("a", "y", 1.0, gflops=100.0, bound_gflops=100.0, bound_by="gathers"),
        row("b", "x", 1.0, gflops=30.0),
        row("c", "x", 1.0, gflops=30.0, bound_gflops=90.0, bound_by="bytes"),
    )
    found = efficiency(table)
    assert found[["matrix", "label", "efficiency"]].values.tolist() == [
        ["G/a", "x", 0.5],
        ["G/a", "y", 1.0],
        ["G/c", "x", 1 / 3],
    ]
    assert gather_bounds(table)[["matrix", "gflops"]].values.tolist() == [["G/a", 100.0]]


def test_flops_over_joules_of_rows_that_have_both():
    measured = {"work": 2_000_000, "energy": 0.004, "energy_low": 0.003, "energy_high": 0.005}
    unmeasured = measured | {"energy": math.nan}
    table = rows(row("a", "ell", 1.0, **measured), row("b", "ell", 1.0, **unmeasured))
    table = gflops_per_watt(pd.concat([table, rows(row("c", "ell", 1.0, status="wrong", **measured))]))
    assert list(table["matrix"]) == ["G/a"]
    assert table["gflops_per_watt"].item() == pytest.approx(0.5)  # 2e6 flops by 4 mJ


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["orders", "orders-mean", "orders-breakeven"], "run --order none,rcm"),
        (["values"], "--values f32 --vectors f64"),
        (["solvers"], "no verified row of a solver"),
        (["stand-ins"], "together with its matrix"),
    ],
)
def test_a_figure_without_its_rows_is_left_out_with_a_reason(three, names, reason):
    for figure in figures.choose(names):
        with pytest.raises(figures.LeftOut, match=reason):
            figures.table_of(figure, three, figures.Options("csr", {}))
