"""Products whose sums of rows are not stored as y: each goes to an epilogue, which does with it what another kernel
would do that reads y. Nothing of the length of y is written and read between the two.

A kernel can whose last template parameter is the type of its y, ``typename Y = V*``: it hands over the sum of each row
once (include/epilogue.cuh).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, address
from spmvbench.formats.kernels import declaration, split
from spmvbench.formats.launches import Launch, Step, Struct, flat


def fused(steps: Sequence[Step], y: Array, epilogue: str, members: Struct) -> list[Step] | None:
    """The launches of a product with an epilogue in place of y, or None if a kernel cannot.

    steps: those that make y, (rows,). epilogue: a type of include/epilogue.cuh with its template arguments. members: of
    that type.
    """
    writing = [step for step in steps if any(_within(y, arg) for arg in flat(step.args))]
    step = writing[0]
    if len(writing) > 1 or not isinstance(step, Launch):
        return None
    name, _, given = step.kernel.partition("<")
    known = declaration(step.source, name)
    if not known.y[0]:
        return None
    found, said = dict[str, str](), split(given.removesuffix(">"))
    for i, (parameter, default) in enumerate(known.template):
        found[parameter] = said[i] if i < len(said) else found.get(default, default)
    args = tuple(members if _within(y, arg) else arg for arg in step.args)
    with_epilogue = replace(step, kernel=f"{name}<{', '.join((*found.values(), epilogue))}>", args=args)
    return [with_epilogue if each is step else each for each in steps]


def _within(y: Array, arg: Any) -> bool:
    """Whether an argument of a launch is y or a part of it."""
    if isinstance(arg, np.generic | Struct) or not arg.size:
        return False
    return address(y) <= address(arg) < address(y) + y.nbytes
