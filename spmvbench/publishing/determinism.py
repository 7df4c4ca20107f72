"""Which formats repeat their bits, and the table of what that costs in docs/reproducible.md.

``python -m spmvbench.publishing.determinism RUN... --write`` writes configs/determinism.csv from the rows of runs, of
which those of the emulated device tell of float atomics alone; ``--add`` keeps what the file has of other runs.
``--page docs/reproducible.md`` writes the table of costs on the matrices of the runs into the page, by what
configs/determinism.csv says.
"""

from __future__ import annotations

import argparse

import pandas as pd

from spmvbench import paths
from spmvbench.analysis import determinism
from spmvbench.analysis.cases import hot, latest_cases, natural_products
from spmvbench.formats import shipped
from spmvbench.formats.determinism import known, table
from spmvbench.publishing import in_page
from spmvbench.rows import store


def markdown(rows: pd.DataFrame) -> str:
    """The table of costs. rows: as `latest_cases`."""
    repeating = {label for label, repeats in known().items() if repeats}
    found = determinism.by_spread(determinism.costs(rows, repeating))
    cells = (
        (x.setting, x.spread, str(x.matrices), f"{x.mean:.3f}", f"{x.largest:.3f}", x.matrix.partition("/")[2])
        for x in found.itertuples()
    )
    head = ("Setting", "Spread of row lengths", "Matrices", "Mean cost", "Largest cost", "on")
    return in_page.markdown(head, cells, head[2:5])


def made(options: argparse.Namespace) -> str:
    """The table of costs; or, if the file is to be written, how many formats repeat their bits."""
    rows = natural_products(latest_cases(store.load_all(options.runs)))
    if not options.write:
        return markdown(hot(rows))
    found = determinism.bits(rows[rows["format"].isin(shipped())])
    if options.add:
        found = determinism.joined(pd.read_csv(table(), index_col="label", keep_default_na=False), found)
    with paths.written_whole(table()) as file:
        file.write(found.to_csv(lineterminator="\n").encode("ascii"))
    return f"{table()}: {found['repeats'].value_counts().to_dict()}"


WRITE: in_page.Argument = (
    "--write",
    {"action": "store_true", "help": "write configs/determinism.csv instead"},
)
ADD: in_page.Argument = (
    "--add",
    {"action": "store_true", "help": "with --write: to what the file has of runs that are not named"},
)
main = in_page.command("determinism", __doc__, made, in_page.RUNS, WRITE, ADD)

if __name__ == "__main__":
    main()
