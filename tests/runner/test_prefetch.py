"""Prefetching of matrices into the per-host cache."""

from spmvbench.matrices import sources
from spmvbench.measure import matrix_cache
from spmvbench.runner import prefetch


def test_a_process_prefetches_and_errors_are_silent(tmp_path):
    matrix = sources.obtain("tridiag:9")
    assert prefetch.start(tmp_path, matrix, 0, False).wait(60) == 0
    assert matrix_cache.cache_path(tmp_path, matrix, 0, False).is_dir()
    assert prefetch.start(tmp_path, matrix, 0, False) is None
    assert prefetch.start(tmp_path, sources.Matrix("a", "b:1", "", "synthetic"), 0, False).wait(60) == 0
