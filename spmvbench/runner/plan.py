"""Cases of a run: every matrix in every format, type and mode; which are still to be measured; their groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spmvbench import formats
from spmvbench.errors import UsageError
from spmvbench.formats import Format
from spmvbench.matrices import Matrix
from spmvbench.measure import operations
from spmvbench.measure.cases import PATTERN, Case, Group, device_kind
from spmvbench.orders import NATURAL, source_hash


def choose_formats(text: str | None, device: str, ops: Sequence[str] = ()) -> list[tuple[type[Format], dict[str, Any]]]:
    """The formats of a list, or without one all formats that the device's kind can run; only those that run `ops`.

    ops: names of operations; if empty, formats are selected as `formats.parse` does. Raises UsageError.
    """
    wanted = {operations.get(op).key for op in ops}
    found = formats.parse("all" if text is None else text, wanted or None)
    if missing := sorted(wanted - {cls.op for cls, _ in found}):
        raise UsageError(f"no format of {text or 'all'} runs {' or '.join(missing)}: see spmvbench formats")
    return [(cls, params) for cls, params in found if text is not None or device_kind(device) in cls.devices]


def cross(
    matrices: Sequence[Matrix],
    chosen: Sequence[tuple[type[Format], Mapping[str, Any]]],
    dtypes: Sequence[str],
    modes: Sequence[str],
    device: str,
    seed: int,
    ops: Sequence[str] = (),
    orders: Sequence[str] = (NATURAL,),
) -> list[Case]:
    """Every matrix in every order, type, operation, format that runs it, and mode, as they are measured.

    ops: names of operations, those of one kind next to each other; if empty, all that the formats run. orders: names of
    orders of rows and columns.
    """
    ops = ops or operations.parse(dict.fromkeys(cls.op for cls, _ in chosen))
    name = device.partition(":")[0]
    return [
        Case(matrix, seed, cls.key, params, dtype, mode, name, _refusal(cls, mode, device, op), op)
        for matrix in (in_order(matrix, order) for matrix in matrices for order in orders)
        for first, same in _by_kind(ops)
        for dtype in ((PATTERN,) if first.pattern else dtypes)
        for cls, params in chosen
        if cls.op == first.key
        for op in same
        for mode in modes
    ]


def _by_kind(ops: Sequence[str]) -> list[tuple[operations.Operation, list[str]]]:
    """The names of the operations that share a group, with the first of them as an Operation."""
    by_kind = [list(names) for _, names in itertools.groupby(ops, key=operations.group_of)]
    return [(operations.get(names[0]), names) for names in by_kind]


def _refusal(cls: type[Format], mode: str, device: str, op: str) -> str:
    kind = device_kind(device)
    if kind not in cls.devices:
        return f"runs on {' and '.join(cls.devices)} only"
    if mode == "cold" and kind == "emulated":
        return "the emulated device has no cache to flush"
    return operations.get(op).refusal(cls)


def pending(cases: Iterable[Case], measured: Mapping[str, str]) -> list[Case]:
    """The cases without a row, or whose row was measured from other sources. measured: source hash by case_id."""
    return [case for case in cases if measured.get(case.case_id) != case.source_hash]


def in_order(matrix: Matrix, order: str) -> Matrix:
    """The matrix as it is measured in an order of rows and columns. Raises UsageError for an unknown one."""
    return matrix if order == NATURAL else replace(matrix, order=order, order_hash=source_hash(order))


def grouped(cases: Iterable[Case]) -> list[Group]:
    """Cases in groups that share a matrix. Cases of one group must be next to each other."""
    groups = []
    by_group = itertools.groupby(
        cases, key=lambda case: (case.matrix.id, case.order, case.dtype, operations.group_of(case.op))
    )
    for _, same_group in by_group:
        by_format = tuple(
            tuple(same_label) for _, same_label in itertools.groupby(same_group, key=lambda case: case.label)
        )
        first = by_format[0][0]
        modules = dict.fromkeys(formats.get(cases[0].format).__module__ for cases in by_format)
        groups.append(Group(first.matrix, first.seed, first.dtype, by_format, tuple(modules)))
    return groups
