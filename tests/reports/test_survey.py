"""The survey's tables and figures: what they hold, and what they say of what the run lacks."""

import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.profiles import performance_profile, share_within
from spmvbench.reports import figures, page, published, style
from spmvbench.reports.figures import survey
from tests.reports import conftest
from tests.reports.conftest import ENVIRONMENT, figure_of

K40M = published.get("survey-k40m")


@pytest.fixture(scope="module")
def options(matrices):
    return figures.Options(
        "csr-rg", style.marks(["csr-rg", "hyb"], "csr-rg"), matrices, [K40M], environment=ENVIRONMENT
    )


@pytest.fixture
def alone(matrices):
    """Options without published figures."""
    return figures.Options("csr-rg", style.marks(["csr-rg", "hyb"], "csr-rg"), matrices, environment=ENVIRONMENT)


def figure(name):
    return figure_of(f"survey-{name}")


def words(name, table, options):
    return conftest.words(f"survey-{name}", table, options)


def grid(table):
    """A table of the page as texts by row and heading."""
    heads = [column.heading for column in table.columns]
    return {row[0].text: dict(zip(heads, row, strict=True)) for row in table.rows}


def grid_rows(table):
    """Every row of a table of the page by heading."""
    heads = [column.heading for column in table.columns]
    return [dict(zip(heads, row, strict=True)) for row in table.rows]


def test_tables_5_to_8_name_the_fastest_and_give_a_dash_its_reason(surveyed, options):
    table = figure("gflops").data(surveyed, options)
    f64 = figure("gflops").show(table, options)[0]
    said = "the survey's CSR is csr-rg, JSR is csr-jsr, ELL is ell-psblas"
    assert f64.caption == f"GFLOPS, f64 hot ({said}; csr-rg, csr-jsr after the survey's sentence alone)"
    assert [column.heading for column in f64.columns][:4] == ["Matrix", "Fastest", "csr-rg", "csr-jsr"]
    assert [row[0].text for row in f64.rows][:2] == ["Williams/cant", "Simon/olafu"]  # the survey's order
    cells = grid(f64)
    cant = cells["Williams/cant"]
    assert (cant["Fastest"].text, cant["hdi"].text, cant["hdi"].best, cant["hll"].best) == ("hdi", "496", True, False)
    assert cant["sell-p"].text == "-" and cant["sell-p"].about == "wrong: entry 3 of y is off"
    dc1 = cells["IBM_EDA/dc1"]
    assert dc1["ell-psblas"].text == "-"
    notes = dict(f64.notes)
    assert notes[dc1["ell-psblas"].note].startswith("skipped: ") and notes[cant["sell-p"].note].startswith("wrong: ")
    assert dc1["ell-psblas"].about == notes[dc1["ell-psblas"].note]  # each its own, numbers included
    assert dc1["ell-psblas"].about == "skipped: 0.1 GB, over the limit of 112 GB"
    assert not (table["gflops"] == 9999).any()


def test_tables_have_room_for_some_and_name_the_best_of_all(surveyed, options, monkeypatch):
    monkeypatch.setattr(survey, "MOST_FORMATS", 2)
    monkeypatch.setattr(survey, "MOST_MATRICES", 3)
    f64 = figure("gflops").show(figure("gflops").data(surveyed, options), options)[0]
    assert "2 of 7 formats, the file has all; 3 of 32 matrices, the file has all" in f64.caption
    assert len(f64.rows) == 3 and len(f64.columns) == 4
    assert grid(f64)["Williams/cant"]["Fastest"].text == "hdi"
    assert not any(cell.best for cell in f64.rows[0])


def test_a_format_that_was_not_tried_has_an_empty_place(surveyed, options):
    some = surveyed[(surveyed["label"] != "hll") | (surveyed["matrix"] != "Simon/olafu")]
    f64 = figure("gflops").show(figure("gflops").data(some, options), options)[0]
    assert grid(f64)["Simon/olafu"]["hll"].text == ""


def test_table_9_has_a_row_a_matrix_and_type(surveyed, options):
    table = figure("bytes").data(pd.concat([surveyed, surveyed.assign(mode="cold")]), options)
    assert not table.duplicated(["dtype", "matrix", "label"]).any()
    f64, f32 = figure("bytes").show(table, options)
    assert (f64.caption[:22], f32.caption[:22]) == ("Bytes per nonzero, f64", "Bytes per nonzero, f32")
    assert grid(f64)["Williams/cant"]["csr-rg"].text == "12.1" and grid(f64)["Williams/cant"]["csr-rg"].best
    assert grid(f64)["Williams/cant"]["hyb"].about == "not measured"  # opaque there


def test_table_10_says_never_and_shows_times_with_units(surveyed, options):
    table = figure("conversion").data(surveyed, options)
    seconds, spmvs, paid = figure("conversion").show(table, options)[:3]
    assert [part.caption.partition(" (")[0] for part in (seconds, spmvs, paid)] == [
        "Conversion time, f64 hot", "Conversion, SpMVs, f64 hot", "Break-even, SpMVs, f64 hot",
    ]  # fmt: skip
    thermal2 = [grid(part)["Schmid/thermal2"] for part in (seconds, spmvs, paid)]
    assert (thermal2[0]["hll"].text, thermal2[1]["csr-rg"].text) == ("343 us", "0.730")
    assert (thermal2[2]["csr-rg"].text, thermal2[2]["ell-psblas"].text) == ("0", "never")
    assert thermal2[2]["ell-psblas"].key == "Infinity"
    row = table[(table["matrix"] == "Schmid/thermal2") & (table["setting"] == "f64 hot")].set_index("label")
    assert math.isinf(row.loc["ell-psblas", "break_even"]) and row.loc["hll", "path"] == "device"


def test_times_of_the_emulated_device_are_called_that(surveyed, matrices, environment, tmp_path):
    rows = surveyed.assign(device="emulated", device_name="host").drop(columns=["matrix", "setting"])
    names = ["survey-gflops", "survey-bytes", "survey-lessons"]
    report = page.write(rows, environment, tmp_path, names=names, images=[], matrices=matrices, with_emulated=True)
    said = {drawn.name: [part.caption.startswith("EMULATED: ") for part in drawn.tables] for drawn in report.drawn}
    assert all(said["survey-gflops"]) and all(said["survey-lessons"]) and not any(said["survey-bytes"])


def test_row_lengths_are_those_that_the_run_kept(surveyed, options):
    table = figure("row-lengths").data(surveyed, options)
    kept = options.matrices.set_index("matrix_sha256")
    sha = surveyed.drop_duplicates("matrix").set_index("matrix")["matrix_sha256"]
    assert {"Williams/webbase-1M", "SNAP/wiki-Talk"} <= set(table["matrix"])
    assert table["matrix"].nunique() == 12
    for matrix, part in table.groupby("matrix"):
        assert part["length"].tolist() == kept.loc[sha[matrix], "row_lengths"].tolist()
        assert part["rows"].tolist() == kept.loc[sha[matrix], "row_counts"].tolist()
    assert table.drop_duplicates("matrix")["row_len_cv"].is_monotonic_increasing
    assert "webbase-1M, CV 3.8e+02" in words("row-lengths", table, options)


def test_patterns_are_whole_and_enlarged(surveyed, options):
    table = figure("patterns").data(surveyed, options)
    wanted = {"Botonakis/FEM_3D_thermal2", "SNAP/roadNet-CA", "Williams/webbase-1M"}
    assert wanted <= set(table["matrix"]) and table["matrix"].nunique() == 6
    for row in table.itertuples():
        assert len(row.density.split()) == row.down * row.across
        assert 0 < max(map(float, row.density.split())) <= 1
    assert set(table["part"]) == {"whole", "enlarged"}
    with style.theme():
        few = table[table["matrix"].isin({"SNAP/roadNet-CA", "Williams/webbase-1M"})]
        few = figure("patterns").draw(few.assign(first_row=0, first_col=0, rows=99, cols=99), options)  # short labels
        svg = style.rendered(few, "svg").decode()
    tops = [float(y) - 9 for y in re.findall(r'font-size:9px"[^>]* y="([-\d.]+)">enlarged', svg)]
    assert len(tops) == 2 and min(tops) >= 0, "the titles of a single row are inside of the figure"


@pytest.mark.parametrize("name", ["row-lengths", "patterns"])
def test_a_run_older_than_descriptions_says_so_in_one_line(surveyed, options, name):
    for none in (None, options.matrices.iloc[:0]):
        with pytest.raises(figures.LeftOut, match=r"has no descriptions of its matrices \(matrices.parquet\)"):
            figure(name).data(surveyed, figures.Options("csr-rg", {}, none))
    sha = surveyed.loc[surveyed["matrix"] == "Norris/lung2", "matrix_sha256"].iloc[0]
    some = replace(options, marks={}, matrices=options.matrices[options.matrices["matrix_sha256"] != sha])
    table = figure(name).data(surveyed, some)
    assert "Measured before runs kept this: Norris/lung2." in words(name, table, some)


def test_profiles_of_the_run_and_of_table_8_stand_beside_each_other(surveyed, options):
    table = figure("profile").data(surveyed, options)
    assert list(table["setting"].unique()) == ["f64 hot", "f32 hot", "Tesla K40M, published"]
    theirs = table[table["setting"] == "Tesla K40M, published"]
    expected = share_within(performance_profile(K40M.rows), 1.5)
    assert share_within(theirs.assign(format=theirs["name"]), 1.5).to_dict() == expected.to_dict()
    assert set(theirs["label"]) == {"csr-rg", "csr-jsr", "hdi", "ell-psblas", "hll", "hyb", "sell-p"}
    said = words("profile", table, options)
    assert "ELL (ell-psblas)" in said and "No verified row" not in said


@pytest.mark.slow
def test_formats_of_the_survey_that_the_run_lacks_are_named(surveyed, options, alone):
    few = surveyed[surveyed["label"].isin(["csr-rg", "hyb"])]
    for name, chosen in (("profile", options), ("profile", alone), ("roofline", options), ("published", options)):
        said = words(name, figure(name).data(few, chosen), chosen)
        assert "No verified row in this run: JSR, HDI, ELL, HLL, SELL-P" in said


def test_the_nearest_of_several_formats_stands_for_the_survey_s(surveyed):
    both = pd.concat(
        [surveyed, surveyed[surveyed["label"] == "csr-rg"].assign(format="csr-vector", label="csr-vector")]
    )
    assert survey.roles(both)["CSR"] == "csr-rg"
    assert survey.roles(both[both["label"] != "csr-rg"])["CSR"] == "csr-vector"
    with pytest.raises(figures.LeftOut, match="no verified row of csr-rg, csr-vector"):
        survey.roles(both[both["status"] == "skipped"])


def test_roofline_names_the_survey_s_points_and_draws_four_ceilings(surveyed, options):
    table = figure("roofline").data(surveyed, options)
    named = (
        table[table["marked"]]
        .groupby("setting")[["matrix", "name"]]
        .apply(lambda part: set(part.itertuples(index=False, name=None)))
    )
    pairs = {("Janna/ML_Laplace", "ELL"), ("Schmid/thermal2", "ELL"), ("SNAP/web-Google", "HLL")}
    assert named["Tesla K40M, published"] == named["f64 hot"] == pairs
    point = table[(table["from"] == "survey-k40m") & (table["matrix"] == "Janna/ML_Laplace") & (table["name"] == "ELL")]
    assert point["intensity"].tolist() == [pytest.approx(2 / 12.2)]
    said = words("roofline", table, options)
    for text in (
        "peak: 1,430",
        "single multiprocessor: 95",
        "idle threads: 45",
        "idle threads, single multiprocessor: 3",
    ):
        assert text in said
    assert "roof: 190 GB/s as published" in said and "ML_Laplace, ELL: 29.5" in said
    with pytest.raises(figures.LeftOut, match="no measured bandwidth"):
        figure("roofline").draw(table, replace(options, environment={}))


def test_roofline_of_other_matrices_names_the_best_the_middle_and_the_worst(surveyed, alone):
    others = surveyed[~surveyed["matrix"].isin(["Janna/ML_Laplace", "Schmid/thermal2", "SNAP/web-Google"])]
    table = figure("roofline").data(others[others["setting"] == "f64 hot"], alone)
    share = table["gflops"] / table["intensity"]
    assert table["marked"].sum() == 3
    assert table.loc[share.idxmax(), "marked"] and table.loc[share.idxmin(), "marked"]


def test_the_run_is_set_beside_the_published_figures(surveyed, options):
    table = figure("published").data(surveyed, options)
    assert len(table) == 34 * 7 and set(table["setting"]) == {"f64 hot"}
    held = table.dropna(subset="gflops_ratio")
    assert held["gflops_ratio"].to_numpy() == pytest.approx(20)
    assert table["bytes_per_nnz_ratio"].dropna().to_numpy() == pytest.approx(1)
    row = table.set_index(["matrix", "format"])
    ml = row.loc[("Janna/ML_Laplace", "HLL")]
    assert (ml["label"], ml["gflops"], ml["gflops_published"]) == ("hll", 572.0, 28.6)
    assert ml["spmvs_ratio"] == pytest.approx(ml["spmvs"] / 68)
    wrong = row.loc[("Williams/cant", "SELL-P")]
    assert wrong["status"] == "wrong" and math.isnan(wrong["gflops_ratio"])
    said = words("published", table, options)
    assert "The run holds 32 of the 34 matrices that were published." in said and "HYB" in said
    (shown,) = figure("published").show(table, options)
    assert shown.caption.endswith(", 32 of 34 matrices")
    assert len(shown.rows) == 32 * 7
    after = {row["Here"].text: row["After"].text for row in grid_rows(shown)}
    assert (after["csr-rg"], after["hll"]) == ("survey's sentence alone", "authors' code")


def test_bytes_are_compared_with_what_the_survey_s_library_stores(surveyed, options):
    hdi = surveyed["label"] == "hdi"
    stored = surveyed[hdi].assign(label="hdi[footprint=psblas]")
    exact = surveyed["bytes_per_nnz"].where(~hdi, surveyed["bytes_per_nnz"] * 2 / 3)
    table = figure("published").data(pd.concat([surveyed.assign(bytes_per_nnz=exact), stored]), options)
    assert len(table) == 34 * 7
    assert table["bytes_per_nnz_ratio"].dropna().to_numpy() == pytest.approx(1)


def test_published_figures_without_conversion_have_no_columns_for_it(surveyed, matrices):
    given = figures.Options("csr-rg", {}, matrices, [published.get("survey-m2070"), K40M], environment=ENVIRONMENT)
    table = figure("published").data(surveyed, given)
    fermi, kepler = figure("published").show(table, given)
    assert "Conversion, SpMVs" not in [column.heading for column in fermi.columns]
    assert "Conversion, SpMVs" in [column.heading for column in kepler.columns]
    assert all(row[1].text != "JSR" for row in fermi.rows)  # which the M2070 did not run
    assert "over Tesla M2070, published" in words("published", table, given)


def test_what_cannot_be_set_beside_published_figures_says_why(surveyed, rows, options, alone):
    with pytest.raises(figures.LeftOut, match="no published results were selected: --published survey-k40m"):
        figure("published").data(surveyed, alone)
    with pytest.raises(figures.LeftOut, match="no row of a matrix of survey-k40m in f64"):
        figure("published").data(latest_cases(rows), options)


def test_lessons_are_told_of_the_run_and_of_the_paper(surveyed, options):
    table = figure("lessons").data(surveyed, options)
    assert list(table["setting"].unique()) == ["f64 hot", "f32 hot", "Tesla K40M, published"]
    verdicts = table.pivot(index="lesson", columns="setting", values="verdict")
    # The bytes are the survey's, 12 for a slot of HDI, where 8 are expected of a run in f64.
    assert verdicts.loc["diagonals"].tolist() == ["holds", "cannot be told", "cannot be told"]
    assert set(verdicts.drop(index="diagonals").stack()) == {"holds"}
    (shown,) = figure("lessons").show(table, options)
    assert [column.heading for column in shown.columns][2:] == ["f64 hot", "f32 hot", "Tesla K40M, published"]
    assert grid(shown)["any matrix"]["f64 hot"].text.startswith("holds: CSR holds 32 of the 32 matrices")


def test_lessons_of_a_run_with_few_formats_cannot_all_be_told(surveyed, alone):
    table = figure("lessons").data(surveyed[surveyed["label"].isin(["csr-rg", "hyb"])], alone)
    found = table[table["setting"] == "f64 hot"].set_index("lesson")
    assert found.loc["diagonals", ["verdict", "numbers"]].tolist() == ["cannot be told", "HDI not measured"]
    assert found.loc["any matrix", "verdict"] == "holds"
    assert found.loc["generalists", "numbers"] == "HLL not measured"
