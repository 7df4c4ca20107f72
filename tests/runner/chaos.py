r"""A run on many workers whose processes are killed at random times: are cases lost, doubled or wrongly marked\?

    python tests/runner/chaos.py                                      # two emulated workers, a scheduler of their own
    python tests/runner/chaos.py --device cuda:0 --workers 4 --local --faults hang=2,wrong=9 --moments 12

Kills a Dask worker, the measuring process of one, the scheduler or the client with SIGKILL, starts again what is gone,
and counts at the end: rows lost (they were on disk at a kill and are not), doubled (measured again, or there twice),
cases without a row, innocent formats that did not end `ok`, faulty ones that did not get their verdict. Exits with 1
where any of these is not 0.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil

from spmvbench.rows import store

FAULTS = Path(__file__).parents[1] / "planted" / "faults.py"
VERDICTS = {"fault-hang": "timeout", "fault-fault": "crashed", "fault-wrong": "wrong", "fault-hungry": "oom"}
MARKS = {  # part of a process's command line
    "child": "spmvbench.measure.worker",
    "worker": ("distributed.cli.dask_worker", "multiprocessing.spawn"),
    "scheduler": "distributed.cli.dask_scheduler",
    "client": "spmvbench run",
}


class Cluster:
    """The scheduler and its workers, restarted when they end; with `local`, those of the client."""

    def __init__(self, workers: int, local: bool, env: dict[str, str]):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.env = env
        self.address = "local" if local else f"tcp://127.0.0.1:{port}"
        dask = [sys.executable, "-m", "distributed.cli"]
        worker = [f"{dask[2]}.dask_worker", self.address, "--nthreads", "1", "--resources", "GPU=1", "--no-nanny"]
        scheduler = [f"{dask[2]}.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
        commands = [] if local else [scheduler, *[worker] * workers]
        self.commands = [[*dask[:2], *command, "--no-dashboard"] for command in commands]
        self.processes: list[subprocess.Popen | None] = [None] * len(self.commands)

    def restart(self) -> None:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        for place, process in enumerate(self.processes):
            if process is None or process.poll() is not None:
                self.processes[place] = subprocess.Popen(self.commands[place], env=self.env, **quiet)

    def end(self) -> None:
        for process in filter(None, reversed(self.processes)):
            process.kill()
            process.wait()


def victims(kind: str) -> list[psutil.Process]:
    """This script's processes of a kind."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        marks = MARKS[kind] if isinstance(MARKS[kind], tuple) else (MARKS[kind],)
        if process.status() != psutil.STATUS_ZOMBIE and any(mark in line for mark in marks):
            found.append(process)
    return found


def on_disk(folder: Path) -> dict[str, str]:
    """The time of measurement of each case with a row."""
    try:
        rows = store.load(folder)
    except Exception:
        return {}
    return dict(zip(rows["case_id"], rows["started_at"], strict=True))


def doubled(folder: Path) -> int:
    """Rows that are twice in the merged file."""
    import pyarrow.parquet as pq

    ids = pq.read_table(folder / store.ROWS, columns=["case_id"])["case_id"].to_pylist()
    return len(ids) - len(set(ids))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--matrices", nargs="+", default=[f"tridiag:{n}" for n in range(20, 32)] + ["pde:6"])
    parser.add_argument("--formats", default="csr-scalar,csr-vector,ell,coo-flat,hyb,sell-p,hll,bsr")
    parser.add_argument("--options", default="--dtype f64,f32", help="further options of spmvbench run")
    parser.add_argument("--device", default="emulated")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--local", action="store_true", help="run --scheduler local: no scheduler to kill")
    parser.add_argument("--faults", default="", help="faulty cases of each matrix: hang=2,fault=2,wrong=9,hungry=9")
    parser.add_argument("--moments", type=int, default=30, help="processes to kill")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between kills, at most")
    parser.add_argument("--kinds", default="worker,child,scheduler,client")
    parser.add_argument("--seconds", type=float, default=1800.0, help="after which no more is killed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", default="results")
    parser.add_argument("--run", default="chaos")
    args = parser.parse_args()

    rng, deadline = random.Random(args.seed), time.monotonic() + args.seconds
    kinds = [kind for kind in args.kinds.split(",") if not (args.local and kind == "scheduler")]
    order = [kinds[place % len(kinds)] for place in range(args.moments)]
    rng.shuffle(order)
    counts = dict(kind.split("=") for kind in args.faults.split(",") if kind)
    faulty = [f"fault-{kind}[n={n}]" for kind, count in counts.items() for n in range(1, int(count) + 1)]
    env = os.environ | ({"SPMVBENCH_FORMATS": str(FAULTS)} if faulty else {})
    cluster = Cluster(args.workers, args.local, env)
    count = ["--workers", str(args.workers)] if args.local else []
    command = [
        sys.executable,
        "-m",
        "spmvbench",
        "run",
        *args.matrices,
        *shlex.split(args.options),
        "--device",
        args.device,
    ]
    command += ["--formats", ",".join([*faulty, args.formats]), "--scheduler", cluster.address, *count]
    command += ["--results", args.results]

    killed, seen = Counter(), {}  # number of each kind; rows on disk at each kill, by run
    number, failures, client, output, began = 0, 0, None, "", time.monotonic()
    lost = twice = missing = mismarked = unexpected = rows = planted = 0
    try:
        while True:  # one run after the other until all kills are done
            cluster.restart()
            if client is None:
                folder = Path(args.results) / f"{args.run}-{number}"
                log = Path(args.results) / f"{args.run}-{number}.txt"
                log.parent.mkdir(parents=True, exist_ok=True)
                with open(log, "ab") as file:
                    client = subprocess.Popen(
                        [*command, "--run", folder.name], env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file
                    )
                pause = time.monotonic() + rng.uniform(0.2, 1) * args.pause
            if client.poll() is not None:
                client, output = None, log.read_text(errors="replace")
                if "Rows: " not in output:
                    failures += 1
                    if failures > 10 + 3 * sum(killed.values()):
                        print(f"the run does not end: {output[-500:]}")
                        return 2
                    time.sleep(0.2)
                    continue
                found = store.load(folder)
                at = on_disk(folder)
                before = seen.get(folder, {})
                lost += sum(case not in at for case in before)
                twice += sum(at.get(case, when) != when for case, when in before.items()) + doubled(folder)
                labels = len(faulty) + len(args.formats.split(","))
                types = found["dtype"].nunique()
                missing += len(args.matrices) * labels * types - len(found)
                faulty_rows = found["format"].isin(list(VERDICTS))
                mismarked += int((~found["status"].isin(["ok", "skipped"]) & ~faulty_rows).sum())
                unexpected += int((found["format"].map(VERDICTS) != found["status"])[faulty_rows].sum())
                rows, planted = rows + len(found), planted + int(faulty_rows.sum())
                for row in found[~found["status"].isin(["ok", "skipped"]) & ~faulty_rows].itertuples():
                    print(f"mismarked: {row.name} {row.label} {row.dtype}: {row.status}: {row.reason}", flush=True)
                number += 1
                if not order or time.monotonic() > deadline:
                    break
                continue
            if order and time.monotonic() > pause and time.monotonic() < deadline:
                there = victims(order[-1])
                if there and (before := on_disk(folder)) is not None:
                    seen.setdefault(folder, {}).update(before)
                    victim = rng.choice(there)
                    victim.kill()
                    killed[order.pop()] += 1
                pause = time.monotonic() + rng.uniform(0.1, 1) * args.pause
            time.sleep(0.05)
    finally:
        if client is not None:
            client.kill()
            client.wait()
        cluster.end()
    kills = ", ".join(f"{count} {kind}" for kind, count in sorted(killed.items()))
    print(f"SIGKILL {sum(killed.values())} times ({kills}) over {number} runs, {time.monotonic() - began:.0f} s")
    print(f"rows {rows}, of them of faulty formats {planted}")
    print(
        f"lost {lost}, doubled {twice}, without a row {missing}, correct formats marked {mismarked}, "
        f"faults with another status {unexpected}"
    )
    return int(bool(lost or twice or missing or mismarked or unexpected))


if __name__ == "__main__":
    sys.exit(main())
