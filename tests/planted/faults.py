"""Formats that hang, fault, return a wrong result or exhaust memory; parameter `n` makes several of each.

`python tests/runner/chaos.py` runs them together with correct formats and kills processes meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spmvbench.formats import Launch, Parameter, per_thread, register
from spmvbench.formats.csr.csr import CsrArrays

KERNELS = str(Path(__file__).with_name("faults.cu"))


class Fault(CsrArrays):
    """CSR in double precision whose kernel does something else."""

    family = "CSR"
    reference = "none"
    n = Parameter(0, "which of many", low=0)

    def launches(self, x, y):
        return [Launch(KERNELS, f"{self.key.partition('-')[2]}<0>", 1, 1, (y,))]


@register
class Hang(Fault):
    """A kernel that never ends."""

    key = "fault-hang"


@register
class Faulting(Fault):
    """A kernel that writes to an invalid address."""

    key = "fault-fault"


@register
class Wrong(Fault):
    """A kernel that always returns the same result."""

    key = "fault-wrong"

    def launches(self, x, y):
        return [Launch(KERNELS, "wrong<0>", *per_thread(len(y), 128), (y, np.int32(len(y))))]


@register
class Hungry(Fault):
    """A conversion that allocates 500 TB and estimates little."""

    key = "fault-hungry"

    @classmethod
    def convert(cls, a, **params):
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.xp.empty(1 << 46)}
