"""Who overwrites arrays of others: checksums of the formats that stay on the device while others run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spmvbench.devices import Device
from spmvbench.formats import Format
from spmvbench.formats.arrays import Array


@dataclass
class _Held:
    """A format's arrays without gaps. current: computes their checksums; checksums: after its last step."""

    fmt: Format
    arrays: list[Array]
    current: Callable[[], list[int]]
    checksums: list[int]


class Watch:
    """Checksums of the arrays of several formats, by key. A format that is not recorded never has changed."""

    def __init__(self, device: Device):
        self.device = device
        self._held: dict[Any, _Held] = {}

    def record(self, key: Any, fmt: Format) -> None:
        """Record the arrays of a format as they are now."""
        if key not in self._held:
            gapless = [array for array in fmt.arrays().values() if array.flags.c_contiguous or array.flags.f_contiguous]
            arrays = [array.ravel(order="K") for array in gapless if array.size]
            self._held[key] = _Held(fmt, arrays, self.device.checksums(arrays), [])
        self._held[key].checksums = self._held[key].current()

    def forget(self, key: Any) -> None:
        """Release the arrays of a format."""
        self._held.pop(key, None)

    def has_changed(self, key: Any) -> bool:
        """Whether arrays of the format have changed since they were recorded."""
        held = self._held.get(key)
        return held is not None and held.current() != held.checksums

    def all_are_intact(self) -> bool:
        """Whether no array of any format has changed: all at once, since there can be hundreds."""
        every = [held for held in self._held.values() if held.arrays]
        if not every:
            return True
        arrays = [array for held in every for array in held.arrays]
        return self.device.checksums(arrays)() == [value for held in every for value in held.checksums]

    def is_changed_by(self, victim: Any, work: Callable[[], Any]) -> bool:
        """Whether `work` writes to the victim's arrays, which are filled first, so that the same values show."""
        held = self._held[victim]
        for array in held.fmt.arrays().values():
            array.fill(1)
        before = held.current()
        work()
        return held.current() != before
