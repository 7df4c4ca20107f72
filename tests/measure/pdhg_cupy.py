"""Times of an iteration of primal-dual hybrid gradient written with CuPy, as CSV: see docs/results/linear-programs.md.

``python tests/measure/pdhg_cupy.py > configs/published/linear-programs/cupy.csv`` needs a GPU and takes the set ``lp``;
arguments name other matrices. Columns: seconds, with an expression for each vector; fused, with one
`ElementwiseKernel` for the columns and one for the rows. Each is the mean of the fastest series.
"""

import csv
import sys

import cupy as cp
import cupyx.scipy.sparse as sparse
import numpy as np

from spmvbench.formats.arrays import Csr
from spmvbench.matrices import load
from spmvbench.matrices.sets import members
from spmvbench.solvers.primal_dual import steps

ITERATIONS, SERIES = 10, 5
PRIMAL = cp.ElementwiseKernel(
    "float64 g, float64 c, float64 step",
    "float64 x, float64 ahead",
    "double old = x; x = max(old - step * (c - g), 0.0); ahead = 2 * x - old",
    "primal",
)
DUAL = cp.ElementwiseKernel("float64 q, float64 b, float64 step", "float64 y", "y += step * (b - q)", "dual")


def timed(iteration):
    """Seconds of one of `ITERATIONS`."""
    iteration()
    best = np.inf
    for _ in range(SERIES):
        begin, end = cp.cuda.Event(), cp.cuda.Event()
        begin.record()
        for _ in range(ITERATIONS):
            iteration()
        end.record()
        end.synchronize()
        best = min(best, cp.cuda.get_elapsed_time(begin, end))
    return 1e-3 * best / ITERATIONS


def measured(a):
    """Seconds of an iteration: as one writes it, and with two kernels for the vectors."""
    plain = sparse.csr_matrix(tuple(map(cp.asarray, (a.values, a.col_idx, a.row_ptr))), shape=a.shape)
    transposed = plain.T.tocsr()
    c, b = cp.random.uniform(0, 1, a.cols), cp.random.uniform(0, 1, a.rows)
    tau, sigma = (steps(cp.asarray(abs(each).sum(axis=1)).ravel()).astype(float) for each in (transposed, plain))
    x, y, ahead = cp.zeros(a.cols), cp.zeros(a.rows), cp.zeros(a.cols)

    def written():
        nonlocal x, y
        found = cp.maximum(x - tau * (c - transposed @ y), 0)
        y = y + sigma * (b - plain @ (2 * found - x))
        x = found

    def fused():
        PRIMAL(transposed @ y, c, tau, x, ahead)
        DUAL(plain @ ahead, b, sigma, y)

    return timed(written), timed(fused)


if __name__ == "__main__":
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["matrix", "seconds", "fused", "device"])
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    for name in sys.argv[1:] or members("lp"):
        found = measured(Csr.of(load(name)))
        table.writerow([name, *(f"{seconds:.4g}" for seconds in found), device])
        sys.stdout.flush()
