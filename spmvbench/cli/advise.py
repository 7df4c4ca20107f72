"""`spmvbench advise`: which format for a matrix, from published rows and without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion
from spmvbench.cli.option_types import Words
from spmvbench.cli.results import echo_table, number
from spmvbench.errors import SpmvbenchError, UsageError

if TYPE_CHECKING:
    import pandas as pd

    from spmvbench.advice.choosing import Advice, Expected


def _time(seconds: float) -> str:
    """A time as people read it."""
    size, unit = next((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if seconds >= s or u == "us")
    return number(seconds / size, ".3g", f" {unit}")


@click.command(name="advise")
@click.argument("matrix")
@click.option(
    "--spmvs",
    type=click.FloatRange(min=1, max=1e12),
    default=1000,
    show_default=True,
    help="How many SpMVs the matrix will be used for: they pay for the conversion.",
)
@click.option("--dtype", "dtypes", type=Words("f64", "f32"), default="f64", show_default=True, help="f64 or f32.")
@click.option(
    "--device-like", default="h200", show_default=True, metavar="NAME", help="The GPU that the model has rows of."
)
@click.option(
    "--from",
    "runs",
    multiple=True,
    metavar="RUN",
    shell_complete=completion.runs,
    help="Learn from these runs in place of the model that ships (needs scikit-learn).",
)
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Formats to list.")
@click.option("--measure", is_flag=True, help="Measure the best few here, and cuSPARSE's and the safe one beside them.")
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON.")
@click.option("--real-part", is_flag=True, help="Take the real part of a complex matrix.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of generated values.")
def command(
    matrix: str,
    spmvs: float,
    dtypes: list[str],
    device_like: str,
    runs: tuple[str, ...],
    top: int,
    measure: bool,
    as_json: bool,
    real_part: bool,
    seed: int,
) -> int:
    """Say which formats are fastest for MATRIX, its conversion included.

    MATRIX is group/name (fetched if it is not here yet), a generated spec such as pde:60, or a file. Times are expected
    of a GPU as the model's, for a matrix that lies there in CSR; intervals hold 80 % of the matrices of families that
    the model had not seen. No GPU is needed unless --measure is given.
    """
    import numpy as np

    from spmvbench.advice import choosing, model
    from spmvbench.formats.arrays import Csr
    from spmvbench.matrices.sources import obtain

    if len(dtypes) != 1:
        raise UsageError("--dtype takes one type: f64 or f32")
    if measure:
        from spmvbench.devices import cuda

        if missing := cuda.why_unavailable():
            raise UsageError(f"--measure needs a GPU: {missing}")
    known = _learned(runs) if runs else model.load(device_like)
    found = obtain(matrix)
    a = Csr.of(found.read(seed, "real" if real_part else "refuse"))
    if not a.nnz:
        raise SpmvbenchError(f"{found.id} has no entries to multiply")
    a = a.astype(np.float32 if dtypes[0] == "f32" else np.float64)
    advice = choosing.advise(a, known, spmvs, top)
    if not as_json:
        _echo(advice, f"{found.id}: {a.rows:,} x {a.cols:,}, {a.nnz:,} entries", dtypes[0], spmvs, top, known.about)
    rows = _measured(advice, matrix, dtypes[0], spmvs, seed, real_part) if measure else None
    if as_json:
        import dataclasses
        import json

        said = {"matrix": found.id, "spmvs": spmvs} | dataclasses.asdict(advice)
        if rows is not None:
            kept = rows[["label", "status", "reason", "device_name", "t_median", "made", "total", "expected"]]
            said["measured"] = json.loads(kept.to_json(orient="records"))  # which knows no NaN
        click.echo(json.dumps(said, indent=2))
    elif rows is not None:
        _echo_measured(rows)
    failed = rows is not None and not rows["status"].isin(["ok", "skipped"]).all()
    return int(failed)  # as a run of which a case failed


def _learned(runs: tuple[str, ...]) -> Any:
    """A model of these runs."""
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise SpmvbenchError(
            "--from learns anew, which needs scikit-learn: pip install scikit-learn, or spmvbench[advice]"
        ) from None
    from spmvbench.advice import training

    rows, about = training.rows_of(runs)
    return training.trained(rows, about)[0]


def _echo(advice: Advice, what: str, dtype: str, spmvs: float, top: int, about: dict[str, Any]) -> None:
    click.secho(what, bold=True)
    click.echo(
        f"Expected on a GPU like {about['device']}, {dtype}, for {spmvs:,.10g} SpMVs and the conversion on the device "
        f"(learned from {about['matrices']} matrices of {about['families']} families)\n"
    )
    if advice.strange:
        click.secho(f"Unlike all matrices that this was learned from: {'; '.join(advice.strange)}.", fg="yellow")
        click.secho(f"The safe choice is {advice.safe.label}; what follows is a guess.\n", fg="yellow")
    if dtype != "f64":
        click.echo(f"Only f64 was measured: {dtype} is taken to save what its bytes save.\n")
    shown = advice.ranked[:top]
    shown += [e for e in dict.fromkeys((advice.vendor, advice.safe)) if e not in shown and e in advice.ranked]
    columns = {
        "format": lambda e: e.label,
        "total": lambda e: _time(e.total),
        "an SpMV": lambda e: _time(e.spmv),
        "80 % interval": lambda e: f"{_time(e.low)} - {_time(e.high)}",
        "conversion": lambda e: _time(e.conversion),
        "times cuSPARSE": lambda e: f"{e.total / advice.vendor.total:.2f}",
        "": lambda e: "cuSPARSE" if e == advice.vendor else "safe" if e == advice.safe else "",
    }
    echo_table(shown, columns, ("format", ""))
    best = advice.ranked[0]
    reasons = advice.reasons or ["no trait decides by itself, it leads on matrices of other kinds too"]
    click.echo(f"\nWhy {best.label}: {'; '.join(reasons)}.")
    loss = advice.loss
    click.echo(
        f"The price of being wrong: on matrices of families that were left out, this way of choosing lost "
        f"{loss['mean']:.1f} % to the best format (geometric mean), less than {loss['p95']:.0f} % on 95 of 100, "
        f"{loss['worst']:.0f} % at worst."
    )
    if len(advice.ranked) > 1:
        click.echo(_if_wrong(best, advice.ranked[1], spmvs))
    looked, estimated, once = advice.seconds
    click.echo(
        f"Looking at the matrix took {_time(looked)}, the bytes of the formats {_time(estimated)}; "
        f"an SpMV on a thread of this machine takes {_time(once)}."
    )


def _if_wrong(best: Expected, second: Expected, spmvs: float) -> str:
    """What it costs where the first takes the upper end of its interval, and the second what is expected of it."""
    slow = best.conversion + spmvs * best.high
    lost = 100 * (slow / (second.conversion + spmvs * second.spmv) - 1)
    if lost <= 0:
        return f"At the upper end of its interval {best.label} is still no slower than {second.label}."
    return f"At the upper end of its interval {best.label} loses {lost:.0f} % to {second.label}."


def _measured(advice: Advice, matrix: str, dtype: str, spmvs: float, seed: int, real_part: bool) -> pd.DataFrame:
    """The best few, cuSPARSE's and the safe one, measured on the device at hand in a run that is thrown away.

    Their rows with seconds of the conversion (`made`) and of all together (`total`), the least first, what was expected
    of them (`expected`), and of which other they are the same program (`same_as`). Raises SpmvbenchError where nothing
    could be measured.
    """
    import tempfile

    from spmvbench.advice.model import MEASURED
    from spmvbench.analysis.breakeven import ready
    from spmvbench.analysis.programs import same_as
    from spmvbench.runner import api

    tried = dict.fromkeys((*advice.ranked[:MEASURED], advice.vendor, advice.safe))
    expected = {e.label: e.total for e in tried}
    with tempfile.TemporaryDirectory() as results:
        rows = api.run(
            [matrix],
            list(expected),
            dtype=dtype,
            mode="hot",
            results=results,
            convert="device",
            seed=seed,
            real_part=real_part,
        )
    if not (rows["status"] == "ok").any():
        reasons = dict.fromkeys(rows["label"] + ": " + rows["status"] + ", " + rows["reason"])
        raise SpmvbenchError(f"nothing could be measured here: {'; '.join(reasons)}")
    made = ready(rows)
    rows = rows.assign(made=made, total=made + spmvs * rows["t_median"], expected=rows["label"].map(expected))
    rows = rows.assign(same_as=same_as(rows.assign(setting="", matrix=matrix)))
    return rows.sort_values("total", ignore_index=True)


def _echo_measured(rows: pd.DataFrame) -> None:
    (device,) = rows.loc[rows["status"] == "ok", "device_name"].unique()
    click.secho(f"\nMeasured on {device}", bold=True)
    columns = {
        "format": lambda row: row.label,
        "total": lambda row: _time(row.total) if row.status == "ok" else row.status,
        "an SpMV": lambda row: _time(row.t_median) if row.status == "ok" else "",
        "conversion": lambda row: _time(row.made) if row.status == "ok" else "",
        "total expected": lambda row: _time(row.expected),
    }
    if rows["same_as"].any():
        columns["program"] = lambda row: row.same_as and f"= {row.same_as}"
    echo_table(rows, columns, ("format", "program"))
    for row in rows[rows["status"] != "ok"].itertuples():
        click.echo(f"{row.status}: {row.label}: {row.reason}")
