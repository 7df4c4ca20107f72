"""Untrusted text: names, reasons and metadata that somebody else may have written.

All text that reaches a terminal, a table or a log passes through `text`: rows and metadata when they are read
(`store`), and all output of the command line once more (`cli.terminal`).
"""

from __future__ import annotations

import os
from typing import Any


def text(value: str, keep: str = "") -> str:
    """A text in which characters that are not printable are replaced by their escapes, as in Python's `repr`.

    These are control characters and therefore terminal escape sequences, line ends, marks that change the direction of
    writing, characters without width, and lone surrogates. keep: characters that are not replaced.
    """
    if value.isprintable():
        return value
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in value
    )


def file_name(name: str) -> str:
    """A file's name or path as `text`, in any locale: its bytes as UTF-8, invalid ones as escapes."""
    return text(os.fsencode(name).decode("utf-8", "backslashreplace"))


MAX_CHARACTERS = 1_000  # of a text in metadata


def tree(value: Any) -> Any:
    """A JSON value whose texts, including names, are passed through `text` and cut to MAX_CHARACTERS.

    Raises RecursionError for values nested deeper than Python's stack.
    """
    if isinstance(value, str):
        return text(value) if len(value) <= MAX_CHARACTERS else f"{text(value[:MAX_CHARACTERS])}..."
    if isinstance(value, dict):
        return {tree(str(name)): tree(part) for name, part in value.items()}
    if isinstance(value, list):
        return [tree(part) for part in value]
    return value


# First characters of cells that spreadsheets evaluate; the last four are the full-width forms of the first four.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: Any) -> Any:
    """A cell of a CSV file. Text that a spreadsheet would evaluate gets a leading apostrophe, which makes it text.

    Numbers are unchanged, also as text, and so is a single dash.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA) or value == "-":
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
