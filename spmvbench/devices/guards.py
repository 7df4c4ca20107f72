"""Guard words on both sides of arrays: they show, after a program has run, which arrays it wrote out of bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast, overload

import numpy as np

from spmvbench.devices.base import Device
from spmvbench.formats.arrays import Array, address
from spmvbench.formats.format import Format
from spmvbench.formats.vectors import SparseVector

GUARD = 16384  # bytes on either side: more than a block of threads writes too far
ALIGNMENT = 512  # bytes, of every array, as in GPU memory
FILL = 0xFF  # of guard bytes: -1 as an index, NaN as a value, so that what is read there shows as well


class Guards:
    """Arrays of a device that each are between two zones of guard words."""

    def __init__(self, device: Device):
        self.device = device
        self._zones: dict[str, tuple[Array, Array]] = {}
        self._roomy: dict[int, int] = {}  # bytes at each address that has room for guards on either side
        self._sums: Callable[[], list[Any]] | None = None
        self._intact: list[Any] = []

    @contextmanager
    def leaving_room(self) -> Iterator[None]:
        """What is allocated on a GPU within it has room for guards on either side, so that `hold` need not copy it.

        A format may then take more than half of the memory. Does nothing if the memory is the host's.
        """
        xp = self.device.xp
        self._roomy.clear()  # memory that has been freed since may be another's by now
        if xp is np:
            yield
            return
        pool = xp.get_default_memory_pool()

        def allocate(size: int) -> Any:
            pointer = pool.malloc(size + 2 * GUARD) + GUARD
            self._roomy[pointer.ptr] = size
            return pointer

        with xp.cuda.using_allocator(allocate):
            yield

    def hold(self, name: str, array: Array) -> Array:
        """The array between guards, in the same order of memory: a copy, but of what was allocated with room for them.

        An array of nothing, or with gaps, is returned as it is.
        """
        if not array.nbytes or not (array.flags.c_contiguous or array.flags.f_contiguous):
            return array
        xp = self.device.xp
        if xp is not np and self._has_room(array):
            zones = (xp.ndarray(GUARD, np.uint8, cast(Any, array.data) + offset) for offset in (-GUARD, array.nbytes))
            before, behind = zones
            self._zones[name] = before, behind
            before[...] = behind[...] = FILL
            self._sums = None
            return array
        buffer = xp.full(2 * GUARD + ALIGNMENT + array.nbytes, FILL, np.uint8)
        begin = GUARD + -address(buffer) % ALIGNMENT
        end = begin + array.nbytes
        self._zones[name] = buffer[:begin], buffer[end:]
        self._sums = None
        flat = buffer[begin:end].view(array.dtype)
        copy: Array = flat.reshape(array.shape) if array.flags.c_contiguous else flat.reshape(array.shape[::-1]).T
        copy[...] = array
        return copy

    def _has_room(self, array: Array) -> bool:
        """Whether a GPU's array is the whole of an allocation that was made within `leaving_room`."""
        begin, allocated = address(array), cast(Any, array.data).mem.ptr
        return begin == int(allocated) + GUARD and self._roomy.get(begin) == array.nbytes

    @overload
    def hold_vector(self, name: str, vector: Array) -> Array: ...
    @overload
    def hold_vector(self, name: str, vector: SparseVector) -> SparseVector: ...
    def hold_vector(self, name: str, vector: Array | SparseVector) -> Array | SparseVector:
        """An x or y with every array between guards, in the device's memory."""
        if isinstance(vector, SparseVector):
            return vector.with_arrays(lambda part, array: self.hold_vector(f"{name}.{part}", array))
        return self.hold(name, self.device.to_device(vector))

    def hold_format(self, fmt: Format) -> Format:
        """The format with every array between guards, those of its parts included."""
        held = fmt.with_arrays(self.hold)
        self._zones |= held.zones
        self.watch()
        return held

    def watch(self) -> None:
        """Begin to watch the arrays that are held now, before any program runs that could write out of bounds."""
        zones = [zone for pair in self._zones.values() for zone in pair]
        if self.device.xp is np:  # copying so few bytes takes a tenth of the time of summing them
            self._sums = lambda: [zone.tobytes() for zone in zones]
        else:
            self._sums = self.device.checksums(zones)
        self._intact = self._sums()

    def overwritten(self) -> list[str]:
        """Names of the arrays whose guard words were overwritten. The guards are restored.

        None before `watch`: where memory ran out while arrays were taken over, nothing has run that could have written.
        """
        if self._sums is None:
            return []
        now = self._sums()
        if now == self._intact:
            return []
        found = []
        for i, (name, pair) in enumerate(self._zones.items()):
            if now[2 * i : 2 * i + 2] != self._intact[2 * i : 2 * i + 2]:
                found.append(name)
                for zone in pair:
                    zone[...] = FILL
        return found
