"""What a device tells once a session, before the first case."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.bench import timing
from spmvbench.bench.plan import DEFAULT_MODES, Settings
from spmvbench.devices import Device
from spmvbench.formats import Launch
from spmvbench.formats.arrays import cdiv


def probe(device: Device, settings: Settings) -> dict[str, Any]:
    """What a device tells once a session: itself, its launch floor by mode (s), its bandwidths (GB/s)."""
    properties = {"device_name": device.name} | device.properties()
    facts: dict[str, Any] = {"device": device.name, "kind": device.kind, "properties": properties}
    facts["default_max_bytes"] = device.default_max_bytes
    if settings.floors is not None:
        return facts | {"launch_floor": dict(settings.floors)}
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
    return facts
