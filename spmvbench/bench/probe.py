"""What a device tells once a session, before the first case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.bench import timing
from spmvbench.bench.plan import DEFAULT_MODES, Settings
from spmvbench.devices import Device
from spmvbench.formats import Launch
from spmvbench.formats.arrays import cdiv

GATHER_BYTES = 2**30  # the longest x whose gathers are timed
SESSION = ("launch_floor", "copy_bandwidth_gbps", "read_bandwidth_gbps", "roofs")  # what is measured once a session


def probe(device: Device, settings: Settings) -> dict[str, Any]:
    """What a device tells once a session: itself, its launch floor by mode (s), its bandwidths (GB/s), its roofs."""
    properties = {"device_name": device.name} | device.properties()
    facts: dict[str, Any] = {"device": device.name, "kind": device.kind, "properties": properties}
    facts["default_max_bytes"] = device.default_max_bytes
    if settings.measured is not None:
        return facts | dict(settings.measured)
    rule = timing.RULES[device.kind]

    def median(launch: Launch, mode: str) -> float:
        series = timing.prepare(device.compile([launch]), device, mode, rule)
        timing.take_round(series, device, rule)
        return timing.summary(series)["t_median"]

    empty = Launch("vector.cu", "empty<0>", 1, 32, ())
    facts["launch_floor"] = {mode: median(empty, mode) for mode in DEFAULT_MODES[device.kind]}
    if device.kind == "cuda":
        # Pairs of doubles, far more than L2 holds.
        pairs = int(min(device.memory_free() // 8, 1 << 30)) // 16
        source, target = (device.to_device(np.zeros(2 * pairs)) for _ in range(2))
        copy = Launch("vector.cu", "copy<double2>", cdiv(pairs, 256), 256, (source, target, np.int64(pairs)))
        read = Launch("vector.cu", "read<double2>", 8192, 256, (source, target, np.int64(pairs)))
        facts["copy_bandwidth_gbps"] = 2e-9 * source.nbytes / median(copy, "hot")
        facts["read_bandwidth_gbps"] = 1e-9 * source.nbytes / median(read, "hot")
        facts["roofs"] = _roofs(device, replace(rule, rounds=1, budget=rule.budget / 20), source, target)
    return facts


def _roofs(device: Device, rule: timing.Rule, source: Any, target: Any) -> dict[str, list[tuple[int, float]]]:
    """As `roofs.columns` takes them, for sizes from 64 kB in powers of two, as far as `source` (zeros) reaches."""

    def seconds(launch: Launch) -> float:
        series = timing.prepare(device.compile([launch]), device, "hot", rule)
        timing.take_round(series, device, rule)
        return timing.summary(series)["t_median"]

    found: dict[str, list[tuple[int, float]]] = {"read": [], "gather": []}
    blocks, threads, rounds = 8 * device.limits.multiprocessors, 256, 32
    for digits in range(13, len(source).bit_length()):
        values = 2**digits
        grid = min(cdiv(values, 8 * threads), 8192)
        read = Launch("vector.cu", "read<double2>", grid, threads, (source, target, np.int64(values // 2)))
        found["read"].append((8 * values, seconds(read)))
        if 8 * values <= GATHER_BYTES:
            args = (source, np.uint32(values - 1), np.int32(rounds), target)
            rates = []
            for run, sectors in (
                (1, 1),
                (16, 4),
            ):  # single values; whole lines of 128 bytes, whose sectors come together
                gather = Launch("vector.cu", f"gather_random<double, {run}>", blocks, threads, args)
                rates.append(blocks * threads * rounds * 8 * sectors / run / seconds(gather))
            found["gather"].append((8 * values, max(rates)))
    return found
