"""What the formats of a group share, the matrix and its checks, and whether any of it was changed."""

from __future__ import annotations

from dataclasses import dataclass

from spmvbench.bench import verify
from spmvbench.devices import Device
from spmvbench.formats import Csr
from spmvbench.formats.arrays import Array


@dataclass(frozen=True)
class Shared:
    """One matrix in one type. a: on the host, read-only. device_a: on the device. sums: of all that lies there."""

    a: Csr
    device_a: Csr
    checks: verify.Checks
    sums: dict[str, int]

    @classmethod
    def of(cls, a: Csr, device: Device, seed: int, fresh: int) -> Shared:
        """Prepare a matrix for its formats; seeds as `verify.checks` takes them. Raises Skip as that does."""
        a = a.read_only()
        device_a = a.on(device.xp)
        checks = verify.checks(a, device_a, device, seed, fresh)
        for array in vars(a).values():  # row lengths, that formats may ask for too
            if hasattr(array, "flags"):
                array.flags.writeable = False
        return cls(a, device_a, checks, _sums(device_a, checks, device))

    def altered(self, device: Device) -> list[str]:
        """What on the device is no longer what it was."""
        now = _sums(self.device_a, self.checks, device)
        return [name for name, total in self.sums.items() if now[name] != total]


def _sums(a: Csr, checks: verify.Checks, device: Device) -> dict[str, int]:
    arrays: dict[str, Array] = {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}
    names = [*arrays, *(f"right answer {i}" for i in range(len(checks.arrays)))]
    return dict(zip(names, device.checksums([*arrays.values(), *checks.arrays]), strict=True))
