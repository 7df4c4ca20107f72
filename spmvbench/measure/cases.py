"""A case: one matrix in one format, type and mode. A group: the cases that share one reading of the matrix."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.matrices import Matrix

PATTERN = "pattern"  # the type of rows whose operation takes no values
DTYPES = {"f64": np.dtype(np.float64), "f32": np.dtype(np.float32), PATTERN: np.dtype(np.float32)}
DEFAULT_MODES = {"cuda": ("hot", "cold"), "emulated": ("hot",)}


@dataclass(frozen=True)
class Settings:
    """What one session measures with. Times in seconds; None takes the device kind's default.

    device: ``cuda:0``, ``emulated``. max_bytes: what a format may take. budget: sampling time of a case. timeout: what
    a case may last in one turn before its worker is replaced. real_part: take the real part of a complex matrix,
    which is refused otherwise. convert: ``both``, or ``device`` to leave out the host's conversion, which takes seconds
    where a matrix is large, and its time. measured: what an earlier worker of the session has measured of the
    device (`device_limits.SESSION`). per_host: the folder that the processes of a host share where several measure
    (`matrix_cache`); None where this is the only one.
    """

    device: str
    max_bytes: int | None = None
    budget: float | None = None
    timeout: float | None = None
    real_part: bool = False
    convert: str = "both"
    measured: Mapping[str, Any] | None = None
    per_host: str | None = None


@dataclass(frozen=True)
class Case:
    """One row to be. device: the device's name without its number. refusal: why it is recorded as skipped, unrun.

    op: the operation's name.
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

    @cached_property
    def case_id(self) -> str:
        """Hash of everything that makes two cases different; the same in every session.

        What a file holds belongs to it, and the program that makes a generated matrix. An archive of the collection is
        what its name says until `session.pending` finds that it was replaced.
        """
        identity = [self.matrix.id, self.seed, self.format, self.params, self.dtype, self.op, self.mode, self.device]
        identity += filter(None, [self.matrix.file_sha256, self.matrix.generator_hash])
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """The format with the parameters that differ from their defaults."""
        return formats.label(formats.get(self.format), dict(self.params))

    @property
    def source_hash(self) -> str:
        """Hash of the sources that would be measured now."""
        return formats.source_hash(formats.get(self.format))

    def columns(self) -> dict[str, Any]:
        """The columns of the row that are known before anything is measured."""
        cls = formats.get(self.format)
        return {
            "case_id": self.case_id,
            "group": self.matrix.group,
            "name": self.matrix.name,
            "file_sha256": self.matrix.file_sha256,
            "generator_hash": self.matrix.generator_hash,
            "kind": self.matrix.kind,
            "format": self.format,
            "family": cls.family,
            "params": formats.params_text(dict(self.params)),
            "label": self.label,
            "experiment": cls.experiment,
            "project_kernel": cls.runs_project_kernel(dict(self.params)),
            "alias_of": cls.alias_of if dict(self.params) == cls.resolve({}) else "",
            "source_hash": self.source_hash,
            "dtype": self.dtype,
            "op": self.op,
            "mode": self.mode,
        }


@dataclass(frozen=True)
class Group:
    """Cases that share one matrix, type and kind of operation, hence one reading.

    formats: the operations and modes of one format with its parameters, which is converted once for them.
    """

    matrix: Matrix
    seed: int
    dtype: str
    formats: tuple[tuple[Case, ...], ...]

    @property
    def cases(self) -> list[Case]:
        """All cases, in order."""
        return list(itertools.chain.from_iterable(self.formats))

    @property
    def ops(self) -> list[str]:
        """The names of the operations, each once."""
        return list(dict.fromkeys(case.op for case in self.cases))

    def only(self, case_ids: Container[str]) -> Group:
        """The group with only the cases that are in `case_ids`."""
        left = (tuple(case for case in cases if case.case_id in case_ids) for cases in self.formats)
        return Group(self.matrix, self.seed, self.dtype, tuple(filter(None, left)))


def device_kind(device: str) -> str:
    """``cuda`` or ``emulated``, from a device's name (``cuda:0``, ``emulated-check``)."""
    return device.partition(":")[0].partition("-")[0]
