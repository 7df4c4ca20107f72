"""`spmvbench run --against`: A/B comparison of this build with another one, and a verdict for each case."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import click

from spmvbench.cli.compare import CASES, INCOMPLETE, SLOWER
from spmvbench.cli.results import echo_table
from spmvbench.errors import UsageError, counted

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from spmvbench.measure.cases import Case
    from spmvbench.runner.request import RunRequest

PAIRS = 20
TABLE, METADATA = "pairs.csv", "pairs.json"  # in a run's folder


def compare_builds(
    against: str, request: RunRequest, folder: Path, cases: list[Case], pairs: int | None, *, dry_run: bool
) -> int:
    """Measure both builds, print the verdicts, store pairs and metadata in the run's folder. Returns the exit code."""
    import pandas as pd
    from tqdm import tqdm

    from spmvbench import paths
    from spmvbench.analysis import ab as analysis
    from spmvbench.rows import store
    from spmvbench.runner import ab as measuring
    from spmvbench.runner import plan
    from spmvbench.runner.session import host

    if not request.device.startswith("cuda"):
        raise UsageError("--against compares times and needs a GPU: times of the emulated device are meaningless")
    pairs = pairs or PAIRS
    count = counted(len(cases), "case")
    click.echo(f"{folder}: {count}, {counted(pairs, 'pair')} each, against {against}")
    with measuring.build_folder(against, folder.parent, lambda said: click.echo(said, err=True)) as root:
        if dry_run:
            return 0
        with store.lock(folder), store.opened_log(folder) as log:
            both = measuring.ABComparison((root, measuring.HERE), request.settings(), pairs, log)
            began = store.now()
            with closing(both), tqdm(total=len(cases), unit="case", leave=False, disable=None) as bar:
                found = []
                for row in both.measure(plan.grouped(cases)):
                    found.append(row)
                    bar.update(row["status"] != "ok" or row["pair"] == pairs - 1)
            rows = pd.DataFrame(found)
            with paths.written_whole(folder / TABLE) as file:
                file.write(rows.to_csv(index=False, lineterminator="\n").encode())
            metadata = {
                "against": against,
                "pairs": pairs,
                "started": began,
                "ended": store.now(),
                "budget": request.budget,
            }
            with paths.written_whole(folder / METADATA) as file:
                file.write(json.dumps(metadata | host() | both.facts, indent=2, default=str).encode())
    verdicts = analysis.verdicts(rows[rows["status"] == "ok"])
    _echo(verdicts, rows[rows["status"] != "ok"])
    width, sure = 100 * analysis.THRESHOLD, 100 * analysis.CONFIDENCE
    counts = verdicts["verdict"].value_counts()
    summary = [f"{counts[verdict]} {verdict}" for verdict in analysis.VERDICTS if verdict in counts]
    failed = rows[~rows["status"].isin(["ok", "skipped"])]
    summary += [f"{len(failed)} failed"] * bool(len(failed))
    click.echo(
        f"\n{count}: {', '.join(summary) or 'none was measured'}. Threshold: {width:g} %, confidence: {sure:g} %."
    )
    click.echo(f"Pairs: {folder / TABLE}")
    if len(failed) or verdicts.empty:
        return INCOMPLETE
    return SLOWER if "slower" in counts else 0


def _echo(verdicts: pd.DataFrame, others: pd.DataFrame) -> None:
    """Print a table for each verdict, the largest change first; then the cases not measured in both builds."""
    from spmvbench.analysis.ab import VERDICTS

    for verdict in VERDICTS:
        part = verdicts[verdicts["verdict"] == verdict].sort_values("ratio", ascending=verdict == "faster")
        if len(part):
            click.secho(f"\n{verdict.capitalize()}: {len(part)}", bold=True)
            red = [verdict == "slower"] * len(part)
            echo_table(part.rename(columns={"old": "t_before", "new": "t_after"}), CASES, ("matrix", "format"), red)
    if len(others):
        click.secho(f"\nNot measured in both: {len(others)}", bold=True)
    for row in others.itertuples():
        click.echo(f"  {row.label} {row.setting}: {row.matrix}: {row.status}: {row.reason}")
