"""Which formats repeat their bits, and the table of what that costs in docs/reproducible.md.

``python -m spmvbench.publishing determinism RUN... --write`` writes configs/determinism.csv from the rows of runs, of
which those of the emulated device tell of float atomics alone; ``--add`` keeps what the file has of other runs.
``--page docs/reproducible.md`` writes the tables of operations and of costs, on the matrices of the runs, into the
page, by what configs/determinism.csv says.
"""

from __future__ import annotations

import argparse

import pandas as pd

from spmvbench import paths
from spmvbench.analysis import determinism
from spmvbench.analysis.cases import hot, latest_cases, named_order, natural_products
from spmvbench.formats import shipped
from spmvbench.formats.determinism import OF_PRODUCTS, PRODUCT, known, operation, table
from spmvbench.publishing import in_page
from spmvbench.rows import store

COUNTED = {"yes": "Same bits", "no": "Other bits", "": "Not known"}


def markdown(rows: pd.DataFrame) -> str:
    """The table of costs. rows: as `latest_cases`."""
    repeating = {label for label, repeats in known().items() if repeats}
    found = determinism.by_spread(determinism.costs(rows, repeating))
    cells = {
        "Setting": "{setting}",
        "Spread of row lengths": "{spread}",
        "Matrices": "{matrices}",
        "Mean cost": "{mean:.3f}",
        "Largest cost": "{largest:.3f}",
        "on": "{name}",
    }
    found = found.assign(name=found["matrix"].str.partition("/")[2])
    return in_page.listed(found, cells, [*cells][2:5])


def by_operation() -> str:
    """The table of how many formats repeat their bits in each operation, of configs/determinism.csv."""
    found = pd.read_csv(table(), keep_default_na=False)
    counts = found.groupby("op")["repeats"].value_counts().unstack(fill_value=0).reindex(columns=list(COUNTED))
    counts = counts.fillna(0).astype(int).sort_values("yes", ascending=False).rename(columns=COUNTED)
    return in_page.frame(counts.rename("`{}`".format).rename_axis("Operation"))


def settled(found: pd.DataFrame) -> pd.DataFrame:
    """What `determinism.bits` has by operation and label, with no for what multiplies by a product that says no."""
    no = {label for op, label in found.index[found["repeats"] == "no"] if op == PRODUCT}
    index = found.index
    varies = index.get_level_values("op").isin(OF_PRODUCTS) & index.get_level_values("label").isin(no)
    return found.assign(repeats=found["repeats"].mask(varies, "no"))


def made(options: argparse.Namespace) -> str | dict[str, str]:
    """The tables; or, if the file is to be written, how many formats repeat their bits."""
    rows = latest_cases(determinism.across_processes(store.load_all(options.runs)))
    if not options.write:
        return {"operations": by_operation(), "costs": markdown(hot(natural_products(rows)))}
    rows = rows[rows["format"].isin(shipped()) & (named_order(rows) == "")]
    found = determinism.bits(rows.assign(op=rows["op"].map(operation)), ["op", "label"])
    if options.add:
        found = determinism.joined(pd.read_csv(table(), index_col=["op", "label"], keep_default_na=False), found)
    with paths.written_whole(table()) as file:
        file.write(settled(found).to_csv(lineterminator="\n").encode("ascii"))
    return f"{table()}: {found['repeats'].value_counts().to_dict()}"


main = in_page.command(
    made,
    in_page.RUNS,
    ("--write", {"action": "store_true", "help": "write configs/determinism.csv instead"}),
    ("--add", {"action": "store_true", "help": "with --write: to what the file has of runs that are not named"}),
)
