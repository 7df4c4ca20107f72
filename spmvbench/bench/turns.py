"""The formats of a group, each in its turns: loaded and checked, sampled round by round, checked again, reported."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import formats, paths
from spmvbench.bench import roofs, timing, verify
from spmvbench.bench.operations import Operation
from spmvbench.bench.plan import Case, Group, Settings
from spmvbench.bench.prepared import CONVERTING
from spmvbench.bench.protocol import WAITING, Link
from spmvbench.bench.shared import Shared
from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory, Program
from spmvbench.devices.guards import Guards
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Format, Launch, Loop, Skip, single_steps
from spmvbench.formats.conversion import converting_for
from spmvbench.formats.dependencies import check_sources
from spmvbench.formats.vectors import parts
from spmvbench.store import now

COMPILING = "compiling"
MOST_LEVELS = 2000  # of a search that rows keep
CONVERSIONS = 0.02  # seconds that converting again for a better time may have begun after


class Wrong(Exception):
    """A check failed: the verdict, or what was written that is another's."""


@dataclass(frozen=True)
class Bound:
    """A format's launches for one operation, bound to its x and y. columns: what the rows of that operation add."""

    program: Program
    parts: dict[str, list[Launch | Call | Loop]]
    columns: dict[str, Any]


@dataclass
class Turns:
    """One format of a group: what is known of it so far, and what its next turn needs.

    bound: by operation. series: by operation and mode.
    """

    index: int
    cases: list[Case]
    columns: dict[str, Any]
    fmt: Format | None = None
    bound: dict[str, Bound] = field(default_factory=dict)
    series: dict[tuple[str, str], timing.Series] = field(default_factory=dict)
    guards: Guards | None = None
    proven: bool = False
    error_ratio: float = math.nan
    failure: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def ops(self) -> list[str]:
        """The names of its operations, each once."""
        return list(dict.fromkeys(case.op for case in self.cases))


@dataclass
class Bench:
    """What the cases of a group share: the device, the matrix with its right answers, x and y on the device.

    x: by operation; all write one y. read_again: makes `shared` anew, after a format has changed it.
    """

    link: Link
    device: Device
    settings: Settings
    facts: dict[str, Any]
    rule: timing.Rule
    ops: dict[str, Operation]
    shared: Shared
    fetched: roofs.Fetched
    read_again: Callable[[], Shared]

    def __post_init__(self) -> None:
        self.guards = Guards(self.device)
        vectors = {name: op.vectors(self.shared.a) for name, op in self.ops.items()}
        self.x = {
            name: self.guards.hold_vector("x" if len(vectors) == 1 else f"x of {name}", x)
            for name, (x, _) in vectors.items()
        }
        self.y = self.guards.hold_vector("y", next(iter(vectors.values()))[1])
        self.guards.watch()

    def stage(self, op: str, text: str) -> str:
        """A stage, or when a check was, in words: with the operation where there are several."""
        return text if len(self.ops) == 1 else f"{text}, {op}"

    def attempt(self, turns: Turns, step: Callable[[Turns], None]) -> bool:
        """One turn of a format. Whatever it raises becomes its failure; False then. Sticky faults are not caught."""
        began = time.perf_counter()
        for work in (step, self.inspect):
            try:
                work(turns)
            except Wrong as wrong:
                turns.failure = {"status": "wrong", "reason": str(wrong)}
            except Exception as error:
                if isinstance(error, DeviceFault) and error.sticky:
                    raise
                turns.failure = failure_of(error, self.link.stage)
                if turns.failure["status"] == "error":  # a compiler says more than fits a line
                    print(f"{turns.cases[0].label}: {turns.failure['reason']}", file=sys.stderr, flush=True)
        turns.seconds += time.perf_counter() - began
        return turns.failure is None

    def inspect(self, turns: Turns) -> None:
        """Undo what a turn has written to that is not the format's own. Raises Wrong where there is any."""
        self.device.synchronize()
        beside = [name for guards in (self.guards, turns.guards) if guards for name in guards.trespassed()]
        altered = self.shared.altered()
        if altered:
            self.shared = self.read_again()
        deeds = [*(f"wrote beyond {name}" for name in beside), *(f"changed the shared {name}" for name in altered)]
        if deeds:
            raise Wrong(f"{' and '.join(deeds)} while {self.link.stage}")

    def load(self, turns: Turns) -> None:
        """Convert, move, compile and check: all that comes before the first sample."""
        check = partial(check_sources, formats.get(turns.cases[0].format))
        with converting_for(self.device.limits, check):
            fmt = self._converted(turns)
        columns, begin = turns.columns, lambda stage: self.link.begin(turns.index, stage)
        columns |= {
            "bytes_format": fmt.nbytes,
            "bytes_per_nnz": fmt.nbytes / self.shared.a.nnz if self.shared.a.nnz else math.nan,
            "bytes_arrays": json.dumps({name: array.nbytes for name, array in fmt.arrays().items()}),
        }
        turns.fmt = fmt
        for op in turns.ops:
            begin(COMPILING)
            turns.bound[op] = bound = self._bound(fmt, self.x[op])
            detail = self.shared.checks[op].facts | fmt.detail
            if bound.program.host_driven:
                detail |= {"driven_by": "the host, between levels: its graphs have no loops before CUDA 12.4"}
            bound.columns["detail"] = json.dumps(detail, default=float) if detail else ""
            bound.columns["t_compile"] += columns.get("t_compile", 0.0)
            if self.ops[op].streams:
                bound.columns["model_bytes"] = fmt.bytes_read + self.x[op].nbytes + self.y.nbytes
            begin(self.stage(op, "checking"))
            checks = self.shared.checks[op]
            self.check(turns, op, [*checks.dense, checks.dense[0]], "before timing")
            self.check(turns, op, checks.sparse, "in a group of columns", starts=("stale", "garbage"))
            if not turns.proven:
                self.repeat(turns, op, fmt, bound.program, checks.timed)

    def _bound(self, fmt: Format, x: Any) -> Bound:
        """The format's launches for this x, compiled."""
        launches, setup = timing.timed(lambda: fmt.launches(x, self.y))
        check_sources(type(fmt), launches)
        vendor = any(isinstance(step, Call) for step in single_steps(launches))
        if vendor:  # the first time also loads the library
            launches, setup = timing.timed(lambda: fmt.launches(x, self.y))
        program = self.device.compile(launches)
        columns = {
            "launches": len(launches),
            "code_hash": program.code_hash,
            "t_setup": (setup if vendor else 0.0) + fmt.setup_seconds,
            "t_compile": program.compile_seconds,
            "bytes_workspace": workspace(launches, [*parts(x), self.y, *fmt.arrays().values()]),
        }
        return Bound(program, by_part(launches), columns)

    def _converted(self, turns: Turns) -> Format:
        """The matrix in the format, for and on the device, between guards; times of conversions go to the columns."""
        case, columns = turns.cases[0], turns.columns
        cls, begin = formats.get(case.format), lambda stage: self.link.begin(turns.index, stage)
        limit = self.settings.max_bytes or self.device.default_max_bytes

        on_device = self.device.kind == "cuda"
        on_host = self.settings.convert == "both" or not on_device  # an emulated device's memory is the host's
        begin("converting on the host" if on_host else "converting on the device")
        cls.refuse_beyond(limit, self.shared.a if on_host else self.shared.device_a.fresh(), **case.params)
        if on_host:
            a = self.shared.a.fresh()  # what another format has asked for would be had for nothing
            with self._alone(turns):
                fmt, columns["t_convert_host"] = timing.timed(lambda: cls.from_csr(a, **case.params))
        if on_host and on_device:
            begin("moving to the device")
            columns["t_transfer"] = self._transfer(fmt)
            del fmt
        self._prove(turns, cls, case)
        if on_device:
            begin("converting on the device")
            return self._guarded(turns, lambda: self._convert_on_device(cls, case, columns, warm=turns.proven))
        return self._guarded(turns, lambda: fmt)

    @contextmanager
    def _alone(self, turns: Turns) -> Iterator[None]:
        """While no other process of this host times a conversion. Waiting for that is no time of the case's."""
        if self.settings.together is None:
            yield
            return
        stage, began = self.link.stage, time.perf_counter()
        self.link.begin(turns.index, WAITING)
        with paths.turn(Path(self.settings.together) / CONVERTING):
            turns.seconds -= time.perf_counter() - began
            self.link.begin(turns.index, stage)
            yield

    def _prove(self, turns: Turns, cls: type[Format], case: Case) -> None:
        """Convert the matrix's twin of whole numbers and hold many products to the last bit.

        Nothing is proven where there is no twin, or where the format takes the matrix for its values and refuses it.
        """
        self.link.begin(turns.index, "converting whole numbers")
        if not all(self.shared.checks[op].whole for op in turns.ops):
            return
        try:
            twin = verify.twin(self.shared.device_a)
            fmt = self._guarded(turns, lambda: cls.from_csr(twin, **case.params))
        except Skip:
            return
        turns.columns["t_compile"] = 0.0
        for op in turns.ops:
            self.link.begin(turns.index, COMPILING)
            program = self.device.compile(fmt.launches(self.x[op], self.y))
            turns.columns["t_compile"] += program.compile_seconds
            self.link.begin(turns.index, self.stage(op, "checking whole numbers"))
            arrays, whole = (fmt, program, self.device, self.x[op], self.y), self.shared.checks[op].whole
            verdict = verify.run_and_judge(*arrays, whole, ("garbage", "stale"))
            self.inspect(turns)
            self.judged(turns, verdict, self.stage(op, "whole numbers"))
            self.repeat(turns, op, fmt, program, whole[1])
        turns.guards = None  # they hold the twin's memory
        turns.proven = True

    def repeat(self, turns: Turns, op: str, fmt: Format, program: Program, reference: verify.Reference) -> None:
        """Judge many runs one by one. Raises Wrong."""
        self.link.begin(turns.index, self.stage(op, "checking many runs"))
        most, share = self.rule.judged
        arrays = fmt, program, self.device, self.x[op], self.y
        verdict = verify.repeat_and_judge(*arrays, reference, most, share * self.rule.budget)
        self.judged(turns, verdict, self.stage(op, "in one of many runs"))

    def _guarded(self, turns: Turns, convert: Callable[[], Format]) -> Format:
        """The format that `convert` makes, in memory of its own, between guards."""
        assert turns.guards is None
        guards = Guards(self.device)
        with guards.leaving_room():
            fmt = convert()
        turns.guards = guards
        return guards.hold_format(fmt)

    def _transfer(self, fmt: Format) -> float:
        def move() -> list[Any]:
            moved = [self.device.to_device(array) for array in fmt.arrays().values()]
            self.device.synchronize()
            return moved

        return timing.timed(move)[1]

    def _convert_on_device(self, cls: type[Format], case: Case, columns: dict[str, Any], warm: bool) -> Format:
        """Timed once it is warm: a first time compiles CuPy's own kernels and fills its memory pool.

        The median of three where they are short, for the host's own delays are as long as a short one.
        """

        def convert() -> Format:
            fmt = cls.from_csr(self.shared.device_a.fresh(), **case.params)
            self.device.synchronize()
            return fmt

        if not warm:
            convert()
        self.device.reset_memory_peak()
        held = self.device.memory_peak() or 0
        seconds: list[float] = []
        while len(seconds) < 3 and sum(seconds) < CONVERSIONS:
            fmt = None  # two of them may not fit
            fmt, latest = timing.timed(convert)
            seconds.append(latest)
        assert fmt is not None
        columns["t_convert_device"] = float(np.median(seconds))
        columns["bytes_peak"] = (self.device.memory_peak() or 0) - held + self.shared.device_a.nbytes
        return fmt

    def check(
        self,
        turns: Turns,
        op: str,
        references: list[verify.Reference],
        when: str,
        starts: tuple[str, ...] = verify.STARTS,
    ) -> None:
        """Run the format for each reference. Raises Wrong."""
        assert turns.fmt is not None
        arrays = turns.fmt, turns.bound[op].program, self.device, self.x[op], self.y
        self.judged(turns, verify.run_and_judge(*arrays, references, starts), self.stage(op, when))

    def judged(self, turns: Turns, verdict: verify.Verdict, when: str) -> None:
        """Keep the worst error. Raises Wrong."""
        turns.error_ratio = max(verdict.ratio, 0.0 if math.isnan(turns.error_ratio) else turns.error_ratio)
        if not verdict.right:
            raise Wrong(f"{verdict} ({when})")

    def sample(self, turns: Turns) -> None:
        """One round of samples of every operation in every mode; the y that the last one left is judged."""
        assert turns.fmt is not None
        for case in turns.cases:
            x, reference, which = self.x[case.op], self.shared.checks[case.op].timed, (case.op, case.mode)
            self.link.begin(turns.index, self.stage(case.op, f"timing {case.mode}"))
            placed = verify.put(turns.fmt, reference, x)
            self.y[...] = verify.garbage(self.y)
            if which not in turns.series:
                program = turns.bound[case.op].program
                turns.series[which] = timing.prepare(program, self.device, case.mode, self.rule)
            timing.take_round(turns.series[which], self.device, self.rule)
            self.device.synchronize()
            verdict = verify.judge_left(turns.fmt, x, self.y, placed, reference)
            self.judged(turns, verdict, self.stage(case.op, f"left by a sample, {case.mode}"))

    def time_parts(self, turns: Turns, op: str) -> None:
        """Every named part by itself, hot, in a tenth of a case's time. y holds anything afterwards."""
        rule = replace(self.rule, rounds=1, budget=self.rule.budget / 10)
        seconds = {}
        for part, launches in turns.bound[op].parts.items():
            self.link.begin(turns.index, self.stage(op, f"timing {part}"))
            series = timing.prepare(self.device.compile(launches), self.device, "hot", rule)
            timing.take_round(series, self.device, rule)
            if series.seconds:
                seconds[part] = timing.summary(series)["t_median"]
        turns.bound[op].columns["t_parts"] = json.dumps(seconds)

    def finish(self, turns: Turns) -> None:
        """The last round's end: the answers are still right, and samples were kept."""
        for op in turns.ops:
            if turns.bound[op].parts and (op, "hot") in turns.series:
                self.time_parts(turns, op)
            self.link.begin(turns.index, self.stage(op, "checking again"))
            self.check(turns, op, self.shared.checks[op].dense, "after timing", starts=("garbage", "stale"))
            if op.startswith("bfs") and op.endswith("@0"):
                self.keep_levels(turns, op)
        lost = [self.stage(*which) for which, series in turns.series.items() if not series.seconds]
        if lost:
            raise RuntimeError(f"every {' and '.join(lost)} sample was thrown away: the device lowered its clocks")

    def keep_levels(self, turns: Turns, op: str) -> None:
        """Time, kernel and size of every level of one search, of a format that tells them. Raises Wrong."""
        traced = turns.fmt and turns.fmt.traced(self.x[op], self.y)
        if not traced:
            return
        self.link.begin(turns.index, self.stage(op, "tracing levels"))
        steps, trace = traced
        timed = self.shared.checks[op].timed
        work = self.device.capture(self.device.compile(steps), 1)
        for _ in range(3):  # the first warms up
            placed = verify.put(turns.fmt, timed, self.x[op])
            self.y[...], trace[...] = verify.garbage(self.y), 0
            self.device.elapsed(work)
            verdict = verify.judge_left(turns.fmt, self.x[op], self.y, placed, timed)
            self.judged(turns, verdict, self.stage(op, "tracing levels"))
        clock, kernel = self.device.to_host(trace)[:MOST_LEVELS].T
        count = 1 + int(np.count_nonzero(kernel[1:]))
        level = self.device.to_host(timed.y).astype(np.int64)
        found = {
            "level_seconds": (1e-9 * np.diff(clock[:count])).tolist(),
            "level_kernel": kernel[1:count].tolist(),
            "level_found": np.bincount(level[level >= 0], minlength=count)[1:count].tolist(),
        }
        columns = turns.bound[op].columns
        columns["detail"] = json.dumps(json.loads(columns["detail"]) | found)

    def report(self, turns: Turns) -> None:
        """Send the rows of one format, measured or failed, and let go of its memory."""
        columns = {op: bound.columns for op, bound in turns.bound.items()}
        turns.fmt = turns.guards = None
        turns.bound.clear()
        for case in turns.cases:
            row = turns.columns | {"t_case": turns.seconds / len(turns.cases), "error_ratio": turns.error_ratio}
            row |= columns.get(case.op, {})
            series = turns.series.get((case.op, case.mode))
            if series is not None and series.seconds:
                row |= timing.summary(series) | self._rates(row, case, timing.summary(series)["t_median"])
            if case.mode != "hot":
                row.pop("t_parts", None)
            self.link.row(case, row | (turns.failure or {"status": "ok"}))
        turns.series.clear()
        if turns.failure:
            self.device.synchronize()  # raises DeviceFault where the failure left the device unusable

    def _rates(self, row: dict[str, Any], case: Case, median: float) -> dict[str, Any]:
        """The columns that set the median time of a case beside its work, its bytes and the device."""
        work = self.shared.checks[case.op].work
        rates: dict[str, Any] = {"work": work, "near_launch_floor": median < 2 * self.facts["launch_floor"][case.mode]}
        if median > 0:
            rates["gflops"] = 1e-9 * work / median
        if "model_bytes" in row:
            if median > 0:
                rates["gbps"] = 1e-9 * row["model_bytes"] / median
            rates |= roofs.columns(
                self.facts.get("roofs", {}),
                nnz=self.shared.a.nnz,
                fetched=self.fetched,
                model_bytes=row["model_bytes"],
                x_bytes=self.x[case.op].nbytes,
            )
        return rates

    def finish_all(self, loaded: list[Turns]) -> None:
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
        loaded: list[Turns] = []
        for index, together in enumerate(group.formats):
            started = {"started_at": now()}
            for case in together:
                if case.refusal:
                    self.link.row(case, started | {"status": "skipped", "reason": case.refusal})
            cases = [case for case in together if not case.refusal]
            if not cases:
                continue
            turns = Turns(index, cases, dict(started))
            if not self.attempt(turns, self.load) and turns.failure["status"] == "oom" and loaded:
                self.finish_all(loaded)
                turns = Turns(index, cases, dict(started))
                self.attempt(turns, self.load)
            if turns.failure:
                self.report(turns)
                continue
            loaded.append(turns)
            if self.rule.rounds == 1:
                self.finish_all(loaded)
        self.finish_all(loaded)


def failure_of(error: Exception, stage: str) -> dict[str, Any]:
    """The columns of a row that tell of an exception."""
    if isinstance(error, Skip):
        sizes = {"bytes_needed": error.needed_bytes or 0, "bytes_limit": error.limit_bytes or 0}
        return {"status": "skipped", "reason": error.reason} | sizes
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


def by_part(launches: list[Launch | Call | Loop]) -> dict[str, list[Launch | Call | Loop]]:
    """The launches of each named part that has work, in order; those without a name are of none."""
    parts: dict[str, list[Launch | Call | Loop]] = {}
    for launch in launches:
        if launch.part and (not isinstance(launch, Launch) or np.all(launch.grid)):
            parts.setdefault(launch.part, []).append(launch)
    return parts


def workspace(launches: list[Launch | Call | Loop], known: list[Any]) -> int:
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
