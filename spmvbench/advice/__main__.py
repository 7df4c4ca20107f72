"""`python -m spmvbench.advice RUN...`: learn anew from runs, and write model, judgement, figure and page."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench.advice import training
from spmvbench.advice.model import LARGE, MEASURED, Model, folder, load
from spmvbench.matrices.features import SAMPLE

ROOT = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", default="h200", show_default=True, help="What the model is called.")
@click.option("--beyond", multiple=True, metavar="MATRIX", help="Formats without a row of it are out of reach.")
def command(runs: tuple[str, ...], name: str, beyond: tuple[str, ...]) -> None:
    """Write configs/advice/NAME.npz and NAME.csv, docs/figures/NAME-advice.svg and docs/advice.md from runs."""
    rows, about = training.rows_of(runs)
    model, judgement = training.trained(
        training.of_last_runs(rows),
        about,
        lambda family: click.echo(f"without {family}", err=True),
        more=True,
        beyond=beyond,
    )
    folder().mkdir(exist_ok=True)
    model.save(folder() / f"{name}.npz")
    choices = judgement.choices[judgement.choices["chooser"] == "model"].drop(columns="chooser")
    choices.to_csv(folder() / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    (ROOT / "docs" / "figures" / f"{name}-advice.svg").write_bytes(_figure(judgement.choices))
    (ROOT / "docs" / "advice.md").write_text(page(name), encoding="utf-8")
    click.echo(_table(model))


def _table(model: Model) -> str:
    """Losses as a table in Markdown."""
    found = pd.DataFrame(model.about["judgement"])
    lines = []
    for (of, matrices), part in found.groupby(["of", "matrices"], sort=False):
        lines += [f"\n{of[0].upper() + of[1:]} ({matrices}):\n"]
        counts = list(dict.fromkeys(part["spmvs"]))
        lines += ["| Chooser | " + " | ".join(f"{n:,}" for n in counts) + " |", "| --- " * (1 + len(counts)) + "|"]
        for chooser, own in part.groupby("chooser", sort=False):
            cells = (f"{x.mean:.1f} / {x.p95:.0f} / {x.worst:.0f}" for x in own.itertuples())
            lines.append(f"| {chooser} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(name: str) -> str:
    """docs/advice.md, from what ships of a model: its file and that of its choices."""
    known, choices = load(name), pd.read_csv(folder() / f"{name}.csv")
    about = known.about
    runs = " ".join(f"results/published/{run}" for run in about["runs"])
    beyond = "".join(f" --beyond {matrix}" for matrix in about["beyond"])
    return f"""# What the advice is worth

`spmvbench advise` learned from {about["matrices"]} matrices of {about["families"]} families on one {about["device"]},
double precision, hot. Each family (a generator, or a group of the collection) was left out once, and its matrices were
judged by a model of all others. Loss: the time of the chosen format, conversion on the device and so many SpMVs, over
that of the best of all formats measured, less one. In per cent, geometric mean / 95th percentile / worst, by the number
of SpMVs:
{_table(known)}

![Loss to the best format by number of SpMVs](figures/{name}-advice.svg)

"The best few measured" is `advise --measure`: the best {MEASURED} by the model, cuSPARSE's and the safe one are run
where the matrix will be used, which takes seconds, and the best of them is chosen. "Always the best single format" is
the one that loses least on the other families, for each number of SpMVs anew; the tree sees the same traits. A format
that cannot hold a matrix counts as ten times the best.

## Where the loss comes from

The aim is 5 % in the geometric mean and 25 % at the 95th percentile, above 1 M entries. "The best of the model's
formats" knows all times and loses what the choice of {len(known.labels)} formats costs; the rest is the regression's.
"Model of half the families" has learned from half of the other families, drawn at random: what it loses more than the
model is what the second half was worth. "Model that knows the family" has seen all other matrices, those of the same
generator or group too: what it loses less is what more families are worth to the matrices of which they are.
Above 1 M entries the most was lost on

{_worst(choices[choices["nnz"] > LARGE])}

and up to that on

{_worst(choices[choices["nnz"] <= LARGE])}

Choosing is of formats that lie close together; how well each is known is the spread of measured over predicted times
where the family was left out, 10th to 90th percentile:

{_spreads(known)}

The formats are taken one by one, so that the best of them loses least. The safe one, where a matrix is unlike all
others, is `{about["safe"]}`. Where a format has no row it is taken to differ from the others as it does in the mean;
where it was left out as out of reach (`--beyond`), to be ten times the slowest there. Of a matrix that
several runs have, the rows of the last one count.

## What it costs

Traits that a sample of the rows tells (diagonals, runs, steps, sectors of x) are taken from one of some {SAMPLE:,}
entries, those of row lengths from all row pointers: together the time of 2 to 25 SpMVs on one thread of the host, fewer
the larger the matrix. The bytes of a format are counted only where it could be among those listed, and of formats of
blocks, tiles and packed bits by the same sample. `advise` prints both times, and that of an SpMV beside them.

Every choice stands in [{name}.csv](../configs/advice/{name}.csv). This page, the model, the figure and the table are
written by

```sh
python -m spmvbench.advice {runs} --name {name}{beyond}
```
"""


def _worst(choices: pd.DataFrame, most: int = 8) -> str:
    """The matrices on which a choice lost most, each at its worst number of SpMVs."""
    worst = choices.sort_values("loss", ascending=False).drop_duplicates("matrix").head(most)
    lines = ["| Matrix | SpMVs | Chosen | Best | Loss, % |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {x.matrix.removeprefix('synthetic/')} | {x.spmvs:,} | `{x.format}` | `{x.best}` | {100 * x.loss:.0f} |"
        for x in worst.itertuples()
    ]
    return "\n".join(lines)


def _spreads(known: Model) -> str:
    """How many matrices each format of the model has rows of, and how far its times were from those predicted."""
    lines = ["| Format | Matrices | SpMV | Conversion |", "| --- | --- | --- | --- |"]
    ratios = np.exp(known.errors).transpose(1, 0, 2)
    for label, rows, (spmv, made) in zip(known.labels, known.about["rows"], ratios, strict=True):
        lines.append(f"| `{label}` | {rows} | {spmv[0]:.2f} - {spmv[1]:.2f} | {made[0]:.2f} - {made[1]:.2f} |")
    return "\n".join(lines)


def _figure(choices: pd.DataFrame) -> bytes:
    """Loss over the number of SpMVs for each chooser: geometric mean, and up to the 95th percentile."""
    from spmvbench.reports.style import count_ticks, grid, legend, marks, plain_ticks, rendered, theme

    large = choices[choices["nnz"] > LARGE]
    panels = {"All matrices": choices, "Above 1 M entries": large} if len(large) else {"All matrices": choices}
    choosers = list(dict.fromkeys(choices["chooser"]))
    shown = marks(choosers)
    with theme():
        figure, axes = grid(len(panels), 2)
        for ax, (title, part) in zip(axes, panels.items(), strict=False):
            for chooser, own in part.groupby("chooser", sort=False):
                losses = own.groupby("spmvs")["loss"]
                mean = losses.agg(lambda loss: np.expm1(np.log1p(loss).mean()))
                mark = shown[chooser]
                ax.plot(mean.index, 100 * mean, color=mark.color, marker=mark.marker, linestyle="-")
                ax.plot(mean.index, 100 * losses.quantile(0.95), color=mark.color, linestyle=":")
            ax.set(title=title, xscale="log", xlabel="SpMVs", ylabel="loss to the best format, per cent")
            ax.set_yscale("log", nonpositive="mask")
            plain_ticks(ax.yaxis)
            count_ticks(ax.xaxis)
        legend(figure, shown, columns=4)
        return rendered(figure, "svg")


if __name__ == "__main__":
    command()
