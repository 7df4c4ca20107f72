"""Parameters of a format that are found by timing y = A x on CuPy's current device, as a part of the conversion."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter  # bound before a format can replace it
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Csr
from spmvbench.formats.conversion import TUNING, check, compiled, run, search_once
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Step, only_kernels
from spmvbench.formats.precision import stored_in

WINDOW = 1e-4  # seconds of a graph at least: events resolve half a microsecond
LONG = 1e-3  # seconds from which a graph is one run
MOST_RUNS = 64
TIMED = 3  # graphs


def seconds(steps: Iterable[Step], times: int = 3) -> float:
    """Seconds of the launches in a CUDA graph of at least `times` runs: the least mean of TIMED graphs after one.

    A graph, because the host takes several microseconds for a launch, longer than an SpMV of a small matrix: launched
    one by one, all candidates take as long. Runs fill WINDOW, as far as MOST_RUNS do; from LONG on, a graph is one run.
    Raises TypeError for steps that are no kernels.
    """
    import cupy

    launches = only_kernels(steps)
    check(launches)
    began = perf_counter()
    for launch in launches:
        if np.all(launch.grid):
            compiled(launch.source, launch.kernel)
    if (tuning := TUNING.get()) is not None:
        tuning.compiling += perf_counter() - began
    cupy.cuda.get_current_stream().synchronize()  # what fills the arrays was enqueued there
    with cupy.cuda.Stream(non_blocking=True) as stream:
        once = _elapsed(stream, launches, 1)
        if once > LONG:
            return once
        runs = max(times, min(MOST_RUNS, round(WINDOW / max(once, 1e-7))))
        return _elapsed(stream, launches, runs) / runs


def _elapsed(stream: Any, launches: list[Launch], runs: int) -> float:
    """The least seconds of so many runs in one graph. One graph goes before, so that the GPU does not wait."""
    import cupy

    stream.begin_capture()
    try:
        for launch in launches * runs:
            run(launch)
    finally:
        graph = stream.end_capture()
    graph.upload(stream)
    events = [cupy.cuda.Event() for _ in range(1 + TIMED)]
    for event in events:
        graph.launch(stream)
        event.record(stream)
    events[-1].synchronize()
    return 1e-3 * float(min(cupy.cuda.get_elapsed_time(*pair) for pair in itertools.pairwise(events)))


FASTEST = "fastest"  # of a parameter that is a text: it is found by timing, as a number is that is 0


def one_by_one(
    params: Mapping[str, Any], choices: Mapping[str, Iterable[Any]], time: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """The parameters, each of `choices` that is 0 or FASTEST replaced by that of least time(parameters), in turn."""
    found = dict(params)
    for name, values in choices.items():
        if found[name] in (0, FASTEST):
            tried = [found | {name: value} for value in values]
            found = min(tried, key=time)
    return found


def tuned(
    cls: type[Format],
    a: Csr,
    params: Mapping[str, Any],
    choices: Mapping[str, Iterable[Any]],
    fields: Callable[..., dict[str, Any]],
) -> dict[str, Any]:
    """The fields of a format whose authors tune it: parameters that are 0 or FASTEST are found by timing y = A x.

    fields: by the parameters, with a rule for each of `choices` that is not given: if NumPy holds the matrix nothing
    can be timed, and without entries nothing need be. They are tried as by `one_by_one`.
    """
    if a.xp is np or not a.nnz or not any(params[name] in (0, FASTEST) for name in choices):
        return fields(**params)

    def search() -> dict[str, Any]:
        x, y = a.xp.zeros(a.cols, a.vector_dtype), a.xp.empty(a.rows, a.vector_dtype)

        def taken(given: dict[str, Any]) -> float:
            fmt = cls.holding(a.shape, fields(**given), **given)
            return seconds(stored_in(a).launches(fmt.launches(x, y)))

        return one_by_one(params, choices, taken)

    return fields(**search_once(cls, a, search, lambda: one_by_one(params, choices, lambda given: 0.0)))
