"""Checks of arguments, shared by the command line and Python. Each raises UsageError with one sentence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from spmvbench.errors import UsageError
from spmvbench.formats.precision import PRECISIONS, VALUE_BYTES

DTYPES, CONVERT = tuple(name for name, found in PRECISIONS.items() if not found.is_mixed), ("both", "device")
VALUES = tuple(VALUE_BYTES)
MAX_COUNT, MAX_SEED = 2**31 - 1, 2**63 - 1


def words(given: str | Iterable[str], known: Sequence[str] = ()) -> tuple[str, ...]:
    """The words of a list or of a comma-separated text, without repeats. If `known` is empty, any word is valid."""
    parts = given.split(",") if isinstance(given, str) else map(str, given)
    found = tuple(dict.fromkeys(filter(None, (word.strip() for word in parts))))
    for word in found:
        if known and word not in known:
            raise UsageError(f"{word!r} is none of {', '.join(known)}")
    if not found:
        raise UsageError(f"give one or more of {', '.join(known)}" if known else "give one or more")
    return found


def precisions(
    dtypes: Sequence[str] | None, values: Sequence[str] | None, vectors: Sequence[str] | None
) -> tuple[str, ...]:
    """The types of cases: `dtypes`, f64 by default, or each type of values with each type of vectors that is as wide.

    values: by default the vectors' own. vectors: f64 by default. Raises UsageError if both ways are used, and for
    values that are wider than all vectors.
    """
    if values is None and vectors is None:
        return tuple(dtypes or ("f64",))
    if dtypes:
        raise UsageError("--dtype gives values and vectors one type: leave it out with --values and --vectors")
    pairs = [(value, vector) for vector in vectors or ("f64",) for value in values or (vector,)]
    known = {(found.values, found.vectors): name for name, found in PRECISIONS.items()}
    for value in dict.fromkeys(value for value, _ in pairs):
        if not any((value, vector) in known for vector in vectors or ("f64",)):
            raise UsageError(f"values in {value} are wider than the vectors: add --vectors {value}")
    return tuple(known[pair] for pair in pairs if pair in known)


def word(given: str, known: Sequence[str]) -> str:
    """One of the known words."""
    if given not in known:
        raise UsageError(f"{given!r} is none of {', '.join(known)}")
    return given


def number(name: str, given: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number from `low` to `high`, of the option or argument that is called `name`."""
    try:
        found = float(given)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found) or not low <= found <= high:
        limits = "" if low == -math.inf else f" of at least {low:.10g}"
        limits = limits if high == math.inf else f" from {low:.10g} to {high:.10g}"
        raise UsageError(f"{name} is a finite number{limits}, not {given!r}")
    return found


def count(name: str, given: Any) -> int:
    """An integer from 0 to 2^31 - 1, of the option or argument that is called `name`."""
    found = number(name, given, 0, MAX_COUNT)
    if found != int(found):
        raise UsageError(f"{name} is an integer, not {given!r}")
    return int(found)


def seconds(given: Any) -> float:
    """A length of time, above 0 and below 10^6 seconds."""
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = 0
    if not 0 < found < 1e6:
        raise UsageError(f"{given!r} is no number of seconds above 0")
    return found


def size(given: Any) -> int:
    """A number of bytes, with an optional decimal unit: 500MB, 2GB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kMGT]?)B?", str(given))
    count = float(match[1]) * 1000 ** " kMGT".index(match[2] or " ") if match else 0
    if not 1 <= count < 2**63:
        raise UsageError(f"{given!r} is no size: write 500MB or 2GB")
    return int(count)


def seed(given: Any) -> int:
    """An integer from 0 to 2^63 - 1."""
    if not hasattr(given, "__index__") or not 0 <= given <= MAX_SEED:
        raise UsageError(f"{given!r} is no seed: give an integer from 0 to 2^63 - 1")
    return int(given)
