"""Error rate of `run --against`: verdicts on identical builds, and on a build that does 3 % of its work twice.

On a machine with a GPU, from the root of a checkout:

    python tests/runner/ab_verdicts.py pde:60 fem:20:3 --formats 'csr-*,ell,sell*' --seconds 300 --out DIR

The slower build's CUDA graphs hold 3 % more SpMVs than they are divided by, whatever the format. Its samples are
longer, and cases with fewer than FEWEST SpMVs in one, of which 3 % are hardly a whole number, are left out. And the
pairs of identical builds are judged once more with 3 % added to the new times. DIR gets a row a verdict (identical.csv,
shifted.csv, slower.csv) and summary.txt, which is printed too.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

import click
import pandas as pd

from spmvbench.analysis import ab as analysis
from spmvbench.cli.against import PAIRS
from spmvbench.matrices import resolve
from spmvbench.measure.cases import Settings
from spmvbench.runner import plan
from spmvbench.runner.ab import HERE, PARTS, ABComparison

SAMPLE, FEWEST = 2e-3, 60
SLOWER = """

_as_it_was = Cuda.capture
Cuda.capture = lambda self, program, repeats: _as_it_was(self, program, repeats + round({share} * repeats))
"""


def planted(folder: Path, share: float) -> Path:
    """A copy of this build in which `share` of all SpMVs in a graph are run twice."""
    for part in PARTS:
        shutil.copytree(HERE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "spmvbench/devices/cuda.py", "a", encoding="utf-8") as file:
        file.write(SLOWER.format(share=share))
    return folder


def measured(
    new: Path, groups: list, pairs: int, repeats: int, sample: float, until: float, log: Path, device: str = "cuda:0"
) -> pd.DataFrame:
    """The pairs within the time limit; cases that could not be measured are printed."""
    settings = Settings(device)
    with open(log, "ab") as file, closing(ABComparison((HERE, new), settings, pairs, file)) as both:
        both.sample = sample or both.sample
        rows = []
        for row in both.measure(groups, repeats):
            if row["status"] not in ("ok", "skipped"):
                click.echo(f"{row['matrix']} {row['label']}: {row['status']}: {row['reason']}")
            rows.append(row)
            if time.monotonic() > until and row["pair"] == pairs - 1:
                break
    table = pd.DataFrame(rows, columns=[*analysis.KEY, "repeat", "pair", "first", "old", "new", "status", "reason"])
    return table[table["status"] == "ok"]


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """One row per verdict."""
    judged = [analysis.verdicts(part).assign(repeat=repeat) for repeat, part in table.groupby("repeat")]
    return pd.concat(judged or [analysis.verdicts(table).assign(repeat=[])], ignore_index=True)


def told(name: str, table: pd.DataFrame, wanted: str) -> str:
    """Number of verdicts of each kind, spread of the ratios, and width of their intervals."""
    counts = table["verdict"].value_counts()
    said = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in analysis.VERDICTS)
    share = (
        100 * table["verdict"].isin(["slower", "faster"]).mean()
        if not wanted
        else 100 * counts.get(wanted, 0) / len(table)
    )
    spread = (table["ratio"] - 1).quantile([0.005, 0.5, 0.995]) * 100
    width = ((table["high"] - table["low"]) / 2).quantile([0.5, 0.95]) * 100
    return (
        f"{name}: {len(table)} verdicts on {table[analysis.KEY].drop_duplicates().shape[0]} cases: {said}\n"
        f"  {wanted or 'false alarms'}: {share:.2f} %; ratios - 1 at 0.5, 50 and 99.5 %: "
        f"{', '.join(f'{value:+.2f} %' for value in spread)}; half widths of intervals at 50 and 95 %: "
        f"{', '.join(f'{value:.2f} %' for value in width)}"
    )


@click.command()
@click.argument("matrices", nargs=-1, required=True)
@click.option("--formats", default="all", show_default=True)
@click.option("--pairs", default=PAIRS, show_default=True)
@click.option("--repeats", default=10, show_default=True, help="Verdicts a case; of the slower build a fifth.")
@click.option("--share", default=0.03, show_default=True, help="Of the slower build's work, what it does twice.")
@click.option("--seconds", default=300.0, show_default=True, help="For all; a quarter of it for the slower build.")
@click.option("--out", required=True, type=click.Path(path_type=Path))
def main(
    matrices: tuple[str, ...],
    formats: str,
    pairs: int,
    repeats: int,
    share: float,
    seconds: float,
    out: Path,
) -> None:
    """Compare identical builds, then a slower one, and count the verdicts."""
    out.mkdir(parents=True, exist_ok=True)
    began, lines = time.monotonic(), []
    found, missing = resolve(matrices)
    if missing:
        raise click.ClickException(f"not here: {', '.join(missing)}")
    chosen = [(cls, params) for cls, params in plan.choose_formats(formats, "cuda:0") if cls.op == "spmv"]
    groups = plan.grouped(plan.cross(found, chosen, ["f64"], ["hot"], "cuda:0", 0))
    with tempfile.TemporaryDirectory() as folder:
        slower = planted(Path(folder) / "slower", share)
        log = out / "worker.log"
        same = measured(HERE, groups, pairs, repeats, 0.0, began + 0.75 * seconds, log)
        more = measured(slower, groups, pairs, max(repeats // 5, 1), SAMPLE, began + seconds, log)
    of = {
        "identical": (same, ""),
        "shifted": (same.assign(new=same["new"] * (1 + share)), "slower"),
        "slower": (more[more.groupby(analysis.KEY)["old"].transform("median") < SAMPLE / FEWEST], "slower"),
    }
    for name, (rows, wanted) in of.items():
        table = verdicts(rows)
        table.to_csv(out / f"{name}.csv", index=False, float_format="%.6g")
        lines.append(told(name, table, wanted))
    lines.append(f"{pairs} pairs a verdict; {time.monotonic() - began:.0f} s in all")
    (out / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
