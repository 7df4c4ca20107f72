"""The order of stages, retries, failures and rounds, on a device that runs nothing."""

import itertools

import pytest

from spmvbench.devices import DeviceFault, OutOfDeviceMemory, Throttling
from spmvbench.formats import Skip
from spmvbench.measure import changing_x, group, protocol, stages, worker
from spmvbench.measure.failures import COMPILING, Wrong
from tests.measure.recording import Recorder, Recording, Throttled, measure, named, recorded

assert measure and recorded
BEFORE_SAMPLING = [
    "converting on the host", "moving to the device", "converting the integer matrix", COMPILING,
    "checking integer products", "checking many runs", "converting on the device", "decoding", COMPILING, "checking",
    "comparing bits",
]  # fmt: skip
AFTER_SAMPLING = [
    "timing hot while x changes",
    "timing cold while x changes",
    "timing after other work",
    "checking again",
]


def stages_of(pipe, index):
    return [stage for stage, _ in itertools.groupby(stage for of, stage in pipe.stages if of == index)]


def test_the_stages_of_a_format_have_an_order(recorded):
    pipe, rows, device = recorded("A")
    assert stages_of(pipe, 0) == [*BEFORE_SAMPLING, *["timing hot", "timing cold"] * 3, *AFTER_SAMPLING]
    assert {row["status"] for row in rows.values()} == {"ok"}
    compiled = [request[1] for request in device.asked if request[0] == "compile"]
    assert compiled == ["A", "A", "A", "reflect", "reflect+A", "reflect"]  # the third of arrays that were copied
    assert "run" not in {request[0] for request in device.asked[:2]}


def test_formats_are_interleaved_and_rows_follow_the_last_round(recorded):
    pipe, rows, device = recorded("A", "B")
    timing = [(index, stage) for index, stage in pipe.stages if stage in ("timing hot", "timing cold")]
    timing = [key for key, _ in itertools.groupby(timing)]  # the first round also prepares
    one_round = [(0, "timing hot"), (0, "timing cold"), (1, "timing hot"), (1, "timing cold")]
    assert timing == one_round * 3
    assert [m[0] for m in pipe.sent[-4:]] == ["row"] * 4
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert all(row["n_samples"] == 3 for row in rows.values())
    changing = 2 * changing_x.X_CHANGED_PAIRS
    assert device.flushes == 2 * (3 * 2 + changing)  # two formats, three rounds of a warm-up and a sample


FAILURES = [
    (RuntimeError("odd"), "error"), (OutOfDeviceMemory("80 GB asked"), "oom"), (MemoryError("full"), "oom"),
    (Skip("not this"), "skipped"), (DeviceFault("illegal address"), "crashed"), (Wrong("y[3] is 4", 9.0), "wrong"),
]  # fmt: skip
ALL_STAGES = list(dict.fromkeys([*BEFORE_SAMPLING, "timing hot", *AFTER_SAMPLING]))


CASES = [(stage, *FAILURES[(place + shift) % 6]) for place, stage in enumerate(ALL_STAGES) for shift in (0, 1, 3)]
LEFT_OUT = ("converting the integer matrix", "skipped")  # a format that refuses these values goes on without the test


@pytest.mark.parametrize(
    ("stage", "error", "status"), [case for case in CASES if (case[0], case[2]) != LEFT_OUT], ids=str
)
def test_a_failure_in_any_stage_is_the_row_of_its_format_alone(recorded, stage, error, status):
    """Memory that runs out is tried for twice."""
    _, rows, _ = recorded("A", "B", "C", fails={(1, stage): error})
    assert {rows[f"test-{name}", mode]["status"] for name in "ac" for mode in ("hot", "cold")} == {"ok"}
    if stage == COMPILING and status == "crashed":
        status = "error"
    for mode in ("hot", "cold"):
        row = rows["test-b", mode]
        assert (row["status"], str(error) in row["reason"]) == (status, True), row["reason"]


@pytest.mark.parametrize("stage", BEFORE_SAMPLING)
def test_a_format_that_does_not_fit_with_the_others_is_measured_after_them(recorded, stage):
    pipe, rows, _ = recorded("A", "B", "C", modes=("hot",), fails={(1, stage): [MemoryError("full")]})
    assert {row["status"] for row in rows.values()} == {"ok"}
    first_row = next(place for place, message in enumerate(pipe.sent) if message[0] == "row")
    begun = [place for place, message in enumerate(pipe.sent) if message[:3] == ("begin", 1, "converting on the host")]
    assert len(begun) == 2 and begun[0] < first_row < begun[1]
    assert not any(message[:2] == ("begin", 2) for message in pipe.sent[: begun[1]])


@pytest.mark.parametrize("stage", ALL_STAGES)
def test_a_sticky_fault_ends_the_process(recorded, stage):
    with pytest.raises(DeviceFault, match="illegal address"):
        recorded("A", "B", fails={(0, stage): DeviceFault("illegal address", sticky=True)})


def test_names_of_one_program_are_timed_once(measure, recorded):
    first, second, third = named("First"), named("Second"), named("Third")
    first.program = second.program = "p"
    third.program = "q"
    pipe, rows, _ = measure(first, second, third, modes=("hot",), device=Recording())
    timed = {index for index, stage in pipe.stages if stage.startswith("timing")}
    assert timed == {0, 2}
    assert {row["status"] for row in rows.values()} == {"ok"}
    one, other = rows["test-first", "hot"], rows["test-second", "hot"]
    assert one["program"] == other["program"] == "p" != rows["test-third", "hot"]["program"]
    for column in ("t_median", "samples", "gflops", "t_x_changed", "error_ratio"):
        assert one[column] == other[column]
    assert other["decoded"] == "yes" and other["t_convert_device"] != one["t_convert_device"]


def test_a_row_is_written_while_the_next_case_begins(recorded, monkeypatch):
    order, kept = [], Recorder.send
    monkeypatch.setattr(Recorder, "send", lambda self, message: order.append(message[0]) or kept(self, message))
    monkeypatch.setattr(Recorder, "recv", lambda self: order.append("answer") or True)
    monkeypatch.setattr(group, "ENDED_TOGETHER", 1)
    recorded("A", "B", modes=("hot",))
    assert [kind for kind in order if kind in ("row", "answer")] == ["row", "answer", "row"]
    assert "begin" in order[order.index("row") : order.index("answer")]


def test_no_row_follows_a_refusal(recorded, monkeypatch):
    monkeypatch.setattr(Recorder, "recv", lambda self: False)
    sent, kept = [], Recorder.send
    monkeypatch.setattr(Recorder, "send", lambda self, message: sent.append(message[0]) or kept(self, message))
    with pytest.raises(protocol.Stop):
        recorded("A", "B", modes=("hot",))
    assert sent.count("row") == 1


def test_formats_without_a_sample_are_errors_until_the_gpu_is_given_up(recorded, monkeypatch):
    names = "ABCDEFGHIJKL"
    monkeypatch.setattr(stages, "MAX_DISCARDED", 4)
    _, rows, _ = recorded(*names[:3], modes=("hot",), device=Throttled())
    assert {row["reason"].partition(" (")[0] for row in rows.values()} == {
        "RuntimeError while timing hot: every hot sample was discarded: the GPU throttled"
    }
    with pytest.raises(Throttling, match="whenever it works: in all samples of 4 formats one after the other"):
        recorded(*names[3:], modes=("hot",), device=Throttled())


def test_formats_without_a_sample_are_counted_over_matrices(recorded, monkeypatch):
    monkeypatch.setattr(stages, "MAX_DISCARDED", 3)
    previous = worker.PreviousGroup()
    recorded("A", "B", modes=("hot",), device=Throttled(), previous=previous)
    recorded("C", modes=("hot",), device=Recording(), previous=previous)  # has samples: the count begins again
    recorded("D", "E", modes=("hot",), device=Throttled(), previous=previous)
    with pytest.raises(Throttling, match="in all samples of 3 formats one after the other"):
        recorded("F", modes=("hot",), device=Throttled(), previous=previous)
