"""Commands in processes of their own, and a format that takes its time."""

import subprocess
import sys

import psutil
import pytest

SLOW = """
import time
from spmvbench.formats import register
from spmvbench.formats.csr.csr import CsrScalar

@register
class Slow(CsrScalar):
    key = "slow"
    reference = "none"
    survey_name = ""

    @classmethod
    def convert(cls, a, **params):
        time.sleep({seconds})
        return super().convert(a)
"""


@pytest.fixture(scope="session")
def slow_format():
    """The source of the format `slow`, whose conversion takes so many seconds."""
    return lambda seconds: SLOW.format(seconds=seconds)


@pytest.fixture
def start(tmp_path, environment):
    """Starts a command in an empty folder, in the environment that the test's module makes.

    It and what it started are killed at the end.
    """
    started = []

    def begin(*command):
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = psutil.Popen([*map(str, command)], cwd=tmp_path, env=environment, **pipes)
        started.append(process)
        return process

    yield begin
    for process in started:
        for one in [*process.children(recursive=True), process] if process.is_running() else []:
            one.kill()
        process.communicate()


@pytest.fixture
def spmvbench_run(start):
    return lambda *args: start(sys.executable, "-m", "spmvbench", "run", *args)
