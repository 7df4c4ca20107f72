"""A supervised process leaves no process and no temporary file behind if it ends, is ended, or its parent is killed."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from spmvbench.runner import prefetch, supervisor
from spmvbench.runner.supervisor import Supervised
from tests.runner.processes import alive, until

# Starts hidden processes: a child in a new session, an orphan in another, one that ignores signals. Prints their ids.
HIDES = """
import os, signal, subprocess, sys, tempfile, time
folder = sys.argv[1]
os.symlink(tempfile.mkdtemp(), folder + "/temporary")
quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
stubborn = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP; exec sleep 3600"], **quiet)
two = "import subprocess; print(subprocess.Popen(['sleep', '3600'], stdout=2, start_new_session=True).pid)"
orphan = subprocess.run([sys.executable, "-S", "-c", two], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(folder + "/daemon", "w") as file:
            print(os.getpid(), file=file)
        os.rename(folder + "/daemon", folder + "/forked")
        time.sleep(3600)
    os._exit(0)
os.wait()
while not os.path.exists(folder + "/forked"):
    time.sleep(0.01)
with open(folder + "/started", "w") as file:
    print(os.getpid(), stubborn.pid, int(orphan), file=file)
os.rename(folder + "/started", folder + "/all")
exec(sys.argv[2])
"""


@pytest.fixture
def hidden(tmp_path):
    """The ids of the processes of HIDES, including itself, once all have started; killed at the end."""
    found = []

    def ids():
        until((tmp_path / "all").exists)
        words = [(tmp_path / name).read_text().split() for name in ("all", "forked")]
        found[:] = [int(word) for line in words for word in line]
        assert len(set(found)) == 4
        return found

    yield ids
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


ENDINGS = {
    "exits": ("sys.exit(7)", 7),
    "faults": ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    "goes on": ("time.sleep(3600)", -signal.SIGKILL),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_outlives_a_command(hidden, tmp_path, ending):
    last, code = ENDINGS[ending]
    process = Supervised([sys.executable, "-S", "-c", HIDES, str(tmp_path), last])
    ids = hidden()
    if ending == "goes on":
        assert all(map(alive, ids))
        process.send_signal(signal.SIGSTOP)  # a stopped process must not block the end
        process.end()
    assert process.wait() == code
    assert [pid for pid in ids if alive(pid)] == [] and not (tmp_path / "temporary").exists()
    process.end()
    assert process.returncode == code


STARTER = """
import os, subprocess, sys, time
from spmvbench.runner import prefetch, supervisor
from spmvbench.runner.supervisor import Supervised
process = Supervised([sys.executable, "-S", "-c", sys.argv[1], sys.argv[2], "time.sleep(3600)"])
if os.fork() == 0:
    time.sleep(3600)  # it inherits the lifetime pipe
with open(sys.argv[2] + "/supervisor", "w") as file:
    print(process.pid, file=file)
time.sleep(3600)
"""


def test_nothing_outlives_the_parent_even_if_another_process_holds_the_pipe(hidden, tmp_path):
    with subprocess.Popen([sys.executable, "-c", STARTER, HIDES, str(tmp_path)], start_new_session=True) as starter:
        ids = hidden()
        until((tmp_path / "supervisor").exists)
        starter.kill()
        until(lambda: not any(map(alive, ids)) and not (tmp_path / "temporary").exists())
        with suppress(ProcessLookupError):
            os.killpg(starter.pid, signal.SIGKILL)


def test_the_end_of_a_thread_kills_nothing(tmp_path):
    """The system sends the same signal for the end of a thread as for that of the parent."""
    started = []
    thread = threading.Thread(
        target=lambda: started.append(Supervised(["/bin/sh", "-c", "read line; exit 5"], stdin=subprocess.PIPE))
    )
    thread.start()
    thread.join()
    (process,) = started
    assert process.communicate(b"go on\n") and process.returncode == 5
    process.end()


def test_a_passed_file_is_open_only_in_the_command():
    theirs, ours = os.pipe()
    with open(theirs, "rb") as pipe:
        process = Supervised(["/bin/sh", "-c", f"exec {ours}>&-; read line"], pass_fds=(ours,), stdin=subprocess.PIPE)
        os.close(ours)
        assert pipe.read() == b""  # closed while the command still runs
        assert process.poll() is None
        process.end()
    process.stdin.close()


def test_a_command_that_cannot_start_ends_at_once():
    process = Supervised(["/no/such/program"])
    assert process.wait() == 127
    process.end()


def test_a_process_is_killed_though_a_signal_left_its_lock_taken(monkeypatch):
    """As KeyboardInterrupt does that is raised in `poll`, between the lock and what releases it."""
    monkeypatch.setattr(supervisor, "GONE", 0.05)
    waits = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
    processes = [Supervised(waits), subprocess.Popen(waits)]
    for process in processes:
        process._waitpid_lock.acquire()
    processes[0].end()
    prefetch.end(processes[1:])
    for process in processes:
        process._waitpid_lock.release()
        assert process.wait() == -signal.SIGKILL
