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
    """A hint such as ``; did you mean csr5 or csr-rg?`` for a mistyped word in any case, empty where none is near."""
    import difflib

    spelled = {name.lower(): name for name in reversed(known)}
    near = difflib.get_close_matches(word.lower(), list(spelled), n=limit, cutoff=0.5)
    return f"; did you mean {' or '.join(spelled[name] for name in near)}?" if near else ""
