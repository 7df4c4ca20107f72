"""Matrices of which only the lengths of rows matter, and the launches of a format."""

import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import numpy as np
from scipy import sparse

from spmvbench.formats import Csr, conversion


def with_lengths(lengths, cols=None, drawn=None):
    """A csr_array with rows of these lengths: columns from 0 on, and the values 1, 2, 3, ... over all.

    cols: as many as the longest row has, if it is None. drawn: seed by which columns, and values between -1 and 1, are
    drawn instead.
    """
    cols = max([*lengths, 1]) if cols is None else cols
    row_ptr = np.append(0, np.cumsum(lengths)).astype(np.int32)
    rng = np.random.default_rng(drawn)
    each = (np.arange(n) if drawn is None else np.sort(rng.choice(cols, n, replace=False)) for n in lengths)
    columns = np.concatenate([np.empty(0, np.int32), *each]).astype(np.int32)
    values = np.arange(1.0, len(columns) + 1) if drawn is None else rng.uniform(-1, 1, len(columns))
    return sparse.csr_array((values, columns, row_ptr), shape=(len(lengths), cols))


def launches(fmt):
    """The launches of one product that have blocks."""
    x, y = (np.zeros(side, fmt.value_dtype) for side in fmt.shape[::-1])
    return [launch for launch in fmt.launches(x, y) if launch.grid]


def names(fmt):
    """The kernels of `launches`, without their template arguments."""
    return [launch.kernel.partition("<")[0] for launch in launches(fmt)]


def products(fmt, x, device):
    """y of three products with the same x, which is the same in every bit."""
    y = np.full(fmt.shape[0], np.nan)
    program, found = device.compile(fmt.launches(x, y)), set()
    for _ in range(3):
        program.run()
        found.add(y.tobytes())
    assert len(found) == 1
    return y


def runs_on(device):
    """What runs a launch of a conversion on a device."""
    return lambda launch: device.compile([launch]).run()


def with_long_pointers(matrix):
    """A Csr whose row pointers have 64 bits."""
    a = Csr.of(matrix)
    return Csr(a.shape, a.row_ptr.astype(np.int64), a.col_idx, a.values)


class Module(ModuleType):
    """NumPy under another name, which formats take for that of a device."""

    cuda = SimpleNamespace(
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        runtime=SimpleNamespace(getDevice=lambda: 0),
    )
    __getattr__ = staticmethod(partial(getattr, np))


ELSEWHERE = Module("device")


class OnDevice(Csr):
    xp = property(lambda self: ELSEWHERE)


def stub_of_cupy(monkeypatch, launch=None, stream=0, **members):
    """Give conversions as much of CuPy as they look up, on a stream of a handle. launch: in place of the driver's."""
    current = SimpleNamespace(ptr=stream)
    cuda = SimpleNamespace(
        driver=SimpleNamespace(launchKernel=launch, funcGetAttribute=lambda *_: 0),
        runtime=SimpleNamespace(getDevice=lambda: 0),
        get_current_stream=lambda: current,
        alloc_pinned_memory=bytearray,
        alloc=lambda size: SimpleNamespace(ptr=2**40, size=size),
    )
    cupy = SimpleNamespace(**{"ndarray": np.ndarray, "cuda": cuda} | members)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    host = conversion._Host()
    monkeypatch.setattr(conversion, "_host", lambda: host)
    return cupy


def as_on_device(a, monkeypatch, seconds):
    """A matrix that formats take for one of a device, where array operations convert; seconds: takes what is timed."""
    for name, module in list(sys.modules.items()):
        if name.startswith("spmvbench.formats.") and hasattr(module, "seconds"):
            monkeypatch.setattr(module, "seconds", seconds)
        if name.startswith("spmvbench.formats.") and hasattr(module, "runner"):
            monkeypatch.setattr(module, "runner", lambda a: None)
    known = Csr.of(a)
    return OnDevice(known.shape, known.row_ptr, known.col_idx, known.values)
