"""Products of libraries that users would take in a format's place: PyTorch, JAX, Warp and nvmath-python.

Each takes a copy of CSR as the library's own matrix. Packages are imported by `build` alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spmvbench.formats import Csr, Skip
from spmvbench.formats.arrays import Array, address, ordinal
from spmvbench.formats.vendor.cusparse import CusparseBsr
from spmvbench.programs.python_object import Multiply, program

FAMILY = "Libraries"
INT32 = np.iinfo(np.int32).max


def _entries(a: Csr, library: str) -> None:
    if not a.nnz:
        raise Skip(f"{library} is not asked to multiply a matrix without entries")


def _torch_csr(a: Csr) -> tuple[Any, Any]:
    """PyTorch, and a copy of the matrix as its CSR."""
    import torch

    parts = [torch.from_dlpack(array).clone() for array in (a.row_ptr, a.col_idx, a.values)]
    if parts[0].dtype != parts[1].dtype:
        parts[1] = parts[1].to(parts[0].dtype)  # PyTorch wants both indices of one type
    return torch, torch.sparse_csr_tensor(*parts, size=a.shape)


def _product_of_torch(torch: Any, matrix: Any, parts: tuple[Any, ...]) -> Multiply:
    def multiply(x: Array, y: Array) -> None:
        torch.mv(matrix, torch.from_dlpack(x), out=torch.from_dlpack(y))

    def several(x: Array, y: Array) -> None:
        torch.mm(matrix, torch.from_dlpack(x), out=torch.from_dlpack(y))

    vars(multiply).update(nbytes=sum(part.nbytes for part in parts), several=several)
    return multiply


@program("torch-csr", reference="PyTorch: torch.sparse_csr_tensor and torch.mv", family=FAMILY, packages=("torch",))
def torch_csr(a: Csr) -> Multiply:
    """CSR of PyTorch, which calls cuSPARSE."""
    _entries(a, "PyTorch")
    torch, matrix = _torch_csr(a)
    return _product_of_torch(torch, matrix, (matrix.crow_indices(), matrix.col_indices(), matrix.values()))


@program("torch-bsr", reference="PyTorch: torch.sparse_bsr_tensor and torch.mv", family=FAMILY, packages=("torch",))
def torch_bsr(a: Csr, *, block: int = 2) -> Multiply:
    """Square blocks of PyTorch's BSR, which calls cuSPARSE; `block` divides both sides.

    The blocks are made as those of `cusparse-bsr`: Tensor.to_sparse_bsr does not end in a minute on large matrices.
    """
    import torch

    _entries(a, "PyTorch")
    if block < 2 or a.shape[0] % block or a.shape[1] % block:
        raise Skip(f"blocks of {block} x {block} do not divide {a.shape[0]:,} x {a.shape[1]:,}")
    found = CusparseBsr.convert(a, block)
    parts = [torch.from_dlpack(found[name]) for name in ("block_ptr", "block_col", "values")]
    if parts[0].dtype != parts[1].dtype:
        raise Skip(f"{len(found['values']):,} blocks need offsets of 64 bits, the columns have 32")
    return _product_of_torch(torch, torch.sparse_bsr_tensor(*parts, size=a.shape), tuple(parts))


@program(
    "jax-bcsr",
    reference="JAX: jax.experimental.sparse.BCSR, compiled by jax.jit",
    family=FAMILY,
    packages=("jax", "jaxlib"),
    returns_y=True,
)
def jax_bcsr(a: Csr) -> Multiply:
    """BCSR of JAX. Its product is an array of JAX's own on a stream of its own; the host drives it."""
    import jax
    from jax.experimental import sparse

    _entries(a, "JAX")
    if a.nnz > INT32:
        raise Skip("JAX holds row pointers of 32 bits")
    jax.config.update("jax_enable_x64", True)
    parts = [jax.numpy.array(jax.dlpack.from_dlpack(array), copy=True) for array in (a.values, a.col_idx, a.row_ptr)]
    jax.block_until_ready(parts)  # the copies are made before the arrays become unreadable
    matrix = sparse.BCSR(tuple(parts), shape=a.shape)
    product = jax.jit(lambda matrix, x: matrix @ x)
    by_column = jax.jit(lambda matrix, x: matrix @ x.T)
    compiled = product.lower(matrix, jax.ShapeDtypeStruct((a.shape[1],), parts[0].dtype)).compile()

    def multiply(x: Array, _y: Array) -> Any:
        return jax.block_until_ready(compiled(matrix, jax.dlpack.from_dlpack(x)))

    def several(x: Array, _y: Array) -> Any:  # compiled in the first product, which is not timed
        whole, given = (product, x) if x.flags.c_contiguous else (by_column, x.T)
        return jax.block_until_ready(whole(matrix, jax.dlpack.from_dlpack(given)))

    vars(multiply).update(nbytes=sum(part.nbytes for part in parts), several=several)
    return multiply


@program("warp-bsr", reference="NVIDIA Warp: warp.sparse.bsr_mv", family=FAMILY, packages=("warp-lang",))
def warp_bsr(a: Csr) -> Multiply:
    """BSR of Warp in blocks of one entry, which is CSR."""
    import cupy
    import warp
    import warp.sparse

    _entries(a, "Warp")
    if a.nnz > INT32:
        raise Skip("Warp holds row pointers of 32 bits")
    kind = warp.float64 if a.dtype == np.float64 else warp.float32
    parts = [array.copy() for array in (a.row_ptr.astype(np.int32), a.col_idx, a.values)]
    matrix = warp.sparse.bsr_zeros(*a.shape, block_type=kind, device=f"cuda:{ordinal(a.values)}")
    matrix.offsets, matrix.columns, matrix.values = (warp.from_dlpack(part) for part in parts)
    matrix.nnz = a.nnz

    def multiply(x: Array, y: Array) -> None:
        stream = warp.Stream(matrix.device, cuda_stream=cupy.cuda.get_current_stream().ptr)
        with warp.ScopedStream(stream, sync_enter=False):
            warp.sparse.bsr_mv(matrix, _of_warp(warp, x, kind), _of_warp(warp, y, kind))

    multiply(cupy.zeros(a.shape[1], a.dtype), cupy.empty(a.shape[0], a.dtype))  # compiles
    vars(multiply)["nbytes"] = sum(part.nbytes for part in parts)
    return multiply


def _of_warp(warp: Any, array: Array, kind: Any) -> Any:
    """A view, without the wait for streams that DLPack has."""
    device = f"cuda:{ordinal(array)}"
    return warp.array(ptr=address(array), shape=array.shape, dtype=kind, device=device)


@program(
    "ust",
    reference="NVIDIA nvmath-python: the universal sparse tensor (nvmath.sparse.ust)",
    family=FAMILY,
    packages=("nvmath-python", "torch"),
)
def ust(a: Csr, *, codegen: bool = True) -> Multiply:
    """CSR as a universal sparse tensor. codegen: a kernel that nvmath-python writes and compiles, not cuSPARSE's."""
    from nvmath import sparse

    _entries(a, "nvmath-python")
    torch, matrix = _torch_csr(a)
    x, y = matrix.values().new_zeros(a.shape[1]), matrix.values().new_zeros(a.shape[0])

    def tensor(dense: Any) -> Any:
        return sparse.ust.Tensor.from_package(dense)

    product = sparse.Matmul(tensor(matrix), tensor(x), tensor(y), beta=1.0, options={"codegen": codegen})
    product.plan()

    def multiply(x: Array, y: Array) -> None:
        y.fill(0)  # beta = 0 times NaN is NaN in generated code
        stream = torch.cuda.current_stream()
        dense = [tensor(torch.from_dlpack(array)) for array in (x, y)]
        product.reset_operands(b=dense[0], c=dense[1], stream=stream)
        product.execute(stream=stream)

    vars(multiply)["nbytes"] = sum(p.nbytes for p in (matrix.crow_indices(), matrix.col_indices(), matrix.values()))
    return multiply
