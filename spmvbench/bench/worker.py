"""The measuring process: one per device, replaced when a case kills it.

It answers over a pipe. Parent to worker: Settings, then Groups, then None; after every row whether to go on.
Worker to parent, tuples: ("ready", facts of the device) or ("refused", message, exit code) at the start; then
("begin", index of the format in its group or None, stage, length of the log), ("matrix", columns),
("description", columns of bench.record.MATRIX_COLUMNS), ("row", case_id, columns), ("done",); ("broken",) before it
ends because the device can no longer be used.
What it knows of a case is sent at once, so that the parent can write the row of a case that did not survive.
"""

from __future__ import annotations

import ctypes
import faulthandler
import hashlib
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.bench import timing, verify
from spmvbench.bench.plan import DEFAULT_MODES, DTYPES, Case, Group, Settings
from spmvbench.collection import Matrix
from spmvbench.collection.features import description, features
from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory, Program, open_device
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Csr, Format, Launch, Skip
from spmvbench.formats.arrays import cdiv
from spmvbench.store import now

COMPILING = "compiling"


class _Stop(Exception):
    """The parent wants no more rows."""


class _Wrong(Exception):
    """A check failed: the verdict."""


class _Link:
    """The worker's end of the pipe; remembers the stage for the reason of a failure."""

    def __init__(self, connection: Connection):
        self.connection = connection
        self.stage = ""

    def begin(self, index: int | None, stage: str) -> None:
        self.stage = stage
        self.connection.send(("begin", index, stage, os.fstat(sys.stderr.fileno()).st_size))

    def row(self, case: Case, columns: dict[str, Any]) -> None:
        """Send a row and wait until it is on disk."""
        self.connection.send(("row", case.case_id, columns))
        if not self.connection.recv():
            raise _Stop


@dataclass
class _Turns:
    """One format of a group: what is known of it so far, and what its next turn needs."""

    index: int
    cases: list[Case]
    columns: dict[str, Any]
    fmt: Format | None = None
    program: Program | None = None
    parts: dict[str, list[Launch | Call]] = field(default_factory=dict)
    series: dict[str, timing.Series] = field(default_factory=dict)
    error_ratio: float = math.nan
    failure: dict[str, Any] | None = None
    broke_device: bool = False
    seconds: float = 0.0


@dataclass
class _Bench:
    """What the cases of a group share: the device, the matrix, x and y on the device, the right answers."""

    link: _Link
    device: Device
    settings: Settings
    floors: dict[str, float]
    rule: timing.Rule
    a: Csr
    device_a: Csr
    x: Any
    y: Any
    checks: list[tuple[Any, verify.Reference]]

    def attempt(self, turns: _Turns, step: Callable[[_Turns], None]) -> bool:
        """One turn of a format. Whatever it raises becomes its failure; False then."""
        began = time.perf_counter()
        try:
            step(turns)
        except _Wrong as wrong:
            turns.failure = {"status": "wrong", "reason": str(wrong)}
        except Exception as error:
            turns.failure = _failure(error, self.link.stage)
            turns.broke_device = isinstance(error, DeviceFault) and error.sticky
        finally:
            turns.seconds += time.perf_counter() - began
        return turns.failure is None

    def load(self, turns: _Turns) -> None:
        """Convert, move, compile and check: all that comes before the first sample."""
        case, columns = turns.cases[0], turns.columns
        cls, begin = formats.get(case.format), lambda stage: self.link.begin(turns.index, stage)
        limit = self.settings.max_bytes or self.device.default_max_bytes

        on_host, on_device = self.settings.convert == "both", self.device.kind == "cuda"
        begin("converting on the host" if on_host else "converting on the device")
        cls.refuse_beyond(limit, self.a if on_host else self.device_a.fresh(), **case.params)
        if on_host:
            a = self.a.fresh()  # row numbers or diagonals that another format has asked for would be had for nothing
            fmt, columns["t_convert_host"] = _timed(lambda: cls.from_csr(a, **case.params))
        if on_host and on_device:
            begin("moving to the device")
            columns["t_transfer"] = self._transfer(fmt)
            del fmt
            begin("converting on the device")
        if on_device:
            fmt = self._convert_on_device(cls, case, columns)
        columns |= {
            "bytes_format": fmt.nbytes,
            "bytes_per_nnz": fmt.nbytes / self.a.nnz if self.a.nnz else math.nan,
            "bytes_arrays": json.dumps({name: array.nbytes for name, array in fmt.arrays().items()}),
            "model_bytes": fmt.nbytes + self.x.nbytes + self.y.nbytes,
            "detail": json.dumps(fmt.detail, default=float) if fmt.detail else "",
        }

        begin(COMPILING)
        launches, setup = _timed(lambda: fmt.launches(self.x, self.y))
        vendor = any(isinstance(launch, Call) for launch in launches)
        if vendor:  # the first time also loads the library
            launches, setup = _timed(lambda: fmt.launches(self.x, self.y))
        turns.fmt, turns.program, turns.parts = fmt, self.device.compile(launches), by_part(launches)
        columns |= {
            "launches": len(launches),
            "t_setup": (setup if vendor else 0.0) + fmt.setup_seconds,
            "t_compile": turns.program.compile_seconds,
            "bytes_workspace": workspace(launches, [self.x, self.y, *fmt.arrays().values()]),
        }

        begin("checking")
        self.check(turns, "before timing")

    def _transfer(self, fmt: Format) -> float:
        def move() -> list[Any]:
            moved = [self.device.to_device(array) for array in fmt.arrays().values()]
            self.device.synchronize()
            return moved

        return _timed(move)[1]

    def _convert_on_device(self, cls: type[Format], case: Case, columns: dict[str, Any]) -> Format:
        """Twice: the first compiles CuPy's own kernels and fills its memory pool, the second is timed."""

        def convert() -> Format:
            fmt = cls.from_csr(self.device_a.fresh(), **case.params)
            self.device.synchronize()
            return fmt

        convert()
        self.device.reset_memory_peak()
        held = self.device.memory_peak() or 0
        fmt, columns["t_convert_device"] = _timed(convert)
        columns["bytes_peak"] = (self.device.memory_peak() or 0) - held + self.device_a.nbytes
        return fmt

    def check(self, turns: _Turns, when: str) -> None:
        assert turns.fmt is not None and turns.program is not None
        verdict = verify.run_and_judge(turns.fmt, turns.program, self.device, self.x, self.y, self.checks)
        turns.error_ratio = max(verdict.ratio, 0.0 if math.isnan(turns.error_ratio) else turns.error_ratio)
        if not verdict.right:
            raise _Wrong(f"{verdict} ({when})")

    def sample(self, turns: _Turns) -> None:
        """One round of samples in every mode."""
        assert turns.program is not None
        for case in turns.cases:
            self.link.begin(turns.index, f"timing {case.mode}")
            if case.mode not in turns.series:
                turns.series[case.mode] = timing.prepare(turns.program, self.device, case.mode, self.rule)
            timing.take_round(turns.series[case.mode], self.device, self.rule)

    def time_parts(self, turns: _Turns) -> None:
        """Every named part by itself, hot, in a tenth of a case's time. y holds anything afterwards."""
        rule = replace(self.rule, rounds=1, budget=self.rule.budget / 10)
        seconds = {}
        for part, launches in turns.parts.items():
            self.link.begin(turns.index, f"timing {part}")
            series = timing.prepare(self.device.compile(launches), self.device, "hot", rule)
            timing.take_round(series, self.device, rule)
            if series.seconds:
                seconds[part] = timing.summary(series)["t_median"]
        turns.columns["t_parts"] = json.dumps(seconds)

    def finish(self, turns: _Turns) -> None:
        """The last round's end: the answers are still right, and samples were kept."""
        if turns.parts and "hot" in turns.series:
            self.time_parts(turns)
        self.link.begin(turns.index, "checking again")
        self.check(turns, "after timing")
        lost = [mode for mode, series in turns.series.items() if not series.seconds]
        if lost:
            raise RuntimeError(f"every {' and '.join(lost)} sample was thrown away: the device lowered its clocks")

    def report(self, turns: _Turns) -> None:
        """Send the rows of one format, measured or failed, and let go of its memory."""
        turns.fmt = turns.program = None
        turns.parts.clear()
        for case in turns.cases:
            row = turns.columns | {"t_case": turns.seconds / len(turns.cases), "error_ratio": turns.error_ratio}
            series = turns.series.get(case.mode)
            if series is not None and series.seconds:
                row |= timing.summary(series)
                median = row["t_median"]
                if median > 0:
                    row |= {"gflops": 2e-9 * self.a.nnz / median, "gbps": 1e-9 * row["model_bytes"] / median}
                row["near_launch_floor"] = median < 2 * self.floors[case.mode]
            if case.mode != "hot":
                row.pop("t_parts", None)
            self.link.row(case, row | (turns.failure or {"status": "ok"}))
        turns.series.clear()
        if turns.broke_device:
            raise DeviceFault(turns.failure["reason"], sticky=True)
        if turns.failure:
            self.device.synchronize()  # raises DeviceFault where the failure left the device unusable

    def finish_all(self, loaded: list[_Turns]) -> None:
        """Sample the loaded formats in turns, round by round, and report each after its last. Empties the list."""
        for left in reversed(range(self.rule.rounds)):
            for turns in list(loaded):
                done = self.attempt(turns, self.sample)
                if done and left == 0:
                    self.attempt(turns, self.finish)
                if left == 0 or not done:
                    loaded.remove(turns)
                    self.report(turns)

    def run(self, group: Group) -> None:
        """Measure the group. Formats stay on the device over all rounds; where memory runs out, in several lots."""
        loaded: list[_Turns] = []
        for index, modes in enumerate(group.formats):
            started = {"started_at": now()}
            for case in modes:
                if case.refusal:
                    self.link.row(case, started | {"status": "skipped", "reason": case.refusal})
            cases = [case for case in modes if not case.refusal]
            if not cases:
                continue
            turns = _Turns(index, cases, dict(started))
            if not self.attempt(turns, self.load) and turns.failure["status"] == "oom" and loaded:
                self.finish_all(loaded)
                turns = _Turns(index, cases, dict(started))
                self.attempt(turns, self.load)
            if turns.failure:
                self.report(turns)
                continue
            loaded.append(turns)
            if self.rule.rounds == 1:
                self.finish_all(loaded)
        self.finish_all(loaded)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def _failure(error: Exception, stage: str) -> dict[str, Any]:
    """The columns of a row that tell of an exception."""
    if isinstance(error, Skip):
        return {"status": "skipped", "reason": error.reason, "bytes_needed": error.needed_bytes or 0}
    if isinstance(error, MemoryError | OutOfDeviceMemory):
        return {"status": "oom", "reason": f"out of memory while {stage}: {error}"}
    if isinstance(error, DeviceFault):
        return {"status": "error" if stage == COMPILING else "crashed", "reason": f"fault while {stage}: {error}"}
    if isinstance(error, SpmvbenchError):
        return {"status": "error", "reason": str(error)}
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # The innermost frame of this package or a format's module says more than one deep inside NumPy.
    ours = {here} | {os.path.dirname(sys.modules[cls.__module__].__file__ or "") for cls in formats.REGISTRY.values()}
    frame = next((f for f in reversed(frames) if f.filename.startswith(tuple(ours))), frames[-1])
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return {"status": "error", "reason": f"{type(error).__name__} while {stage}: {error} ({where})"}


def by_part(launches: list[Launch | Call]) -> dict[str, list[Launch | Call]]:
    """The launches of each named part that has work, in order; those without a name are of none."""
    parts: dict[str, list[Launch | Call]] = {}
    for launch in launches:
        if launch.part and (isinstance(launch, Call) or np.all(launch.grid)):
            parts.setdefault(launch.part, []).append(launch)
    return parts


def workspace(launches: list[Launch | Call], known: list[Any]) -> int:
    """Bytes of the arrays among the launches' arguments that lie in none of the known ones, each counted once."""

    def span(array: Any) -> tuple[int, int]:
        start = array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr
        return start, start + array.nbytes

    spans = [span(array) for array in known]
    extra = set()
    for launch in launches:
        for arg in launch.args:
            if getattr(arg, "shape", None):  # an array: NumPy scalars have the shape ()
                start, end = span(arg)
                if not any(low <= start and end <= high for low, high in spans):
                    extra.add((start, end))
    return sum(end - start for start, end in extra)


@lru_cache(maxsize=1)
def _read(matrix: Matrix, seed: int, real_part: bool) -> tuple[Csr, dict[str, Any], dict[str, Any]]:
    """A matrix as canonical CSR in float64, with its columns of a row and its description.

    Kept for the group of the next type.
    """
    a = Csr.of(matrix.read(seed, "real" if real_part else "refuse")).astype(np.float64)
    digest = hashlib.sha256(np.asarray(a.shape, np.int64).tobytes())
    for array in (a.row_ptr.astype(np.int64, copy=False), a.col_idx, a.values):
        digest.update(np.ascontiguousarray(array).data)
    identity = {"matrix_sha256": digest.hexdigest()}
    whose = identity | {"group": matrix.group, "name": matrix.name, "started_at": now()}
    return a, features(a) | identity, whose | description(a)


def _host_spmv(a: Csr, x: np.ndarray) -> float:
    """Seconds of y = A x by SciPy, which runs on one thread: the best of three."""
    from scipy.sparse import csr_array

    matrix = csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape)
    return min(_timed(lambda: matrix @ x)[1] for _ in range(3))


def _measure(group: Group, device: Device, settings: Settings, floors: dict[str, float], link: _Link) -> None:
    """Every case of a group gives one row."""
    started = {"started_at": now()}
    try:
        link.begin(None, "reading the matrix")
        a, columns, about = _read(group.matrix, group.seed, settings.real_part)
        link.connection.send(("matrix", columns))
        link.connection.send(("description", about))
        link.begin(None, "computing the right answers")
        with np.errstate(over="ignore"):  # entries beyond float32 are found, and named, just below
            a = a.astype(DTYPES[group.dtype])
        references = verify.references(a, group.seed)
        link.connection.send(("matrix", columns | {"t_spmv_host": _host_spmv(a, references[0].x)}))
        rule = timing.RULES[device.kind]
        bench = _Bench(
            link,
            device,
            settings,
            floors,
            rule if settings.budget is None else replace(rule, budget=settings.budget),
            a,
            a.on(device.xp),
            device.to_device(np.zeros(a.cols, a.dtype)),
            device.to_device(np.zeros(a.rows, a.dtype)),
            [(device.to_device(r.x), r) for r in references],
        )
    except Exception as error:
        # A matrix that the reader refuses is no format's fault.
        failure = _failure(error, link.stage) | ({"status": "skipped"} if isinstance(error, SpmvbenchError) else {})
        for case in group.cases:
            link.row(case, started | failure)
        return
    bench.run(group)


def _probe(device: Device, settings: Settings) -> dict[str, Any]:
    """What a device tells once a session: itself, its launch floor by mode (s), its bandwidths (GB/s)."""
    properties = {"device_name": device.name} | device.properties()
    facts: dict[str, Any] = {"device": device.name, "kind": device.kind, "properties": properties}
    if settings.floors is not None:
        return facts | {"launch_floor": dict(settings.floors)}
    rule = timing.RULES[device.kind]

    def median(launch: Launch, mode: str) -> float:
        series = timing.prepare(device.compile([launch]), device, mode, rule)
        timing.take_round(series, device, rule)
        return timing.summary(series)["t_median"]

    empty = Launch("vector.cu", "empty<0>", 1, 32, ())
    facts["launch_floor"] = {mode: median(empty, mode) for mode in DEFAULT_MODES[device.kind]}
    if device.kind == "cuda":
        # Pairs of doubles, far more than L2 holds.
        pairs = int(min(device.memory_free() // 8, 1 << 30)) // 16
        source, target = (device.to_device(np.zeros(2 * pairs)) for _ in range(2))
        copy = Launch("vector.cu", "copy<double2>", cdiv(pairs, 256), 256, (source, target, np.int64(pairs)))
        read = Launch("vector.cu", "read<double2>", 8192, 256, (source, target, np.int64(pairs)))
        facts["copy_bandwidth_gbps"] = 2e-9 * source.nbytes / median(copy, "hot")
        facts["read_bandwidth_gbps"] = 1e-9 * source.nbytes / median(read, "hot")
    return facts


def _stay_tied(parent: int) -> None:
    """End with the parent, leave signals of the terminal to it, and be the first to go where memory runs out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: a hung kernel would outlive a killed parent
        try:
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write("1000")
        except OSError:
            pass  # a sandbox that forbids it loses only the preference
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """`python -m spmvbench.bench.worker FD PARENT`: serve the parent at the other end of a pipe until it says None."""
    _stay_tied(int(sys.argv[2]))
    faulthandler.enable()
    connection = Connection(int(sys.argv[1]))
    settings: Settings = connection.recv()
    try:
        device = open_device(settings.device)
        facts = _probe(device, settings)
    except (SpmvbenchError, DeviceFault) as error:
        connection.send(("refused", str(error), getattr(error, "exit_code", 1)))
        return
    connection.send(("ready", facts))
    link = _Link(connection)
    try:
        while (group := connection.recv()) is not None:
            _measure(group, device, settings, facts["launch_floor"], link)
            connection.send(("done",))
    except DeviceFault:
        connection.send(("broken",))
        os._exit(0)  # a broken context can hang in its own clean-up
    except (_Stop, EOFError, BrokenPipeError):
        pass
    device.close()


if __name__ == "__main__":
    main()
