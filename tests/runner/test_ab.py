"""A/B comparison: verdicts on random times, and two builds measured on the emulated device."""

import shutil
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from spmvbench.analysis import ab as analysis
from spmvbench.devices import open_device
from spmvbench.errors import UsageError
from spmvbench.formats import Csr
from spmvbench.matrices import resolve
from spmvbench.measure.cases import Settings
from spmvbench.rows import store
from spmvbench.runner import ab, plan
from spmvbench.runner.ab_worker import ABWorker, answer

# Wilcoxon's signed ranks: the largest T with P(W <= T) <= 0.005 (any table of the test); k is one more.
CRITICAL = {8: 0, 9: 1, 10: 3, 11: 5, 12: 7, 15: 15, 20: 37}


@pytest.mark.parametrize(("n", "critical"), CRITICAL.items())
def test_ranks_match_published_tables(n, critical):
    assert analysis._rank(n, 0.99) == critical + 1


def test_too_few_pairs_give_no_verdict():
    assert analysis.median_interval([0.1] * 7) == (-np.inf, 0.1, np.inf)
    low, middle, high = analysis.median_interval([0.1, 0.2] * 4)
    assert 0.1 <= low <= middle <= high <= 0.2


def drawn(rng, cases, pairs, slower, noise, drift):
    """Times of cases: each pair's with noise, tails and a drift over all of them; new is slower by a factor."""
    wobble = rng.standard_t(3, (2, cases, pairs)) * noise
    steady = np.cumsum(rng.normal(0, drift, (cases, pairs)), axis=1)
    old, new = 1e-5 * np.exp(steady + wobble[0]), 1e-5 * slower * np.exp(steady + wobble[1])
    case = np.repeat(np.arange(cases), pairs)
    return pd.DataFrame({"matrix": case, "label": "ell", "setting": "f64 hot", "old": old.ravel(), "new": new.ravel()})


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.0, analysis.THRESHOLD])
def test_identical_builds_rarely_differ(threshold):
    """At most 1 % from the confidence alone; 1.5 % allows for the spread of 2000 draws."""
    table = drawn(np.random.default_rng(1), 2000, 12, 1.0, 0.003, 0.02)
    alarms = analysis.verdicts(table, threshold)["verdict"].isin(["slower", "faster"]).mean()
    assert alarms <= (0.015 if threshold == 0 else 0.001)


@pytest.mark.parametrize(("slower", "expected"), [(1.03, "slower"), (1 / 1.03, "faster"), (1.0, "same")])
def test_three_percent_are_detected(slower, expected):
    table = drawn(np.random.default_rng(2), 300, 12, slower, 0.002, 0.02)
    assert (analysis.verdicts(table)["verdict"] == expected).mean() > (0.95 if slower != 1 else 0.5)


@pytest.fixture
def other(tmp_path):
    """The folder of a build in which csc-atomic has another name, and csr-vector a kernel that doubles y."""
    root = tmp_path / "old"
    for part in ab.PARTS:
        shutil.copytree(ab.HERE / part, root / part, ignore=shutil.ignore_patterns("__pycache__"))
    for file, old, new in (
        ("spmvbench/formats/csc/csc.py", 'key = "csc-atomic"', 'key = "csc-renamed"'),
        ("kernels/csr/csr.cu", "put<false>(to, sum);", "put<false>(to, 2 * sum);"),
    ):
        text = (root / file).read_text()
        assert old in text
        (root / file).write_text(text.replace(old, new))
    return root


def groups(formats):
    found, _ = resolve(["pde:4"])
    return plan.grouped(plan.cross(found, plan.choose_formats(formats, "emulated"), ["f64"], ["hot"], "emulated", 0))


def measured(old, formats, tmp_path, count):
    settings = Settings("emulated", budget=1e-4)
    with open(tmp_path / "log", "wb") as log, closing(ab.ABComparison((old, ab.HERE), settings, count, log)) as both:
        return pd.DataFrame(both.measure(groups(formats)))


@pytest.mark.slow
def test_pairs_alternate(tmp_path):
    rows = measured(ab.HERE, "ell,csc-atomic", tmp_path, 3)
    assert list(rows["label"]) == ["ell"] * 3 + ["csc-atomic"] * 3 and set(rows["status"]) == {"ok"}
    assert list(rows["first"]) == ["old", "new", "old"] * 2
    assert (rows[["old", "new"]] > 0).all(axis=None)
    assert list(analysis.verdicts(rows)["pairs"]) == [3, 3]


@pytest.mark.slow
def test_each_worker_runs_its_own_build(tmp_path, other):
    rows = measured(other, "csc-atomic,csr-vector,ell", tmp_path, 1).set_index("label")
    assert rows.loc["csc-atomic", "status"] == "error"
    assert rows.loc["csc-atomic", "reason"].startswith("old: UsageError: there is no format")
    assert rows.loc["csr-vector", "status"] == "wrong" and rows.loc["csr-vector", "reason"].startswith("old: ")
    assert rows.loc["ell", "status"] == "ok"


def test_a_build_is_a_folder_a_revision_or_a_run(tmp_path):
    with ab.build_folder(str(ab.HERE)) as folder:
        assert folder == ab.HERE.resolve()
    with pytest.raises(UsageError, match="no revision"), ab.build_folder("no-such-thing"):
        pass
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rows.jsonl").touch()
    store.append_session(tmp_path / "run", {"started": "1", "git": None})
    with pytest.raises(UsageError, match="records no revision"), ab.build_folder("run", tmp_path):
        pass
    if not (ab.HERE / ".git").exists():
        pytest.skip("needs a checkout (git clone)")
    said = []
    store.append_session(tmp_path / "run", {"started": "2", "git": "HEAD-dirty"})
    with ab.build_folder("run", tmp_path, said.append) as folder:
        assert (folder / "kernels").is_dir() and (folder / "spmvbench" / "__init__.py").is_file()
    assert "uncommitted changes" in said[0] and said[1].endswith("was measured from HEAD")
    assert not folder.exists()
    store.append_session(tmp_path / "run", {"started": "3", "git": f"--output={tmp_path / 'precious'}"})
    with pytest.raises(UsageError, match="which is no revision"), ab.build_folder("run", tmp_path):
        pass
    assert not (tmp_path / "precious").exists()


def test_only_parameters_are_given_to_the_old_build():
    worker = ABWorker(open_device("emulated"))
    worker.a = Csr.of(sparse.csr_array(np.triu(np.ones((9, 9)))))
    assert worker.load("csr-am", {}, "hot", 0.0) == {"lanes": 8, "block": 128}
    assert worker.load("csr-gg", {}, "hot", 0.0) == {} and worker.fmt.in_use
    assert answer(worker, "load", "ell", {}, "hot", 0.0, 8)[:2] == ("failed", "skipped")  # over --max-bytes


def test_a_permuted_y_is_verified_in_the_matrix_order():
    worker = ABWorker(open_device("emulated"))
    worker.a = Csr.of(sparse.csr_array(np.triu(np.ones((9, 9)))))
    worker.load("dasp", {"order": "native"}, "hot", 0.0)
    assert worker.y_order.tolist() != list(range(9))
    worker.y[0] += 1
    with pytest.raises(ArithmeticError, match="1 entries of y"):
        worker.verify()
