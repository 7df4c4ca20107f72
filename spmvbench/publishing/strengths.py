"""What formats published since the survey are best at on the matrices of a run: sentences of docs/results/rivals.md.

``python -m spmvbench.publishing.strengths RUN... --page docs/results/rivals.md`` makes them from the rows of runs and
writes them into the page, between two comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from spmvbench.analysis.cases import latest_cases, verified
from spmvbench.analysis.strengths import EVERY, strengths
from spmvbench.publishing import in_page
from spmvbench.rows import store

MODULE = "spmvbench.publishing.strengths"
FORMATS = (
    "sell-petsc", "csr-ans", "cb", "bit8x4", "bit8x4-dict", "mbsr", "csr-lrb", "sell-dict", "sell-pack", "amb",
    "csr-amf", "csr-overlap", "brcsd", "cusparse-coo-alg2", "cusparse-spmvop",
)  # fmt: skip
NOTHING = "The runs have no rows of these formats."
FEWEST = 2  # matrices of a structure, for it to be named


def paragraph(rows: pd.DataFrame, labels: Sequence[str] = FORMATS) -> str:
    """Sentences on each of the formats, the best first, for every setting of some runs.

    rows: as they are stored. A format without verified rows is named as such, and so is one that stores fewer values
    wherever it is verified; a structure with fewer than FEWEST matrices that the format holds is left out.
    """
    cases = latest_cases(rows)
    found = strengths(cases, labels)
    texts = []
    for setting, part in found.groupby("setting", sort=False):
        every = part[part["structure"] == EVERY].sort_values("share", ascending=False)
        held = every[every["held"] > 0]
        if held.empty:
            continue
        sentences = [_sentence(row, part[part["label"] == row["label"]]) for row in held.to_dict("records")]
        timed = set(verified(cases[cases["setting"] == setting])["label"])
        missing = [label for label in labels if label not in set(held["label"])]
        for text, names in (
            ("Not compared, because they store fewer values than the matrix has", [n for n in missing if n in timed]),
            ("No verified rows", [name for name in missing if name not in timed]),
        ):
            if names:
                sentences.append(f"{text}: {', '.join(f'`{name}`' for name in names)}.")
        texts.append(f"In {setting}, on {every['matrices'].iloc[0]} matrices: {' '.join(sentences)}")
    return "\n\n".join(texts) or NOTHING


def _sentence(every: dict[str, Any], part: pd.DataFrame) -> str:
    kinds = part[(part["structure"] != EVERY) & (part["held"] >= FEWEST)].sort_values("share", ascending=False)
    share, held = f"{every['share']:.2f} of the fastest format's rate", every["held"]
    text = f"`{every['label']}` has {share} on the {held} that it holds"
    shares = [f"{row_share:.2f} on {kind}" for kind, row_share in zip(kinds["structure"], kinds["share"], strict=True)]
    if len(kinds) == 1:
        text += f", {shares[0]}"
    elif len(kinds):
        text += f", from {shares[0]} to {shares[-1]}"
    counts = [f"the first of these on {every['first']}"] if every["first"] else []
    counts += [f"within 5 % of all on {every['near']}"] if every["near"] else []
    return text + (f"; it is {' and '.join(counts)}." if counts else ".")


def main(given: Sequence[str] | None = None) -> None:
    """Print the paragraph, or write it into a page."""
    parser = in_page.parser(MODULE, __doc__)
    in_page.add_run(parser, several=True)
    parser.add_argument("--formats", default=",".join(FORMATS), help="the formats, separated by commas")
    options = parser.parse_args(given)
    text = paragraph(store.load_all(options.runs), options.formats.split(","))
    in_page.put(options.page, text, MODULE)


if __name__ == "__main__":
    main()
