"""A format that changes the measuring process by carelessness: what it changed is restored, or its process replaced."""

import builtins
import ctypes
import gc
import io
import json
import locale
import os
import resource
import signal
import sys
import time
import warnings
from unittest import mock

import numpy as np
import pytest

from spmvbench.devices import DeviceFault
from spmvbench.formats import Csr
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure import process_state
from spmvbench.measure.process_state import ProcessState
from tests.measure.recording import measure, variant

assert measure
CARELESS = {
    "NumPy's handling of errors": lambda: np.seterr(all="raise"),
    "NumPy's callback for errors": lambda: np.seterrcall(print),
    "NumPy's print options": lambda: np.set_printoptions(precision=2),
    "the environment": lambda: os.environ.update(TMPDIR="/nowhere", OMP_NUM_THREADS="99"),
    "the working directory": lambda: os.chdir("/"),
    "the umask": lambda: os.umask(0o777),
    "sys.stdin, sys.stdout or sys.stderr": lambda: setattr(sys, "stderr", io.StringIO()),
    "file descriptors 0 to 2": lambda: os.dup2(os.open(os.devnull, os.O_RDWR), 2),
    "signal handlers": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "signal handlers ": lambda: ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(1)),  # in C: SIG_IGN
    "the signal mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]),
    "timers": lambda: signal.setitimer(signal.ITIMER_PROF, 3600),
    "resource limits": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**12, resource.RLIM_INFINITY)),
    "the limit of recursion": lambda: sys.setrecursionlimit(400),
    "the interval of threads": lambda: sys.setswitchinterval(1.0),
    "the trace function": lambda: sys.settrace(lambda *args: None),
    "the profile function": lambda: sys.setprofile(lambda *args: None),
    "the garbage collector": lambda: gc.disable(),
    "filters that make warnings errors": lambda: warnings.simplefilter("error", UserWarning),
    "sys.path": lambda: sys.path.insert(0, "/nowhere"),
    "the locale": lambda: locale.setlocale(locale.LC_ALL, "C" if locale.setlocale(locale.LC_ALL) != "C" else "C.UTF-8"),
    "rounding or subnormals of the processor": lambda: ctypes.CDLL(None).fesetround(0x400),
    "time.perf_counter": lambda: setattr(time, "perf_counter", lambda: 0.0),
    "json.dumps": lambda: setattr(json, "dumps", lambda value, **_: "{}"),
    "json.loads": lambda: setattr(json, "loads", mock.ANY),  # equal to whatever it is compared with
    "numpy.dot": lambda: setattr(np, "dot", None),
    "builtins.sum": lambda: setattr(builtins, "sum", None),
    "builtins.zip": lambda: setattr(builtins, "zip", None),
    "the module json": lambda: sys.modules.update(json=None),
    "spmvbench.formats.arrays.row_len_max": lambda: setattr(Csr, "row_len_max", 10**9),
    "spmvbench.formats.csr.csr.to_coo": lambda: setattr(CsrArrays, "to_coo", lambda self: (self.row_ptr,) * 3),
}


@pytest.mark.parametrize("name", CARELESS)
def test_what_a_format_changes_is_restored_before_the_next_one(measure, name, capfd):
    """The format is measured all the same: it is its own conversion that it changes."""
    done = []

    def convert(cls, a, **params):
        found = CsrArrays.convert.__func__(cls, a)
        if not done:
            done.append(CARELESS[name]())
        return found

    before = ProcessState()
    _, rows, _ = measure(variant("Careless", convert=classmethod(convert)), variant("A"), modes=("hot",))
    assert before.restore() == [], "nothing is left to restore"
    assert rows["test-a", "hot"]["status"] == "ok", rows["test-a", "hot"]["reason"]
    assert f"test-careless changed {name.strip()}: restored" in capfd.readouterr().err


@pytest.mark.parametrize("counted", [True, False])
def test_functions_are_compared_with_and_without_the_versions_of_their_dicts(counted, monkeypatch):
    """Python counts changes of dicts before 3.14; no object tells by itself whether it is the same."""
    known = process_state._has_versions()
    assert known == (sys.implementation.name == "cpython" and sys.version_info < (3, 14))
    monkeypatch.setattr(process_state, "_has_versions", lambda: counted and known)
    state = ProcessState()
    for _ in range(2):
        assert state.restore() == []
        json.loads, CsrArrays.to_coo, sys.modules["json"] = mock.ANY, mock.ANY, None
        assert set(state.restore()) >= {"json.loads", "spmvbench.formats.csr.csr.to_coo", "the module json"}


@pytest.mark.parametrize("others", [0, 1])
def test_a_process_is_replaced_if_something_cannot_be_restored(measure, others, monkeypatch):
    """Here by open files; alone in its group the format is measured to its end."""
    monkeypatch.setattr(process_state, "_with_limits", lambda held: None)
    monkeypatch.setattr(process_state, "LIMITS", [])
    limit, opened = 2 * len(os.listdir("/proc/self/fd")) + 20, []
    monkeypatch.setattr(process_state.resource, "getrlimit", lambda number: (limit, limit))

    def convert(cls, a, **params):
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(20))
        return CsrArrays.convert.__func__(cls, a)

    classes = variant("Leaks", convert=classmethod(convert)), *map(variant, "A"[:others])
    try:
        if others:
            with pytest.raises(DeviceFault, match="it changed the number of free file descriptors, which cannot be"):
                measure(*classes, modes=("hot",))
        else:
            _, rows, _ = measure(*classes, modes=("hot",))
            assert rows["test-leaks", "hot"]["status"] == "ok"
    finally:
        for descriptor in opened:
            os.close(descriptor)
