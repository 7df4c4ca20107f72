"""Exceptions that are shown to the user as one line, and words of such lines.

All other exceptions are defects and keep their traceback.
"""

from __future__ import annotations

from math import floor


class SpmvbenchError(Exception):
    """One sentence for the user, and the exit code of the command.

    ``exit_code`` is 2 if the command was wrong (unknown name, bad option) and 1 if the work failed (no network,
    unreadable file, full disk).
    """

    exit_code = 1


class UsageError(SpmvbenchError):
    """The command or its arguments are wrong: an unknown format, a bad parameter, an unknown set."""

    exit_code = 2


def did_you_mean(word: str, known: list[str]) -> str:
    """A hint such as ``; did you mean csr5 or csr-rg?`` for a mistyped word; empty if no known word is similar."""
    import difflib

    spelled = {name.lower(): name for name in reversed(known)}
    near = difflib.get_close_matches(word.lower(), list(spelled), cutoff=0.5)
    return f"; did you mean {' or '.join(spelled[name] for name in near)}?" if near else ""


def percent(share: float, digits: int = 0) -> str:
    """A share in percent, rounded: 67 %. 100 % is all, and 0 % is none."""
    whole = 100 * 10**digits
    found = floor(share * whole + 0.5)  # as JavaScript rounds
    return f"{(min(max(found, 1), whole - 1) if 0 < share < 1 else found) / 10**digits:g} %"


def counted(count: int | str, word: str) -> str:
    """A number, or its text, and what it counts: 1 case, 2 cases, 3 entries, 1,000 matrices."""
    several = {"matrix": "matrices", "entry": "entries"}.get(word, f"{word}s")
    return f"{count} {word if str(count) == '1' else several}"
