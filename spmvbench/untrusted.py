"""Text from outside: names, reasons and records that a stranger may have written.

Whatever reaches a terminal, a table or a log goes through `text`: rows and records when they are read (`store`), and
everything that the command line prints once more on its way out (`cli.terminal`).
"""

from __future__ import annotations

import os
from typing import Any


def text(value: str, keep: str = "") -> str:
    """A text with every character that is not printable written as its escape, as Python's `repr` does.

    Control characters and so the sequences that steer terminals, line ends, marks that change the direction of writing,
    characters without width and lone surrogates. keep: those that stay.
    """
    if value.isprintable():
        return value
    return "".join(
        sign if sign.isprintable() or sign in keep else sign.encode("unicode_escape").decode("ascii") for sign in value
    )


def file_name(name: str) -> str:
    """A file's name or path as `text`, in any locale: its bytes as UTF-8, those that are none by their numbers."""
    return text(os.fsencode(name).decode("utf-8", "backslashreplace"))


MOST = 1_000  # characters of a text in a record


def tree(value: Any) -> Any:
    """What JSON holds with all of its texts as `text` writes them and at most MOST long, the names of its values too.

    Raises RecursionError for what is nested deeper than Python's stack.
    """
    if isinstance(value, str):
        return text(value) if len(value) <= MOST else f"{text(value[:MOST])}..."
    if isinstance(value, dict):
        return {tree(str(name)): tree(part) for name, part in value.items()}
    if isinstance(value, list):
        return [tree(part) for part in value]
    return value


# How cells begin that spreadsheets compute: the last four are the wide forms of the first.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def cell(value: Any) -> Any:
    """A cell of a CSV file: a text that a spreadsheet would compute has an apostrophe before it, which makes it text.

    Numbers stay numbers, also those that are texts, and so does a dash alone.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA) or value == "-":
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
