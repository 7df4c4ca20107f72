"""`spmvbench advise`: predicts the fastest formats for a matrix, without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import completion, option_types
from spmvbench.cli.results import echo_table, time
from spmvbench.errors import SpmvbenchError, UsageError, counted

if TYPE_CHECKING:
    import pandas as pd

    from spmvbench.advice.choosing import Advice, Expected
    from spmvbench.formats.arrays import Csr


@click.command(name="advise")
@click.argument("matrix")
@click.option(
    "--spmvs",
    type=option_types.number(1, 1e12),
    default=10_000,
    help="Number of SpMVs with the matrix; the conversion is done once.",
)
@click.option(
    "--vectors",
    type=click.IntRange(1, 64),
    default=1,
    help="Vectors that each product multiplies at once, X and Y by rows.",
)
@click.option("--pair", is_flag=True, help="For as many products with A^T as with A: two copies, a format for each.")
@click.option("--dtype", type=click.Choice(["f64", "f32"]), default="f64", help="Precision of values, x and y.")
@click.option(
    "--device-like",
    default="h200",
    metavar="NAME",
    help="GPU whose model predicts: h200, h100 (scaled from h200), or auto for this machine's.",
)
@click.option(
    "--from",
    "runs",
    multiple=True,
    metavar="RUN",
    shell_complete=completion.runs,
    help="Train on these runs instead of using the model that ships (needs scikit-learn).",
)
@option_types.program
@click.option("--top", type=click.IntRange(min=1), default=5, help="Number of formats to list.")
@click.option(
    "--deterministic", is_flag=True, help="Only formats that are known to give the same bits in every product."
)
@click.option(
    "--measure", is_flag=True, help="Measure the best few formats, cuSPARSE's and the fallback on this machine's GPU."
)
@option_types.JSON
@option_types.real_part
@option_types.seed
def command(
    matrix: str,
    spmvs: float,
    vectors: int,
    pair: bool,
    dtype: str,
    device_like: str,
    runs: tuple[str, ...],
    programs: tuple[str, ...],
    top: int,
    deterministic: bool,
    measure: bool,
    as_json: bool,
    real_part: bool,
    seed: int,
) -> int:
    """Predict the fastest formats for MATRIX, conversion included.

    MATRIX is group/name (fetched if it is missing), a generated matrix such as pde:60, or a file. Times are predicted
    for a GPU like the model's whose memory holds the matrix in CSR. The intervals contain 80 % of the measured times on
    matrix families that were left out of training. No GPU is needed unless --measure is given.
    """
    from spmvbench.advice import choosing, model
    from spmvbench.formats.determinism import repeats
    from spmvbench.formats.two_copies import transposed
    from spmvbench.operators import measuring
    from spmvbench.operators.format_choice import like, pair_label

    if pair and (measure or vectors > 1):
        raise UsageError(f"--pair predicts for one vector; spmvbench run {matrix} --op pair measures pairs")
    if measure:
        measuring.require_gpu()
    if programs and not runs:
        raise UsageError("--program is for --from: no model that ships knows the program")
    known = _trained(runs, programs, vectors) if runs else model.load(like(device_like), vectors)
    name, a = _read(matrix, seed, real_part, dtype)
    advices = {}
    for way, matrix_of in {"A": a, "A^T": transposed(a)}.items() if pair else [("", a)]:
        advice = choosing.advise(matrix_of, known, spmvs, deterministic=deterministic, vectors=vectors)
        advices[way] = advice
        if not as_json:
            size = f"{matrix_of.rows:,} x {matrix_of.cols:,}, {counted(f'{a.nnz:,}', 'entry')}"
            what = f"{way and way + ' of '}{name}: {size}"
            _echo(advice, what, dtype, spmvs, vectors, top, known.about)
            click.echo(nl=way == "A")
    rows = measuring.measured(advice, matrix, dtype, spmvs, seed, real_part, vectors=vectors) if measure else None
    labels = [advice.choice.label for advice in advices.values()]
    best = pair_label(*labels) if pair else labels[0]
    if rows is not None:  # the fastest that was verified; cuSPARSE's is measured in any case
        op = "spmv" if vectors == 1 else f"spmm@{vectors}"
        best = next((label for label in rows["label"] if not deterministic or repeats(label, op)), best)
    if as_json:
        facts = {"matrix": name, "dtype": dtype, "spmvs": spmvs, "vectors": vectors, "device": known.about["device"]}
        _echo_json(facts | {"choice": _parsed(best)}, advices, rows)
    else:
        if rows is not None:
            _echo_measured(rows, vectors)
        product = "y = op @ x" if vectors == 1 else "Y = op @ X"
        product = f"{product}; z = op.T @ w" if pair else product
        _echo_use(best, matrix, dtype, seed, product, real_part=real_part, deterministic=deterministic)
    failed = rows is not None and not rows["status"].isin(["ok", "skipped"]).all()
    return int(failed)  # the exit code of a run with a failed case


def _read(matrix: str, seed: int, real_part: bool, dtype: str) -> tuple[str, Csr]:
    """A matrix with entries, all of them finite in the type, and its name."""
    import numpy as np

    from spmvbench.formats.arrays import Csr, require_finite
    from spmvbench.matrices.lookup import obtain

    found = obtain(matrix)
    a = Csr.of(found.read(seed, "real" if real_part else "refuse"))
    if not a.nnz:
        raise SpmvbenchError(f"{found.id} has no entries to multiply")
    with np.errstate(over="ignore"):  # named below
        a = a.astype(np.float32 if dtype == "f32" else np.float64)
    require_finite(a)
    return found.id, a


def _echo_json(answer: dict[str, Any], advices: dict[str, Advice], rows: pd.DataFrame | None) -> None:
    import dataclasses
    import json

    for way, advice in advices.items():
        found = dataclasses.asdict(advice)
        for e in (*found["ranked"], found["vendor"], found["fallback"]):
            e |= _parsed(e["label"])
        answer |= {way: found} if way else found
    if rows is not None:
        kept = rows[["label", "status", "reason", "device_name", "t_median", "made", "total", "expected"]]
        answer["measured"] = json.loads(kept.to_json(orient="records"))  # pandas writes NaN as null
    click.echo(json.dumps(answer, indent=2))


def _trained(runs: tuple[str, ...], programs: tuple[str, ...], vectors: int = 1) -> Any:
    """A model trained on these runs. Their rows of programs count if the programs are named. Raises SpmvbenchError
    without scikit-learn.
    """
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise SpmvbenchError(
            "--from trains a model, which needs scikit-learn: pip install scikit-learn, or spmvbench[advice]"
        ) from None
    from spmvbench import formats
    from spmvbench.advice import training
    from spmvbench.programs.using import use

    use(programs)
    rows, about = training.rows_of(runs)
    known = rows["format"].isin(formats.keys())
    if not known.all():
        click.echo(f"left out: {', '.join(rows['format'][~known].unique())}, not known here (--program)", err=True)
        rows = rows[known]
    return training.trained(rows, about, vectors=vectors)[0]


def _parsed(label: str) -> dict[str, Any]:
    """A format's label, its key and the value of every parameter."""
    from spmvbench import formats

    ((cls, params),) = formats.parse(label)
    return {"label": label, "format": cls.key, "params": params}


def _echo(advice: Advice, what: str, dtype: str, spmvs: float, vectors: int, top: int, about: dict[str, Any]) -> None:
    click.secho(what, bold=True)
    products = "SpMVs" if vectors == 1 else f"products of {vectors} vectors"
    click.echo(
        f"Prediction for a GPU like {about['device']}, {dtype}, {spmvs:,.10g} {products} and the conversion on "
        f"the device (trained on {counted(about['matrices'], 'matrix')} of {about['families']} families)\n"
    )
    if advice.out_of_range:
        click.secho(f"Unlike all matrices of the training: {'; '.join(advice.out_of_range)}.", fg="yellow")
        click.secho(f"Use the fallback, {advice.fallback.label}: the predictions are unreliable.\n", fg="yellow")
    if (trained := about.get("vectors", 1)) != vectors:
        click.echo(f"The model was trained on products of {trained} vectors, the nearest number that has one.\n")
    if dtype != "f64":
        click.echo(f"The model was trained on f64. For {dtype}, times follow from the bytes that each format reads.\n")
    shown = advice.ranked[:top]
    shown += [e for e in dict.fromkeys((advice.vendor, advice.fallback)) if e not in shown and e in advice.ranked]
    columns = {
        "format": lambda e: e.label,
        "total": lambda e: time(e.total),
        _per(vectors): lambda e: time(e.spmv),
        "80 % interval": lambda e: f"{time(e.low)} - {time(e.high)}",
        "conversion": lambda e: time(e.conversion),
        "relative to cuSPARSE": lambda e: f"{e.total / advice.vendor.total:.2f}",
        "": lambda e: "cuSPARSE" if e == advice.vendor else "fallback" if e == advice.fallback else "",
    }
    echo_table(shown, columns, ("format", ""))
    best = advice.ranked[0]
    reasons = advice.reasons or ["no single feature decides; it is also the fastest on matrices with other features"]
    click.echo(f"\nWhy {best.label}: {'; '.join(reasons)}.")
    regret = advice.regret
    click.echo(
        f"Expected regret on unseen matrix families: {regret['mean']:.1f} % (geometric mean), "
        f"{regret['p95']:.0f} % (95th percentile), {regret['worst']:.0f} % (worst)."
    )
    if len(advice.ranked) > 1:
        click.echo(_worst_case(best, advice.ranked[1], spmvs))
    described, estimated, once = advice.seconds
    click.echo(
        f"Time for the matrix's features: {time(described)}, for the formats' footprints: {time(estimated)}, "
        f"for one SpMV on one thread of this machine: {time(once)}."
    )


def _per(vectors: int) -> str:
    return "per SpMV" if vectors == 1 else "per product"


def _worst_case(best: Expected, second: Expected, spmvs: float) -> str:
    """A sentence on the first at the upper end of its interval, compared with the prediction for the second."""
    slow = best.conversion + spmvs * best.high
    slower = 100 * (slow / (second.conversion + spmvs * second.spmv) - 1)
    if slower <= 0:
        return f"At the upper end of its interval {best.label} is no slower than {second.label}."
    return f"At the upper end of its interval {best.label} is {slower:.0f} % slower than {second.label}."


def _echo_use(
    format: str, matrix: str, dtype: str, seed: int, product: str, *, real_part: bool, deterministic: bool
) -> None:
    import json

    given = json.dumps(matrix)
    if seed or real_part:
        complex_values = "real" if real_part else "refuse"
        given = f'spmvbench.load({given}, seed={seed}, complex_values="{complex_values}")'
    more = ', dtype="float32"' if dtype == "f32" else ""
    more += ", deterministic=True" if deterministic else ""
    click.echo("\nIn Python:\nimport spmvbench")
    click.echo(f'op = spmvbench.operator({given}, format="{format}"{more})')
    click.echo(product)


def _echo_measured(rows: pd.DataFrame, vectors: int) -> None:
    (device,) = rows.loc[rows["status"] == "ok", "device_name"].unique()
    click.secho(f"\nMeasured on {device}", bold=True)
    columns = {
        "format": lambda row: row.label,
        "total": lambda row: time(row.total) if row.status == "ok" else row.status,
        _per(vectors): lambda row: time(row.t_median) if row.status == "ok" else "",
        "conversion": lambda row: time(row.made) if row.status == "ok" else "",
        "predicted total": lambda row: time(row.expected),
    }
    if rows["same_as"].any():
        columns["program"] = lambda row: row.same_as and f"= {row.same_as}"
    echo_table(rows, columns, ("format", "program"))
    for row in rows[rows["status"] != "ok"].itertuples():
        click.echo(f"{row.status}: {row.label}: {row.reason}")
