"""Footprint: the bytes of device memory that one y = A x needs in addition to x and y, each counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from spmvbench.formats.arrays import Array, Csr, address, array_module, nonzero_mask
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Launch, Loop, Step, flat, single_steps
from spmvbench.formats.vectors import SparseVector, parts

HIDDEN = "behind a handle"  # the name of `Format.hidden_bytes` among arrays
Span = tuple[int, int]  # addresses of the first byte and after the last


def span(array: Array) -> Span:
    """Where an array is in memory, gaps between its elements included."""
    begin = address(array)
    if not array.size:
        return begin, begin
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    steps = [(n - 1) * stride for n, stride in zip(array.shape, array.strides, strict=True)]
    low, high = (begin + sum(step for step in steps if step * sign > 0) for sign in (-1, 1))
    return low, high + array.itemsize


def outside(array: Span, known: Iterable[Span]) -> list[Span]:
    """The stretches of a span that are in none of the known ones."""
    stretches = [array] if array[0] < array[1] else []
    for low, high in known:
        cut = [piece for begin, end in stretches for piece in ((begin, min(end, low)), (max(begin, high), end))]
        stretches = [(begin, end) for begin, end in cut if begin < end]
    return stretches


def footprint(fmt: Format, launches: Iterable[Step], x: Array | SparseVector, y: Array) -> dict[str, int]:
    """Bytes by name of all that has to be on the device for the launches, without x and y.

    launches: as `fmt.launches(x, y)` gave them. First the stored arrays, by their names in `fmt.arrays()`; then the
    arrays that are arguments of launches alone, as ``argument 8 of launch 1, merge_tiles``, whether kernels write to
    them (carries, buffers) or only read: a matrix that a format keeps outside of its fields is found here. A byte
    counts once, with the first array that holds it; arrays without a byte of their own are left out.
    """
    steps = list(launches)
    arrays = fmt.arrays()
    for number, step in enumerate(single_steps(steps)):
        name = step.kernel.partition("<")[0] if isinstance(step, Launch) else step.name
        arrays |= {f"argument {place} of launch {number}, {name}": arg for place, arg in enumerate(flat(step.args))}
    arrays |= {f"condition of step {number}": step.more for number, step in enumerate(steps) if isinstance(step, Loop)}
    found = _outside_sizes(arrays, (*parts(x), y))
    return found | ({HIDDEN: fmt.hidden_bytes} if fmt.hidden_bytes else {})


def _outside_sizes(arrays: Mapping[str, Any], known: Iterable[Array]) -> dict[str, int]:
    """Bytes by name of the arrays, without those that are in the known ones or in an array before it. What is no array
    is left out.
    """
    spans, found = [span(array) for array in known], {}
    for name, array in arrays.items():
        if isinstance(array, array_module(array).ndarray) and (added := outside(span(array), spans)):
            spans += added
            found[name] = sum(end - begin for begin, end in added)
    return found


def compresses_values(fmt: Format, a: Csr) -> bool:
    """Whether the format stores fewer values of the type of `a`, the matrix in it, than that has nonzero entries.

    Such a time depends on which values repeat. A format of patterns, which stores none, compresses none.
    Arrays of bytes may hold values beside other data, as many as fit. Of a program that does not say what it stores
    nothing is known.
    """
    arrays = fmt.arrays().values()
    stored = sum(array.size for array in arrays if array.dtype == a.dtype)
    untyped = sum(array.nbytes for array in arrays if array.dtype == np.uint8) + fmt.hidden_bytes
    stored += untyped // a.dtype.itemsize
    return fmt.keeps_values and fmt.nbytes > 0 and stored < a.nnz and stored < int(nonzero_mask(a.values).sum())


def bytes_read(fmt: Format, found: Mapping[str, int], launches: Iterable[Step]) -> int:
    """Bytes of the footprint `found` that the launches read at least: `fmt.bytes_read`, without arrays that no launch
    takes. A transposed product, for example, may need fewer arrays than y = A x.

    Raises ValueError if `fmt.bytes_read` is more than the footprint, or nothing although there is something to read.
    """
    total, claimed = sum(found.values()), fmt.bytes_read
    steps = list(single_steps(launches))
    args = [arg for step in steps for arg in flat(step.args)]
    taken = [arg for arg in args if isinstance(arg, array_module(arg).ndarray)]
    readable = total - sum(_outside_sizes(fmt.arrays(), taken).values()) if steps else 0
    if not min(readable, 1) <= claimed <= total:
        raise ValueError(f"{fmt.key} says that a product reads {claimed:,} bytes, of a footprint of {total:,}")
    return min(claimed, readable)
