"""Trains what `auto` chooses by: ``python -m spmvbench.publishing auto RUN...`` writes configs/auto.npz and a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
import numpy as np
import pandas as pd

from spmvbench import formats
from spmvbench.advice import quick, training
from spmvbench.advice.model import ABOVE, LARGE, SPMVS, UP_TO
from spmvbench.advice.training import WORST, Table
from spmvbench.analysis.coverage import geometric_mean
from spmvbench.publishing.in_page import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "results" / "auto.md"
CANDIDATES = 32
TREES, LEAF, SHARE = 5, 8, 0.9  # of the forest, as `training.grown` takes them
MEASURED = 3  # weight of a matrix that was measured in the forest; one between two of them has 1
TEACHING = 60, 40, 3  # trees, pair_trees and pair_leaf of the model that it learns from
MIXED = 4500  # matrices between two of the training
LONGER = 3000  # matrices of these with fewer and longer rows
ALIKE = 400  # cases in a leaf of the tree of the sizes, whose mean has to know matrices with long rows
FAR, RARE = 3.0, 0.1  # the tree learns logarithms, and RARE times the square of what they have over FAR's
TUNED = {"csr-am", "csr-gg", "ell-warp-k2", "hec", "sell"}  # conversions that time products

NAMED = "`auto[spmvs=N]`"
DEFAULT = "`auto`"
WITHIN = "the best of its candidates"
LOOKED = "the best of its candidates, looking always"
UNSEEN = "by the sizes alone"
WHATEVER = "of these the best for all N, on average"  # knows all times: no way of choosing without N does better
ONE = "always `csr-lanes`"
VENDOR = "always cuSPARSE"


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--looking", default=3e-5, show_default=True, help="Seconds that finding the numbers takes.")
@click.option("--comparing", default=2e-5, show_default=True, help="Seconds that the comparisons take.")
@click.option("--sizes", default=2e-6, show_default=True, help="Seconds that the tree of the sizes takes.")
def main(runs: tuple[str, ...], looking: float, comparing: float, sizes: float) -> None:
    """Write configs/auto.npz and docs/results/auto.md from runs of one or more GPUs; it learns from the first one."""
    rows = training.rows_of(runs)[0]
    parts = rows.groupby("device_name", sort=False)
    tables = {str(gpu): training.table(training.of_one_run(part)) for gpu, part in parts}
    learned, known = next(iter(tables.items()))
    lines = []
    looked = sizes + looking + comparing
    for family in sorted(set().union(*(table.family for table in tables.values()))):
        click.echo(f"without {family}", err=True)
        found = trained(of_families(known, known.family != family), looked, sizes)
        for gpu, table in tables.items():
            if (table.family == family).any():
                out = of_families(table, table.family == family)
                lines += [{"gpu": gpu, **line} for line in regrets(found, out, looked, sizes)]
    found = trained(known, looked, sizes)
    names = [Path(run).name for run in runs]
    found.about.update(runs=names, gpu=learned, looking=looking, comparing=comparing, sizes=sizes)
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


def trained(table: Table, looked: float, unseen: float) -> quick.Chooser:
    """The tree and the forest of a table.

    The advice's model, which compares each format with each matrix, learns much more from a hundred matrices than a
    forest that has an output for each format, but takes a thousand times as long. So the forest is its student: it
    learns what the model predicts (Hinton et al., arXiv:1503.02531), also for matrices that are between two of the
    training: their numbers, and the bytes and bounds of their formats, are geometric means of both with random weights.
    Some of all these have as many entries in fewer and longer rows besides: what long rows cost is known anywhere.
    The tree learns from the same predictions what each format costs where the sizes alone are known, and what the
    forest's choice costs. For a number of products that is not known, both learn the mean logarithms over SPMVS.

    looked, unseen: seconds that a choice takes by the forest, the numbers included, and by the tree.
    """
    from sklearn.tree import DecisionTreeRegressor

    labels = candidates(table)
    every = [*labels, table.vendor]
    numbers = [quick.Numbers.of_row(row) for row in table.columns.to_dict("records")]
    x = np.array([one.features(1)[1:] for one in numbers])
    model = training.fitted(table, every, x, *TEACHING)
    sizes, bounds = (np.log(part[every]).to_numpy() for part in (table.size, table.bound))
    whole = np.hstack([x, *(np.add(*training.additive(part)) for part in (sizes, bounds))])
    random = np.random.default_rng(0)
    one, other = random.integers(len(whole), size=(2, MIXED))
    whole = np.vstack([whole, whole[one] + random.random((MIXED, 1)) / 2 * (whole[other] - whole[one])])
    some = random.integers(len(whole), size=LONGER)
    times = random.random(LONGER) * (whole[some, 0] - whole[some, quick.LONGEST - 1]).clip(0)  # in powers of two
    fewer = np.zeros((LONGER, whole.shape[1] + 1))
    fewer[:, quick.ROWS], fewer[:, quick.PER_ROW] = -times, times[:, None]
    whole = np.vstack([whole, whole[some] + fewer[:, 1:]])
    x, sizes, bounds = np.split(whole, [x.shape[1], x.shape[1] + len(every)], axis=1)
    nnz = 2 ** x[:, 0]
    spmv, conversion = (
        part[:, :-1] for part in model.predicted_of(x, nnz, 2 ** x[:, quick.LONGEST - 1], np.exp(sizes), np.exp(bounds))
    )
    for predicted, measured in ((spmv, table.spmv), (conversion, table.conversion)):
        times = measured[labels].to_numpy()
        np.copyto(predicted[: len(times)], times, where=~np.isnan(times))
    products = [*np.log2(SPMVS), quick.UNKNOWN]
    cases = np.vstack([np.column_stack([np.full(len(x), each), x]) for each in products])
    in_table = np.tile(np.arange(len(x)) < len(numbers), len(products))
    total = np.stack([conversion + spmvs * spmv for spmvs in SPMVS])
    best = total.min(axis=2, keepdims=True)
    slowdown = np.log((total / best).clip(max=WORST))
    weights = np.where(in_table, MEASURED, 1.0)
    forest = training.grown(cases, np.vstack([*slowdown, slowdown.mean(axis=0)]), weights, TREES, LEAF, SHARE)

    def costs(chosen: np.ndarray) -> np.ndarray:
        """Of every format by the sizes alone, and of the formats that the forest chooses: (SPMVS, matrices, K + 1)."""
        looking = np.take_along_axis(total, chosen, axis=2) + looked
        logs: np.ndarray = np.log(np.concatenate([total + unseen, looking], axis=2) / best)
        return logs

    # Not up to WORST: where rows may be long and nothing tells, one format in a hundred cases takes a thousand times as
    # long.
    chosen = forest(cases).argmin(axis=1).reshape(len(products), -1, 1)
    slower = np.vstack([*costs(chosen[:-1]), costs(chosen[-1:]).mean(axis=0)])
    slower += RARE * (slower - np.log(FAR)).clip(min=0) ** 2
    # Those that were measured weigh as much as those between them.
    weights = np.where(in_table, MIXED / len(numbers), 1.0)
    sizes_known = DecisionTreeRegressor(min_samples_leaf=ALIKE, random_state=0)
    tree = training.flattened([sizes_known.fit(cases[:, : quick.SIZES], slower, weights)])
    nodes = len(forest.feature)
    value = np.vstack([np.pad(forest.value, [(0, 0), (0, 1)]), tree.value])

    def both(name: str, shift: int = 0) -> np.ndarray:
        return np.concatenate([getattr(forest, name), getattr(tree, name) + shift])

    return quick.Chooser(
        tuple(labels),
        both("feature").astype(np.int8),
        both("threshold").astype(np.float32),
        both("left", nodes),
        both("right", nodes),
        (value * quick.STEPS).round().clip(max=np.iinfo(np.uint16).max).astype(np.uint16),
        both("roots", nodes),
        {"matrices": len(table.columns), "families": int(table.family.nunique())},
    )


def regrets(found: quick.Chooser, out: Table, looked: float, unseen: float) -> Iterator[dict[str, object]]:
    """A line for each matrix, number of products and way of choosing: the format and its slowdown, choosing included.

    looked, unseen: as for `trained`.
    """
    by_spmvs = {spmvs: (slowdowns(out, list(out.spmv), spmvs), out.total(spmvs).min(axis=1)) for spmvs in SPMVS}
    for matrix, columns in out.columns.iterrows():
        if out.spmv.loc[matrix].reindex(found.labels).isna().all():
            continue  # a run was stopped there
        numbers = quick.Numbers.of_row(columns)
        logs = [np.log(every.loc[matrix].reindex(found.labels).fillna(WORST)) for every, _ in by_spmvs.values()]
        whatever = str(sum(logs).idxmin())
        for spmvs, (every, best) in by_spmvs.items():
            slowdown = every.loc[matrix]

            def first(ranked: Iterable[str], of: pd.Series = slowdown) -> str:
                return str(of.reindex(list(ranked)).first_valid_index())

            choices = {}
            for chooser, asked in ((NAMED, spmvs), (DEFAULT, 0)):
                features = numbers.features(asked)
                looks, sizes_say = found.by_sizes(features)
                choices[chooser] = (first(found.ranked(features)), looked) if looks else (first(sizes_say), unseen)
            within = slowdown.reindex(found.labels).idxmin()
            choices |= {
                UNSEEN: (first(found.by_sizes(numbers.features(spmvs))[1]), unseen),
                LOOKED: (within, looked),
                WITHIN: (within, 0.0),
                WHATEVER: (whatever, 0.0),
                ONE: ("csr-lanes", 0.0),
                VENDOR: (out.vendor, 0.0),
            }
            for chooser, (label, seconds) in choices.items():
                extra = seconds / best[matrix]
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
    options = " ".join(f"--{name} {found.about[name]:g}" for name in ("looking", "comparing", "sizes"))
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
python -m spmvbench.publishing auto {runs} {options}
```

This command trains the tree and the forest by which `auto` chooses, and writes this page. The forest compares numbers
of the matrix that one kernel finds in its row pointers and in a sample of its rows. The tree compares rows, columns,
entries and the number of products alone. It names a format, or leaves the choice to the forest where the numbers save
more time than finding them takes. Both were trained on {found.about["matrices"]} matrices of {found.about["families"]}
families in double precision, [hot](../glossary.md#hot), with the times of one GPU, {found.about["gpu"]}: they are the
students of a [model](../advice.md) that compares each format with each matrix. For the tables, each family was left out
once, and the formats for its matrices were chosen by a tree and a forest of all other families. On another GPU, the
tables have what the same choices are worth there.

## Regret

Per cent: geometric mean / 95th percentile / worst, by the number of SpMVs. The [regret](../glossary.md#regret) is the
time of conversion and SpMVs divided by that of the best of all measured formats, less one. The lines of `auto` include
choosing as the options of the command have it, which these rows do not measure: {1e6 * found.about["sizes"]:.0f} us for
the tree, {1e6 * found.about["comparing"]:.0f} us for the forest and {1e6 * found.about["looking"]:.0f} us for the
numbers of the matrix.
The line "{LOOKED}" has what remains if all times are known, but only after
the numbers are found; "{UNSEEN}" has the tree without the forest. `auto` without `spmvs` chooses what is
predicted to be the least slow on average, over all N of the table. No such choice suits every N: the line
"{WHATEVER}" has the least that one format for a matrix loses, if all times are known.

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
