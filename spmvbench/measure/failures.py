"""Why a case has no time: what a check raises, and the failure that a row reports for any exception."""

from __future__ import annotations

import math
import os
import sys
import traceback
from dataclasses import dataclass

import psutil

from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Skip
from spmvbench.formats.admission import MissingLibrary
from spmvbench.formats.registry import REGISTRY
from spmvbench.measure import verify
from spmvbench.rows.schema import MISSING

COMPILING = "compiling"  # the stage in which a device fault is an error of the format's code


class Wrong(Exception):
    """A check failed. ratio: the error as a fraction of its bound; NaN if an array was overwritten."""

    def __init__(self, reason: str, ratio: float = math.nan):
        super().__init__(reason)
        self.ratio = ratio


class FailedAllocation(DeviceFault):
    """An allocation failed though far more was free: another process may do without this failure."""

    def __init__(self, reason: str):
        super().__init__(reason, sticky=True)


@dataclass(frozen=True)
class Failure:
    """Why a case has no time: the columns of its row. bytes_*: if a size was the reason."""

    status: str
    reason: str
    bytes_needed: int = 0
    bytes_limit: int = 0


def failure_of(error: Exception, stage: str) -> Failure:
    """The failure that a row reports for an exception."""
    if isinstance(error, Wrong):
        return Failure("wrong", str(error))
    if isinstance(error, Skip):
        reason = MISSING + error.reason if isinstance(error, MissingLibrary) else error.reason
        return Failure("skipped", reason, error.needed_bytes or 0, error.limit_bytes or 0)
    if isinstance(error, OUT_OF_MEMORY):
        return Failure("oom", f"out of memory while {stage}: {error}")
    if isinstance(error, DeviceFault):
        return Failure("error" if stage == COMPILING else "crashed", f"fault while {stage}: {error}")
    if isinstance(error, SpmvbenchError):
        return Failure("error", str(error))
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # The innermost frame of this package or of a format's module is more useful than one deep inside NumPy.
    own_folders = {here} | {os.path.dirname(sys.modules[cls.__module__].__file__ or "") for cls in REGISTRY.values()}
    frame = next((f for f in reversed(frames) if f.filename.startswith(tuple(own_folders))), frames[-1])
    where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return Failure("error", f"{type(error).__name__} while {stage}: {error} ({where})")


OUT_OF_MEMORY = (MemoryError, OutOfDeviceMemory)  # CuPy's is a subclass of MemoryError
# Memory that is free when an allocation fails for another reason: so many times its bytes, or if these are unknown, so
# many times what a format may take.
FAR_ABOVE_ASKED, FAR_ABOVE_LIMIT = 16, 2


def fails_early(error: BaseException, device: Device, limit: int) -> bool:
    """Whether an allocation failed far below what was free. limit: bytes that a format may take."""
    if not isinstance(error, OUT_OF_MEMORY):
        return False
    # Of this project, of CuPy, and of NumPy.
    asked = next((n for name in ("asked", "_size", "_total_size") if (n := getattr(error, name, 0))), 0)
    on_host = isinstance(error, MemoryError) and not type(error).__module__.startswith("cupy")
    free = psutil.virtual_memory().available if on_host else device.memory_free()
    return bool(free >= (FAR_ABOVE_ASKED * asked if asked else FAR_ABOVE_LIMIT * limit))


def raise_if_wrong(verdict: verify.Verdict, when: str) -> float:
    """The error as a fraction of its bound. Raises Wrong if the verdict is not passed."""
    if not verdict.passed:
        raise Wrong(f"{verdict} ({when})", verdict.ratio)
    return verdict.ratio
