"""Formats that stand for all that launch the same kernels: they meet every hard matrix where kernels are checked."""

from pathlib import Path

from spmvbench import formats, testing
from spmvbench.formats import Skip, single_steps
from tests.kept import contents, formats_text, keep

KEYS = formats.keys()
EMULATED = [key for key in KEYS if "emulated" in formats.get(key).devices]
HARD = testing.hard_matrices()
TALL = HARD.pop("tall")  # more rows than 16 bits count, which take their time: one product of each format meets them
# A parameter other than the default meets the shapes that sizes and limits depend on; the default meets all.
TELLING = (
    "no entries", "1xN", "empty rows at both ends", "one full row", "power law", "long rows among empty", "uniform 8",
    "3x3 blocks", "stored zeros", "one value", "2 entries a row to a tile's end",
)  # fmt: skip
# What formats that share their kernels with a representative meet with other parameters, or other types of values.
FEW = ("1xN", "empty rows at both ends", "one full row", "power law", "3x3 blocks", "one value")


def launched(key: str) -> set[str]:
    """The kernel files that a format launches for a small matrix: one full row, or what it takes in place of that."""
    cls = formats.get(key)
    for name in ("one full row", *HARD):
        a = testing.suited(cls, HARD[name])
        try:
            steps = testing.convert(key, a).launches(*testing.vectors(cls, a))
        except Skip:
            continue
        return {launch.source for launch in single_steps(steps)}
    return set()  # it refuses all, for which the first of the tests fails


def representatives() -> set[str]:
    """A key for every kernel file: the first that launches it, of the formats with the fewest files."""
    found, seen = set(), {"vector.cu"}  # it clears and scales y for every format
    for key in sorted(EMULATED, key=lambda key: len(formats.sources(formats.get(key)))):
        if not (files := launched(key)) <= seen:
            found.add(key)
            seen |= files
    return found


# What decides what the formats of this process launch, of which every process would make the same lists.
DECIDING = (formats_text(), contents([Path(__file__), Path(testing.__file__)]), *KEYS)
# Formats that share their kernels with one of these are in the slow tier where the kernels are what is checked, and
# meet the telling shapes there, not all.
REPRESENTATIVES = set(keep("representatives", DECIDING, lambda: sorted(representatives())))
