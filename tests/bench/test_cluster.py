"""Runs on several workers, all emulated: whole processes, killed ones, and the scripts of docs/cluster.md."""

import importlib.util
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest

import spmvbench
from spmvbench import formats, store
from spmvbench.bench import costs, driver, plan
from spmvbench.bench.session import Watcher
from spmvbench.collection import Matrix
from spmvbench.errors import SpmvbenchError

pytest.importorskip("distributed")
from spmvbench.bench.cluster.dealing import Deal
from spmvbench.bench.cluster.session import REFUSALS, Flight, Session

CHAOS = Path(__file__).with_name("chaos.py")
PAGE = Path(spmvbench.__file__).parents[1] / "docs" / "cluster.md"
BIN = Path(sys.executable).parent


@pytest.fixture
def environment(tmp_path, slow_format):
    (tmp_path / "slow.py").write_text(slow_format(0.4))
    return os.environ | {"SPMVBENCH_FORMATS": str(tmp_path / "slow.py"), "PATH": f"{BIN}:{os.environ['PATH']}"}


def of(process, mark):
    """The descendants of a process whose command line holds a word."""
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if mark in " ".join(child.cmdline()):
                found.append(child)
    return found


def until(condition):
    while not (found := condition()):
        time.sleep(0.02)
    return found


MATRICES = [f"tridiag:{n}" for n in range(20, 26)]
LOCAL = ["--device", "emulated", "--scheduler", "local", "--workers", "2"]


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time_and_the_run_stops_and_goes_on(spmvbench_run, tmp_path):
    args = [*MATRICES, "--formats", "slow,csr-vector", *LOCAL, "--run", "r"]
    folder, process = tmp_path / "results" / "r", spmvbench_run(*args)
    until(lambda: len(list(folder.glob("parts/*"))) >= 2)
    of(process, "bench.cluster.remote")[0].kill()
    before = store.load(folder).set_index("case_id")["started_at"].to_dict()
    until(lambda: len(list(folder.glob("parts/*"))) >= 4)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "The same command continues" in err
    again = spmvbench_run(*args)
    out, err = again.communicate()
    assert again.returncode == 0, err
    assert re.search(r"[1-9]\d* measured already", out)
    rows = store.load(folder)
    assert len(rows) == rows["case_id"].nunique() == 12
    assert set(rows["status"]) == {"ok"}
    assert rows["run_id"].eq("r").all() and sorted(rows["sequence"]) == sorted(set(rows["sequence"]))
    after = rows.set_index("case_id")["started_at"].to_dict()
    assert {case: after[case] for case in before} == before  # none was measured again
    assert len(store.matrices(folder)) == 6
    session = store.environment(folder)["sessions"][-1]
    assert sum(worker["rows"] for worker in session["workers"]) == session["rows"]
    assert session["wall"] > 0 and session["launch_floor"]["hot"] > 0
    assert "was lost with" in (folder / "worker.log").read_text()
    together = Path(os.environ["SPMVBENCH_HOME"]) / "together"
    assert not list(together.iterdir())  # the last worker has cleared what they shared


@pytest.mark.slow
def test_a_worker_keeps_its_measuring_process_from_job_to_job_however_long_a_case_takes(
    spmvbench_run, slow_format, tmp_path
):
    (tmp_path / "slow.py").write_text(slow_format(1.5 * driver.LOOK))
    run = spmvbench_run(*MATRICES[:2], "--formats", "slow", *LOCAL[:-1], "1", "--run", "long")
    _, err = run.communicate()
    assert run.returncode == 0, err
    folder = tmp_path / "results" / "long"
    assert "was lost" not in (folder / "worker.log").read_text()
    session = store.environment(folder)
    (worker,) = session["workers"]
    first = pd.Timestamp(store.load(folder)["started_at"].min()) - pd.Timestamp(session["started"])
    assert 0 < worker["seconds"]["starting"] < worker["ready"] < first.total_seconds()


def test_a_worker_that_refuses_is_given_up_and_named(tmp_path):
    told, queue = [], SimpleNamespace(close=lambda: None)
    (group,) = plan.grouped(
        plan.cross(
            [Matrix("synthetic", "tridiag:9", "tridiag", "synthetic")],
            formats.parse("ell"),
            ["f64"],
            ["hot"],
            "emulated",
            0,
        )
    )
    settings = plan.Settings("emulated")
    with open(tmp_path / "log", "wb") as log:
        session = Session(
            SimpleNamespace(queue=lambda name: queue),
            Deal([group], costs.prior(settings)),
            settings,
            None,
            None,
            Watcher(on_notice=told.append),
            log,
            (group,),
        )
        for number in range(REFUSALS):
            flight = Flight(session.deal.take(1), "tcp://a", None, queue, {case.case_id: case for case in group.cases})
            session.flights[number] = flight
            session.end(number, flight, {"refused": "no driver", "log": ""})
    assert told == ["tcp://a gets no more work: no driver"]
    assert [case.case_id for group in session.deal.left for case in group.cases] == [c.case_id for c in group.cases]
    with pytest.raises(SpmvbenchError, match="no worker can measure: no driver"):
        session.deal_out(["tcp://a"])


def block(name):
    """A script of the page."""
    return re.search(rf'^```sh title="{name}"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


@pytest.fixture
def slurm(tmp_path, environment):
    """A folder in which the page's scripts run as SLURM would run them: srun runs what it is given, `tasks` times."""
    tools = {
        "srun": 'for more in $(seq 2 ${TASKS:-1}); do "$@" & done; exec "$@"',
        "scontrol": 'echo "$@" >> requeued',
        "hostname": "echo 127.0.0.1",
        "spmvbench": f'exec {sys.executable} -m spmvbench "$@"',
        "dask": f'exec {sys.executable} -m dask "$@"',
    }
    (tmp_path / "bin").mkdir()
    for name, script in tools.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    environment["PATH"] = f"{tmp_path / 'bin'}:{environment['PATH']}"
    for name in ("dask.sh", "array.sh"):
        (tmp_path / name).write_text(block(name))
    return environment


@pytest.mark.slow
def test_a_job_array_measures_every_case_once_and_a_requeued_task_goes_on(start, slurm, tmp_path):
    slurm |= {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_JOB_ID": "7"}
    args = [*MATRICES[:4], "--formats", "slow,csr-vector", "--device", "emulated", "--run", "s"]
    parts = [tmp_path / "results" / f"s.shard-{number}-of-2" for number in (1, 2)]
    slurm["SLURM_ARRAY_TASK_ID"] = "1"
    task = start("bash", "array.sh", *args)
    until(lambda: list(parts[0].glob("parts/*")))
    of(task, "-m spmvbench run")[-1].send_signal(signal.SIGTERM)
    task.communicate()
    assert task.returncode == 130
    assert (tmp_path / "requeued").read_text() == "requeue 7_1\n"
    for number in ("1", "2"):
        slurm["SLURM_ARRAY_TASK_ID"] = number
        task = start("bash", "array.sh", *args)
        assert task.communicate() and task.returncode == 0
    held = [set(store.load(part)["case_id"]) for part in parts]
    assert len(held[0]) == len(held[1]) == 4 and not held[0] & held[1]
    merged = start("spmvbench", "runs", "merge", *parts, "--into", "s")
    assert merged.communicate() and merged.returncode == 0
    whole = start("spmvbench", "run", *args)
    assert "8 measured already, 0 to measure" in whole.communicate()[0]


@pytest.mark.slow
def test_the_job_with_a_scheduler_and_workers_ends_with_the_rows(start, slurm, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "dask.sh").write_text(block("dask.sh").replace("8786", port))
    slurm["TASKS"] = "2"
    job = start("bash", "dask.sh", *MATRICES, "--formats", "slow,csr-vector", "--run", "d")
    _, err = job.communicate()
    assert job.returncode == 0, err
    assert "The workers emulate a GPU" in err
    rows = store.load(tmp_path / "results" / "d")
    assert len(rows) == 12 and set(rows["status"]) == {"ok"}
    assert len(store.environment(tmp_path / "results" / "d")["workers"]) == 2


@pytest.mark.slow
def test_no_scheduler_and_workers_with_other_formats_are_said_in_one_line(spmvbench_run, start, slurm, tmp_path):
    nobody = spmvbench_run("tridiag:9", "--device", "emulated", "--scheduler", "tcp://127.0.0.1:1")
    _, err = nobody.communicate()
    assert nobody.returncode == 1 and err.startswith("Error: no scheduler answers at tcp://127.0.0.1:1")
    assert err.count("\n") == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start("dask", "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    environment = dict(slurm)
    slurm.pop("SPMVBENCH_FORMATS")
    start("dask", "worker", f"tcp://127.0.0.1:{port}", "--nthreads", 1, "--resources", "GPU=1", "--no-nanny")
    slurm |= environment
    refused = spmvbench_run("tridiag:9", "--formats", "slow", "--scheduler", f"tcp://127.0.0.1:{port}")
    _, err = refused.communicate()
    assert refused.returncode == 1
    assert "no worker can measure" in err and "set SPMVBENCH_FORMATS alike" in err
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killing_everything_at_random_loses_doubles_and_blames_nothing(start, tmp_path):
    cases = ["--matrices", *MATRICES[:4], "--faults", "hang=1,lie=1", "--options", "--dtype f64 --timeout 10"]
    run = start(sys.executable, CHAOS, "--moments", 4, "--pause", 3, *cases)  # one of each kind
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    assert "lost 0, doubled 0, without a row 0" in out


def test_chaos_counts_what_is_doubled(tmp_path):
    spec = importlib.util.spec_from_file_location("chaos", CHAOS)
    chaos = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chaos)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"case_id": ["a", "b", "a", "c"]}), tmp_path / store.ROWS)
    assert chaos.doubled(tmp_path) == 1
