"""Measures all formats of one matrix: convert, verify, time in interleaved rounds, verify again, report.

What is done to one format is in `stages`, what its row holds in `row`. Here is the order: formats stay on the device
over all rounds, in several lots where memory runs out; a program that several names run is timed once.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from spmvbench.devices import DeviceFault
from spmvbench.formats.conversion import converting_for
from spmvbench.formats.dependencies import check_sources
from spmvbench.measure import row, stages, timing
from spmvbench.measure.cases import Group
from spmvbench.measure.stages import Bound, Context, Converted, Decoded, Failure, Finished, HostConversion, Proof, Task
from spmvbench.rows.store import now


@dataclass(eq=False)
class Progress:
    """One format of a group: the results of its stages so far.

    bound, finished: by operation. series: by operation and mode. program: hash of what it runs, by operation. columns:
    of its rows, by operation. same_as: the format of the group whose program it is. sums: of its arrays, as its last
    stage left them; now: what they are at present.
    """

    task: Task
    started_at: str
    host: HostConversion | None = None
    proof: Proof | None = None
    converted: Converted | None = None
    decoded: Decoded | None = None
    bound: dict[str, Bound] = field(default_factory=dict)
    series: dict[tuple[str, str], timing.Series] = field(default_factory=dict)
    finished: dict[str, Finished] = field(default_factory=dict)
    error_ratio: float = math.nan
    failure: Failure | None = None
    seconds: float = 0.0
    program: dict[str, str] = field(default_factory=dict)
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    same_as: Progress | None = None
    sums: list[int] = field(default_factory=list)
    now: Callable[[], list[int]] | None = None

    def worst(self, error: float) -> None:
        """Keep the largest error over its bound."""
        if not math.isnan(error):
            self.error_ratio = max(error, 0.0 if math.isnan(self.error_ratio) else self.error_ratio)

    def covers(self, other: Progress) -> bool:
        """Whether this runs the program of `other`, in all of its operations and modes."""
        modes = {(case.op, case.mode) for case in self.task.cases}
        return (
            all(other.program.values())
            and other.program.items() <= self.program.items()
            and all((case.op, case.mode) in modes for case in other.task.cases)
        )


class GroupRun:
    """Measures the formats of one matrix in one type, which share `context`."""

    def __init__(self, context: Context):
        self.context = context
        self.loaded: list[Progress] = []
        self.timed: dict[Progress, dict[tuple[str, str], dict[str, Any]]] = {}  # what timing told, by case
        self.waiting: list[Progress] = []  # for the times of the format whose program they are
        self.again: list[Task] = []  # whose arrays another format has overwritten: measured alone, after all others

    def run(self, group: Group) -> None:
        """Measure the group: every case gives one row."""
        for index, cases in enumerate(group.formats):
            for case in cases:
                if case.refusal:
                    refused = {"started_at": now(), "status": "skipped", "reason": case.refusal}
                    self.context.link.row(case, refused)
            left = tuple(case for case in cases if not case.refusal)
            if left:
                self._load(Task(index, left))
        self._finish_loaded()
        while self.again:
            self._load(self.again.pop())
            self._finish_loaded()

    def _load(self, task: Task) -> None:
        """All that comes before the first sample. Where memory runs out, what is loaded is finished first."""
        progress = Progress(task, now())
        if not self._attempt(progress, self._prepare) and progress.failure.status == "oom" and self.loaded:
            self._let_go(progress)
            self._finish_loaded()
            progress = Progress(task, now())
            self._attempt(progress, self._prepare)
        if progress.failure or progress.same_as:
            self._report(progress)
            return
        self.loaded.append(progress)
        self._watch(progress)
        if self.context.rule.rounds == 1:
            self._finish_loaded()

    def _attempt(self, progress: Progress, step: Callable[[Progress], None]) -> bool:
        """Run one step of a format. What it raises becomes its failure; False then. Sticky faults are not caught."""
        context, began, waited = self.context, time.perf_counter(), self.context.waited

        def inspect(progress: Progress) -> None:
            context.inspect(progress.converted.guards if progress.converted else None)

        for work in (step, inspect):
            try:
                work(progress)
            except Exception as error:
                if isinstance(error, DeviceFault) and error.sticky:
                    raise
                progress.failure = stages.failure_of(error, context.link.stage)
                progress.worst(error.ratio if isinstance(error, stages.Wrong) else math.nan)
                if progress.failure.status == "error":  # a compiler says more than fits a line
                    print(f"{progress.task.label}: {progress.failure.reason}", file=sys.stderr, flush=True)
        progress.seconds += time.perf_counter() - began - (context.waited - waited)
        return progress.failure is None

    def _prepare(self, progress: Progress) -> None:
        """All stages before the first sample."""
        context, task = self.context, progress.task
        with converting_for(context.device.limits, partial(check_sources, task.cls)):
            progress.host = stages.convert_on_host(context, task)
            progress.proof = proof = stages.prove(context, task)
            progress.worst(proof.error)
            progress.converted = converted = stages.convert(context, task, progress.host, proof)
        progress.host = replace(progress.host, fmt=None)
        progress.decoded = stages.decode(context, task, converted.fmt)
        for op in task.ops:
            bound = stages.bind(context, task, converted.fmt, op, warm=proof.passed)
            progress.bound[op], progress.program[op] = bound, bound.program_hash
            progress.columns[op] = row.bound_columns(context, op, proof, bound)
        progress.same_as = next((other for other in (*self.loaded, *self.timed) if other.covers(progress)), None)
        if progress.same_as is None:
            for op, bound in progress.bound.items():
                progress.worst(stages.verify_answers(context, task, converted.fmt, bound, op, proof))

    def _sample(self, progress: Progress) -> None:
        """One round of samples of every case."""
        assert progress.converted is not None
        context, task, fmt = self.context, progress.task, progress.converted.fmt
        for case in task.cases:
            which = case.op, case.mode
            if which not in progress.series:
                progress.series[which] = stages.prepare_series(context, task, fmt, progress.bound[case.op], case)
            progress.worst(stages.take_samples(context, task, fmt, case, progress.series[which]))

    def _finish(self, progress: Progress) -> None:
        """All stages after the last sample."""
        assert progress.converted is not None
        for op, bound in progress.bound.items():
            series = {mode: found for (of, mode), found in progress.series.items() if of == op}
            arrays = self.context, progress.task, progress.converted.fmt, bound
            progress.finished[op], error = stages.finish(*arrays, op, series)
            progress.worst(error)

    def _finish_loaded(self) -> None:
        """Sample the loaded formats round by round, and report each after its last. Leaves none."""
        for left in reversed(range(self.context.rule.rounds)):
            for progress in list(self.loaded):
                if progress not in self.loaded:  # found to have overwritten another's arrays, or overwritten
                    continue
                if self._overwritten(progress):
                    self._find_who_overwrote(progress)
                    continue
                if self._attempt(progress, self._sample) and left == 0:
                    self._attempt(progress, self._finish)
                self._watch(progress)
                if left == 0:  # its row says that it is right: nobody's arrays may have suffered from it
                    for other in list(self.loaded):
                        if other is not progress and self._overwritten(other):
                            self._find_who_overwrote(other)
                if progress in self.loaded and (left == 0 or progress.failure):
                    self._done(progress)

    def _done(self, progress: Progress) -> None:
        self.loaded.remove(progress)
        self._report(progress)

    def _watch(self, progress: Progress) -> None:
        """Remember what the format's arrays hold: until its next step nobody may change them."""
        if self.context.rule.rounds == 1 or progress.converted is None:
            return
        if progress.now is None:
            arrays = progress.converted.fmt.arrays().values()
            gapless = [array for array in arrays if array.flags.c_contiguous or array.flags.f_contiguous]
            progress.now = self.context.device.checksums([array.ravel(order="K") for array in gapless if array.size])
        progress.sums = progress.now()

    @staticmethod
    def _overwritten(progress: Progress) -> bool:
        return progress.now is not None and progress.now() != progress.sums

    def _find_who_overwrote(self, victim: Progress) -> None:
        """Find whose sample changes the victim's arrays, by running every other loaded format once more: it is `wrong`.

        The victim is measured again, alone, after all others.
        """
        assert victim.now is not None and victim.converted is not None
        self.loaded.remove(victim)
        self.again.append(victim.task)
        print(f"{victim.task.label}: another format has overwritten its arrays", file=sys.stderr, flush=True)
        for suspect in list(self.loaded):
            for array in victim.converted.fmt.arrays().values():
                array.fill(1)  # what it has written once shows again
            before = victim.now()
            self._attempt(suspect, self._sample)
            if victim.now() != before:
                reason = f"changed arrays of {victim.task.label} while {self.context.link.stage}"
                suspect.failure = Failure("wrong", reason)
                self._done(suspect)
            else:
                self._watch(suspect)
        self._let_go(victim)

    def _let_go(self, progress: Progress) -> None:
        """Keep what the rows need, and none of the format's memory."""
        general = row.converted_columns(
            self.context, progress.host, progress.proof, progress.converted, progress.decoded
        )
        progress.columns = {op: general | progress.columns.get(op, {}) for op in progress.task.ops}
        progress.converted = progress.now = None
        progress.bound.clear()

    def _report(self, progress: Progress) -> None:
        """Send the rows of one format, measured or failed, and of those that run the same program."""
        self._let_go(progress)
        if progress.same_as in self.timed:
            self._send(progress, self.timed[progress.same_as])
        elif progress.same_as is not None and progress.failure is None:
            self.waiting.append(progress)
        else:
            timed = self._timed(progress)
            self._send(progress, timed)
            if progress.failure is None:
                self.timed[progress] = timed
            for other in [other for other in self.waiting if other.same_as is progress]:
                self.waiting.remove(other)
                if progress.failure is not None:
                    reason = f"runs the program of {progress.task.label}, {progress.failure.reason}"
                    other.failure = replace(progress.failure, reason=reason)
                self._send(other, timed)
        progress.series.clear()
        if progress.failure:
            self.context.device.synchronize()  # raises DeviceFault where the failure left the device unusable

    def _timed(self, progress: Progress) -> dict[tuple[str, str], dict[str, Any]]:
        """The columns that timing gives, by operation and mode, with the verdict on the time."""
        found = {}
        for case in progress.task.cases:
            known = progress.columns[case.op]
            columns: dict[str, Any] = {"error_ratio": progress.error_ratio}
            series = progress.series.get((case.op, case.mode))
            if series is not None and series.seconds:
                columns |= row.timed_columns(self.context, case, series, known)
                columns |= row.failure_columns(row.implausible(self.context, case, known | columns))
            if case.op in progress.finished:
                columns |= row.finished_columns(case, progress.finished[case.op], known)
            found[case.op, case.mode] = columns
        return found

    def _send(self, progress: Progress, timed: dict[tuple[str, str], dict[str, Any]]) -> None:
        for case in progress.task.cases:
            columns = {"started_at": progress.started_at, "t_case": progress.seconds / len(progress.task.cases)}
            columns |= progress.columns[case.op] | timed[case.op, case.mode]
            if progress.failure is not None:
                columns |= {"error_ratio": progress.error_ratio} | row.failure_columns(progress.failure)
            self.context.link.row(case, columns)
