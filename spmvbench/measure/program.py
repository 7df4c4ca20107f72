"""Hash of the program that a format runs on a matrix: formats with the same hash are names of one program."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from spmvbench.devices import Device
from spmvbench.devices.cuda import has_work
from spmvbench.formats import Call, Format, Launch, Loop, kernels, single_steps
from spmvbench.formats.arrays import Array, array_module
from spmvbench.formats.footprint import span as span_of
from spmvbench.formats.launches import flat, three
from spmvbench.formats.vectors import SparseVector, parts


def program_hash(
    fmt: Format,
    launches: Sequence[Launch | Call | Loop],
    checksums: Callable[[Sequence[Array]], Callable[[], list[int]]],
    x: Array | SparseVector,
    y: Array,
    code: str = "",
) -> str:
    """SHA-256 (16 hex digits) of what one SpMV runs: two formats with the same hash on a matrix are one program.

    launches: those of `fmt` for this x and y. checksums: as `Device.checksums`. code: their `Program.code_hash`; if
    empty, the text of their kernels' files is hashed instead.

    Included are: the steps in order, each with its kernel, grid, block and dynamic shared memory, or its number of
    repetitions; scalars with their types; for each array its position among the arguments, type, shape, and whether two
    arguments are the same array; the content of stored arrays; the orders of x and y.

    x and y count by position alone. Arrays that are neither stored nor x or y, and that some step may write to, are
    scratch space: their content does not count. If no step may write to them, they are tables, and their content
    counts.

    Not included are: names of arrays and kernels' parts, stored arrays that no step takes, launches with an empty grid.
    A library call is represented by its name and the format's parameters.
    """
    arrays = _Arrays(fmt, launches, x, y)
    steps = list(_plain_steps(launches, arrays.described, sorted(fmt.params.items())))
    orders = [None if order is None else arrays.content(order) for order in (fmt.x_order, fmt.y_order)]
    codes = code or [_code_hash(launch.source) for launch in kernels_run(launches)]
    sums = checksums(arrays.contents)() if arrays.contents else []
    return hashlib.sha256(repr((codes, steps, orders, sums)).encode()).hexdigest()[:16]


def kernels_run(launches: Iterable[Launch | Call | Loop]) -> list[Launch]:
    """The kernel launches that have work, in order: those of `Program.code_hash`."""
    return [step for step in single_steps(launches) if isinstance(step, Launch) and has_work(step)]


def float_atomics(launches: Sequence[Launch | Call | Loop], device: Device) -> str:
    """Whether a kernel of these launches adds floats by atomics: yes, no, or empty if nothing here tells."""
    kernels = {(launch.source, launch.kernel): launch for launch in kernels_run(launches)}
    found = {device.float_atomics(launch) for launch in kernels.values()}
    unknown = None in found or any(isinstance(step, Call) for step in single_steps(launches))
    return "yes" if True in found else "" if unknown else "no"


class _Arrays:
    """Arrays that steps take, described without names and addresses. contents: those whose content counts."""

    def __init__(self, fmt: Format, launches: Sequence[Launch | Call | Loop], x: Array | SparseVector, y: Array):
        self._vectors = {f"x{i}": span_of(part) for i, part in enumerate(parts(x))} | {"y": span_of(y)}
        self._stored = [span_of(array) for array in fmt.arrays().values()]
        self._written = {
            span_of(array) for step in filter(has_work, single_steps(launches)) for array in _outputs(step)
        }
        self._numbers: dict[tuple[int, int], int] = {}  # in the order of the steps' arguments
        self.contents: list[Array] = []

    def described(self, arg: Any) -> tuple[Any, ...]:
        if isinstance(arg, np.generic):
            return arg.dtype.str, arg.tobytes()
        form, span = _form(arg), span_of(arg)
        if not arg.nbytes:
            return form
        for name, whole in self._vectors.items():
            if _within(span, whole):
                return *form, name, span[0] - whole[0]
        stored = any(_within(span, whole) for whole in self._stored)
        if not stored and any(low < span[1] and span[0] < high for low, high in self._written):
            return *form, "scratch", self._numbers.setdefault(span, len(self._numbers))
        if span in self._numbers:
            return *form, self._numbers[span]
        self._numbers[span] = len(self._numbers)
        return *form, self._numbers[span], self.content(arg)

    def content(self, array: Array) -> tuple[Any, ...]:
        """The form of an array whose content counts, and its place in `contents`."""
        self.contents.append(array_module(array).ascontiguousarray(array))
        return *_form(array), len(self.contents)


def _form(array: Array) -> tuple[Any, ...]:
    order = "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else array.strides
    return array.dtype.str, array.shape, order


def _plain_steps(
    steps: Sequence[Launch | Call | Loop], described: Callable[[Any], tuple[Any, ...]], params: list[Any]
) -> Iterator[tuple[Any, ...]]:
    for step in filter(has_work, steps):
        if isinstance(step, Loop):
            yield "loop", step.limit, list(_plain_steps(step.steps, described, params)), described(step.more)
        elif isinstance(step, Call):
            yield "call", step.name, params, [described(arg) for arg in flat(step.args)]
        else:
            shape = [*three(step.grid), *three(step.block), int(step.shared_bytes)]
            yield "launch", step.kernel, shape, [described(arg) for arg in flat(step.args)]


def _outputs(step: Launch | Call) -> list[Array]:
    """The arrays that a step may write to: all of which its kernel's declaration does not say that they are const."""
    constant = read_only(step.source, step.kernel.partition("<")[0]) if isinstance(step, Launch) else ()
    args = list(flat(step.args))
    known = len(constant) == len(args)
    return [arg for i, arg in enumerate(args) if not isinstance(arg, np.generic) and not (known and constant[i])]


@cache
def read_only(source: str, kernel: str) -> tuple[bool, ...]:
    """Of each parameter of a kernel whether it is a pointer to const; () if its declaration was not found.

    A struct counts by its members, each declared by a line of its own.
    """
    parameters: list[str] = []
    for parameter in kernels.declaration(source, kernel).parameters:
        kind = re.match(r"\s*(?:const\s+)?(\w+)", parameter)
        struct = (
            kind and "*" not in parameter and re.search(rf"\bstruct {kind[1]}\s*{{([^{{}}]*)}};", kernels.text(source))
        )
        parameters += struct[1].split(";")[:-1] if struct else [parameter]
    return tuple(bool(re.search(r"\bconst\b[^*]*\*", parameter)) for parameter in parameters)


@cache
def _code_hash(source: str) -> str:
    return hashlib.sha256(kernels.text(source).encode("utf-8", "surrogateescape")).hexdigest()


def _within(span: tuple[int, int], whole: tuple[int, int]) -> bool:
    return whole[0] <= span[0] and span[1] <= whole[1]
