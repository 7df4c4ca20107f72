"""The same run on one, two and more GPUs of a host: wall time, efficiency, where time goes, whether medians agree.

    python tests/runner/scaling.py --workers 2,1 --results OUT
    python tests/runner/scaling.py --results OUT --only-report

The whole is run once before, on as many as are asked for, so that all kernels, CuPy's too, are compiled and all memory
of the host has been had; what the folder holds already is not measured again. Writes a run for each number of workers,
`scaling.json` with all figures and `efficiency.svg` beside them. Efficiency is the time of one worker over n times that
of n: of the session's wall time, and of that less what starting its measuring processes took the slowest worker, which
is as long for one as for many.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from spmvbench.rows import store

SHARES = {  # stages of runner/driver.py by purpose; the rest is verification
    "starting": ("starting", "receiving its work", "precompiling"),
    "reading": ("reading the matrix", "computing the reference results"),
    "converting": ("converting", "moving to the device"),
    "compiling": ("compiling",),
    "measuring": ("timing",),
    "writing": ("writing rows",),
}


def share_of(stage: str) -> str:
    return next((name for name, starts in SHARES.items() if stage.startswith(starts)), "checking")


def shares(stages: dict[str, float]) -> dict[str, float]:
    """A worker's seconds by purpose."""
    seconds = dict.fromkeys([*SHARES, "checking"], 0.0)
    for stage, spent in stages.items():
        seconds[share_of(stage)] += spent
    return seconds


def measure(config: Path, workers: int, folder: Path) -> float:
    """Seconds of a run's whole command."""
    command = [sys.executable, "-m", "spmvbench", "run", "--config", str(config), "--scheduler", "local"]
    command += ["--workers", str(workers), "--results", str(folder.parent), "--run", folder.name, "--fresh"]
    began = time.monotonic()
    with open(folder.with_suffix(".txt"), "wb") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return time.monotonic() - began


def figures(folder: Path) -> dict:
    """Statistics of a run from its metadata and rows."""
    session, rows = store.environment(folder), store.load(folder)
    wall, workers = session["wall"], session["workers"]
    spent = [shares(worker["seconds"]) for worker in workers]
    seconds = {name: sum(of[name] for of in spent) for name in spent[0]}
    seconds["waiting"] = len(workers) * wall - sum(seconds.values())
    return {
        "wall": wall,
        "steady": wall - max(of["starting"] for of in spent),
        "seconds": seconds,
        "rows": len(rows),
        "statuses": rows["status"].value_counts().to_dict(),
        "workers": [{key: worker[key] for key in ("rows", "busy", "gpu", "numa_node")} for worker in workers],
    }


def ratios(folder: Path, alone: Path) -> dict:
    """Medians of every case over those of the run on one GPU: percentiles of the deviations, and by GPU."""
    key = ["group", "name", "label", "dtype", "mode"]
    rows, before = (store.load(path).query("status == 'ok'").set_index(key) for path in (folder, alone))
    ratio = (rows["t_median"] / before["t_median"]).dropna()
    off = (ratio - 1).abs()
    by_gpu = ratio.groupby(rows.loc[ratio.index, "gpu"]).median()
    found = {f"p{q}": float(np.percentile(off, q)) for q in (50, 95, 99)}
    return found | {"cases": len(ratio), "middle": float(ratio.median()), "gpus": by_gpu.to_dict()}


def report(results: Path, counts: list[int]) -> None:
    known = json.loads((results / "scaling.json").read_text()) if (results / "scaling.json").exists() else {}
    found = {n: figures(results / f"scaling-{n}") for n in sorted(counts) if (results / f"scaling-{n}").is_dir()}
    one = found.get(1)
    print("GPUs  wall s  efficiency  without starting  cases  " + "  ".join([*SHARES, "checking", "waiting"]) + " (%)")
    for n, of in found.items():
        of["command"] = known.get("command", {}).get(str(n))
        if one:
            of["efficiency"] = one["wall"] / (n * of["wall"])
            of["efficiency_steady"] = one["steady"] / (n * of["steady"])
        total = n * of["wall"]
        parts = "  ".join(f"{100 * spent / total:.1f}" for spent in of["seconds"].values())
        efficient = f"{of.get('efficiency', 0):10.3f}  {of.get('efficiency_steady', 0):16.3f}"
        print(f"{n:4}  {of['wall']:6.1f}  {efficient}  {of['rows']:5}  {parts}  {of['statuses']}")
    for n, of in found.items():
        if one and n > 1:
            of["ratios"] = ratios(results / f"scaling-{n}", results / "scaling-1")
            off = ", ".join(f"{name} {100 * of['ratios'][name]:.2f} %" for name in ("p50", "p95", "p99"))
            gpus = ", ".join(f"{ratio:.4f}" for ratio in of["ratios"]["gpus"].values())
            print(f"{n} GPUs against one, medians of {of['ratios']['cases']} cases: off by {off}; by GPU {gpus}")
    (results / "scaling.json").write_text(json.dumps(known | {"runs": found}, indent=1))
    if one:
        draw(found, results / "efficiency.svg")


def draw(found: dict[int, dict], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    counts = list(found)
    for name, text in (("efficiency", "whole session"), ("efficiency_steady", "without starting")):
        left.plot(counts, [found[n][name] for n in counts], marker="o", label=text)
    left.axhline(0.9, color="0.6", linestyle=":", linewidth=1)
    left.set(xlabel="GPUs", ylabel="efficiency", xticks=counts, ylim=(0, 1.05))
    left.legend(frameon=False)
    bottom = np.zeros(len(counts))
    for stage in next(iter(found.values()))["seconds"]:
        share = np.array([100 * found[n]["seconds"][stage] / (n * found[n]["wall"]) for n in counts])
        right.bar([str(n) for n in counts], share, bottom=bottom, label=stage)
        bottom += share
    right.set(xlabel="GPUs", ylabel="share of the GPUs' time, %")
    right.legend(frameon=False, fontsize="small", bbox_to_anchor=(1, 1), reverse=True)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default="configs/runs/scaling.toml")
    parser.add_argument("--workers", default="2,1")
    parser.add_argument("--results", type=Path, default="results")
    parser.add_argument("--only-report", action="store_true")
    args = parser.parse_args()
    counts = [int(count) for count in args.workers.split(",")]
    if not args.only_report:
        args.results.mkdir(parents=True, exist_ok=True)
        kept = args.results / "scaling.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if not known:
            warm = measure(args.config, max(counts), args.results / "warm")
            known = {"warming": warm, "command": {}}
            print(f"warmed up in {warm:.1f} s", flush=True)
        for count in counts:
            if str(count) in known["command"]:
                continue
            known["command"][str(count)] = measure(args.config, count, args.results / f"scaling-{count}")
            print(f"{count}: {known['command'][str(count)]:.1f} s", flush=True)
            kept.write_text(json.dumps(known))
    report(args.results, counts)


if __name__ == "__main__":
    main()
