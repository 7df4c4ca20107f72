"""What a storage format is: its arrays, its conversion, its decoding and the launches of one y = A x.

A format is one class in one module of a room of this folder. It knows nothing of devices, timing or reports.
"""

from __future__ import annotations

import inspect
import re
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Generic, ParamSpec, Self, TypeVar, cast, dataclass_transform, overload

import numpy as np

from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats.arrays import INT32_MAX, Array, ArrayModule, Csr, array_module, cdiv
from spmvbench.formats.kernels import constant

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`functools.cache` of a function of a format's class: mypy takes no class for hashable."""
    return cast(Callable[Arguments, Result], cache(function))


C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "f16",  # of include/spmv.cuh; stored values only, and also those of bf16: see `precision`
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint64": "unsigned long long",
    "uint32": "unsigned int",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
}


def ctype(array: Array | np.generic | np.dtype) -> str:
    """The CUDA C++ name of an array's (or dtype's) element type, for name expressions."""
    return C_TYPES[np.dtype(getattr(array, "dtype", array)).name]


def cbool(flag: bool) -> str:
    """A C++ bool, for name expressions."""
    return "true" if flag else "false"


class Skip(Exception):
    """A format cannot or should not hold a matrix. The reason is recorded with the row.

    needed_bytes: the bytes that it would have taken, where that is the reason. limit_bytes: what the user or the device
    allows, where that is less; such a case is measured once more is allowed.
    """

    def __init__(self, reason: str, needed_bytes: int | None = None, limit_bytes: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.needed_bytes, self.limit_bytes = needed_bytes, limit_bytes


class Struct(tuple[Any, ...]):
    """One argument of a launch that the kernel takes by value as a C++ struct: its members in order of declaration.

    Members are arrays, which the struct holds as pointers, and NumPy scalars. A kernel of more than 16 arguments takes
    some of them as a struct.
    """

    def packed(self, address: Callable[[Array], int]) -> np.ndarray:
        """The struct as C++ lays it out: an array of one element. address: of an array in the device's memory."""
        held = [member if isinstance(member, np.generic) else np.uint64(address(member)) for member in self]
        kind = np.dtype([(f"member{i}", member.dtype) for i, member in enumerate(held)], align=True)
        found = np.zeros(1, kind)
        found[0] = tuple(held)
        return found


def flat(args: Iterable[Any]) -> Iterator[Any]:
    """The arguments of a launch, the members of structs in place of the structs."""
    for arg in args:
        yield from arg if isinstance(arg, Struct) else (arg,)


@dataclass(frozen=True)
class Launch:
    """One kernel launch, described once for every device.

    source: a file of kernels/ (or the absolute path of one elsewhere). kernel: a name expression such as
    ``ell_spmv<double, 2>``; whatever changes the machine code is a template argument. grid, block: threads in up to
    three dimensions. args: arrays, NumPy scalars of the exact type that the kernel takes, and a `Struct` of such.
    shared_bytes: dynamic shared memory. part: as `in_part` names it. overlaps: as `after_zeros` sets it. A launch with
    an empty grid does nothing.
    """

    source: str
    kernel: str
    grid: int | tuple[int, ...]
    block: int | tuple[int, ...]
    args: tuple[Any, ...]
    shared_bytes: int = 0
    part: str = ""
    overlaps: bool = False


@dataclass(frozen=True)
class Call:
    """A vendor library's call in place of a launch: `function(stream)` enqueues the work on a CUDA stream handle.

    args: the arrays that it uses, its work buffer among them. part: as `in_part` names it. y: if `function` returns an
    array of its own instead of writing y, this is y. The host makes such a call anew for each product, no graph
    captures it, and the device copies the result to y.
    """

    name: str
    function: Callable[[int], Any]
    args: tuple[Any, ...]
    part: str = ""
    y: Array | None = None


@dataclass(frozen=True)
class Loop:
    """Steps that are repeated while `more`, one int32 in device memory, is not 0 after them: at least once.

    The device alone decides; no host answer is awaited where its graphs have loops. limit: how often at most, more
    than any matrix needs: a loop that goes on is a fault. part: as `in_part` names it.
    """

    steps: tuple[Launch | Call, ...]
    more: Array
    limit: int
    part: str = ""

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of all steps, and `more`."""
        return (*(arg for step in self.steps for arg in step.args), self.more)


Step = Launch | Call | Loop
AnyStep = TypeVar("AnyStep", bound=Step)


def after_zeros(zero: Launch, product: Launch) -> list[Launch]:
    """A launch that sets elements of y to zero, and one that may start while it runs, if the device can do that.

    product: its kernel calls `wait_for_previous` (include/overlap.cuh) before it stores or adds to y. zero: its kernel
    calls `let_next_start`; `zero_fill` and ``zero_cut_rows`` do. It saves most of the time between two launches, 0.5
    us on an H200, which is much for a small matrix.
    """
    return [zero, replace(product, overlaps=True)]


def single_steps(steps: Iterable[Step]) -> Iterator[Launch | Call]:
    """The steps in order, those of a loop once in its place."""
    for step in steps:
        yield from step.steps if isinstance(step, Loop) else (step,)


def only_kernels(steps: Iterable[Step]) -> list[Launch]:
    """The steps, all of them launches of kernels. Raises TypeError for a library's call and for a loop."""
    launches = []
    for step in steps:
        if not isinstance(step, Launch):
            raise TypeError(f"a {type(step).__name__} is no launch of a kernel")
        launches.append(step)
    return launches


def in_part(part: str, launches: Iterable[AnyStep]) -> list[AnyStep]:
    """The launches as a named part of the SpMV. The benchmark also times every part separately (kernel breakdown)."""
    return [replace(launch, part=part) for launch in launches]


def per_thread(n: int, block: int = 256) -> tuple[int, int]:
    """Grid and block for one thread per item."""
    return cdiv(n, block), block


ZEROS_EACH = constant("include/zero.cuh", "ZEROS_EACH")  # entries of y that a thread sets to zero


def zero_fill(y: Array) -> Launch:
    """The launch that sets y to zero, for kernels that add to it. It belongs to the format's time."""
    grid, block = per_thread(cdiv(len(y), ZEROS_EACH))
    return Launch("vector.cu", f"zero_fill<{ctype(y)}>", grid, block, (y, np.int32(len(y))))


Setting = TypeVar("Setting", bound=bool | int | float | str)


class Parameter(Generic[Setting]):
    """A typed setting of a format, written ``key[name=value]`` on the command line.

    The type is the default's: a truth value, a number below 2^63, or a text. Read from the class it is the Parameter
    itself, from an instance the value used. Raises UsageError for a value of another type, outside `choices`, or
    outside low..high.
    """

    def __init__(
        self,
        default: Setting,
        doc: str,
        *,
        choices: Sequence[Setting] = (),
        low: float | None = None,
        high: float | None = None,
    ):
        if not isinstance(default, bool | int | float | str):
            raise TypeError(f"the default of a parameter is a truth value, a number or a text, not {default!r}")
        self.default, self.doc, self.choices, self.low, self.high = default, doc, tuple(choices), low, high
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Format, owner: type) -> Setting: ...
    def __get__(self, instance: Format | None, owner: type | None = None) -> Any:
        return self if instance is None else instance.params[self.name]

    def defaulting(self, default: Setting) -> Parameter[Setting]:
        """The same parameter with another default, for a format that differs in nothing else."""
        return Parameter(default, self.doc, choices=self.choices, low=self.low, high=self.high)

    @property
    def range(self) -> str:
        """The allowed values, as documentation shows them."""
        if self.choices:
            return ", ".join(str(choice) for choice in self.choices)
        if isinstance(self.default, bool):
            return "true, false"
        low = "" if self.low is None else f"{self.low} <= "
        high = "" if self.high is None else f" <= {self.high}"
        return f"{low}{type(self.default).__name__}{high}"

    def check(self, value: Any) -> Setting:
        """The value in the parameter's type (text is parsed)."""
        kind, given = type(self.default), value
        try:
            if kind is bool and isinstance(value, str):
                value = {"true": True, "1": True, "false": False, "0": False}[value.lower()]
            elif kind is int and isinstance(value, float) and value != int(value):
                raise ValueError
            value = kind(value)
            if isinstance(value, int | float) and not abs(value) < 2**63:  # nor is NaN less
                raise ValueError
        except (ValueError, TypeError, KeyError, OverflowError):
            raise UsageError(f"parameter {self.name} takes {self.range}, not {reprlib.repr(given)}") from None
        outside = (self.low is not None and value < self.low) or (self.high is not None and value > self.high)
        if outside or (self.choices and value not in self.choices):
            raise UsageError(f"parameter {self.name} takes {self.range}, not {reprlib.repr(given)}")
        return cast(Setting, value)


FREE_SHARE = 4  # of the free memory a format may take a quarter: a conversion holds several arrays of its size


# What a format cannot have an own version of, and why.
SEALED = {
    "arrays": "what a format stores is found in its fields",
    "nbytes": "a footprint is counted from the stored arrays",
    "with_arrays": "the benchmark moves arrays between guards itself",
    "ordered_x": "x is brought into order by the benchmark, from x_order",
    "restored_y": "y is brought into order by the benchmark, from y_order",
}


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
@dataclass(frozen=True, eq=False, kw_only=True)
class Format:
    """A matrix in one storage format. Subclasses declare their arrays as fields and fill in the four methods.

    Every subclass is a frozen dataclass, an unregistered base of several formats too. One that defines what
    SEALED names raises TypeError: the benchmark counts, moves and orders arrays by its own code.

    shape: (rows, cols). params: the value of every Parameter.

    Class attributes:

    - key: what users type. family and survey_name: as in Filippone et al. 2017, Table 2; survey_name is empty if the
      survey does not name the format. reference: the paper. devices: the kinds of device that can run it.
    - op: the key of the operation that `launches` run (measure/operations.py). The default is y = A x.
    - keeps_zeros: False if stored zeros cannot be distinguished from padding. keeps_values: False if only the pattern
      is stored; `to_coo` then gives ones.
    - shared_implementation: if several keys share one storage, that storage and the parameters that this key fixes.
    - experiment: True if its time does not answer how fast an SpMV is. It is measured and stored, never ranked.
    - project_kernel: True if the key runs a kernel, a storage or a rule of this project that no paper has. Its
      reference begins with "this project", and tables mark it. `runs_project_kernel` covers keys that offer both.
    - alias_of: the format, with the parameters that differ from its defaults (``hll[threads=1]``), whose arrays and
      launches this key has on every matrix. Rankings count the two once.
    - square_only: True if rows and columns must be the same things. Other matrices are refused with Skip.
    - wide_offsets: True if the format holds 2^31 entries and more: its offsets then take 64 bits, in kernels too.
      Others refuse such matrices with Skip.
    """

    key: ClassVar[str] = ""
    family: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    survey_name: ClassVar[str] = ""
    devices: ClassVar[tuple[str, ...]] = ("cuda", "emulated")
    op: ClassVar[str] = "spmv"
    keeps_zeros: ClassVar[bool] = True
    keeps_values: ClassVar[bool] = True
    shared_implementation: ClassVar[str] = ""
    experiment: ClassVar[bool] = False
    project_kernel: ClassVar[bool] = False
    alias_of: ClassVar[str] = ""
    square_only: ClassVar[bool] = False
    wide_offsets: ClassVar[bool] = False

    shape: tuple[int, int]
    params: Mapping[str, Any]

    def __init_subclass__(cls) -> None:
        # A dataclass takes a millisecond to make: a class without annotations has what its only base has.
        if inspect.get_annotations(cls) or sum(map(is_dataclass, cls.__bases__)) > 1:
            dataclass(frozen=True, eq=False, kw_only=True)(cls)
        own = {field.name for field in fields(cls)}
        for name, why in SEALED.items():
            known = inspect.getattr_static(Format, name, None)
            if name in own or inspect.getattr_static(cls, name, None) is not known:
                raise TypeError(f"{cls.__name__} must not define {name}: {why}")

    # Nobody passes `*_`: it lets type checkers accept overrides that name the parameters which they use.
    @classmethod
    def estimate(cls, a: Csr, *_: Any, **params: Any) -> int:
        """Bytes that the arrays will take, from the statistics of `a`, before anything is allocated."""
        raise NotImplementedError

    @classmethod
    def prepare(cls, a: Csr, *_: Any, **params: Any) -> None:
        """Slow work on the host whose result `convert` finds on the disk: a process of its own may do it before.

        a: held by NumPy. What it takes counts as `setup_seconds`, whoever has done it. The default does nothing.
        """

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        """The format's fields by name, made from canonical CSR on the array module of `a`.

        Raises Skip if the format cannot hold the matrix.
        """
        raise NotImplementedError

    def to_coo(self) -> tuple[Array, Array, Array]:
        """(rows, cols, values) of every entry and no padding, in any order: proves that nothing was lost."""
        raise NotImplementedError

    def launches(self, x: Any, y: Array) -> Sequence[Step]:  # x: what `op` says, mostly an Array
        """Everything that one y = A x needs, in order, zeroing of y included. y holds anything before."""
        raise NotImplementedError

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        """The launches of y += A x, for a part of another format. Raises NotImplementedError if no kernel adds."""
        raise NotImplementedError(f"{type(self).__name__} does not add to y")

    def add_transposed(self, x: Array, y: Array) -> list[Launch]:
        """The launches of y += A^T x from the same arrays. Raises Skip if no kernel does that."""
        raise Skip(f"no kernel multiplies with A^T from the arrays of {type(self).__name__}")

    def transposed(self, x: Array, y: Array) -> Sequence[Step]:
        """Everything that one y = A^T x from the same arrays needs, zeroing of y included. x: (rows,), y: (cols,).

        Raises Skip if no kernel does that.
        """
        return [zero_fill(y), *self.add_transposed(x, y)]

    @classmethod
    def transposes(cls) -> bool:
        """Whether the format can multiply with A^T from its arrays; parts of a hybrid may still refuse."""
        own = cls.transposed is not Format.transposed or cls.add_transposed is not Format.add_transposed
        return own and cls.x_order is Format.x_order and cls.y_order is Format.y_order

    @classmethod
    def prepares(cls) -> bool:
        """Whether `prepare` does anything."""
        return inspect.getattr_static(cls, "prepare") is not inspect.getattr_static(Format, "prepare")

    @classmethod
    def parameters(cls) -> dict[str, Parameter[Any]]:
        """The format's parameters by name."""
        return dict(_parameters(cls))

    @classmethod
    def resolve(cls, params: Mapping[str, Any]) -> dict[str, Any]:
        """Every parameter's value: what was given, checked, and defaults for the rest. Raises UsageError."""
        known = cls.parameters()
        for name in params:
            if name not in known:
                hint = did_you_mean(name, list(known)) or f"; it takes {', '.join(known) or 'none'}"
                raise UsageError(f"{cls.key} has no parameter {name}{hint}")
        return {name: p.check(params[name]) if name in params else p.default for name, p in known.items()}

    @classmethod
    def runs_project_kernel(cls, params: Mapping[str, Any]) -> bool:
        """Whether these settings run this project's kernel: `project_kernel`, or kernel=fast in place of the authors'.

        Rows keep the answer as `project_kernel`.
        """
        return cls.project_kernel or params.get("kernel") == "fast"

    @classmethod
    def refuse_beyond(cls, max_bytes: int, a: Csr, **params: Any) -> None:
        """Raises Skip, with the bytes that it would take, if the matrix would take more than `max_bytes`."""
        cls._refuse_shape(a)
        needed = cls.estimate(a, **cls.resolve(params))
        if needed > max_bytes:
            limit = byte_text(max_bytes)
            raise Skip(f"{byte_text(needed)} for {a.nnz:,} nonzeros, over the limit of {limit}", needed, max_bytes)

    @classmethod
    def _refuse_shape(cls, a: Csr) -> None:
        if cls.square_only and a.rows != a.cols:
            raise Skip(f"{cls.key} holds square matrices only, this one is {a.rows} x {a.cols}")
        if a.nnz > INT32_MAX and not cls.wide_offsets:
            raise Skip(f"offsets of {cls.key or cls.__name__} have 32 bits, and this matrix has {a.nnz:,} entries")

    @classmethod
    def from_csr(cls, a: Any, *, max_bytes: int | None = None, **params: Any) -> Self:
        """Convert a matrix: Csr, or any SciPy or CuPy sparse matrix; on the array module that holds it.

        max_bytes: refuse with Skip, before allocating, what would take more; a quarter of the memory that is free there
        if not given. Raises Skip if the format cannot hold the matrix, UsageError for a wrong parameter, ValueError
        for indices outside of the matrix.
        """
        a = Csr.of(a)
        values = cls.resolve(params)
        cls.refuse_beyond(a.free_bytes // FREE_SHARE if max_bytes is None else max_bytes, a, **values)
        return cls.converted(a, **values)

    @classmethod
    def converted(cls, a: Csr, **params: Any) -> Self:
        """As `from_csr`, whatever it takes: for parts of other formats, and for who has called `refuse_beyond`."""
        cls._refuse_shape(a)
        values = cls.resolve(params)
        return cls.holding(a.shape, cls.convert(a, **values), **values)

    @classmethod
    def holding(cls, shape: tuple[int, int], found: Mapping[str, Any], **params: Any) -> Self:
        """The format with these fields: for one that is a part of another, which fills it. Raises UsageError."""
        return cls(shape=shape, params=MappingProxyType(cls.resolve(params)), **found)

    def arrays(self) -> dict[str, Array]:
        """The stored arrays by name; a part that is itself a format, alone or in a mapping, gives ``part.array``."""
        found: dict[str, Array] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            parts = value if isinstance(value, Mapping) else {field.name: value}
            for part, inside in parts.items():
                if isinstance(inside, Format):
                    found |= {f"{part}.{name}": array for name, array in inside.arrays().items()}
            if hasattr(value, "nbytes") and hasattr(value, "shape") and not isinstance(value, Format):
                found[field.name] = value
        return found

    def with_arrays(self, change: Callable[[str, Array], Array], prefix: str = "") -> Self:
        """The same format with every array as `change` gives it, from its name as in `arrays` and itself."""

        def changed(name: str, value: Any) -> Any:
            if isinstance(value, Format):
                return value.with_arrays(change, f"{name}.")
            if isinstance(value, Mapping):
                return cast(Any, type(value))({part: changed(prefix + part, inside) for part, inside in value.items()})
            return change(name, value) if isinstance(value, array_module(value).ndarray) else value

        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: changed(prefix + name, value) for name, value in found.items()})

    @property
    def nbytes(self) -> int:
        """Footprint: the bytes of the stored arrays, counted and not computed."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def bytes_read(self) -> int:
        """Bytes of the arrays that a product reads at least: fewer than `nbytes` where kernels pass over padding.

        A format may override it, with more than 0 and at most its footprint.
        """
        return self.nbytes

    @property
    def value_dtype(self) -> np.dtype:
        """float64 or float32: the type of the values, x and y."""
        return next(a.dtype for a in self.arrays().values() if a.dtype.kind == "f")

    @property
    def xp(self) -> ArrayModule:
        """The array module that holds the arrays."""
        return array_module(*self.arrays().values())

    @property
    def x_order(self) -> Array | None:
        """The order of x that the launches take: its place i holds element x_order[i]. None: the matrix's own.

        A permutation, (cols,), of integers. It is asked for once; `spmvbench.formats.vectors` applies it.
        """
        return None

    @property
    def y_order(self) -> Array | None:
        """The order of y that the launches give: its place i holds row y_order[i], likewise (rows,)."""
        return None

    def __matmul__(self, x: Any) -> Any:
        """``fmt @ x``: y = A x on the device that holds the format, as `spmvbench.multiply`."""
        from spmvbench import multiply  # devices know formats, not formats devices

        return multiply(self, x)

    __array_ufunc__ = None  # x @ fmt is no product: NumPy is not to try it entry by entry

    def traced(self, x: Array, y: Array) -> tuple[Sequence[Step], Array] | None:
        """The launches of one search that also keep its levels, and where: (most levels, 2), int64. None: it cannot.

        Of each level the time when it was done, in nanoseconds of the device, and the number of the kernel that found
        it; first those of the start. Rows of 0 are of no level.
        """
        return None

    @property
    def setup_seconds(self) -> float:
        """Seconds of work on this matrix that came before the conversion and are kept for the next (a partition)."""
        return 0.0

    @property
    def in_use(self) -> dict[str, Any]:
        """The parameters in use in place of those that are 0, for a format that finds them by timing: {} for others.

        Rows keep them in `detail`. They must be the same for every conversion of a case: `conversion.search_once`.
        """
        return {}

    @property
    def detail(self) -> dict[str, Any]:
        """What a row should keep about this matrix in this format beyond its bytes (split widths, tile shares)."""
        return {}


class Adding(Format):
    """A format whose kernels store y or add to it, as a template argument says: `product` gives both."""

    def product(self, x: Array, y: Array, *, add: bool) -> list[Launch]:
        """The launches of y = A x, or where `add` is set of y += A x."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> list[Launch]:
        """The launches of y = A x, by `product`."""
        return self.product(x, y, add=False)

    def accumulate(self, x: Array, y: Array) -> list[Launch]:
        """The launches of y += A x, by `product`."""
        return self.product(x, y, add=True)


@cached
def _parameters(cls: type[Format]) -> dict[str, Parameter[Any]]:
    # Kept: to look through all members takes as long as several SpMVs, and is part of every conversion.
    return {name: p for name, p in inspect.getmembers_static(cls) if isinstance(p, Parameter)}


def byte_text(n: float) -> str:
    """A count of bytes for people: 1.2 GB, 35 MB (decimal units, as vendors and papers use them)."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            return f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError


REGISTRY: dict[str, type[Format]] = {}


def register(cls: type[Format]) -> type[Format]:
    """Make a format known by its key. Raises ValueError for an incomplete one or a key that is taken."""
    missing = [name for name in ("key", "family", "reference") if not getattr(cls, name)]
    if missing:
        raise ValueError(f"{cls.__name__} lacks {', '.join(missing)}")
    texts = {
        name: getattr(cls, name) for name in ("key", "family", "reference", "survey_name", "shared_implementation")
    }
    if wrong := [name for name, text in texts.items() if not isinstance(text, str)]:
        raise ValueError(f"{' and '.join(wrong)} of {cls.__name__} must be text")
    if not re.fullmatch(r"\w[\w.+-]*", cls.key):
        raise ValueError(f"the key {cls.key!r} of {cls.__name__} could not be typed: use letters, digits and . _ + -")
    if not isinstance(cls.devices, tuple) or not all(isinstance(text, str) for text in cls.devices):
        raise ValueError(f"devices of {cls.__name__} must be a tuple of texts")
    taken = REGISTRY.get(cls.key)
    if taken is not None and taken is not cls:
        raise ValueError(f"the key {cls.key} is taken by {taken.__name__} of {Path(inspect.getfile(taken)).name}")
    REGISTRY[cls.key] = cls
    return cls
