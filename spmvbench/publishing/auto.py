"""Trains what `auto` chooses by: ``python -m spmvbench.publishing auto RUN...`` writes configs/auto.npz and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench import formats
from spmvbench.advice import quick, training
from spmvbench.advice.auto import Auto
from spmvbench.advice.model import ABOVE, LARGE, SPMVS, UP_TO
from spmvbench.advice.training import WORST, Table
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.publishing.in_page import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "auto.md"
CANDIDATES = 32
TREES, LEAF, SHARE = 10, 8, 0.9  # of the forest, as `training.grown` takes them
TEACHING_TREES, TEACHING_PAIR_TREES = 60, 40  # of the model that it learns from
MIXED = 1500  # matrices between two of the training
LARGEST = 30.0  # slowdown that counts in the training, and that of a format that cannot hold a matrix
TUNED = {"csr-am", "csr-gg", "ell-warp-k2", "hec", "sell"}  # conversions that time products

NAMED = "`auto[spmvs=N]`"
DEFAULT = "`auto`"
WITHIN = "the best of its candidates"
WHATEVER = "of these the best for all N, on average"  # knows all times: no way of choosing without N does better
ONE = "always `csr-lanes`"
VENDOR = "always cuSPARSE"


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--looking", default=3e-5, show_default=True, help="Seconds that finding the numbers takes.")
@click.option("--comparing", default=2e-5, show_default=True, help="Seconds that the comparisons take.")
def main(runs: tuple[str, ...], looking: float, comparing: float) -> None:
    """Write configs/auto.npz and docs/results/auto.md from runs of one or more GPUs."""
    rows = training.rows_of(runs)[0]
    tables = {str(gpu): training.table(training.of_one_run(part)) for gpu, part in rows.groupby("device_name")}
    known = list(tables.values())
    lines = []
    for family in sorted(set().union(*(table.family for table in known))):
        click.echo(f"without {family}", err=True)
        found = trained([of_families(table, table.family != family) for table in known])
        for gpu, table in tables.items():
            if (table.family == family).any():
                out = of_families(table, table.family == family)
                lines += [{"gpu": gpu, **line} for line in regrets(found, out, looking, comparing)]
    found = trained(known)
    found.about.update(runs=[Path(run).name for run in runs], looking=looking, comparing=comparing)
    found.save(quick.path())
    PAGE.write_text(page(found, pd.DataFrame(lines)), encoding="utf-8")


def of_families(table: Table, which: pd.Series) -> Table:
    """The table of the matrices that a mask names."""
    return table.of(list(table.family.index[which]))


def candidates(table: Table) -> list[str]:
    """The formats of a table that `auto` may choose: none of a library, none whose conversion times products."""

    def able(label: str) -> bool:
        ((cls, _),) = formats.parse(label)
        return "emulated" in cls.devices and cls.key not in TUNED and not cls.square_only

    best = training.portfolio(table, CANDIDATES + 1, {label for label in table.spmv if able(label)})
    return [label for label in best if label != table.vendor]


def slowdowns(table: Table, labels: Sequence[str], spmvs: float) -> pd.DataFrame:
    """Time of conversion and products over that of the best of all formats, (matrices, labels)."""
    total = table.total(spmvs)
    return total.reindex(columns=labels).div(total.min(axis=1), axis=0)


def trained(known: Sequence[Table]) -> quick.Chooser:
    """The forest of these tables, with the candidates of the first.

    The advice's model, which compares each format with each matrix, learns much more from a hundred matrices than a
    forest that has an output for each format, but takes a thousand times as long. So the forest is its student: it
    learns what the model predicts (Hinton et al., arXiv:1503.02531), also for matrices that are between two of the
    training: their numbers, and the bytes and bounds of their formats, are geometric means of both with random weights.
    """
    table, labels = training.stacked(known), candidates(known[0])
    every = [*labels, table.vendor]
    numbers = [quick.Numbers.of_row(row) for row in table.columns.to_dict("records")]
    x = np.array(
        [[*quick.of_sizes(one.rows, one.cols, one.nnz, 1)[1 : quick.SIZES], *one.described()] for one in numbers]
    )
    model = training.fitted(table, every, x, TEACHING_TREES, TEACHING_PAIR_TREES)
    sizes, bounds = (np.log(part[every]).to_numpy() for part in (table.size, table.bound))
    whole = np.hstack([x, *(np.add(*training.additive(part)) for part in (sizes, bounds))])
    random = np.random.default_rng(0)
    one, other = random.integers(len(whole), size=(2, MIXED))
    whole = np.vstack([whole, whole[one] + random.random((MIXED, 1)) / 2 * (whole[other] - whole[one])])
    x, sizes, bounds = np.split(whole, [x.shape[1], x.shape[1] + len(every)], axis=1)
    nnz = 2 ** x[:, 0]
    spmv, conversion = (part[:, :-1] for part in model.predicted_of(x, nnz, np.exp(sizes), np.exp(bounds)))
    cases, slower = [], []
    for spmvs in SPMVS:
        case = np.column_stack([np.full(len(x), np.log2(spmvs)), x])
        case[[not quick.is_worth_looking(n, spmvs) for n in nnz], quick.SIZES :] = quick.UNKNOWN
        total = conversion + spmvs * spmv
        cases.append(case)
        slower.append(np.log((total / total.min(axis=1, keepdims=True)).clip(max=LARGEST)))
    forest = training.grown(np.vstack(cases), np.vstack(slower), None, TREES, LEAF, SHARE)
    return quick.Chooser(
        tuple(labels),
        forest.feature.astype(np.int8),
        forest.threshold.astype(np.float32),
        forest.left,
        forest.right,
        (forest.value * quick.STEPS).round().astype(np.uint8),
        forest.roots,
        {"matrices": len(known[0].columns), "families": int(known[0].family.nunique())},
    )


def regrets(found: quick.Chooser, out: Table, looking: float, comparing: float) -> Iterator[dict[str, object]]:
    """A line for each matrix, number of products and way of choosing: the format and its slowdown, choosing included.

    looking, comparing: seconds that `auto` takes to find the numbers of a matrix, if it does, and for the forest.
    """
    default = Auto.resolve({})["spmvs"]
    by_spmvs = {spmvs: (slowdowns(out, list(out.spmv), spmvs), out.total(spmvs).min(axis=1)) for spmvs in SPMVS}
    for matrix, columns in out.columns.iterrows():
        if out.spmv.loc[matrix].reindex(found.labels).isna().all():
            continue  # a run was stopped there
        numbers = quick.Numbers.of_row(columns)
        logs = [np.log(every.loc[matrix].reindex(found.labels).fillna(WORST)) for every, _ in by_spmvs.values()]
        whatever = str(sum(logs).idxmin())
        for spmvs, (every, best) in by_spmvs.items():
            slowdown = every.loc[matrix]
            choices = {}
            for chooser, asked in ((NAMED, spmvs), (DEFAULT, default)):
                ranked = found.ranked(numbers.features(asked))
                seconds = comparing + (looking if quick.is_worth_looking(numbers.nnz, asked) else 0)
                able = slowdown.reindex(ranked).dropna()
                choices[chooser] = able.index[0], seconds / best[matrix]
            within = slowdown.reindex(found.labels).idxmin()
            choices |= {
                WITHIN: (within, 0.0),
                WHATEVER: (whatever, 0.0),
                ONE: ("csr-lanes", 0.0),
                VENDOR: (out.vendor, 0.0),
            }
            for chooser, (label, extra) in choices.items():
                yield {
                    "matrix": matrix,
                    "nnz": numbers.nnz,
                    "spmvs": spmvs,
                    "chooser": chooser,
                    "format": label,
                    "best": slowdown.idxmin(),
                    "choosing": 100 * extra,
                    "slowdown": np.nan_to_num(slowdown[label], nan=WORST) + extra,
                }


def page(found: quick.Chooser, lines: pd.DataFrame) -> str:
    """The text of docs/results/auto.md."""
    runs = " ".join(f"results/published/{run}" for run in found.about["runs"])
    default = Auto.resolve({})["spmvs"]
    parts = []
    for gpu, of_gpu in lines.groupby("gpu", sort=False):
        large = of_gpu["nnz"] > LARGE
        for name, part in {"all": of_gpu, ABOVE: of_gpu[large], UP_TO: of_gpu[~large]}.items():
            parts.append(f"{gpu}, {name} ({part['matrix'].nunique()}):\n\n{_choosers(part)}")
    worst = lines[lines["chooser"] == NAMED].sort_values("slowdown", ascending=False).drop_duplicates("matrix").head(12)
    named = (
        (
            x.matrix.removeprefix("synthetic/"),
            f"{x.spmvs:,}",
            f"`{x.format}`",
            f"`{x.best}`",
            f"{100 * (x.slowdown - 1):.0f}",
            f"{x.choosing:.0f}",
        )
        for x in worst.itertuples()
    )
    tables = "\n\n".join(parts)
    return f"""# What the format `auto` is worth

```sh
python -m spmvbench.publishing auto {runs} --looking {found.about["looking"]:g} --comparing {found.about["comparing"]:g}
```

This command trains the forest by which `auto` chooses, and writes this page. The forest compares numbers of the matrix
that one kernel finds in its row pointers and in a sample of its rows. It was trained on {found.about["matrices"]}
matrices of {found.about["families"]} families in double precision, [hot](../glossary.md#hot), with the times of each
GPU: it is the student of a [model](../advice.md) that compares each format with each matrix. For the tables, each
family was left out once, and the formats for its matrices were chosen by a forest of all other families.

## Regret

Per cent: geometric mean / 95th percentile / worst, by the number of SpMVs. The [regret](../glossary.md#regret) is the
time of conversion and SpMVs divided by that of the best of all measured formats, less one. The lines of `auto` include
choosing as the options of the command have it, which these rows do not measure: {1e6 * found.about["comparing"]:.0f} us
for the comparisons and {1e6 * found.about["looking"]:.0f} us for the numbers of the matrix. With up to
{quick.FEW_ENTRIES:,} entries and {quick.FEW_SPMVS} products, `auto` goes by rows, columns and entries alone.
`auto` without `spmvs` chooses for {default:g} products, whatever N is. No such choice suits every N: the
line "{WHATEVER}" has the least that one format for a matrix loses, if all times are known.

{tables}

The largest regrets of {NAMED}, each at its worst number of SpMVs, and what of them choosing takes:

{markdown(("Matrix", "SpMVs", "Chosen", "Best", "Regret, %", "Choosing, %"), named)}
"""


def _choosers(lines: pd.DataFrame) -> str:
    """The regret of ways of choosing by number of SpMVs as a table in Markdown."""
    rows = []
    for chooser, part in lines.groupby("chooser", sort=False):
        of = part.groupby("spmvs")["slowdown"]
        found = (100 * (x - 1) for x in (of.agg(geometric_mean), of.quantile(0.95), of.max()))
        cells = (f"{mean:.1f} / {p95:.0f} / {worst:.0f}" for mean, p95, worst in zip(*found, strict=True))
        rows.append([str(chooser), *cells])
    return markdown(["Choice", *(f"{n:,}" for n in SPMVS)], rows)
