"""Work ahead of the measuring process: matrices in the per-host cache, prepared formats."""

import signal

import numpy as np
import pytest

from spmvbench import formats, paths
from spmvbench.formats import Csr
from spmvbench.formats.conversion import EMULATED
from spmvbench.matrices import lookup
from spmvbench.measure import matrix_cache
from spmvbench.measure.cases import Settings
from spmvbench.runner import driver, plan, precompile, prefetch, session


@pytest.mark.slow
def test_a_process_prefetches_and_errors_are_silent(tmp_path):
    matrix = lookup.obtain("tridiag:9")
    unknown = lookup.Matrix("a", "b:1", "", "synthetic")
    assert prefetch.start(tmp_path, {(unknown, 0): (), (matrix, 0): ()}, False).wait() == 0
    assert matrix_cache.cache_path(tmp_path, matrix, 0, False).exists()
    assert prefetch.start(tmp_path, {(matrix, 0): ()}, False) is None


CUT = "ehyb-rcm[shared_bytes=1024]"  # more than one partition of a small matrix


@pytest.fixture
def groups():
    matrices = [lookup.obtain(spec) for spec in ("pde:12", "tridiag:9", "tridiag:8")]
    return plan.grouped(plan.cross(matrices, formats.parse(f"{CUT},csr-scalar"), ("f64",), ("hot",), "cuda:0", 0))


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Makes a prefetcher in which every matrix is worth a process, on a host with many cores."""
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(prefetch, "MIN_ENTRIES", 0)
    monkeypatch.setattr(prefetch.os, "cpu_count", lambda: 8)
    folder = tmp_path / "per-host" / ("0" * 16)
    return lambda groups, convert: prefetch.Prefetcher(folder, groups, Settings("cuda:0", convert=convert), EMULATED)


def finish(ahead):
    for process in ahead.running:
        assert process.wait() == 0


@pytest.mark.slow
@pytest.mark.parametrize(("least", "read"), [(0, 2), (30, 3)], ids=["alone", "small ones together"])
def test_matrices_are_read_ahead_and_formats_prepared(work, groups, monkeypatch, least, read):
    monkeypatch.setattr(prefetch, "MIN_ENTRIES", least)
    with work(groups, "device") as ahead:
        ahead.advance(groups[0])
        assert len(ahead.running) == 2  # as many as there are cores for
        finish(ahead)
        assert len({*ahead.folder.glob("*.csr")}) == read
        ahead.advance(groups[0])
        finish(ahead)
        assert len({*ahead.folder.glob("*.csr")}) == 3
        ahead.advance(groups[1])  # the first matrix is not needed any more
        assert len({path.name for path in ahead.folder.glob("*.csr")}) == 2
    assert not ahead.folder.exists()
    # The partition of pde:12 is on the disk, under the name that a conversion gives it.
    monkeypatch.setattr("spmvbench.formats.cache_blocking.partition.METHODS", {})
    a = Csr.of(lookup.obtain("pde:12").read(0)).astype(np.float64)
    ((cls, params),) = formats.parse(CUT)
    found = cls.from_csr(a, **params)
    assert found.partition_cached and found.partitions > 1 and found.setup_seconds > 0


def test_nothing_is_prepared_while_the_host_converts(work, groups):
    with work(groups, "both") as ahead:
        ahead.advance(groups[0])
        assert len(ahead.running) == 1
        finish(ahead)
    assert not list((paths.home() / "partitions").glob("*"))


def test_processes_end_with_the_invocation(work, groups):
    with work(groups, "device") as ahead:
        ahead.advance(groups[0])
        running = list(ahead.running)
    assert all(process.poll() is not None for process in running)
    assert not ahead.folder.exists()


@pytest.mark.slow
def test_a_session_works_ahead_and_leaves_nothing(tmp_path, monkeypatch):
    """As on a GPU, with the measuring process of the emulated device."""
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(prefetch, "MIN_ENTRIES", 0)
    monkeypatch.setattr(prefetch.os, "cpu_count", lambda: 8)
    matrices = [lookup.obtain(spec) for spec in ("tridiag:9", "tridiag:8", "tridiag:7")]
    chosen = formats.parse(f"{CUT},csr-scalar")
    groups = plan.grouped(plan.cross(matrices, chosen, ("f64",), ("hot",), "emulated", 0))
    rows, known, compiled = [], set(), []

    def keep(row):
        rows.append(row)
        known.update(path.name for path in (tmp_path / "home" / "per-host").glob("*/*.csr"))
        return True

    monkeypatch.setattr(precompile, "precompile", lambda *args: compiled.append(args[0]))
    settings = Settings("emulated", per_host=str(matrix_cache.per_host("one")))
    with open(tmp_path / "log", "wb") as log:
        measuring = driver.Driver(settings, log, keep)
        with session._work_ahead(measuring, groups, EMULATED):
            precompile.open_and_compile(measuring, groups, lambda: False)
            assert measuring.drive(groups) == []
        measuring.close()
    assert compiled == [groups] and measuring.seconds["precompiling"] >= 0
    assert [row["status"] for row in rows] == ["ok"] * 6
    assert [row["label"] for row in rows[:2]] == ["csr-scalar", CUT]  # in preparation, as far as the worker knows: last
    assert len(known) == 3  # every matrix was read into the cache
    assert not list((tmp_path / "home" / "per-host").glob("*"))


SLOW = """
import time

from spmvbench.formats import register
from spmvbench.formats.csr.csr import CsrScalar


@register
class Slow(CsrScalar):
    key = "slow"

    @classmethod
    def prepare(cls, a, **params):
        time.sleep(600)
"""


def test_a_preparation_that_takes_too_long_ends_and_nobody_waits_for_it(tmp_path, monkeypatch):
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("SPMVBENCH_FORMATS", str(tmp_path / "slow.py"))
    matrix = lookup.obtain("tridiag:9")
    process = prefetch.start(tmp_path, {(matrix, 0): [("slow", {}, "f64")]}, False, EMULATED, seconds=1)
    assert process.wait() == -signal.SIGALRM
    with paths.locked(matrix_cache.preparation_lock(tmp_path, matrix, 0, False), lambda: True) as had:
        assert had
