"""Commands in separate processes, whose cases can be held."""

import os
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest


@pytest.fixture
def held(tmp_path):
    """Lets that many rows be measured and holds the next cases of `slow`, however long this process is kept waiting.

    Without a number nothing is held any more.
    """

    def hold(rows=None):
        if rows is None:
            (tmp_path / "hold").unlink()
        else:
            (tmp_path / "hold.new").write_text(str(rows))
            (tmp_path / "hold.new").replace(tmp_path / "hold")

    hold(2)
    return hold


MARK = "SPMVBENCH_TEST_STARTED"


def descendants(mark):
    """The living processes whose environment holds a mark, also those whose parents are gone."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


@pytest.fixture
def start(tmp_path, environment):
    """Starts a command in an empty folder, in the environment of the test's module.

    It and what it started are killed at the end. A wait for it needs no limit of its own: the test has one.
    """
    started, mark = [], f"{os.getpid()} {tmp_path}"

    def begin(*command):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = psutil.Popen([*map(str, command)], cwd=tmp_path, env=environment | {MARK: mark}, **pipes)
        started.append(process)
        return process

    yield begin
    # Processes that are left keep the pipes open, and may start others before they are killed.
    while left := descendants(mark):
        for one in left:
            with suppress(psutil.Error):
                one.kill()
    for process in started:
        process.communicate()


@pytest.fixture
def spmvbench_run(start):
    return lambda *args: start(sys.executable, "-m", "spmvbench", "run", *args)
