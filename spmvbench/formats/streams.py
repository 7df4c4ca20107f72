"""Streams that another library made, as CuPy takes them."""

from __future__ import annotations


class Stream:
    """A stream by the CUDA stream protocol. handle: the address of its `cudaStream_t`, 0 for the default stream."""

    def __init__(self, handle: int):
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version of the protocol, and the handle."""
        return 0, self._handle
