"""Trains the model of the advice: ``python -m spmvbench.publishing.advice RUN...`` writes it, a figure and a page."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench.advice import choosing, training
from spmvbench.advice.model import ABOVE, LARGE, UP_TO, Model, folder, load
from spmvbench.advice.model import MEASURED as FEW
from spmvbench.analysis.breakeven import ready
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.products import ADVISED, CUPY, HOST_CALLED, MEASURED, products
from spmvbench.analysis.ranking import VENDORS
from spmvbench.matrices.features import SAMPLE
from spmvbench.publishing import time_to_n

ROOT = Path(__file__).resolve().parents[2]
AUTO_COST = 40  # SpMVs of cuSPARSE that choosing and converting may take
ALWAYS_CHOSEN = "auto[spmvs=1000000]"  # its products take longer than a choice on every matrix of applications


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", default="h200", show_default=True, help="Name of the model.")
@click.option(
    "--exclude-slow",
    multiple=True,
    metavar="MATRIX",
    help="Formats without a row of MATRIX were excluded as too slow; repeat for more.",
)
def command(runs: tuple[str, ...], name: str, exclude_slow: tuple[str, ...]) -> None:
    """Write configs/advice/NAME.npz and NAME.csv, docs/figures/NAME-advice.svg and docs/advice.md from runs."""
    rows, about = training.rows_of(runs)
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
    (ROOT / "docs" / "advice.md").write_text(page(name), encoding="utf-8")
    click.echo(_table(model))


def _table(model: Model) -> str:
    """The regret of all choosers as tables in Markdown."""
    found = pd.DataFrame(model.about["regret"])
    lines = []
    for (of, matrices), part in found.groupby(["of", "matrices"], sort=False):
        lines += [f"\n{of[0].upper() + of[1:]} ({matrices}):\n"]
        lines += _choosers(part)
    return "\n".join(lines)


def _choosers(found: pd.DataFrame) -> list[str]:
    """The regret of choosers by number of SpMVs as the lines of a table in Markdown."""
    counts = list(dict.fromkeys(found["spmvs"]))
    lines = ["| Chooser | " + " | ".join(f"{n:,}" for n in counts) + " |", "| --- " * (1 + len(counts)) + "|"]
    for chooser, group in found.groupby("chooser", sort=False):
        cells = (f"{x.mean:.1f} / {x.p95:.0f} / {x.worst:.0f}" for x in group.itertuples())
        lines.append(f"| {chooser} | " + " | ".join(cells) + " |")
    return lines


def page(name: str) -> str:
    """The text of docs/advice.md, from the files of a model: NAME.npz and NAME.csv."""
    known, choices = load(name), pd.read_csv(folder() / f"{name}.csv")
    double = choices[choices["dtype"] == "f64"]
    about = known.about
    runs = " ".join(f"results/published/{run}" for run in about["runs"])
    exclude = "".join(f" --exclude-slow {matrix}" for matrix in about["exclude_slow"])
    return f"""# What the advice is worth

`spmvbench advise` was trained on {about["matrices"]} matrices of {about["families"]} families, measured on one
{about["device"]} in double precision, [hot](glossary.md#hot). A family is a generator or a group of the collection.
To evaluate the model, each family was left out once, and the formats for its matrices were chosen by a model of all
other families.

The tables show the [regret](glossary.md#regret): time of the chosen format, divided by that of the best of all
measured formats, less one. The time is that of the conversion on the device and of so many SpMVs. The numbers are
per cent: geometric mean / 95th percentile / worst, by the number of SpMVs.
{_table(known)}

![Regret by number of SpMVs](figures/{name}-advice.svg)

- "Model, the best few measured" is `advise --measure`. It measures the best {FEW} formats by the model,
  cuSPARSE's and the [fallback](glossary.md#fallback) on the target machine, which takes seconds, and takes the
  fastest of them.
- "The best of the model's formats" knows all times of the {len(known.labels)} formats in the model.
- "The fallback" is taken for matrices that leave the
  [range of the training](#matrices-smaller-than-all-of-the-training): the one of {_fallbacks(known)}
  that is predicted to take the least time, conversion included. The line after it is what `advise` says.
- "Always the best single format" is the format with the least regret on the other families, for each number of SpMVs.
- "Tree of depth 4" sees the same [features](glossary.md#feature) as the model.
- "Model of half the families" was trained on half of the other families, drawn at random.
- "Model, random split" was trained on nine tenths of the matrices, drawn at random, mostly with other matrices of the
  same family. Most papers split so; their figures compare with this line.

A format that cannot hold a matrix counts as ten times slower than the best.

## What the model sees

The time of an SpMV is predicted as a multiple of its lower [bound](glossary.md#bound). A forest of randomized trees
predicts the mean over all formats from the features of the matrix. A second forest predicts how far each format is from
this mean. It sees the features, the bytes per entry that the format reads, these bytes relative to CSR, the bound per
byte, and numbers that describe how the format did in the training. It learns from all formats at once, so a matrix of
blocks shows in the bytes of each block format. Formats near the best weigh more. The prediction is the mean of the
trees plus half their standard deviation: of two formats with the same mean, the surer one is advised. A third forest
predicts conversions.

{_hits(double)}

## Where the regret comes from

What was aimed at, and the least and the largest regret over the six numbers of SpMVs:

{_aims(known)}

The aims in the geometric mean and at the 95th percentile are missed at most numbers of SpMVs.
{_slower(double)} What bounds them:

- The regret of "the best of the model's formats" is due to the restriction to {len(known.labels)} formats. With the
  best few measured it is most of what is left from 10,000 SpMVs on.
- The rest is due to the regression, whose errors are as large as the differences between good formats, as the last
  table of this section shows. Another random seed alone changed the mean regret of an earlier model from 6.4 to 7.3 %.
- The worst cases are single matrices, in the tables below: a model without their family does not see what is best.
- For one and ten SpMVs the fallback loses where the model would not: it is for matrices outside of the training's
  range, and their number is too small to say more.
- Formats that store fewer values than the matrix has, and the authors' kernels, are not among the formats: no feature
  tells whether values repeat.

The difference between "model of half the families" and "model" shows the value of the second half of the families. The
difference between "model" and "model, random split" shows the value of more matrices of a family for that
family.

Changes that were tried with an earlier model of 24 formats and 84 matrices, families left out, and their regret in per
cent (geometric mean over the matrices and the six numbers of SpMVs):

| Change | Above 1 M entries | Up to 1 M entries |
| --- | --- | --- |
| none: 24 formats | 6.4 | 10.3 |
| another random seed | 7.3 | 11.1 |
| 12 formats | 8.9 | 13.7 |
| 32 formats, the other seed | 6.8 | 12.0 |
| 40 formats, the other seed | 7.8 | 10.8 |
| forests for matrices up to and above 1 M entries, the others' rows weigh 0.3 | 7.5 | 12.8 |
| the same, without the others' rows | 7.5 | 21.4 |
| differences from the best format in place of those from the mean | 10.7 | 11.4 |
| pairs of formats in place of single ones | 8.9 | 19.9 |
| the mean of both | 6.6 | 11.1 |
| the bytes of six formats as features of the matrix | 7.1 | 11.6 |
| the trees of three random seeds together | 7.0 | 11.2 |
| the same, without the half standard deviation | 6.7 | 10.9 |
| the same, predicted conversions with half a standard deviation | 7.0 | 10.8 |
| the mean of five random seeds, each alone | 6.9 | 11.2 |
| the same, trained on rows of more formats for seven of the matrices | 6.5 | 10.4 |
| the same, trained on 49 more matrices of five papers' runs, mostly stand-ins, in 8 to 16 formats | 6.9 | 11.5 |

`csr-bins` in addition, the best single format up to 1 M entries, lost about 1 % less there and 2 to 3 % more above.
Gaussian processes, gradient boosting and one forest for each format lost more than this model. Five formats to measure
that were chosen to differ, by the least expected minimum over the trees, were no better than the five first. Nor was it
better to correct the other formats' predictions by each measured time and to measure the next best: 2.1 % above 1 M
entries and 2.1 % up to that, in place of 2.0 and 2.1 %. With 40 formats and eight measured, the regret of these is 1.0
to 2.0 % above 1 M entries from 10 SpMVs on. What helps is more families: half of them are worth the difference between
the lines of the table above.

Models of 98 matrices, mean of two random seeds, what `advise` says:

| Formats of the model | Above 1 M entries | Up to 1 M entries | The best of the model's formats, above 1 M entries |
| --- | --- | --- | --- |
| 16 | 11.4 | 11.2 | 4.9 |
| 24 | 10.3 | 10.9 | 2.2 |
| 32 | 10.3 | 10.4 | 1.3 |
| 40 | 10.0 | 11.0 | 1.1 |

Without `bcsr-choi`, `bcsr-kblas` and `bellpack`, whose [footprint](glossary.md#footprint) takes as long to compute as
their conversion, 32 formats have 10.3, 10.7 and 1.5, and with these two seeds 38 and 36 of the 38 matrices of
applications take at most 1.05 times the time of cuSPARSE's CSR at every number of SpMVs. The model has learned from 39
small real matrices beside them since.

The last two lines of the first table are judged on the same matrices, formats and times as the others. With more
formats on seven matrices the regret of what `advise` says fell from 7.4 to 7.0 % above 1 M entries and was 9.9 and
10.0 % up to that; with the best few measured it stayed within 0.1 %. That is less than what seeds differ by: the model
was not changed.

What `advise` says was improved by a wider [range](#matrices-smaller-than-all-of-the-training): half of a feature's
range beyond its ends in place of a tenth. Five matrices got the fallback, not ten. The mean regret fell from 9.3 to
6.9 % above 1 M entries, and the largest regrets stayed the same. Up to 1 M entries nothing changed.

The largest regrets above 1 M entries:

{_worst(double[double["nnz"] > LARGE])}

The largest regrets up to 1 M entries:

{_worst(double[double["nnz"] <= LARGE])}

Errors of the predictions are as large as the differences between good formats. This table shows measured divided by
predicted times on families that were left out, 10th to 90th percentile:

{_spreads(known)}

The formats of the model were chosen greedily, one by one, so that the best of them has the least regret. If a format
has no row for a matrix, its time is filled in by its mean difference from the other formats. If it was
[excluded as too slow](glossary.md#excluded-as-too-slow) (`--exclude-slow`), its time is ten times that of the slowest
format there. If several runs have a matrix, the rows of the run with most formats count.

{_smaller(known)}

## Single precision

The same model predicts single precision: it sees the bytes that each format then reads. Its regret is in the table
"Single precision", on {about["single"]} matrices. It was not trained on their rows: a model of both precisions had
nearly twice the regret of this one in single precision, and more in double precision. {about["single"]} matrices
are too few.

## Other GPUs

`--device-like auto` takes the model of the GPU at hand, if there is one. `h100` is the model of the H200 for an H100
with an SXM socket: bounds on data beyond L2 are multiplied by 4.8 / 3.35, the ratio of the bandwidths in the data
sheets, and its memory limits the formats. All else is as on the H200, conversions too. On PCIe cards, on other GPUs and
without a GPU, a model must be named.

{_elsewhere(double)}

{_auto(known, double)}

{_products(double)}

## Cost of the advice

Features that a sample of the rows gives (diagonals, runs, steps, sectors of x) are computed from a sample of about
{SAMPLE:,} entries, and row lengths from all row pointers. Together this takes as long as 2 to 25 SpMVs on one thread
of the host, fewer for larger matrices. The footprint of every format in the model is computed,
which takes longer. For formats of blocks, tiles and packed bits it is computed from the same sample. `advise`
prints both times, and that of an SpMV on the host.

Every choice is in [{name}.csv](../configs/advice/{name}.csv). This page, the model, the figure and the table were
written by

```sh
python -m spmvbench.publishing.advice {runs} --name {name}{exclude}
```
"""


def _aims(known: Model) -> str:
    """The regret that was aimed at, and its range over the numbers of SpMVs, as a table in Markdown."""
    found = pd.DataFrame(known.about["regret"])
    aims = {"model": ("5", "25"), training.ADVISED: ("5", "25"), training.TRIED: ("1", "5")}
    lines = ["| Chooser | Regret, % | Aim | Above 1 M entries | Up to 1 M entries |", "| --- " * 5 + "|"]
    for chooser, (mean, p95) in aims.items():
        of = found[found["chooser"] == chooser].groupby("of")
        for column, words, aim, digits in (
            ("mean", "geometric mean", mean, 1),
            ("p95", "95th percentile", p95, 0),
            ("worst", "worst", "below 100", 0),
        ):
            least, most = of[column].min(), of[column].max()
            cells = (f"{least.get(part, 0):.{digits}f} to {most.get(part, 0):.{digits}f}" for part in (ABOVE, UP_TO))
            lines.append(f"| {chooser} | {words} | {aim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _hits(choices: pd.DataFrame) -> str:
    """How often the model's choice is the best format, or close to it, as a table in Markdown."""
    lines = ["| SpMVs | Best format chosen, % of the matrices | Within 5 % of it | Within 15 % |", "| --- " * 4 + "|"]
    for spmvs, part in choices.groupby("spmvs"):
        shares = ((part["format"] == part["best"]).mean(), *((part["regret"] <= x).mean() for x in (0.05, 0.15)))
        lines.append(f"| {spmvs:,} | " + " | ".join(f"{100 * share:.0f}" for share in shares) + " |")
    return "\n".join(lines)


def _auto(known: Model, choices: pd.DataFrame, run: str = "h200-applications") -> str:
    """What the choices of the evaluation come to as the format `auto`, on the applications of a published run."""
    rows = _rows(run)
    table = training.table(rows)
    named = pd.read_csv(ROOT / "configs" / "sets" / "applications.csv")["spec"]
    matrices = [matrix for spec in named if (matrix := f"synthetic/{spec}") in table.spmv.index]
    table = table.of(matrices)
    spmv, costs = table.spmv, table.conversion.div(table.spmv[table.vendor], axis=0)
    best = spmv.min(axis=1)
    measured = rows[rows["label"] == ALWAYS_CHOSEN].set_index("matrix").loc[matrices]
    then = measured["detail"].map(lambda text: json.loads(text)["chosen"].partition(":")[0])
    choosing_seconds = ready(measured) - _at(table.conversion, then)
    plain = table.columns.apply(lambda row: choosing.plain_label(row["row_len_max"], row["row_len_mean"]), axis=1)
    heads = "Choice", "In CSR", "Within 5 %", "Within 15 %", "Conversion", "All", "All, always chosen"
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]

    def line(name: str, stays: str, label: pd.Series, *totals: str) -> str:
        slowdown, cost = _at(spmv, label) / best, _at(costs, label)
        near = [f"{100 * (slowdown <= x).mean():.0f} %" for x in (1.05, 1.15)]
        cells = name, stays, *near, f"{cost.median():.0f} median, {cost.quantile(0.95):.0f} at p95", *totals
        return f"| {' | '.join(cells)} |"

    for spmvs in (100, 1_000, 10_000, 1_000_000):
        advised = choices[choices["spmvs"] == spmvs].set_index("matrix").loc[matrices, "advised"]
        least = table.size["csr-lanes"].map(partial(choosing.seconds_at_least, known, spmvs=spmvs))
        asks = least >= choosing.WORTH_CHOOSING
        total = table.total(spmvs)
        chosen = advised.where(asks, plain)
        times = _at(total, chosen) + choosing_seconds.where(asks, 0.0), _at(total, advised) + choosing_seconds
        means = (f"{geometric_mean(time / total.min(axis=1)):.2f}" for time in times)
        lines.append(line(f"`auto[spmvs={spmvs}]`", f"{100 * (1 - asks.mean()):.0f} %", chosen, *means))
    cheapest = spmv.where(costs <= AUTO_COST).idxmin(axis=1)
    lines.append(line(f"best format whose conversion takes at most {AUTO_COST}", "", cheapest, "", ""))
    return f"""## The format `auto`

The format `auto` chooses by this model while it converts, for `spmvs` products. If these take less than
{1e3 * choosing.WORTH_CHOOSING:.0f} ms, a choice would take longer than it saves, and the matrix stays in CSR: as
`csr-lanes`, or as `hola` if it has long rows. These are the choices of the evaluation on the {len(matrices)} matrices
of the set applications that [{run}](../results/published/{run}) has, with the times of its
rows. Some formats of the model are no candidates of `auto`.

"Within" is the share of the matrices on which an SpMV alone takes at most so much longer than in the best format.
Conversions are in SpMVs of cuSPARSE. "All" is the time of `spmvs` products, of converting, and of choosing, divided by
that of the best format with its conversion (geometric mean). Choosing takes as long as it took in that run for
`{ALWAYS_CHOSEN}`, whose products take longer than that on every matrix. The last column is what "All" would be if
`auto` chose for any number of products:

{chr(10).join(lines)}

The aim is 60 % within 5 %, 90 % within 15 %, and at most {AUTO_COST} SpMVs for choosing and converting. The last line
knows all times: it shows how little room these three leave together."""


@cache
def _rows(run: str) -> pd.DataFrame:
    """The hot double-precision rows of a published run, which several parts of the page take."""
    return time_to_n.rows_of(ROOT / "results" / "published" / run)


def _at(table: pd.DataFrame, labels: pd.Series) -> pd.Series:
    """The number of each matrix for its label."""
    return pd.Series([table.at[pair] for pair in labels.items()], labels.index)


def _elsewhere(choices: pd.DataFrame) -> str:
    """What the evaluation's choices for one card are worth on another, by published runs of all formats."""
    lines = ["| Run | Matrices | Mean regret, % | cuSPARSE's time over it, from 10,000 SpMVs on | Never slower, % |"]
    lines += ["| --- " * 5 + "|"]
    for run in (
        f"{card}-{name}"
        for name in ("headline", "applications", "advice", "real", "suitesparse")
        for card in ("h200", "h100")
    ):
        rows = _rows(run)
        found = products(rows, choices.rename(columns={"advised": "label"}))
        ours = found[found["chooser"] == ADVISED]
        regret, faster = 100 * (ours["slowdown"] - 1), ours.loc[ours["spmvs"] >= 10_000, "speedup"]
        cells = (
            f"[{run}](../results/published/{run})",
            f"{ours['matrices'].iloc[0]}",
            f"{regret.min():.1f} to {regret.max():.1f}",
            f"{faster.min():.2f} to {faster.max():.2f}",
            f"{100 * ours['always'].iloc[0]:.0f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return f"""What the evaluation chose for the H200, families left out, on both cards, in double precision:

{chr(10).join(lines)}

The regret is the geometric mean of a run's matrices, the smallest and the largest of the six numbers of SpMVs. "Never
slower" is the share of the matrices on which conversion and SpMVs take at most 1.05 times as long as cuSPARSE's CSR for
every number of SpMVs. Among the best are formats that store fewer values than the matrix has, which the model does not
know."""


def _fallbacks(known: Model) -> str:
    """The labels of the fallbacks as an enumeration."""
    *others, last = (f"`{label}`" for label in known.about["fallbacks"])
    return f"{', '.join(others)} and {last}"


def _slower(choices: pd.DataFrame) -> str:
    """How often and by how much the fallback takes longer than cuSPARSE, in a sentence or two."""
    often = choices[choices["spmvs"] >= 100].groupby("spmvs")["fallback_over_vendor"]
    counts = often.apply(lambda ratio: int((ratio > 1.05).sum()))
    low, high, of, most = counts.min(), counts.max(), choices["matrix"].nunique(), often.max().max()
    return f"""The fallback was to be never slower than cuSPARSE: it never is by its predictions. As measured it was
slower by more than 5 % on {low} to {high} of the {of} matrices from 100 SpMVs on, at most {most:.2f} times."""


def _products(choices: pd.DataFrame, run: str = "h200-applications") -> str:
    """The time of conversion and N SpMVs beside cuSPARSE's CSR on a published run, by the choices of the evaluation."""
    rows = _rows(run)
    found = products(rows, choices.rename(columns={"advised": "label"}))
    ours = found[found["chooser"] == ADVISED].iloc[0]
    share, matrices = float(ours["always"]), int(ours["matrices"])
    return f"""## Time to N products

The time of conversion and N SpMVs on the {matrices} matrices of [{run}](../results/published/{run}),
beside that of cuSPARSE's CSR, its preprocessing included. The numbers by N are the share of the matrices on which the
time is at most 1.05 times that of cuSPARSE, and the geometric mean of cuSPARSE's time over it. The first column is the
share on which this is so for every N. "{ADVISED}" and "{MEASURED}" are what `advise` and `advise --measure` say in
the evaluation, families left out. The time of choosing and of measuring is not counted:

{time_to_n.markdown(found)}

The aim is 95 % of the matrices for any N, and a factor of 1.5 from N = 10,000 on. The share of the advised format is
{100 * share:.1f} % for every N at once: {round(share * matrices)} of {matrices} matrices.

{_cupys(rows, run)}"""


def _cupys(rows: pd.DataFrame, run: str) -> str:
    """What CuPy's product takes on the matrices that have a row of it."""
    rows = rows[rows["status"] == "ok"]
    grid = rows.pivot(index="matrix", columns="label", values="t_median")[[HOST_CALLED, VENDORS[0]]].dropna()
    least, median, most = 1e6 * grid[HOST_CALLED].quantile([0, 0.5, 1])
    longer = (grid[HOST_CALLED] / grid[VENDORS[0]]).quantile([0, 0.5, 1]).tolist()
    return f"""`{CUPY}` is CuPy's default, on {len(grid)} of these matrices, by the rows of
[{run}](../results/published/{run}). It calls cuSPARSE anew through the host, while SpMVs of formats are timed in a
CUDA graph. A call takes {least:.0f} to {most:.0f} microseconds, {median:.0f} in the median: {longer[0]:.1f} to
{longer[2]:.0f} times as long as a product in cuSPARSE's CSR, {longer[1]:.1f} in the median."""


def _smaller(known: Model) -> str:
    """The regret on matrices smaller than all of the training, as a table in Markdown."""
    found = pd.DataFrame(known.about["smaller"])
    found = found[found["chooser"].isin(["model", training.TRIED, training.FALLBACK])]
    return f"""## Matrices smaller than all of the training

A matrix that leaves the range of a feature by more than half of that range gets the fallback. Fewer entries or rows
than in the training are an exception. For this table a model was trained on the matrices above {LARGE:,} entries of all
other families, and chose for the {found["matrices"].iloc[0]} matrices of less than a third of that:

{chr(10).join(_choosers(found))}"""


def _worst(choices: pd.DataFrame, most: int = 8) -> str:
    """The matrices with the largest regret, each at its worst number of SpMVs, as a table in Markdown."""
    worst = choices.sort_values("regret", ascending=False).drop_duplicates("matrix").head(most)
    lines = ["| Matrix | SpMVs | Chosen | Best | Regret, % |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| {x.matrix.removeprefix('synthetic/')} | {x.spmvs:,} | `{x.format}` | `{x.best}` | {100 * x.regret:.0f} |"
        for x in worst.itertuples()
    ]
    return "\n".join(lines)


def _spreads(known: Model) -> str:
    """For each format of the model the number of its matrices and the spread of its errors, as a table in Markdown."""
    lines = ["| Format | Matrices | SpMV | Conversion |", "| --- | --- | --- | --- |"]
    ratios = np.exp(known.errors).transpose(1, 0, 2)
    for label, rows, (spmv, made) in zip(known.labels, known.about["rows"], ratios, strict=True):
        lines.append(f"| `{label}` | {rows} | {spmv[0]:.2f} - {spmv[1]:.2f} | {made[0]:.2f} - {made[1]:.2f} |")
    return "\n".join(lines)


def _figure(choices: pd.DataFrame) -> bytes:
    """Regret of each chooser by number of SpMVs as an SVG image: geometric mean (solid), 95th percentile (dotted)."""
    from spmvbench.reports.style import count_ticks, grid, legend, marks, plain_ticks, rendered, theme

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


if __name__ == "__main__":
    command()
