"""Search over what formats say of themselves: keys, names of the survey, papers, docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator

from spmvbench.formats import survey
from spmvbench.formats.format import Format

# Points of a word that a text has whole, has but for its end (or the other's), or has once the text's words are joined.
WHOLE, BEGINNING, INSIDE = 4, 2, 1
LEAST_INSIDE = 4  # letters: shorter ones are inside of too many words


def search(classes: Iterable[type[Format]], text: str) -> list[type[Format]]:
    """The formats that have every word of a text, the best first, equal ones by key.

    Words may be in any order; case is ignored, and hyphens and other signs are spaces (``merge path`` finds what
    says merge-path). A word counts more in a key or a name than in a paper, and there more than in a docstring; words
    of the text that follow each other count once more. Nothing for a text without words.
    """
    wanted = _words(text)
    points = {cls: _points(cls, wanted) for cls in classes}
    return sorted((cls for cls, n in points.items() if n), key=lambda cls: (-points[cls], cls.key))


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _texts(cls: type[Format]) -> Iterator[tuple[int, str]]:
    """What a format says of itself, with what a word in it counts."""
    names = [name.title for name in survey.names() if cls.key in name.keys]
    first, _, rest = (inspect.getdoc(cls) or "").partition("\n")
    yield 8, cls.key
    yield 6, " / ".join([cls.survey_name, cls.family, *names])
    yield 3, cls.reference
    yield 2, f"{first} {cls.shared_implementation}"
    yield 1, f"{rest} {cls.op}"


def _points(cls: type[Format], wanted: list[str]) -> int:
    """How well a format has these words; 0 unless it has them all."""
    best = dict.fromkeys(wanted, 0)
    phrase, together = "".join(wanted), 0
    for weight, text in _texts(cls):
        words = _words(text)
        joined = "".join(words)
        for word in best:
            best[word] = max(best[word], weight * _match(word, words, joined))
        if joined == phrase or (len(wanted) > 1 and phrase in joined):
            together = max(together, weight * WHOLE)
    return sum(best.values()) + together if all(best.values()) else 0


def _match(word: str, words: list[str], joined: str) -> int:
    if word in words:
        return WHOLE
    if any(known.startswith(word) or (len(known) >= LEAST_INSIDE and word.startswith(known)) for known in words):
        return BEGINNING
    return INSIDE if len(word) >= LEAST_INSIDE and word in joined else 0
