"""Dask's servers as `--scheduler local` runs them: without HTTP, which theirs serve with or without a dashboard."""

from __future__ import annotations

import logging
import signal
from typing import Any

import distributed

LOOPBACK = "127.0.0.1"
RESOURCES = {"GPU": 1}


class Scheduler(distributed.Scheduler):
    """A scheduler without HTTP."""

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Serve nothing."""


class Worker(distributed.Worker):
    """A worker without HTTP, that ignores Ctrl-C at the terminal and prints nothing."""

    def __init__(self, *args: Any, **options: Any):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        logging.disable(logging.CRITICAL)
        super().__init__(*args, **options)

    def start_http_server(self, *_: Any, **__: Any) -> None:
        """Serve nothing."""
