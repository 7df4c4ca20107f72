"""Products that the host starts itself, because no CUDA graph holds them: some loops, and calls with their own y."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from spmvbench.formats.arrays import Array
from spmvbench.formats.launches import Call

Run = Callable[[int], None]


class OwnResult:
    """A library's call that returns a y of its own, which is copied to the y of the product.

    copy(found, y, stream) enqueues the copy.
    """

    def __init__(self, call: Call, copy: Callable[[Array, Array, int], None]):
        assert call.y is not None
        self._function, self._y, self._copy = call.function, call.y, copy
        self._found: Array | None = None

    def __call__(self, stream: int) -> None:
        """Enqueue the product with the copy: y holds its result."""
        self.product(stream)
        self.copy(stream)

    def product(self, stream: int) -> None:
        """Enqueue the product alone. Its result is kept until the next one, as ``y = a @ x`` in a loop does."""
        self._found = self._function(stream)

    def copy(self, stream: int) -> None:
        """Copy the last result to y. Raises TypeError if it is no array like y."""
        found = self._found
        assert found is not None
        if (found.shape, found.dtype) != (self._y.shape, self._y.dtype):
            raise TypeError(f"y is {found.dtype} {found.shape} by the library, not {self._y.dtype} {self._y.shape}")
        self._copy(found, self._y, stream)
        self._found = None


class HostDriven:
    """So many products, each started by the host. The device times `start` by the host's clock; `finish` is untimed.

    steps: of one product. current: what holds while products run, such as a stream that is the library's current one.
    """

    def __init__(
        self, steps: Sequence[Run], stream: int, repeats: int, current: Callable[[], AbstractContextManager[Any]]
    ):
        self._stream, self._repeats, self._current = stream, repeats, current
        last = steps[-1] if steps else None
        self._last = last if isinstance(last, OwnResult) else None
        self._steps = [*steps[:-1], self._last.product] if self._last else list(steps)

    def __call__(self) -> None:
        """All of it, y included."""
        self.start()
        self.finish()

    def start(self) -> None:
        """Enqueue the products. If the last step of a product returns its own y, it is not copied yet."""
        with self._current():
            for _ in range(self._repeats):
                for step in self._steps:
                    step(self._stream)

    def finish(self) -> None:
        """Copy the result of the last product to y, if that is left to do."""
        if self._last:
            with self._current():
                self._last.copy(self._stream)
