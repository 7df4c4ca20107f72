"""Published figures: found by name, complete, and of matrices and devices that the rest of the project knows."""

import math

import pytest

from spmvbench.analysis.roofline import ceilings
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.matrices import sets
from spmvbench.reports import published

SURVEY = ["survey-gtx660", "survey-k20m", "survey-k40m", "survey-m2070"]


def test_all_are_found_and_an_unknown_one_names_the_nearest():
    assert published.names() == SURVEY
    with pytest.raises(UsageError, match=r"'survey-k40'; did you mean survey-k40m"):
        published.get("survey-k40")


@pytest.mark.parametrize("name", SURVEY)
def test_matrices_are_those_of_the_set_in_its_order(name):
    members = [m if "/" in m else f"synthetic/{m}" for m in sets.members("survey34")]
    given = published.get(name)
    assert list(given.paper.matrices["matrix"]) == members
    assert set(given.rows["matrix"]) == set(members)
    assert set(given.rows["format"]) <= set(given.paper.formats)
    assert not given.rows.duplicated(["matrix", "format"]).any()
    assert len(given.rows) == len(members) * given.rows["format"].nunique()


@pytest.mark.parametrize(("name", "peak"), [("survey-m2070", 515.2), ("survey-gtx660", 82.6), ("survey-k40m", 1430)])
def test_peaks_of_table_4_follow_from_the_devices_facts(name, peak):
    assert ceilings(published.get(name).device, "f64")["gflops"].max() == pytest.approx(peak, rel=1e-3)


def test_values_are_those_of_the_tables():
    rows = published.get("survey-k40m").rows.set_index(["matrix", "format"])
    ml = rows.loc[("Janna/ML_Laplace", "ELL")]
    assert (ml["gflops"], ml["bytes_per_nnz"], ml["seconds"], ml["spmvs"], ml["break_even"]) == (
        29.5,
        12.2,
        0.131,
        70,
        79,
    )
    assert (ml["nnz"], ml["row_len_mean"], ml["row_len_max"]) == (27689972, 73.4, 74)
    assert math.isinf(rows.loc[("Schmid/thermal2", "ELL"), "break_even"])
    assert math.isnan(rows.loc[("Janna/Cube_Coup_dt0", "HDI"), "gflops"])
    assert published.get("survey-m2070").rows["spmvs"].isna().all()  # Table 10 is of the K40M
    assert published.get("survey-k40m").title == "Tesla K40M, published"


def test_a_bad_file_is_named(tmp_path, monkeypatch):
    folder = tmp_path / "published" / "other"
    folder.mkdir(parents=True)
    (folder / "matrices.csv").write_text("matrix\n")
    (folder / "about.toml").write_text("title = 'x'")
    monkeypatch.setattr(published.paths, "configs", lambda: tmp_path)
    with pytest.raises(SpmvbenchError, match=r"published/other has no published results"):
        published.names()
