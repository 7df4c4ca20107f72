"""The CUDA driver's own functions, for what CuPy does not wrap or reports wrongly, by NVIDIA's binding."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from spmvbench.devices.base import DeviceFault


def must(found: Sequence[Any]) -> Any:
    """What a call of a binding returned after its status: nothing, one thing or a tuple. Raises DeviceFault."""
    status, *rest = found
    if int(status):
        raise DeviceFault(f"CUDA refused a call: {getattr(status, 'name', status)}")
    return rest[0] if len(rest) == 1 else tuple(rest)


def device_uuid(ordinal: int) -> uuid.UUID:
    """The UUID of a GPU, or of the instance of one, by its CUDA ordinal; the driver is initialised.

    CuPy's device properties hold it as a string of C, which ends at its first zero byte: about one GPU in 16 has one.
    Raises DeviceFault if the driver refuses.
    """
    from cuda.bindings import driver

    read = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)  # one name since CUDA 13
    return uuid.UUID(bytes=bytes(must(read(must(driver.cuDeviceGet(ordinal)))).bytes))
