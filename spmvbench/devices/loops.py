"""Loops in CUDA graphs: conditional WHILE nodes, by the driver's own functions, which CuPy has no names for.

The driver keeps these functions and structures as they are once it has them (CUDA Driver API, Graph Management; the
versions of the names are those of CUDA 12.3). On an H200 with driver 580 an iteration of one small kernel takes 5.4 us
in such a node, and 13.6 us if the host reads the flag back; each further kernel takes 0.5 us and 3.5 us.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import partial

from spmvbench.devices import driver

OLDEST = 12040  # the CUDA version of the driver from which on WHILE nodes may be relied on
_CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
_WHILE = 1  # CU_GRAPH_COND_TYPE_WHILE
_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT: at each launch of the graph the condition is 1 again
_SET_DEPENDENCIES = 1  # CU_STREAM_SET_CAPTURE_DEPENDENCIES
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class _Conditional(ctypes.Structure):
    """CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = (
        ("handle", ctypes.c_uint64),
        ("type", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
    )


class _Content(ctypes.Union):
    _fields_ = (("conditional", _Conditional), ("reserved", ctypes.c_longlong * 29))


class _Node(ctypes.Structure):
    """CUgraphNodeParams."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("content", _Content),
        ("reserved_too", ctypes.c_longlong),
    )


_must = partial(driver.call, without="loop in a CUDA graph")


def record(stream: int, body_stream: int, body: Callable[[int], None]) -> None:
    """Add a WHILE node to the graph that `stream` captures.

    body: enqueues the node's body on `body_stream`, given the handle by which a kernel of it has to say whether the
    body is to run again. Raises DeviceFault if the driver refuses.
    """
    outer, status, number = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint64()
    before, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_size_t()
    at = ctypes.c_void_p(stream)
    found = (status, number, outer, before, count)
    _must("cuStreamGetCaptureInfo_v2", at, *map(ctypes.byref, found))

    context, handle = ctypes.c_void_p(), ctypes.c_uint64()
    _must("cuCtxGetCurrent", ctypes.byref(context))
    _must("cuGraphConditionalHandleCreate", ctypes.byref(handle), outer, context, 1, _ASSIGN_DEFAULT)
    params = _Node(type=_CONDITIONAL)
    params.content.conditional = _Conditional(handle=handle, type=_WHILE, size=1, context=context)
    node = ctypes.c_void_p()
    _must("cuGraphAddNode", ctypes.byref(node), outer, before, count, ctypes.byref(params))
    _must("cuStreamUpdateCaptureDependencies", at, ctypes.byref(node), ctypes.c_size_t(1), _SET_DEPENDENCIES)

    inner = ctypes.c_void_p(params.content.conditional.bodies[0])
    inside = ctypes.c_void_p(body_stream)
    _must("cuStreamBeginCaptureToGraph", inside, inner, None, None, ctypes.c_size_t(0), _RELAXED)
    try:
        body(handle.value)
    finally:
        _must("cuStreamEndCapture", inside, ctypes.byref(inner))
