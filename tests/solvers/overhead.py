"""Prints what a call of an operator costs on a GPU, and an iteration of CG, beside CuPy's: microseconds.

python tests/solvers/overhead.py [--cg] [--formats csr5,sell-local,irregular,dia]
"""

from __future__ import annotations

import argparse
import time

import cupy
import cupyx.scipy.sparse.linalg
import numpy as np
from cupyx.scipy import sparse

import spmvbench

MATRICES = ("pde:16", "pde:100", "uniform:1048576:12")
SYSTEMS = ("spd_pde:100", "spd_pde:50", "spd_fem:40:3")
ROUNDS = 7


def seconds_a_call(work, calls=200, wait=True):
    """Median over rounds of the seconds of a call: of the host alone, or with the device's work behind it."""
    for _ in range(20):
        work()
    taken = []
    for _ in range(ROUNDS):
        cupy.cuda.runtime.deviceSynchronize()
        began = time.perf_counter()
        for _ in range(calls):
            work()
        if wait:
            cupy.cuda.runtime.deviceSynchronize()
        taken.append((time.perf_counter() - began) / calls)
    cupy.cuda.runtime.deviceSynchronize()
    return float(np.median(taken))


def seconds_on_device(work, calls=50):
    """Seconds of a call in a CUDA graph of many: the kernels' own time."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(5):
            work()
        stream.synchronize()
        stream.begin_capture()
        for _ in range(calls):
            work()
        graph = stream.end_capture()
        taken = []
        for _ in range(ROUNDS):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record(stream)
            graph.launch(stream)
            end.record(stream)
            end.synchronize()
            taken.append(cupy.cuda.get_elapsed_time(begin, end) * 1e-3 / calls)
    return float(np.median(taken))


def on_gpu(a):
    """A SciPy matrix as CuPy's CSR."""
    return sparse.csr_matrix((cupy.asarray(a.data), cupy.asarray(a.indices), cupy.asarray(a.indptr)), a.shape)


def line(matrix, name, with_out, product, graph, error):
    """One line: the host's time of a call, of so few calls that the queue does not fill, and the whole time."""
    both = (with_out, product)
    host = [seconds_a_call(work, 100, wait=False) if work else float("nan") for work in both]
    whole = [seconds_a_call(work) if work else float("nan") for work in both]
    times = " ".join(f"{1e6 * t:10.2f}" for t in (*host, *whole, graph))
    print(f"{matrix:22} {name:34} {times} {error:9.1e}", flush=True)


def products(matrix, labels):
    """CuPy's product, the advised format and those that are named, a line each."""
    a = spmvbench.load(matrix)
    csr = on_gpu(a)
    x, y = cupy.random.standard_normal(a.shape[1]), cupy.empty(a.shape[0])
    right = csr @ x
    line(matrix, "CuPy csr @ x", None, lambda: csr @ x, float("nan"), 0.0)
    for label in (None, *labels):
        try:
            op = spmvbench.operator(a, format=label, device="cuda:0")
        except spmvbench.formats.Skip as skip:
            print(f"{matrix:22} {label}: {skip}")
            continue
        product(matrix, f"{op.choice.label} (advised)" if label is None else label, op, x, y, right)
        op.free()


def product(matrix, name, op, x, y, right):
    """One operator's line. Fails if a call with `out` allocates after the first."""

    def with_out():
        op.matvec(x, out=y)

    with_out()
    error = float(abs(y - right).max() / abs(right).max())
    pool = cupy.get_default_memory_pool()
    used = pool.used_bytes(), pool.total_bytes()
    for _ in range(100):
        with_out()
    assert (pool.used_bytes(), pool.total_bytes()) == used, f"{name} allocates"
    line(matrix, name, with_out, lambda: op @ x, seconds_on_device(with_out), error)


def solved(matrix, iterations=200):
    """Microseconds an iteration of CG by CuPy, by CuPy with the operator, and by this project, in one line."""
    a = spmvbench.load(matrix)
    csr, b = on_gpu(a), cupy.random.standard_normal(a.shape[0])
    op = spmvbench.operator(a, device="cuda:0")
    limits = {"rtol": 0.0, "atol": 0.0, "maxiter": iterations}
    works = (
        lambda: cupyx.scipy.sparse.linalg.cg(csr, b, **limits),
        lambda: cupyx.scipy.sparse.linalg.cg(op, b, **limits),
        lambda: spmvbench.solve.cg(op, b, **limits),
    )
    assert len(works[2]().residuals) == iterations + 1, "the iteration ended early"
    times = []
    for work in works:
        work()
        taken = []
        for _ in range(5):
            cupy.cuda.runtime.deviceSynchronize()
            began = time.perf_counter()
            work()
            cupy.cuda.runtime.deviceSynchronize()
            taken.append((time.perf_counter() - began) / iterations)
        times.append(1e6 * float(np.median(taken)))
    shown = " ".join(f"{t:10.2f}" for t in times)
    print(f"{matrix:22} {op.choice.label:34} {shown} {times[0] / times[2]:7.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cg", action="store_true", help="CG alone")
    parser.add_argument("--products", action="store_true", help="products alone")
    parser.add_argument("--formats", default="csr5,sell-local,irregular,dia,cusparse-csr-alg1")
    given = parser.parse_args()
    if not given.cg:
        columns = ("matrix", "operator", "host out=", "host @", "out=", "@", "in a graph", "error")
        print("{:22} {:34} {:>10} {:>10} {:>10} {:>10} {:>10} {:>9}".format(*columns))
        for matrix in MATRICES:
            products(matrix, given.formats.split(","))
    if not given.products:
        columns = ("matrix", "format", "CuPy csr", "CuPy op", "solve.cg", "ratio")
        print("{:22} {:34} {:>10} {:>10} {:>10} {:>7}".format(*columns))
        for system in SYSTEMS:
            solved(system)
