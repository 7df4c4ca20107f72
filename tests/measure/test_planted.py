"""Kernels and conversions with one fault each: every fault is detected, and no other format fails."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.devices import open_device
from spmvbench.formats import Call, conversion
from spmvbench.formats.csr.csr import CsrArrays, CsrScalar
from spmvbench.matrices import lookup
from spmvbench.measure import changing_x, protocol, reading, stages, timing, worker
from spmvbench.measure.cases import Settings
from spmvbench.measure.results import HostConversion
from spmvbench.runner import plan
from tests.made import Made
from tests.measure.recording import Recorder

PLANTED = Path(__file__).parents[1] / "planted" / "planted.py"


def long_row():
    """Short rows and one of 5,000 entries, in which float32 rounding errors hide an entry."""
    rng = np.random.default_rng(1)
    a = sparse.random_array((300, 6000), density=2e-3, rng=rng, data_sampler=lambda size: rng.uniform(0.5, 1, size))
    a = a.tolil()
    a[150, :5000] = rng.uniform(0.5, 1, 5000) * rng.choice([-1, 1], 5000)
    return a.tocsr()


@pytest.fixture(autouse=True)
def computed(monkeypatch):
    """Counters of computed rows, which the emulated device's time with a changing x is: on any machine the same."""
    counters = []
    monkeypatch.setattr(changing_x, "process_time", lambda: 1e-3 * sum(int(rows.sum()) for rows in counters))
    return counters


@pytest.fixture
def planted(registered, computed):
    """The planted formats by name, registered during a test."""
    module, keys = registered(PLANTED)
    module.Planted.computed = computed
    return keys


def rows_of(keys, device, dtype, monkeypatch, matrix=None):
    """The rows of one group: every format named, in this order."""
    chosen = [(formats.get(key), {}) for key in keys]
    cases = plan.cross([matrix or Made(long_row)], chosen, [dtype], ["hot"], device.name, 0)
    (group,) = plan.grouped(cases)
    reading.read.cache_clear()
    pipe, settings = Recorder(), Settings(device.name, budget=0.01, convert="device")
    rule = timing.RULES[device.kind]
    monkeypatch.setitem(timing.RULES, device.kind, replace(rule, verified_runs=(60, 1e6)))  # on any machine
    worker.measure(group, device, settings, {"launch_overhead": {"hot": 1e-6}}, protocol.Link(pipe))
    return {case.format: pipe.rows[case.case_id] for case in cases}


def check(rows, caches_save=True):
    """Every fault is detected, and every format between the faulty ones is verified.

    A fault that cannot occur in the matrix is skipped; one that writes to read-only memory is an error. A cached y is a
    fault of the time: where rows are short, the cache saves none.
    """
    for key, row in rows.items():
        if key == "planted-caches-y" and not caches_save:
            continue
        right = not key.startswith("planted-") or key in ("planted-none", "planted-other-bits")
        expected = (
            ("ok",) if right else ("wrong", "skipped", "error") if key == "planted-poisons" else ("wrong", "skipped")
        )
        assert row["status"] in expected, (key, row.get("reason"), row.get("error_ratio"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_planted_fault_is_detected_and_no_other_format_fails(planted, dtype, monkeypatch):
    others = ["csr-scalar", "ell", "coo-atomic"]
    device = open_device("emulated")
    rows = rows_of(
        [key for pair in zip(planted, others * 10, strict=False) for key in pair], device, dtype, monkeypatch
    )
    assert len(rows) == len(planted) + len(others) == 24
    check(rows)
    assert all(rows[key]["status"] == "wrong" for key in planted if key not in ("planted-none", "planted-other-bits"))
    reasons = {key.removeprefix("planted-"): row.get("reason") for key, row in rows.items()}
    assert reasons["beyond-x"].startswith("wrote beyond x while")
    assert reasons["beyond-y"].startswith("wrote beyond y while")
    assert reasons["into-x"].startswith("x[5999] is 0")
    assert reasons["poisons"].startswith("changed the shared values and changed the shared integer values while")
    assert reasons["last-entry"].endswith("exactly (exact integer test)")
    assert reasons["loses-small"].startswith("y[")
    tested = 'the exact integer test was of {"lanes": 1}, the arrays to be timed are of {"lanes": 2}'
    assert reasons["retunes"] == tested


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_other_bits_in_one_product_of_40_are_found(planted, dtype, monkeypatch):
    rows = rows_of(["planted-other-bits", "planted-none"], open_device("emulated"), dtype, monkeypatch)
    names = ("status", "same_bits", "distinct_results", "compared_results")
    assert [rows["planted-other-bits"][name] for name in names] == ["ok", "no", 2, 80]
    assert [rows["planted-none"][name] for name in names] == ["ok", "yes", 1, 80]


def test_other_orders_of_blocks_and_lanes_tell_which_atomics_change_the_bits(monkeypatch):
    rows = rows_of(["coo-atomic", "coo-flat"], open_device("emulated"), "f64", monkeypatch)
    assert {key: row["same_bits"] for key, row in rows.items()} == {"coo-atomic": "no", "coo-flat": "yes"}


def stored_zeros(small, every):
    """Blocks of 2 x 2 with a small value in place of every n-th one: `adell-plus` stores no blocks if it is 0."""
    a = sparse.bsr_array(sparse.block_diag([np.full((2, 2), 3.0)] * 40)).tocsr()
    a.data[::every] = small
    return a


@pytest.mark.parametrize(
    ("dtype", "small", "every", "side"),
    [
        ("f64", 0, 4, 1),
        ("f32", -0.0, 4, 1),
        ("f64", 0, 1, 1),
        ("f16/f64", 1e-9, 4, 1),  # 0 in f16
        ("bf16/f32", 1e-9, 4, 2),
        ("f32", 1e-40, 4, 2),  # subnormal
    ],
)
def test_the_integer_test_is_of_the_structure_that_stored_zeros_give(monkeypatch, dtype, small, every, side):
    matrix = Made(lambda: stored_zeros(small, every))
    (row,) = rows_of(["adell-plus"], open_device("emulated"), dtype, monkeypatch, matrix).values()
    assert row["status"] == "ok", row["reason"]
    assert json.loads(row["detail"])["side"] == side


class Searching(CsrScalar):
    """CSR that a search gives `lanes`, each time more: from 2 lanes on it loses its last entry."""

    first_found = 1
    searches: ClassVar[list[int]] = []

    lanes: int

    @classmethod
    def convert(cls, a, **params):
        def search():
            cls.searches.append(cls.first_found + len(cls.searches))
            return cls.searches[-1]

        return super().convert(a) | {"lanes": conversion.search_once(cls, a, search, lambda: 9)}

    @property
    def in_use(self):
        return {"lanes": self.lanes}

    def launches(self, x, y):
        values = self.values.copy()
        values[-1] *= self.lanes == 1
        return super(Searching, replace(self, values=values)).launches(x, y)


@pytest.mark.parametrize("first", [1, 2])
def test_the_layout_that_is_timed_is_that_of_the_exact_integer_test(first, planted, monkeypatch):
    """A case searches once, and the row has what it found. The conversion on the device takes NumPy here."""
    monkeypatch.setattr(stages, "convert_on_host", lambda context, task: HostConversion())
    formats.register(type("Found", (Searching,), {"key": "searching", "first_found": first, "searches": []}))
    row = rows_of(["searching"], open_device("emulated"), "f64", monkeypatch)["searching"]
    assert formats.get("searching").searches == [first]
    if first == 1:
        assert row["status"] == "ok", row.get("reason")
        assert json.loads(row["detail"])["lanes"] == 1 and row["t_tune"] > 0 and row["t_convert_device"] > 0
    else:
        assert row["status"] == "wrong" and row["reason"].endswith("exactly (exact integer test)")


@pytest.mark.parametrize("caches", [False, True])
def test_a_y_that_a_call_of_the_host_keeps_while_x_is_unchanged_is_found(caches, registry, computed, monkeypatch):
    def launches(self, x, y):
        matrix, kept = sparse.csr_array((self.values, self.col_idx, self.row_ptr), shape=self.shape), {}
        computed.append(rows := np.zeros(len(y), int))

        def product(stream):
            if not (caches and np.array_equal(kept.get("x"), x)):
                kept.update(x=x.copy(), y=matrix @ x)
                rows[...] += 1
            y[...] = kept["y"]

        return [Call("product", product, (x, y))]

    counted, calls = changing_x.process_time, itertools.count()
    wild = [
        *itertools.accumulate([0, 1e3, 0, 0, 0, 1e3])
    ]  # seconds by which the first products with the same x seem to take longer
    monkeypatch.setattr(changing_x, "process_time", lambda: counted() + wild[min(next(calls), 5)])
    formats.register(type("Keeps", (CsrArrays,), {"key": "keeps", "reference": "none", "launches": launches}))
    row = rows_of(["keeps"], open_device("emulated"), "f64", monkeypatch)["keeps"]
    found = row["status"], "work is skipped (hot)" in row.get("reason", "")
    assert found == (("wrong", True) if caches else ("ok", False)), row.get("reason")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HB/494_bus", "HB/west0479", "FIDAP/ex1", "Bai/olm1000"])
def test_every_planted_fault_is_detected_on_real_matrices(planted, name, mirror, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_MIRROR", str(mirror))
    for dtype in ("f32", "f64"):
        rows = rows_of([*planted, "csr-scalar"], open_device("emulated"), dtype, monkeypatch, lookup.obtain(name))
        check(rows, caches_save=False)
        assert sum(row["status"] == "wrong" for row in rows.values()) >= len(planted) - 4


@pytest.mark.gpu
@pytest.mark.timing
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_every_planted_fault_is_detected_on_a_gpu(planted, dtype, monkeypatch):
    check(rows_of([*planted, "csr-scalar", "ell"], open_device("cuda:0"), dtype, monkeypatch))
