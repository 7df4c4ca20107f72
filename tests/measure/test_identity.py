"""Identity of a row's matrix: if the content of a named matrix changes, it is measured again."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from spmvbench import formats
from spmvbench.formats import Csr
from spmvbench.matrices import Matrix, synthetic
from spmvbench.matrices.lookup import obtain
from spmvbench.measure import timing
from spmvbench.measure.cases import Settings
from spmvbench.measure.reading import digest
from spmvbench.measure.row import known_columns
from spmvbench.rows import store
from spmvbench.rows.schema import blank_row
from spmvbench.runner import plan, session

SETTINGS = Settings("emulated", max_bytes=10**9)
TEXT = "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n2 2 {}\n"


def cross(matrix):
    chosen = formats.parse("csr-scalar,ell")
    return plan.cross([matrix], chosen, ["f64"], ["hot"], "emulated", 0)


def measured(folder, cases, sha256, started):
    for place, case in enumerate(cases, start=1):
        facts = {"matrix_sha256": sha256, "started_at": started, "status": "ok", "sequence": place, "t_median": 1e-6}
        store.append(folder, blank_row() | known_columns(case) | facts)


@pytest.fixture
def archive(tmp_path):
    """A matrix of the collection with the attributes that cases use, and its hash."""
    path = tmp_path / "m.mtx"
    path.write_text(TEXT.format("2.0"))
    matrix = Matrix("G", "m", "", "suitesparse", path, 2)
    return matrix, digest(Csr.of(matrix.read()).astype(np.float64))


def test_an_archive_that_was_replaced_is_measured_again(archive, tmp_path, monkeypatch):
    matrix, sha256 = archive
    cases, folder = cross(matrix), tmp_path / "run"
    assert session.pending(folder, cases, SETTINGS) == cases
    measured(folder, cases, sha256, store.now())
    assert session.pending(folder, cases, SETTINGS) == []
    matrix.path.write_text(TEXT.format("3.0"))
    os.utime(matrix.path, (0, 0))  # like a copy that keeps its time; the time of the copy counts
    assert session.pending(folder, cases, SETTINGS) == cases
    measured(folder, cases[:1], digest(Csr.of(matrix.read()).astype(np.float64)), store.now())
    assert session.pending(folder, cases, SETTINGS) == cases[1:]
    matrix.path.write_text("nothing")
    assert session.pending(folder, cases, SETTINGS) == cases
    with monkeypatch.context() as patch:
        patch.setattr(Matrix, "read", None)  # whatever reading it raises
        assert session.pending(folder, cases, SETTINGS) == cases
    matrix.path.unlink()  # it may exist on other hosts of a scheduler
    assert session.pending(folder, cases, SETTINGS) == []


def test_an_archive_downloaded_again_without_changes_is_not_measured_again(archive, tmp_path):
    matrix, sha256 = archive
    cases, folder = cross(matrix), tmp_path / "run"
    measured(folder, cases, sha256, "2000-01-01T00:00:00.000000+00:00")
    assert session.pending(folder, cases, SETTINGS) == []


def test_an_archive_older_than_its_rows_is_not_read(archive, tmp_path, monkeypatch):
    matrix, _ = archive
    cases, folder = cross(matrix), tmp_path / "run"
    measured(folder, cases, "another", store.now())
    monkeypatch.setattr(Matrix, "read", None)
    assert session.pending(folder, cases, SETTINGS) == []


def test_an_edited_generator_changes_case_ids(monkeypatch):
    matrix = obtain("pde:4")
    before = {case.case_id for case in cross(matrix)}
    assert before == {case.case_id for case in cross(obtain("pde:04"))}
    monkeypatch.setattr(synthetic, "generator_hash", lambda kind: "edited")
    assert before & {case.case_id for case in cross(obtain("pde:4"))} == set()


def test_another_rule_of_timing_changes_case_ids_and_a_run_with_two_warns(archive, tmp_path, monkeypatch):
    matrix, sha256 = archive
    cases, folder = cross(matrix), tmp_path / "run"
    assert {case.timing_rule for case in cases} == {timing.rule_hash("cuda")} == {""}, "rows of before are of this rule"
    measured(folder, cases, sha256, store.now())
    rule = timing.RULES["emulated"]
    for changed in (replace(rule, rounds=2), replace(rule, spread=0.1), replace(rule, clock_check=1.0)):
        monkeypatch.setitem(timing.RULES, "emulated", changed)
        assert session.pending(folder, cross(matrix), SETTINGS) == cross(matrix)
    assert store.mixed(store.load(folder)) == ""
    measured(folder, cross(matrix)[:1], sha256, store.now())
    assert "rows of several rules of timing" in store.mixed(store.load(folder))
    monkeypatch.setitem(timing.RULES, "emulated", replace(rule, budget=7.0))
    assert session.pending(folder, cases, SETTINGS) == [], "the budget is an option that run.json has"


def test_a_run_with_two_matrices_of_one_name_warns(archive, tmp_path):
    folder = tmp_path / "run"
    measured(folder, cross(archive[0]), "a" * 64, store.now())
    measured(folder, cross(obtain("pde:4")), "b" * 64, store.now())
    assert store.mixed(store.load(folder)) == ""
    edited = cross(obtain("pde:4"))
    for case in edited:
        object.__setattr__(case, "matrix", Matrix("synthetic", "pde:4", "pde", "synthetic", generator_hash="edited"))
    measured(folder, edited, "c" * 64, store.now())
    said = store.mixed(store.load(folder))
    assert "different matrices under one name" in said and ": synthetic/pde:4. " in said and "--fresh" in said
    measured(folder, cross(Matrix("file", "f.mtx", "", "file", tmp_path, file_sha256="1")), "d" * 64, store.now())
    measured(folder, cross(Matrix("file", "f.mtx", "", "file", tmp_path, file_sha256="2")), "e" * 64, store.now())
    assert store.mixed(store.load(folder)) == said
