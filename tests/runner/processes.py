"""Waiting for processes and their files."""

import time
from contextlib import suppress

import psutil


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
