"""Reports and figures from Python: `spmvbench.report` and `spmvbench.plot`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from spmvbench.paths import inside, output
from spmvbench.reports import page, published, style
from spmvbench.rows import store
from spmvbench.rows.files import Layout
from spmvbench.rows.schema import COLUMNS, LISTS

_NUMBER = re.compile(r"[-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?)", re.IGNORECASE)
_ROWS = Layout("", "", "", COLUMNS, COLUMNS)


@dataclass(frozen=True)
class Plot:
    """A figure of a report. figure: matplotlib's figure, which may be changed. data: its data.

    A notebook shows it as the result of a cell.
    """

    figure: Figure
    data: pd.DataFrame

    def _repr_svg_(self) -> str:
        with style.theme():
            return style.rendered(self.figure, "svg").decode()

    def save(self, path: Path | str) -> Path:
        """Write it as svg, png or pdf, by the suffix of the path. Raises ValueError for other suffixes."""
        path = Path(path)
        image = path.suffix.removeprefix(".")
        if image not in ("svg", "png", "pdf"):
            raise ValueError(f"{path.name} should end in .svg, .png or .pdf")
        with style.theme(), output(path) as file:
            file.write(style.rendered(self.figure, image))
        return path


def plot(
    rows: pd.DataFrame | Path | str,
    name: str = "profile",
    *,
    baseline: str | None = None,
    highlight: Sequence[str] | None = None,
    emulated: bool = False,
    published: Sequence[str] = (),
) -> Plot:
    """One figure of a report, by name: profile, ratios, gflops, roofline or another name of `spmvbench report`.

    rows: those of `spmvbench.run` or `load_run`, all or some, also read from CSV or with Arrow's types; or a run's
    name or folder. baseline: what speed-ups
    compare with. highlight: labels of formats. emulated: show times of the emulated device, marked as such. published:
    published results to compare with, such as ``"survey-k40m"``. Raises UsageError for unknown names and if there is
    nothing to draw, TypeError for a table of something else.
    """
    table, about = _held(rows)
    return Plot(*page.picture(table, name=name, **about | _options(baseline, highlight, emulated, published)))


def report(
    rows: pd.DataFrame | Path | str,
    out: Path | str | None = None,
    *,
    figures: Sequence[str] | None = None,
    images: Sequence[str] = ("svg",),
    baseline: str | None = None,
    highlight: Sequence[str] | None = None,
    emulated: bool = False,
    published: Sequence[str] = (),
) -> Path:
    """Write figures and tables on one HTML page. Returns its path.

    out: a folder; without, ``report`` in the run's. figures: their names, all without. images: svg, png, pdf. The rest
    as of `plot`. Raises UsageError for names that are not known, ValueError without a folder to write to.
    """
    table, about = _held(rows)
    if out is None:
        if "folder" not in table.attrs:
            raise ValueError("give out, a folder: these rows do not have their run's folder")
        out = inside(Path(table.attrs["folder"]), "report")
    options = _options(baseline, highlight, emulated, published)
    return page.write(table, out=Path(out), names=figures, images=images, **about | options).page


def _held(rows: pd.DataFrame | Path | str) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The rows, the metadata of their run and the descriptions of its matrices."""
    if not isinstance(rows, pd.DataFrame):
        rows = store.load_run(rows)
    rows = typed(rows)
    folder = rows.attrs.get("folder")
    matrices = store.matrices(folder) if folder is not None and Path(folder).is_dir() else None
    return rows, {"environment": rows.attrs.get("environment", {}), "matrices": matrices}


def typed(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows in the types that `store.load` gives; missing columns and values are empty, other columns stay.

    A text of a list, as CSV holds it, is read as numbers. Raises TypeError if a column holds other values.
    """
    import pyarrow as pa

    wanted, columns = _ROWS.schema.empty_table().to_pandas().dtypes, {}
    nulls = {"int or null": "float64"}  # as pandas has integers of which some are missing
    if all(
        name in rows and str(rows[name].dtype) in (str(wanted[name]), nulls.get(kind))
        for name, (kind, _) in COLUMNS.items()
    ):
        return rows  # the rows of `load`, or some of them
    for name in rows.columns.intersection(list(COLUMNS)):
        kind = COLUMNS[name][0]
        values = rows[name].map(_numbers) if kind in LISTS else rows[name]
        try:
            columns[name] = pa.array(values, from_pandas=True).cast(_ROWS.schema.field(name).type)
        except (pa.ArrowException, TypeError):
            raise TypeError(f"these are no rows of a run: the column {name} holds other values than {kind}") from None
    if not columns:
        raise TypeError("these are no rows of a run: they have none of its columns")
    found = _ROWS.completed(pa.table(columns)).to_pandas().set_axis(rows.index)
    found = found.assign(**{name: rows[name] for name in rows.columns.difference(list(COLUMNS), sort=False)})
    found.attrs = dict(rows.attrs)
    return found


def _numbers(value: Any) -> Any:
    if isinstance(value, str):
        shown = "" if "..." in value else value  # a list that was shortened for print
        value = [float(number) for number in _NUMBER.findall(shown)]
    return np.asarray(value, np.float64) if np.ndim(value) else None


def _options(
    baseline: str | None, highlight: Sequence[str] | None, emulated: bool, names: Sequence[str]
) -> dict[str, Any]:
    given = [names] if isinstance(names, str) else names
    found = [published.get(name) for name in given]
    return {"baseline": baseline, "highlight": highlight, "with_emulated": emulated, "published": found}
