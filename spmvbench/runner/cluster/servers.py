"""Dask's servers as `--scheduler local` runs them: without HTTP, which theirs serve with or without a dashboard."""

from __future__ import annotations

import importlib
import logging
import signal
import threading
from typing import Any

import distributed

from spmvbench.runner import spawning

LOOPBACK = "127.0.0.1"
RESOURCES = {"GPU": 1}


class Scheduler(distributed.Scheduler):
    """A scheduler without HTTP."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Serve nothing."""


class Worker(distributed.Worker):
    """A worker without HTTP, that ignores Ctrl-C at the terminal and prints nothing.

    It begins at once with what its first job needs: the measuring process of its device, and the module of jobs.
    """

    def __init__(self, *args: Any, device: str, **options: Any):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        spawning.start_ahead(device)
        threading.Thread(target=importlib.import_module, args=("spmvbench.runner.cluster.remote",), daemon=True).start()
        logging.disable(logging.CRITICAL)
        super().__init__(*args, **options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Serve nothing."""
