"""NVIDIA's own kernels: cuSPARSE's generic SpMV, the yardstick of every plot.

Called through its C interface, because a CUDA graph must be able to capture the calls (CuPy refuses that) and so that
every format is timed in the same way.
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any, ClassVar

import numpy as np

from spmvbench.formats.arrays import Array, Csr
from spmvbench.formats.base import Call, Format, Launch, Skip, register, zero_fill
from spmvbench.formats.coo import Coo
from spmvbench.formats.csr import CsrArrays

INDEX_32, BASE_0, NON_TRANSPOSE = 2, 0, 0  # cusparseIndexType_t, cusparseIndexBase_t, cusparseOperation_t
DATA_TYPES = {np.dtype(np.float32): 0, np.dtype(np.float64): 1}  # cudaDataType
COO_ALG1, CSR_ALG1, CSR_ALG2 = 1, 2, 3  # cusparseSpMVAlg_t


@cache
def _library() -> Any:
    """The shared library. Raises Skip where it cannot be loaded."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        path = load_nvidia_dynamic_lib("cusparse").abs_path
        library = ctypes.CDLL(path)
    except Exception as error:
        raise Skip(f"libcusparse cannot be loaded ({type(error).__name__}: {error})") from error
    library.cusparseGetErrorString.restype = ctypes.c_char_p
    return library


def _call(name: str, *args: Any) -> None:
    """Call a function of the library. Raises RuntimeError with its name and the library's words where it fails."""
    library = _library()
    status = getattr(library, name)(*args)
    if status:
        raise RuntimeError(f"{name}: {library.cusparseGetErrorString(c_int(status)).decode()}")


@cache
def _handle() -> c_void_p:
    handle = c_void_p()
    _call("cusparseCreate", byref(handle))
    return handle


def _pointer(array: Array) -> c_void_p:
    return c_void_p(array.data.ptr)


class _Product:
    """y = A x as the library's descriptors, work buffer and preprocessing; destroyed with the object."""

    def __init__(self, matrix: c_void_p, algorithm: int, x: Array, y: Array):
        import cupy

        kind = c_int(DATA_TYPES[np.dtype(x.dtype)])
        scalar = c_double if x.dtype == np.float64 else c_float
        vectors = []
        for vector in (x, y):
            descriptor = c_void_p()
            _call("cusparseCreateDnVec", byref(descriptor), c_int64(len(vector)), _pointer(vector), kind)
            vectors.append(descriptor)
        self._scalars = scalar(1), scalar(0)  # read by the library at each call
        one, zero = (byref(s) for s in self._scalars)
        self._arguments = (_handle(), NON_TRANSPOSE, one, matrix, vectors[0], zero, vectors[1], kind, algorithm)
        weakref.finalize(self, _destroy, matrix, vectors)

        size = c_size_t()
        _call("cusparseSpMV_bufferSize", *self._arguments, byref(size))
        self.buffer = cupy.empty(max(size.value, 1), dtype=np.uint8)
        _call("cusparseSetStream", _handle(), c_void_p(cupy.cuda.get_current_stream().ptr))
        if hasattr(_library(), "cusparseSpMV_preprocess"):  # since 12.4
            _call("cusparseSpMV_preprocess", *self._arguments, _pointer(self.buffer))

    def __call__(self, stream: int) -> None:
        _call("cusparseSetStream", _handle(), c_void_p(stream))
        _call("cusparseSpMV", *self._arguments, _pointer(self.buffer))


def _destroy(matrix: c_void_p, vectors: list[c_void_p]) -> None:
    _call("cusparseDestroySpMat", matrix)
    for vector in vectors:
        _call("cusparseDestroyDnVec", vector)


class Vendor(Format):
    """A matrix that the library multiplies. Subclasses give the descriptor and the algorithm."""

    reference = "NVIDIA cuSPARSE, generic SpMV"
    survey_name = ""
    devices = ("cuda",)
    algorithm: ClassVar[int]

    def _descriptor(self, created: c_void_p) -> None:
        """Create the library's matrix descriptor."""
        raise NotImplementedError

    def launches(self, x: Array, y: Array) -> list[Launch | Call]:
        if not len(x) or not len(y) or not len(self.arrays()["values"]):
            return [zero_fill(y)]  # the library refuses empty operands
        matrix = c_void_p()
        self._descriptor(matrix)
        product = _Product(matrix, self.algorithm, x, y)
        return [Call(self.key, product, (*self.arrays().values(), x, y, product.buffer))]

    def _sizes(self) -> tuple[c_int64, c_int64, c_int64]:
        values = self.arrays()["values"]
        return c_int64(self.shape[0]), c_int64(self.shape[1]), c_int64(len(values))


class VendorCsr(Vendor, CsrArrays):
    """CSR in the library's hands."""

    sources = ("vector.cu",)

    @classmethod
    def convert(cls, a: Csr, **params: Any) -> dict[str, Any]:
        if a.row_ptr.dtype != np.int32:
            raise Skip("the library takes row pointers of the columns' type, and this matrix needs 64 bits for them")
        return super().convert(a, **params)

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.row_ptr), _pointer(self.col_idx), _pointer(self.values)
        kind = DATA_TYPES[self.value_dtype]
        _call("cusparseCreateCsr", byref(created), *self._sizes(), *pointers, INDEX_32, INDEX_32, BASE_0, kind)


@register
class CusparseCsrAlg1(VendorCsr):
    """cuSPARSE's default CSR algorithm, preprocessing included; not promised the same bits every time."""

    key = "cusparse-csr-alg1"
    algorithm = CSR_ALG1


@register
class CusparseCsrAlg2(VendorCsr):
    """cuSPARSE's reproducible CSR algorithm, preprocessing included."""

    key = "cusparse-csr-alg2"
    algorithm = CSR_ALG2


@register
class CusparseCoo(Vendor, Coo):
    """cuSPARSE's default COO algorithm."""

    key = "cusparse-coo"
    sources = ("vector.cu",)
    algorithm = COO_ALG1

    def _descriptor(self, created: c_void_p) -> None:
        pointers = _pointer(self.row_idx), _pointer(self.col_idx), _pointer(self.values)
        kind = DATA_TYPES[self.value_dtype]
        _call("cusparseCreateCoo", byref(created), *self._sizes(), *pointers, INDEX_32, BASE_0, kind)
