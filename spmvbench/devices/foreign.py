"""Vectors of other libraries as arrays of NumPy or CuPy, without a copy, and results in the library that asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from spmvbench.formats.arrays import Array, array_module, on_host
from spmvbench.formats.streams import Stream

_CUDA = 2  # DLDeviceType.kDLCUDA of DLPack

Restore = Callable[[Array], Any]


def given(x: Any) -> tuple[Array, Restore]:
    """A vector as an array of NumPy or CuPy that shares its memory, and what makes a result one of its own kind.

    Taken are arrays of NumPy and CuPy, what has `__cuda_array_interface__` (Numba, PyTorch) or `__dlpack__`, and what
    `numpy.asarray` takes. A result becomes the caller's kind by the `from_dlpack` of the library that made x; if it
    has none, the result stays an array of NumPy or CuPy. Raises TypeError for what is no array of numbers.
    """
    if isinstance(x, np.ndarray) or array_module(x) is not np:
        return x, _as_it_is
    if hasattr(x, "__cuda_array_interface__"):
        import cupy

        return cupy.asarray(x), _maker(x)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        if x.__dlpack_device__()[0] == _CUDA:
            import cupy

            return cupy.from_dlpack(x), _maker(x)
        try:
            return np.from_dlpack(x), _maker(x)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:  # each library has its own
            raise TypeError(f"the memory of this {type(x).__name__} cannot be used by NumPy: {error}") from error
    array = np.asarray(x)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"a vector must be an array of numbers, not {type(x).__name__}")
    return array, _as_it_is


def given_out(y: Any) -> Array:
    """A vector to write to, as `given`. Raises TypeError also for what NumPy would have to copy, such as a list."""
    array, _ = given(y)
    if array is not y and not any(hasattr(y, name) for name in ("__cuda_array_interface__", "__dlpack__")):
        raise TypeError(f"out must be an array that can be written to, not {type(y).__name__}")
    return array


def current_stream(x: Any, ordinal: int) -> Stream | None:
    """The stream that the library of x works on now, if that is not CuPy: PyTorch's for its tensors."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(x, torch.Tensor) or not x.is_cuda:
        return None
    return Stream(int(torch.cuda.current_stream(ordinal).cuda_stream))


def _as_it_is(y: Array) -> Array:
    return y


def _maker(x: Any) -> Restore:
    """`from_dlpack` of the library that x is of; results stay as they are if it has none."""
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    return getattr(library, "from_dlpack", _as_it_is)


def moved(array: Array, xp: Any) -> Array:
    """An array of NumPy or CuPy on another array module, copied only where it has to move."""
    if array_module(array) is xp:
        return array
    return cast(Array, xp.asarray(array)) if xp is not np else on_host(array)


def check_vector(name: str, array: Array, size: int) -> None:
    """Raise TypeError or ValueError unless it is a vector of real numbers, (size,) or (size, 1)."""
    if array.dtype.kind == "c":
        raise TypeError(f"{name} is {array.dtype} and the operator is real: multiply its real and imaginary parts")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} is an array of {array.dtype}, not of real numbers")
    if array.shape not in ((size,), (size, 1)):
        raise ValueError(f"{name} has the shape {array.shape}, this product needs ({size},) or ({size}, 1)")
