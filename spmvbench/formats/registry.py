"""The formats by the keys that users type."""

from __future__ import annotations

import inspect
import re
from inspect import getattr_static
from pathlib import Path

from spmvbench.formats.format import Format

REGISTRY: dict[str, type[Format]] = {}


def register(cls: type[Format]) -> type[Format]:
    """Make a format known by its key. Raises ValueError for an incomplete one or a key that is taken."""
    missing = [name for name in ("key", "family", "reference") if not getattr(cls, name)]
    if missing:
        raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}")
    texts = {
        name: getattr(cls, name) for name in ("key", "family", "reference", "survey_name", "shared_implementation")
    }
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"{' and '.join(wrong)} of {cls.__name__} must be text")
    if not re.fullmatch(r"\w[\w.+-]*", cls.key):
        raise ValueError(f"the key {cls.key!r} of {cls.__name__} could not be typed: use letters, digits and . _ + -")
    if not isinstance(cls.devices, tuple) or not all(isinstance(text, str) for text in cls.devices):
        raise ValueError(f"devices of {cls.__name__} must be a tuple of texts")
    taken = REGISTRY.get(cls.key)
    if taken is not None and taken is not cls:
        raise ValueError(f"the key {cls.key} is taken by {taken.__name__} of {Path(inspect.getfile(taken)).name}")
    methods = ("estimate", "convert", "to_coo", "launches")
    if lacking := [name for name in methods if getattr_static(cls, name) is getattr_static(Format, name)]:
        raise ValueError(f"{cls.__name__} lacks the methods {', '.join(lacking)}")
    REGISTRY[cls.key] = cls
    return cls
