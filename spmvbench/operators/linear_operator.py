"""A matrix as a linear operator that NumPy, CuPy and their solvers take: `operator` makes one."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cache, cached_property, partial
from itertools import tee
from typing import Any
from weakref import WeakSet, ref

import numpy as np
from scipy.sparse.linalg import LinearOperator

from spmvbench import formats
from spmvbench.devices import Device, DeviceFault, shared_device
from spmvbench.devices.cuda import has_work
from spmvbench.devices.foreign import check_vector, current_stream, given, given_out, moved
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Call, Csr, Format, Launch, Loop, Skip, single_steps
from spmvbench.formats.arrays import Array, array_module, is_sparse, ordinal, require_finite
from spmvbench.formats.conversion import sound
from spmvbench.formats.determinism import adds_once, repeats
from spmvbench.formats.multivector import MOST
from spmvbench.formats.ordered import Ordered
from spmvbench.formats.refilling import Places
from spmvbench.operators import format_choice, transposing
from spmvbench.operators.binding import Bound, CudaBinder, Pairs, binder
from spmvbench.operators.format_choice import Candidate, Choice, Placing
from spmvbench.programs.using import use
from spmvbench.runner import arguments

ALIGNMENT = 16  # bytes: the widest load of x or store of y in a kernel


class _NoArray:
    """The array type of a device without a fast path: no array is of it."""


def operator(
    A: Any,
    spmvs: float = 10_000,
    format: str | None = None,
    device: str | Device | None = None,
    *,
    dtype: Any = None,
    max_bytes: int | str | None = None,
    updatable: bool = False,
    deterministic: bool = False,
    pair: bool = False,
    program: str | os.PathLike[str] | None = None,
) -> Operator:
    """Makes a linear operator of a matrix: chooses the format, converts the matrix, and compiles the kernels.

    A: a sparse matrix of SciPy, CuPy or pydata/sparse, a Csr, a matrix in a format, a spec such as ``pde:100``, a name
    such as ``HB/1138_bus``, or a file.
    spmvs: how many products it will be used for; they pay for the conversion. format: a format such as
    ``csr5[sigma=16]``; without it, the advice chooses. device: ``cuda:0``, ``emulated`` or an open device; without it,
    the GPU that holds A, else ``cuda:0`` if it can be used, else ``emulated``. dtype: float64 or float32; without it,
    that of A's values, or float64 for integers. max_bytes: what the stored arrays may take on the device, those of `T`
    included, a number or for example ``"2GB"``; without it, a quarter of the memory that is free when each of them is
    converted.

    program: a program in place of a format, such as ``./libmine.so[tile=8]`` or a Python file (docs/programs.md).
    What needs the entries back, such as `T` of a program that does not multiply with A^T, raises NotImplementedError
    where it does not give them.

    updatable: whether `Operator.update` is to give it other values. The advice then leaves out formats in which values
    decide what is stored, and the operator keeps where each entry goes: mostly 3 bytes for each.

    deterministic: whether every product with the same x has the same bits, of this operator and of `T`: the advice
    then chooses among the formats that configs/determinism.csv knows to repeat theirs, cuSPARSE's ALG2 after them.

    pair: whether it will be used for as many products with A^T as with A, `T`. The advice then chooses for both
    together: two copies, or on a GPU one from whose arrays both products are faster. A format with a plus, such as
    ``irregular+csr-lanes``, is two copies.

    Raises UsageError for a format that does not exist, cannot run there, or is not known to be deterministic if it has
    to be, TypeError for anything that is not a real sparse matrix, Skip if a named format cannot hold the matrix,
    SpmvbenchError if no format can, and for entries that are not finite.
    """
    spmvs = arguments.number("spmvs", spmvs, 1)
    max_bytes = None if max_bytes is None else arguments.size(max_bytes)
    if program is not None:
        if format is not None:
            raise UsageError(f"an operator has a format or a program, not both: {format} and {program}")
        format = ",".join(use([str(program)]))
    if isinstance(A, Format):
        if format is not None or dtype is not None or updatable:
            raise UsageError(f"the matrix is in a format already, {A.key}: name no other, no dtype and no updates")
        label = formats.label(type(A), dict(A.params))
        opened = opened_for(device, A)
        format_choice.named(label, opened, deterministic=deterministic)  # refuses what is no product
        if A.xp is not opened.xp:
            raise UsageError(f"{A.key} is held by {A.xp.__name__}, and {opened.name} works on {opened.xp.__name__}")
        if not all(A.xp.isfinite(array).all() for array in A.arrays().values() if array.dtype == A.value_dtype):
            raise SpmvbenchError(f"stored values are not finite in {A.value_dtype}")
        choice = Choice(label, dict(A.params), "as given", spmvs, 0.0, A.nbytes, deterministic=deterministic)
        return Operator(A, choice, opened, max_bytes)
    held = real_csr(A, dtype)
    opened = opened_for(device, held)
    a = held.on(opened.xp)
    flags = {"updatable": updatable, "deterministic": deterministic}
    if format is not None:
        named = format_choice.named(format, opened, deterministic=deterministic)
        return build(a, opened, [named], spmvs, max_bytes, **flags)

    def advised(a: Csr) -> Iterable[Candidate]:
        found = format_choice.advised(a, opened, spmvs, max_bytes)
        return format_choice.deterministic(found, opened) if deterministic else found

    if pair:
        return _of_pair(a, opened, advised, spmvs, max_bytes, **flags)
    return build(a, opened, advised(a), spmvs, max_bytes, **flags)


def _of_pair(
    a: Csr,
    device: Device,
    advised: Callable[[Csr], Iterable[Candidate]],
    spmvs: float,
    max_bytes: int | None,
    **flags: bool,
) -> Operator:
    """An operator for products with A and A^T. advised: the candidates for y = A x. Raises as `build`."""
    of_a, again = tee(advised(a))

    def fastest(matrix: Csr) -> Iterable[Candidate]:
        found = again if matrix is a else advised(matrix)
        # In most of those that are timed values decide what is stored, and sums are not the same every time.
        return found if any(flags.values()) else transposing.with_timed(matrix, device, spmvs, max_bytes, found)

    @cache
    def two() -> Operator:
        return build(a, device, format_choice.both_ways(a, device, fastest), spmvs, max_bytes, **flags)

    sharing = (each for each in of_a if formats.parse(each.label)[0][0].transposes())
    with suppress(Skip, SpmvbenchError):  # no kernel for A^T, or not one that the checks take
        one = build(a, device, sharing, spmvs, max_bytes, **flags)
        if transposing.is_paired(one.format, device, spmvs, lambda: two().format):
            return one
    return two()


def real_csr(A: Any, dtype: Any = None) -> Csr:
    """Canonical CSR of what `operator` takes, of float64 or float32. Raises TypeError, UsageError, SpmvbenchError."""
    if isinstance(A, str | os.PathLike) or isinstance(getattr(A, "group", None), str):  # or what `search` returns
        from spmvbench.matrices import load

        A = load(A)
    if getattr(getattr(A, "dtype", None), "kind", "") == "c":
        raise TypeError(f"the matrix is {A.dtype}: make an operator of A.real and another one of A.imag")
    checked = sound(A)
    a = Csr.of(A) if checked is None else checked
    if checked is not None and dtype is None:
        return a
    if dtype is not None:
        with np.errstate(over="ignore"):  # named below
            a = a.astype(_real_type(dtype))
    require_finite(a)
    return a


def _real_type(given: Any) -> np.dtype[Any]:
    """Float64 or float32, by NumPy's names or f64 and f32. Raises UsageError."""
    try:
        found = np.dtype({"f64": "float64", "f32": "float32"}.get(given, given) if isinstance(given, str) else given)
    except TypeError:
        found = None
    if found not in (np.float32, np.float64):
        raise UsageError(f"dtype is float64 or float32, not {given if found is None else found}")
    return found


def opened_for(device: str | Device | None, held: Csr | Format) -> Device:
    """The device that is named; without a name the GPU that holds the matrix, else what ``auto`` stands for."""
    if isinstance(device, Device):
        return device
    if device is None and held.xp is not np:
        array = held.values if isinstance(held, Csr) else next(iter(held.arrays().values()))
        device = f"cuda:{ordinal(array)}"
    return shared_device(device or "auto")


def build(
    a: Csr,
    device: Device,
    candidates: Iterable[Candidate],
    spmvs: float,
    max_bytes: int | None = None,
    *,
    updatable: bool = False,
    deterministic: bool = False,
) -> Operator:
    """An operator in the first of the candidates that can hold the matrix and whose kernels compile.

    a: in the device's memory. max_bytes, updatable, deterministic: as `operator` takes them. Raises as
    `format_choice.choose`.
    """
    check = _check_on(device, deterministic=deterministic)
    if not updatable:
        fmt, choice = format_choice.choose(a, device, candidates, spmvs, check, max_bytes)
        return Operator(fmt, replace(choice, deterministic=True) if deterministic else choice, device, max_bytes)
    places = Placing(a, device, check)
    fmt, choice = format_choice.choose(a, device, candidates, spmvs, places, max_bytes)
    choice = replace(choice, update_bytes=places.found.nbytes, deterministic=deterministic)
    return Operator(places.own(fmt), choice, device, max_bytes, places.found)


def _check_on(device: Device, *, deterministic: bool = False) -> Callable[[Format], None]:
    """Compiles now, so that the first product does not, and a library may refuse the case here.

    deterministic: the check raises Skip for what is not known to repeat its bits, or whose kernels add by atomics.
    """

    def check(fmt: Format) -> None:
        label = formats.label(type(fmt), dict(fmt.params)) if deterministic and fmt.key else ""
        if label and not repeats(label):
            raise Skip(f"{label} is not known to give the same bits in every product")
        x, y = (device.xp.empty(n, fmt.value_dtype) for n in reversed(fmt.shape))
        launches = Ordered(fmt).launches(x, y)
        device.prepare(launches)
        if deterministic and label not in adds_once() and _adds_by_atomics(launches, device):
            raise Skip("kernels add by atomics, in no fixed order")

    return check


def _adds_by_atomics(launches: Iterable[Launch | Call | Loop], device: Device) -> bool:
    kernels = [step for step in single_steps(launches) if isinstance(step, Launch) and has_work(step)]
    return any(map(device.float_atomics, kernels))


class Operator(LinearOperator):  # type: ignore[misc]
    """A real matrix in a format on a device, as a linear operator: ``op @ x`` is A x.

    It is a scipy.sparse.linalg.LinearOperator; solvers of cupyx.scipy.sparse.linalg that take operators take it too.
    `operator` makes one.

    shape: (rows, cols). dtype: float64 or float32, of x and y. device: where it runs. format: the matrix in its format.
    choice: which format, why, and what it cost.

    Not thread-safe, and for one stream at a time: calls share scratch memory. Use one operator a thread or stream, or
    wait for one stream before using another. The format may share arrays with the matrix that it was made of: a matrix
    that is changed afterwards gives undefined products; make a new operator, or an updatable one.

    A pair of x and y is bound to its addresses at its first product, and up to 16 pairs are kept. A CUDA graph that
    captured a product holds memory of the operator: keep the operator as long as the graph.

    It can be copied and pickled: the copy works on the device of the same name, of the process that it is made in.
    """

    def __init__(
        self,
        fmt: Format,
        choice: Choice,
        device: Device,
        max_bytes: int | None = None,
        places: Places | None = None,
    ):
        # NumPy has one object for each type; an array that was read or pickled may have another, equal one.
        super().__init__(dtype=np.dtype(fmt.value_dtype.type), shape=fmt.shape)
        self.device, self.choice, self._max_bytes, self._places = device, choice, max_bytes, places
        self._updatable = places is not None
        self._format: Format | None = fmt
        self._ordered = Ordered(fmt)
        self._binder = binder(device)
        self._pairs = Pairs(device)
        self._used = self._pairs.used
        self._factors: dict[tuple[int, int, bool], Callable[[int, float, float], None]] = {}
        self._buffers: dict[str, Array] = {}
        self._transposed: Operator | None = None
        self._kept: dict[Any, Any] = {}
        self._forked = False
        self._adds = self._ordered.natural
        self._alone: set[tuple[int, str]] = set()  # how many vectors are multiplied one at a time, and how they lie
        self._warned = False
        # What the fast path of `matvec` looks at; pairs of addresses that were found to be aligned and apart.
        self._accepted: set[tuple[int, int]] = set()
        # Bound pairs by the identity of x and y, as weak references, with their key among the pairs.
        self._known: dict[tuple[int, int], tuple[Any, Any, tuple[int, int], Bound]] = {}
        self._rows, self._cols = fmt.shape
        self._y_shape = (self._rows,)
        self._array: Any = _NoArray
        self._errors: tuple[type[Exception], ...] = ()
        if isinstance(self._binder, CudaBinder):
            _on_gpus.add(self)
            self._array = device.xp.ndarray
            self._ordinal, self._current = self._binder.ordinal, self._binder.current
            self._get_device = device.xp.cuda.runtime.getDevice
            self._errors = (device.xp.cuda.driver.CUDADriverError, device.xp.cuda.runtime.CUDARuntimeError)
        device.synchronize()  # from here on every stream may use the arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (
            self.format,
            self.choice,
            self.device.name,
            self._max_bytes,
            self._places if self._updatable else None,
        )

    def __repr__(self) -> str:
        state = self.choice.label if self._format is not None else "freed"
        return f"<{self._rows}x{self._cols} Operator of {self.dtype} on {self.device.name}: {state}>"

    @property
    def format(self) -> Format:
        """The matrix in its format. Raises UsageError after `free`, and of a GPU in a forked process."""
        if self._forked:
            raise UsageError("CUDA cannot be used after a fork: start processes by spawn, or make the operator in them")
        if self._format is None:
            raise UsageError("this operator was freed: make a new one")
        return self._format

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that the format stores, shared or not (`choice.shared`); 0 after `free`."""
        return 0 if self._format is None else self._format.nbytes

    def launches(self, x: Array, y: Array) -> list[Launch | Call | Loop]:
        """What one y = A x launches, for solvers that add launches of their own.

        x: (cols,), y: (rows,), both contiguous, of the operator's type, on its device, in the matrix's order.
        """
        self.format  # noqa: B018 - raises if it was freed
        return self._ordered.launches(x, y)

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once and kept until `free`: vectors and graphs of a solver, for its next call."""
        self.format  # noqa: B018 - raises if it was freed
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    @cached_property
    def _diagonal(self) -> Array:
        row, col, values = self.format.to_coo()
        on = row == col
        diagonal = self.device.xp.zeros(min(self.shape), self.dtype)
        diagonal[row[on]] = values[on]
        return diagonal

    def diagonal(self) -> Array:
        """The entries on the main diagonal, (min(rows, cols),), on the device; 0 where there is none."""
        return self._diagonal

    def matvec(self, x: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The product alpha A x + beta y, enqueued on the current stream.

        x: (cols,) or (cols, 1), an array of NumPy or CuPy, or what has `__cuda_array_interface__` or `__dlpack__`. out:
        the y, (rows,) or (rows, 1), of the same library and of the operator's type, contiguous, without overlap with x;
        without it, a new one. beta: what y is multiplied by; 0 does not read it, and alpha 0 reads neither A nor x.

        Returns y, `out` if it was given. With `out` on a GPU and a pair of arrays that was used before, nothing is
        allocated or waited for, but for the fourth time, which makes a CUDA graph; the call can be captured in another.
        An x that is not contiguous, is of another real type or lies on an address that is no multiple of 16 bytes is
        copied, with one RuntimeWarning for each operator. Arrays of NumPy are copied to the GPU and back.

        Raises ValueError for another length, memory that overlaps and an x of another GPU, TypeError for complex x and
        an `out` of another type or library, UsageError for factors that are not finite, for beta without `out`
        and after `free`, DeviceFault if the device fails.
        """
        if alpha == 1.0 and beta == 0.0:
            known = self._known.get((id(x), id(out)))
            # The same objects: of what was checked before, only their shapes can have changed.
            if known is not None and known[0]() is x and known[1]() is out and self._get_device() == self._ordinal:
                self._run(known[2], known[3])
                return out
        if type(x) is self._array and self._get_device() == self._ordinal:
            made = out is None and x.ndim == 1 and not beta
            if made:
                out = self._array(self._y_shape, self.dtype)
            if self._fit(x, out):
                key = (x.data.ptr, out.data.ptr)
                if alpha == 1.0 and beta == 0.0:
                    found = self._pairs.get(key)
                    if found is not None:
                        self._run(key, found)
                        if not made:
                            self._know(x, out, key, found)
                        return out
                elif key in self._accepted and _is_plain(alpha) and _is_plain(beta):
                    self._enqueue(x, out, alpha, beta)
                    return out
        return self._product(x, out, alpha, beta)

    def _fit(self, x: Any, out: Any) -> bool:
        """Whether kernels can use them as they are, unless an address is not aligned or they overlap."""
        fit: bool = (
            type(out) is self._array
            and x.size == self._cols
            and out.size == self._rows
            and x.dtype is self.dtype
            and out.dtype is self.dtype
            and x.ndim == 1
            and out.ndim == 1
            and x._c_contiguous
            and out._c_contiguous
        )
        return fit

    def _run(self, key: tuple[Any, ...], bound: Bound) -> None:
        """Enqueue a pair that was bound before, on the current stream of the operator's GPU."""
        self._used(key)
        try:
            bound.run(self._current(self._ordinal).ptr)
        except self._errors as error:
            raise DeviceFault(str(error)) from error

    def _product(self, x: Any, out: Any, alpha: float, beta: float) -> Any:
        """As `matvec`, for whatever is given."""
        self.format  # noqa: B018 - raises if it was freed
        alpha, beta = arguments.number("alpha", alpha), arguments.number("beta", beta)
        if out is None and beta:
            raise UsageError("beta is what y is multiplied by: give y as out")
        with self._on_stream(x):
            array, restore = given(x)
            self._check_vector("x", array, self._cols)
            y = None
            if out is not None:
                y = given_out(out)
                self._check_vector("out", y, self._rows)
                self._check_memory(y, array)
            found = self._computed(array, y, alpha, beta)
            if out is not None:
                return out
            return restore(found if array.ndim == 1 else found.reshape(self._rows, 1))

    def _know(self, x: Any, out: Any, key: tuple[int, int], bound: Bound) -> None:
        """Let the next product of these two arrays skip the checks of their types and lengths."""
        if len(self._known) >= 4 * self._pairs.most:
            self._known.clear()
        self._known[id(x), id(out)] = ref(x), ref(out), key, bound

    def _on_stream(self, x: Any) -> AbstractContextManager[Any]:
        """The operator's GPU as the current one, and the stream of x's library as CuPy's current stream."""
        if not isinstance(self._binder, CudaBinder):
            return nullcontext()
        cuda = self.device.xp.cuda
        stream = current_stream(x, self._ordinal)
        if stream is not None:
            return cuda.Stream.from_external(stream)  # type: ignore[no-any-return]
        return cuda.Device(self._ordinal)  # type: ignore[no-any-return]

    def _check_vector(self, name: str, array: Array, size: int) -> None:
        check_vector(name, array, size)
        on_gpu = array_module(array) is not np and isinstance(self._binder, CudaBinder)
        if on_gpu and ordinal(array) != self._ordinal:
            raise ValueError(f"{name} is on cuda:{ordinal(array)}, the operator on {self.device.name}")

    def _check_memory(self, y: Array, x: Array) -> None:
        if array_module(y) is not array_module(x):
            raise TypeError(
                f"out is of {array_module(y).__name__} and x of {array_module(x).__name__}: use one library"
            )
        if y.dtype != self.dtype:
            raise TypeError(f"out is an array of {y.dtype}, the operator gives {self.dtype}")
        if not y.flags.c_contiguous and not (y.ndim == 2 and y.flags.f_contiguous):
            raise ValueError("out is not contiguous")
        if array_module(y) is np and not y.flags.writeable:
            raise ValueError("out is read-only")
        if array_module(y).may_share_memory(x, y):
            raise ValueError("out overlaps x")

    def _computed(self, x: Array, y: Array | None, alpha: float, beta: float) -> Array:
        """Alpha A x + beta y in y or in a new array of x's library."""
        of_x, xp = array_module(x), self.device.xp
        local_x = self._local_x(x.reshape(self._cols))
        if of_x is xp and (y is None or self._is_aligned(y)):
            local_y = xp.empty(self._rows, self.dtype) if y is None else y.reshape(self._rows)
            self._enqueue(local_x, local_y, alpha, beta)
            if y is not None and local_x is not self._buffers.get("x"):
                if len(self._accepted) >= 4 * self._pairs.most:
                    self._accepted.clear()
                self._accepted.add((self._binder.address(local_x), self._binder.address(local_y)))
            return local_y
        # y is in the other memory, or no kernel may write to its address.
        local_y = self._buffer("y", self._rows)
        if y is not None and beta:
            local_y[...] = moved(y.reshape(self._rows), xp)
        self._enqueue(local_x, local_y, alpha, beta)
        found = moved(local_y, of_x)
        if y is None:
            return found.copy() if found is local_y else found
        y.reshape(self._rows)[...] = found
        return y

    def _local_x(self, x: Array) -> Array:
        """X on the operator's device, contiguous, aligned and of its type; copied where it is not."""
        here, fits = array_module(x) is self.device.xp, x.dtype == self.dtype
        if here and fits and x.flags.c_contiguous and self._is_aligned(x):
            return x
        if here or not fits:  # else it has to move anyway
            self._warn(x)
        local = self._buffer("x", self._cols)
        local[...] = moved(x, self.device.xp)
        return local

    def _is_aligned(self, array: Array) -> bool:
        return not array.size or self._binder.address(array) % ALIGNMENT == 0

    def _warn(self, x: Array) -> None:
        if not self._warned:
            self._warned = True
            what = f"of {x.dtype}" if x.dtype != self.dtype else "not contiguous or not aligned to 16 bytes"
            warnings.warn(
                f"x is {what}: it is copied to a contiguous array of {self.dtype} at each product (told once)",
                RuntimeWarning,
                stacklevel=6,
            )

    def _buffer(self, name: str, size: int) -> Array:
        """A vector of the operator's own on the device, made once."""
        if name not in self._buffers:
            self._buffers[name] = self.device.xp.empty(size, self.dtype)
        return self._buffers[name]

    def _enqueue(self, x: Array, y: Array, alpha: float, beta: float) -> None:
        """Y = alpha A x + beta y on the current stream, of vectors that kernels can use as they are."""
        try:
            stream = self._binder.stream()
            if not alpha:  # neither A nor x is read, as in BLAS: what is not finite in them spoils nothing
                if not beta:
                    y.fill(0)
                elif beta != 1:
                    self._scaled_add(y, y, keep=False)(stream, beta, 0.0)
            elif not beta:
                self._bound(x, y).run(stream)
                if alpha != 1:
                    self._scaled_add(y, y, keep=False)(stream, alpha, 0.0)
            elif self._adds and alpha == beta == 1 and (bound := self._bound_add(x, y)) is not None:
                bound.run(stream)
            else:
                product = self._buffer("product", self._rows)
                self._bound(x, product).run(stream)
                self._scaled_add(product, y, keep=True)(stream, alpha, beta)
        except self._errors as error:
            raise DeviceFault(str(error)) from error

    def _pair(self, key: tuple[Any, ...], bind: Callable[[], Bound]) -> Bound:
        """The bound pair of a key, most recently used now; `bind` makes one that is not kept."""
        found = self._pairs.get(key) or bind()
        self._used(key)
        return found

    def _bound(self, x: Array, y: Array) -> Bound:
        """The bound pair for y = A x."""
        key = (self._binder.address(x), self._binder.address(y))
        return self._pair(key, lambda: self._bind(key, (x, y), self._ordered.launches))

    def _bound_add(self, x: Array, y: Array) -> Bound | None:
        """The bound pair for y += A x; None if the format has no kernel that adds."""
        key = (self._binder.address(x), self._binder.address(y), "add")
        try:
            return self._pair(key, lambda: self._bind(key, (x, y), self._repeating(self.format.accumulate)))
        except (NotImplementedError, Skip):
            self._adds = False
            return None

    def _repeating(self, launches: Callable[[Array, Array], Sequence[Any]]) -> Callable[[Array, Array], Sequence[Any]]:
        """The launches, which raise Skip if they may not repeat their bits and this operator has to."""

        def checked(x: Array, y: Array) -> Sequence[Any]:
            found = launches(x, y)
            if self.choice.deterministic and _adds_by_atomics(found, self.device):
                raise Skip("kernels add by atomics, in no fixed order")
            return found

        return checked

    def _bind(
        self,
        key: tuple[Any, ...],
        vectors: Sequence[Array],
        launches: Callable[..., Sequence[Any]],
        arrays: Iterable[Array] = (),
    ) -> Bound:
        """Bind launches to the addresses of vectors, which the pair does not keep alive. arrays: what else they use."""
        views = [self._binder.view(at, len(v), self.dtype) for at, v in zip(key, vectors, strict=False)]
        known = [*self.format.arrays().values(), *self._ordered.arrays(), *arrays, *views]
        bound = self._binder.bind(lambda: launches(*views), known)
        self._known.clear()  # a pair of it may be dropped
        self._pairs.add(key, bound, capturing=self._binder.capturing())
        return bound

    def _start(self, bound: Bound) -> None:
        """Enqueue what was bound on the current stream. Raises DeviceFault."""
        try:
            bound.run(self._binder.stream())
        except self._errors as error:
            raise DeviceFault(str(error)) from error

    def _scaled_add(self, product: Array, y: Array, *, keep: bool) -> Callable[[int, float, float], None]:
        addresses = self._binder.address(product), self._binder.address(y)
        key = (*addresses, keep)
        if key not in self._factors:
            if len(self._factors) >= 2 * self._pairs.most:
                self._factors.clear()
            views = (self._binder.view(at, self._rows, self.dtype) for at in addresses)
            self._factors[key] = self._binder.scaled_add(*views, keep=keep)
        return self._factors[key]

    def update(self, values: Any) -> None:
        """Give the matrix other values, and `T` too, enqueued on the current stream. It needs ``updatable=True``.

        values: (entries,), of those that A had, in the order of canonical CSR: by rows, ascending columns in a row; an
        array as `matvec` takes x. Bound pairs, and CUDA graphs that captured a product, multiply with them from then
        on. With an array on the GPU that was used before, contiguous and of the operator's type, nothing is allocated
        or waited for, and the call can be captured. Values are not checked: what is not finite spoils its row.

        Raises UsageError if the operator was made without ``updatable=True`` and after `free`, ValueError and TypeError
        for values as `matvec` for x, TypeError for a matrix, DeviceFault if the device fails.
        """
        self.format  # noqa: B018 - raises if it was freed
        places = self._places
        if places is None or not self._updatable:
            raise UsageError("this operator takes no values: make one by operator(A, updatable=True), and update that")
        if is_sparse(values) or len(getattr(values, "shape", (0,))) > 1 < values.shape[1]:
            raise TypeError(
                f"update takes the values alone, ({places.size},) in the order of canonical CSR, such as A.data of a"
                " csr_array whose indices are sorted; a matrix of another pattern needs another operator"
            )
        with self._on_stream(values):
            array, _ = given(values)
            if array.shape not in ((places.size,), (places.size, 1)):
                raise ValueError(
                    f"values has the shape {array.shape}, and the matrix has {places.size:,} entries in canonical CSR, "
                    "in which duplicates are one entry"
                )
            self._check_vector("values", array, places.size)
            local = array.reshape(places.size)
            if array_module(array) is not self.device.xp or array.dtype != self.dtype or not local.flags.c_contiguous:
                local = self._buffer("values", places.size)
                local[...] = moved(array.reshape(places.size), self.device.xp)
            for updated in (self, self._transposed):
                if updated is not None:
                    updated._refill(local)

    def _refill(self, values: Array) -> None:
        """Put the values of all entries, a vector on the device, where the format stores them."""
        self.__dict__.pop("_diagonal", None)
        self._kept.clear()  # solvers keep what they have made of the diagonal
        places, fmt = self._places, self.format
        if places is None:  # shares the arrays of the operator that it is the transposed of
            return
        key = (self._binder.address(values), "values")
        self._start(self._pair(key, lambda: self._bind(key, (values,), partial(places.launches, fmt), places.arrays())))

    def matmat(self, X: Any, out: Any = None) -> Any:
        """The product A X, enqueued on the current stream: up to 64 columns at once if the format's kernels can, else
        one after the other.

        X: (cols, k), an array as `matvec` takes x. out: the Y, (rows, k), of the same library and of the operator's
        type, contiguous by rows or by columns, without overlap with X; without it, a new one by rows. Nothing is
        copied if both are contiguous by rows, or both by columns, and aligned. Raises as `matvec`.
        """
        self.format  # noqa: B018 - raises if it was freed
        columns, restore = given(X)
        if columns.ndim != 2 or columns.shape[0] != self._cols:
            raise ValueError(f"X has the shape {columns.shape}, this product needs ({self._cols}, k)")
        with self._on_stream(X):
            count = columns.shape[1]
            if count:
                self._check_vector("X", columns[:, 0], self._cols)
            if out is None:
                found = array_module(columns).empty((self._rows, count), self.dtype)
            else:
                found = given_out(out)
                if found.shape != (self._rows, count):
                    raise ValueError(f"out has the shape {found.shape}, this product needs ({self._rows}, {count})")
                self._check_memory(found, columns)
            for first in range(0, count, MOST):
                some = slice(first, first + MOST)
                self._multiply_several(columns[:, some], found[:, some])
            return restore(found) if out is None else out

    def _multiply_several(self, columns: Array, found: Array) -> None:
        """Put A X for a few columns into `found`, by one product of several vectors or by one for each."""
        k = columns.shape[1]
        by_column = all(v.flags.f_contiguous and not v.flags.c_contiguous for v in (columns, found))
        given_x, given_y = (columns.T, found.T) if by_column else (columns, found)
        x, y = self._laid("X", given_x, read=True), self._laid("Y", given_y, read=False)
        bound = self._bound_several(x, y, k, "column" if by_column else "row") if k > 1 else None
        if bound is not None:
            self._start(bound)
            if array_module(found) is not self.device.xp or not array_module(y).may_share_memory(y, found):
                given_y[...] = moved(y.reshape(given_y.shape), array_module(found))
            return
        for j in range(k):
            # Copied, not to bind each column: they share one pair.
            x, y = self._buffer("x", self._cols), self._buffer("y", self._rows)
            x[...] = moved(columns[:, j], self.device.xp)
            self._enqueue(x, y, 1.0, 0.0)
            found[:, j] = moved(y, array_module(found))

    def _laid(self, name: str, given: Array, *, read: bool) -> Array:
        """The elements of X or Y one after the other, on the device: where they are, or in a buffer."""
        here = array_module(given) is self.device.xp
        if here and given.dtype == self.dtype and given.flags.c_contiguous and self._is_aligned(given):
            return given.reshape(-1)
        local = self._buffer(f"{name} of {given.size}", given.size)
        if read:
            local.reshape(given.shape)[...] = moved(given, self.device.xp)
        return local

    def _bound_several(self, x: Array, y: Array, k: int, layout: str) -> Bound | None:
        """The bound pair for Y = A X; None if the format multiplies one vector at a time."""
        key = (self._binder.address(x), self._binder.address(y), k, layout)
        if (k, layout) in self._alone:
            return None
        several = self._repeating(lambda x, y: self.format.multiplied(x, y, k, layout))
        try:
            return self._pair(key, lambda: self._bind(key, (x, y), several))
        except Skip:
            self._alone.add((k, layout))
            return None

    def dot(self, x: Any) -> Any:
        """A x for a vector, A X for a matrix; for another operator or a number the composed operator, as in SciPy."""
        if isinstance(x, LinearOperator) or np.isscalar(x):
            return super().dot(x)
        shape = x.shape if hasattr(x, "shape") else given(x)[0].shape
        if len(shape) > 2:
            raise ValueError(
                f"X has {len(shape)} dimensions, a product takes ({self._cols},) or ({self._cols}, k):"
                f" multiply X.reshape({self._cols}, -1)"
            )
        return self.matmat(x) if len(shape) == 2 and shape[1] != 1 else self.matvec(x)

    def __matmul__(self, x: Any) -> Any:
        if type(x) is self._array and x.ndim == 1:
            return self.matvec(x)
        return super().__matmul__(x)

    @property
    def T(self) -> Operator:  # noqa: N802 - as arrays and SciPy's operators name it
        """The transposed matrix as an operator of its own, made at the first use: see `transposing.chosen`.

        It shares the arrays of this operator, or it is a second copy in the format advised for it. Its `choice` says
        which, why, and what it cost.
        """
        if self._transposed is None:
            fmt, device = self.format, self.device
            limit = None if self._max_bytes is None else max(self._max_bytes - fmt.nbytes, 0)
            check = _check_on(device, deterministic=self.choice.deterministic)
            if self._places is None:
                made, choice = transposing.chosen(fmt, device, self.choice, limit, check)
                places = None
            else:
                made, choice, places = transposing.updated(fmt, self._places, device, self.choice, limit, check)
            choice = replace(choice, deterministic=self.choice.deterministic)
            found = Operator(made, choice, device, places=places)
            found._updatable = False  # its places are of the entries of this operator, which updates it
            found._transposed = self
            self._transposed = found
        return self._transposed

    H = T

    def rmatvec(self, x: Any, out: Any = None, alpha: float = 1.0, beta: float = 0.0) -> Any:
        """The product alpha A^T x + beta y by `T`; as `matvec`."""
        return self.T.matvec(x, out, alpha, beta)

    def rmatmat(self, X: Any, out: Any = None) -> Any:
        """The product A^T X by `T`; as `matmat`."""
        return self.T.matmat(X, out)

    def free(self) -> None:
        """Give back the format's memory and that of `T`. Products raise UsageError from then on."""
        transposed, self._transposed = self._transposed, None
        self._pairs.clear()
        self._accepted.clear()
        self._known.clear()
        self._factors.clear()
        self._buffers.clear()
        self._kept.clear()
        self._format = None
        self.__dict__.pop("_ordered", None)
        self.__dict__.pop("_diagonal", None)
        if transposed is not None:
            transposed._transposed = None
            transposed.free()

    # SciPy's own methods call these.
    def _matvec(self, x: Any) -> Any:
        return self.matvec(x)

    def _rmatvec(self, x: Any) -> Any:
        return self.rmatvec(x)

    def _matmat(self, X: Any) -> Any:
        return self.matmat(X)

    def _rmatmat(self, X: Any) -> Any:
        return self.rmatmat(X)

    def _transpose(self) -> Operator:
        return self.T

    _adjoint = _transpose


_on_gpus: WeakSet[Operator] = WeakSet()


def _after_fork() -> None:
    """Lead operators of GPUs, in a forked process, to the one sentence of `Operator.format`."""
    for forked in list(_on_gpus):
        forked._forked, forked._array = True, _NoArray
        forked._known.clear()


os.register_at_fork(after_in_child=_after_fork)


def _is_plain(factor: Any) -> bool:
    """Whether it is a number of Python's that float64 holds."""
    return type(factor) in (int, float) and abs(factor) <= sys.float_info.max


def _restored(fmt: Format, choice: Choice, device: str, max_bytes: int | None, places: Places | None) -> Operator:
    """The operator that was pickled or copied, on the device of that name in this process."""
    return Operator(fmt, choice, shared_device(device), max_bytes, places)
