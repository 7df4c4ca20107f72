"""Results of the stages of a format, each frozen."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spmvbench.devices import Program
from spmvbench.devices.guards import Guards
from spmvbench.formats import Call, Format, Launch, Loop
from spmvbench.measure import energy


@dataclass(frozen=True)
class HostConversion:
    """Conversion on the host. seconds, transfer: NaN if left out. fmt: kept if host and device share memory."""

    fmt: Format | None = None
    seconds: float = math.nan
    transfer: float = math.nan


@dataclass(frozen=True)
class IntegerTest:
    """Result of the exact integer test. passed: False if it was not possible. compile: seconds. error: the largest, as
    a fraction of its bound. in_use: as `Format.in_use`; None if there was no test. peak: bytes allocated while
    parameters were searched; 0 if they were not.
    """

    passed: bool
    compile: float = 0.0
    error: float = math.nan
    in_use: Mapping[str, Any] | None = None
    peak: int = 0


@dataclass(frozen=True)
class Converted:
    """A format between guards in device memory. seconds: of the conversion on the device, without the search for
    parameters; peak: bytes allocated meanwhile. search: seconds of that search; NaN if there was none.
    """

    fmt: Format
    guards: Guards
    seconds: float = math.nan
    peak: int = 0
    search: float = math.nan


@dataclass(frozen=True)
class Decoded:
    """Whether decoding the arrays reproduces the matrix: ``yes``, or ``no`` with the reason. seconds: its duration."""

    decoded: str
    seconds: float = math.nan


@dataclass(frozen=True)
class Bound:
    """Launches of a format for one operation, bound to its x and y.

    steps: the launches. setup: seconds to make them, and seconds of setup during the conversion. workspace: bytes of
    arrays that are not fields of the format. read: minimum bytes that a product reads of all arrays. program_hash: see
    `program.program_hash`. float_atomics: see `program.float_atomics`. timed_by: as `Program.timed_by`, or ``self``.
    """

    program: Program
    steps: list[Launch | Call | Loop]
    setup: float
    workspace: int
    read: int
    program_hash: str
    detail: dict[str, Any]
    float_atomics: str
    timed_by: str


@dataclass(frozen=True)
class Bits:
    """How many results a number of products had that were given the same x, bit for bit; the checksum of the only one,
    if there is only one and x follows from the run's seed.
    """

    distinct: int
    products: int
    result: int | None


@dataclass(frozen=True)
class Finished:
    """Results of one operation after the last round. t_kernels: the kernel breakdown, seconds by part. detail: levels
    of a search.

    t_x_changed: seconds of one SpMV by mode while x changes before each, without the time of the change itself. energy:
    of one SpMV, hot. t_in_use: seconds of one SpMV, hot, after other work filled L2. t_update: seconds of putting new
    values in place.
    """

    t_kernels: dict[str, float]
    t_x_changed: dict[str, float]
    detail: dict[str, Any]
    energy: energy.Energy
    t_in_use: float
    t_update: float
