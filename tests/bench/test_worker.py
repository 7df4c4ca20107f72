"""The worker's turns, on a device that stands in for a GPU: order of turns, memory, transfer and conversion times."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spmvbench import formats
from spmvbench.bench import plan, protocol, reading, turns, worker
from spmvbench.devices import Device, DeviceFault, OutOfDeviceMemory, Program
from spmvbench.formats import Launch, register
from spmvbench.formats.base import in_part
from spmvbench.formats.conversion import EMULATED
from spmvbench.formats.csr.csr import CsrArrays


class HostProgram(Program):
    compile_seconds = 0.25

    def __init__(self, launches):
        self.launches = launches

    def run(self):
        for launch in self.launches:
            launch.args[0](*launch.args[1:])


class HostCuda(Device):
    """Runs a launch's first argument, a function, on the host, and counts memory as a GPU would."""

    kind, name, xp, default_max_bytes = "cuda", "cuda:0", np, 10**12
    limits = EMULATED

    def __init__(self, seconds=2e-3):
        self.flushes, self.seconds = 0, seconds

    def compile(self, launches):
        return HostProgram(launches)

    def capture(self, program, repeats):
        return lambda: [program.run() for _ in range(repeats)]

    def elapsed(self, work, *, flush=False):
        work()
        self.flushes += flush
        return self.seconds

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


class Recorder:
    """Both ends of the pipe: keeps what the worker sends and always wants more."""

    def __init__(self):
        self.sent = []

    def send(self, message):
        self.sent.append(message)

    def recv(self):
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

        def multiply(x, y, carry):
            y[:] = self.scale * (matrix @ x)

        return [Launch("vector.cu", "none", 1, 1, (multiply, x, y, np.empty(16)))]


class OnDevice:
    id, group, name, kind, file_sha256, generator_hash = "G/m", "G", "m", "test", "", ""

    def read(self, seed, complex_values):
        assert complex_values == "refuse"
        return sparse.random_array((50, 40), density=0.1, rng=np.random.default_rng(3))


@pytest.fixture
def measure(monkeypatch):
    """Measures formats made for the test; gives (pipe, the cases' rows by format and mode, device)."""
    formats.keys()  # every format is known before the registry is kept
    registry = dict(formats.base.REGISTRY)

    matrix = OnDevice()

    def run(*classes, modes=("hot", "cold"), device=None, dtype="f64", held=None, **settings):
        for cls in classes:
            cls.key = cls.key or cls.__name__.lower()
            register(cls)
        chosen = [(formats.get(cls.key), {}) for cls in classes]
        cases = plan.cross([matrix], chosen, [dtype], modes, "cuda:0", 0)
        (group,) = plan.grouped(cases)
        pipe, device = Recorder(), device or HostCuda()
        reading.read.cache_clear()
        settings = plan.Settings("cuda:0", budget=1e-6, **settings)
        worker.measure(
            group, device, settings, {"launch_floor": {"hot": 1e-3, "cold": 1e-6}}, protocol.Link(pipe), held
        )
        return pipe, {(case.format, case.mode): pipe.rows[case.case_id] for case in cases}, device

    monkeypatch.setattr(protocol.sys, "stderr", open(0, closefd=False))  # noqa: SIM115 - only its file number is asked for
    yield run
    formats.base.REGISTRY.clear()
    formats.base.REGISTRY.update(registry)


def variant(name, **members):
    return type(name, (Right,), {"__module__": __name__, "key": f"test-{name.lower()}", **members})


def test_a_group_that_goes_on_with_the_last_ones_matrix_takes_over_its_right_answers(measure, monkeypatch):
    made, of = [], worker.Shared.of
    monkeypatch.setattr(worker.Shared, "of", lambda *args: made.append(args) or of(*args))
    held, seeds = worker.Held(), []
    for name, dtype in (("A", "f64"), ("B", "f64"), ("C", "f32"), ("D", "f64")):
        _, rows, _ = measure(variant(name), held=held, dtype=dtype, modes=("hot",))
        ((_, row),) = rows.items()
        assert row["status"] == "ok", row["reason"]
        seeds.append(held.columns["x_seed"])
    assert len(made) == 3
    assert seeds[0] == seeds[1] and len(set(seeds)) == 3


def test_every_timed_conversion_starts_from_a_matrix_without_statistics(measure):
    kept = []

    def convert(cls, a, **params):
        kept.append(set(vars(a)) - {"shape", "row_ptr", "col_idx", "values"})
        a.row_idx, a.diagonals  # noqa: B018 - computed and kept, for the next format to find
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    _, rows, _ = measure(*(variant(name, convert=classmethod(convert)) for name in "AB"))
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert kept == [set()] * 10  # each format once on the host, four times on the device


def test_the_hosts_conversion_can_be_left_out(measure):
    converted = []

    def convert(cls, a, **params):
        converted.append(a)
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.values}

    pipe, rows, _ = measure(variant("A", convert=classmethod(convert)), modes=("hot",), convert="device")
    row = rows["test-a", "hot"]
    assert row["status"] == "ok"
    assert len(converted) == 4  # on the device, where the median of all but the first counts
    assert row["t_convert_device"] > 0
    assert "t_convert_host" not in row
    assert "t_transfer" not in row
    assert not any("host" in stage or "moving" in stage for _, stage in pipe.stages)


def test_a_format_too_large_is_refused_without_the_hosts_conversion_too(measure):
    def convert(cls, a, **params):
        raise AssertionError("converted")

    large = variant("A", convert=classmethod(convert), estimate=classmethod(lambda cls, a, **params: 10**13))
    _, rows, _ = measure(large, modes=("hot",), convert="device")
    assert rows["test-a", "hot"]["status"] == "skipped"
    assert rows["test-a", "hot"]["bytes_needed"] == 10**13


def test_formats_take_turns_and_rows_come_after_the_last_round(measure):
    pipe, rows, device = measure(variant("A"), variant("B"))
    timing = [(index, stage) for index, stage in pipe.stages if stage.startswith("timing")]
    one_round = [(0, "timing hot"), (0, "timing cold"), (1, "timing hot"), (1, "timing cold")]
    assert timing == one_round * 3
    assert [m[0] for m in pipe.sent[-4:]].count("row") == 2  # the last format's, after those of the first
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert all(row["n_samples"] == 3 for row in rows.values())
    assert device.flushes == 2 * 3 * 2  # two formats, three rounds, a warm-up and a sample each


def test_a_row_holds_what_was_timed_apart(measure):
    _, rows, _ = measure(variant("A"))
    row = rows["test-a", "hot"]
    assert row["t_median"] == pytest.approx(2e-3)
    assert row["repeats"] == 1
    assert row["sm_clock_mhz"] == 1234.0
    assert row["t_compile"] == 2 * 0.25  # the twin's and the matrix's own
    assert row["t_convert_host"] > 0
    assert row["t_convert_device"] > 0
    assert row["t_transfer"] > 0
    assert row["t_setup"] == 0
    assert row["bytes_workspace"] == 16 * 8
    nnz = 200
    assert row["bytes_format"] == 12 * nnz + 4 * 51
    assert row["bytes_peak"] == row["bytes_format"]  # nothing beyond the input was allocated
    assert row["model_bytes"] == row["bytes_format"] + 8 * (50 + 40)
    assert row["gflops"] == pytest.approx(2 * nnz / 2e-3 / 1e9)
    assert 0 <= row["error_ratio"] <= 1


def test_work_kept_from_before_the_conversion_counts_as_setup(measure):
    _, rows, _ = measure(variant("A", setup_seconds=1.5))
    assert rows["test-a", "hot"]["t_setup"] == 1.5


def test_one_spmv_of_the_host_is_timed_in_the_type_of_the_case(measure, monkeypatch):
    types = []
    monkeypatch.setattr(worker, "host_spmv", lambda a: types.append(a.dtype) or 0.5)
    pipe, _, _ = measure(variant("A"), dtype="f32")
    assert types == [np.float32]
    assert [message[1].get("t_spmv_host") for message in pipe.sent if message[0] == "matrix"][-1] == 0.5
    monkeypatch.undo()
    a = formats.Csr.of(sparse.random_array((50, 40), density=0.1, rng=np.random.default_rng(3)))
    assert 0 < reading.host_spmv(a) < 1


@pytest.mark.parametrize(("seconds", "near"), [(1.9e-3, True), (2.1e-3, False)])
def test_near_the_launch_floor_is_within_twice_of_it(measure, seconds, near):
    _, rows, _ = measure(variant("A"), modes=("hot",), device=HostCuda(seconds))
    assert rows["test-a", "hot"]["near_launch_floor"] == near


class InParts(Right):
    key = "test-inparts"

    def launches(self, x, y):
        (launch,) = super().launches(x, y)
        idle = Launch("vector.cu", "none", 1, 1, (lambda: None,))
        empty = Launch("vector.cu", "none", (4, 0), 1, (lambda: None,))
        return [idle, *in_part("clear", [idle]), *in_part("nothing", [empty]), *in_part("multiply", [launch, idle])]


def test_named_parts_are_timed_apart_in_hot_rows(measure):
    pipe, rows, _ = measure(InParts, variant("A"))
    assert json.loads(rows["test-inparts", "hot"]["t_parts"]) == {"clear": 2e-3, "multiply": 2e-3}
    assert not rows["test-inparts", "cold"].get("t_parts")
    assert "t_parts" not in rows["test-a", "hot"]
    stages = [stage for index, stage in pipe.stages if index == 0]
    assert stages[-3:] == ["timing clear", "timing multiply", "checking again"]
    assert {row["status"] for row in rows.values()} == {"ok"}


def test_parts_are_timed_only_beside_a_hot_case(measure):
    _, rows, _ = measure(InParts, modes=("cold",))
    assert not rows["test-inparts", "cold"].get("t_parts")
    assert rows["test-inparts", "cold"]["status"] == "ok"


def test_results_that_spoil_during_timing_are_wrong_and_keep_their_times(measure):
    class Spoils(Right):
        key = "test-spoils"

        def launches(self, x, y):
            runs = []
            (launch,) = super().launches(x, y)

            def multiply(x, y, carry):
                runs.append(1)
                launch.args[0](x, y, carry)
                if len(runs) > 5:  # the twin has five runs, the matrix three before it is timed
                    y[3] += 1

            return [Launch("vector.cu", "none", 1, 1, (multiply, *launch.args[1:]))]

    _, rows, _ = measure(Spoils, variant("A"))
    assert {rows["test-spoils", mode]["status"] for mode in ("hot", "cold")} == {"wrong"}
    assert "y[3]" in rows["test-spoils", "hot"]["reason"]
    assert rows["test-spoils", "hot"]["reason"].endswith("(left by a sample, hot)")
    assert rows["test-spoils", "hot"]["n_samples"] == 1
    assert rows["test-a", "hot"]["status"] == "ok"


def test_a_conversion_that_writes_to_the_matrix_is_an_error_and_harms_nobody(measure):
    def convert(cls, a, **params):
        a.col_idx.sort()
        return CsrArrays.convert.__func__(cls, a)

    _, rows, _ = measure(variant("A"), variant("Sorts", convert=classmethod(convert)), variant("B"), modes=("hot",))
    assert [row["status"] for row in rows.values()] == ["ok", "error", "ok"]
    assert "read-only" in rows["test-sorts", "hot"]["reason"]


def test_every_group_draws_x_anew_and_its_rows_say_from_which_seed(measure):
    drawn = []

    class Sees(Right):
        key = "test-sees"

        def launches(self, x, y):
            (launch,) = super().launches(x, y)
            return [
                Launch(
                    "vector.cu",
                    "none",
                    1,
                    1,
                    (lambda *args: drawn.append(x[0]) or launch.args[0](*args), *launch.args[1:]),
                )
            ]

    pipe, _, _ = measure(Sees, modes=("hot",))
    first, seeds = set(drawn), [message[1]["x_seed"] for message in pipe.sent if message[0] == "matrix"]
    assert len(first) >= 4  # two dense, two of whole numbers
    assert len(set(seeds)) == 1
    again, _, _ = measure(Sees, modes=("hot",))
    assert again.sent[1][1]["x_seed"] != seeds[0]
    assert len(set(drawn) - first) >= 1
    assert len(set(drawn) & first) >= 1  # that of the run's own seed


def test_a_format_that_does_not_fit_beside_the_others_is_measured_alone(measure):
    tries = []

    def convert(cls, a, **params):
        tries.append(1)
        if len(tries) == 1:
            raise MemoryError("full")
        return CsrArrays.convert.__func__(cls, a)

    pipe, rows, _ = measure(variant("A"), variant("Large", convert=classmethod(convert)), variant("C"), modes=("hot",))
    assert {row["status"] for row in rows.values()} == {"ok"}
    order = [m[1] for m in pipe.sent if m[0] in ("row", "begin") and (m[0] == "row" or m[2].startswith("conv"))]
    assert order.index(0) < order.index(1)
    first_row = next(i for i, m in enumerate(pipe.sent) if m[0] == "row")
    conversions = [i for i, m in enumerate(pipe.sent) if m[0] == "begin" and m[1] == 1 and "on the host" in m[2]]
    assert conversions[0] < first_row < conversions[1]


def test_a_format_that_never_fits_is_out_of_memory(measure):
    def convert(cls, a, **params):
        raise OutOfDeviceMemory("80 GB asked, 10 GB free")

    _, rows, _ = measure(variant("A"), variant("Huge", convert=classmethod(convert)), modes=("hot",))
    assert rows["test-huge", "hot"]["status"] == "oom"
    assert "80 GB asked" in rows["test-huge", "hot"]["reason"]
    assert rows["test-a", "hot"]["status"] == "ok"


@pytest.mark.parametrize("sticky", [True, False])
def test_a_fault_is_a_row_and_breaks_the_worker_only_where_it_is_sticky(measure, sticky):
    class Faults(Right):
        key = "test-faults"

        def launches(self, x, y):
            def multiply(x, y):
                raise DeviceFault("illegal address", sticky=sticky)

            return [Launch("vector.cu", "none", 1, 1, (multiply, x, y))]

    if sticky:
        with pytest.raises(DeviceFault, match="illegal address"):
            measure(Faults, variant("A"))
    else:
        _, rows, _ = measure(Faults, variant("A"))
        assert rows["test-faults", "cold"]["status"] == "crashed"
        assert "illegal address" in rows["test-faults", "cold"]["reason"]
        assert rows["test-a", "cold"]["status"] == "ok"


def test_entries_that_overflow_the_type_are_skipped(measure, monkeypatch):
    monkeypatch.setattr(OnDevice, "read", lambda self, seed, values: sparse.csr_array([[1e200, 1.0]]))
    _, rows, _ = measure(variant("A"), dtype="f32")
    assert {(row["status"], row["reason"]) for row in rows.values()} == {
        ("skipped", "entries are not finite in float32")
    }


def test_workspace_counts_each_further_array_once_and_no_views():
    x, values, carry = np.zeros(8), np.zeros((4, 4)), np.zeros(5, np.float32)
    launches = [
        Launch("a", "k", 1, 1, (np.int32(3), x, values.reshape(-1), carry)),
        Launch("a", "k", 1, 1, (values[1:], carry)),
    ]
    assert turns.workspace(launches, [x, values]) == carry.nbytes


def test_a_launch_from_a_file_that_rows_do_not_know_is_an_error(measure, tmp_path):
    other = tmp_path / "other.cu"
    other.write_text("int other;")

    def launches(self, x, y):
        return [replace(launch, source=str(other)) for launch in Right.launches(self, x, y)]

    _, rows, _ = measure(variant("Hidden", launches=launches), modes=("hot",))
    ((_, row),) = rows.items()
    assert row["status"] == "error"
    assert (
        "test-hidden launches none from" in row["reason"] and "other.cu, which no text in its modules" in row["reason"]
    )
