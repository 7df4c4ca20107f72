"""The table of small matrices in docs/results/speed.md: the best times beside the launch overhead, by the longest row.

``python -m spmvbench.publishing.small RUN --page docs/results/speed.md`` makes it from the rows of a run and writes
it into the page, between two comments.
"""

from __future__ import annotations

from spmvbench.analysis.cases import hot, latest_cases, natural_products
from spmvbench.publishing import in_page
from spmvbench.reports import export
from spmvbench.reports.figures import Options, choose
from spmvbench.rows import store


def of_run(run: str, name: str = "small-matrices") -> str:
    """The tables of a figure of the hot rows of a run, in Markdown. Raises LeftOut if it has nothing to show."""
    rows = hot(natural_products(latest_cases(store.load(run))))
    options = Options(baseline=None, marks={}, environment=store.environment(run))
    (figure,) = choose([name])
    assert figure.show
    return export.written(figure.show(figure.data(rows, options), options), "markdown").strip()


main = in_page.command("small", __doc__, lambda given: of_run(given.run), in_page.RUN)

if __name__ == "__main__":
    main()
