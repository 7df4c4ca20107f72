"""Precompilation before the first case, by processes that may fail."""

import io
import json
import subprocess
import sys

import pytest

from spmvbench import formats, paths
from spmvbench.devices import cuda, open_device
from spmvbench.matrices import resolve
from spmvbench.measure import operations
from spmvbench.runner import plan, precompile
from spmvbench.runner.supervisor import Supervised


@pytest.mark.slow
def test_a_process_compiles_its_share_and_ignores_failures(tmp_path, monkeypatch):
    monkeypatch.setenv("SPMVBENCH_COMPILED", str(tmp_path))
    tasks = [("no-such-format", {}, "f64", ""), ("csr-scalar", formats.get("csr-scalar").resolve({}), "f32", "")]
    command = [sys.executable, "-P", "-m", "spmvbench.runner.precompile", "emulated"]
    subprocess.run(command, input=json.dumps(tasks).encode(), check=True)
    assert list((tmp_path / "emulated").glob("*.so"))


@pytest.mark.parametrize("solver", ["cg@3", "pagerank@3"])
def test_the_kernels_of_a_solver_are_compiled_with_the_formats(solver, monkeypatch):
    compiled = set()
    device = open_device("emulated")
    monkeypatch.setattr(device, "compile", lambda steps: compiled.update(step.kernel for step in steps))
    monkeypatch.setattr(device, "close", lambda: None)
    monkeypatch.setattr(precompile, "open_device", lambda name: device)
    monkeypatch.setattr(sys, "argv", ["precompile", "emulated"])
    tasks = [("csr-scalar", formats.get("csr-scalar").resolve({}), "f32", solver)]
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(tasks)))
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


@pytest.fixture
def started(monkeypatch, tmp_path):
    """A machine with a GPU and three cores whose processes succeed, except those whose share includes `ell`."""
    shares = []

    def start(device, tasks, log):
        shares.append(tasks)
        return Supervised(["/bin/sh", "-c", "exit 1" if "ell" in [task[0] for task in tasks] else ""])

    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(precompile, "_start", start)
    monkeypatch.setattr(precompile.os, "cpu_count", lambda: 3)
    monkeypatch.setattr(cuda, "why_unavailable", lambda ordinal: None)
    monkeypatch.setattr(cuda, "toolchain", lambda ordinal: "sm_90")
    monkeypatch.setattr(cuda, "memory_bytes", lambda ordinal: 1e11)
    return shares


def groups(keys):
    matrices, _ = resolve(["pde:4", "pde:5"])
    cases = plan.cross(matrices, plan.choose_formats(keys, "cuda:0"), ("f64", "f32"), ("hot", "cold"), "cuda:0", 0)
    return plan.grouped(cases)


def test_each_format_and_type_is_compiled_once(started, tmp_path):
    def compiled_by_processes():
        started.clear()
        precompile.precompile(groups("csr-scalar,csr-vector,ell,coo-flat"), "cuda:0", subprocess.DEVNULL, lambda: False)
        return sorted((key, dtype) for share in started for key, _, dtype, _ in share)

    keys = ("coo-flat", "csr-scalar", "csr-vector", "ell")
    assert compiled_by_processes() == [(key, dtype) for key in keys for dtype in ("f32", "f64")]
    assert len(started) == 3
    compiled = {tuple(task[:3:2]) for share in started for task in share if "ell" not in [task[0] for task in share]}
    assert len(list((paths.home() / "precompiled").iterdir())) == len(compiled)
    left = compiled_by_processes()  # the shares that failed, unless they are too few
    assert not set(left) & compiled


def test_few_formats_are_not_precompiled(started):
    precompile.precompile(groups("ell,coo-flat"), "cuda:0", subprocess.DEVNULL, lambda: False)
    assert started == []


def test_stopping_kills_all_processes(started, monkeypatch):
    running = []

    def start(device, tasks, log):
        running.append(Supervised(["/bin/sh", "-c", "sleep 60"]))
        return running[-1]

    monkeypatch.setattr(precompile, "_start", start)
    precompile.precompile(groups("csr-scalar,csr-vector,ell"), "cuda:0", subprocess.DEVNULL, lambda: True)
    assert [process.returncode for process in running] == [-9] * 3
    assert not (paths.home() / "precompiled").exists()
