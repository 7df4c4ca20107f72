"""What a storage format is: its arrays, its conversion, its decoding and the launches of one y = A x.

A format is one class in one module of a room of this folder. It knows nothing of devices, timing or reports.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Self, cast, dataclass_transform

import numpy as np

from spmvbench.formats import multivector
from spmvbench.formats.admission import FREE_SHARE, Skip, refuse_shape, refuse_size
from spmvbench.formats.arrays import INT32_MAX, Array, ArrayModule, Csr, array_module
from spmvbench.formats.launches import Launch, Step, zero_fill
from spmvbench.formats.parameters import Parametrised, cached

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
class Format(Parametrised):
    """A matrix in one storage format: a frozen dataclass whose fields are the arrays that it stores.

    shape: (rows, cols). params: the value of every Parameter. Every subclass is a dataclass, an unregistered base of
    several formats too. One that defines what SEALED names raises TypeError: the benchmark counts, moves and orders
    arrays by its own code.

    An author writes:

    - `key`: what users type. `family`: as in Filippone et al. 2017, Table 2. `reference`: the paper.
    - the arrays as fields, each with a comment of shape and type, and the settings as Parameters.
    - `estimate`: the bytes of the arrays, before they are made.
    - `convert`: the fields from canonical CSR; its time is the conversion's.
    - `launches`: y = A x; its time is the format's.
    - `to_coo`: the entries again, which are compared with the matrix.

    An author may write:

    - `survey_name`: the survey's name of the format. `alias_of`: the format, with the parameters that differ from its
      defaults (``hll[threads=1]``), whose arrays and launches this key has on every matrix; rankings count the two
      once. `shared_implementation`: if several keys share one storage, that storage and the parameters that this key
      fixes.
    - `project_kernel`: True if the key runs a kernel, a storage or a rule of this project that no paper has. Its
      reference begins with "this project", and tables mark it. `experiment`: True if its time does not answer how fast
      an SpMV is; it is measured and stored, never ranked.
    - `devices`: the kinds of device that can run it. `op`: the key of the operation that `launches` run
      (measure/operations.py); the default is y = A x.
    - `keeps_zeros`: False if stored zeros cannot be distinguished from padding. `keeps_values`: False if only the
      pattern is stored; `to_coo` then gives ones.
    - `values_decide`: True if values decide what is stored beside them, as they do where they are compressed. Such a
      format cannot take new values in place.
    - `multiplies_padding`: True if kernels multiply x by zeros that fill the storage up, on some matrices. Inf or NaN
      in x then spoils rows that have no entry there.
    - `square_only`: True if rows and columns must be the same things. `wide_offsets`: True if the format holds 2^31
      entries and more, its offsets then take 64 bits, in kernels too. Other matrices are refused with Skip.
    - `accumulate`: y += A x, for a part of another format. `transposed` or `add_transposed`: A^T x. `multiplied`: A X
      of several vectors, if not by the launches for one. `traced`: the levels of a search.
    - `vectors_together`: of how many vectors a thread holds values, if shared memory or registers do not suffice for
      `multivector.TOGETHER`; 1: kernels cannot multiply several.
    - `x_order`, `y_order`: the orders of vectors that the launches take and give.
    - `prepare`, `setup_seconds`: work on the host that is kept. `in_use`: what it finds by timing. `bytes_read`: if
      kernels pass over padding. `detail`: what a row should keep besides.

    The benchmark calls, and nobody overrides:

    - `from_csr`, `converted`, `holding`, `refuse_beyond`: a matrix in the format, or the reason why not.
    - `arrays`, `nbytes`, `with_arrays`: what is stored. `value_dtype`, `xp`: its type, and the module that holds it.
    - `parameters`, `resolve`, `transposes`, `prepares`, `runs_project_kernel`: what the class says about itself.
    - ``fmt @ x``: the product.
    """

    family: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    survey_name: ClassVar[str] = ""
    devices: ClassVar[tuple[str, ...]] = ("cuda", "emulated")
    op: ClassVar[str] = "spmv"
    keeps_zeros: ClassVar[bool] = True
    keeps_values: ClassVar[bool] = True
    multiplies_padding: ClassVar[bool] = False
    values_decide: ClassVar[bool] = False
    shared_implementation: ClassVar[str] = ""
    experiment: ClassVar[bool] = False
    project_kernel: ClassVar[bool] = False
    alias_of: ClassVar[str] = ""
    square_only: ClassVar[bool] = False
    wide_offsets: ClassVar[bool] = False
    vectors_together: ClassVar[int] = multivector.TOGETHER
    converts_on_host: ClassVar[bool] = True  # False: of a matrix on the GPU only (a program that runs there)

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

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        """Everything that one Y = A X of k vectors needs, by the launches for one with several values for each.

        x: (cols * k,), y: (rows * k,): X and Y by rows, or by columns if `layout` is ``column``. Raises Skip if a
        kernel multiplies one vector alone.
        """
        return self.by_vectors(self.launches, x, y, k, layout)

    def by_vectors(
        self, product: Callable[[Array, Array], Sequence[Step]], x: Array, y: Array, k: int, layout: str
    ) -> Sequence[Step]:
        """As `multiplied`, by launches of `product` that would multiply one vector, or be too slow for one."""
        if self.x_order is not None or self.y_order is not None:
            raise Skip("x or y in an order of the format's own are multiplied one at a time")
        if self.vectors_together < 2:
            raise Skip("the kernels multiply one vector")
        arrays = self.arrays().values()
        return multivector.launches(product, arrays, x, y, k, layout, self.vectors_together)

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
    def runs_project_kernel(cls, params: Mapping[str, Any]) -> bool:
        """Whether these settings run this project's kernel: `project_kernel`, or kernel=fast in place of the authors'.

        Rows keep the answer as `project_kernel`.
        """
        return cls.project_kernel or params.get("kernel") == "fast"

    @classmethod
    def refuse_beyond(cls, max_bytes: int, a: Csr, **params: Any) -> None:
        """Raises Skip, with the bytes that it would take, if the matrix would take more than `max_bytes`."""
        cls._refuse_shape(a)
        refuse_size(cls.estimate(a, **cls.resolve(params)), max_bytes, a)

    @classmethod
    def _refuse_shape(cls, a: Csr) -> None:
        refuse_shape(cls.key or cls.__name__, a, square_only=cls.square_only, wide_offsets=cls.wide_offsets)

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
        if cls.square_only or a.nnz > INT32_MAX:
            cls._refuse_shape(a)
        values = cls.resolve(params)
        return cls(shape=a.shape, params=MappingProxyType(values), **cls.convert(a, **values))

    @classmethod
    def holding(cls, shape: tuple[int, int], found: Mapping[str, Any], **params: Any) -> Self:
        """The format with these fields: for one that is a part of another, which fills it. Raises UsageError."""
        return cls(shape=shape, params=MappingProxyType(cls.resolve(params)), **found)

    def __reduce__(self) -> tuple[Any, ...]:
        held = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "params"}
        return _restored, (type(self), dict(self.params), held)

    def arrays(self) -> dict[str, Array]:
        """The stored arrays by name; a part that is itself a format, alone or in a mapping, gives ``part.array``."""
        return dict(self._arrays)

    @cached_property
    def _arrays(self) -> dict[str, Array]:
        """Found once, as the fields do not change: an operator asks ten times before its first product."""
        found: dict[str, Array] = {}
        for field in _names(type(self)):
            value = getattr(self, field)
            if hasattr(value, "nbytes") and hasattr(value, "shape") and not isinstance(value, Format):
                found[field] = value  # asked first: most fields are arrays, and operators are made in microseconds
                continue
            parts = value if isinstance(value, Mapping) else {field: value}
            for part, inside in parts.items():
                if isinstance(inside, Format):
                    found |= {f"{part}.{name}": array for name, array in inside._arrays.items()}
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
        """Footprint: the bytes of the stored arrays, counted and not computed, and `hidden_bytes`."""
        return sum(array.nbytes for array in self._arrays.values()) + self.hidden_bytes

    @property
    def hidden_bytes(self) -> int:
        """Bytes that are stored outside of the fields, behind a handle of a program (`spmvbench.programs`)."""
        return 0

    @property
    def zones(self) -> dict[str, tuple[Array, Array]]:
        """Guard bytes before and behind memory that is no field, by a name: likewise."""
        return {}

    @property
    def bytes_read(self) -> int:
        """Bytes of the arrays that a product reads at least: fewer than `nbytes` where kernels pass over padding.

        A format may override it, with more than 0 and at most its footprint.
        """
        return self.nbytes

    @property
    def value_dtype(self) -> np.dtype:
        """float64 or float32: the type of the values, x and y."""
        return next(a.dtype for a in self._arrays.values() if a.dtype.kind == "f")

    @property
    def xp(self) -> ArrayModule:
        """The array module that holds the arrays."""
        return array_module(*self._arrays.values())

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
    def own_times(self) -> Sequence[float]:
        """Seconds of products that a program has measured itself, which rows then have; empty for others."""
        return ()

    def own_places(self, size: int) -> Any:
        """`refilling.Places` by which a program takes new values for `size` entries itself; None for all others."""
        return None

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


@cached
def _names(cls: type[Format]) -> tuple[str, ...]:
    """Of the fields."""
    return tuple(field.name for field in fields(cls))


def _restored(cls: type[Format], params: dict[str, Any], held: dict[str, Any]) -> Format:
    """The format that was pickled or copied."""
    return cls(params=MappingProxyType(params), **held)


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
