"""Errors that a user sees as one line; everything else is a defect and keeps its traceback."""

from __future__ import annotations


class SpmvbenchError(Exception):
    """One sentence for the person at the terminal, and the exit code of the command.

    ``exit_code`` is 2 where the command itself was wrong (unknown name, bad option) and 1 where the job failed
    (no network, unreadable file, no space).
    """

    exit_code = 1


class UsageError(SpmvbenchError):
    """The command or the arguments are wrong: an unknown format, a bad parameter, an unknown set."""

    exit_code = 2


def did_you_mean(word: str, known: list[str], limit: int = 3) -> str:
    """A hint such as ``; did you mean csr5 or csr-rg?`` for a mistyped word, empty where nothing is near."""
    import difflib

    near = difflib.get_close_matches(word, known, n=limit, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""
