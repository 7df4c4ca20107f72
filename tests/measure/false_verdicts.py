"""False verdicts on times: each format is converted once, and its time is checked several times.

    python tests/measure/false_verdicts.py --device cuda:0 --times 5 [--set h200] [--dtype f64,f32] [--seconds 500]

Prints which cases were `wrong` or `implausible` for their times, and the largest ratio of the time with a changing x to
that without. Exit code 1 where there is a false verdict.
"""

from __future__ import annotations

import secrets
import sys
import time

import click

from spmvbench import formats
from spmvbench.devices import open_device
from spmvbench.formats.conversion import Tuning, converting_for
from spmvbench.matrices import lookup, sets
from spmvbench.measure import bounds, operations, protocol, row, stages, timing
from spmvbench.measure.cases import DTYPES, Settings
from spmvbench.measure.changing_x import time_with_changing_x
from spmvbench.measure.context import Context, Task
from spmvbench.measure.device_limits import measure_limits
from spmvbench.measure.failures import Wrong
from spmvbench.measure.reading import read
from spmvbench.measure.references import References
from spmvbench.measure.results import IntegerTest
from spmvbench.runner import plan, precompile


class Silent:
    """A pipe without a reader."""

    def send(self, message: object) -> None:
        pass

    def recv(self) -> bool:
        return True

    def poll(self) -> bool:
        return True


@click.command()
@click.option("--device", "device_name", default="cuda:0", show_default=True)
@click.option("--set", "set_name", default="h200", show_default=True)
@click.option("--matrices", default="", help="Specs in place of a set, separated by blanks.")
@click.option("--formats", "specs", default="all,-ehyb*", show_default=True)
@click.option("--dtype", "dtypes", default="f64", show_default=True)
@click.option("--times", default=5, show_default=True)
@click.option("--seconds", default=500.0, help="No format is begun after these.", show_default=True)
def main(device_name: str, set_name: str, matrices: str, specs: str, dtypes: str, times: int, seconds: float) -> None:
    """Check times several times."""
    began = time.monotonic()
    device = open_device(device_name)
    settings = Settings(device.name, convert="device")
    facts = measure_limits(device, settings)
    rule = timing.RULES[device.kind].short()
    names = matrices.split() or sets.members(set_name)
    chosen = plan.choose_formats(specs, device.name, ["spmv"])
    every = plan.cross([lookup.obtain(names[0])], chosen, dtypes.split(","), ["hot"], device.name, 0, ["spmv"])
    precompile.precompile(plan.grouped(every), device.name, sys.stderr.buffer, lambda: False)
    print(f"compiled after {time.monotonic() - began:.0f} s", flush=True)
    false, judged, left, slower = [], 0, 0, (0.0, "")
    for name in names:
        matrix = lookup.obtain(name)
        for dtype in dtypes.split(","):
            ops = {"spmv": operations.get("spmv")}
            a = read(matrix, 0, False)[0].astype(DTYPES[dtype])
            shared = References.of(a, ops, device, 0, secrets.randbits(63))
            fetched = bounds.Fetched.by(shared.device_a, device.limits.multiprocessors)
            link = protocol.Link(Silent())  # type: ignore[arg-type]
            context = Context(link, device, settings, facts, rule, ops, shared, fetched, lambda s=shared: s)
            for case in plan.cross([matrix], chosen, [dtype], ["hot"], device.name, 0, ["spmv"]):
                if time.monotonic() > began + seconds:
                    left += 1
                    continue
                task = Task(0, (case,))
                what = f"{name} {dtype} {case.label}"
                try:
                    tuning = Tuning()
                    with converting_for(device.limits, tuning=tuning):
                        host = stages.convert_on_host(context, task)
                        converted = stages.convert(context, task, host, IntegerTest(True), tuning)
                    stages.decode(context, task, converted.fmt)
                    bound = stages.bind(context, task, converted, "spmv", warm=True)
                except (formats.Skip, MemoryError) as refused:
                    print(what, "skipped:", str(refused)[:80])
                    continue
                except Exception as error:
                    false.append(f"{what}: {type(error).__name__} {error}")
                    continue
                known = row.bound_columns(context, "spmv", IntegerTest(True), bound)
                for _ in range(times):
                    series = stages.prepare_series(context, task, converted.fmt, bound, case)
                    try:
                        stages.take_samples(context, task, converted.fmt, case, series)
                        changed = time_with_changing_x(context, task, converted.fmt, bound, case, series)
                    except Wrong as wrong:
                        false.append(f"{what}: {wrong}")
                        continue
                    columns = known | row.timed_columns(context, case, series, known)
                    verdict = row.implausible(context, case, columns)
                    if verdict:
                        false.append(f"{what}: {verdict.reason}")
                    judged += 1
                    slower = max(slower, (changed / columns["t_median"], what))
                del converted, bound
            print(f"{name} {dtype}: {judged} judged, {len(false)} false, {time.monotonic() - began:.0f} s", flush=True)
            del context, shared
            if device.kind == "cuda":
                device.xp.get_default_memory_pool().free_all_blocks()
    print(f"judged {judged} times; false {len(false)}; not reached {left}; {time.monotonic() - began:.0f} s")
    print(f"largest time with a changing x, of that without: {slower[0]:.3f} {slower[1]}")
    for line in false[:40]:
        print("FALSE", line[:200])
    sys.exit(bool(false))


if __name__ == "__main__":
    main()
