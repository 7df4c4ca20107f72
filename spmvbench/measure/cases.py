"""Cases and groups. A case is one matrix in one format, type, operation and mode; a group shares one matrix."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.formats.precision import PRECISIONS, Precision
from spmvbench.matrices import Matrix
from spmvbench.measure.operations import get
from spmvbench.measure.timing import rule_hash

PATTERN = "pattern"  # the type of rows whose operation ignores values
DTYPES: dict[str, np.dtype[Any]] = {  # by a case's type, that of x and y
    name: precision.dtype for name, precision in PRECISIONS.items()
} | {PATTERN: np.dtype(np.float32)}
DEFAULT_MODES = {"cuda": ("hot", "cold"), "emulated": ("hot",)}


@dataclass(frozen=True)
class Settings:
    """Settings of one invocation. Times in seconds; None takes the default of the device kind.

    device: ``cuda:0``, ``emulated``. max_bytes: limit on the footprint of a format. budget: sampling time of a case.
    energy: time over which the energy of a hot case is measured; 0 leaves it out. update: time new values, too.
    timeout: limit on one uninterrupted period of work on a
    format (loading, or a round of samples), after which its worker is replaced. real_part: take the real
    part of complex matrices, which are refused otherwise. convert: ``both``, or ``device`` to leave out conversion on
    the host, which takes seconds if the matrix is large. measured: device limits that an earlier worker of the
    invocation has measured (`device_limits.MEASURED_LIMITS`). per_host: folder of the matrix cache that the processes
    of one host share (`matrix_cache`); None for a single process.
    """

    device: str
    max_bytes: int | None = None
    budget: float | None = None
    timeout: float | None = None
    real_part: bool = False
    convert: str = "both"
    measured: Mapping[str, Any] | None = None
    per_host: str | None = None
    energy: float = 0.0
    update: bool = False


@dataclass(frozen=True)
class Case:
    """One future row. device: the device's name without its number. refusal: why it is skipped without running. op: the
    operation's name. timing_rule: `timing.rule_hash`, by default that of today.
    """

    matrix: Matrix
    seed: int
    format: str
    params: Mapping[str, Any]
    dtype: str
    mode: str
    device: str
    refusal: str = ""
    op: str = "spmv"
    timing_rule: str | None = None

    def __post_init__(self) -> None:
        if self.timing_rule is None:
            object.__setattr__(self, "timing_rule", rule_hash(device_kind(self.device)))

    @cached_property
    def case_id(self) -> str:
        """Hash of everything that tells two cases apart; the same in every invocation.

        It covers the content of a matrix file, or the program that generates the matrix. An archive of the SuiteSparse
        collection is identified by its name, unless `session.pending` finds that it was replaced.
        """
        identity = [self.matrix.id, self.seed, self.format, self.params, self.dtype, self.op, self.mode, self.device]
        identity += filter(None, [self.matrix.file_sha256, self.matrix.generator_hash])
        if self.matrix.order_hash:
            identity += [{"order": self.order, "hash": self.matrix.order_hash}]
        if self.timing_rule:
            identity += [{"timing": self.timing_rule}]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def order(self) -> str:
        """The order of rows and columns that the matrix is measured in."""
        return self.matrix.order

    @cached_property
    def label(self) -> str:
        """The format with those parameters that differ from their defaults."""
        return formats.label(formats.get(self.format), dict(self.params))

    @property
    def source_hash(self) -> str:
        """Hash of the format's present sources, of a solver with ``+`` and the hash of its own."""
        return "+".join(filter(None, [formats.source_hash(formats.get(self.format)), get(self.op).source_hash]))


@dataclass(frozen=True)
class Group:
    """Cases that share one matrix, type and kind of operation: the matrix is read once for them.

    formats: for each format with its parameters the cases (operations and modes) that share one conversion. modules:
    names of the modules that define the formats. processes: how often another process may be
    started for the group because an allocation failed far below what was free; then it is the case's failure.
    """

    matrix: Matrix
    seed: int
    dtype: str
    formats: tuple[tuple[Case, ...], ...]
    modules: tuple[str, ...]
    processes: int = 2

    @property
    def cases(self) -> list[Case]:
        """All cases, in order."""
        return list(itertools.chain.from_iterable(self.formats))

    @property
    def ops(self) -> list[str]:
        """Names of the operations, without repeats."""
        return list(dict.fromkeys(case.op for case in self.cases))

    def only(self, case_ids: Container[str]) -> Group:
        """The group reduced to the cases in `case_ids`."""
        left = (tuple(case for case in cases if case.case_id in case_ids) for cases in self.formats)
        return replace(self, formats=tuple(filter(None, left)))


def precision_of(dtype: str) -> Precision:
    """The types of values and vectors that a case's type names."""
    return PRECISIONS["f32" if dtype == PATTERN else dtype]


def device_kind(device: str) -> str:
    """``cuda`` or ``emulated``, from a device's name (``cuda:0``, ``emulated-check``)."""
    return device.partition(":")[0].partition("-")[0]
