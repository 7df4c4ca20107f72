"""Reference data that the formats of a group share: the matrix, its checks, and checksums of both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from spmvbench.devices import Device
from spmvbench.formats import Csr
from spmvbench.formats.precision import PRECISIONS, Precision
from spmvbench.measure import verify
from spmvbench.measure.operations import Operation

KEPT_BYTES = 1 << 25  # of a matrix whose statistics, which may take more, are kept on the device


@dataclass(frozen=True)
class References:
    """One matrix in one type. a: on the host, read-only, the values as stored but in the type of x and y. device_a: on
    the device. stored, device_stored: likewise, in the type that formats store. integers: of the exact integer test, on
    the device; None without one. checks: by the operation's name.

    checksums: of each array on the device, by name, at the beginning. current_checksums: computes them anew, in that
    order.
    """

    a: Csr
    device_a: Csr
    stored: Csr
    device_stored: Csr
    integers: Csr | None
    precision: Precision
    checks: dict[str, verify.Checks]
    checksums: dict[str, int]
    current_checksums: Callable[[], list[int]]

    @classmethod
    def of(
        cls, a: Csr, ops: Mapping[str, Operation], device: Device, seed: int, fresh: int, dtype: str = ""
    ) -> References:
        """Prepare a matrix for its formats; seeds as in `Operation.checks`. dtype: of a case; by default that of `a`.

        a: as `Precision.rounded` gives it. Raises Skip as `Operation.checks` does.
        """
        precision = PRECISIONS.get(dtype, PRECISIONS[f"f{8 * a.dtype.itemsize}"])
        a = a.read_only()
        device_a = a.on(device.xp)
        stored = precision.stored(a).read_only() if precision.is_mixed else a
        device_stored = device_a
        if precision.is_mixed:  # the same index arrays
            device_stored = replace(device_a, values=device.to_device(stored.values), vectors=stored.vectors)
        checks = {name: op.checks(a, device_a, device, seed, fresh) for name, op in ops.items()}
        verify.KNOWN.pop(a, None)  # what operations share, as large as x and y, while formats run
        integers = verify.integer_matrix(device_a) if any(found.integer for found in checks.values()) else None
        for array in vars(a).values():  # row lengths, which formats may use as well
            if hasattr(array, "nbytes"):
                array.flags.writeable = False
        arrays = {"row_ptr": device_a.row_ptr, "col_idx": device_a.col_idx, "values": device_a.values}
        if precision.is_mixed:
            arrays["stored values"] = device_stored.values
        if integers is not None:
            integers = integers.read_only()
            arrays["integer values"] = integers.values
        results = itertools.chain.from_iterable(found.arrays for found in checks.values())
        arrays |= {f"reference results, array {i}": array for i, array in enumerate(results)}
        current_checksums = device.checksums(list(arrays.values()))
        shared = a, device_a, stored, device_stored, integers, precision, checks
        return cls(*shared, dict(zip(arrays, current_checksums(), strict=True)), current_checksums)

    @property
    def estimated(self) -> Csr:
        """The matrix on the device for estimates of formats' sizes. What they count of a small one is kept for the next
        format.
        """
        return self._estimated if self.device_stored.nbytes <= KEPT_BYTES else self.device_stored.fresh()

    @cached_property
    def _estimated(self) -> Csr:
        return self.device_stored.fresh()

    def changed(self) -> list[str]:
        """Names of the arrays on the device that were changed."""
        return [
            name
            for (name, before), now in zip(self.checksums.items(), self.current_checksums(), strict=True)
            if now != before
        ]
