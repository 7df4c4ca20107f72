"""y = A x by SciPy on the host. Replace what `build` stores and how `multiply` computes y by your own."""

import scipy.sparse

import spmvbench


@spmvbench.program("NAME", reference="SciPy's csr_array", runs_on="host", packages=("scipy",))
def build(a):
    stored = scipy.sparse.csr_array((a.values.copy(), a.col_idx.copy(), a.row_ptr.copy()), shape=a.shape)

    def multiply(x, y):
        y[:] = stored @ x

    multiply.nbytes = stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes
    return multiply
