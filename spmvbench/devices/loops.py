"""Loops in CUDA graphs: conditional WHILE nodes, by the driver's own functions, which CuPy has no names for.

On an H200 with driver 580 an iteration of one small kernel takes 5.4 us in such a node, and 13.6 us if the host reads
the flag back; each further kernel takes 0.5 us and 3.5 us.
"""

from __future__ import annotations

from collections.abc import Callable

from spmvbench.devices.cuda_driver import must

OLDEST = 12040  # the CUDA version of the driver from which on WHILE nodes may be relied on


def record(stream: int, body_stream: int, body: Callable[[int], None]) -> None:
    """Add a WHILE node to the graph that `stream` captures.

    body: enqueues the node's body on `body_stream`, given the handle by which a kernel of it has to say whether the
    body is to run again. Raises DeviceFault if the driver refuses.
    """
    from cuda.bindings import driver

    # What a node depends on: nodes and, since CUDA 13, the kinds of their edges.
    _, _, graph, *before, count = must(driver.cuStreamGetCaptureInfo(stream))
    context = must(driver.cuCtxGetCurrent())
    again = driver.CU_GRAPH_COND_ASSIGN_DEFAULT  # at each launch of the graph the condition is 1 again
    handle = must(driver.cuGraphConditionalHandleCreate(graph, context, 1, again))
    params = driver.CUgraphNodeParams()
    params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
    params.conditional.handle = handle
    params.conditional.type = driver.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
    params.conditional.size = 1
    params.conditional.ctx = context
    node = must(driver.cuGraphAddNode(graph, *before, count, params))
    kinds = [None] * (len(before) - 1)
    instead = driver.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
    must(driver.cuStreamUpdateCaptureDependencies(stream, [node], *kinds, 1, instead))

    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    must(driver.cuStreamBeginCaptureToGraph(body_stream, params.conditional.phGraph_out[0], None, None, 0, relaxed))
    try:
        body(int(handle))
    finally:
        must(driver.cuStreamEndCapture(body_stream))
