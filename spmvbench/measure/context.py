"""What the stages of a format work on: the format with its cases (`Task`), and the data of its group (`Context`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.devices import Device, DeviceFault, Program
from spmvbench.devices.guards import Guards
from spmvbench.formats import Call, Format, Launch, Loop
from spmvbench.formats.arrays import Array, cdiv
from spmvbench.formats.launches import ctype
from spmvbench.formats.vectors import SparseVector, parts
from spmvbench.measure import bounds, timing, verify
from spmvbench.measure.cases import Case, Settings
from spmvbench.measure.failures import FailedAllocation, Wrong, fails_early
from spmvbench.measure.operations import Operation
from spmvbench.measure.process_state import ProcessState
from spmvbench.measure.protocol import Link
from spmvbench.measure.references import References


@dataclass(frozen=True)
class Task:
    """One format of a group with its parameters. index: its place in the group. cases: its operations and modes."""

    index: int
    cases: tuple[Case, ...]

    @property
    def cls(self) -> type[Format]:
        """The format's class."""
        return formats.get(self.cases[0].format)

    @property
    def params(self) -> Mapping[str, Any]:
        """The value of every parameter."""
        return self.cases[0].params

    @property
    def label(self) -> str:
        """The format's name in tables."""
        return self.cases[0].label

    @property
    def ops(self) -> list[str]:
        """Names of its operations, without repeats."""
        return list(dict.fromkeys(case.op for case in self.cases))


def reject(error: Exception, device: Device, settings: Settings, may_fail: bool, stage: str) -> None:
    """As `Context.reject`, before there is a context."""
    if isinstance(error, DeviceFault) and error.sticky:
        raise error
    if may_fail and fails_early(error, device, settings.max_bytes or device.default_max_bytes):
        raise FailedAllocation(f"{error} while {stage}") from error


@dataclass
class Context:
    """Data that the formats of a group share: the device, the matrix with its references, x and y on the device.

    x: by operation; all operations write the same y. read_again: makes `references` anew after a format has changed
    them. waited: seconds that stages have waited for other processes. counts_energy: False once the device's counter of
    joules has failed for a format: it is not waited for again. discarded: formats, one after the other, of which every
    sample of a mode was discarded. may_fail: whether another process may be started for the
    group. process: is restored after each step of a format.
    """

    link: Link
    device: Device
    settings: Settings
    facts: dict[str, Any]
    rule: timing.Rule
    ops: dict[str, Operation]
    references: References
    fetched: bounds.Fetched
    read_again: Callable[[], References]
    waited: float = 0.0
    counts_energy: bool = True
    discarded: int = 0
    may_fail: bool = False
    process: ProcessState = field(default_factory=ProcessState)

    def __post_init__(self) -> None:
        self.guards = Guards(self.device)
        vectors = {name: op.vectors(self.references.a) for name, op in self.ops.items()}
        self.x = {
            name: self.guards.hold_vector("x" if len(vectors) == 1 else f"x of {name}", x)
            for name, (x, _) in vectors.items()
        }
        self.y = self.guards.hold("y", self.device.to_device(next(iter(vectors.values()))[1]))
        self.guards.watch()
        self._change_x_seconds: dict[str, float] = {}

    def products(self, task: Task) -> list[str]:
        """The task's operations, with that of its products in place of a solver."""
        return list(dict.fromkeys(self.ops[op].product or op for op in task.ops))

    def launches(
        self, fmt: Format, op: str, x: Array | SparseVector | None = None, y: Array | None = None
    ) -> list[Launch | Call | Loop]:
        """The launches of a format for an operation, bound to its x and y, or to others. Raises Skip as
        `Precision.launches` does.
        """
        x, y = self.x[op] if x is None else x, self.y if y is None else y
        found = self.ops[op].launches(fmt, x, y, self.references.checks[op], self.device)
        return self.references.precision.launches(found)

    def run(self, fmt: Format, program: Program, op: str) -> verify.Run:
        """A program of a format, bound to the operation's x and y."""
        return verify.Run(fmt, program, self.device, self.x[op], self.y)

    def begin(self, task: Task, stage: str, op: str = "") -> None:
        """Report to the parent that a stage of a format begins; with the operation if there are several."""
        self.link.begin(task.index, self.named(stage, op))

    def named(self, stage: str, op: str = "") -> str:
        """The text of a stage or check, with the operation if there are several."""
        return stage if not op or len(self.ops) == 1 else f"{stage}, {op}"

    def inspect(self, guards: Guards | None) -> None:
        """Restore shared arrays that a format has overwritten. Raises Wrong if there are any."""
        self.device.synchronize()
        beyond = [name for watched in (self.guards, guards) if watched for name in watched.overwritten()]
        changed = self.references.changed()
        if changed:
            self.references = self.read_again()
        written = [*(f"wrote beyond {name}" for name in beyond), *(f"changed the shared {name}" for name in changed)]
        if written:
            raise Wrong(f"{' and '.join(written)} while {self.link.stage}")

    def reject(self, error: Exception) -> None:
        """Raise what a stage has raised if this process cannot go on: a sticky fault, or, if another process may do
        better, an allocation that failed far below what is free.
        """
        reject(error, self.device, self.settings, self.may_fail, self.link.stage)

    def change_x_seconds(self, op: str) -> float:
        """Seconds of one change of x alone, in a graph of many changes; the same for all formats."""
        if op not in self._change_x_seconds:
            rule = self.rule.short()
            series = timing.prepare(self.device.compile([self.change_x(op)]), self.device, "hot", rule)
            timing.take_round(series, self.device, rule)
            self._change_x_seconds[op] = timing.quartiles(series).median
        return self._change_x_seconds[op]

    def change_x(self, op: str) -> Launch:
        """The launch that changes x in place; two of them leave x as it was.

        Values change their sign. A search's source alternates between the two sources that its references know.
        """
        values = parts(self.x[op])[-1]
        total = 0
        if values.dtype.kind != "f":
            first, second = (int(parts(reference.x)[0][0]) for reference in self.references.checks[op].dense[:2])
            total = first + second
        args = (values, values.dtype.type(total), np.int64(len(values)))
        return Launch("vector.cu", f"reflect<{ctype(values)}>", cdiv(len(values), 256), 256, args)
