"""Precompilation before the first case, by processes that may fail."""

import json
import subprocess
import sys
import tempfile

import pytest

from spmvbench import formats, paths
from spmvbench.devices import cuda, open_device
from spmvbench.matrices import resolve
from spmvbench.measure import operations
from spmvbench.runner import plan, precompile
from spmvbench.runner.supervisor import Supervised


def folder_of(tasks, folder):
    """A folder of tasks as a process finds it, and the files that will mark them."""
    marks = [folder / "marks" / str(number) for number in range(len(tasks))]
    listed = [(str(mark), *task) for mark, task in zip(marks, tasks, strict=True)]
    (folder / precompile.TASKS).write_text(json.dumps(listed))
    return marks


@pytest.mark.slow
def test_a_process_compiles_what_no_other_has_begun_and_ignores_failures(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_COMPILED", str(tmp_path))
    task = "csr-scalar", formats.get("csr-scalar").resolve({}), "f32", ""
    marks = folder_of([("no-such-format", {}, "f64", ""), task, task], tmp_path)
    (tmp_path / "2").touch()
    subprocess.run([sys.executable, *precompile.PROGRAM, "emulated", str(tmp_path)], check=True)
    assert list((tmp_path / "emulated").glob("*.so")) and [mark.exists() for mark in marks] == [True, True, False]


@pytest.mark.parametrize("solver", ["cg@3", "pagerank@3"])
def test_the_kernels_of_a_solver_are_compiled_with_the_formats(solver, monkeypatch, tmp_path):
    compiled = set()
    device = open_device("emulated")
    monkeypatch.setattr(device, "compile", lambda steps: compiled.update(step.kernel for step in steps))
    monkeypatch.setattr(device, "close", lambda: None)
    monkeypatch.setattr(precompile, "open_device", lambda name: device)
    monkeypatch.setattr(sys, "argv", ["precompile", "emulated", str(tmp_path), "1"])
    tasks = [("csr-scalar", formats.get("csr-scalar").resolve({}), "f32", solver)]
    folder_of(tasks, tmp_path)
    precompile.main()
    own = {"cg@3": "cg_start cg_begin cg_dot cg_update cg_direction", "pagerank@3": "pagerank_start pagerank_step"}
    assert {name.partition("<")[0] for name in compiled} == {*own[solver].split(), "csr_vector"}
    case = next(case for group in solved(solver) for case in group.cases)
    of_format, _, of_solver = case.source_hash.partition("+")
    assert of_format == formats.source_hash(formats.get("csr-scalar"))
    assert of_solver == operations.get(solver).source_hash != of_format
    ((_, task),) = precompile._missing([case], "sm_90")
    assert task == tasks[0]


def solved(op):
    """Groups of one format and one operation."""
    matrices, _ = resolve(["pde:4"])
    chosen = plan.choose_formats("csr-scalar", "cuda:0")
    return plan.grouped(plan.cross(matrices, chosen, ("f32",), ("hot",), "cuda:0", 0, [op]))


DIES_OF_ELL = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[2])
for number, (mark, key, _, dtype, _) in enumerate(json.loads((folder / "tasks.json").read_text())):
    try:
        (folder / str(number)).touch(exist_ok=False)
    except FileExistsError:
        continue
    with open(folder.parent / "begun", "a") as begun:
        begun.write(f"{key} {dtype}\\n")
    if key == "ell":
        sys.exit(1)
    pathlib.Path(mark).parent.mkdir(exist_ok=True)
    pathlib.Path(mark).touch()
"""


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A machine with a GPU and three cores, whose processes end with the format `ell`. Gives what they have begun."""
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(precompile, "PROGRAM", ("-S", "-c", DIES_OF_ELL))
    monkeypatch.setattr(precompile.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(cuda, "why_unavailable", lambda ordinal: None)
    monkeypatch.setattr(cuda, "toolchain", lambda ordinal: "sm_90")
    monkeypatch.setattr(cuda, "memory_bytes", lambda ordinal: 1e11)

    def begun():
        file = tmp_path / "begun"
        found = sorted(tuple(line.split()) for line in file.read_text().splitlines()) if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    return begun


def groups(keys):
    matrices, _ = resolve(["pde:4", "pde:5"])
    cases = plan.cross(matrices, plan.choose_formats(keys, "cuda:0"), ("f64", "f32"), ("hot", "cold"), "cuda:0", 0)
    return plan.grouped(cases)


def test_each_format_and_type_is_compiled_once(started):
    """Also if processes die: the others go on with what is left, and what was not compiled is tried again."""
    keys = ("coo-flat", "csr-scalar", "csr-vector", "ell")

    def compile_all():
        precompile.precompile(groups(",".join(keys)), "cuda:0", subprocess.DEVNULL, lambda: False)

    compile_all()
    assert started() == [(key, dtype) for key in keys for dtype in ("f32", "f64")]
    marks = list((paths.home() / "precompiled").iterdir())
    assert len(marks) == 6
    for mark in marks[:4]:
        mark.unlink()
    compile_all()
    assert len(begun := started()) == 6 and {"ell"} < {key for key, _ in begun}


def test_few_formats_are_not_precompiled(started):
    precompile.precompile(groups("ell,coo-flat"), "cuda:0", subprocess.DEVNULL, lambda: False)
    assert started() == []


def test_stopping_kills_all_processes(started, monkeypatch):
    running = []

    def start(device, folder, log):
        running.append(Supervised(["/bin/sh", "-c", "sleep 60"]))
        return running[-1]

    monkeypatch.setattr(precompile, "_start", start)
    precompile.precompile(groups("csr-scalar,csr-vector,ell"), "cuda:0", subprocess.DEVNULL, lambda: True)
    assert [process.returncode for process in running] == [-9] * 3
    assert not (paths.home() / "precompiled").exists()
