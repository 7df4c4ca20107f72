"""Whole runs in separate processes: every failure becomes a row, and interrupted runs continue."""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spmvbench import formats
from spmvbench.devices import pseudonym
from spmvbench.errors import SpmvbenchError
from spmvbench.measure.cases import Settings
from spmvbench.rows import store
from spmvbench.runner import driver, plan, session
from spmvbench.runner.spawning import Spawned
from tests.made import Made
from tests.runner.processes import slow_format, until

KERNELS = """
#ifdef SPMVBENCH_EMULATED
extern "C" unsigned sleep(unsigned);  // a kernel of the emulated device is a program of the host
#else
__device__ void sleep(unsigned) {}
#endif
template <int UNUSED> __global__ void hang(double* y) {
  while (true) {
    *static_cast<volatile double*>(y) = 0;
    sleep(1);
  }
}
template <int UNUSED> __global__ void segv(double* y) { *reinterpret_cast<volatile double*>(8) = y[0]; }
template <int UNUSED> __global__ void ones(double* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
"""

FORMATS = """
import os
import signal
from pathlib import Path

import numpy as np

from spmvbench.devices import OutOfDeviceMemory, Throttling
from spmvbench.formats import Launch, Skip, register
from spmvbench.formats.csr.csr import CsrArrays, CsrScalar

KERNELS = str(Path(__file__).with_name("bad.cu"))


class Bad(CsrArrays):
    reference = "none"

    def launches(self, x, y):
        return [Launch(KERNELS, self.kernel, 1, 1, (y,))]


def add(key, base=Bad, **members):
    known = {"reference": "none", "survey_name": "", "key": key, "__module__": __name__}
    register(type(key, (base,), known | members))


def converting(work):
    def convert(cls, a, **params):
        work()
        return super(Bad, cls).convert(a)

    return {"convert": classmethod(convert)}


def raising(error):
    def work():
        raise error

    return converting(work)


def large(size):
    return {"estimate": classmethod(lambda cls, a, **params: size)}


def wrong(self, x, y):
    return [Launch(KERNELS, "ones<0>", 1, 256, (y, np.int32(len(y))))]


def full(cls, a, **params):
    return {"row_ptr": np.empty(1 << 46), "col_idx": a.col_idx, "values": a.values}


class TwoWords(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


add("bad-hang", kernel="hang<0>")
add("bad-segv", kernel="segv<0>")
add("bad-compile", kernel="no_such_kernel<0>")
add("bad-wrong", launches=wrong)
add("bad-memory", convert=classmethod(full))
add("bad-big", **large(10**15))
add("bad-raise", **converting(lambda: {}["missing"]))
add("bad-skip", **raising(Skip("not this one", 123)))
add("bad-killed", **converting(lambda: os.kill(os.getpid(), signal.SIGKILL)))
add("row-endless", **large(float("inf")))
add("row-unprintable", **raising(Skip("not \\udcff this one")))
add("row-no-text", **raising(Skip(TwoWords("pickle", "refuses"))))
add("row-yes", CsrScalar, experiment="yes")


class Good(CsrScalar):
    reference, survey_name = "none", ""

    @classmethod
    def convert(cls, a, **params):
        cls.before(Path(__file__).with_name(cls.key))
        return super().convert(a)


@register
class Once(Good):
    key = "dies-once"

    @classmethod
    def before(cls, died):
        if not died.exists():
            died.touch()
            os.abort()


@register
class ShortAlways(Good):
    key, failures = "short-always", 99

    @classmethod
    def before(cls, processes):
        with processes.open("a+") as file:
            file.seek(0)
            known = set(file.read().split())
            file.write(f" {os.getpid()}")
        if len(known | {str(os.getpid())}) <= cls.failures:
            raise OutOfDeviceMemory("cudaErrorMemoryAllocation", 1_300_000)


@register
class ShortTwice(ShortAlways):
    key, failures = "short-twice", 2


@register
class Throttles(Good):
    key = "dev-throttles"

    @classmethod
    def before(cls, hot):
        if hot.with_name("hot").exists():
            raise Throttling("heat: 345 of 1980 MHz, after 20 s without work")

"""


@pytest.fixture
def bad_formats(tmp_path):
    """Formats and kernels of this test, in its folder."""
    (tmp_path / "bad.cu").write_text(KERNELS)
    (tmp_path / "bad.py").write_text(FORMATS + slow_format())
    return tmp_path / "bad.py"


@pytest.fixture
def environment(bad_formats):
    return os.environ | {"SPMVBENCH_FORMATS": str(bad_formats)}


@pytest.fixture
def begin(spmvbench_run):
    """Starts a run on the emulated device."""
    return lambda *args: spmvbench_run("--device", "emulated", *args)


@pytest.fixture
def run(begin):
    def to_the_end(*args):
        process = begin(*args)
        process.out, process.err = process.communicate()
        return process

    return to_the_end


@pytest.fixture
def run_here(command, tmp_path, monkeypatch):
    """A run whose driver is this process; faster, for tests without formats of their own."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: command("run", "--device", "emulated", *args)


@pytest.fixture
def run_own(run_here, formats_of, bad_formats):
    """The same with the formats of this test, as their file is at the time."""

    def to_the_end(*args):
        formats_of(bad_formats)
        return run_here(*args)

    return to_the_end


def parts(folder):
    """Rows that are not merged yet."""
    return (folder / "rows.jsonl").read_bytes().count(b"\n") if (folder / "rows.jsonl").exists() else 0


def running_workers(folder):
    """Ids of worker processes whose output goes to the folder's log."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/2"):
        try:
            if link.readlink() == folder / "worker.log":
                found.append(int(link.parts[2]))
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_failed_formats_have_rows_and_the_run_continues(run_own, tmp_path):
    formats = "csr-scalar,bad-*,csr-vector,-bad-hang"
    done = run_own("poisson2d:12", "--formats", formats, "--run", "r", "--max-bytes", "1TB")
    rows = store.load(tmp_path / "results" / "r")
    assert len(rows) == 10, done.err
    expected = {
        "csr-scalar": ("ok", ""),
        "csr-vector": ("ok", ""),
        "bad-segv": ("crashed", "killed by SIGSEGV while checking"),
        "bad-killed": ("crashed", "killed by SIGKILL while converting on the host"),
        "bad-wrong": ("wrong", r"^y\[\d+\] is 1, expected \d+ exactly \(exact integer test\)$"),
        "bad-memory": ("oom", "out of memory while converting on the host"),
        "bad-big": ("skipped", "1e\\+03 TB for .* nonzeros, over the limit of 1 TB"),
        "bad-raise": ("error", r"KeyError while converting on the host: 'missing' \(bad\.py:\d+\)"),
        "bad-skip": ("skipped", "^not this one$"),
        "bad-compile": ("error", "(?s)while compiling: .*no_such_kernel"),
    }
    for row in rows.itertuples():
        status, reason = expected[row.label]
        assert row.status == status, (row.label, row.reason)
        assert re.search(reason, row.reason), (row.label, row.reason)
    assert (rows["matrix_sha256"] != "").all()
    assert rows.set_index("label").loc[["bad-skip", "bad-big"], "bytes_needed"].tolist() == [123, 10**15]
    assert (rows.loc[rows["label"] == "bad-wrong", "error_ratio"] > 1).all()
    assert (rows.loc[rows["status"] == "ok", "error_ratio"] <= 1).all()
    assert done.code == 1
    assert "EMULATED" in done.out
    said = re.search(
        "^error: synthetic/poisson2d:12 bad-compile f64 hot: .* does not compile .*", done.out, re.MULTILINE
    )
    assert "no_such_kernel" in said[0]  # the compiler's first error; its whole log is in the run's log
    log = (tmp_path / "results" / "r" / "worker.log").read_text()
    assert rows.set_index("label").loc["bad-compile", "reason"] in log
    assert "6 cases failed; the same command with --retry measures them again." in done.out
    assert "Traceback" not in done.err + done.out
    assert "spmvbench report r" in done.out
    assert running_workers(tmp_path / "results" / "r") == []


@pytest.mark.slow
@pytest.mark.waits
def test_a_case_that_hangs_is_a_timeout_and_the_run_continues(run_own, tmp_path):
    """Every case here hangs: a limit that a busy machine could exceed decides over no other format."""
    done = run_own("poisson2d:12", "poisson2d:13", "--formats", "bad-hang", "--timeout", "3", "--run", "r")
    rows = store.load(tmp_path / "results" / "r")
    assert list(rows["status"]) == ["timeout"] * 2, done.err
    assert rows["reason"].str.startswith("no end after 3 s, while ").all()
    assert done.code == 1
    assert "timeout: synthetic/poisson2d:12 bad-hang f64 hot" in done.out
    assert running_workers(tmp_path / "results" / "r") == []


@pytest.mark.slow
def test_a_case_that_kills_its_worker_is_marked_after_a_second_try_alone(run_own, tmp_path):
    done = run_own("tridiag:20", "--formats", "csr-scalar,dies-once,bad-killed,csr-vector", "--run", "r")
    rows = store.load(tmp_path / "results" / "r").set_index("label")
    statuses = {"csr-scalar": "ok", "dies-once": "ok", "bad-killed": "crashed", "csr-vector": "ok"}
    assert rows["status"].to_dict() == statuses, done.err
    order = rows["started_at"].sort_values().index.tolist()
    assert order.index("dies-once") < order.index("bad-killed") < order.index("csr-vector")


@pytest.mark.slow
def test_a_group_is_measured_again_after_an_allocation_that_failed_far_below_what_is_free(run_own, tmp_path):
    done = run_own("tridiag:20", "--formats", "csr-scalar,short-twice,csr-vector", "--run", "r")
    assert set(store.load(tmp_path / "results" / "r")["status"]) == {"ok"}, done.err
    log = (tmp_path / "results" / "r" / "worker.log").read_text()
    assert log.count("far more was free, another process measures the group") == 2
    done = run_own("tridiag:20", "--formats", "csr-scalar,short-always,csr-vector", "--run", "s")
    rows = store.load(tmp_path / "results" / "s").set_index("label")
    assert rows["status"].to_dict() == {"csr-scalar": "ok", "short-always": "oom", "csr-vector": "ok"}, done.err
    reason = "out of memory while converting the integer matrix: cudaErrorMemoryAllocation"
    assert rows.loc["short-always", "reason"] in (reason, reason.replace("the integer matrix", "on the host"))
    assert len(set(next(tmp_path.rglob("short-always")).read_text().split())) == 3


class DyingWorker:
    """Sends given messages, then dies."""

    def __init__(self, *messages):
        self.messages, self.connection = list(messages), self

    def send(self, message):
        pass

    def receive(self, deadline, limit, stage):
        if self.messages:
            return self.messages.pop(0)
        raise driver.WorkerDied("crashed", f"died while {stage}", driver.MAX_TRIES)

    def has_sent(self):
        return bool(self.messages)


def group_of(text):
    """A group of cases of these formats on a matrix of a test."""
    (group,) = plan.grouped(plan.cross([Made()], formats.parse(text), ["f64"], ["hot"], "emulated", 0))
    return group


@pytest.fixture
def group():
    return group_of("csr-scalar,csr-vector")


@pytest.fixture
def measuring():
    """A driver without workers; `written` and `described` are what it keeps."""
    written, described = [], []
    facts = {"device": "emulated", "properties": {"gpu": "mine"}}
    made = driver.Driver(
        Settings("emulated", timeout=5.0), None, lambda row: not written.append(row), described.append, facts=facts
    )
    made.written, made.described = written, described
    return made


def test_a_group_whose_reading_dies_is_tried_again_and_then_marked(group, measuring):
    reading = ("begin", None, "reading the matrix", 0)
    assert measuring.measure_group(DyingWorker(reading), group) == [group]
    assert not measuring.written
    (alone, rest) = measuring.measure_group(DyingWorker(reading, ("begin", 1, "checking", 0)), group)
    assert [case.format for part in (alone, rest) for case in part.cases] == ["csr-vector", "csr-scalar"]
    assert not measuring.written
    assert measuring.measure_group(DyingWorker(reading), group) == []
    assert [(row["status"], row["reason"]) for row in measuring.written] == [
        ("crashed", "died while reading the matrix")
    ] * 2


class InvalidWorker(DyingWorker):
    """Sends invalid messages and is killed."""

    ended = False
    fault = driver.Worker.fault

    def kill(self):
        self.ended = True


OK, VALID = {"status": "ok"}, ("begin", 0, "checking", 0)
INVALID = {
    "a row of an unknown case": ("row", "0123456789abcdef", OK),
    "a row of what is no text": ("row", ["x"], OK),
    "a row of no columns": ("row", "FIRST", None),
    "a row of an unknown column": ("row", "FIRST", OK | {"colour": "red"}),
    "a row of an unknown status": ("row", "FIRST", {"status": "fine"}),
    "a row of a status that is a list": ("row", "FIRST", {"status": []}),
    "a short row": ("row", "FIRST"),
    "a long row": ("row", "FIRST", OK, OK),
    "a kind that there is not": ("hello",),
    "a format that there is not": ("begin", 2, "checking", 0),
    "a format from behind": ("begin", -1, "checking", 0),
    "half a format": ("begin", 0.0, "checking", 0),
    "a stage that is no text": ("begin", 0, None, 0),
    "a place in the log before it": ("begin", 0, "checking", -1),
    "a matrix that is none": ("matrix", 7),
    "a matrix of unknown columns": ("matrix", {"colour": "red"}),
    "a description without a hash": ("description", {"down": 1}),
    "a description with a hash that is none": ("description", {"matrix_sha256": []}),
    "a description of unknown columns": ("description", {"matrix_sha256": "x", "colour": "red"}),
    "an end before all is done": ("done",),
    "a fault without a reason": ("broken",),
    "a failed allocation without a reason": ("again",),
}


@pytest.mark.parametrize("invalid", INVALID)
def test_an_invalid_message_marks_only_the_running_case(group, measuring, invalid):
    """The running case is tried once more, alone, then marked; the other is measured."""
    first, second = group.cases
    message = tuple(first.case_id if part == "FIRST" else part for part in INVALID[invalid])
    written = measuring.written
    worker = InvalidWorker(VALID, message, ("row", second.case_id, OK), ("done",))
    alone, rest = measuring.measure_group(worker, group)
    assert worker.ended and not written and not measuring.described
    assert (alone.cases, rest.cases) == ([first], [second])
    assert measuring.measure_group(InvalidWorker(VALID, message), alone) == []
    assert measuring.measure_group(InvalidWorker(VALID, ("row", second.case_id, OK), ("done",)), rest) == []
    assert [(row["case_id"], row["status"]) for row in written] == [(first.case_id, "crashed"), (second.case_id, "ok")]
    assert re.fullmatch("the worker sent (an?|that) .*, while checking", written[0]["reason"])


def test_a_group_is_given_to_as_many_processes_as_it_may_have(group, measuring):
    first, second = group.cases
    left = [group]
    for processes in (1, 0):
        left = measuring.measure_group(AgainWorker(VALID, ("again", "while timing")), left[0])
        assert left == [replace(group, processes=processes)]
    alone, rest = measuring.measure_group(InvalidWorker(VALID, ("again", "while timing")), left[0])
    assert (alone.cases, rest.cases) == ([first], [second])


class AgainWorker(DyingWorker):
    ended = staticmethod(lambda: 0)


def test_rows_that_were_sent_before_a_stop_are_written(group, measuring):
    first, second = group.cases
    written = []
    measuring.write = lambda row: written.append(row["case_id"])  # returns None: stop
    rows = [("row", case.case_id, OK) for case in (first, second)]
    assert measuring.measure_group(InvalidWorker(VALID, rows[0], ("begin", 1, "checking", 0), rows[1]), group) == []
    assert written == [first.case_id, second.case_id] and measuring.stopped
    assert [part.cases for part in measuring.measure_group(InvalidWorker(rows[0]), group)] == [[second]]


def test_what_a_worker_calls_an_experiment_is_one(group, measuring):
    for columns in ({}, {"experiment": True, "timed_by": "host"}, {"label": "another"}):
        measuring.row(group.cases[0], OK | columns)
    assert [row["experiment"] for row in measuring.written] == [False, True, False]


@pytest.mark.parametrize(("users", "seen"), [(None, "false"), ("true", "true")])
def test_a_library_leaves_the_devices_memory_to_other_formats_unless_the_user_says_otherwise(monkeypatch, users, seen):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.delenv(name, raising=False)
    if users:
        monkeypatch.setenv(name, users)
    sends = "import os, sys; from multiprocessing.connection import Connection; "
    worker = Spawned("emulated", ("-c", f"{sends}Connection(int(sys.argv[2])).send(os.environ[{name!r}])"))
    assert worker.connection.poll(60)
    assert worker.connection.recv() == seen
    worker.kill()


def test_what_a_worker_has_sent_is_known_without_waiting(tmp_path):
    """Half a message is none, nor is the end of a worker."""
    content = b"\0\0\0\x05ab"
    program = "-S", "-c", WRITES.format(first=READY, content=content)
    with open(tmp_path / "log", "wb") as log:
        worker = driver.Worker(Settings("emulated"), log, Spawned("emulated", program))
        worker.wait()
        until(lambda: not worker.has_sent() and len(worker.inbox.buffer) == len(content))
        worker.kill()
    assert not worker.has_sent()


def test_a_second_row_of_a_case_is_invalid_and_the_first_is_kept(group, measuring):
    first, second = group.cases
    row = "row", first.case_id, OK
    assert [part.cases for part in measuring.measure_group(InvalidWorker(VALID, row, row), group)] == [[second]]
    assert [row["case_id"] for row in measuring.written] == [first.case_id]


def test_the_identity_of_a_row_comes_from_its_case(group, measuring):
    first, second = group.cases
    other = {"case_id": second.case_id, "label": "best", "name": "other", "device": "cuda:0", "gpu": "yours", "nnz": 5}
    rows = [("row", case.case_id, OK | other) for case in group.cases]
    about = ("description", {"matrix_sha256": "x", "group": "H", "name": "n"})
    assert measuring.measure_group(InvalidWorker(VALID, about, *rows, ("done",)), group) == []
    assert [(row["case_id"], row["label"], row["name"]) for row in measuring.written] == [
        (first.case_id, "csr-scalar", "m"),
        (second.case_id, "csr-vector", "m"),
    ]
    assert {(row["device"], row["gpu"], row["nnz"]) for row in measuring.written} == {("emulated", "mine", 5)}
    assert measuring.described == [{"matrix_sha256": "x", "group": "G", "name": "m"}]


WRITES = """
import os, sys, time
from multiprocessing.connection import Connection
pipe = Connection(int(sys.argv[2]))
os.read(pipe.fileno(), 1)  # the log
pipe.recv_bytes()
{first}
os.write(pipe.fileno(), {content})
time.sleep(600)
"""
READY = 'pipe.send(("ready", {}))'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "died"),
    [
        (b"\0\0\0\x05abcde", ("crashed", "the worker sent a message that cannot be read (UnpicklingError), while")),
        (b"\0\0\0\x03K\x01.", ("crashed", "the worker sent an unknown message, while checking")),
        (b"\0\0\0\x02).", ("crashed", "the worker sent an unknown message, while checking")),
        (b"\0\0\0\0", ("crashed", "the worker sent a message that cannot be read (EOFError), while checking")),
        (b"\x7f\xff\xff\xff", ("crashed", "the worker sent an unknown message, while checking")),
        (b"\xff\xff\xff\xff", ("crashed", "the worker sent an unknown message, while checking")),
        (b"\0\0\0\x05ab", ("timeout", "no end after 0.1 s, while checking")),
        (b"\0", ("timeout", "no end after 0.1 s, while checking")),
    ],
)
def test_invalid_bytes_end_the_wait(tmp_path, content, died):
    program = "-S", "-c", WRITES.format(first=READY, content=content)
    with open(tmp_path / "log", "wb") as log:
        worker = driver.Worker(Settings("emulated"), log, Spawned("emulated", program))
        worker.wait()
        until(lambda: worker.inbox.buffer or worker.connection.poll())
        with pytest.raises(driver.WorkerDied, match=re.escape(died[1])) as raised:
            worker.receive(time.monotonic() + 0.1, 0.1, "checking")
    assert raised.value.status == died[0]
    assert worker.process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("first", ['pipe.send("ready")', 'pipe.send(("ready", 1))', 'pipe.send(("refused", 1, 1))'])
def test_a_worker_that_begins_with_an_invalid_message_did_not_start(tmp_path, first):
    program = "-S", "-c", WRITES.format(first=first, content=b"")
    with (
        open(tmp_path / "log", "wb") as log,
        pytest.raises(SpmvbenchError, match="the measuring process did not start"),
    ):
        driver.Worker(Settings("emulated"), log, Spawned("emulated", program)).wait()


def test_a_worker_that_closes_its_pipe_and_continues_is_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(driver, "EXIT_LIMIT", 0.1)
    program = "-c", WRITES.format(first=READY, content=b"").replace("os.write(pipe.fileno(), b'')", "pipe.close()")
    with open(tmp_path / "log", "wb") as log:
        worker = driver.Worker(Settings("emulated"), log, Spawned("emulated", program))
        worker.wait()
        with pytest.raises(driver.WorkerDied, match=r"closed its pipe while checking, and did not end in 0\.1 s"):
            worker.receive(time.monotonic() + 3600, 3600, "checking")
    assert worker.process.returncode == -signal.SIGKILL


def test_waiting_for_other_conversions_does_not_count_as_time_of_the_case(measuring, monkeypatch):
    """Also: a case whose worker was killed is tried twice more."""
    clock = [100.0]
    monkeypatch.setattr(driver.time, "monotonic", lambda: clock[0])
    group = group_of("csr-scalar")
    (case,) = group.cases
    asked, written = [], measuring.written

    class SlowWorker(DyingWorker):
        def receive(self, deadline, limit, stage):
            asked.append((stage, deadline - clock[0], limit))
            clock[0] += 1000 if stage == driver.WAITING else 1
            return super().receive(deadline, limit, stage)

    stages = ("converting on the host", driver.WAITING, "converting on the host", "checking")
    messages = [("begin", 0, stage, 0) for stage in stages]
    measuring.measure_group(SlowWorker(*messages, ("row", case.case_id, {"status": "ok"}), ("done",)), group)
    assert [row["status"] for row in written] == ["ok"]
    assert asked[2:5] == [
        (driver.WAITING, driver.READ_LIMIT - 1, driver.READ_LIMIT),
        ("converting on the host", 4.0, 5.0),
        ("checking", 3.0, 5.0),
    ]
    monkeypatch.setattr(driver, "MAX_TRIES", driver.MAX_TRIES_IF_KILLED)  # the number of tries of DyingWorker
    for again in ([group], [group], []):
        assert measuring.measure_group(DyingWorker(messages[0]), group) == again
    assert [row["status"] for row in written] == ["ok", "crashed"]


@pytest.mark.slow
def test_rows_that_cannot_be_stored_are_errors_and_the_run_continues(run_own, tmp_path):
    args = ["poisson2d:12", "--formats", "row-endless,row-unprintable,row-no-text,row-yes,csr-scalar", "--run", "r"]
    done = run_own(*args)
    assert done.code == 1 and "4 cases failed" in done.out, done.err
    rows = store.load(tmp_path / "results" / "r").set_index("label")
    assert rows.loc["csr-scalar", "status"] == "ok"
    words = {
        "row-endless": r"bytes_needed inf; the case was skipped: inf TB",
        "row-unprintable": r"reason 'not \udcff this one'; the case was skipped",
        "row-no-text": r"reason TwoWords('pickle and refuses')",
        "row-yes": r"experiment 'yes'; the case was ok",
    }
    for label, said in words.items():
        assert rows.loc[label, "status"] == "error"
        assert said in rows.loc[label, "reason"]
    assert "5 measured already, 0 to measure" in run_own(*args).out


@pytest.mark.gpu
@pytest.mark.timing  # bounds measured beside other work are too low, and rows then implausible
def test_failed_formats_on_a_gpu_have_rows_and_the_run_continues(run, tmp_path):
    args = ("poisson2d:12", "--device", "cuda:0", "--mode", "hot", "--run", "r", "--max-bytes", "1TB")
    assert run(*args, "--formats", "bad-hang", "--timeout", "20").returncode == 1
    done = run(*args, "--formats", "csr-scalar,bad-segv,bad-wrong,bad-memory,bad-compile,csr-vector")
    rows = store.load(tmp_path / "results" / "r").set_index("label")
    assert rows["status"].to_dict() == {
        "csr-scalar": "ok",
        "csr-vector": "ok",
        "bad-hang": "timeout",
        "bad-segv": "crashed",
        "bad-wrong": "wrong",
        "bad-memory": "oom",
        "bad-compile": "error",
    }, done.err
    assert "illegal" in rows.loc["bad-segv", "reason"].lower()
    assert done.returncode == 1
    assert running_workers(tmp_path / "results" / "r") == []


MATRICES = [f"tridiag:{n}" for n in range(20, 28)]


@pytest.mark.slow
def test_a_killed_run_continues_and_has_the_rows_of_a_complete_one(begin, held, run_own, tmp_path):
    args = [*MATRICES, "--formats", "slow,csr-vector", "--run"]
    whole, broken = tmp_path / "results" / "whole", tmp_path / "results" / "broken"
    held(5)
    process = begin(*args, "broken")
    until(lambda: parts(broken) >= 5)
    process.kill()
    process.communicate()
    until(lambda: not running_workers(broken))  # the worker does not outlive its parent
    before = store.measured(broken)
    assert 5 <= len(before) < 16
    held()
    assert run_own(*args, "whole").code == 0

    finished = run_own(*args, "broken")
    assert finished.code == 0
    assert f"{len(before)} measured already, {16 - len(before)} to measure" in finished.out
    rows = store.load(broken)
    assert sorted(rows["case_id"]) == sorted(store.load(whole)["case_id"])
    assert not rows["case_id"].duplicated().any()
    assert (rows["status"] == "ok").all()
    assert parts(broken) == 0
    hashes = [sorted(store.matrices(folder)["matrix_sha256"]) for folder in (broken, whole)]
    assert hashes[0] == hashes[1] == sorted(set(rows["matrix_sha256"]))
    assert len(store.environment(broken)["sessions"]) == 2

    assert "0 to measure" in run_own(*args, "broken").out
    assert len(store.environment(broken)["sessions"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_current_case(begin, held, run_own, tmp_path, number):
    args = [*MATRICES, "--formats", "slow", "--run", "r"]
    folder = tmp_path / "results" / "r"
    process = begin(*args)
    until(lambda: parts(folder) >= 1)
    process.send_signal(number)
    held()
    _, err = process.communicate()
    assert process.returncode == 130
    assert "The same command continues" in err
    assert 1 <= len(store.load(folder)) < 8
    assert running_workers(folder) == []

    assert run_own(*args).code == 0
    assert len(store.load(folder)) == 8


@pytest.mark.slow
def test_a_second_signal_stops_at_once(begin, tmp_path):
    process = begin("tridiag:20", "--run", "r", "--formats", "bad-hang")
    folder = tmp_path / "results" / "r"
    until(lambda: (folder / "run.json").exists())
    process.send_signal(signal.SIGINT)
    # Two signals at the same time would count as one.
    assert any("a second signal stops at once" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith("Stopped.\n")
    assert running_workers(folder) == []


@pytest.mark.slow
def test_a_second_run_on_the_same_folder_is_refused_in_one_line(begin, held, run_own, tmp_path):
    args = [*MATRICES, "--formats", "slow", "--run", "r"]
    first = begin(*args)
    until(lambda: parts(tmp_path / "results" / "r") >= 1)
    second = run_own(*args)
    assert second.code == 1
    assert second.err.count("\n") == 1
    assert f"process {first.pid}" in second.err
    assert run_own(*args, "--dry-run").code == 0
    held()
    first.communicate()
    assert first.returncode == 0


@pytest.mark.slow
def test_damaged_and_changed_cases_are_measured_again(run_own, tmp_path, bad_formats):
    args = ["tridiag:30", "--formats", "csr-scalar,bad-skip,slow", "--run", "r"]
    folder = tmp_path / "results" / "r"
    assert run_own(*args).code == 0
    first = store.load(folder).set_index("label")

    bad_formats.write_text(bad_formats.read_text() + "changed = True\n")
    (folder / "rows.jsonl").write_text("{}\n")
    again = run_own(*args)
    assert "1 measured already, 2 to measure" in again.out
    assert f"line 1 of {Path('results/r/rows.jsonl')}" in again.err
    second = store.load(folder).set_index("label")
    assert len(second) == 3
    assert second.loc["csr-scalar", "started_at"] == first.loc["csr-scalar", "started_at"]
    assert second.loc["slow", "started_at"] > first.loc["slow", "started_at"]
    assert second.loc["slow", "source_hash"] != first.loc["slow", "source_hash"]

    fresh = run_own(*args, "--fresh")
    assert "3 to measure" in fresh.out
    (aside,) = (tmp_path / "results").glob("r.before-*")
    assert sorted(store.load(aside)["case_id"]) == sorted(store.load(folder)["case_id"])


@pytest.mark.slow
def test_a_device_that_throttles_without_end_ends_the_run_and_no_case_is_marked(run_own, tmp_path):
    args = "tridiag:20", "--formats", "csr-scalar,dev-throttles,ell", "--device", "emulated", "--run", "r"
    (tmp_path / "hot").touch()
    result = run_own(*args)
    assert result.code == 1 and "Traceback" not in result.err
    assert "Error: the GPU throttles (heat: 345 of 1980 MHz, after 20 s without work), so that" in result.err
    before = store.load(tmp_path / "results" / "r")
    assert list(before["format"]) == ["csr-scalar"] and set(before["status"]) == {"ok"}
    (tmp_path / "hot").unlink()
    assert run_own(*args).code == 0
    after = store.load(tmp_path / "results" / "r")
    assert sorted(after["format"]) == ["csr-scalar", "dev-throttles", "ell"] and set(after["status"]) == {"ok"}
    assert after.set_index("format")["started_at"]["csr-scalar"] == before["started_at"][0]
    assert all(session["ended"] for session in store.environment(tmp_path / "results" / "r")["sessions"])


@pytest.mark.slow
def test_failed_cases_are_measured_again_on_demand(run_own, tmp_path):
    args = ["tridiag:30", "--formats", "csr-scalar,bad-skip,bad-raise", "--run", "r"]
    first, second = run_own(*args), run_own(*args)
    assert "1 case failed" in first.out
    assert "3 measured already, 0 to measure" in second.out
    before = store.load(tmp_path / "results" / "r").set_index("label")
    assert "2 measured already, 1 to measure" in run_own(*args, "--retry").out
    after = store.load(tmp_path / "results" / "r").set_index("label")
    assert len(after) == 3
    assert after.loc["bad-raise", "started_at"] > before.loc["bad-raise", "started_at"]
    assert after.loc["csr-scalar", "started_at"] == before.loc["csr-scalar", "started_at"]


@pytest.mark.slow
def test_a_case_skipped_for_its_size_is_measured_with_a_larger_limit(run_own, tmp_path):
    args = ["poisson2d:12", "--formats", "csr-scalar,bad-skip,bad-big", "--run", "r", "--max-bytes"]
    assert "0 measured already" not in run_own(*args, "5kB").out
    rows = store.load(tmp_path / "results" / "r").set_index("label")
    assert rows.loc["csr-scalar", ["status", "bytes_limit"]].tolist() == ["skipped", 5000]
    assert "3 measured already, 0 to measure" in run_own(*args, "6kB").out
    assert "1 measured already, 2 to measure" in run_own(*args[:-1]).out  # the device's limit, which the rows store
    rows = store.load(tmp_path / "results" / "r").set_index("label")
    assert rows["status"].to_dict() == {"bad-skip": "skipped", "bad-big": "skipped", "csr-scalar": "ok"}
    assert "3 measured already, 0 to measure" in run_own(*args[:-1]).out
    assert "2 measured already, 1 to measure" in run_own(*args, "1000TB", "--dry-run").out


KILL_AT_THE_END = """
import os, signal, sys
from spmvbench import cli
from spmvbench.rows import files
write = files.write
def killed(table, layout, file):
    if layout is files.CASES:
        os.kill(os.getpid(), signal.SIGKILL)
    write(table, layout, file)
files.write = killed
cli.main(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_run_killed_while_merging_rows_merges_them_later(run_here, tmp_path):
    args = ["tridiag:30", "--formats", "csr-scalar", "--run", "r"]
    command = [sys.executable, "-c", KILL_AT_THE_END, "run", "--device", "emulated", *args]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == -signal.SIGKILL
    assert parts(tmp_path / "results" / "r") == 1
    again = run_here(*args)
    assert "1 measured already, 0 to measure" in again.out
    assert parts(tmp_path / "results" / "r") == 0
    printed = re.search(r"^Rows: (.*)$", again.out, re.M)[1]
    assert (tmp_path / printed).is_file()


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["removed", pytest.param("moved", marks=pytest.mark.slow)])
def test_a_removed_folder_ends_the_run_in_one_line(begin, held, tmp_path, gone):
    folder = tmp_path / "results" / "r"
    process = begin(*MATRICES, "--formats", "slow", "--run", "r")
    until(lambda: parts(folder) >= 1)
    folder.rename(tmp_path / "elsewhere")
    if gone == "removed":
        shutil.rmtree(tmp_path / "elsewhere")
    _, err = process.communicate()
    assert process.returncode == 1
    # Above it may be lines that say how far the run is.
    assert err.splitlines()[-1] == (
        "Error: results/r was removed or moved while the run wrote into it: run the command again to start anew"
    )
    assert not folder.exists()


@pytest.mark.slow
def test_a_matrix_that_cannot_be_read_gives_a_row_for_each_case(run_here, tmp_path):
    (tmp_path / "broken.mtx").write_text("%%MatrixMarket matrix coordinate real general\n3 3 9\n1 1 1.0\n")
    (tmp_path / "complex.mtx").write_text("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1.0 2.0\n")
    done = run_here("broken.mtx", "complex.mtx", "tridiag:9", "--formats", "ell,csr-scalar", "--run", "r")
    assert done.code == 1, done.err  # files that the user named were not measured
    rows = store.load(tmp_path / "results" / "r")
    assert rows.groupby("name")["status"].agg(set).to_dict() == {
        "broken.mtx": {"error"},
        "complex.mtx": {"error"},
        "tridiag:9": {"ok"},
    }
    assert rows.loc[rows["name"] == "complex.mtx", "reason"].str.contains("complex").all()
    assert done.out.count("not read: ") == 2
    assert "1/1" in done.out  # a matrix that cannot be read does not count
    done = run_here("complex.mtx", "--formats", "ell,csr-scalar", "--run", "r", "--real-part")
    assert "2 to measure" in done.out
    rows = store.load(tmp_path / "results" / "r")
    assert (rows.loc[rows["name"] == "complex.mtx", "status"] == "ok").all()
    assert len(rows) == 6


@pytest.mark.slow
def test_columns_of_a_measured_case(run_here, tmp_path):
    run_here("pde:6", "--formats", "hyb,cusparse-csr-alg1", "--dtype", "f64,f32", "--mode", "hot,cold", "--run", "r")
    rows = store.load(tmp_path / "results" / "r")
    assert len(rows) == 8
    skipped = rows[(rows["mode"] == "cold") | (rows["format"] != "hyb")]
    assert (skipped["status"] == "skipped").all()
    assert set(skipped["reason"]) == {
        "the emulated device has no cache to flush",
        "runs on cuda only",
    }
    for dtype, row in rows[rows["status"] == "ok"].set_index("dtype").iterrows():
        itemsize = {"f64": 8, "f32": 4}[dtype]
        assert (row["rows"], row["cols"], row["nnz"]) == (216, 216, 1296)
        assert row["t_q1"] <= row["t_median"] <= row["t_q3"]
        assert row["n_samples"] == len(row["samples"]) >= 1
        assert row["gflops"] == pytest.approx(2 * row["nnz"] / row["t_median"] / 1e9)
        assert row["model_bytes"] == row["bytes_format"] + 2 * 216 * itemsize
        assert row["gbps"] == pytest.approx(row["model_bytes"] / row["t_median"] / 1e9)
        assert row["bytes_per_nnz"] == row["bytes_format"] / row["nnz"]
        assert row["error_ratio"] <= 1
        assert row["launches"] >= 1
        assert row["t_convert_host"] > 0
        assert row["t_case"] > row["t_convert_host"]
        assert (row["run_id"], row["device"], row["op"]) == ("r", "emulated", "spmv")
        assert (row["gpu"], row["host"]) == ("", pseudonym(platform.node()))
    (matrix,) = store.matrices(tmp_path / "results" / "r").to_dict("records")  # one, for both types
    assert matrix["matrix_sha256"] == rows["matrix_sha256"][0]
    assert (matrix["group"], matrix["name"]) == ("synthetic", "pde:6")
    assert dict(zip(matrix["row_lengths"], matrix["row_counts"], strict=True)) == {4: 8, 5: 48, 6: 96, 7: 64}
    assert len(matrix["density"]) == matrix["down"] * matrix["across"] == 128**2
    environment = store.environment(tmp_path / "results" / "r")
    assert environment["launch_overhead"]["hot"] > 0
    assert environment["device"] == "emulated"
    assert environment["ended"] > environment["started"] > environment["process_started"]
    assert environment["rows"] == 8
    assert {"numpy", "scipy"} <= set(environment["packages"])


def test_metadata_have_a_hash_of_the_package(monkeypatch, tmp_path):
    def hashed(text):
        kernels = tmp_path / "kernels"
        kernels.mkdir(exist_ok=True)
        (kernels / "a.cu").write_text(text)
        monkeypatch.setattr(session.paths, "kernels", lambda: kernels)
        return session.package_hash()

    assert session.host()["package"] == session.package_hash()
    assert hashed("// 1") != hashed("// 2")
    assert hashed("// 1") == hashed("// 1")
