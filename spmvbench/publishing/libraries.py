"""The table of docs/results/libraries.md: products of libraries and of programs beside cuSPARSE and formats.

``python -m spmvbench.publishing.libraries RUN... --page docs/results/libraries.md`` makes it from the rows of runs and
writes it into the page, between two comments.
"""

from __future__ import annotations

import pandas as pd

from spmvbench.analysis.cases import hot, latest_cases, natural_products
from spmvbench.publishing import in_page
from spmvbench.rows import store


def markdown(rows: pd.DataFrame) -> str:
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


main = in_page.command(
    "libraries",
    __doc__,
    lambda given: markdown(hot(natural_products(latest_cases(store.load_all(given.runs))))),
    in_page.RUNS,
)

if __name__ == "__main__":
    main()
