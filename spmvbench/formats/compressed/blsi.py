"""BLSI: row and column of an entry in one integer."""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, cdiv, index_dtype
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, ctype, per_thread, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

STEPS = 8  # times 32 entries of a warp


@register
class Blsi(Format):
    """COO with row and column packed into one key of 32 bits if both fit, else 64.

    Less to build and to move to the device than COO with 32-bit keys; as much as COO with 64-bit ones. The survey says
    that the column is in the bits of the row's index and no more: the layout is our reading, and so is the sum over a
    warp's runs of a row, with an atomic each; sums=entry adds every product by itself. Sums are not reproducible.
    """

    key = "blsi"
    family = "COO"
    survey_name = "BLSI"
    reference = "Neelima, Prakash & Reddy, 2012"

    sums = Parameter("warp", "what one atomic adds to y", choices=("warp", "entry"))

    keys: Array  # (nnz,), uint32 or uint64: row << bits | column
    values: Array  # (nnz,)
    bits: int  # of a column

    @classmethod
    def _key(cls, a: Csr) -> tuple[int, np.dtype]:
        """Bits of a column, and the type of a key."""
        bits = max(a.cols - 1, 0).bit_length()
        return bits, np.dtype(np.uint32 if bits + max(a.rows - 1, 0).bit_length() <= 32 else np.uint64)

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nnz * (cls._key(a)[1].itemsize + a.dtype.itemsize)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        bits, kind = cls._key(a)
        keys = a.row_idx.astype(kind) << kind.type(bits) | a.col_idx.astype(kind)
        return {"keys": keys, "values": a.values, "bits": bits}

    def to_coo(self) -> tuple[Array, Array, Array]:
        kind = self.keys.dtype.type
        rows, cols = self.keys >> kind(self.bits), self.keys & kind((1 << self.bits) - 1)
        return rows.astype(np.int32), cols.astype(np.int32), self.values

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        entries = len(self.values)
        nnz, bits = index_dtype(entries).type(entries), np.int32(self.bits)
        types = f"{ctype(self.values)}, {ctype(nnz)}, {ctype(self.keys)}"
        if self.sums == "entry":
            args: tuple[Any, ...] = (nnz, bits, self.keys, self.values, x, y)
            return [Launch("compressed/bro.cu", f"blsi_entry<{types}>", *per_thread(entries), args)]
        args = (nnz, np.int32(STEPS), bits, self.keys, self.values, x, y)
        return [Launch("compressed/bro.cu", f"blsi_warp<{types}>", *per_thread(cdiv(entries, STEPS), 128), args)]

    def launches(self, x: Array, y: Array) -> list[Launch]:
        return [zero_fill(y), *self.accumulate(x, y)]
