"""A device that records: it runs nothing, and notes what it was asked. One that also runs functions of the host.

With the first, verdicts are given and no format is right or wrong: it is for the order of stages, for retries, failures
and rounds. The second is for checks of results without a compiler.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.devices import Device, Program
from spmvbench.formats import Launch, register
from spmvbench.formats.conversion import EMULATED
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure import protocol, reading, stages, verify, worker
from spmvbench.measure.cases import Settings
from spmvbench.runner import plan
from tests.made import Made


class RecordedProgram(Program):
    compile_seconds = 0.25

    def __init__(self, device, launches):
        self.device, self.launches = device, launches

    @property
    def name(self):
        return "+".join(launch.kernel.partition("<")[0] for launch in self.launches)

    def run(self):
        self.device.note("run", self.name)


class Recording(Device):
    """asked: what the device was asked, in order, with the names of kernels. Each sample takes `seconds`."""

    kind, name, xp, default_max_bytes = "cuda", "cuda:0", np, 10**12
    limits, program = EMULATED, RecordedProgram

    def __init__(self, seconds=2e-3):
        self.asked, self.seconds = [], seconds

    def note(self, *request):
        self.asked.append(request)

    def compile(self, launches):
        program = self.program(self, launches)
        self.note("compile", program.name)
        return program

    def capture(self, program, repeats):
        self.note("capture", program.name, repeats)
        return lambda: [program.run() for _ in range(repeats)]

    def elapsed(self, work, *, flush=False):
        self.note("elapsed", flush)
        work()
        return self.seconds

    @property
    def flushes(self):
        return self.asked.count(("elapsed", True))

    def synchronize(self):
        pass

    def properties(self):
        return {}

    def memory_free(self):
        return 10**9

    def memory_peak(self):
        return 1000

    def sm_clock_mhz(self):
        return 1234.0


class HostProgram(RecordedProgram):
    def run(self):
        for launch in self.launches:
            if launch.kernel.startswith("reflect"):
                x, total, _ = launch.args
                np.subtract(total, x, out=x)
            else:
                launch.args[0](*launch.args[1:])


class HostCuda(Recording):
    """Runs a launch's first argument, a function, on the host."""

    program = HostProgram


class Throttled(Recording):
    """Throttles whenever it works, and not at rest."""

    working = False

    def elapsed(self, work, *, flush=False):
        self.working = True
        return super().elapsed(work, flush=flush)

    def throttle_reason(self):
        was, self.working = self.working, False
        return "power cap: 345 of 1980 MHz" if was else ""


class Recorder:
    """Both ends of the pipe: keeps what the worker sends and always asks for more.

    fails: an exception by (index of a format, stage), raised when that stage begins, once if it is in a list.
    """

    def __init__(self, fails=()):
        self.sent, self.fails = [], dict(fails)

    def send(self, message):
        self.sent.append(message)
        error = self.fails.get(message[1:3]) if message[0] == "begin" else None
        if isinstance(error, list):
            error = error.pop() if error else None
        if error is not None:
            raise error

    def recv(self):
        return True

    def poll(self):
        return True

    @property
    def rows(self):
        return {message[1]: message[2] for message in self.sent if message[0] == "row"}

    @property
    def stages(self):
        return [(m[1], m[2]) for m in self.sent if m[0] == "begin" and m[1] is not None]


class Right(CsrArrays):
    """CSR multiplied by SciPy."""

    reference = "none"
    devices = ("cuda",)
    scale = 1.0

    def launches(self, x, y):
        matrix = sparse.csr_array((self.values, self.col_idx, self.row_ptr), shape=self.shape)

        def multiply(x, y, carry, *arrays):
            y[:] = self.scale * (matrix @ x)

        args = multiply, x, y, np.empty(16), *self.arrays().values()
        return [Launch("vector.cu", "none", 1, 1, args)]


def around(self, x, y, multiply):
    """The launches of `Right` with `multiply(product, x, y)` in place of the product."""
    (launch,) = Right.launches(self, x, y)

    def run(x, y, carry, *matrix):
        multiply(lambda: launch.args[0](x, y, carry), x, y)

    return [Launch("vector.cu", "none", 1, 1, (run, *launch.args[1:]))]


MATRIX = Made(lambda: sparse.random_array((50, 40), density=0.1, rng=np.random.default_rng(3)))


@pytest.fixture
def measure(monkeypatch, registry):
    """Measures formats made for the test; returns (pipe, the cases' rows by format and mode, device).

    A class with `program` runs the program of that name, as far as the bench can know.
    """
    monkeypatch.setattr(stages, "program_hash", lambda fmt, *rest: getattr(fmt, "program", ""))

    def run(
        *classes,
        modes=("hot", "cold"),
        device=None,
        dtype="f64",
        previous=None,
        facts=None,
        processes=0,
        fails=(),
        **settings,
    ):
        for cls in classes:
            cls.key = cls.key or cls.__name__.lower()
            register(cls)
        chosen = [(formats.get(cls.key), {}) for cls in classes]
        cases = plan.cross([MATRIX], chosen, [dtype], modes, "cuda:0", 0)
        group = replace(plan.grouped(cases)[0], processes=processes)
        pipe, device = Recorder(fails), device or HostCuda()
        reading.read.cache_clear()
        settings = Settings("cuda:0", budget=1e-6, **settings)
        known = {"launch_overhead": {"hot": 1e-3, "cold": 1e-6}} | (facts or {})
        worker.measure(group, device, settings, known, protocol.Link(pipe), previous)
        return pipe, {(case.format, case.mode): pipe.rows[case.case_id] for case in cases}, device

    return run


def variant(name, **members):
    return type(name, (Right,), {"__module__": __name__, "key": f"test-{name.lower()}", **members})


@pytest.fixture
def recorded(measure, monkeypatch):
    """As `measure`, on a device that runs nothing: every check passes."""
    right = verify.Verdict(0.5, 0, 1.0, 1.0, 1.0)
    for check in ("run_and_verify", "repeat_and_verify", "verify_result"):
        monkeypatch.setattr(verify, check, lambda *args: right)

    def run(*names, device=None, **options):
        return measure(*map(named, names), device=device or Recording(), **options)

    return run


def named(name):
    """A format whose kernel has its name."""
    launches = lambda self, x, y: [Launch("vector.cu", name, 1, 1, (x, y))]  # noqa: E731
    return variant(name, launches=launches)
