"""Calls in a process of their own, within limits of time and memory: what a stranger's rows name may be huge."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
from collections.abc import Callable
from functools import cache
from multiprocessing.connection import Connection
from typing import Any

import psutil

from spmvbench.errors import SpmvbenchError


class OverTime(SpmvbenchError):
    """The call took more time than it may."""


def call(function: Callable[..., Any], *arguments: Any, seconds: float, memory: float) -> Any:
    """What a function returns. It and its arguments are pickled.

    memory: bytes beyond those of the process's libraries; at most what is free. Raises OverTime, SpmvbenchError if the
    memory is not enough or a library cannot be loaded, SpmvbenchError of the function, RuntimeError for other errors.
    """
    context = _context()
    memory = min(memory, 0.8 * psutil.virtual_memory().available)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_called, args=(theirs, memory, function, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(None if seconds == float("inf") else max(seconds, 0)):
            raise OverTime(f"it takes more than {seconds:g} s")
        found: Exception | tuple[Any] = ours.recv()
    except EOFError:  # the system killed it, as for lack of memory
        found = MemoryError()
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(found, MemoryError):
        raise SpmvbenchError(f"they take more than {memory / 2**30:.1f} GiB of memory")
    if isinstance(found, Exception):
        raise found
    return found[0]


@cache
def _context() -> Any:
    """Processes that are forked from one that has only imported this package, so that each starts in milliseconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["spmvbench.bundles.matrices"])
    return context


# What the loader of glibc says then (dl-map-segments.h, dl-load.c).
_NO_ROOM = ("failed to map segment", os.strerror(errno.ENOMEM))


def limit_memory(most: float) -> None:
    """From now on this process gets so many bytes more of address space; beyond them, MemoryError."""
    limit = int(psutil.Process().memory_info().vms + most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _called(connection: Connection, memory: float, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    limit_memory(memory)
    try:
        found: Any = (function(*arguments),)
    except (MemoryError, SpmvbenchError) as error:
        of_limit = isinstance(error.__context__, MemoryError)  # as generators say it, of the whole machine
        found = MemoryError() if of_limit else error
    except ImportError as error:  # the limit is of address space, in which a library may find no room
        of_limit = any(words in str(error) for words in _NO_ROOM)
        found = MemoryError() if of_limit else SpmvbenchError(f"a library of theirs cannot be loaded here: {error}")
    except Exception as error:
        found = RuntimeError(f"{type(error).__name__}: {error}")
    connection.send(found)
