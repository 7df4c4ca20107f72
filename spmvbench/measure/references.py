"""What the formats of a group share, the matrix and its checks, and whether any of it was changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spmvbench.devices import Device
from spmvbench.formats import Csr
from spmvbench.measure import verify
from spmvbench.measure.operations import Operation


@dataclass(frozen=True)
class Shared:
    """One matrix in one type. a: on the host, read-only. device_a: on the device. checks: by the operation's name.

    sums: of all that lies on the device, by name. now: what they are at present, in the same order.
    """

    a: Csr
    device_a: Csr
    checks: dict[str, verify.Checks]
    sums: dict[str, int]
    now: Callable[[], list[int]]

    @classmethod
    def of(cls, a: Csr, ops: Mapping[str, Operation], device: Device, seed: int, fresh: int) -> Shared:
        """Prepare a matrix for its formats; seeds as `Operation.checks` takes them. Raises Skip as that does."""
        a = a.read_only()
        device_a = a.on(device.xp)
        checks = {name: op.checks(a, device_a, device, seed, fresh) for name, op in ops.items()}
        for array in vars(a).values():  # row lengths, that formats may ask for too
            if hasattr(array, "flags"):
                array.flags.writeable = False
        arrays = {"row_ptr": device_a.row_ptr, "col_idx": device_a.col_idx, "values": device_a.values}
        answers = itertools.chain.from_iterable(found.arrays for found in checks.values())
        arrays |= {f"right answers, array {i}": array for i, array in enumerate(answers)}
        now = device.checksums(list(arrays.values()))
        return cls(a, device_a, checks, dict(zip(arrays, now(), strict=True)), now)

    def altered(self) -> list[str]:
        """What on the device is no longer what it was."""
        return [name for (name, was), now in zip(self.sums.items(), self.now(), strict=True) if now != was]
