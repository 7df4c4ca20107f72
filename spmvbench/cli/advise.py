"""`spmvbench advise`: which format for a matrix, from published rows and without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion
from spmvbench.cli.option_types import Words
from spmvbench.cli.results import echo_table, number
from spmvbench.errors import SpmvbenchError, UsageError

if TYPE_CHECKING:
    from spmvbench.advice.choosing import Advice, Expected

MEASURED = 3  # formats that --measure runs, beside cuSPARSE's


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
@click.option("--measure", is_flag=True, help="Measure the best few here, and cuSPARSE's beside them.")
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
) -> None:
    """Say which formats are fastest for MATRIX, its conversion included.

    MATRIX is group/name (fetched if it is not here yet), a generated spec such as pde:60, or a file. Times are expected
    of a GPU as the model's, for a matrix that lies there in CSR; intervals hold 80 % of the matrices of families that
    the model had not seen. No GPU is needed unless --measure is given.
    """
    import numpy as np

    from spmvbench.advice import choosing, model
    from spmvbench.collection.sources import obtain
    from spmvbench.formats.arrays import Csr

    if len(dtypes) != 1:
        raise UsageError("--dtype takes one type: f64 or f32")
    if measure:
        from spmvbench.devices import chosen

        if chosen("auto").startswith("emulated"):
            raise UsageError("--measure needs a GPU: times of the emulated device say nothing of one")
    known = _learned(runs) if runs else model.load(device_like)
    found = obtain(matrix)
    a = Csr.of(found.read(seed, "real" if real_part else "refuse"))
    if not a.nnz:
        raise SpmvbenchError(f"{found.id} has no entries to multiply")
    a = a.astype(np.float32 if dtypes[0] == "f32" else np.float64)
    advice = choosing.advise(a, known, spmvs, top)
    if as_json:
        import dataclasses
        import json

        click.echo(json.dumps({"matrix": found.id, "spmvs": spmvs} | dataclasses.asdict(advice), indent=2))
    else:
        _echo(advice, f"{found.id}: {a.rows:,} x {a.cols:,}, {a.nnz:,} entries", dtypes[0], spmvs, top, known.about)
    if measure:
        _measure(advice, matrix, dtypes[0], spmvs, seed, real_part)


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
    import pandas as pd

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
    echo_table(pd.DataFrame([vars(e) for e in shown]).assign(e=shown), _of(columns), ("format", ""))
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
    looked, estimated = advice.seconds
    click.echo(f"Looking at the matrix took {_time(looked)}, the bytes of the formats {_time(estimated)}.")


def _if_wrong(best: Expected, second: Expected, spmvs: float) -> str:
    """What it costs where the first takes the upper end of its interval, and the second what is expected of it."""
    slow = best.conversion + spmvs * best.high
    lost = 100 * (slow / (second.conversion + spmvs * second.spmv) - 1)
    if lost <= 0:
        return f"At the upper end of its interval {best.label} is still no slower than {second.label}."
    return f"At the upper end of its interval {best.label} loses {lost:.0f} % to {second.label}."


def _of(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: lambda row, text=text: text(row.e) for name, text in columns.items()}


def _measure(advice: Advice, matrix: str, dtype: str, spmvs: float, seed: int, real_part: bool) -> None:
    """The best few and cuSPARSE's, measured on the device at hand in a run that is thrown away."""
    import tempfile

    from spmvbench.bench import direct

    labels = [e.label for e in advice.ranked[:MEASURED]]
    labels += [advice.vendor.label] if advice.vendor.label not in labels else []
    with tempfile.TemporaryDirectory() as results:
        rows = direct.run(
            [matrix],
            labels,
            dtype=dtype,
            mode="hot",
            results=results,
            convert="device",
            seed=seed,
            real_part=real_part,
        )
    made = rows["t_convert_device"].fillna(rows["t_convert_host"]) + rows["t_setup"]
    rows = rows.assign(total=made + spmvs * rows["t_median"], made=made).sort_values("total")
    click.secho(f"\nMeasured on {rows['device_name'].iloc[0]}", bold=True)
    columns = {
        "format": lambda row: row.label,
        "total": lambda row: _time(row.total) if row.status == "ok" else row.status,
        "an SpMV": lambda row: _time(row.t_median) if row.status == "ok" else "",
        "conversion": lambda row: _time(row.made) if row.status == "ok" else "",
    }
    echo_table(rows, columns, ("format",))
