"""Metadata of a run's invocations in its run.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spmvbench import untrusted
from spmvbench.errors import SpmvbenchError
from spmvbench.paths import written_whole
from spmvbench.rows.checks import is_session
from spmvbench.rows.schema import SCHEMA_VERSION

ENVIRONMENT = "run.json"
MOST_METADATA = 2**26  # bytes of run.json


def sessions(run_folder: Path) -> list[dict[str, Any]]:
    """The metadata of each invocation, empty without a run.json. Raises SpmvbenchError for a damaged one."""
    path = run_folder / ENVIRONMENT
    try:
        if path.stat().st_size > MOST_METADATA:
            raise ValueError
        found = untrusted.tree(json.loads(path.read_text(encoding="utf-8"))["sessions"])
        if not isinstance(found, list) or not all(map(is_session, found)):
            raise ValueError
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SpmvbenchError(f"{path} is damaged: restore it from a copy, or move it away; the rows stay") from None
    return found


def write(run_folder: Path, sessions: Sequence[dict[str, Any]]) -> None:
    """Replace the metadata of a run."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, "sessions": list(sessions)}, indent=2, default=str)
    with written_whole(run_folder / ENVIRONMENT) as file:
        file.write(f"{text}\n".encode())
