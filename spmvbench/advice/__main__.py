"""`python -m spmvbench.advice RUN...`: learn anew from runs, and write model, judgement, figure and page."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench.advice import training
from spmvbench.advice.model import Model, folder

ROOT = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", default="h200", show_default=True, help="What the model is called.")
def command(runs: tuple[str, ...], name: str) -> None:
    """Write configs/advice/NAME.npz and NAME.csv, docs/figures/NAME-advice.svg and docs/advice.md from runs."""
    rows, about = training.rows_of(runs)
    model, judgement = training.trained(rows, about, lambda family: click.echo(f"without {family}", err=True))
    folder().mkdir(exist_ok=True)
    model.save(folder() / f"{name}.npz")
    choices = judgement.choices[judgement.choices["chooser"] == "model"].drop(columns="chooser")
    choices.to_csv(folder() / f"{name}.csv", index=False, float_format="%.6g", lineterminator="\n")
    (ROOT / "docs" / "figures" / f"{name}-advice.svg").write_bytes(_figure(judgement.choices))
    (ROOT / "docs" / "advice.md").write_text(_page(model, runs, name), encoding="utf-8")
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


def _page(model: Model, runs: tuple[str, ...], name: str) -> str:
    about, formats = model.about, ", ".join(f"`{label}`" for label in model.labels)
    return f"""# What the advice is worth

`spmvbench advise` learned from {about["matrices"]} matrices of {about["families"]} families on one {about["device"]},
double precision, hot. Each family (a generator, or a group of the collection) was left out once, and its matrices were
judged by a model of all others. Loss: the time of the chosen format, conversion on the device and so many SpMVs, over
that of the best of all formats measured, less one. In per cent, geometric mean / 95th percentile / worst, by the number
of SpMVs:
{_table(model)}

![Loss to the best format by number of SpMVs](figures/{name}-advice.svg)

"Always the best single format" is the one that loses least on the other families, for each number of SpMVs anew; the
tree sees the same traits. A format that cannot hold a matrix counts as ten times the best.

The model knows {len(model.labels)} formats, taken one by one so that the best of them loses least: {formats}. The safe
one, where a matrix is unlike all others, is `{about["safe"]}`. Every choice stands in
[{name}.csv](../configs/advice/{name}.csv). This page, the model, the figure and the table are written by

```sh
python -m spmvbench.advice {" ".join(runs)} --name {name}
```
"""


def _figure(choices: pd.DataFrame) -> bytes:
    """Loss over the number of SpMVs for each chooser: geometric mean, and up to the 95th percentile."""
    from spmvbench.report.style import grid, legend, marks, plain_ticks, rendered, theme

    large = choices[choices["nnz"] > training.LARGE]
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
            ax.set(title=title, xscale="log", yscale="log", xlabel="SpMVs", ylabel="loss to the best format, per cent")
            plain_ticks(ax.yaxis)
        legend(figure, shown)
        return rendered(figure, "svg")


if __name__ == "__main__":
    command()
