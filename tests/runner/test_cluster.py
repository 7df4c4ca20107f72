"""Runs on several emulated workers, with killed processes, and the scripts of docs/cluster.md."""

import asyncio
import os
import re
import shutil
import signal
import socket
import ssl
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import psutil
import pytest

import spmvbench
from spmvbench import formats
from spmvbench.errors import SpmvbenchError
from spmvbench.matrices import Matrix
from spmvbench.measure.cases import Settings
from spmvbench.rows import store
from spmvbench.runner import costs, driver, plan
from spmvbench.runner.session import Watcher
from tests.runner.processes import alive, slow_format, until

pytest.importorskip("distributed")
from distributed import Client, Security

from spmvbench.runner.cluster import remote, servers, workers
from spmvbench.runner.cluster.scheduling import Schedule
from spmvbench.runner.cluster.session import MAX_REFUSALS, Assignment, ClusterRun

CHAOS = Path(__file__).with_name("chaos.py")
PAGE = Path(spmvbench.__file__).parents[1] / "docs" / "cluster.md"
BIN = Path(sys.executable).parent


@pytest.fixture
def environment(tmp_path):
    """A home of the test's own, too: what workers share there is nobody else's."""
    (tmp_path / "slow.py").write_text(slow_format())
    own = {"SPMVBENCH_FORMATS": str(tmp_path / "slow.py"), "SPMVBENCH_HOME": str(tmp_path / "home")}
    return os.environ | own | {"PATH": f"{BIN}:{os.environ['PATH']}"}


def of(process, mark):
    """The descendants of a process whose command line contains a word."""
    found = []
    for child in process.children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if mark in " ".join(child.cmdline()):
                found.append(child)
    return found


def listening(processes):
    """Where processes can be reached; one that has ended meanwhile, nowhere."""
    found = []
    for process in processes:
        with suppress(psutil.Error):
            found += [socket.laddr for socket in process.net_connections(kind="inet") if not socket.raddr]
    return found


MATRICES = [f"tridiag:{n}" for n in range(20, 26)]
LOCAL = ["--device", "emulated", "--scheduler", "local", "--workers", "2"]


def lines(folder):
    """Rows that are not merged yet."""
    return (folder / "rows.jsonl").read_bytes().count(b"\n") if (folder / "rows.jsonl").exists() else 0


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_nothing_but_time_and_the_run_stops_and_goes_on(spmvbench_run, held, tmp_path):
    args = [*MATRICES, "--formats", "slow,csr-vector", *LOCAL, "--run", "r"]
    folder, process = tmp_path / "results" / "r", spmvbench_run(*args)
    until(lambda: lines(folder) >= 2)
    of(process, "multiprocessing.spawn")[0].kill()
    before = store.load(folder).set_index("case_id")["started_at"].to_dict()
    held(4)
    until(lambda: lines(folder) >= 4)
    process.send_signal(signal.SIGINT)
    held()
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
    assert session["wall"] > 0 and session["launch_overhead"]["hot"] > 0
    log = (folder / "worker.log").read_text()
    assert "was lost with" in log and "the worker sent" not in log
    assert not list((tmp_path / "home").glob("per-host/*"))  # the last worker has removed the shared folder


@pytest.mark.slow
@pytest.mark.waits
def test_a_worker_keeps_its_measuring_process_over_long_jobs(spmvbench_run, tmp_path):
    (tmp_path / "slow.py").write_text(slow_format(1.5 * driver.POLL_SECONDS))
    run = spmvbench_run(*MATRICES[:2], "--formats", "slow", *LOCAL[:-1], "1", "--run", "long")
    _, err = run.communicate()
    assert run.returncode == 0, err
    folder = tmp_path / "results" / "long"
    assert "was lost" not in (folder / "worker.log").read_text()
    session = store.environment(folder)
    (worker,) = session["workers"]
    first = pd.Timestamp(store.load(folder)["started_at"].min()) - pd.Timestamp(session["started"])
    assert 0 < worker["seconds"]["starting"] < worker["ready"] < first.total_seconds()


@pytest.fixture
def session(tmp_path):
    """A cluster run of two cases with fake workers, which records answers, notices and rows."""
    kept = SimpleNamespace(notices=[], answered=[], rows=[], described=[])
    queue = SimpleNamespace(close=lambda: None)
    matrix = Matrix("synthetic", "tridiag:9", "tridiag", "synthetic")
    (group,) = plan.grouped(plan.cross([matrix], formats.parse("ell,coo-flat"), ["f64"], ["hot"], "emulated", 0))
    settings = Settings("emulated")
    workers = SimpleNamespace(queue=lambda name: queue, put=lambda queue, value: kept.answered.append(value))
    workers.received = lambda queue, seconds: []
    writer = SimpleNamespace(row=lambda row: not kept.rows.append(row), description=kept.described.append)
    with open(tmp_path / "log", "wb") as log:
        schedule, watcher = Schedule([group], costs.default_costs(settings)), Watcher(on_notice=kept.notices.append)
        made = ClusterRun(workers, schedule, settings, writer, watcher, log, (group,))
        made.kept, made.cases = kept, group.cases

        def assign_all(number, worker="tcp://a"):
            """Assign all that is left to a worker, in one job."""
            left = [case for group in made.schedule.left for case in group.cases]
            made.schedule.left.clear()
            future = SimpleNamespace(cancel=lambda: None, done=lambda: False)
            assigned = plan.grouped(sorted(left, key=group.cases.index))[0]
            made.assignments[number] = Assignment(
                assigned, worker, future, queue, {case.case_id: case for case in left}
            )

        made.assign_all = assign_all
        yield made


def left_of(session):
    return {case.case_id for group in session.schedule.left for case in group.cases}


ROW = {"case_id": "FIRST", "status": "ok"}
INVALID = {
    "a row of an unknown case": ("row", ROW | {"case_id": "0123456789abcdef"}),
    "a row of no case": ("row", {"status": "ok"}),
    "a row that is none": ("row", [1]),
    "a description that is none": ("description", "x"),
    "a description without a hash": ("description", {"down": 1}),
    "facts without a host": ("facts", {"device": "emulated", "properties": {}}),
    "facts of no properties": ("facts", {"device": "emulated", "properties": 7, "host_id": "x"}),
    "an end without a log": ("end", {}),
    "an end with seconds that are none": ("end", {"log": "", "seconds": {"reading": "long"}}),
    "an end that refuses without a reason": ("end", {"log": "", "refused": None}),
    "an unknown kind": ("hello", {}),
    "a kind that is none": (["row"], ROW),
}


@pytest.mark.parametrize("invalid", INVALID)
def test_an_invalid_message_reschedules_the_job_and_affects_no_other_worker(session, invalid):
    kind, content = INVALID[invalid]
    first, second = session.cases
    if isinstance(content, dict) and content.get("case_id") == "FIRST":
        content = content | {"case_id": first.case_id}
    session.assign_all(0, "tcp://bad")
    session.receive([0, kind, content])
    assert not session.assignments and not session.kept.rows
    assert not session.kept.answered and not session.kept.described
    assert left_of(session) == {first.case_id, second.case_id}  # rescheduled for any worker
    session.receive([0, "row", ROW | {"case_id": first.case_id}])  # a later message of the old job is ignored
    session.assign_all(1)
    for case in session.cases:
        session.receive([1, "row", ROW | {"case_id": case.case_id, "label": "best", "t_case": 1.0}])
    session.receive([1, "end", {"log": "", "seconds": {"reading": 1}, "t_job": 2.0, "reading": ()}])
    assert [(row["case_id"], row["label"]) for row in session.kept.rows] == [
        (first.case_id, "ell"),
        (second.case_id, "coo-flat"),
    ]
    assert session.kept.answered == [True] * 3 and not session.schedule and session.kept.notices == []
    session.log.flush()
    assert re.match(r"tcp://bad: the worker sent (an?|that) \w+", Path(session.log.name).read_text())


def test_a_matrix_being_prefetched_is_not_prefetched_twice(session):
    session.assign_all(0)
    (assignment,) = session.assignments.values()
    what = assignment.group.matrix, assignment.group.seed
    session.worker_records["tcp://a"].prefetching.add(what)
    session.schedule.reading.add(what)
    session.receive((0, "end", {"log": "", "reading": (remote.id_and_seed(what),)}))  # a tuple, as Dask passes lists
    assert session.schedule.reading == {what}
    session.assign_all(1)
    session.receive((1, "end", {"log": "", "reading": ()}))
    assert session.schedule.reading == set()


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("end", {"refused": "no driver", "log": ""}, "no driver"),
        ("row", ROW | {"case_id": "x"}, "the worker sent a row of a case that was not its task"),
    ],
)
def test_a_worker_that_refuses_twice_gets_no_more_work(session, kind, content, reason):
    for number in range(MAX_REFUSALS):
        session.assign_all(number)
        session.receive([number, kind, content])
    assert session.kept.notices == [f"tcp://a gets no more work: {reason}"]
    assert left_of(session) == {case.case_id for case in session.cases}
    with pytest.raises(SpmvbenchError, match=f"no worker can measure: {reason}"):
        session.assign_work(["tcp://a"])


@pytest.mark.parametrize(
    ("present", "how"),
    [([], "it is not connected"), (["tcp://a"], "its job has the status error")],
    ids=["gone", "ended"],
)
def test_the_log_says_how_a_worker_was_lost(session, present, how):
    session.assign_all(0)
    session.assignments[0].future.done, session.assignments[0].future.status = lambda: True, "error"
    session.reschedule_lost(present)
    session.log.flush()
    assert Path(session.log.name).read_text() == f"tcp://a was lost with 2 cases: {how}\n"
    assert len(left_of(session)) == 2 and not session.assignments


@pytest.mark.parametrize("message", [None, [], [0, "row"], [[], "row", ROW], [7, "row", ROW], "row"])
def test_a_message_of_no_job_is_ignored(session, message):
    session.assign_all(0)
    session.receive(message)
    assert list(session.assignments) == [0] and not session.kept.rows


@pytest.fixture
def local():
    """A local scheduler with two emulated workers, which are connected."""
    with workers.local([None, None]) as made:
        until(lambda: len(made.present()) == 2)
        yield made


def answer(address, context=None):
    """The response to an unauthenticated request for a page, or to other bytes."""
    with suppress(OSError), socket.create_connection(address) as plain:
        stranger = context.wrap_socket(plain) if context else plain
        with stranger:
            stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: stranger.recv(4096), b""))
    return b""


@pytest.mark.slow
def test_workers_are_present_whatever_dask_asks_for_itself(local, monkeypatch):
    async def ask_without_workers(client, n_workers=0):
        client._scheduler_identity = await client.scheduler.identity(n_workers=0)

    monkeypatch.setattr(Client, "_update_scheduler_info", ask_without_workers)
    assert len(local.present()) == 2


@pytest.mark.slow
def test_a_local_scheduler_refuses_other_clients(local):
    address = local.client.scheduler.address
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    found = listening(processes)
    assert len(found) == 5  # a scheduler, its two workers and their nannies, and no HTTP
    assert {where.ip for where in found} == {"127.0.0.1"}
    lines = ""
    for process in processes:
        with suppress(psutil.ZombieProcess):  # a child that its worker has not reaped yet
            lines += " ".join(["", *process.cmdline()])
    assert "PRIVATE" not in lines
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    for where in found:
        socket.create_connection(where).close()  # the port is open
        assert answer(where) == answer(where, blind) == b""
    of_another = Security.temporary()
    for url, security in [(address, of_another), (address.replace("tls", "tcp"), None)]:
        with pytest.raises(OSError), workers._quiet():
            Client(url, security=security, timeout=2, set_as_default=False).close()


def test_a_local_scheduler_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setattr(servers, "LOOPBACK", "no.such.host.invalid")
    with pytest.raises(SpmvbenchError, match=r"^no local worker can start: "):
        workers.local([None]).__enter__()
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SpmvbenchError, match=r"needs cryptography: pip install 'spmvbench\[cluster\]'"):
        workers.local([None]).__enter__()


HIDES = """
import os, subprocess
from pathlib import Path
from spmvbench.formats import register
from spmvbench.formats.csr.csr import CsrScalar

@register
class Hides(CsrScalar):
    key = "hides"
    reference = "none"
    survey_name = ""

    @classmethod
    def convert(cls, a, **params):
        child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
        with open(Path(__file__).with_name("hidden"), "a") as file:
            print(child.pid, file=file)
        return super().convert(a)
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", [LOCAL, LOCAL[:2]], ids=["local", "alone"])
def test_workers_and_hidden_processes_end_with_a_killed_client(spmvbench_run, held, tmp_path, where):
    (tmp_path / "slow.py").write_text((tmp_path / "slow.py").read_text() + HIDES)
    run = spmvbench_run(*MATRICES, "--formats", "hides,slow", *where, "--run", "k")
    until(lambda: (tmp_path / "hidden").exists() and (tmp_path / "hidden").read_text())
    until(lambda: len(of(run, "spmvbench.measure.worker")) >= (4 if where == LOCAL else 2))  # with their supervisors
    there = run.children(recursive=True)
    run.kill()
    run.communicate()
    ids = {process.pid for process in there} | {int(pid) for pid in (tmp_path / "hidden").read_text().split()}
    until(lambda: not any(map(alive, ids)))
    assert int((tmp_path / "hidden").read_text().split()[0]) in ids


def block(name):
    """A script of docs/cluster.md."""
    return re.search(rf'^```sh title="{name}"\n(.*?)^```', PAGE.read_text(encoding="utf-8"), re.M | re.S)[1]


@pytest.fixture
def slurm(tmp_path, environment):
    """A folder in which the page's scripts run as SLURM would run them: srun runs its command `tasks` times."""
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
    for name in ("tls.sh", "dask.sh", "array.sh"):
        (tmp_path / name).write_text(block(name))
    return environment


@pytest.mark.slow
def test_a_job_array_measures_every_case_once_and_a_requeued_task_continues(start, held, slurm, tmp_path):
    held(1)  # in the second of three matrices: what a worker has sent of it when the run stops is written, too
    slurm |= {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_ARRAY_JOB_ID": "7"}
    args = [*MATRICES, "--formats", "slow,csr-vector", "--device", "emulated", "--run", "s"]
    parts = [tmp_path / "results" / f"s.shard-{number}-of-2" for number in (1, 2)]
    slurm["SLURM_ARRAY_TASK_ID"] = "1"
    task = start("bash", "array.sh", *args)
    until(lambda: lines(parts[0]))
    of(task, "-m spmvbench run")[0].send_signal(signal.SIGTERM)  # the run; a child of it looks alike until it has begun
    held()
    task.communicate()
    assert task.returncode == 130
    assert (tmp_path / "requeued").read_text() == "requeue 7_1\n"
    for number in ("1", "2"):
        slurm["SLURM_ARRAY_TASK_ID"] = number
        task = start("bash", "array.sh", *args)
        assert task.communicate() and task.returncode == 0
    measured = [set(store.load(part)["case_id"]) for part in parts]
    assert len(measured[0]) == len(measured[1]) == 6 and not measured[0] & measured[1]
    merged = start("spmvbench", "runs", "merge", *parts, "--into", "s")
    assert merged.communicate() and merged.returncode == 0
    whole = start("spmvbench", "run", *args)
    assert "12 measured already, 0 to measure" in whole.communicate()[0]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("openssl"), reason="needs OpenSSL (apt-get install openssl)")
@pytest.mark.waits
def test_the_job_with_a_scheduler_and_workers_ends_with_all_rows(start, held, slurm, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    (tmp_path / "dask.sh").write_text(block("dask.sh").replace("8786", port))
    slurm["TASKS"] = "2"
    job = start("bash", "dask.sh", *MATRICES, "--formats", "slow,csr-vector", "--run", "d")
    until(lambda: lines(tmp_path / "results" / "d") >= 2)
    (key,) = tmp_path.glob("tls-*/key")
    assert key.parent.stat().st_mode & 0o077 == 0
    assert answer(("127.0.0.1", int(port))) == b""
    pages = [
        answer((where.ip, where.port)) for where in listening(job.children(recursive=True)) if where.ip == "127.0.0.1"
    ]
    assert all(page == b"" or page.startswith(b"HTTP/1.1 404") for page in pages)
    with pytest.raises(OSError), workers._quiet():
        Client(f"tls://127.0.0.1:{port}", security=Security.temporary(), timeout=2, set_as_default=False).close()
    held()
    _, err = job.communicate()
    assert job.returncode == 0, err
    assert "The workers emulate a GPU" in err and "has no TLS" not in err
    assert not list(tmp_path.glob("tls-*"))
    rows = store.load(tmp_path / "results" / "d")
    assert len(rows) == 12 and set(rows["status"]) == {"ok"}
    assert "the worker sent" not in (tmp_path / "results" / "d" / "worker.log").read_text()
    assert len(store.environment(tmp_path / "results" / "d")["workers"]) == 2


@pytest.mark.slow
@pytest.mark.waits
def test_a_missing_scheduler_and_different_formats_are_one_line_errors(
    command, spmvbench_run, start, slurm, tmp_path, monkeypatch
):
    monkeypatch.setattr(workers, "CONNECT_LIMIT", 1.0)
    nobody = "--device", "emulated", "--scheduler", "tcp://127.0.0.1:1", "--results", tmp_path
    result = command("run", "tridiag:9", *nobody)
    assert result.code == 1 and result.err.startswith("Error: no scheduler answers at tcp://127.0.0.1:1")
    assert result.err.count("\n") == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scheduler = start("dask", "scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
    until(lambda: listening([scheduler, *scheduler.children(recursive=True)]))
    environment = dict(slurm)
    slurm.pop("SPMVBENCH_FORMATS")
    start("dask", "worker", f"tcp://127.0.0.1:{port}", "--nthreads", 1, "--resources", "GPU=1", "--no-nanny")
    slurm |= environment
    refused = spmvbench_run("tridiag:9", "--formats", "slow", "--scheduler", f"tcp://127.0.0.1:{port}")
    _, err = refused.communicate()
    assert refused.returncode == 1
    assert f"tcp://127.0.0.1:{port} has no TLS: anybody who can reach it can run programs" in err
    assert "no worker can measure" in err and "set SPMVBENCH_FORMATS alike" in err
    assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.waits
def test_random_kills_lose_double_and_mismark_no_case(start, tmp_path):
    # A hang takes its 30 seconds on each matrix: on two, both workers wait for one at a time.
    cases = ["--matrices", *MATRICES[:2], "--faults", "hang=1,wrong=1", "--options", "--dtype f64 --timeout 30"]
    run = start(sys.executable, CHAOS, "--moments", 4, "--pause", 3, *cases)  # one of each kind
    out, err = run.communicate()
    assert run.returncode == 0, out + err
    assert "lost 0, doubled 0, without a row 0" in out


def test_requests_that_end_after_the_run_are_not_reported(caplog):
    """Those to queues time out up to a second later. Other errors of the loop are reported as ever."""
    loop = asyncio.new_event_loop()
    try:
        workers._silence_closing(SimpleNamespace(loop=SimpleNamespace(asyncio_loop=loop)))
        for error in (TimeoutError(), OSError("closed"), ValueError("unexpected")):
            loop.call_exception_handler({"message": "Task exception was never retrieved", "exception": error})
    finally:
        loop.close()
    assert [record.exc_info[0] for record in caplog.records] == [ValueError]
