"""Which format an operator uses: the one that is named, or the advice's first that the device can hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from spmvbench import formats
from spmvbench.advice import choosing, model, quick
from spmvbench.devices import Device, OutOfDeviceMemory, cuda, shared_device
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Csr, Format, Skip, two_copies
from spmvbench.formats.admission import FREE_SHARE, LARGER, byte_text, refuse_size
from spmvbench.formats.conversion import converting_for
from spmvbench.formats.determinism import repeating, repeats
from spmvbench.formats.refilling import Places, places

MODEL = "h200"  # the GPU whose rows the advice was learned from


@dataclass(frozen=True)
class Choice:
    """The format of an operator, why it was chosen, and what that cost.

    label: the format as `formats.parse` takes it. params: the value of each of its parameters. reason: why, in
    words. spmvs: products that the choice was made for. predicted_spmv, predicted_conversion: seconds on the model's
    GPU, None without a prediction. advice_seconds, conversion_seconds: measured here, without the copy to the device;
    the former includes what was rejected. nbytes: of the arrays that the format stores. rejected: formats that were
    tried first, each with the reason why it is not used. shared: whether it is A^T from the arrays of A, which are
    not counted again. update_bytes: of what an updatable operator keeps of where entries go.
    deterministic: whether the format had to be one that is known to repeat its bits.
    """

    label: str
    params: dict[str, Any]
    reason: str
    spmvs: float
    conversion_seconds: float
    nbytes: int
    advice_seconds: float = 0.0
    predicted_spmv: float | None = None
    predicted_conversion: float | None = None
    rejected: dict[str, str] = field(default_factory=dict)
    shared: bool = False
    update_bytes: int = 0
    deterministic: bool = False

    def __str__(self) -> str:
        rejected = "".join(f"; not {label}: {why}" for label, why in self.rejected.items())
        updates = f" and {byte_text(self.update_bytes)} for updates" if self.update_bytes else ""
        cost = f"{byte_text(self.nbytes)}{updates}, converted in {1e3 * self.conversion_seconds:.3g} ms"
        return f"{self.label} ({self.reason}{rejected}): {cost}"


@dataclass(frozen=True)
class Candidate:
    """A format to try. predicted: seconds of an SpMV and of the conversion, None where nothing was predicted."""

    label: str
    reason: str
    predicted: tuple[float, float] | None = None


LAST = Candidate("csr-scalar", "plain CSR, because nothing can be predicted")


def like(name: str) -> str:
    """The name of a model; of ``auto``, that of this machine's first GPU.

    Raises UsageError for ``auto`` if there is no GPU or no model of it.
    """
    if name != "auto":
        return name
    if missing := cuda.why_unavailable():
        raise UsageError(f"the model of this machine's GPU cannot be chosen: {missing}")
    gpu = str(shared_device("cuda:0").properties()["device_name"])
    found = model.of_gpu(gpu)
    if found is None:
        raise UsageError(f"there is no model of {gpu}: name one of {', '.join(model.names())}")
    return found


VENDOR = Candidate("cusparse-csr-alg2", "cuSPARSE's algorithm that repeats its bits")


def deterministic(candidates: Iterable[Candidate], device: Device | None) -> Iterator[Candidate]:
    """Those of the candidates that are known to repeat their bits, or do with sum=fixed; then the two that hold any
    matrix: cuSPARSE's unless the device is no GPU, and plain CSR by a thread a row.
    """
    for candidate in candidates:
        label = repeating(candidate.label)
        if label is not None and candidate is not LAST:
            told = "" if label == candidate.label else f"; with sums in a fixed order, unlike {candidate.label}"
            yield replace(candidate, label=label, reason=f"{candidate.reason}{told}")
    yield from (VENDOR, LAST) if device is None or device.kind == "cuda" else (LAST,)


def named(text: str, device: Device, *, deterministic: bool = False) -> Candidate:
    """The one format that a text names. deterministic: one that is known to repeat its bits.

    Raises UsageError unless it is one that computes y = A x on the device.
    """
    if not isinstance(text, str):
        raise UsageError(f"format is a name such as csr5[sigma=16], not {text!r}")
    found = formats.parse(text)
    if len(found) != 1:
        raise UsageError(f"{text!r} names {len(found)} formats: an operator has one, such as csr5[sigma=16]")
    ((cls, params),) = found
    if cls.op != Format.op:
        raise UsageError(f"{cls.key} computes {cls.op}, and an operator needs y = A x with a dense x")
    if device.kind not in cls.devices:
        raise UsageError(f"{cls.key} runs on {' and '.join(cls.devices)} only, and {device.name} is none")
    label = formats.label(cls, params)
    if deterministic and not repeats(label):
        instead = f": take {fixed}" if (fixed := repeating(label)) else ""
        raise UsageError(f"{label} is not known to give the same bits in every product{instead}")
    return Candidate(label, "as named")


def advised(a: Csr, device: Device, spmvs: float, max_bytes: int | None = None) -> Iterator[Candidate]:
    """Formats for a matrix in the device's memory that it can run, from the advised one on, and csr-scalar last.

    They are those of `auto`, in its order, unless the products take so long that advice on the host is worth its time.
    The model of that is the device's GPU's, MODEL if there is none.

    max_bytes: the largest footprint of a format of the advice, at most a quarter of the memory that is free.
    """
    if a.nnz:
        name = model.of_gpu(device.limits.name) or MODEL
        known = model.loaded(name)
        if choosing.is_worth_its_time(known, a, spmvs):
            limit = device.memory_free() // FREE_SHARE
            limit = limit if max_bytes is None else min(limit, max_bytes)
            yield from candidates(choosing.advise(a.on(np), known, spmvs, limit), device, spmvs, name)
        else:
            with converting_for(device.limits):
                labels = quick.ranked(a, spmvs)
            for label in labels:
                yield Candidate(label, f"the choice of auto for {spmvs:,.10g} SpMVs and the conversion")
    yield LAST


def both_ways(a: Csr, device: Device, of: Callable[[Csr], Iterable[Candidate]]) -> Iterator[Candidate]:
    """Two copies for products with A and with A^T: the candidates for both matrices in turn. of: those of a matrix.

    a: in the device's memory.
    """
    with converting_for(device.limits):
        flipped = two_copies.transposed(a)
    for first, second in zip_longest(of(a), of(flipped), fillvalue=LAST):
        label = pair_label(first.label, second.label)
        predicted = None
        if first.predicted and second.predicted:
            spmv, conversion = (x + y for x, y in zip(first.predicted, second.predicted, strict=True))
            predicted = spmv, conversion
        yield Candidate(label, f"A: {first.reason}; A^T: {second.reason}", predicted)


def pair_label(first: str, second: str) -> str:
    """The label of two copies: A in the first format and A^T in the second."""
    (one, own), (two, theirs) = quick.parsed(first), quick.parsed(second)
    cls = formats.get(f"{one.key}{two_copies.PLUS}{two.key}")
    params = {f"a.{name}": value for name, value in own.items()}
    return formats.label(cls, params | {f"t.{name}": value for name, value in theirs.items()})


def candidates(
    advice: choosing.Advice, device: Device | None, spmvs: float, device_like: str = MODEL
) -> Iterator[Candidate]:
    """The formats of an advice that a device can run, the advised one first; without a device all of them."""
    for expected in dict.fromkeys([advice.choice, *advice.ranked]):
        if device is not None and device.kind not in formats.parse(expected.label)[0][0].devices:
            continue
        reason = f"the least time predicted for {spmvs:,.10g} products and the conversion on a GPU like {device_like}"
        if advice.out_of_range and expected == advice.choice:
            reason = f"the fallback, because the matrix is unlike all of the training: {'; '.join(advice.out_of_range)}"
        yield Candidate(expected.label, reason, (expected.spmv, expected.conversion))


def convert(label: str, a: Csr, device: Device, max_bytes: int | None = None) -> tuple[Format, float]:
    """A matrix in the device's memory in a format, and the seconds that it took.

    Raises Skip where the format cannot hold it, or would take more than `max_bytes`; OutOfDeviceMemory.
    """
    cls, params = quick.parsed(label)
    most = device.default_max_bytes if max_bytes is None else max_bytes
    began = time.perf_counter()
    with converting_for(device.limits):
        if LARGER * a.nbytes > most:
            fmt = cls.from_csr(a, max_bytes=max_bytes, **params)
        else:
            try:
                fmt = cls.converted(a, **params)
            except MemoryError as error:
                raise OutOfDeviceMemory(str(error)) from error
            refuse_size(fmt.nbytes, most, a)
    device.synchronize()
    return fmt, time.perf_counter() - began


def choose(
    a: Csr,
    device: Device,
    candidates: Iterable[Candidate],
    spmvs: float,
    check: Callable[[Format], None],
    max_bytes: int | None = None,
) -> tuple[Format, Choice]:
    """The matrix in the first candidate that can be converted and that `check` accepts, with the choice.

    a: in the device's memory.

    max_bytes: what the format may take at most, a quarter of the free memory if None.

    Raises what the candidate itself raises if there is one, SpmvbenchError with every reason if there are several.
    """
    rejected: dict[str, str] = {}
    reasons: list[Exception] = []
    began = time.perf_counter()
    for candidate in candidates:
        advice_seconds = time.perf_counter() - began
        try:
            fmt, seconds = convert(candidate.label, a, device, max_bytes)
            check(fmt)
        except (Skip, OutOfDeviceMemory) as error:
            rejected[candidate.label] = str(error)
            reasons.append(error)
            continue
        spmv, conversion = candidate.predicted or (None, None)
        return fmt, Choice(
            candidate.label,
            dict(fmt.params),
            candidate.reason,
            spmvs,
            seconds,
            fmt.nbytes,
            advice_seconds,
            spmv,
            conversion,
            rejected,
        )
    if len(reasons) == 1:
        raise reasons[0]
    told = "; ".join(f"{label}: {why}" for label, why in rejected.items())
    raise SpmvbenchError(f"no format can hold this matrix on {device.name}: {told}")


class Placing:
    """A check, as `choose` takes it, that also finds where the format stores the entries of the matrix: `found`.

    It raises Skip for a format in which values decide what is stored.
    """

    found: Places

    def __init__(self, a: Csr, device: Device, check: Callable[[Format], None]):
        self._a, self._device, self._check = a, device, check

    def __call__(self, fmt: Format) -> None:
        """Check a format."""
        self._check(fmt)
        try:
            with converting_for(self._device.limits):
                found = places(fmt, self._a)
        except MemoryError as error:
            raise OutOfDeviceMemory(str(error)) from error
        if found is None:
            raise Skip(f"values decide what {fmt.key} stores, and it cannot be updated")
        self.found = found

    def own(self, fmt: Format) -> Format:
        """The format with arrays of values of its own, which are no array of the matrix that it was converted from."""
        return fmt.with_arrays(lambda name, array: array.copy() if name in self.found.moves else array)
