"""False alarms of `compare` and of `run --against`, and slower builds that are missed: verdicts on a GPU.

From the root of a checkout:

    python -m tests.measure.aa_verdicts pde:60 fem:20:3 --formats 'csr-*,ell' --verdicts 1000 --seconds 85 --out DIR

`compare`: the same cases in several invocations, each compared with the one before it. `run --against`: pairs of the
build with itself; with `--slower 0.03`, pairs with a build whose CUDA graphs hold 3 % more SpMVs than they are divided
by, in cases with at least FEWEST SpMVs a sample. DIR gets the runs aa-0, aa-1 and so on, compare.csv,
against.csv, and summary.txt, which is printed. The same command goes on, also on another GPU, until either procedure
has its verdicts. `--of DIR1 --of DIR2` measures nothing and counts the verdicts of these folders together, one for each
card; the runs of each are compared with those of the next card too, if there are any. A case that ran another program
of the same sources is counted apart: the format had tuned itself otherwise, and the difference is none of the
procedure. The rate of false alarms has its 95 % interval (Clopper and Pearson 1934), as if verdicts were independent;
those on one case are not quite.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click
import pandas as pd
import scipy  # whose stats take a second to import: those who use them do

from spmvbench.analysis import ab, compare
from spmvbench.cli.against import PAIRS
from spmvbench.cli.report import rows_of
from spmvbench.matrices import resolve
from spmvbench.measure.cases import Case, Settings
from spmvbench.measure.timing import median_interval
from spmvbench.publishing.measure import run_until
from spmvbench.rows import store
from spmvbench.runner import plan
from spmvbench.runner.ab import HERE, PARTS, ABComparison

ALARMS = ("slower", "faster")
CASE = ab.KEY[:2]  # matrix and label
GRACE = 3.0  # seconds in which the case in progress may end
SAMPLE, FEWEST = 2e-3, 60  # of the slower build: seconds, SpMVs
SLOWER = """

_as_it_was = Cuda.capture
Cuda.capture = lambda self, program, repeats: _as_it_was(self, program, repeats + round({share} * repeats))
"""


def told(name: str, table: pd.DataFrame) -> str:
    """Number of verdicts, of false alarms, and their rate with its interval."""
    judged = table[table["verdict"].isin(compare.VERDICTS)]
    if judged.empty:
        return f"{name}: no verdict" + (f", {len(table)} cases without times of a GPU" if len(table) else "")
    alarms = int(judged["verdict"].isin(ALARMS).sum())
    low, high = scipy.stats.binomtest(alarms, len(judged)).proportion_ci(0.95, "exact")
    counts = judged["verdict"].value_counts()
    kinds = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in compare.VERDICTS)
    return (
        f"{name}: {len(judged)} verdicts on {len(judged.drop_duplicates(CASE))} cases: {kinds}; "
        f"false alarms {100 * alarms / len(judged):.2f} % "
        f"(95 %: {100 * low:.2f} to {100 * high:.2f} %); |ratio - 1| at 50, 95 and 99 %: {spread(judged)}"
    )


def spread(table: pd.DataFrame) -> str:
    """Deviation of the ratios from 1: its median, and its 95th and 99th percentile."""
    found = table["ratio"].sub(1).abs().quantile([0.5, 0.95, 0.99]) * 100
    return ", ".join(f"{value:.2f} %" for value in found)


def compared(runs: Sequence[Path]) -> pd.DataFrame:
    """The verdicts of `spmvbench compare` on each run and the one before it; whether both used one card."""
    tables = [compare.with_session(rows_of(run), store.environment(run)["sessions"]) for run in runs]
    cards = [set(table.loc[table["status"] == "ok", "gpu"]) for table in tables]
    pairs = [
        compare.compared(before, after, median_interval).assign(runs=f"{at} {at + 1}", one_card=len(used) == 1)
        for at, ((before, after), used) in enumerate(
            zip(itertools.pairwise(tables), map(set.union, cards, cards[1:]), strict=True)
        )
    ]
    return joined([pd.DataFrame(columns=[*CASE, "verdict", "ratio", "one_card"]), *pairs])


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All rows; of tables without rows only the columns, if all are: their columns have no type."""
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def spreads(table: pd.DataFrame) -> list[str]:
    """Lines on the spread between invocations: on one card, between two cards, and of the formats with the largest."""
    table = table[table["verdict"].isin(compare.VERDICTS)]
    if table.empty:
        return []
    lines = [
        f"  {'on one card' if one_card else 'between two cards'}, {len(part)} cases: {spread(part)}"
        for one_card, part in table.groupby("one_card")
    ]
    if (tuned := table["other_program"]).any():
        lines.append(told("  the same program", table[~tuned]))
        lines.append(told(f"  another program ({', '.join(sorted(set(table.loc[tuned, 'label'])))})", table[tuned]))
    by_format = table.assign(off=table["ratio"].sub(1).abs() * 100).groupby("label")["off"].quantile(0.95)
    largest = ", ".join(f"{label} {value:.1f} %" for label, value in by_format.nlargest(5).items())
    return [*lines, f"  95th percentile by format, the largest: {largest}"]


def over_cards(folders: Sequence[Path]) -> pd.DataFrame:
    """The verdicts of `compare` in the folders of several cards, and between the runs of one and of the next."""
    runs = [sorted(path.parent for path in folder.glob(f"aa-*/{store.ROWS}")) for folder in folders]
    between = [pair for each, other in itertools.pairwise(runs) for pair in zip(each, other, strict=False)]
    return joined([compared(pair) for pair in (*runs, *between)])


def planted(folder: Path, share: float) -> Path:
    """A copy of this build in which `share` of all SpMVs in a graph are run twice."""
    for part in PARTS:
        shutil.copytree(HERE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "spmvbench/devices/cuda.py", "a", encoding="utf-8") as file:
        file.write(SLOWER.format(share=share))
    return folder


def measured(
    new: Path, groups: list, pairs: int, until: float, log: Path, device: str, sample: float = 0.0
) -> pd.DataFrame:
    """The pairs of two builds within the time limit; cases that could not be measured are printed."""
    with open(log, "ab") as file, closing(ABComparison((HERE, new), Settings(device), pairs, file)) as both:
        both.sample = sample or both.sample
        rows = []
        for row in both.measure(groups):
            if row["status"] not in ("ok", "skipped"):
                click.echo(f"{row['matrix']} {row['label']}: {row['status']}: {row['reason']}")
            rows.append(row)
            if time.monotonic() > until and row["pair"] == pairs - 1:
                break
    table = pd.DataFrame(rows, columns=[*ab.KEY, "pair", "first", "old", "new", "status", "reason"])
    return table[table["status"] == "ok"]


def found_slower(cases: Sequence[Case], share: float, pairs: int, until: float, out: Path, device: str) -> str:
    """How often a build that does `share` of its work twice is called slower; slower.csv has the verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        build = planted(Path(folder) / "slower", share)
        table = measured(build, plan.grouped(cases), pairs, until, out / "worker.log", device, SAMPLE)
    table = table[table.groupby(ab.KEY)["old"].transform("median") < SAMPLE / FEWEST]
    judged = ab.verdicts(table)
    judged.to_csv(out / "slower.csv", index=False, float_format="%.6g")
    return f"{100 * share:g} % slower: found in {(judged['verdict'] == 'slower').sum()} of {len(judged)} cases"


def rest(cases: Sequence[Case], judged: pd.DataFrame) -> list[Case]:
    """Those cases that have the fewest verdicts, so that a part of the time serves all cases alike."""
    had = judged.groupby(CASE).size()
    counts = [int(had.get((case.matrix.id, case.label), 0)) for case in cases]
    return [case for case, count in zip(cases, counts, strict=True) if count == min(counts)]


def measure_runs(words: Sequence[str], cases: int, wanted: int, until: float, out: Path) -> list[Path]:
    """The runs of `compare`, complete or not, that are there when the time is over; each of the same `cases` cases."""
    runs: list[Path] = []
    for at in range(1 + -(-wanted // cases)):
        folder = out / f"aa-{at}"
        done = len(store.load(folder)) if (folder / store.ROWS).exists() else 0
        if done < cases and time.monotonic() < until - GRACE:
            with open(out / "run.log", "ab") as log:
                run_until([*words, "--results", str(out), "--run", folder.name], until - GRACE, until, log)
        if not (folder / store.ROWS).exists():
            break
        runs.append(folder)
    return runs


@click.command()
@click.argument("matrices", nargs=-1)
@click.option("--formats", default="csr-*,ell,sell*", show_default=True)
@click.option("--verdicts", "wanted", default=1000, show_default=True, help="Of each procedure, if time allows.")
@click.option("--pairs", default=PAIRS, show_default=True, help="Of `run --against`, a verdict.")
@click.option("--budget", default=0.04, show_default=True, help="Of a case of `run`, seconds.")
@click.option("--seconds", default=85.0, show_default=True, help="For both; `compare` takes the share below.")
@click.option("--share", default=0.5, show_default=True, help="Of the time, for `compare`; 1: only that, 0: none.")
@click.option("--device", default="cuda:0", show_default=True)
@click.option("--slower", default=0.0, help="Share of its work that another build does twice; 0: none.")
@click.option("--of", "folders", multiple=True, type=click.Path(path_type=Path), help="Measure nothing; see above.")
@click.option("--out", required=True, type=click.Path(path_type=Path))
def main(
    matrices: tuple[str, ...],
    formats: str,
    wanted: int,
    pairs: int,
    budget: float,
    seconds: float,
    share: float,
    device: str,
    slower: float,
    folders: tuple[Path, ...],
    out: Path,
) -> None:
    """Count false alarms on one build."""
    out.mkdir(parents=True, exist_ok=True)
    if folders:
        table = over_cards(folders)
        table.to_csv(out / "compare.csv", index=False, float_format="%.6g")
        lines = [told("compare", table), *spreads(table)]
        if pairs_of := [pd.read_csv(file) for folder in folders if (file := folder / "against.csv").exists()]:
            judged = joined(pairs_of)
            judged.to_csv(out / "against.csv", index=False, float_format="%.6g")
            lines.append(told("run --against", judged))
        click.echo("\n".join(lines))
        return
    if not matrices:
        raise click.UsageError("name matrices, or folders by --of")
    began = time.monotonic()
    found, missing = resolve(matrices)
    if missing:
        raise click.ClickException(f"not here: {', '.join(missing)}")
    chosen = [(cls, params) for cls, params in plan.choose_formats(formats, device) if cls.op == "spmv"]
    cases = plan.cross(found, chosen, ["f64"], ["hot"], device, 0)
    words = [*matrices, "--formats", formats, "--op", "spmv", "--dtype", "f64", "--mode", "hot", "--device", device]
    words += ["--budget", str(budget), *(["--convert", "device"] if device.startswith("cuda") else [])]
    runs = measure_runs(words, len(cases), wanted, began + share * seconds, out)
    if share and not runs:
        raise click.ClickException(f"no run has rows; see {out / 'run.log'}")
    table = compared(runs)
    table.to_csv(out / "compare.csv", index=False, float_format="%.6g")
    lines = [told("compare", table), *spreads(table)]
    against = out / "against.csv"
    judged = pd.read_csv(against) if against.exists() else pd.DataFrame(columns=[*ab.KEY, "verdict", "ratio"])
    until = began + seconds - GRACE
    while cases and len(judged) < wanted and time.monotonic() < until:
        few = rest(cases, judged)
        new = ab.verdicts(measured(HERE, plan.grouped(few), pairs, until, out / "worker.log", device))
        joined([judged, new]).to_csv(against, index=False, float_format="%.6g")
        judged = pd.read_csv(against)  # what is told is of the digits that are kept, as when the command goes on
        had = set(new[CASE].itertuples(index=False, name=None))
        cases = [case for case in cases if case not in few or (case.matrix.id, case.label) in had]
    lines.append(told("run --against", judged))
    if slower:
        every = plan.cross(found, chosen, ["f64"], ["hot"], device, 0)
        lines.append(found_slower(every, slower, pairs, time.monotonic() + seconds, out, device))
    lines += [f"{time.monotonic() - began:.0f} s in all"]
    (out / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
