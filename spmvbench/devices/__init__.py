"""Devices: where launches run. `open_device` gives one by name, `multiply` runs one y = A x."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np

from spmvbench.devices.base import (
    Device,
    DeviceFault,
    DeviceUnavailable,
    OutOfDeviceMemory,
    Program,
    Throttling,
    pseudonym,
)
from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats.admission import Skip
from spmvbench.formats.arrays import array_module, ordinal
from spmvbench.formats.format import Format
from spmvbench.formats.vectors import SparseVector, in_order, orders, restored

__all__ = [
    "Device",
    "DeviceFault",
    "DeviceUnavailable",
    "OutOfDeviceMemory",
    "Program",
    "Throttling",
    "chosen",
    "known",
    "multiply",
    "open_device",
    "pseudonym",
    "shared_device",
]


def chosen(name: str) -> str:
    """The device that a name means: ``auto`` is ``cuda:0`` where a GPU can be used, else ``emulated``.

    Raises UsageError for a name that no device has.
    """
    from spmvbench.devices import cuda

    if name != "auto":
        return known(name)
    return "cuda:0" if cuda.why_unavailable() is None else "emulated"


def known(name: str) -> str:
    """The name of a device, as it was given, whether or not it is here. Raises UsageError for other names."""
    if not re.fullmatch(r"auto|cuda:\d{1,9}|emulated(-check)?", str(name), re.ASCII):
        hint = did_you_mean(str(name), ["auto", "cuda:0", "emulated", "emulated-check"])
        raise UsageError(f"there is no device {name!r}{hint or ': use auto, cuda:0 or emulated'}")
    return str(name)


def open_device(name: str = "auto") -> Device:
    """A device by name: ``cuda:N``, ``emulated``, ``emulated-check`` (finds races), ``auto``.

    ``auto`` is ``cuda:0`` where a GPU can be used, else ``emulated``. Raises DeviceUnavailable with what to install,
    UsageError for an unknown name.
    """
    name = chosen(name)
    if name.startswith("cuda:"):
        from spmvbench.devices.cuda import Cuda

        return Cuda(int(name[5:]))
    from spmvbench.devices.emulated import Emulated

    return Emulated(check=name.endswith("-check"))


@cache
def shared_device(name: str) -> Device:
    """As `open_device`, opened once in a process: opening a GPU takes longer than many products."""
    return open_device(name)


def multiply(fmt: Format, x: Any, device: str | Device | None = None) -> Any:
    """The product y = A x by the format's own kernels; ``fmt @ x`` is the same.

    fmt: a matrix in a format, on the device's array module (NumPy for ``emulated``, CuPy for ``cuda:N``). x: (cols,),
    of NumPy or CuPy, cast to the matrix's value type; a format that takes a sparse x gets what of it is not zero.
    device: without, the one that holds the format: the GPU of CuPy's arrays, else ``emulated``.

    Returns y, (rows,), a NumPy array for one of NumPy and a CuPy array for one of CuPy; x and y are in the matrix's
    order, whatever the format's. Raises ValueError for an x of another length, Skip where the device's kind cannot run
    the format, UsageError where another device holds it or where its launches are no product.
    """
    arrays = fmt.arrays().values()
    if device is None:
        device = "emulated" if fmt.xp is np else f"cuda:{ordinal(next(iter(arrays)))}"
    opened = shared_device(device) if isinstance(device, str) else device
    if opened.kind not in fmt.devices:
        raise Skip(f"{fmt.key} runs on {' and '.join(fmt.devices)} only")
    if opened.xp is not fmt.xp:
        raise UsageError(f"{fmt.key} is held by {fmt.xp.__name__}, and {opened.name} works on {opened.xp.__name__}")
    if fmt.op not in ("spmv", "spmspv"):
        raise UsageError(f"{fmt.key} is made for {fmt.op} and does not multiply")
    of_x, dtype = array_module(x), fmt.value_dtype
    x = opened.to_device(np.asarray(x) if of_x is np else x if opened.xp is of_x else x.get()).astype(dtype)
    if x.shape != (fmt.shape[1],):
        raise ValueError(f"x has shape {x.shape}, the matrix has {fmt.shape[1]} columns")
    x_order, y_order = orders(fmt)
    if fmt.op == "spmspv":
        index = opened.xp.flatnonzero(x)
        given: Any = SparseVector(index.astype(np.int32), x[index], len(x))
    else:
        given = in_order(x, x_order)
    y = opened.to_device(np.full(fmt.shape[0], np.nan, dtype))
    opened.compile(fmt.launches(given, y)).run()
    opened.synchronize()
    found = restored(y, y_order)
    return opened.to_host(found) if of_x is np else of_x.asarray(found)
