"""A^T of an operator: from the arrays of A, or from a second copy in the format advised for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from spmvbench.devices import Device, OutOfDeviceMemory
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Csr, Format, Launch, Skip
from spmvbench.formats.arrays import Array, offsets, stable_order
from spmvbench.formats.launches import Step
from spmvbench.formats.ordered import Ordered
from spmvbench.formats.refilling import Places, numbered, numbers
from spmvbench.formats.two_copies import TwoCopies
from spmvbench.operators import format_choice
from spmvbench.operators.format_choice import Candidate, Choice, Placing

WORTH_TIMING = 0.03  # seconds of products: as long as it takes to convert a second copy and to time it
TRIED = ("csr5-dict", "sell-pack", "csr-lanes")  # the fastest for linear programs beside those of the advice
TIMED = ("cuda",)  # kinds of devices whose times say which product is faster
FAR = 4  # times as slow as the fastest so far: one product tells
PRODUCTS, ROUNDS = 5, 3  # products of a round, one after the other; the fastest round counts


class Transposed(Format):
    """A^T from the arrays of A, by the launches that `Format.transposed` gives."""

    matrix: Format

    @classmethod
    def of(cls, matrix: Format) -> Transposed:
        """A^T of a format's matrix, which shares its arrays. Raises Skip if the format has no kernel for it."""
        if not type(matrix).transposes():
            raise Skip(f"no kernel multiplies with A^T from the arrays of {matrix.key or type(matrix).__name__}")
        rows, cols = matrix.shape
        x, y = (matrix.xp.zeros(n, matrix.value_dtype) for n in (rows, cols))
        matrix.transposed(x, y)  # a part of a hybrid may refuse
        return cls.holding((cols, rows), {"matrix": matrix})

    def to_coo(self) -> tuple[Array, Array, Array]:
        """As `Format.to_coo`."""
        row, col, values = self.matrix.to_coo()
        return col, row, values

    def launches(self, x: Array, y: Array) -> list[Step]:
        """As `Format.launches`."""
        return list(self.matrix.transposed(x, y))

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        """As `Format.accumulate`."""
        try:
            return self.matrix.add_transposed(x, y)
        except Skip as error:  # it stores y, and does not add
            raise NotImplementedError(str(error)) from error


def chosen(
    fmt: Format, device: Device, choice: Choice, limit: int | None, check: Callable[[Format], None]
) -> tuple[Format, Choice]:
    """A^T as a format, and why: the faster of one copy and two.

    fmt, choice: of A. limit: bytes that a second copy may take, None: a quarter of the memory that is free. check: as
    `format_choice.choose` takes it.

    On a GPU the product from the arrays of A is timed. If `choice.spmvs` of them take less than WORTH_TIMING, or
    than the conversion and the products of a second copy are predicted to take, no second copy is made. Else it is
    converted and timed, too, and the slower one is given back. Times of the emulated device say nothing: there A^T
    shares the arrays if it can.

    Raises as `format_choice.choose` if the format has no kernel for A^T and no second copy can be made.
    """
    try:
        one = Transposed.of(fmt)
        check(one)
        if isinstance(fmt, TwoCopies):
            return one, _shared(choice, "it holds both")
    except Skip as refusal:
        a = transposed_csr(fmt)
        made, found = format_choice.choose(a, device, _advised(a, device, choice, limit), choice.spmvs, check, limit)
        return made, replace(found, reason=f"a second copy, because {refusal}; {found.reason}")
    if device.kind not in TIMED:
        return one, _shared(choice, f"times of the {device.name} device say nothing, and it takes no memory")
    spmvs, seconds = choice.spmvs, timed(one, device)
    taken = f"{spmvs:,.10g} products take {spmvs * seconds:.3g} s"
    if spmvs * seconds < WORTH_TIMING:
        return one, _shared(choice, f"{taken}, and no second copy saves the time of trying it")
    try:
        a = transposed_csr(fmt)
        candidates = list(_advised(a, device, choice, limit))
        if candidates[0].predicted is not None:
            spmv, conversion = candidates[0].predicted
            if spmvs * seconds <= conversion + spmvs * spmv:
                return one, _shared(
                    choice,
                    f"{taken}, and {candidates[0].label} with its conversion {conversion + spmvs * spmv:.3g} s "
                    "by the prediction",
                )
        made, found = format_choice.choose(a, device, iter(candidates), spmvs, check, limit)
    except (Skip, OutOfDeviceMemory, SpmvbenchError) as error:
        return one, _shared(choice, f"there is no second: {error}")
    second = timed(made, device)
    told = f"{1e6 * seconds:.3g} us a product from the arrays of A, {1e6 * second:.3g} us in {found.label}"
    if seconds <= second:
        return one, _shared(choice, told)
    return made, replace(found, reason=f"a second copy, because a product is faster: {told}; {found.reason}")


def with_timed(
    a: Csr, device: Device, spmvs: float, limit: int | None, candidates: Iterable[Candidate]
) -> Iterator[Candidate]:
    """The candidates, after the fastest of TRIED if a product in it is timed as faster than in the first of them.

    None is tried if `spmvs` products in the first take less than WORTH_TIMING, nor on the emulated device. One that
    would take more than twice the bytes of `a`, or cannot hold it, is passed over.
    """
    found = iter(candidates)
    first = next(found)
    best, seconds = None, np.inf
    if device.kind in TIMED:
        most = 2 * a.nbytes if limit is None else min(limit, 2 * a.nbytes)
        for label in (first.label, *TRIED):
            with suppress(Skip, OutOfDeviceMemory):
                taken = timed(format_choice.convert(label, a, device, most)[0], device, FAR * seconds)
                if label == first.label and spmvs * taken < WORTH_TIMING:
                    break
                best, seconds = min((best, seconds), (label, taken), key=lambda each: each[1])
    if best not in (None, first.label):
        yield Candidate(str(best), f"{1e6 * seconds:.3g} us a product, the least of {1 + len(TRIED)} that were timed")
    yield first
    yield from found


def is_paired(fmt: Format, device: Device, spmvs: float, two: Callable[[], Format]) -> bool:
    """Whether products with A and A^T from the arrays of `fmt` take less than from two copies, or too little to try.

    two: makes these; one copy is taken if they do not fit. Times of the emulated device say nothing: there two copies
    are two formats that the advice knows.
    """
    if device.kind not in TIMED:
        return False
    one = timed(fmt, device) + timed(Transposed.of(fmt), device)
    if spmvs * one < WORTH_TIMING:
        return True
    try:
        other = two()
    except (Skip, SpmvbenchError):
        return True
    return one <= timed(other, device) + timed(Transposed.of(other), device)


def updated(
    fmt: Format, where: Places, device: Device, choice: Choice, limit: int | None, check: Callable[[Format], None]
) -> tuple[Format, Choice, Places | None]:
    """A^T as a format whose values can follow those of A, why, and where it stores the entries of A.

    It shares the arrays of A if a kernel multiplies with A^T from them; there are no places of its own then. Else it is
    a second copy. where: the places of A; all else as `chosen`.
    """
    try:
        one = Transposed.of(fmt)
        check(one)
        return one, _shared(choice, "it is updated with A"), None
    except Skip as refusal:
        reason = f"a second copy, because {refusal}"
    order = transposed_csr(where.refilled(fmt, numbers(where.size, fmt.value_dtype, fmt.xp)))
    of_a = numbered(order.values)
    a = replace(order, values=where.values(fmt)[of_a])
    placing = Placing(a, device, check)
    candidates = _advised(a, device, choice, limit)
    made, found = format_choice.choose(a, device, candidates, choice.spmvs, placing, limit)
    return placing.own(made), replace(found, reason=f"{reason}; {found.reason}"), placing.found.renumbered(made, of_a)


def _advised(a: Csr, device: Device, choice: Choice, limit: int | None) -> Iterator[Candidate]:
    """The candidates for A^T, as those for A were found."""
    found = format_choice.advised(a, device, choice.spmvs, limit)
    return format_choice.deterministic(found, device) if choice.deterministic else found


def _shared(choice: Choice, why: str) -> Choice:
    """The choice of A^T from the arrays of A."""
    return Choice(choice.label, dict(choice.params), f"one copy, because {why}", choice.spmvs, 0.0, 0, shared=True)


def timed(fmt: Format, device: Device, most: float = np.inf) -> float:
    """Seconds of one product on the device, warm: of the fastest round of a few products, or of one that takes more
    than `most`.
    """
    x, y = (device.xp.ones(n, fmt.value_dtype) for n in reversed(fmt.shape))
    device.synchronize()  # the device's stream is another one than that which has filled x
    program = device.compile(Ordered(fmt).launches(x, y))
    program.run()
    if most < np.inf and (once := device.elapsed(program.run)) > most:
        return once
    replay = device.capture(program, PRODUCTS)
    device.synchronize()
    return min(device.elapsed(replay) for _ in range(ROUNDS)) / PRODUCTS


def transposed_csr(fmt: Format) -> Csr:
    """The transposed matrix as canonical CSR, decoded from a format, on its array module."""
    row, col, values = fmt.to_coo()
    xp, (rows, cols) = fmt.xp, fmt.shape
    order = stable_order(col.astype(np.int64) * max(rows, 1) + row, max(rows, 1) * max(cols, 1))
    row_ptr = offsets(xp.bincount(col, minlength=cols)[:cols])
    return Csr((cols, rows), row_ptr, row[order].astype(np.int32), values[order].astype(fmt.value_dtype, copy=False))
