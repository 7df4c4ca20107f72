"""Tables of docs/ of the rows of runs, each by a function: TABLES.

Matrices that a run has in part, for an order or an operation of some format, are left out of the table of its option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from spmvbench.analysis.cards import carried_over
from spmvbench.analysis.cases import counted, hot, latest_cases, natural_products, verified
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.orders import gains
from spmvbench.analysis.ranking import VENDORS
from spmvbench.analysis.speedup import pair_speedups
from spmvbench.analysis.strengths import EVERY, strengths
from spmvbench.errors import UsageError
from spmvbench.matrices.sets import short_name
from spmvbench.publishing import in_page
from spmvbench.reports import export
from spmvbench.reports.figures import comparisons
from spmvbench.reports.tables import Column, Table, number, table
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


KERNELS = [
    Column("label", "Key"),
    Column("setting", "Setting"),
    Column("matrices", "Matrices", number),
    Column("mean", "Mean", number, "geometric mean of the time of kernel=paper over that of the default"),
    Column("least", "Least", number),
    Column("most", "Most", number),
]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """Time of `kernel=paper` over that of the default, by key and setting: the fields of KERNELS.

    rows: as they are stored; verified hot ones of matrices with both count. Raises UsageError if there are none.
    """
    rows = verified(hot(latest_cases(rows)))
    labels = set(rows["label"])
    pairs = [(label, f"{label}[kernel=paper]") for label in sorted(labels) if f"{label}[kernel=paper]" in labels]
    if not pairs:
        raise UsageError("the runs have no verified rows of a format with both kernels")
    by_key = pair_speedups(rows, pairs).groupby(["setting", "label"], observed=True)["speedup"]
    return by_key.agg(matrices="size", mean=geometric_mean, least="min", most="max").reset_index()


FORMATS = (
    "sell-petsc", "csr-ans", "cb", "bit8x4", "bit8x4-dict", "mbsr", "csr-lrb", "sell-dict", "sell-pack", "amb",
    "csr-amf", "csr-overlap", "brcsd", "cusparse-coo-alg2", "cusparse-spmvop",
)  # fmt: skip
FEWEST = 2  # matrices of a structure that a format holds, for its share there to be shown
STRENGTHS = [
    Column("label", "Format"),
    Column("held", "Matrices", number),
    Column("share", "Share", number),
    Column("first", "First of these", number),
    Column("near", "Within 5 % of all", number),
]


def shares(rows: pd.DataFrame, labels: Sequence[str] = FORMATS) -> Iterator[Table]:
    """A table for each setting, a row a format, the best first: `analysis.strengths`, and the share by structure.

    rows: as they are stored. A dash: no verified row, or fewer values are stored than the matrix has.
    """
    found = strengths(latest_cases(rows), labels)
    for setting, part in found.groupby("setting", sort=False):
        every = part[part["structure"] == EVERY].sort_values("share", ascending=False)
        enough = part[(part["held"] >= FEWEST) & (part["structure"] != EVERY)]
        by_structure = enough.pivot(index="label", columns="structure", values="share")
        columns = [*STRENGTHS, *(Column(name, name.capitalize(), number) for name in by_structure)]
        caption = f"Share of the fastest format's rate, {setting}, {every['matrices'].iloc[0]} matrices"
        yield table(caption, every.join(by_structure, on="label"), columns)


def libraries(rows: pd.DataFrame) -> str:
    """A table for each setting: GFLOPS on each matrix, or the status, and what starts the products; then the reasons of
    rows that are not ok. The first lines have the best ranks in the mean of the matrices. rows: as `latest_cases`.
    """
    tables = []
    for setting, part in rows.groupby("setting", observed=True):
        right = part[part["status"] == "ok"]
        cells = part["status"].astype(str).where(part["status"] != "ok", part["gflops"].map("{:.0f}".format))
        shown = part.assign(cell=cells).pivot(index="label", columns="name", values="cell")
        ranks = right.groupby("name", observed=True)["gflops"].rank(pct=True)
        order = ranks.groupby(right["label"], observed=True).mean().sort_values(ascending=False).index
        started = right.groupby("label", observed=True)["timed_by"].agg(lambda by: ", ".join(sorted(set(by))))
        lines = (
            [f"`{label}`", *shown.loc[label].fillna(""), started.get(label, "")]
            for label in [*order, *shown.index.difference(order)]
        )
        head = ("Format or program", *(f"`{name}`" for name in shown.columns), "Started by")
        tables.append(f"{setting}, GFLOPS:\n\n{in_page.markdown(head, lines, head[1:-1])}")
    failed = rows[rows["status"] != "ok"].drop_duplicates(["label", "reason"])[["label", "name", "dtype", "reason"]]
    reasons = [f"- `{label}` on `{name}`, {dtype}: {reason}" for label, name, dtype, reason in failed.to_numpy()]
    return "\n\n".join([*tables, *filter(None, ["\n".join(reasons)])])


def cards(rows: pd.DataFrame, others: pd.DataFrame) -> Table:
    """`summary` of the rows of two cards. Raises UsageError if they are not of two cards, or have no case in common."""
    if not comparisons.differ(rows, others):
        raise UsageError("the two runs are not of two models of GPU")
    found, pair = comparisons.compared(rows, others)
    return comparisons.summary(carried_over(found), *pair)


OPTIONS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "order": by_order,
    "values": by_type,
    "op": by_copies,
    "energy": by_energy,
}
WITH_SKIPPED = {"op"}  # tables of which a matrix is whole although a format skips it


def of_run(option: str, run: str) -> pd.DataFrame:
    """The table of an option from the verified hot rows of a run. Raises UsageError if the run has no rows for it."""
    cases = counted(hot(latest_cases(store.load(run))))
    try:
        found = OPTIONS[option](cases[cases["status"].isin(SETTLED)] if option in WITH_SKIPPED else verified(cases))
    except (IndexError, KeyError):  # without a value that the table compares with
        found = pd.DataFrame()
    if found.empty:
        raise UsageError(f"{run} has no rows that compare values of the option {option!r}")
    return found


def _written(tables: Iterable[Table]) -> str:
    return export.written(list(tables), "markdown").strip()


def _exactly(count: int, runs: Sequence[str]) -> Sequence[str]:
    if len(runs) != count:
        raise UsageError(f"this table is of {count} run{'s' * (count > 1)}, not of {len(runs)}")
    return runs


def _of_option(option: str, runs: Sequence[str]) -> str:
    return in_page.frame(of_run(option, *_exactly(1, runs)))


KERNELS_CAPTION = "Time of kernel=paper over that of the default"
TABLES: dict[str, Callable[[Sequence[str]], str]] = {
    **{name: partial(_of_option, name) for name in OPTIONS},
    "cards": lambda runs: _written([cards(*map(store.load, _exactly(2, runs)))]),
    "kernels": lambda runs: _written([table(KERNELS_CAPTION, ratios(store.load_all(runs)), KERNELS)]),
    "strengths": lambda runs: _written(shares(store.load_all(runs))),
    "libraries": lambda runs: libraries(hot(natural_products(latest_cases(store.load_all(runs))))),
}
main = in_page.command(
    lambda given: {given.table: TABLES[given.table](given.runs)}, ("table", {"choices": TABLES}), in_page.RUNS
)
