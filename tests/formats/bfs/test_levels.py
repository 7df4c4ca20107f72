"""Levels that searches record, outside of timed runs."""

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.devices import nvrtc
from spmvbench.formats import Csr
from spmvbench.measure import operations

SPECS = [
    "tile-bfs",
    "tile-bfs[kernels=1]",
    "tile-bfs[kernels=12,extract=0]",
    "tile-bfs[kernel=paper]",
    "bfs-do",
    "bfs-push",
]
GRAPHS = testing.hard_graphs()


def traced(spec, graph, source, device):
    a = operations.get("bfs@0").matrix(Csr.of(GRAPHS[graph]))
    y = np.zeros(a.rows, np.int32)
    steps, trace = testing.convert(spec, a).traced(np.full(1, source, np.int32), y)
    for _ in range(2):  # again, from what the first has left
        device.compile(steps).run()
    assert (trace[:, 0] == 0).all()  # the emulated device has no clock
    return trace[:, 1], y


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("graph", ["chain of 300", "grid", "two parts and rest", "one way and dense"])
def test_every_level_is_noted_once_with_a_kernel_that_may_run(spec, graph, emulated):
    kernel, y = traced(spec, graph, 0, emulated)
    fmt = formats.parse(spec)[0]
    allowed = {"bfs-push": {1}, "bfs-do": {1, 3}}.get(fmt[0].key, {int(number) for number in fmt[1].get("kernels", "")})
    noted = np.flatnonzero(kernel)
    assert noted.tolist() == list(range(1, len(noted) + 1))
    assert len(noted) in (y.max(), y.max() + 1)  # a level that finds nothing may end it
    assert set(kernel[noted]) <= allowed


def test_the_authors_rule_says_which_kernel_found_a_level(emulated):
    kernel, y = traced("tile-bfs", "one way and dense", 0, emulated)
    assert y.max() == 1
    assert kernel[1] == 2  # 1 vertex of 70 is more than 1 %
    assert traced("tile-bfs[kernels=1]", "one way and dense", 0, emulated)[0][1] == 1


@pytest.mark.parametrize("name", ["bfs", "tile_bfs"])
def test_notes_compile_for_gpus(name):
    code, *_ = nvrtc.compile(formats.kernel_path(f"bfs/{name}.cu"), [f"{name}_note"], "sm_90")
    assert code.startswith(b"\x7fELF")
