"""Programs of other projects: every planted fault is found, and what is right passes."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import spmvbench
from spmvbench import formats
from spmvbench.advice import training
from spmvbench.cli import advise, program_trial
from spmvbench.devices import open_device
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.programs import base, making, using
from spmvbench.programs.base import MemoryTaken, bytes_kept
from tests.programs import faults

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def forgotten(monkeypatch, registry):
    """Programs that a test has registered are gone after it. A matrix takes as long as it takes on a busy machine."""
    monkeypatch.setenv("SPMVBENCH_FORMATS", "")
    monkeypatch.setattr(program_trial, "SECONDS", 600.0)


@pytest.fixture
def built(tmp_path):
    """Builds planted.cpp with one fault; returns its path."""

    @cache
    def build(fault, options=()):
        out = tmp_path / "libplanted.so"
        making.build(HERE / "planted.cpp", out, (f"-DFAULT={fault}", "-O1", *options))
        return out

    return build


@pytest.mark.slow
@pytest.mark.parametrize("device", ["emulated", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_planted_faults_are_found_and_others_go_on(device, tmp_path):
    gpu = device != "emulated"
    if gpu:
        needs_nvcc()
    expected = faults.FAULTS | (faults.ON_GPU if gpu else {})
    paths = faults.libraries(tmp_path, faults.in_order(expected), gpu=gpu)
    rows = faults.said(faults.measured(paths, tmp_path / "results", device))
    unseen = {fault: rows[fault] for fault, said in expected.items() if not faults.matches(said, rows[fault])}
    assert not unseen
    assert all(row.startswith("ok") for name in ("NONE", "csr-vector") for row in rows[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("LEAKS", "bytes stay allocated"),
        ("REFUSES", "refuses every matrix"),
        ("EXITS", "crashed on .*; no other matrix was tried"),
    ],
)
def test_a_check_says_what_is_wrong(fault, said, built, monkeypatch):
    few = dict(list(program_trial.hard().items())[-3:])
    monkeypatch.setattr(program_trial, "hard", lambda: dict(few))
    found, *_ = program_trial.findings(using.use([str(built(fault))]), "emulated")
    assert any(re.search(said, sentence) for sentence in found), found


@pytest.mark.gpu
@pytest.mark.timing
def test_the_interface_adds_at_most_300_ns_to_a_product_in_a_graph(tmp_path):
    import cupy

    needs_nvcc()
    making.build(HERE / "overhead.cu", tmp_path / "liboverhead.so")
    device, rows = open_device("cuda:0"), 1000
    a = formats.Csr((rows, rows), *(cupy.arange(n, dtype=np.int32) for n in (rows + 1, rows)), cupy.ones(rows))
    x, y = cupy.ones(rows), cupy.zeros(rows)
    library = formats.get(formats.load_file(str(tmp_path / "liboverhead.so"))[0]).from_csr(a)
    launch = formats.Launch(str(HERE / "overhead.cu"), "first_of_x<double>", 8, 128, (np.int32(rows), x, y))
    work, seconds = {}, {"library": [], "format": []}
    for name, steps in (("library", library.launches(x, y)), ("format", [launch])):
        program = device.compile(steps)
        device.try_out(program)
        assert program.timed_by == "graph"
        work[name] = device.capture(program, 1000)
    for _ in range(50):
        for name in seconds:
            seconds[name].append(device.elapsed(work[name]) / 1000)
    medians = {name: float(np.median(found)) for name, found in seconds.items()}
    print({name: f"{1e6 * found:.3f} us" for name, found in medians.items()})
    assert medians["library"] - medians["format"] <= 0.3e-6


def test_a_right_program_passes_the_hard_matrices(built):
    every = len(program_trial.hard())
    assert program_trial.findings(using.use([str(built("NONE"))]), "emulated") == ([], every, "f64 and f32")


def rows_of(tmp_path, *programs, formats="ell"):
    return spmvbench.run(
        ["pde:12"], formats, programs=programs, device="emulated", results=tmp_path, budget=0.01, progress=False
    ).set_index("label")


def test_a_row_says_what_was_measured_of_a_program(built, tmp_path):
    rows = rows_of(tmp_path, f"{built('SMALL_CLAIM')}[tile=16]")
    row = rows.loc["planted[tile=16]"]
    said = json.loads(row["detail"])
    assert row["status"] == "ok" and row["decoded"] == "n/a" and row["timed_by"] == "host"
    assert said["bytes_said"] == 1 and row["bytes_format"] == said["bytes_taken"] > 12 * row["nnz"]  # the larger ranks
    assert rows.loc["ell", "decoded"] == "yes"
    assert formats.get("planted") and "planted" not in formats.shipped()


def test_an_operator_of_a_program(built):
    a = spmvbench.load("pde:8")
    op = spmvbench.operator(a, program=f"{built('NONE')}[tile=16]", device="emulated", updatable=True)
    x = np.arange(1.0, a.shape[1] + 1)
    assert np.array_equal(op @ x, a @ x) and op.choice.label == "planted[tile=16]"
    with pytest.raises(NotImplementedError, match=r"no A\^T whose values follow those of A"):
        op.T  # noqa: B018
    op.update(-a.data)
    assert np.array_equal(op @ x, -(a @ x))
    with pytest.raises(UsageError, match="a format or a program, not both"):
        spmvbench.operator(a, program=built("NONE"), format="ell")


@pytest.mark.parametrize("scheduler", [(), pytest.param(("--scheduler", "local"), marks=pytest.mark.slow)])
def test_processes_that_start_before_the_formats_are_chosen_know_a_program(scheduler, tmp_path, command):
    """The measuring process starts ahead, and the workers of a local scheduler."""
    (source, *_) = making.new("mine", "python", tmp_path)
    command("run", "pde:6", "--formats", "ell", "--program", source, "--device", "emulated", "--run", "r",
            "--results", tmp_path, *scheduler)  # fmt: skip
    assert set(spmvbench.load_run(tmp_path / "r").set_index("label")["status"].items()) == {
        ("ell", "ok"),
        ("mine", "ok"),
    }
    assert "Traceback" not in (tmp_path / "r" / "worker.log").read_text()


def test_rows_of_programs_are_used_like_those_of_formats(built, tmp_path, command):
    library, run = str(built("NONE")), str(tmp_path / "python")
    rows_of(tmp_path, library)
    (about,) = json.loads((tmp_path / "python/run.json").read_text())["sessions"][0]["programs"]
    assert (about["format"], about["reference"], about["file"]) == ("planted", "a test", "libplanted.so")
    assert command("report", run, "--emulated", "--figures", "bytes", "--out", str(tmp_path / "report")).code == 0
    assert "planted" in command("compare", run, "--format", "planted,ell").out
    assert ",planted," in command("export", run, "--to", "csv").out
    said = "program not in this project: hash only: planted"
    assert said in command("check", run).out
    packed = str(tmp_path / "a.zip")
    assert "hash and description of planted alone" in command("bundle", run, "--out", packed).out
    assert said in command("check", packed).out
    command("bundle", run, "--out", packed, "--include-program", library)
    assert "programs/libplanted.so" in zipfile.ZipFile(packed).namelist()
    assert "libraries of the bundle are not run: planted" in command("check", packed).out
    built.cache_clear()
    changed = command("bundle", run, "--out", packed, "--include-program", str(built("STALE")))
    assert changed.code and "has changed" in changed.err


def test_advice_from_rows_with_programs_needs_the_programs(command, built, monkeypatch):
    pytest.importorskip("sklearn")
    rows = pd.DataFrame({"format": ["ell", "planted"]})
    seen = []
    monkeypatch.setattr(training, "rows_of", lambda runs: (rows, {}))
    monkeypatch.setattr(training, "trained", lambda rows, about, vectors: seen.append(list(rows["format"])) or [None])
    advise._trained(("run",), ())
    advise._trained(("run",), (str(built("NONE")),))
    assert seen == [["ell"], ["ell", "planted"]]
    assert "--program is for --from" in command("advise", "pde:8", "--program", "x").err


def test_work_left_for_the_first_product_is_setup(built, tmp_path):
    assert rows_of(tmp_path, str(built("LAZY"))).loc["planted", "t_setup"] >= 0.02


def test_a_library_that_was_built_again_is_measured_again(built, tmp_path):
    first = rows_of(tmp_path, str(built("NONE")))
    assert rows_of(tmp_path, str(built("NONE"))).loc["planted", "started_at"] == first.loc["planted", "started_at"]
    again = rows_of(tmp_path, str(built("LAST_ENTRY_LOST")))
    assert (
        again.loc["planted", "status"] == "wrong" and again.loc["ell", "started_at"] == first.loc["ell", "started_at"]
    )


def test_libraries_beside_a_library_count(tmp_path):
    from spmvbench.programs.shared_library import fingerprint

    helper, library = tmp_path / "libhelper.so.1", tmp_path / "libmine.so"
    (tmp_path / "libother.so").write_bytes(b"other")
    library.write_bytes(b"\0libhelper.so.1\0")
    helper.write_bytes(b"one")
    before = fingerprint(library)
    (tmp_path / "libother.so").write_bytes(b"another")
    assert fingerprint(library) == before
    helper.write_bytes(b"two")
    assert fingerprint(library) != before


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("int main() { return 0; }", "it lacks spmv_describe, spmv_convert"),
        ("#include <cstdlib>\n__attribute__((constructor)) void f() { abort(); }", "ended the process"),
        (
            f'#define FAULT NONE\n#define PARAMETERS "path=here"\n#include "{HERE / "planted.cpp"}"',
            "cannot read the parameter 'path=here'",
        ),
        ("#include <no_such_header.h>", "cannot be built:\n.*no_such_header.h"),
    ],
)
def test_what_is_no_program_is_said_in_one_sentence(source, said, tmp_path):
    (tmp_path / "mine.cpp").write_text(source)

    def use():
        making.build(tmp_path / "mine.cpp", tmp_path / "libmine.so")
        using.use([str(tmp_path / "libmine.so")])

    with pytest.raises(SpmvbenchError, match=said):
        use()


def test_what_a_linker_misses_is_said_and_the_library_of_before_stays(tmp_path):
    source, out = tmp_path / "mine.cpp", tmp_path / "libmine.so"
    source.write_text("int number() { return 1; }")
    making.build(source, out)
    before = out.read_bytes()
    with pytest.raises(SpmvbenchError, match=r"cannot be built:\n.*no_such_library"):
        making.build(source, out, ("-lno_such_library",))
    assert out.read_bytes() == before and {*tmp_path.iterdir()} == {source, out}


@pytest.mark.parametrize("shares", [False, True])
def test_a_wrong_product_is_not_said_to_be_of_shared_values(shares):
    class Program:
        key = "mine"
        last = None

        @classmethod
        def converted(cls, a):
            cls.last = own = a.values
            return SimpleNamespace(
                matrix=SimpleNamespace(
                    multiply=lambda x, y, stream: (cls.last if shares else own) * x + (0 if shares else 1)
                )
            )

    if shares:
        with pytest.raises(RuntimeError, match="changed the product of the first"):
            bytes_kept(Program, np, np.dtype(np.float64))
    else:
        assert bytes_kept(Program, np, np.dtype(np.float64)) >= 0


@pytest.mark.parametrize(("fault", "leaks"), [("NONE", False), ("LEAKS", True)])
def test_one_conversion_tells_a_leak_on_a_machine_that_has_no_time_for_more(fault, leaks, built, monkeypatch):
    monkeypatch.setattr(base, "KEPT_SECONDS", 0.0)
    ((program, _),) = formats.parse(using.use([str(built(fault))])[0])
    found = [bytes_kept(program, np, np.dtype(dtype)) for dtype in ("f8", "f4")]
    assert [most >= program_trial.LEAK for most in found] == [leaks] * 2


def test_names_that_nobody_could_type_are_refused(built, tmp_path):
    with pytest.raises(UsageError, match="could not be typed"):
        using.use([str(built("NONE", ('-DNAME="no name/at all"',)))])
    with pytest.raises(UsageError, match=r"spmvbench program build .* makes a library of it"):
        using.use([str(HERE / "planted.cpp")])
    with pytest.raises(UsageError, match=r"there is no file .*libnone\.so"):
        using.use([str(tmp_path / "libnone.so")])
    with pytest.raises(UsageError, match="could not be typed"):
        making.new("a b", "cpp", tmp_path)


@pytest.mark.parametrize("language", ["c", "cpp", "python"])
def test_a_new_program_works(language, tmp_path, command):
    (source, *_) = making.new("mine", language, tmp_path)
    program = source
    if language != "python":
        program = tmp_path / "libmine.so"
        making.build(source, program, ("-Wall", "-Wextra", "-Werror"))
    with pytest.raises(UsageError, match="is there already"):
        making.new(source.name, language, tmp_path)
    done = command("program", "check", str(program))
    assert done.code == 0 and "passed" in done.out
    done = command("program", "check", str(program), "--device", "cuda:0")
    assert done.code == 2 and "mine runs on the host (--device emulated) only, and cuda:0 is none" in done.err


def test_a_program_for_gpus_is_not_tried_without_one(tmp_path, command):
    (source, *_) = making.new("mine", "python", tmp_path)
    source.write_text(source.read_text().replace('runs_on="host"', 'runs_on="cuda"'))
    done = command("program", "check", str(source), "--device", "emulated")
    assert done.code == 2 and "mine runs on a GPU only, and" in done.err and not done.out
    assert done.err.rstrip().endswith("runs_on of its decorator says where it runs")


@pytest.mark.gpu
@pytest.mark.parametrize("language", ["cuda", "triton", "numba"])
def test_a_new_program_works_on_a_gpu(language, tmp_path):
    (source, *_) = making.new("mine", language, tmp_path)
    program = source
    if language == "cuda":
        needs_nvcc()
        program = tmp_path / "libmine.so"
        making.build(source, program)
    else:
        pytest.importorskip(language)
    rows = spmvbench.run(
        "pde:12", "csr-scalar", programs=program, dtype="f64,f32", device="cuda:0", results=tmp_path, mode="hot"
    )
    assert list(rows["status"]) == ["ok"] * 4 and set(rows["timed_by"]) == {"graph"}


def test_thirty_lines_make_an_existing_program_a_row(command, tmp_path):
    """Those of docs/programs.md."""
    source = Path(spmvbench.__file__).parents[1] / "docs/example/program/pairs.cpp"
    if not source.is_file():
        pytest.skip("needs a checkout (git clone)")
    assert len(source.read_text().splitlines()) <= 34
    made = command("program", "build", source, "-Wl,-rpath,/here", "-lm", "--out", tmp_path / "libpairs.so")
    assert made.code == 0 and f"{source} -Wl,-rpath,/here -lm -o " in made.err
    assert rows_of(tmp_path, str(tmp_path / "libpairs.so")).loc["pairs", "status"] == "ok"


def needs_nvcc():
    if not (os.environ.get("NVCC") or shutil.which("nvcc")):
        pytest.skip("needs nvcc (CUDA toolkit)")


def test_nvcc_compiles_the_program_with_cub(tmp_path):
    needs_nvcc()
    (source, *_) = making.new("mine", "cuda", tmp_path)
    making.build(source, tmp_path / "libmine.so", ("-arch=sm_80", "-O0"))
    assert using.use([str(tmp_path / "libmine.so")]) == ["mine"]


KEEPS = """
    matrix = scipy.sparse.csr_array((a.values, a.col_idx, a.row_ptr), shape=a.shape, copy=False)
    def multiply(x, y):
        y[:] = matrix @ x
    return multiply
"""


@pytest.mark.parametrize(
    ("needs", "body", "status", "reason"),
    [
        ("", KEEPS, "crashed", ""),
        (", packages=('no-such-package',)", " return print\n", "skipped", "no-such-package is not installed"),
    ],
)
def test_a_python_program_that_keeps_the_matrix_crashes_and_one_without_its_package_is_skipped(
    needs, body, status, reason, tmp_path
):
    head = f"@spmvbench.program('mine', reference='a test', runs_on='host'{needs})\ndef build(a):"
    (tmp_path / "mine.py").write_text(f"import scipy.sparse\nimport spmvbench\n{head}{body}")
    row = rows_of(tmp_path, str(tmp_path / "mine.py")).loc["mine"]
    assert row["status"] == status and reason in row["reason"]


SELF_TIMED = """#!{python}
import sys
import numpy
(rows, cols, _), *entries = numpy.loadtxt(sys.argv[1], comments="%", ndmin=2)
row, col, values = numpy.array(entries).reshape(-1, 3).T
x = numpy.fromfile(sys.argv[2])
{fault}
numpy.bincount(row.astype(int) - 1, values * x[col.astype(int) - 1], int(rows)).tofile(sys.argv[3])
print("a line of its own", *(f"spmv {{k}}e-6" for k in range(1, 1 + int(sys.argv[5]))), "convert 0.25", sep="\\n")
"""


@pytest.mark.parametrize(
    ("fault", "status", "reason"),
    [
        ("", "ok", ""),
        ("values[-1] = 0", "wrong", "exact integer test"),
        ("sys.exit('no licence')", "error", "mine ended with 1 and wrote no y: no licence"),
        ("rows += 1", "error", "wrote 1,729 doubles as y, not 1,728"),
    ],
)
def test_a_program_that_times_itself(fault, status, reason, tmp_path, monkeypatch):
    program = tmp_path / "mine"
    program.write_text(SELF_TIMED.format(python=sys.executable, fault=fault))
    with pytest.raises(UsageError, match="nor executable"):
        using.use([str(program)])
    program.chmod(0o755)
    row = rows_of(tmp_path, str(program)).loc["mine"]
    assert row["status"] == status and reason in row["reason"]
    if status == "ok":
        assert row["timed_by"] == "self" and row["experiment"] and row["t_setup"] >= 0.25
        assert row["t_median"] == pytest.approx(10.5e-6) and math.isnan(row["t_x_changed"])
        monkeypatch.setattr(program_trial, "STARTED_SECONDS", 0.0)  # one matrix, whatever it takes
        assert program_trial.findings(using.use([str(program)]), "emulated") == ([], 1, "f64")


def test_memory_of_the_host_is_counted():
    with MemoryTaken(np) as taken:
        held = np.empty(3_000_000, np.uint8)
    assert taken.taken == pytest.approx(held.nbytes, rel=0.01)


def test_the_header_is_c(tmp_path):
    lines = making.HEADER.read_text().splitlines()
    assert len(lines) <= 120
    source = tmp_path / "header.c"
    source.write_text('#include "spmv_program.h"\nint spmv_describe(spmv_description* out) { return out->version; }\n')
    making.build(source, tmp_path / "libheader.so", ("-Wall", "-Werror", "-pedantic"))


def test_a_description_starts_no_package():
    script = str(making.FOLDER / "abi.py")
    asked = f"import sys, runpy; sys.argv = ['abi', 'nothing.so']; runpy.run_path({script!r}, run_name='__main__')"
    command = [sys.executable, "-I", "-c", f"{asked}; print('numpy' in sys.modules, file=sys.stderr)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "False\n" and "nothing.so" in done.stdout
