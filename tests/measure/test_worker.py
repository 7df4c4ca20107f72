"""The worker on a stand-in for a GPU: order of rounds, memory, transfer and conversion times."""

import itertools
import json
import math
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats, paths
from spmvbench.devices import OutOfDeviceMemory, Throttling
from spmvbench.formats import Launch, in_part
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure import (
    changing_x,
    device_limits,
    energy,
    group,
    matrix_cache,
    protocol,
    reading,
    stages,
    timing,
    worker,
)
from spmvbench.measure.failures import FailedAllocation
from tests.made import Made
from tests.measure.recording import MATRIX, HostCuda, Recorder, Right, Throttled, around, measure, variant

assert measure


def test_a_group_with_the_matrix_of_the_previous_one_reuses_its_references(measure, monkeypatch):
    made, of = [], worker.References.of
    monkeypatch.setattr(worker.References, "of", lambda *args: made.append(args) or of(*args))
    previous, seeds = worker.PreviousGroup(), []
    for name, dtype in (("A", "f64"), ("B", "f64"), ("C", "f32"), ("D", "f64")):
        _, rows, _ = measure(variant(name), previous=previous, dtype=dtype, modes=("hot",))
        ((_, row),) = rows.items()
        assert row["status"] == "ok", row["reason"]
        seeds.append(previous.columns["x_seed"])
    assert len(made) == 3
    assert seeds[0] == seeds[1] and len(set(seeds)) == 3


def test_every_timed_conversion_starts_from_a_matrix_without_statistics(measure):
    kept = []

    def convert(cls, a, **params):
        kept.append(vars(a).keys() - vars(a.fresh()).keys())
        a.row_idx, a.diagonals  # noqa: B018 - computed and cached in the matrix
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    _, rows, _ = measure(*(variant(name, convert=classmethod(convert)) for name in "AB"))
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert kept == [set()] * 12  # each format once on the host, five times on the device


def test_conversion_on_the_host_can_be_left_out(measure):
    converted = []

    def convert(cls, a, **params):
        converted.append(a)
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    pipe, rows, _ = measure(variant("A", convert=classmethod(convert)), modes=("hot",), convert="device")
    row = rows["test-a", "hot"]
    assert row["status"] == "ok"
    assert len(converted) == 5  # on the device; the median of the last three counts
    assert row["t_convert_device"] > 0
    assert "t_convert_host" not in row
    assert "t_transfer" not in row
    assert not any("host" in stage or "moving" in stage for _, stage in pipe.stages)


def test_a_format_too_large_is_refused_without_conversion_on_the_host_too(measure):
    def convert(cls, a, **params):
        raise AssertionError("converted")

    large = variant("A", convert=classmethod(convert), estimate=classmethod(lambda cls, a, **params: 10**13))
    _, rows, _ = measure(large, modes=("hot",), convert="device")
    assert rows["test-a", "hot"]["status"] == "skipped"
    assert rows["test-a", "hot"]["bytes_needed"] == 10**13


@pytest.mark.parametrize(
    ("seconds", "repeats", "changes"),
    [(2e-6, 500, 250), (5e-6, 200, 142), (1e-4, 11, 16), (2e-3, 1, 16), (1e-2, 1, 2), (0.2, 1, 2)],
)
def test_x_changes_before_each_of_some_spmvs_of_fewer_if_they_are_slow(seconds, repeats, changes):
    series = timing.Series(lambda: None, repeats, flush=False, seconds=[seconds] * 3)
    assert changing_x._changes_of_x(series, 2e-6, 1e-3) == changes  # samples are no longer than those without changes
    unknown = timing.Series(lambda: None, repeats, flush=False)  # every sample was discarded
    assert changing_x._changes_of_x(unknown, 2e-6, 1e-3) == max(repeats // 2 * 2, 16)


def test_a_row_has_all_separate_times(measure):
    _, rows, _ = measure(variant("A"))
    row = rows["test-a", "hot"]
    assert row["t_median"] == pytest.approx(2e-3)
    assert (row["t_q1"], row["t_q3"], row["n_samples"], row["n_throttled"]) == (2e-3, 2e-3, 3, 0)
    assert row["samples"] == [2e-3] * 3
    assert row["repeats"] == 1
    assert row["sm_clock_mhz"] == 1234.0
    assert row["t_compile"] == 2 * 0.25  # of the integer matrix and of the matrix
    assert row["t_convert_host"] > 0
    assert row["t_convert_device"] > 0
    assert row["t_transfer"] > 0
    assert row["t_setup"] > 0  # making the launches
    assert row["decoded"] == "yes" and row["t_decode"] > 0
    assert row["bytes_workspace"] == 16 * 8
    nnz = 200
    assert row["bytes_format"] == 12 * nnz + 4 * 51
    assert row["bytes_peak"] == row["bytes_format"]  # nothing beyond the input was allocated
    assert row["model_bytes"] == row["bytes_format"] + 8 * (50 + 40)
    assert row["gflops"] == pytest.approx(2 * nnz / 2e-3 / 1e9)
    assert 0 <= row["error_ratio"] <= 1


def test_the_hosts_spmv_is_timed_in_the_type_of_the_case(measure, monkeypatch):
    types = []
    monkeypatch.setattr(worker, "host_spmv", lambda a: types.append(a.dtype) or 0.5)
    pipe, _, _ = measure(variant("A"), dtype="f32")
    assert types == [np.float32]
    assert [message[1].get("t_spmv_host") for message in pipe.sent if message[0] == "matrix"][-1] == 0.5
    monkeypatch.undo()
    a = formats.Csr.of(sparse.random_array((50, 40), density=0.1, rng=np.random.default_rng(3)))
    assert 0 < reading.host_spmv(a) < 1


@pytest.mark.parametrize(("seconds", "near"), [(1.9e-3, True), (2.1e-3, False)])
def test_times_below_twice_the_launch_overhead_are_flagged(measure, seconds, near):
    _, rows, _ = measure(variant("A"), modes=("hot",), device=HostCuda(seconds))
    assert rows["test-a", "hot"]["near_launch_overhead"] == near


class InParts(Right):
    key = "test-inparts"

    def launches(self, x, y):
        (launch,) = super().launches(x, y)
        idle = Launch("vector.cu", "none", 1, 1, (lambda: None,))
        empty = Launch("vector.cu", "none", (4, 0), 1, (lambda: None,))
        return [idle, *in_part("clear", [idle]), *in_part("nothing", [empty]), *in_part("multiply", [launch, idle])]


def test_named_parts_are_timed_separately_in_hot_rows(measure):
    pipe, rows, _ = measure(InParts, variant("A"))
    assert json.loads(rows["test-inparts", "hot"]["t_kernels"]) == {"clear": 2e-3, "multiply": 2e-3}
    assert not rows["test-inparts", "cold"].get("t_kernels")
    assert "t_kernels" not in rows["test-a", "hot"]
    stages = [stage for index, stage in pipe.stages if index == 0]
    assert stages[-4:] == ["timing clear", "timing multiply", "timing after other work", "checking again"]
    assert rows["test-inparts", "hot"]["t_in_use"] > 0 and "t_in_use" not in rows["test-inparts", "cold"]
    _, alone, _ = measure(InParts, modes=("cold",))
    assert not alone["test-inparts", "cold"].get("t_kernels")
    assert {row["status"] for row in (*rows.values(), *alone.values())} == {"ok"}


def spoiling(self, x, y):
    """Launches of a format whose y is wrong from the seventh run on.

    The integer matrix has six runs, the matrix three whose y is verified before timing.
    """
    runs = []

    def multiply(product, x, y):
        runs.append(1)
        product()
        if len(runs) > 6:
            y[3] += 1

    return around(self, x, y, multiply)


def test_results_that_become_wrong_during_timing_are_detected(measure):
    _, rows, _ = measure(variant("Spoils", launches=spoiling), variant("A"))
    assert {rows["test-spoils", mode]["status"] for mode in ("hot", "cold")} == {"wrong"}
    assert "y[3]" in rows["test-spoils", "hot"]["reason"]
    assert rows["test-spoils", "hot"]["reason"].endswith("(left by a sample, hot)")
    assert rows["test-spoils", "hot"]["n_samples"] == 1
    assert rows["test-a", "hot"]["status"] == "ok"


def test_a_conversion_that_writes_to_the_matrix_is_an_error_and_affects_no_other_format(measure):
    def convert(cls, a, **params):
        a.col_idx.sort()
        return CsrArrays.convert.__func__(cls, a)

    _, rows, _ = measure(variant("A"), variant("Sorts", convert=classmethod(convert)), variant("B"), modes=("hot",))
    assert [row["status"] for row in rows.values()] == ["ok", "error", "ok"]
    assert "read-only" in rows["test-sorts", "hot"]["reason"]


def test_every_group_draws_x_anew_and_its_rows_have_the_seed(measure):
    drawn = []

    def launches(self, x, y):
        return around(self, x, y, lambda product, x, y: drawn.append(x[0]) or product())

    sees = variant("Sees", launches=launches)
    pipe, _, _ = measure(sees, modes=("hot",))
    first, seeds = set(drawn), [message[1]["x_seed"] for message in pipe.sent if message[0] == "matrix"]
    assert len(first) >= 4  # two dense, two of integers
    assert len(set(seeds)) == 1
    again, _, _ = measure(sees, modes=("hot",))
    assert again.sent[1][1]["x_seed"] != seeds[0]
    assert len(set(drawn) - first) >= 1
    assert len(set(drawn) & first) >= 1  # that of the run's own seed


@pytest.mark.parametrize("failing", ["convert", "launches", "to_coo"])
@pytest.mark.parametrize(("asked", "processes", "again"), [(10**6, 2, True), (10**6, 0, False), (10**8, 2, False)])
def test_an_allocation_that_fails_far_below_what_is_free_ends_the_process(measure, failing, asked, processes, again):
    """10^9 bytes are free. Without another process, and if little more was free, it is the format's failure."""

    def fails(*args, **params):
        raise OutOfDeviceMemory("none left", asked)

    classes = variant("A"), variant("Short", **{failing: classmethod(fails) if failing == "convert" else fails})
    if again:
        with pytest.raises(FailedAllocation, match="none left while"):
            measure(*classes, modes=("hot",), processes=processes)
    else:
        _, rows, _ = measure(*classes, modes=("hot",), processes=processes)
        assert rows["test-a", "hot"]["status"] == "ok"
        failed = rows["test-short", "hot"]
        assert (failed["status"], failed.get("decoded")) in [("oom", None), ("ok", "no: out of memory")]


def test_entries_that_overflow_the_type_are_skipped(measure, monkeypatch):
    monkeypatch.setattr(Made, "read", lambda *_: sparse.csr_array([[1e200, 1.0]]))
    _, rows, _ = measure(variant("A"), dtype="f32")
    assert {(row["status"], row["reason"]) for row in rows.values()} == {
        ("skipped", "entries are not finite in float32")
    }


class Clocked(HostCuda):
    """A device whose time is the sum of what the kernels report."""

    def __init__(self):
        super().__init__()
        self.clock = 0.0

    def elapsed(self, work, *, flush=False):
        began = self.clock
        work()
        return self.clock - began


def timed_variant(name, device, seconds, multiply, **members):
    """A format whose SpMV does `multiply(honest product, x, y)`, which may return its own seconds."""

    def launches(self, x, y):
        state = {}

        def multiply_and_wait(product, x, y):
            taken = multiply(product, x, y, state)
            device.clock += seconds if taken is None else taken

        return around(self, x, y, multiply_and_wait)

    return variant(name, launches=launches, **members)


class Metered(HostCuda):
    """A device whose counter shows another joule at each reading."""

    joules = 0.0

    def energy(self):
        self.joules += 1
        return self.joules


def test_energy_is_measured_for_hot_cases_if_asked_for(measure):
    _, rows, _ = measure(variant("A"), device=Metered(), energy=1e-6)
    assert rows["test-a", "hot"]["energy"] == pytest.approx(1 / 5)  # five samples of 2 ms between two readings
    assert rows["test-a", "hot"]["energy_low"] == rows["test-a", "hot"]["energy_high"] == pytest.approx(1 / 5)
    assert "energy" not in rows["test-a", "cold"]
    device = Metered()
    _, rows, _ = measure(variant("B"), device=device)
    assert np.isnan(rows["test-b", "hot"]["energy"])
    assert device.joules == 0


def test_a_counter_that_stands_still_costs_no_row_and_is_waited_for_once(measure, monkeypatch):
    class Still(HostCuda):
        def energy(self):
            return 7.0

    monkeypatch.setattr(energy, "MAX_WAIT", 1e-3)
    pipe, rows, _ = measure(variant("A"), variant("B"), device=Still(), energy=1e-6)
    assert [row["status"] for row in rows.values()] == ["ok"] * 4
    assert all(np.isnan(rows[key, "hot"]["energy"]) for key in ("test-a", "test-b"))
    assert [index for index, stage in pipe.stages if stage == "measuring energy"] == [0]


def honest(product, x, y, state):
    product()


def skips_while_x_is_the_same(product, x, y, state):
    if np.array_equal(state.get("x"), x) and np.array_equal(state.get("y"), y):
        return 1e-4
    product()
    state["x"], state["y"] = x.copy(), y.copy()
    return None


@pytest.mark.parametrize("mode", ["hot", "cold"])
def test_work_skipped_for_an_unchanged_x_is_detected(measure, mode):
    device = Clocked()
    classes = [timed_variant("Honest", device, 7e-4, honest)]
    classes.append(timed_variant("Skips", device, 7e-4, skips_while_x_is_the_same))
    _, rows, _ = measure(*classes, modes=(mode,), device=device)
    assert rows["test-honest", mode]["status"] == "ok"
    assert rows["test-honest", mode]["t_x_changed"] == pytest.approx(7e-4)
    skips = rows["test-skips", mode]
    assert skips["status"] == "wrong"
    assert "work is skipped" in skips["reason"] and "0.0007 s while x changes" in skips["reason"]
    assert skips["t_median"] == pytest.approx(1e-4)


def test_two_series_slowed_by_another_process_fail_no_format(measure):
    class Neighbour(Clocked):
        """Another process slows down the first two series with a changing x."""

        slowed: ClassVar[list] = []
        series = 0

        def capture(self, program, repeats):
            work = super().capture(program, repeats)
            if len(program.launches) > 1:
                self.series += 1
                if self.series <= 2:
                    self.slowed.append(work)
            return work

        def elapsed(self, work, *, flush=False):
            return super().elapsed(work, flush=flush) * (3 if work in self.slowed else 1)

    device = Neighbour()
    _, rows, _ = measure(timed_variant("Honest", device, 7e-4, honest), modes=("hot",), device=device)
    assert rows["test-honest", "hot"]["status"] == "ok"
    assert device.series == 3


class Capturing(HostCuda):
    """Knows which capture it replays; 0 without a capture."""

    captures = replaying = 0

    def capture(self, program, repeats):
        self.captures += 1
        number = self.captures

        def work():
            self.replaying = number
            for _ in range(repeats):
                program.run()
            self.replaying = 0

        return work


def test_a_call_that_works_only_in_its_first_capture_is_detected(measure):
    device, first = Capturing(), []

    def multiply(product, x, y):
        if device.replaying:
            first.append(device.replaying)
        if device.replaying in (0, first[0] if first else 0):
            product()

    def launches(self, x, y):
        return around(self, x, y, multiply)

    _, rows, _ = measure(variant("Once", launches=launches), device=device, modes=("hot",))
    assert rows["test-once", "hot"]["status"] == "wrong"
    assert rows["test-once", "hot"]["reason"].endswith("(while x changes, hot)")


def test_work_in_making_launches_and_setup_during_the_conversion_count_as_setup(measure):
    def launches(self, x, y):
        began = time.perf_counter()
        while time.perf_counter() < began + 0.01:
            pass
        return Right.launches(self, x, y)

    _, rows, _ = measure(variant("Converts", launches=launches), variant("A", setup_seconds=1.5), modes=("hot",))
    assert rows["test-converts", "hot"]["t_setup"] >= 0.01
    assert rows["test-a", "hot"]["t_setup"] > 1.5


def test_a_conversion_that_loses_an_entry_is_detected_with_any_kernel(measure):
    right = []

    def convert(cls, a, **params):
        right[:] = [a.values]
        found = CsrArrays.convert.__func__(cls, a)
        return found | {"values": np.where(np.arange(a.nnz) == 7, 2 * a.values, a.values)}

    def launches(self, x, y):
        return Right.holding(self.shape, self.arrays() | {"values": right[0]}).launches(x, y)

    Lies = variant("Lies", convert=classmethod(convert), launches=launches)
    _, rows, _ = measure(Lies, variant("A"), modes=("hot",))
    row = rows["test-lies", "hot"]
    assert row["status"] == "wrong"
    assert row["reason"].startswith("the value ") and row["reason"].endswith("(decoded)")
    assert rows["test-a", "hot"]["decoded"] == "yes"


def test_a_matrix_too_large_is_not_decoded(measure, monkeypatch):
    monkeypatch.setattr(stages, "MAX_DECODED_ENTRIES", 199)
    _, rows, _ = measure(variant("A"), modes=("hot",))
    assert rows["test-a", "hot"]["status"] == "ok"
    assert rows["test-a", "hot"]["decoded"] == "no: over 199 entries"


def test_names_of_one_program_have_rates_of_their_own_bytes(measure):
    """On a matrix without entries, formats with and without row pointers run the same program."""
    less = variant("Less", program="p", bytes_read=property(lambda self: self.nbytes - 400))
    _, rows, _ = measure(variant("First", program="p"), less, modes=("hot",))
    one, other = rows["test-first", "hot"], rows["test-less", "hot"]
    assert one["t_median"] == other["t_median"] and one["model_bytes"] == other["model_bytes"] + 400
    for row in (one, other):
        assert row["gbps"] == pytest.approx(1e-9 * row["model_bytes"] / row["t_median"])


def test_all_names_of_a_wrong_program_are_wrong(measure):
    classes = [variant(name, program="p", launches=spoiling) for name in ("First", "Second")]
    _, rows, _ = measure(*classes, modes=("hot",))
    assert {row["status"] for row in rows.values()} == {"wrong"}
    assert rows["test-second", "hot"]["reason"].startswith("runs the program of test-first, y[3] is")


def victim_and_overwriter():
    """Two formats, of which the second sets arrays of the first to 0 after each of its runs but the `innocent` first
    ones, and the x of these runs.
    """
    seen, runs = [], []

    class Victim(Right):
        key = "test-victim"

        def launches(self, x, y):
            seen.append(self.values)
            return around(self, x, y, self.multiply)

        def multiply(self, product, x, y):  # by the arrays as they are
            y[:] = sparse.csr_array((self.values.copy(), self.col_idx, self.row_ptr), shape=self.shape) @ x

    class Zeroes(Right):
        key, innocent = "test-zeroes", 0

        def launches(self, x, y):
            return around(self, x, y, self.overwrite)

        def overwrite(self, product, x, y):
            product()
            runs.append(x)
            if len(runs) > self.innocent:
                for values in seen:  # the arrays that are timed, and the copy whose bits were compared
                    values[...] = 0

    return Victim, Zeroes, runs


@pytest.mark.parametrize("others", range(4))
def test_a_format_that_overwrites_anothers_arrays_is_wrong_and_the_other_is_ok(measure, others):
    """With several rounds the arrays of all formats are on the device; the overwritten formats must stay `ok`."""
    victim, zeroes, _ = victim_and_overwriter()
    second = type("Second", (victim,), {"key": "test-second"})
    alone = (victim, zeroes, variant("A")), (variant("B"), victim, variant("C"), zeroes)
    order = (*alone, (victim, zeroes, second), (zeroes, victim, second))[others]
    _, rows, _ = measure(*order, modes=("hot",))
    found = {key: (row["status"], row.get("reason", "")) for (key, _), row in rows.items()}
    status, reason = found.pop("test-zeroes")
    assert status == "wrong"
    assert reason.startswith("overwrote arrays of test-") and reason.endswith("while timing hot")
    assert {status for status, _ in found.values()} == {"ok"}


@pytest.mark.parametrize(("turn", "together"), [(1, 1), (1, 8), (-1, 8)])
def test_a_format_that_overwrites_anothers_arrays_in_its_last_stage_is_wrong(measure, turn, together, monkeypatch):
    """It comes first in the last round, or when the overwritten format has ended and has no row yet."""
    monkeypatch.setattr(group, "ENDED_TOGETHER", together)
    victim, zeroes, runs = victim_and_overwriter()
    zeroes.innocent = math.inf
    _, rows, _ = measure(*(zeroes, victim)[::turn], modes=("hot",))
    assert {row["status"] for row in rows.values()} == {"ok"}
    zeroes.innocent = len(runs) - 1  # but the last run
    runs.clear()
    _, rows, _ = measure(*(zeroes, victim)[::turn], modes=("hot",))
    assert rows["test-victim", "hot"]["status"] == "ok"
    assert rows["test-zeroes", "hot"]["status"] == "wrong"
    assert rows["test-zeroes", "hot"]["reason"].startswith("overwrote arrays of test-victim")


ROOFS = {"read": [(2**16, 3e-3), (2**30, 2e-1)], "sectors": [(2**16, 1e-12), (2**30, 2e-12)]}
ROOFS |= {"lines": ROOFS["sectors"]}


@pytest.mark.parametrize(("seconds", "status"), [(2.9e-3, "ok"), (2.8e-3, "implausible")])
def test_a_time_shorter_than_reading_the_arrays_is_implausible(measure, seconds, status):
    _, rows, _ = measure(variant("A"), modes=("hot",), device=HostCuda(seconds), facts={"bounds": ROOFS})
    row = rows["test-a", "hot"]
    assert row["status"] == status
    assert row["t_median"] == seconds
    if status != "ok":
        assert row["reason"].startswith("0.0028 s is less than the 0.003 s that reading its arrays and writing y takes")


def test_a_launch_from_a_file_outside_the_source_hash_is_an_error(measure, tmp_path):
    other = tmp_path / "other.cu"
    other.write_text("int other;")

    def launches(self, x, y):
        return [replace(launch, source=str(other)) for launch in Right.launches(self, x, y)]

    _, rows, _ = measure(variant("Hidden", launches=launches), modes=("hot",))
    ((_, row),) = rows.items()
    assert row["status"] == "error"
    assert (
        "test-hidden launches none from" in row["reason"] and "other.cu, which no text in its modules" in row["reason"]
    )


def test_formats_in_preparation_come_last_and_are_waited_for(measure, tmp_path, monkeypatch):
    """Waiting for the process that prepares them is no time of the case."""
    lock = matrix_cache.preparation_lock(tmp_path, MATRIX, 0, False)
    held, waiting, kept, wait = threading.Event(), threading.Event(), Recorder.send, 0.1

    def hold():
        with paths.locked(lock):
            held.set()
            waiting.wait()
            time.sleep(wait)

    def send(self, message):
        kept(self, message)
        if message[0] == "begin" and message[2] == protocol.WAITING and message[1] == 0:
            waiting.set()

    monkeypatch.setattr(Recorder, "send", send)
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    prepared = variant("A", prepare=classmethod(lambda cls, a, **params: None))
    began = time.perf_counter()
    pipe, rows, _ = measure(prepared, variant("B"), modes=("hot",), convert="device", per_host=str(tmp_path))
    spent = time.perf_counter() - began
    holder.join()
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert [index for index, _ in itertools.groupby(index for index, _ in pipe.stages)][:2] == [1, 0]
    assert (1, protocol.WAITING) not in pipe.stages
    assert sum(row["t_case"] for row in rows.values()) < spent - wait


def test_measuring_waits_for_no_answer_until_many_are_missing():
    """Rows of a round come faster than a scheduler takes them."""
    parent, child = Pipe()
    link = protocol.Link(child)

    def sender():
        for number in range(protocol.MAX_UNANSWERED + 1):
            link.row(SimpleNamespace(case_id=str(number)), {})

    thread = threading.Thread(target=sender)
    thread.start()
    found = [parent.recv()[1] for _ in range(protocol.MAX_UNANSWERED)]
    assert found == [str(number) for number in range(protocol.MAX_UNANSWERED)]
    assert not parent.poll(0.05) and thread.is_alive()
    parent.send(True)
    assert parent.recv()[1] == str(protocol.MAX_UNANSWERED)
    thread.join()
    for goes_on in (*[True] * (protocol.MAX_UNANSWERED - 1), False):
        parent.send(goes_on)
    with pytest.raises(protocol.Stop):
        link.settle()


def test_limits_of_a_gpu_that_throttles_are_not_measured():
    launch, rule = Launch("vector.cu", "none", 1, 1, (lambda: None,)), timing.RULES["cuda"]
    rule = replace(rule, budget=1e-6, clock_check=0.0)
    assert device_limits._median(HostCuda(), launch, "cold", rule) == 2e-3
    with pytest.raises(Throttling, match="whenever it works: in all samples of 5 rounds"):
        device_limits._median(Throttled(), launch, "cold", rule)
