"""Waiting for processes and their files, and a format that waits."""

import time
from contextlib import suppress

import psutil

# A format whose conversion waits, while a file beside it says so, once a run has that many rows.
SLOW = """
import time
from pathlib import Path
from spmvbench.formats import register
from spmvbench.formats.csr.csr import CsrScalar

FOLDER = Path(__file__).parent

def held():
    try:
        rows = sum(file.read_bytes().count(b"\\n") for file in FOLDER.glob("results/*/rows.jsonl"))
        return rows >= int((FOLDER / "hold").read_text())
    except FileNotFoundError:
        return False

@register
class Slow(CsrScalar):
    key = "slow"
    reference = "none"
    survey_name = ""

    @classmethod
    def convert(cls, a, **params):
        time.sleep({seconds})
        while held():
            time.sleep(0.02)
        return super().convert(a)
"""


def alive(pid):
    """Whether a process exists and is not a zombie."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def until(condition):
    """What a condition gives once it holds; a test's own limit ends the wait."""
    while not (found := condition()):
        time.sleep(0.02)
    return found


def slow_format(seconds=0):
    """The source of the format `slow`, whose conversion takes `seconds` seconds at least."""
    return SLOW.format(seconds=seconds)
