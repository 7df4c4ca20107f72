"""Formats that hang, fault, lie or want more memory than there is; parameter `n` makes as many of each as are wanted.

`python tests/runner/chaos.py` runs them beside formats that are right, and kills processes meanwhile.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spmvbench.formats import Launch, register
from spmvbench.formats.base import Parameter, per_thread
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
    """A kernel that writes where it must not."""

    key = "fault-fault"


@register
class Lie(Fault):
    """A kernel that gives the same answer always."""

    key = "fault-lie"

    def launches(self, x, y):
        return [Launch(KERNELS, "lie<0>", *per_thread(len(y), 128), (y, np.int32(len(y))))]


@register
class Hungry(Fault):
    """A conversion that asks for 500 TB and says that it needs little."""

    key = "fault-hungry"

    @classmethod
    def convert(cls, a, **params):
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx, "values": a.xp.empty(1 << 46)}
