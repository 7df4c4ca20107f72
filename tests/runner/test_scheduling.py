"""Costs, shards and the schedule of a cluster: every case is measured once, also if workers die."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spmvbench import formats
from spmvbench.matrices import Matrix
from spmvbench.runner import costs, plan
from spmvbench.runner.cluster.scheduling import MAX_LOSSES, Schedule, matrix_and_type

PRICES = costs.Costs(1.0, 1e-7, 0.1, 1e-9)


def groups(entries, keys="csr-scalar,csr-vector,ell,coo-flat,hyb,dia", dtypes=("f64", "f32")):
    matrices = [Matrix("G", f"m{number}", "", "suitesparse", None, nnz) for number, nnz in enumerate(entries)]
    return plan.grouped(plan.cross(matrices, formats.parse(keys), dtypes, ["hot"], "emulated", 0))


def ids(parts):
    return [case.case_id for group in parts for case in group.cases]


def test_costs_exclude_skipped_cases_and_are_linear_in_entries():
    (small, *_), (large, *_) = groups([1000]), groups([10**9])
    assert PRICES.of_reading(large) == pytest.approx(101)
    assert PRICES.of_group(large) == pytest.approx(101 + 6 * 1.1)
    assert PRICES.of_group(small) == pytest.approx(1.6, rel=1e-3)
    (refused,) = plan.grouped(
        plan.cross([small.matrix], formats.parse("cusparse-coo"), ["f64"], ["hot"], "emulated", 0)
    )
    assert PRICES.of_cases(refused.cases, refused) == 0
    learned = costs.Costs(1.0, 1e-7, 0.1, 1e-9)
    learned.learn("ell", 10**8, 0.6)
    learned.learn("ell", 10**8, 1.0)
    (ell,) = (modes for modes in small.formats if modes[0].label == "ell")
    assert learned.of_cases(ell, small) == pytest.approx(0.1 * 4, rel=1e-3)


def test_an_assignment_costs_the_same_however_much_is_left(monkeypatch):
    """With 2,000 matrices a worker waited 0.28 s for each, while cases were named to price all of them."""
    named, priced, label, of_group = [], [], formats.label, costs.Costs.of_group
    schedule = Schedule(groups([10**6] * 200, keys="ell,dia"), PRICES)
    monkeypatch.setattr(formats, "label", lambda *args: named.append(args) or label(*args))
    monkeypatch.setattr(costs.Costs, "of_group", lambda *args: priced.append(args) or of_group(*args))
    done = 0
    while schedule.assign(2):
        done += 1
    assert len(named) <= 400 * 2
    assert len(priced) <= done * 8


def test_entries_are_estimated_without_making_the_matrix(tmp_path):
    (tmp_path / "a.mtx").write_text("1 1 1.0\n" * 100)
    file, spec, listed = (
        Matrix("file", "a.mtx", "", "file", tmp_path / "a.mtx"),
        Matrix("synthetic", "tridiag:5", "tridiag", "synthetic"),
        Matrix("synthetic", "stokes:5", "stokes", "synthetic"),
    )
    assert costs.entries(file, 0) == 800 // costs.BYTES_PER_ENTRY
    assert costs.entries(spec, 0) == 13
    assert costs.entries(listed, 0) == 43848896
    assert costs.entries(Matrix("file", "b.mtx", "", "file", tmp_path / "b.mtx"), 0) == 0


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=12), st.integers(1, 9))
def test_shards_have_every_case_once_and_are_balanced(entries, count):
    whole = groups(entries)
    parts = costs.shards(whole, count, PRICES)
    assert len(parts) == count
    assert sorted(ids(piece for part in parts for piece in part)) == sorted(ids(whole))
    loads = [sum(map(PRICES.of_group, part)) for part in parts]
    most = max(PRICES.of_group(piece) for part in parts for piece in part)
    assert max(loads) <= sum(loads) / count + most
    assert [ids(part) for part in costs.shards(groups(entries), count, PRICES)] == [ids(part) for part in parts]
    assert sum(loads) <= (1 + 1 / costs.MIN_READINGS) * sum(map(PRICES.of_group, whole))  # bound on repeated readings


def test_largest_groups_first_split_at_the_end_and_matrices_in_memory_reused():
    cheap = costs.Costs(0.001, 0.0, 0.1, 1e-9)
    schedule = Schedule(groups([10, 10**9], dtypes=("f64",)), cheap)
    first = schedule.assign(2)
    assert first.matrix.name == "m1" and len(first.formats) < 6
    other = schedule.assign(2)
    assert other.matrix.name == "m0"  # no worker has begun it
    assert schedule.assign(2, (first.matrix, 0, "f64")).matrix.name == "m1"
    assert (
        Schedule(groups([10**9]), PRICES).assign(8).formats == groups([10**9])[0].formats
    )  # a second reading would cost too much


def test_no_worker_waits_for_a_large_matrix_while_there_is_other_work():
    schedule = Schedule(groups([10**6, 10**9, 10**8, 10**7], dtypes=("f64",)), costs.Costs(0.0, 1e-7, 10.0, 0.0))
    first = schedule.assign(1)
    assert first.matrix.name == "m0"  # the quickest to read
    largest = schedule.next_to_prefetch(1)
    assert largest == (Matrix("G", "m1", "", "suitesparse", None, 10**9), 0)
    second = schedule.assign(1, matrix_and_type(first))
    assert second.matrix.name == "m3"  # the largest is still being read
    assert (
        schedule.next_to_prefetch(1)[0].name == "m2" and schedule.next_to_prefetch(1) is None
    )  # enough matrices are being prefetched
    schedule.reading.discard(largest)
    assert schedule.assign(1, matrix_and_type(second)).matrix.name == "m1"
    assert schedule.assign(1).matrix.name == "m2"  # nothing else is left
    assert not schedule


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_every_case_is_measured_once_and_only_the_culprit_is_marked(rng: random.Random, workers):
    whole = groups([10, 10**6, 10**8])
    culprit = rng.choice(ids(whole))
    schedule = Schedule(whole, costs.Costs(0.0, 0.0, 0.1, 0.0))
    done, marked = [], []
    while schedule:
        group = schedule.assign(workers)
        accident = rng.random() < 0.1 and schedule.losses[group.cases[0].case_id] < MAX_LOSSES - 1
        if culprit in ids([group]) or accident:
            marked += [case.case_id for case in schedule.lost(group)]
        else:
            done += ids([group])
    assert marked == [culprit]
    assert sorted(done + marked) == sorted(ids(whole))
