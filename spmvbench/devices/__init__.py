"""Devices: where launches run. `open_device` gives one by name, `multiply` runs one y = A x."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.devices.base import Device, DeviceFault, DeviceUnavailable, OutOfDeviceMemory, Program, pseudonym
from spmvbench.errors import UsageError
from spmvbench.formats.base import Format, Skip

__all__ = [
    "Device",
    "DeviceFault",
    "DeviceUnavailable",
    "OutOfDeviceMemory",
    "Program",
    "multiply",
    "open_device",
    "pseudonym",
]


def open_device(name: str = "auto") -> Device:
    """A device by name: ``cuda:N``, ``emulated``, ``emulated-check`` (finds races and counts traffic), ``auto``.

    ``auto`` is ``cuda:0`` where a GPU can be used, else ``emulated``. Raises DeviceUnavailable with what to install,
    UsageError for an unknown name.
    """
    if name == "auto":
        from spmvbench.devices import cuda

        name = "cuda:0" if cuda.why_unavailable() is None else "emulated"
    if name.startswith("cuda:") and name[5:].isdigit():
        from spmvbench.devices.cuda import Cuda

        return Cuda(int(name[5:]))
    if name in ("emulated", "emulated-check"):
        from spmvbench.devices.emulated import Emulated

        return Emulated(check=name.endswith("-check"))
    raise UsageError(f"there is no device {name!r}: use auto, cuda:0, emulated or emulated-check")


def multiply(fmt: Format, x: Any, device: str | Device = "emulated") -> np.ndarray:
    """Y = A x by the format's own kernels.

    fmt: a matrix in a format, on the device's array module (NumPy for ``emulated``, CuPy for ``cuda:N``).
    x: (cols,), cast to the matrix's value type. Returns y, (rows,), on the host; x and y are in the matrix's order,
    whatever the format's. Raises ValueError for an x of another length, Skip where the device's kind cannot run the
    format.
    """
    opened = open_device(device) if isinstance(device, str) else device
    if opened.kind not in fmt.devices:
        raise Skip(f"{fmt.key} runs on {' and '.join(fmt.devices)} only")
    dtype = fmt.value_dtype
    host_x = opened.to_host(x).astype(dtype)
    if host_x.shape != (fmt.shape[1],):
        raise ValueError(f"x has shape {host_x.shape}, the matrix has {fmt.shape[1]} columns")
    device_x = fmt.ordered_x(opened.to_device(host_x))
    y = opened.to_device(np.full(fmt.shape[0], np.nan, dtype))
    opened.compile(fmt.launches(device_x, y)).run()
    opened.synchronize()
    return opened.to_host(fmt.restored_y(y))
