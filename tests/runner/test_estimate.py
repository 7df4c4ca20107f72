"""Run time estimates from a sample of the run."""

import numpy as np
import pytest

from spmvbench import formats
from spmvbench.matrices import Matrix
from spmvbench.measure.cases import Settings
from spmvbench.measure.row import known_columns
from spmvbench.rows import store
from spmvbench.rows.schema import blank_row
from spmvbench.runner import costs, estimate, plan

LABELS = ("csr-scalar", "csr-vector", "ell")


def by_size(matrix):
    return matrix.nnz


def population(rng, count=150):
    sizes = np.exp(rng.normal(11, 2, count)).astype(int)
    return [Matrix("G", f"m{number}", "", "suitesparse", None, int(size)) for number, size in enumerate(sizes)]


def groups(matrices):
    chosen = formats.parse(",".join(LABELS))
    return plan.grouped(plan.cross(matrices, chosen, ["f64"], ["hot"], "emulated", 0))


def seconds(rng, matrix, label):
    """Simulated seconds of a case: formats differ, matrices vary by a third about a line."""
    usual = {"csr-scalar": 1.0, "csr-vector": 0.5, "ell": 3.0}[label]
    return usual * (0.1 + 2e-7 * matrix.nnz) * float(rng.lognormal(0, 0.3))


def keep(folder, cases, spent, overhead=0.0, **columns):
    """A run with these cases and their seconds, other columns, and an overhead as a share of them."""
    folder.mkdir()
    for case, each in zip(cases, spent, strict=True):
        measured = {"t_case": each, "nnz": case.matrix.nnz, "matrix_sha256": case.matrix.name}
        store.append(
            folder, blank_row() | known_columns(case) | measured | columns | {"status": "ok", "t_median": 1e-6}
        )
    total = sum(spent) * (1 + overhead)
    store.append_session(folder, {"started": "2026", "seconds": {"all": total, "compiling ahead": 1e6}})


@pytest.mark.slow
def test_the_interval_has_its_nominal_coverage():
    held = 0
    for trial in range(20):
        rng = np.random.default_rng(trial)
        whole = population(rng)
        real = {m.name: sum(seconds(rng, m, label) for label in LABELS) for m in whole}
        few = estimate.stratified(whole, 25, trial, by_size)
        sizes, means = np.array([(m.nnz, real[m.name] / 3) for m in few], float).T
        found = estimate.estimate(estimate.Sample(sizes, means, 75, 0.5, frozenset(LABELS)), groups(whole), 4)
        truth, (middle, low, high) = 1.5 * sum(real.values()), found.one
        held += low <= truth <= high
        assert middle == pytest.approx(truth, rel=0.5)
        assert found.many[0] == pytest.approx(middle / 4, rel=0.1)
    assert held >= 17


def test_a_slow_format_on_few_matrices_does_not_make_those_slow(tmp_path):
    matrices = [Matrix("G", f"m{number}", "", "suitesparse", None, 1000) for number in range(6)]
    cases = [case for group in groups(matrices) for case in group.cases]
    given = [case for case in cases if case.label != "ell" or case.matrix.name > "m2"]
    keep(tmp_path / "r", given, [3.0 if case.label == "ell" else 1.0 for case in given], 0.5)
    sample = estimate.Sample.of([tmp_path / "r"], cases, Settings("emulated"))
    assert sample.seconds == pytest.approx([5 / 3] * 6)
    assert sample.overhead == pytest.approx(0.5)
    assert (sample.cases, sample.labels) == (15, set(LABELS))
    assert sample.costs().of_group(groups(matrices)[0]) == pytest.approx(1.5 * 5)
    only = estimate.Sample.of([tmp_path / "r"], [case for case in cases if case.label == "ell"], Settings("emulated"))
    assert only.seconds == pytest.approx([3.0] * 3)


@pytest.mark.parametrize(
    ("device", "budget", "samples", "seconds"),
    [
        ("cuda:0", 0.01, 4, 0.97),  # 0.04 s sampled, of which 0.03 are saved
        ("cuda:0", None, 4, 1.02),  # samples agree early: at the first check of the clocks in each of three rounds
        ("cuda:0", 0.04, 4, 1.0),
        ("emulated", 0.5, 4, 1.0),
        ("cuda:0", 0.01, 400, 1.0),  # those of another format with the same program
        ("cuda:0", 0.01, 0, 1.0),
    ],
)
def test_times_are_those_of_the_budget(tmp_path, device, budget, samples, seconds):
    cases = [case for group in groups(population(np.random.default_rng(0), 5)) for case in group.cases]
    keep(tmp_path / "r", cases, [1.0] * len(cases), repeats=10, samples=[1e-3] * samples)
    sample = estimate.Sample.of([tmp_path / "r"], cases, Settings(device, budget=budget))
    assert sample.seconds == pytest.approx([seconds] * 5)


def test_too_few_matrices_are_no_sample(tmp_path):
    matrices = population(np.random.default_rng(0), 5)
    cases = [case for group in groups(matrices) for case in group.cases]
    assert estimate.Sample.of([], cases, Settings("emulated")) is None
    keep(tmp_path / "r", cases[:6], [1.0] * 6)  # two matrices
    assert estimate.Sample.of([tmp_path / "r"], cases, Settings("emulated")) is None


def test_a_stratified_sample_has_every_size_and_is_reproducible():
    whole = population(np.random.default_rng(1))
    few = estimate.stratified(whole, 10, 0, by_size)
    assert few == estimate.stratified(whole, 10, 0, by_size) != estimate.stratified(whole, 10, 1, by_size)
    ranks = sorted(sorted(whole, key=lambda m: costs.entries(m, 0)).index(matrix) // 15 for matrix in few)
    assert ranks == list(range(10))
    assert estimate.stratified(whole, 1000, 0, by_size) == whole


@pytest.mark.parametrize(
    ("seconds", "text"), [(40, "40 s"), (720, "12 min"), (100, "1.7 min"), (19000, "5.3 h"), (270000, "3.1 days")]
)
def test_durations_have_two_digits(seconds, text):
    assert estimate.duration(seconds) == text
