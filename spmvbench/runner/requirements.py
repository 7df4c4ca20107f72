"""The packages that pyproject.toml names, on whose versions rows depend."""

from __future__ import annotations

import re
from importlib import metadata

DEVELOPERS = ("dev", "docs")  # extras


def by_extra() -> dict[str, list[str]]:
    """The names of packages by the extra that installs them, "" for those that are always needed; without those of
    DEVELOPERS. Empty if spmvbench is not installed.
    """
    found: dict[str, list[str]] = {}
    try:
        requirements = metadata.requires("spmvbench") or []
    except metadata.PackageNotFoundError:
        return {}
    for text in requirements:
        name, extra = re.findall(r"^[\w.-]+", text)[0], re.findall(r"extra == ['\"]([\w-]+)", text)
        found.setdefault(extra[0] if extra else "", []).append(name)
    return {extra: names for extra, names in found.items() if extra not in DEVELOPERS}


def versions() -> dict[str, str]:
    """The versions of those that are installed, by name."""
    found = {}
    for name in dict.fromkeys([name for names in by_extra().values() for name in names] + ["cupy"]):  # as conda has it
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
