"""Reference data that the formats of a group share: the matrix, its checks, and checksums of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spmvbench.devices import Device
from spmvbench.formats import Csr
from spmvbench.measure import verify
from spmvbench.measure.operations import Operation


@dataclass(frozen=True)
class References:
    """One matrix in one type. a: on the host, read-only. device_a: on the device. checks: by the operation's name.

    checksums: of each array on the device, by name, at the beginning. current_checksums: computes them anew, in that
    order.
    """

    a: Csr
    device_a: Csr
    checks: dict[str, verify.Checks]
    checksums: dict[str, int]
    current_checksums: Callable[[], list[int]]

    @classmethod
    def of(cls, a: Csr, ops: Mapping[str, Operation], device: Device, seed: int, fresh: int) -> References:
        """Prepare a matrix for its formats; seeds as in `Operation.checks`. Raises Skip as that does."""
        a = a.read_only()
        device_a = a.on(device.xp)
        checks = {name: op.checks(a, device_a, device, seed, fresh) for name, op in ops.items()}
        for array in vars(a).values():  # row lengths, which formats may use as well
            if hasattr(array, "flags"):
                array.flags.writeable = False
        arrays = {"row_ptr": device_a.row_ptr, "col_idx": device_a.col_idx, "values": device_a.values}
        results = itertools.chain.from_iterable(found.arrays for found in checks.values())
        arrays |= {f"reference results, array {i}": array for i, array in enumerate(results)}
        current_checksums = device.checksums(list(arrays.values()))
        return cls(a, device_a, checks, dict(zip(arrays, current_checksums(), strict=True)), current_checksums)

    def changed(self) -> list[str]:
        """Names of the arrays on the device that were changed."""
        return [
            name
            for (name, before), now in zip(self.checksums.items(), self.current_checksums(), strict=True)
            if now != before
        ]
