"""Which matrices a format takes: what it refuses, and the bytes that it may take."""

from __future__ import annotations

from spmvbench.formats.arrays import INT32_MAX, Csr

FREE_SHARE = 4  # of the free memory a format may take a quarter: a conversion holds several arrays of its size
# Where a format may take so many times the bytes of CSR, none is refused before it is made: to ask for its bytes, and
# for the memory that is free, takes as long as the conversion.
LARGER = 16


class Skip(Exception):
    """A format cannot or should not hold a matrix. The reason is recorded with the row.

    needed_bytes: the bytes that it would have taken, where that is the reason. limit_bytes: what the user or the device
    allows, where that is less; such a case is measured once more is allowed.
    """

    def __init__(self, reason: str, needed_bytes: int | None = None, limit_bytes: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.needed_bytes, self.limit_bytes = needed_bytes, limit_bytes


class MissingLibrary(Skip):
    """A library is not installed or cannot be loaded. A row that was measured with it stays."""


def refuse_shape(name: str, a: Csr, *, square_only: bool, wide_offsets: bool) -> None:
    """Raises Skip for a matrix that the format `name` cannot index."""
    if square_only and a.rows != a.cols:
        raise Skip(f"{name} holds square matrices only, this one is {a.rows} x {a.cols}")
    if a.nnz > INT32_MAX and not wide_offsets:
        raise Skip(f"offsets of {name} have 32 bits, and this matrix has {a.nnz:,} entries")


def refuse_size(needed: int, max_bytes: int, a: Csr) -> None:
    """Raises Skip, with the bytes that it would take, if a format of `needed` bytes takes more than `max_bytes`."""
    if needed > max_bytes:
        limit = byte_text(max_bytes)
        raise Skip(f"{byte_text(needed)} for {a.nnz:,} nonzeros, over the limit of {limit}", needed, max_bytes)


def byte_text(n: float) -> str:
    """A count of bytes for people: 1.2 GB, 35 MB (decimal units, as vendors and papers use them)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            return f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError
