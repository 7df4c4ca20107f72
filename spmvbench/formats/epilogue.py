"""Products whose sums of rows are not stored as y: each goes to an epilogue, which does with it what another kernel
would do that reads y. Nothing of the length of y is written and read between the two.

A kernel can that takes its y, or what it stores of it without atomics, as a type of its own, ``typename Y = V*`` as the
last template parameter: it hands over the sum of each row once (include/epilogue.cuh).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, address
from spmvbench.formats.kernels import declaration, split
from spmvbench.formats.launches import Launch, Step, Struct, after_zeros, ctype, flat, per_thread, zero_rows

KERNEL = "epilogue.cu"


def after(sums: Array, epilogue: str, members: Struct) -> Launch:
    """The launch of an epilogue by itself. sums: (rows,), y of a product. epilogue, members: as of `fused`."""
    args = np.int64(len(sums)), sums, members
    return Launch(KERNEL, f"epilogue_all<{ctype(sums)}, {epilogue}>", *per_thread(len(sums)), args)


def fused(steps: Sequence[Step], y: Array, epilogue: str, members: Struct) -> list[Step] | None:
    """The launches of a product with an epilogue in place of y, or None if a kernel cannot.

    steps: those that make y, (rows,). epilogue: a type of include/epilogue.cuh with its template arguments. members: of
    that type. Rows that a kernel adds to y in parts (`Launch.in_parts`) have a launch of their own after it.
    """
    writing = [step for step in steps if any(_within(y, arg) for arg in flat(step.args))]
    *before, step = writing
    only_zeroes = all(isinstance(each, Launch) and each.zeroes for each in before)
    if not isinstance(step, Launch) or (before and step.in_parts is None) or not only_zeroes:
        return None
    name, _, given = step.kernel.partition("<")
    known = declaration(step.source, name)
    handed = [text.partition(" ")[0] == known.y[0] for text in known.parameters]
    if not any(is_y and _within(y, arg) for is_y, arg in zip(handed, step.args, strict=False)):
        return None
    found, said = dict[str, str](), split(given.removesuffix(">"))
    for i, (parameter, default) in enumerate(known.template):
        found[parameter] = said[i] if i < len(said) else found.get(default, default)
    args = tuple(members if is_y else arg for is_y, arg in zip(handed, step.args, strict=True))
    product = replace(step, kernel=f"{name}<{', '.join((*found.values(), epilogue))}>", args=args)
    if step.in_parts is None:
        return [product if each is step else each for each in steps]
    rows = step.in_parts()
    if not len(rows):
        return [product]
    rest = np.int64(len(rows)), rows, y, members
    kernel = f"epilogue_rows<{ctype(y)}, {epilogue}>"
    return [*after_zeros(zero_rows(rows, y), product), Launch(KERNEL, kernel, *per_thread(len(rows)), rest)]


def _within(y: Array, arg: Any) -> bool:
    """Whether an argument of a launch is y or a part of it."""
    if isinstance(arg, np.generic | Struct) or not arg.size:
        return False
    return address(y) <= address(arg) < address(y) + y.nbytes
