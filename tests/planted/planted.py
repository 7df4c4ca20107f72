"""CSR with one fault each, which verification must detect. Every key is a fault; `planted-none` has none, and
`planted-other-bits`, whose sums have other bits in one product of 40, all within their bounds, has to be ok.

Over any matrices, on any device, `SPMVBENCH_FORMATS=tests/planted/planted.py spmvbench run MATRICES --formats
'planted-*'` has to give no row that is ok but those of these two.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from spmvbench.formats import Csr, Launch, Skip, ctype, per_thread, register
from spmvbench.formats.arrays import Array, on_host
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.measure.verify import integer_matrix, references

KERNEL = str(Path(__file__).with_name("planted.cu"))
IN_KERNEL = (
    "none", "last-entry", "one-in-1000", "twice", "neighbour", "finite-returns", "adds", "remembers", "one-run-in-50",
    "beyond-x", "beyond-y", "into-x", "previous-y", "wrong-from-zero", "caches-y", "other-bits",
    "two-before",
)  # fmt: skip
IN_CONVERSION = ("narrow", "loses-small", "poisons", "retunes")


class Planted(CsrArrays):
    """CSR with one fault."""

    family = "CSR"
    reference = "none"
    fault = "none"
    computed: ClassVar[list[Array] | None] = None  # of each program that caches y, how often it computed each row

    @classmethod
    def convert(cls, a, **params):
        found = super().convert(a, **params)
        values = found["values"]
        longest = int(a.row_lengths.argmax()) if a.nnz else 0
        lost = {
            "last-entry": slice(int(a.row_ptr[longest + 1]) - 1, int(a.row_ptr[longest + 1])),
            "one-in-1000": slice(min(1000, a.nnz) - 1, None, min(1000, max(a.nnz, 1))),
        }
        if (
            not a.nnz
            or (cls.fault == "neighbour" and a.cols == 1)
            or not values[lost.get(cls.fault, slice(None))].any()
        ):
            raise Skip("the fault has nothing to show itself on")
        if cls.fault == "narrow":  # every value off by one part in a thousand, except in the integer matrix
            whole = values == a.xp.rint(values)
            if whole.all():
                raise Skip("all values are integers")
            found["values"] = a.xp.where(whole, values, values * a.dtype.type(1 + 2**-10))
        if cls.fault == "loses-small":  # the smallest that is not zero
            size = a.xp.abs(values)
            place = int(a.xp.where(size > 0, size, np.inf).argmin())
            found["values"] = values.copy()
            found["values"][place] = 0
        if cls.fault == "poisons":
            shared = a.values
            while isinstance(shared.base, a.xp.ndarray):  # the view that formats get is read-only on the host
                shared = shared.base
            shared.reshape(-1).view(a.dtype)[-1] += 1
        return found

    @property
    def in_use(self):
        """For the matrix of the exact integer test another layout than for any other, which loses an entry."""
        if self.fault != "retunes":
            return {}
        tested = integer_matrix(Csr(self.shape, self.row_ptr, self.col_idx, self.values))
        return {"lanes": 1 if tested is not None and bool((tested.values == self.values).all()) else 2}

    def launches(self, x, y):
        rows, cols = self.shape
        if not rows or not len(self.values):
            return []
        values = self.values
        if self.in_use.get("lanes") == 2:
            values = self.xp.where(self.xp.abs(values) == self.xp.abs(values).min(), 0, values).astype(values.dtype)
        host = Csr(self.shape, *(on_host(array) for array in (self.row_ptr, self.col_idx, self.values)))
        known = references(host, 0)[0].y.astype(host.dtype)
        longest, step = int(host.row_lengths.argmax()), min(1000, host.nnz)
        number = IN_KERNEL.index(self.fault) if self.fault in IN_KERNEL else 0
        kernel = f"planted<{ctype(self.values)}, {ctype(self.row_ptr)}>"
        sizes = (np.int32(n) for n in (number, rows, cols, longest, step))
        arrays = (self.row_ptr, self.col_idx, values, self.xp.asarray(known), x, y)
        kept = self.xp.zeros(rows, np.int32), self.xp.zeros(2 * rows, values.dtype)
        found = [Launch(KERNEL, kernel, *per_thread(rows, 128), (*sizes, *arrays, *kept))]
        if self.fault == "caches-y" and self.computed is not None:
            self.computed.append(kept[0])
        if self.fault == "into-x":
            found.append(Launch(KERNEL, f"spoil<{ctype(x)}>", 1, 1, (np.int32(cols), x)))
        return found


for name in (*IN_KERNEL, *IN_CONVERSION):
    register(type(f"Planted{name}", (Planted,), {"__module__": __name__, "key": f"planted-{name}", "fault": name}))
