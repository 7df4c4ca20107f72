"""y = A x by a Numba kernel on a GPU, one thread a row. Replace the kernel and what `build` stores by your own.

Needs CuPy (pip install 'spmvbench[cuda13]', or cuda12) and Numba for CUDA (pip install 'numba-cuda[cu13]', or cu12).
"""

import cupy
from numba import cuda

import spmvbench


@cuda.jit
def one_thread_each(row_ptr, columns, values, x, y):
    row = cuda.grid(1)
    if row < len(y):
        total = values.dtype.type(0)
        for k in range(row_ptr[row], row_ptr[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@spmvbench.program("NAME", reference="the paper, or where the program is from", packages=("numba-cuda",))
def build(a, *, block=128):
    rows, cols = a.shape
    stored = a.row_ptr.copy(), a.col_idx.copy(), a.values.copy()

    def view(array):
        return cuda.as_cuda_array(array, sync=False)  # waiting for the stream cannot be captured in a graph

    def multiply(x, y):
        if rows:
            stream = cuda.external_stream(cupy.cuda.get_current_stream().ptr)
            one_thread_each[-(-rows // block), block, stream](*map(view, stored), view(x), view(y))

    multiply(cupy.zeros(cols, a.values.dtype), cupy.empty(rows, a.values.dtype))  # compiles
    multiply.nbytes = sum(part.nbytes for part in stored)
    return multiply
