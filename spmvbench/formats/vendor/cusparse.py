"""NVIDIA's kernels: cuSPARSE's generic SpMV, the reference of every plot.

Called through its C interface, because a CUDA graph must be able to capture the calls (CuPy refuses that) and so that
every format is timed in the same way.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.admission import MissingLibrary, Skip
from spmvbench.formats.arrays import INT32_MAX, Array, Csr, address, cdiv, expand, nonzero_mask, round_up
from spmvbench.formats.conversion import runner
from spmvbench.formats.coo.coo import Coo
from spmvbench.formats.csc.csc import CscArrays
from spmvbench.formats.csr.csr import CsrArrays
from spmvbench.formats.dense_blocks.blocks import tiles_of
from spmvbench.formats.ellpack.sell_convert import Slices, fill
from spmvbench.formats.format import Format
from spmvbench.formats.launches import Call, Step, zero_fill
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import register

INDEX_32, INDEX_64, BASE_0, NON_TRANSPOSE, TRANSPOSE = 2, 3, 0, 0, 1  # their types and operations
DATA_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}  # cudaDataType
DEFAULT_ALG, COO_ALG1, CSR_ALG1, CSR_ALG2, COO_ALG2, SELL_ALG1, BSR_ALG1 = range(7)  # cusparseSpMVAlg_t
SPMM_COO_ALG1, SPMM_COO_ALG2, SPMM_COO_ALG3, SPMM_CSR_ALG1, SPMM_COO_ALG4, SPMM_CSR_ALG2 = range(1, 7)
SPMM_CSR_ALG3, SPMM_BSR_ALG1 = 12, 14  # cusparseSpMMAlg_t
ORDER_COLUMN, ORDER_ROW = 1, 2  # cusparseOrder_t
NOT_SUPPORTED = 10  # cusparseStatus_t
# 12.5.4 and 12.6.3 end with an internal error beyond 2^31 entries, with pointers and columns in 64 bits; 12.8.0 holds
# them (CuPy's issue 9490, and rmat:27:18 on an H200).
WIDE_SINCE = 12800


@cache
def _library() -> Any:
    """The shared library. Raises MissingLibrary if it cannot be loaded."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("cusparse").abs_path
        library = ctypes.CDLL(path)
    except Exception as error:
        raise MissingLibrary(f"libcusparse cannot be loaded ({type(error).__name__}: {error})") from error
    library.cusparseGetErrorString.restype = ctypes.c_char_p
    return library


def _call(name: str, *args: Any) -> None:
    """Call a function of the library.

    Raises Skip if the installed library lacks the function or refuses the case, RuntimeError with the function's
    name and the library's words where it fails.
    """
    library = _library()
    function = getattr(library, name, None)
    if function is None:
        raise Skip(f"the installed cuSPARSE, {_version()}, has no {name}")
    status = function(*args)
    if status == NOT_SUPPORTED:
        raise Skip(f"the installed cuSPARSE, {_version()}, does not support this in {name}")
    if status:
        raise RuntimeError(f"{name}: {library.cusparseGetErrorString(c_int(status)).decode()}")


@cache
def _handle() -> c_void_p:
    handle = c_void_p()
    _call("cusparseCreate", byref(handle))
    return handle


@cache
def _version() -> int:
    """The library's version as it counts: 12703 for 12.7.3."""
    version = c_int()
    _call("cusparseGetVersion", _handle(), byref(version))
    return version.value


def _pointer(array: Array) -> c_void_p:
    return c_void_p(address(array))


class _Product:
    """y = A x as the library's descriptors, work buffer and preprocessing; destroyed with the object."""

    def __init__(self, matrix: c_void_p, algorithm: int, x: Array, y: Array, operation: int = NON_TRANSPOSE):
        import cupy

        self.operation = operation

        self.kind = c_int(DATA_TYPES[np.dtype(x.dtype)])
        scalar = c_double if x.dtype == np.float64 else c_float
        self._made = [("cusparseDestroySpMat", matrix)]
        weakref.finalize(self, _destroy, self._made)
        self.x, self.y = (self._operand(v) for v in (x, y))
        self._scalars = scalar(1), scalar(0)  # read by the library at each call
        self.one, self.zero = (byref(s) for s in self._scalars)
        _call("cusparseSetStream", _handle(), c_void_p(cupy.cuda.get_current_stream().ptr))
        self.buffer = cupy.empty(0, dtype=np.uint8)
        self._prepare(matrix, algorithm)

    def _operand(self, v: Array) -> c_void_p:
        """The descriptor of x or y."""
        return self._make("cusparseCreateDnVec", "cusparseDestroyDnVec", c_int64(len(v)), _pointer(v), self.kind)

    def _make(self, create: str, destroy: str, *args: Any) -> c_void_p:
        """One of the library's objects, destroyed with this one."""
        made = c_void_p()
        _call(create, byref(made), *args)
        self._made.append((destroy, made))
        return made

    def _allocate(self, function: str, *args: Any) -> None:
        import cupy

        size = c_size_t()
        _call(function, *args, byref(size))
        self.buffer = cupy.empty(max(size.value, 1), dtype=np.uint8)

    def _prepare(self, matrix: c_void_p, algorithm: int) -> None:
        vectors = (matrix, self.x, self.zero, self.y)
        self._arguments: tuple[Any, ...] = (_handle(), self.operation, self.one, *vectors, self.kind, algorithm)
        self._allocate("cusparseSpMV_bufferSize", *self._arguments)
        if hasattr(_library(), "cusparseSpMV_preprocess"):  # since 12.4
            _call("cusparseSpMV_preprocess", *self._arguments, _pointer(self.buffer))

    def __call__(self, stream: int) -> None:
        _call("cusparseSetStream", _handle(), c_void_p(stream))
        _call("cusparseSpMV", *self._arguments, _pointer(self.buffer))


class _OpProduct(_Product):
    """The same by SpMVOp: analysis in a descriptor and a plan, then one call without them."""

    def _prepare(self, matrix: c_void_p, algorithm: int) -> None:
        # y is both the addend, times zero, and the result.
        can_choose = _version() >= 12800
        if algorithm and not can_choose:
            raise Skip(f"the installed cuSPARSE, {_version()}, has one algorithm of SpMVOp")
        which = (self.kind, algorithm) if can_choose else (self.kind,)
        operands = (self.operation, matrix, self.x, self.y, self.y, *which)
        self._allocate("cusparseSpMVOp_bufferSize", _handle(), *operands)
        self._descriptor, self._plan = c_void_p(), c_void_p()
        _call("cusparseSpMVOp_createDescr", _handle(), byref(self._descriptor), *operands, _pointer(self.buffer))
        self._made.insert(0, ("cusparseSpMVOp_destroyDescr", self._descriptor))
        _call("cusparseSpMVOp_createPlan", _handle(), self._descriptor, byref(self._plan), None, c_size_t(0))
        self._made.insert(0, ("cusparseSpMVOp_destroyPlan", self._plan))

    def __call__(self, stream: int) -> None:
        _call("cusparseSetStream", _handle(), c_void_p(stream))
        _call("cusparseSpMVOp", _handle(), self._plan, self.one, self.zero, self.x, self.y, self.y)


class _SeveralProduct(_Product):
    """Y = A X of k vectors, by rows or by columns, preprocessed."""

    def __init__(self, matrix: c_void_p, algorithm: int, x: Array, y: Array, k: int, layout: str):
        self.k, self.layout = k, layout
        super().__init__(matrix, algorithm, x, y)

    def _operand(self, v: Array) -> c_void_p:
        rows, by_row = len(v) // self.k, self.layout == "row"
        leading, order = c_int64(self.k if by_row else rows), ORDER_ROW if by_row else ORDER_COLUMN
        sizes = c_int64(rows), c_int64(self.k), leading
        return self._make("cusparseCreateDnMat", "cusparseDestroyDnMat", *sizes, _pointer(v), self.kind, order)

    def _prepare(self, matrix: c_void_p, algorithm: int) -> None:
        several = (matrix, self.x, self.zero, self.y)
        self._arguments = (_handle(), NON_TRANSPOSE, self.operation, self.one, *several, self.kind, algorithm)
        self._allocate("cusparseSpMM_bufferSize", *self._arguments)
        _call("cusparseSpMM_preprocess", *self._arguments, _pointer(self.buffer))

    def __call__(self, stream: int) -> None:
        _call("cusparseSetStream", _handle(), c_void_p(stream))
        _call("cusparseSpMM", *self._arguments, _pointer(self.buffer))


def _destroy(made: list[tuple[str, c_void_p]]) -> None:
    for destroy, thing in made:
        _call(destroy, thing)


class Vendor(Format):
    """A matrix that the library multiplies. Subclasses give the descriptor and the algorithm."""

    reference = "NVIDIA cuSPARSE, generic SpMV"
    survey_name = ""
    devices = ("cuda",)
    algorithm: ClassVar[Any]  # a number of the library's, or a Parameter
    algorithm_for_several: ClassVar[int] = 0  # that multiplies several vectors; 0: none does
    product: ClassVar[type[_Product]] = _Product

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        if a.row_ptr.dtype != np.int32:
            raise Skip("the library takes pointers of the indices' type, and this matrix needs 64 bits for them")
        return super().convert(a, **params)

    def _descriptor(self, created: c_void_p) -> None:
        """Create the library's matrix descriptor."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self._launches(x, y, NON_TRANSPOSE)

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        if not self.algorithm_for_several:
            raise Skip("the library multiplies one vector with this storage")
        values = self.arrays()["values"]
        if not len(x) or not len(y) or not len(values):
            return [zero_fill(y)]
        if values.dtype != x.dtype:
            raise Skip("the library takes values of this type with vectors of the same type only")
        matrix = c_void_p()
        self._descriptor(matrix)
        product = _SeveralProduct(matrix, self.algorithm_for_several, x, y, k, layout)
        return [Call(self.key, product, (*self.arrays().values(), x, y, product.buffer))]

    def _launches(self, x: Array, y: Array, operation: int) -> Sequence[Step]:
        if not len(x) or not len(y) or not len(self.arrays()["values"]):
            return [zero_fill(y)]  # the library refuses empty operands
        product = self._product(x, y, operation)
        return [Call(self.key, product, (*self.arrays().values(), x, y, product.buffer))]

    def _product(self, x: Array, y: Array, operation: int) -> _Product:
        """The library's product. Of mixed types it has values in single and vectors in double precision."""
        stored, mixed = self.arrays()["values"].dtype, self.arrays()["values"].dtype != x.dtype
        if mixed and (stored == np.float16 or self.product is not _Product):
            raise Skip("the library takes values of this type with vectors of the same type only")
        matrix = c_void_p()
        self._descriptor(matrix)
        try:
            return self.product(matrix, self.algorithm, x, y, operation)
        except RuntimeError as error:  # which cases a version refuses is told by no status of its own
            if mixed:
                raise Skip(f"the installed cuSPARSE, {_version()}, refuses {stored} with {x.dtype}: {error}") from error
            if len(self.arrays()["values"]) > INT32_MAX and _version() < WIDE_SINCE:
                raise Skip(f"the installed cuSPARSE, {_version()}, refuses more than 2^31 entries: {error}") from error
            raise

    def _sizes(self) -> tuple[c_int64, c_int64, c_int64]:
        values = self.arrays()["values"]
        return c_int64(self.shape[0]), c_int64(self.shape[1]), c_int64(len(values))

    def _types(self) -> tuple[int, ...]:
        """Of pointers and indices, the index base, and the type of the values."""
        return INDEX_32, INDEX_32, BASE_0, DATA_TYPES[self.value_dtype]


class _Transposing(Vendor):
    """A storage that the library multiplies transposed, too."""

    def transposed(self, x: Array, y: Array) -> Sequence[Step]:
        return self._launches(x, y, TRANSPOSE)


class VendorCsr(_Transposing, CsrArrays):
    """CSR for the library. Columns have the type of the row pointers: 64 bits from 2^31 entries on."""

    wide_offsets = True

    @classmethod
    def estimate(cls, a: Csr, **params: Any) -> int:
        return a.nbytes + a.nnz * (a.row_ptr.itemsize - a.col_idx.itemsize)

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        return {"row_ptr": a.row_ptr, "col_idx": a.col_idx.astype(a.row_ptr.dtype, copy=False), "values": a.values}

    def to_coo(self) -> tuple[Array, Array, Array]:
        row, col, values = super().to_coo()
        return row, col.astype(np.int32, copy=False), values

    def _types(self) -> tuple[int, ...]:
        index = INDEX_64 if self.row_ptr.dtype == np.int64 else INDEX_32
        return index, index, *super()._types()[2:]

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.row_ptr), _pointer(self.col_idx), _pointer(self.values)
        _call("cusparseCreateCsr", byref(created), *self._sizes(), *pointers, *self._types())


@register
class CusparseCsrAlg1(VendorCsr):
    """cuSPARSE's default CSR algorithm, preprocessing included; sums may not be reproducible."""

    key = "cusparse-csr-alg1"
    algorithm = CSR_ALG1
    algorithm_for_several = SPMM_CSR_ALG1


@register
class CusparseCsrAlg2(VendorCsr):
    """cuSPARSE's reproducible CSR algorithm, preprocessing included."""

    key = "cusparse-csr-alg2"
    algorithm = CSR_ALG2
    algorithm_for_several = SPMM_CSR_ALG2


class _ForSeveral(Vendor):
    """An algorithm that the library has for several vectors only."""

    reference = "NVIDIA cuSPARSE, generic SpMM"

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        raise Skip("the library has this algorithm for several vectors only: --op spmm@8")

    transposed = Format.transposed


@register
class CusparseCsrAlg3(_ForSeveral, VendorCsr):
    """cuSPARSE's third CSR algorithm for several vectors, preprocessing included."""

    key = "cusparse-csr-alg3"
    algorithm_for_several = SPMM_CSR_ALG3


@register
class CusparseSpmvop(VendorCsr):
    """cuSPARSE's SpMVOp on CSR (experimental, CUDA 13.1 and newer): analysis once, in a descriptor and a plan.

    Where the installed library is older, the wheel nvidia-cusparse 12.7 or newer brings it along for a driver of CUDA
    13: what is in site-packages is loaded before the toolkit's.
    """

    key = "cusparse-spmvop"
    reference = "NVIDIA cuSPARSE, SpMVOp"
    algorithm = Parameter(DEFAULT_ALG, "0: the library's default; 1, 2: since 12.8", choices=(DEFAULT_ALG, 1, 2))
    product = _OpProduct


@register
class CusparseCoo(_Transposing, Coo):
    """cuSPARSE's default COO algorithm."""

    key = "cusparse-coo"
    algorithm = COO_ALG1
    algorithm_for_several = SPMM_COO_ALG1

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.row_idx), _pointer(self.col_idx), _pointer(self.values)
        _call("cusparseCreateCoo", byref(created), *self._sizes(), *pointers, *self._types()[1:])


@register
class CusparseCooAlg2(CusparseCoo):
    """cuSPARSE's reproducible COO algorithm, on the same arrays."""

    key = "cusparse-coo-alg2"
    algorithm = COO_ALG2
    algorithm_for_several = SPMM_COO_ALG2


@register
class CusparseCooAlg3(_ForSeveral, CusparseCoo):
    """cuSPARSE's third COO algorithm for several vectors, on the same arrays."""

    key = "cusparse-coo-alg3"
    algorithm_for_several = SPMM_COO_ALG3


@register
class CusparseCooAlg4(_ForSeveral, CusparseCoo):
    """cuSPARSE's fourth COO algorithm for several vectors, on the same arrays."""

    key = "cusparse-coo-alg4"
    algorithm_for_several = SPMM_COO_ALG4


@register
class CusparseCsc(_Transposing, CscArrays):
    """cuSPARSE's default algorithm on CSC: in effect the product with a transposed CSR matrix."""

    key = "cusparse-csc"
    algorithm = DEFAULT_ALG

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.col_ptr), _pointer(self.row_idx), _pointer(self.values)
        _call("cusparseCreateCsc", byref(created), *self._sizes(), *pointers, *self._types())


@register
class CusparseSell(Vendor):
    """cuSPARSE's sliced ELLPACK: slices of some rows, each padded to its longest, stored column by column.

    The vendor's kernel; `sell-cusparse` multiplies the same arrays by this project's.
    """

    key = "cusparse-sell"
    family = "ELLPACK"
    algorithm = SELL_ALG1

    height = Parameter(32, "rows of a slice", choices=(8, 16, 32, 64, 128))

    slice_ptr: Array  # (slices + 1,), int32: first slot of each slice
    columns: Array  # (slots,), int32; -1 is padding
    values: Array  # (slots,)

    @classmethod
    def estimate(cls, a: Csr, height: int, **params: Any) -> int:
        s = Slices.of(a, height, runner(a))
        return s.slots * (4 + a.dtype.itemsize) + s.nbytes

    @classmethod
    def convert(cls, a: Csr, height: int, **params: Any) -> dict[str, Any]:
        s = Slices.of(a, height, runner(a))
        if s.ptr.dtype != np.int32:
            raise Skip(f"{s.slots:,} slots do not fit the 32-bit offsets of a slice")
        return {"slice_ptr": s.ptr, **fill(a, s, runner(a))}

    def to_coo(self) -> tuple[Array, Array, Array]:
        used = self.xp.flatnonzero(self.columns >= 0)
        s = Slices.kept(self.shape[0], len(self.columns), self.height, self.slice_ptr)
        return s.row_of(used), self.columns[used], self.values[used]

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.slice_ptr), _pointer(self.columns), _pointer(self.values)
        rows, cols, slots = self._sizes()
        entries = c_int64(int((self.columns >= 0).sum()))
        slices = c_int64(self.height)
        _call("cusparseCreateSlicedEll", byref(created), rows, cols, entries, slots, slices, *pointers, *self._types())


@register
class CusparseBsr(Vendor):
    """cuSPARSE's block CSR: square blocks that hold an entry, whole and row by row.

    Sides that are no multiple of the block are rounded up; x and y are then copied from and to vectors of the rounded
    length in every product. Several vectors are then skipped if they lie by columns.
    """

    key = "cusparse-bsr"
    multiplies_padding = True
    family = "BCSR"
    algorithm = BSR_ALG1
    algorithm_for_several = SPMM_BSR_ALG1
    keeps_zeros = False

    block = Parameter(4, "rows and columns of a block", choices=(2, 3, 4, 8, 16))

    block_ptr: Array  # (block rows + 1,), int32
    block_col: Array  # (blocks,), int32
    values: Array  # (blocks, block, block)

    @classmethod
    def estimate(cls, a: Csr, block: int, **params: Any) -> int:
        counts = tiles_of(a).counts(block, block)
        return int(counts.sum()) * (4 + block * block * a.dtype.itemsize) + 4 * (len(counts) + 1)

    @classmethod
    def convert(cls, a: Csr, block: int, **params: Any) -> dict[str, Any]:
        tiles = tiles_of(a)
        block_ptr, blocks = tiles.slices(block, block, 1)
        block_col, values = tiles.store(block, block, 1, 1, block_ptr, blocks)
        shape = (len(values), block, block)
        return {"block_ptr": block_ptr, "block_col": block_col.reshape(-1), "values": values.reshape(shape)}

    def to_coo(self) -> tuple[Array, Array, Array]:
        block, row, col = self.xp.nonzero(nonzero_mask(self.values))
        first = expand(self.block_ptr, len(self.values))[block]
        return first * self.block + row, self.block_col[block] * self.block + col, self.values[block, row, col]

    def launches(self, x: Array, y: Array) -> Sequence[Step]:
        return self._rounded(x, y, 1, super().launches)

    def multiplied(self, x: Array, y: Array, k: int, layout: str) -> Sequence[Step]:
        if layout == "column" and any(side % self.block for side in self.shape):
            raise Skip(f"columns of X and Y are no whole number of blocks of {self.block}")
        return self._rounded(x, y, k, partial(super().multiplied, k=k, layout=layout))

    def _rounded(self, x: Array, y: Array, k: int, product: Callable[[Array, Array], Sequence[Step]]) -> Sequence[Step]:
        """A product of k vectors, by rows if sides are rounded up: then with copies of x and y."""
        import cupy

        down, across = (round_up(side, self.block) for side in self.shape)
        if (down, across) == self.shape or not len(self.values):
            return product(x, y)
        long_x, long_y = cupy.zeros(across * k, x.dtype), cupy.empty(down * k, y.dtype)

        def copy(source: Array, target: Array, length: int) -> Call:
            def enqueue(stream: int) -> None:
                runtime = cupy.cuda.runtime
                size = length * source.itemsize
                runtime.memcpyAsync(address(target), address(source), size, runtime.memcpyDeviceToDevice, stream)

            return Call("copy", enqueue, (source, target))

        return [copy(x, long_x, len(x)), *product(long_x, long_y), copy(long_y, y, len(y))]

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.block_ptr), _pointer(self.block_col), _pointer(self.values)
        down, across = (c_int64(cdiv(side, self.block)) for side in self.shape)
        side = c_int64(self.block)
        sizes = (down, across, c_int64(len(self.values)), side, side)
        _call("cusparseCreateBsr", byref(created), *sizes, *pointers, *self._types(), ORDER_ROW)
