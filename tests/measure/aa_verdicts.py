"""False alarms of `compare` and of `run --against`: verdicts on a build against itself, on a GPU.

From the root of a checkout:

    python -m tests.measure.aa_verdicts pde:60 fem:20:3 --formats 'csr-*,ell' --verdicts 1000 --seconds 500 --out DIR

`run --against`: pairs of the build with itself, as tests/runner/ab_verdicts.py measures them. `compare`: the same cases
in several invocations, each compared with the one before it. DIR gets against.csv, compare.csv, the runs aa-0, aa-1
and so on, and summary.txt, which is printed. A second call adds to them. The rate has its 95 % interval (Clopper and
Pearson 1934), as if verdicts were independent; those on one case are not quite.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import click
import pandas as pd
from scipy.special import betaincinv

from spmvbench.analysis import compare
from spmvbench.cli.against import PAIRS
from spmvbench.cli.report import rows_of
from spmvbench.matrices import resolve
from spmvbench.measure.timing import median_interval
from spmvbench.rows import store
from spmvbench.runner import plan
from spmvbench.runner.ab import HERE
from tests.runner.ab_verdicts import measured, verdicts

ALARMS = ("slower", "faster")


def interval(alarms: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of the rate of false alarms."""
    tail = (1 - confidence) / 2
    low = float(betaincinv(alarms, of - alarms + 1, tail)) if alarms else 0.0
    high = float(betaincinv(alarms + 1, of - alarms, 1 - tail)) if alarms < of else 1.0
    return low, high


def told(name: str, table: pd.DataFrame) -> str:
    """Number of verdicts, of false alarms, and their rate with its interval."""
    judged = table[table["verdict"].isin(compare.VERDICTS)]
    if judged.empty:
        return f"{name}: no verdict"
    alarms = int(judged["verdict"].isin(ALARMS).sum())
    low, high = interval(alarms, len(judged))
    counts = judged["verdict"].value_counts()
    kinds = ", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in compare.VERDICTS)
    spread = judged["ratio"].sub(1).abs().quantile([0.5, 0.95, 0.99]) * 100
    return (
        f"{name}: {len(judged)} verdicts: {kinds}; false alarms {100 * alarms / len(judged):.2f} % "
        f"(95 %: {100 * low:.2f} to {100 * high:.2f} %); |ratio - 1| at 50, 95 and 99 %: "
        f"{', '.join(f'{value:.2f} %' for value in spread)}"
    )


def compared(runs: list[Path]) -> pd.DataFrame:
    """The verdicts of `spmvbench compare` on each run and the one before it."""
    tables = [compare.with_session(rows_of(run), store.environment(run)["sessions"]) for run in runs]
    pairs = [
        compare.compared(before, after, median_interval).assign(runs=f"{at} {at + 1}")
        for at, (before, after) in enumerate(itertools.pairwise(tables))
    ]
    return pd.concat(pairs, ignore_index=True) if pairs else pd.DataFrame(columns=["verdict", "ratio"])


@click.command()
@click.argument("matrices", nargs=-1, required=True)
@click.option("--formats", default="csr-*,ell,sell*", show_default=True)
@click.option("--verdicts", "wanted", default=1000, show_default=True, help="Of each procedure, if time allows.")
@click.option("--pairs", default=PAIRS, show_default=True, help="Of `run --against`, a verdict.")
@click.option("--budget", default=0.04, show_default=True, help="Of a case of `run`, seconds.")
@click.option("--seconds", default=500.0, show_default=True, help="For both, half of it each.")
@click.option("--out", required=True, type=click.Path(path_type=Path))
def main(
    matrices: tuple[str, ...], formats: str, wanted: int, pairs: int, budget: float, seconds: float, out: Path
) -> None:
    """Count false alarms on one build."""
    out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    found, missing = resolve(matrices)
    if missing:
        raise click.ClickException(f"not here: {', '.join(missing)}")
    chosen = [(cls, params) for cls, params in plan.choose_formats(formats, "cuda:0") if cls.op == "spmv"]
    cases = plan.cross(found, chosen, ["f64"], ["hot"], "cuda:0", 0)
    runs: list[Path] = []
    for at in range(1 + -(-wanted // len(cases))):
        folder = out / f"aa-{at}"
        known = (folder / store.ROWS).exists()
        if not known and time.monotonic() > began + seconds / 2:
            break
        command = [sys.executable, "-m", "spmvbench", "run", *matrices, "--formats", formats, "--op", "spmv"]
        command += ["--dtype", "f64", "--mode", "hot", "--convert", "device", "--budget", str(budget)]
        command += ["--device", "cuda:0", "--results", str(out), "--run", folder.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not (folder / store.ROWS).exists():
            raise click.ClickException(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "no rows")
        runs.append(folder)
    table = compared(runs)
    table.to_csv(out / "compare.csv", index=False, float_format="%.6g")
    lines = [told("compare", table)]
    same = measured(
        HERE, plan.grouped(cases), pairs, -(-wanted // len(cases)), 0.0, began + seconds, out / "worker.log"
    )
    judged = verdicts(same)
    if (earlier := out / "against.csv").exists():
        judged = pd.concat([pd.read_csv(earlier), judged], ignore_index=True)
    judged.to_csv(out / "against.csv", index=False, float_format="%.6g")
    lines += [told("run --against", judged), f"{time.monotonic() - began:.0f} s in all"]
    (out / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    click.echo("\n".join(lines))


if __name__ == "__main__":
    main()
