"""y = A x by a Triton kernel, one program a row. Replace the kernel and what `build` stores by your own.

Needs CuPy (pip install 'spmvbench[cuda13]', or cuda12), PyTorch and Triton (pip install torch triton).
"""

import torch
import triton
import triton.language as tl

import spmvbench


@triton.jit
def one_program_each(row_ptr, columns, values, x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    begin, end = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    total = tl.zeros((BLOCK,), values.dtype.element_ty)
    for first in range(begin, end, BLOCK):
        k = first + tl.arange(0, BLOCK)
        inside = k < end
        column = tl.load(columns + k, mask=inside, other=0)
        total += tl.load(values + k, mask=inside, other=0.0) * tl.load(x + column, mask=inside, other=0.0)
    tl.store(y + row, tl.sum(total))


@spmvbench.program("NAME", reference="the paper, or where the program is from", packages=("triton", "torch"))
def build(a, *, block=32):
    row_ptr, columns, values = (torch.from_dlpack(array).clone() for array in (a.row_ptr, a.col_idx, a.values))
    rows, cols = a.shape

    def multiply(x, y):
        one_program_each[(rows,)](row_ptr, columns, values, torch.from_dlpack(x), torch.from_dlpack(y), BLOCK=block)

    if rows:  # compile now: a kernel that is compiled at the first product cannot be captured in a graph
        one_program_each[(rows,)](row_ptr, columns, values, values.new_zeros(cols), values.new_empty(rows), BLOCK=block)
    multiply.nbytes = sum(part.nbytes for part in (row_ptr, columns, values))
    return multiply
