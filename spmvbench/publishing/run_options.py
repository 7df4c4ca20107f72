"""What the options of `run` tell: the tables of docs/results/options.md.

``python -m spmvbench.publishing.run_options order RUN --page docs/results/options.md`` makes the table of an option,
``order``, ``values``, ``op`` or ``energy``, from the rows of a run and writes it into the page, between two comments.
Matrices that the run has in part, for an order or an operation of some format, are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import counted, hot, latest_cases, verified
from spmvbench.analysis.orders import gains
from spmvbench.analysis.ranking import VENDORS
from spmvbench.errors import UsageError
from spmvbench.matrices.sets import short_name
from spmvbench.publishing import in_page
from spmvbench.rows import store
from spmvbench.rows.schema import SETTLED

LOST, REGAINED = "random", "rcm"
# Types of values and vectors, and what each is compared with: values of the vectors' type.
TYPES = {"f32/f64": "f64", "f16/f64": "f64", "bf16/f64": "f64", "f16/f32": "f32", "bf16/f32": "f32"}
ONE, TWO = "spmv-t@1", "spmv-t@2"
FASTEST = "fastest with one over fastest with two"
LEAST = 4  # formats of a matrix in the table of energy, besides cuSPARSE's


def by_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed in each order over that in the natural one, geometric means over matrices: formats by orders.

    The last column is that of reverse Cuthill-McKee over a random order, the last line the mean of all. Formats that
    gain most by reverse Cuthill-McKee come first.
    """
    gained = gains(rows).pivot(index=["matrix", "label"], columns="order", values="speedup")
    logs = np.log(_whole(gained))
    logs[f"{REGAINED} over {LOST}"] = logs[REGAINED] - logs[LOST]
    found = np.exp(logs.groupby("label").mean()).sort_values(REGAINED, ascending=False)
    found.index = [f"`{label}`" for label in found.index]
    found.loc["all"] = np.exp(logs.mean())
    return found.rename_axis("Format")


def by_type(rows: pd.DataFrame) -> pd.DataFrame:
    """Speed with narrower values over that with values of the vectors' type: types by matrices.

    Geometric means over formats; in brackets that of the fastest format of each. NaN where the run has no rows.
    """
    times = rows.pivot_table(index=["matrix", "label"], columns="dtype", values="t_median")
    best = times.groupby("matrix").min()
    found = {}
    for narrow, wide in TYPES.items():
        if narrow not in times or wide not in times:
            continue
        means = np.exp(np.log(times[wide] / times[narrow]).groupby("matrix").mean())
        fastest = best[wide] / best[narrow]
        found[f"{narrow}, {wide}"] = (means.map("{:.2f}".format) + " (" + fastest.map("{:.2f}".format) + ")").where(
            means.notna()
        )
    return pd.DataFrame(found).T.rename(columns=short_name).rename_axis("Values / vectors, compared with")


def by_copies(rows: pd.DataFrame) -> pd.DataFrame:
    """Time of y = A^T x from the arrays of A over that from a second copy: formats by matrices.

    rows: skipped ones included. NaN where a format skips one of both. The last line compares the fastest formats.
    """
    cases = ["matrix", "label"]
    measured = rows.groupby([*cases, "op"], observed=True).size().unstack("op")
    times = rows.pivot_table(index=cases, columns="op", values="t_median").reindex(_whole(measured[[TWO]]).index)
    found = (times[ONE] / times[TWO]).unstack("matrix").dropna(how="all")
    found = found.sort_values(found.columns[0])
    found.index = [f"`{label}`" for label in found.index]
    fastest = times.groupby("matrix").min()
    found.loc[FASTEST] = fastest[ONE] / fastest[TWO]
    return found.rename(columns=short_name).rename_axis("Format")


def by_energy(rows: pd.DataFrame) -> pd.DataFrame:
    """Rate, energy of an SpMV, power and GFLOPS per watt: on each matrix the formats of least energy, and cuSPARSE's.

    Rows without energy are left out. Of labels that ran one program, and so have one energy, the first is shown.
    """
    counted = rows.dropna(subset="energy").assign(matrix=lambda rows: rows["matrix"].map(short_name))
    counted = counted.sort_values(["matrix", "energy", "label"]).drop_duplicates(["matrix", "energy"])
    least = counted.groupby("matrix").cumcount() < LEAST
    counted = counted[least | counted["label"].isin(VENDORS)]
    found = pd.DataFrame(
        {
            "GFLOPS": counted["gflops"],
            "Energy of an SpMV, mJ": 1e3 * counted["energy"],
            "Power, W": counted["watts"],
            "GFLOPS per watt": 1e-9 * counted["work"] / counted["energy"],
        }
    ).set_axis(pd.Index(counted["matrix"] + ", `" + counted["label"] + "`", name="Matrix, format"))
    return found.dropna(axis=1, how="all")  # rows of older versions have no power


def _whole(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of the matrices that have all of them. cells: by matrix and label."""
    every = cells.reindex(pd.MultiIndex.from_product(cells.index.levels))
    whole = every.notna().all(axis=1).groupby("matrix").all()
    return every[whole[every.index.get_level_values("matrix")].to_numpy()]


TABLES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "order": by_order,
    "values": by_type,
    "op": by_copies,
    "energy": by_energy,
}
WITH_SKIPPED = {"op"}  # tables of which a matrix is whole although a format skips it


def markdown(found: pd.DataFrame) -> str:
    """A table, numbers with two decimals."""
    head = [str(found.index.name), *map(str, found.columns)]
    rows = [
        [str(name), *("" if pd.isna(cell) else cell if isinstance(cell, str) else f"{cell:.2f}" for cell in row)]
        for name, row in found.iterrows()
    ]
    return in_page.markdown(head, rows, head[1:])


def of_run(option: str, run: str) -> pd.DataFrame:
    """The table of an option from the verified hot rows of a run. Raises UsageError if the run has no rows for it."""
    cases = counted(hot(latest_cases(store.load(run))))
    try:
        found = TABLES[option](cases[cases["status"].isin(SETTLED)] if option in WITH_SKIPPED else verified(cases))
    except (IndexError, KeyError):  # without a value that the table compares with
        found = pd.DataFrame()
    if found.empty:
        raise UsageError(f"{run} has no rows that compare values of the option {option!r}")
    return found


main = in_page.command(
    "run_options",
    __doc__,
    lambda given: {given.option: markdown(of_run(given.option, given.run))},
    ("option", {"choices": TABLES, "help": "the option of `run` that the table is about"}),
    in_page.RUN,
)

if __name__ == "__main__":
    main()
