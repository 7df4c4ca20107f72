"""Bit streams: fields of any width in words of 32 bits, packed and read back by array operations."""

from __future__ import annotations

import numpy as np

from spmvbench.formats.arrays import Array, array_module

WORD = 32
POWERS = 2 ** np.arange(WORD, dtype=np.int64)


def bit_lengths(numbers: Array) -> Array:
    """Bits that each of some numbers, 0 to 2**32 - 1, takes; 0 for 0. uint8."""
    xp = array_module(numbers)
    return xp.searchsorted(xp.asarray(POWERS), numbers.astype(np.int64), side="right").astype(np.uint8)


def _mask(width: Array) -> Array:
    return (np.uint64(1) << width.astype(np.uint64)) - np.uint64(1)


def _shift(bit: Array, width: Array, *, most_first: bool) -> Array:
    """By how much a field is shifted to its place in a pair of words."""
    inside = bit % WORD
    return (2 * WORD - inside - width if most_first else inside).astype(np.uint64)


def pack(words: Array, fields: Array, width: Array, word: Array, bit: Array, step: int, *, most_first: bool) -> None:
    """Put fields into words that are zero there.

    words: uint32. fields: (n,), each below 2**width. width: (n,), 0 to 32. word: (n,), the word of each stream's bit
    0, whose next one is `step` further. bit: (n,), of the stream, at which the field begins; it may go on in the next
    word. most_first: a stream's first bit is its word's highest, and a field's highest bit comes first; else both are
    the lowest. Fields do not overlap, so that sums are unions.
    """
    xp = array_module(words)
    pair = fields.astype(np.uint64) << _shift(bit, width, most_first=most_first)
    low, high = (pair & np.uint64(0xFFFFFFFF)).astype(np.uint32), (pair >> np.uint64(WORD)).astype(np.uint32)
    first, second = (high, low) if most_first else (low, high)
    at = word + bit // WORD * step
    xp.add.at(words, at, first)
    more = xp.flatnonzero(second)
    xp.add.at(words, at[more] + step, second[more])


def unpack(words: Array, width: Array, word: Array, bit: Array, step: int, *, most_first: bool) -> Array:
    """The fields, (n,), int64, that `pack` put there."""
    xp = array_module(words)
    if not len(words):
        return xp.zeros(len(width), dtype=np.int64)
    at = word + bit // WORD * step
    goes_on = bit % WORD + width > WORD
    here = xp.where(width > 0, at, 0)
    first = words[here].astype(np.uint64)
    second = xp.where(goes_on, words[xp.where(goes_on, at + step, 0)], np.uint32(0)).astype(np.uint64)
    low, high = (second, first) if most_first else (first, second)
    pair = high << np.uint64(WORD) | low
    return (pair >> _shift(bit, width, most_first=most_first) & _mask(width)).astype(np.int64)
