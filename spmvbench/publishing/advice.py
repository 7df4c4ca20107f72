"""Trains the model of the advice: ``python -m spmvbench.publishing advice RUN...`` writes it, a figure and a page."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench.advice import training
from spmvbench.advice.model import LARGE, SEVERAL, Model, folder, load
from spmvbench.advice.model import MEASURED as FEW
from spmvbench.analysis.products import ADVISED, products
from spmvbench.errors import percent
from spmvbench.publishing import time_to_n
from spmvbench.publishing.in_page import markdown
from spmvbench.reports.style import count_ticks, grid, legend, marks, plain_ticks, rendered, theme

ROOT = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", default="h200", show_default=True, help="Name of the model.")
@click.option(
    "--exclude-slow",
    multiple=True,
    metavar="MATRIX",
    help="Formats without a row of MATRIX were excluded as too slow; repeat for more.",
)
@click.option("--vectors", default=1, show_default=True, help="Vectors of each product; else NAME-spmmVECTORS.npz.")
def main(runs: tuple[str, ...], name: str, exclude_slow: tuple[str, ...], vectors: int) -> None:
    """Write configs/advice/NAME.npz and NAME.csv, docs/figures/NAME-advice.svg and docs/results/advice.md from runs.

    Of several vectors, the model and the page alone.
    """
    rows, about = training.rows_of(runs)
    if vectors > 1:
        rows = training.of_one_run(rows, vectors)
        model, _ = training.trained(rows, about, exclude_slow=exclude_slow, vectors=vectors)
        model.save(folder() / f"{name}{SEVERAL}{vectors}.npz")
        (ROOT / "docs" / "results" / "advice.md").write_text(page(name), encoding="utf-8")
        click.echo(_table(model))
        return
    model, evaluation = training.trained(
        training.of_one_run(rows),
        about,
        lambda family: click.echo(f"without {family}", err=True),
        more=True,
        exclude_slow=exclude_slow,
    )
    folder().mkdir(exist_ok=True)
    model.save(folder() / f"{name}.npz")
    of = evaluation.choices.groupby("chooser")
    case = ["matrix", "dtype", "spmvs"]
    choices = of.get_group("model").drop(columns="chooser")
    for column, chooser in (("advised", training.ADVISED), ("measured", training.TRIED)):
        other = of.get_group(chooser)[[*case, "format"]].rename(columns={"format": column})
        choices = choices.merge(other, on=case, validate="1:1")
    safe, vendor = (
        of.get_group(chooser).set_index(case)["regret"] + 1 for chooser in (training.FALLBACK, training.VENDOR)
    )
    choices = choices.merge((safe / vendor).rename("fallback_over_vendor"), on=case, validate="1:1")
    choices.to_csv(folder() / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    (ROOT / "docs" / "figures" / f"{name}-advice.svg").write_bytes(_figure(evaluation.choices))
    (ROOT / "docs" / "results" / "advice.md").write_text(page(name), encoding="utf-8")
    click.echo(_table(model))


def _table(model: Model) -> str:
    """The regret of all choosers as tables in Markdown."""
    found = pd.DataFrame(model.about["regret"])
    return "\n\n".join(
        f"{of[0].upper() + of[1:]} ({matrices}):\n\n{_choosers(part)}"
        for (of, matrices), part in found.groupby(["of", "matrices"], sort=False)
    )


def _choosers(found: pd.DataFrame) -> str:
    """The regret of choosers by number of SpMVs as a table in Markdown."""
    head = ["Chooser", *(f"{n:,}" for n in dict.fromkeys(found["spmvs"]))]
    rows = [
        [chooser, *(f"{x.mean:.1f} / {x.p95:.0f} / {x.worst:.0f}" for x in group.itertuples())]
        for chooser, group in found.groupby("chooser", sort=False)
    ]
    return markdown(head, rows)


def page(name: str) -> str:
    """The text of docs/results/advice.md, from the files of a model: NAME.npz and NAME.csv."""
    known, choices = load(name), pd.read_csv(folder() / f"{name}.csv")
    double = choices[choices["dtype"] == "f64"]
    about = known.about
    return f"""# What the advice is worth

```sh
{_command(known, name)}
```

This command trains the model of [`advise`](../advice.md) and writes this page, the figure and every choice
([{name}.csv](../../configs/advice/{name}.csv)). The model was trained on {about["matrices"]} matrices of
{about["families"]} families, measured on one {about["device"]} in double precision, [hot](../glossary.md#hot). A family
is a generator or a group of the collection. To evaluate the model, each family was left out once, and the formats for
its matrices were chosen by a model of all other families.

## Regret

Per cent: geometric mean / 95th percentile / worst, by the number of SpMVs. The [regret](../glossary.md#regret) is the
time of the chosen format, conversion on the device included, divided by that of the best of all measured formats, less
one. A format that cannot hold a matrix counts as ten times slower than the best.

{_table(known)}

![Regret by number of SpMVs](../figures/{name}-advice.svg)

- "Model, the best few measured" is `advise --measure`: the fastest of the best {FEW} by the model, cuSPARSE's and the
  fallback. "The best of the model's formats" knows all times of the {len(known.labels)} formats in the model.
- "The fallback" is taken for matrices that leave the range of the training. The line after it is what `advise` says.
- "Always the best single format" is the format with the least regret on the other families, for each number of SpMVs.
- "Tree of depth 4" sees the same [features](../glossary.md#feature) as the model. "Model of half the families" was
  trained on half of the other families. "Model, random split" was trained on nine tenths of the matrices, drawn at
  random, mostly with other matrices of the same family, as most papers do.

## How often the choice is the best

{_hits(double)}

The largest regrets above 1 M entries:

{_worst(double[double["nnz"] > LARGE])}

The largest regrets up to 1 M entries:

{_worst(double[double["nnz"] <= LARGE])}

Measured divided by predicted times on families that were left out, 10th to 90th percentile:

{_spreads(known)}

{_smaller(known)}

{_several(name)}## Other cards

{_elsewhere(double)}

{_products(double)}
"""


def _command(known: Model, name: str) -> str:
    runs = " ".join(f"results/published/{run}" for run in known.about["runs"])
    exclude = "".join(f" --exclude-slow {matrix}" for matrix in known.about["exclude_slow"])
    return f"python -m spmvbench.publishing advice {runs} --name {name}{exclude}"


def _several(name: str) -> str:
    """The regret of each model for several vectors, with its command; nothing without one."""
    parts = []
    for k in sorted(int(path.stem.rpartition(SEVERAL)[2]) for path in folder().glob(f"{name}{SEVERAL}*.npz")):
        known = load(name, k)
        parts.append(f"""```sh
{_command(known, name)} --vectors {k}
```

{k} vectors, {known.about["matrices"]} matrices of {known.about["families"]} families, families left out:

{_table(known)}

""")
    return "".join(["## Several vectors\n\n", *parts]) if parts else ""


def _hits(choices: pd.DataFrame) -> str:
    """How often the model's choice is the best format, or close to it, as a table in Markdown."""
    rows = []
    for spmvs, part in choices.groupby("spmvs"):
        shares = ((part["format"] == part["best"]).mean(), *((part["regret"] <= x).mean() for x in (0.05, 0.15)))
        rows.append([f"{spmvs:,}", *(percent(share).split()[0] for share in shares)])
    return markdown(("SpMVs", "Best format chosen, % of the matrices", "Within 5 % of it", "Within 15 %"), rows)


@cache
def _rows(run: str) -> pd.DataFrame:
    """The hot double-precision rows of a published run, which several parts of the page take."""
    return time_to_n.rows_of(ROOT / "results" / "published" / run)


def _elsewhere(choices: pd.DataFrame) -> str:
    """What the evaluation's choices for one card are worth on another, by published runs of all formats."""
    lines = []
    for run in (
        f"{card}-{name}"
        for name in ("headline", "applications", "advice", "real", "suitesparse")
        for card in ("h200", "h100")
    ):
        found = products(_rows(run), choices.rename(columns={"advised": "label"}))
        ours = found[found["chooser"] == ADVISED]
        regret, faster = 100 * (ours["slowdown"] - 1), ours.loc[ours["spmvs"] >= 10_000, "speedup"]
        cells = (
            f"[{run}](../../results/published/{run})",
            f"{ours['matrices'].iloc[0]}",
            f"{regret.min():.1f} to {regret.max():.1f}",
            f"{faster.min():.2f} to {faster.max():.2f}",
            percent(ours["always"].iloc[0]).split()[0],
        )
        lines.append(cells)
    heads = "Run", "Matrices", "Mean regret, %", "cuSPARSE's time over it, from 10,000 SpMVs on", "Never slower, %"
    return f"""What the evaluation chose for the H200, families left out, on both cards, in double precision:

{markdown(heads, lines)}

The regret is the geometric mean of a run's matrices, the smallest and the largest of the six numbers of SpMVs. "Never
slower" is the share of the matrices on which conversion and SpMVs take at most 1.05 times as long as cuSPARSE's CSR for
every number of SpMVs."""


def _products(choices: pd.DataFrame, run: str = "h200-applications") -> str:
    """The time of conversion and N SpMVs beside cuSPARSE's CSR on a published run, by the choices of the evaluation."""
    found = products(_rows(run), choices.rename(columns={"advised": "label"}))
    return f"""## Time to N products

The time of conversion and N SpMVs on the matrices of [{run}](../../results/published/{run}), beside that of cuSPARSE's
CSR, its preprocessing included. The numbers by N are the share of the matrices on which the time is at most 1.05 times
that of cuSPARSE, and the geometric mean of cuSPARSE's time over it. The first column is the share on which this is so
for every N. The time of choosing and of measuring is not counted. CuPy's product calls cuSPARSE anew through the host,
while SpMVs of formats are timed in a CUDA graph.

{time_to_n.markdown(found)}

![Time of conversion and N products, by the way in which the format is chosen](../figures/h200-products.svg)"""


def _smaller(known: Model) -> str:
    """The regret on matrices smaller than all of the training, as a table in Markdown."""
    found = pd.DataFrame(known.about["smaller"])
    found = found[found["chooser"].isin(["model", training.TRIED, training.FALLBACK])]
    return f"""## Matrices smaller than all of the training

A model was trained on the matrices above {LARGE:,} entries of all other families, and chose for the
{found["matrices"].iloc[0]} matrices of less than a third of that:

{_choosers(found)}"""


def _worst(choices: pd.DataFrame, most: int = 8) -> str:
    """The matrices with the largest regret, each at its worst number of SpMVs, as a table in Markdown."""
    worst = choices.sort_values("regret", ascending=False).drop_duplicates("matrix").head(most)
    rows = (
        (x.matrix.removeprefix("synthetic/"), f"{x.spmvs:,}", f"`{x.format}`", f"`{x.best}`", f"{100 * x.regret:.0f}")
        for x in worst.itertuples()
    )
    return markdown(("Matrix", "SpMVs", "Chosen", "Best", "Regret, %"), rows)


def _spreads(known: Model) -> str:
    """For each format of the model the number of its matrices and the spread of its errors, as a table in Markdown."""
    ratios = np.exp(known.errors).transpose(1, 0, 2)
    rows = (
        (f"`{label}`", f"{count}", f"{spmv[0]:.2f} - {spmv[1]:.2f}", f"{made[0]:.2f} - {made[1]:.2f}")
        for label, count, (spmv, made) in zip(known.labels, known.about["rows"], ratios, strict=True)
    )
    return markdown(("Format", "Matrices", "SpMV", "Conversion"), rows)


def _figure(choices: pd.DataFrame) -> bytes:
    """Regret of each chooser by number of SpMVs as an SVG image: geometric mean (solid), 95th percentile (dotted)."""
    choices = choices[(choices["dtype"] == "f64") & ~choices["chooser"].isin([training.FALLBACK, training.ADVISED])]
    large = choices[choices["nnz"] > LARGE]
    panels = {"All matrices": choices, "Above 1 M entries": large} if len(large) else {"All matrices": choices}
    choosers = list(dict.fromkeys(choices["chooser"]))
    shown = marks(choosers)
    with theme():
        figure, axes = grid(len(panels), 2)
        for ax, (title, part) in zip(axes, panels.items(), strict=False):
            for chooser, group in part.groupby("chooser", sort=False):
                regrets = group.groupby("spmvs")["regret"]
                mean = regrets.agg(lambda regret: np.expm1(np.log1p(regret).mean()))
                mark = shown[chooser]
                ax.plot(mean.index, 100 * mean, color=mark.color, marker=mark.marker, linestyle="-")
                ax.plot(mean.index, 100 * regrets.quantile(0.95), color=mark.color, linestyle=":")
            ax.set(title=title, xscale="log", xlabel="SpMVs", ylabel="regret, per cent")
            ax.set_yscale("log", nonpositive="mask")
            plain_ticks(ax.yaxis)
            count_ticks(ax.xaxis)
        legend(figure, shown, columns=4)
        return rendered(figure, "svg")
