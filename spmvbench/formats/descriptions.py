"""What a format says of itself: its summary, its arrays, its parameters, the files that it is in."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

from spmvbench import formats
from spmvbench.formats import determinism
from spmvbench.formats.format import Format


def summary(cls: type[Format]) -> str:
    """What the format stores, in its docstring's first line."""
    return _doc(cls).partition("\n")[0]


def _doc(cls: type[Format]) -> str:
    return inspect.getdoc(cls) or ""


def readings(cls: type[Format]) -> list[str]:
    """The sentences of the docstrings of a format and its module that say "our reading", as plain text."""
    found = []
    for doc in (_doc(cls), inspect.getdoc(inspect.getmodule(cls)) or ""):
        sentences = re.split(r"(?<=[.!?])(?<!al\.)\s+(?=[A-Z`(])|\n\n", doc)
        plain = (" ".join(sentence.split()) for sentence in sentences)
        found += [sentence for sentence in plain if "our reading" in sentence.lower()]
    return found


def _arrays(cls: type[Format]) -> dict[str, str]:
    """The format's arrays with the comment that is after each in the source, bases first."""
    comments: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        comments |= _comments(base)
    kinds = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return {
        name: comments.get(name, "" if kind == "Array" else f"a part stored as {kind}")
        for name, kind in kinds.items()
        if name not in ("shape", "params")
    }


@cache
def _comments(cls: type) -> dict[str, str]:
    """What is after the fields that a class itself declares."""
    if cls is object:
        return {}
    # Up to the next line that is not indented: `inspect.getsource` of a class would parse the whole file.
    module = inspect.getsource(sys.modules[cls.__module__])
    body = re.search(rf"^class {cls.__name__}\b.*?(?=^[^\s)#]|\Z)", module, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r"^    (\w+): [^=#\n]+#\s*(.+)$", body[0] if body else "", re.MULTILINE))


def describe(cls: type[Format]) -> dict[str, Any]:
    """Everything that a format says of itself, and the files that it is in, ready for JSON."""
    sources = formats.sources(cls)  # once: it reads the modules of a format and all that they import
    return {
        "key": cls.key,
        "family": cls.family,
        "op": cls.op,
        "survey_name": cls.survey_name,
        "confidence": formats.survey.confidence(cls.key),
        "lacks": formats.survey.lacks(cls.key),
        "shared_implementation": cls.shared_implementation,
        "reference": cls.reference,
        "doc": _doc(cls),
        "arrays": _arrays(cls),
        "parameters": {
            name: {"default": p.default, "range": p.range, "doc": p.doc} for name, p in cls.parameters().items()
        },
        "devices": list(cls.devices),
        "experiment": cls.experiment,
        "project_kernel": cls.project_kernel,
        "alias_of": cls.alias_of,
        "sources": list(sources),
        "module": cls.__module__,
        "file": inspect.getfile(cls),
        "kernel_files": [str(formats.kernel_path(source)) for source in sources],
    }


def facts(cls: type[Format]) -> dict[str, str]:
    """What a reader needs to know of a format, a word or a few for each fact; facts that it lacks are left out."""
    about = {
        "Family": cls.family,
        "Operation": "" if cls.op == "spmv" else cls.op,
        "Survey": cls.survey_name,
        "Confidence": formats.survey.confidence(cls.key),
        "Lacks": formats.survey.lacks(cls.key),
        "Storage": cls.shared_implementation,
        "Same as": cls.alias_of,
        "Reference": cls.reference,
        "Devices": ", ".join(cls.devices),
        "Limit": "" if cls.wide_offsets else "fewer than 2^31 entries",
        "Same bits": _same_bits(cls.key, cls.op),
        "New values": "" if cls.op != "spmv" else "by a new conversion" if cls.values_decide else "in place",
        "Origin": "this project's kernel" if cls.project_kernel else "",
        "Experiment": "measured, never ranked" if cls.experiment else "",
        "Kernels": ", ".join(source.rpartition("/")[2] for source in formats.sources(cls)),
    }
    return {name: fact for name, fact in about.items() if fact}


def _same_bits(key: str, op: str) -> str:
    """Whether products repeat their bits, as configs/determinism.csv knows it."""
    found, fixed = determinism.repeats(key, op), determinism.repeating(key, op)
    return {True: "yes", False: f"no; {fixed}: yes" if fixed else "no", None: ""}[found]


def by_family(keys: Iterable[str]) -> list[type[Format]]:
    """The formats of these keys, sorted by family and key."""
    return sorted(map(formats.get, keys), key=lambda cls: (cls.family, cls.key))
