"""Programs that a run is asked for: files, with parameters, as labels of formats that this process and others know."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spmvbench import formats
from spmvbench.errors import UsageError
from spmvbench.programs.base import Program


def descriptions(keys: Iterable[str]) -> list[dict[str, Any]]:
    """Of those formats that are programs and not shipped: format, source_hash and `Program.description`."""
    classes = {key: cls for key in keys if issubclass(cls := formats.get(key), Program)}
    shipped = formats.shipped() if classes else []
    return [
        {"format": key, "source_hash": formats.source_hash(cls)} | cls.description()
        for key, cls in classes.items()
        if key not in shipped
    ]


def use(names: Sequence[str]) -> list[str]:
    """Register programs and return their labels, such as ``mine[tile=8]``, as `formats.parse` takes them.

    names: paths of shared libraries or Python files, with parameters in brackets: ``./libmine.so[tile=8]``. Processes
    that this one starts know them, too (SPMVBENCH_FORMATS). Raises UsageError for what is no program.
    """
    found = []
    for name in names:
        match = re.fullmatch(r"(.+?)(\[[^\[\]]*\])?", name)
        assert match is not None
        path = Path(match[1]).expanduser()
        if not path.is_file():
            raise UsageError(f"there is no file {match[1]}: a program is a shared library or a Python file")
        if path.suffix in (".cu", ".cpp", ".cc", ".c"):
            raise UsageError(f"{match[1]} is a source file: spmvbench program build {match[1]} makes a library of it")
        listed = [*filter(None, os.environ.get("SPMVBENCH_FORMATS", "").split(os.pathsep)), str(path.resolve())]
        keys = formats.load_file(str(path))
        os.environ["SPMVBENCH_FORMATS"] = os.pathsep.join(dict.fromkeys(listed))
        found += [f"{key}{match[2] or ''}" for key in keys]
    return list(dict.fromkeys(found))
