"""Device limits that are measured before the first case of an invocation, or known of an earlier one."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import paths
from spmvbench.devices import Device, Throttling
from spmvbench.formats import Launch, kernels
from spmvbench.formats.arrays import LINE_BYTES, Array, cdiv
from spmvbench.matrices import cache
from spmvbench.measure import timing
from spmvbench.measure.cases import DEFAULT_MODES, Settings
from spmvbench.rows.store import now

MAX_GATHER_BYTES = 2**30  # longest x whose gathers are timed
MAX_ROUNDS = 5  # of samples that are all discarded
L2_SHARES = (0.5, 0.75, 1.0)  # of L2, that the reading kernel tries to keep there
# Short reads are timed with several launch geometries, several times: threads of a block, pairs of doubles per thread.
SHORT_READ, SHORT_READS = 8 << 20, 2
GEOMETRIES = tuple(itertools.product((128, 256, 512), (1, 2, 4)))
MEASURED_LIMITS = ("launch_overhead", "copy_bandwidth_gbps", "read_bandwidth_gbps", "bounds", "limits_measured")
KEPT_WITHIN = 0.03  # of both ends of kept limits
EMPTY = Launch("vector.cu", "empty<0>", 1, 32, ())


def compilation_lock() -> Path:
    """The lock of the processes of this host that compile all kernels of a run, and convert on its GPUs meanwhile."""
    return paths.home() / "precompile.lock"


def measure_limits(device: Device, settings: Settings) -> dict[str, Any]:
    """Properties of a device and its measured limits: launch overhead by mode (s), bandwidths (GB/s), bounds by size.

    Limits that an earlier worker has measured (`settings.measured`) are taken over; of a GPU, those that an earlier
    invocation has measured, too, as long as both ends are the same now. Raises Throttling as `timing.rest`, and if the
    device throttles whenever it works.
    """
    properties = {"device_name": device.name} | device.properties()
    facts: dict[str, Any] = {"device": device.name, "kind": device.kind, "properties": properties}
    facts["default_max_bytes"] = device.default_max_bytes
    if settings.measured is not None:
        return facts | dict(settings.measured)
    rule = timing.RULES[device.kind]
    if device.kind != "cuda":
        return facts | {"launch_overhead": _launch_overhead(device, rule)}
    # Pairs of doubles, far more than L2 holds.
    pairs = int(min(device.memory_free() // 8, 1 << 30)) // 16
    source, target = (device.xp.zeros(2 * pairs) for _ in range(2))
    brief = replace(rule, rounds=1, budget=rule.budget / 20)
    file = _kept_in(properties, rule)
    kept = cache.load(file)
    if kept and _holds(kept[0], _ends(device, brief, source, target)):
        return facts | {name: kept[0][name] for name in MEASURED_LIMITS}
    copy = Launch("vector.cu", "copy<double2>", cdiv(pairs, 256), 256, (source, target, np.int64(pairs)))
    found = _ends(device, rule, source, target)
    found["copy_bandwidth_gbps"] = 2e-9 * source.nbytes / _median(device, copy, "hot", rule)
    found |= {"bounds": _measured_bounds(device, brief, source, target), "limits_measured": now()}
    cache.save(file, found, {})
    return facts | found


def _ends(device: Device, rule: timing.Rule, source: Array, target: Array) -> dict[str, Any]:
    """The two limits between which the bounds lie: by them kept limits are compared with the device as it is now."""
    args = (source, target, np.int64(0), np.int64(len(source) // 2))
    read = _median(device, Launch("vector.cu", "read<double2>", 8192, 256, args), "hot", rule)
    return {"launch_overhead": _launch_overhead(device, rule), "read_bandwidth_gbps": 1e-9 * source.nbytes / read}


def _launch_overhead(device: Device, rule: timing.Rule) -> dict[str, float]:
    return {mode: _median(device, EMPTY, mode, rule) for mode in DEFAULT_MODES[device.kind]}


def _holds(kept: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether both ends of kept limits are those of now, within KEPT_WITHIN."""
    pairs = [(kept["read_bandwidth_gbps"], now["read_bandwidth_gbps"])]
    pairs.append((kept["launch_overhead"]["hot"], now["launch_overhead"]["hot"]))
    return all(abs(before / after - 1) <= KEPT_WITHIN for before, after in pairs)


def _kept_in(properties: Mapping[str, Any], rule: timing.Rule) -> Path:
    """The file of a GPU's limits, by all that is known of it, the rule and what measures: the driver, clocks, power."""
    code = Path(__file__).read_text(encoding="utf-8"), kernels.text(EMPTY.source)
    known = json.dumps([properties, timing.facts(rule), rule.budget, *code], sort_keys=True, default=str)
    return paths.home() / "limits" / f"{hashlib.sha256(known.encode()).hexdigest()[:32]}.csr"


def l2_shares(size: int, l2: int) -> set[float]:
    """Shares of an array of `size` bytes to try to keep in an L2 of `l2` bytes while it is read repeatedly.

    They matter for arrays of any size: an H200 reads 226 MB in a loop, nearly four times its L2, 9 % faster than from
    DRAM.
    """
    return {min(share * l2 / size, 1.0) for share in (0.0, *L2_SHARES)} if size > l2 / 4 else {0.0}


def _median(device: Device, launch: Launch, mode: str, rule: timing.Rule) -> float:
    return float(timing.quartiles(_sampled(device, launch, mode, rule)).median)


def _sampled(device: Device, launch: Launch, mode: str, rule: timing.Rule) -> timing.Series:
    """Samples of a launch, at least one. A GPU that throttles is given a rest, and asked again."""
    series = timing.prepare(device.compile([launch]), device, mode, rule)
    for _ in range(MAX_ROUNDS):
        timing.take_round(series, device, rule)
        if series.seconds:
            return series
        timing.rest(device)
    raise Throttling(f"whenever it works: in all samples of {MAX_ROUNDS} rounds")


def _measured_bounds(device: Device, rule: timing.Rule, source: Any, target: Any) -> dict[str, list[tuple[int, float]]]:
    """Measured bounds in the form that `bounds.upper` takes, for sizes from 64 kB up to the size of `source` (zeros).

    Around the size of L2 there are four sizes per factor of two. From a quarter of L2 on, the fastest of several reads
    counts; each tries to keep another part of the array in L2. A read of at most SHORT_READ bytes is mostly launch
    overhead: the least sample of all GEOMETRIES counts, and for one byte that of an empty kernel. No read takes longer
    than that of more bytes.
    """
    seconds = partial(_median, device, mode="hot", rule=rule)

    def read(size: int, kept: float) -> float:
        grid = min(cdiv(size // 8, 8 * 256), 8192)
        args = (source, target, np.int64(kept * size / 16), np.int64(size // 16))
        return seconds(Launch("vector.cu", "read<double2>", grid, 256, args))

    def short_read(size: int) -> float:
        brief, found = replace(rule, budget=rule.budget / 3), []
        args = (source, target, np.int64(0), np.int64(size // 16))
        for threads, pairs in GEOMETRIES * SHORT_READS:
            launch = Launch("vector.cu", "read<double2>", cdiv(size // 16, pairs * threads), threads, args)
            found.append(min(_sampled(device, launch, "hot", brief).seconds))
        return min(found)

    powers = [2**digits for digits in range(16, source.nbytes.bit_length())]
    l2 = device.properties()["l2_bytes"]
    near = {int(size * 2 ** (quarter / 4)) for size in powers if l2 / 4 < size < 4 * l2 for quarter in range(4)}
    found: dict[str, list[tuple[int, float]]] = {"read": [], "sectors": [], "lines": []}
    least = [(1, min(_sampled(device, EMPTY, "hot", rule).seconds))]
    for size in sorted({*powers, *near}):
        times = [read(size, kept) for kept in l2_shares(size, l2)]
        least.append((size, min([*times, short_read(size)] if size <= SHORT_READ else times)))
    shortest = itertools.accumulate((seconds for _, seconds in reversed(least)), min)
    found["read"] = [(size, seconds) for (size, _), seconds in zip(least, reversed(list(shortest)), strict=True)]
    blocks, threads, rounds = 8 * device.limits.multiprocessors, 256, 32
    fetched = blocks * threads * rounds * 8
    for size in (size for size in powers if size <= MAX_GATHER_BYTES):
        args = (source, np.uint32(size // 8 - 1), np.int32(rounds), target)
        for of, run in (("sectors", 1), ("lines", LINE_BYTES // 8)):
            gather = Launch("vector.cu", f"gather_random<double, {run}>", blocks, threads, args)
            found[of].append((size, seconds(gather) * run / fetched))
    return found
