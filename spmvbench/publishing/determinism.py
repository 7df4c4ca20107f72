"""Which formats repeat their bits, and the table of what that costs in docs/reproducible.md.

``python -m spmvbench.publishing.determinism RUN... --write`` writes configs/determinism.csv from the rows of runs, of
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
    cells = (
        (x.setting, x.spread, str(x.matrices), f"{x.mean:.3f}", f"{x.largest:.3f}", x.matrix.partition("/")[2])
        for x in found.itertuples()
    )
    head = ("Setting", "Spread of row lengths", "Matrices", "Mean cost", "Largest cost", "on")
    return in_page.markdown(head, cells, head[2:5])


def by_operation() -> str:
    """The table of how many formats repeat their bits in each operation, of configs/determinism.csv."""
    found = pd.read_csv(table(), keep_default_na=False)
    counts = found.groupby("op")["repeats"].value_counts().unstack(fill_value=0).reindex(columns=list(COUNTED))
    lines = counts.fillna(0).astype(int).sort_values("yes", ascending=False)
    head = ("Operation", *COUNTED.values())
    return in_page.markdown(head, ([f"`{x[0]}`", *map(str, x[1:])] for x in lines.itertuples()), head[1:])


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
