"""The checksum of kernels/checksum.cu on the host."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array

AT_ONCE = 1 << 16  # words, which stay in a cache


def checksum(array: Array) -> int:
    """64 bits of a contiguous NumPy array, as kernels/checksum.cu computes them of a copy on a GPU."""
    data = array.reshape(-1).view(np.uint8)
    words = data if data.size % 4 else data.view(np.uint32)
    total = 0
    for first in range(0, words.size, AT_ONCE):
        part = words[first : first + AT_ONCE].astype(np.uint64)
        total += int(_mixed(part, first).sum(dtype=np.uint64))
    return total % (1 << 64)


def _mixed(words: Array, first: int) -> Array:
    """SplitMix64 of every word and its place, in place. first: place of the first one."""
    words += np.arange(first + 1, first + 1 + words.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words
