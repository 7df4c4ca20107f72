"""What a format computes: y = A x, and what else is timed and judged by the same core.

An operation says what a format is handed for A, x and y, what y is right, and how much work that is. Its name holds
whatever tells two of its kind apart, so that rows of different names are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from spmvbench.bench import verify
from spmvbench.devices import Device
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats import Csr
from spmvbench.formats.arrays import Array


@dataclass(frozen=True)
class Operation:
    """An operation with its parameter.

    name: as rows have it. Class attributes: key (what `Format.op` says), streams (it reads the whole matrix whatever x
    holds, so that bytes over time are a bandwidth).
    """

    name: str

    key: ClassVar[str]
    streams: ClassVar[bool] = False

    def matrix(self, a: Csr) -> Csr:
        """What formats convert, of the matrix as it was read and in the case's type. Raises Skip where that is none."""
        return a

    def vectors(self, a: Csr) -> tuple[Any, Array]:
        """An x and a y of the sizes and types that launches are bound to, on the host."""
        raise NotImplementedError

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> verify.Checks:
        """All that y is held to, for what `matrix` gave, on the host and on the device.

        seed: of the first x. fresh: seed of what no format can know. Raises Skip where there is no right answer.
        """
        raise NotImplementedError

    def work(self, a: Csr, checks: verify.Checks) -> int:
        """What a rate counts: flops, or what stands for them, of one run with `checks.timed`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Spmv(Operation):
    """Y = A x with a dense x, two flops an entry."""

    key = "spmv"
    streams = True

    def vectors(self, a: Csr) -> tuple[Array, Array]:
        return np.zeros(a.cols, a.dtype), np.zeros(a.rows, a.dtype)

    def checks(self, a: Csr, device_a: Csr, device: Device, seed: int, fresh: int) -> verify.Checks:
        return verify.checks(a, device_a, device, seed, fresh)

    def work(self, a: Csr, checks: verify.Checks) -> int:
        return 2 * a.nnz


OPERATIONS: dict[str, type[Operation]] = {cls.key: cls for cls in (Spmv,)}


def kind(name: str) -> str:
    """An operation's name up to its parameter: those of one kind share a matrix, and formats converted from it."""
    return name.partition("@")[0]


@cache
def get(name: str) -> Operation:
    """The operation of a name. Raises UsageError."""
    key = kind(name)
    if key not in OPERATIONS or key != name:
        hint = did_you_mean(name, list(OPERATIONS)) or f": use {', '.join(OPERATIONS)}"
        raise UsageError(f"there is no operation {name!r}{hint}")
    return OPERATIONS[key](name)
