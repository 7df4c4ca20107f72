"""The packages that pyproject.toml names, on whose versions rows depend."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import metadata
from itertools import chain


def by_extra() -> dict[str, list[str]]:
    """Names of packages by the extra that installs them, "" for those that are always needed. Empty if spmvbench is not
    installed.
    """
    found: dict[str, list[str]] = {}
    with suppress(metadata.PackageNotFoundError):
        for text in metadata.requires("spmvbench") or ():
            extra = "".join(re.findall(r"extra == .([\w-]+)", text))
            found.setdefault(extra, []).extend(re.findall(r"^[\w.-]+", text))
    return {extra: names for extra, names in found.items() if extra not in ("dev", "docs")}


def versions() -> dict[str, str]:
    """The versions of those that are installed, by name."""
    found = {}
    for name in chain(*by_extra().values(), ["cupy"]):  # conda's name
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
