"""Checks of rows, descriptions and metadata at every load: a run's folder may come from a stranger.

Whether values are plausible is checked by `spmvbench check`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from spmvbench.rows.schema import COLUMNS, IMPORTED, LISTS, STATUSES

if TYPE_CHECKING:
    import pyarrow as pa

# Limits of values in rows that are read; rows may come from untrusted files.
MOST_TEXT, MOST_JSON = 1_000, 1_000_000  # characters of a text, and of one that is JSON
MOST_REASON = 20_000  # characters of a reason, which may hold a compiler's log; longer ones are cut, not refused
_JSON = ("params", "t_kernels", "bytes_arrays", "detail")
_WORDS = {
    "status": re.compile("|".join(STATUSES)),
    "mode": re.compile("hot|cold"),
    "dtype": re.compile("f64|f32|(f32|f16|bf16)/f64|(f16|bf16)/f32|pattern"),
    "op": re.compile(
        r"spmv|spmv-t@[12]|pair|spmm(-column|-t)?@\d{1,2}|spmspv@[\d.e+-]{1,32}|bfs(-directed)?@\d{1,9}|"
        r"(cg|pagerank|pdhg)@\d{1,9}"
    ),
    "layout": re.compile("(row|column)?"),
    "order": re.compile(r"(?:[A-Za-z][\w-]{0,63})?"),
    "same_bits": re.compile("yes|no"),
    "float_atomics": re.compile("yes|no"),
    "result_bits": re.compile("[0-9a-f]{16}"),
    "device": re.compile(rf"cuda:\d{{1,9}}|emulated(-check)?|{IMPORTED}"),
    "started_at": re.compile(r"\d{4}-\d\d-\d\d(T[\d:.+Z-]{1,32})?"),
}
_SHORTEST, _LONGEST = 1e-12, 1e9  # seconds
_GRIDS = (("down", "across", "density"), ("zoom_down", "zoom_across", "zoom_density"))


def invalid_rows(table: pa.Table, columns: Mapping[str, tuple[str, str]] = COLUMNS) -> dict[int, str]:
    """The rows that violate the schema: the reason, by index in the table.

    table: these columns in the types of `arrow_schema`, nulls only in those of int or null. Checked are words (status,
    mode, type, operation, device), lengths of texts, syntax and shape of JSON, numbers that are infinite or negative,
    times of rows with status ok, and numbers of cells of grids. Sizes may be any number. Whether values are plausible
    is checked by `spmvbench check`.
    """
    import pyarrow.compute as pc

    found: dict[int, str] = {}
    for name, (kind, _) in columns.items():
        for wrong, why in _FAULTS[kind](name, table):
            for place in np.flatnonzero(wrong):
                found.setdefault(int(place), f"{name} {why}")
    if "status" in columns:
        ok = pc.equal(table["status"], "ok").to_numpy()
        for name in ("t_median", "t_q1", "t_q3"):
            times = table[name].to_numpy()
            required = ok if name == "t_median" else ok & ~np.isnan(times)
            for place in np.flatnonzero(required & ~((times >= _SHORTEST) & (times <= _LONGEST))):
                found.setdefault(int(place), f"{name} is {times[place]:g} seconds")
    if "density" in columns:
        of_grids = [name for grid in _GRIDS for name in grid]
        described = table.select([*of_grids, "row_lengths", "row_counts"]).to_pandas()
        for number, row in enumerate(described.to_dict("records")):
            if why := _description_fault(row):
                found.setdefault(number, why)
    return found


def _longest(name: str) -> int:
    """Characters that a text may have."""
    return {"reason": MOST_REASON}.get(name, MOST_JSON if name in _JSON else MOST_TEXT)


def _text_faults(name: str, table: pa.Table) -> Iterator[tuple[Any, str]]:
    import pyarrow.compute as pc

    most = _longest(name)
    yield pc.utf8_length(table[name]).to_numpy() > most, f"has more than {most:,} characters"
    if name in _WORDS or name in _JSON:
        texts = pc.unique(table[name]).to_pylist()
        bad = {text: why for text in texts if len(text) <= most and (why := _word_fault(name, text))}
        for why in set(bad.values()):
            yield np.array([bad.get(text) == why for text in table[name].to_pylist()], dtype=bool), why


def _word_fault(name: str, text: str) -> str:
    if not text and name != "status":
        return ""
    if name in _WORDS:
        return "" if _WORDS[name].fullmatch(text) else f"is {shown(text, 40)}"
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return "is not JSON"
    return "" if _has_shape(name, held) else "is JSON of another shape"


def _has_shape(name: str, held: Any) -> bool:
    if not isinstance(held, dict) or not all(key.isprintable() and len(key) <= MOST_TEXT for key in held):
        return False
    if name == "t_kernels":
        return _numbers(list(held.values())) and 0 < sum(held.values()) < math.inf
    if name == "bytes_arrays":
        return _numbers(list(held.values()))
    if name == "params":
        return all(isinstance(value, str | int | float | bool | None) for value in held.values())
    shares = [held[key] for key in ("tile_share", "nnz_share") if held.get(key) is not None]
    levels = [held[key] for key in ("level_seconds", "level_kernel", "level_found") if key in held]
    return (
        all(isinstance(share, dict) and _numbers(list(share.values())) for share in shares)
        and (not shares or (len(shares) == 2 and shares[0].keys() <= shares[1].keys()))
        and (not levels or (len(levels) == 3 and all(isinstance(of, list) and _numbers(of) for of in levels)))
        and _numbers([held.get("partition_s", 0.0)])
    )


def _numbers(values: list[Any]) -> bool:
    """Whether these are finite numbers, none of them negative."""
    return all(type(value) in (int, float) and 0 <= value < math.inf for value in values)


def _number_faults(name: str, values: Any) -> Iterator[tuple[Any, str]]:
    """Of one number, or of an array of them."""
    if name != "error_ratio":  # errors may be infinite
        yield abs(values) == math.inf, "is infinite"
    if name.startswith("t_"):
        yield (values > 0) & (values < _SHORTEST), "is out of range"
    yield values < 0, "is negative"


def _list_faults(name: str, table: pa.Table) -> Iterator[tuple[Any, str]]:
    import pyarrow.compute as pc

    column = table[name].combine_chunks()
    values = pc.list_flatten(column).fill_null(-1).to_numpy(zero_copy_only=False)
    wrong = np.zeros(len(column), dtype=bool)
    wrong[pc.list_parent_indices(column).to_numpy()[~(np.isfinite(values) & (values >= 0))]] = True
    yield wrong, "holds a value that is NaN, negative or infinite"


_FAULTS: dict[str, Callable[[str, Any], Iterator[tuple[Any, str]]]] = {
    "str": _text_faults,
    "bool": lambda name, table: iter(()),
    **dict.fromkeys(("int", "int or null", "float"), lambda name, table: _number_faults(name, table[name].to_numpy())),
    **dict.fromkeys(LISTS, _list_faults),
}


def _value_of_text_faults(name: str, text: str) -> Iterator[tuple[bool, str]]:
    if name != "reason":  # which is cut where it is read
        yield len(text) > _longest(name), "is too long"
    if text and (name in _WORDS or name in _JSON):
        yield bool(_word_fault(name, text)), "is another word"


def _value_of_list_faults(name: str, values: list[Any]) -> Iterator[tuple[bool, str]]:
    yield not all(0 <= value < math.inf for value in values), "holds a value that is NaN, negative or infinite"


# The same for the value of one row. An empty text is one that is not known yet.
VALUE_FAULTS: dict[str, Callable[[str, Any], Iterator[tuple[Any, str]]]] = {
    "str": _value_of_text_faults,
    "bool": lambda name, value: iter(()),
    **dict.fromkeys(("int", "float"), _number_faults),
    "int or null": lambda name, value: iter(()) if value is None else _number_faults(name, value),
    **dict.fromkeys(LISTS, _value_of_list_faults),
}


def _description_fault(row: Mapping[str, Any]) -> str:
    """What is wrong with the grids and row lengths of a description, its lists as arrays; empty if nothing."""
    for down, across, density in _GRIDS:
        if row[down] * row[across] != len(row[density]):
            return f"{density} has {len(row[density])} cells and not {row[down]} x {row[across]}"
        if (row[density] > 1).any():
            return f"{density} holds more than 1"
    lengths = row["row_lengths"]
    if len(lengths) != len(row["row_counts"]) or (np.diff(lengths) <= 0).any():
        return "row_lengths do not rise, or are not as many as row_counts"
    return ""


def shown(value: Any, most: int = 80) -> str:
    """A value of any type as a short ASCII text."""
    try:
        text = ascii(value)
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[:most]}..."


def is_session(session: Any) -> bool:
    """Whether the entries of metadata that are shown or computed with have their types, are null or missing."""
    if not isinstance(session, dict) or not isinstance(session.get("started"), str):
        return False
    return all(
        value is None
        or (check(value) if (check := _METADATA.get(name)) else not _SIZE.search(name) or _positive(value))
        for facts in (session, session.get("properties") or {})
        for name, value in facts.items()
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e30


def _are_bounds(value: Any) -> bool:
    """Whether these are bounds as `measure.bounds` takes them: pairs of bytes and seconds, by rising bytes."""
    return isinstance(value, dict) and all(
        isinstance(pairs, list)
        and pairs
        and all(isinstance(pair, list) and len(pair) == 2 and all(map(_positive, pair)) for pair in pairs)
        and all(one[0] < other[0] for one, other in pairwise(pairs))
        for pairs in value.values()
    )


_SIZE = re.compile("_(bytes|gbps|mhz)$")
_METADATA: dict[str, Callable[[Any], bool]] = {
    "seed": lambda value: isinstance(value, int) and 0 <= value < 2**63,
    "command": lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    "properties": lambda value: isinstance(value, dict),
    "multiprocessors": _positive,
    "launch_overhead": lambda value: isinstance(value, dict) and all(map(_positive, value.values())),
    "bounds": _are_bounds,
    "seconds": lambda value: (
        isinstance(value, dict) and all(isinstance(part, int | float) and 0 <= part < 1e30 for part in value.values())
    ),
}
