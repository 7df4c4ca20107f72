"""Shared fixtures. Nothing that a test does touches the user's own cache."""

import faulthandler
import gc
import importlib.util
import json
import math
import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kept import compiled
from tests.reports import chromium

# Tests start Python hundreds of times: what it compiles is kept, even where the environment says not to. Half of the
# time of many a process would go into compiling the same modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SPENT = {}  # CPU seconds by folder: of the tests that are not slow, and of all
_LAST = pytest.StashKey[float]()  # CPU seconds at the last report

KEPT_SECONDS = 14 * 24 * 3600  # of a compiled kernel

# How long a draw or an example takes says something of the machine, which may be busy, and nothing of the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


MOST_WORKERS = 16  # each collects all tests, which takes seconds


def pytest_xdist_auto_num_workers(config):
    """One more than there are cores: many tests wait for other processes. Tests on a GPU take turns: they measure."""
    chosen = config.getoption("markexpr")
    return 0 if "gpu" in chosen and "not gpu" not in chosen else min(len(os.sched_getaffinity(0)) + 1, MOST_WORKERS)


def pytest_addoption(parser):
    parser.addoption(
        "--cpu-seconds", metavar="FILE", help="write CPU seconds by folder as JSON: of what is not slow, of all"
    )


def cpu_seconds():
    """User and system time of this process and of the processes that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item):
    """What came since the last report belongs to this test, with the fixtures that it is the first to ask for."""
    now = cpu_seconds()
    item.user_properties[:] = [("cpu", now - item.config.stash.get(_LAST, now))]
    item.config.stash[_LAST] = now


def pytest_runtest_logreport(report):
    parts = report.nodeid.partition("::")[0].split("/")
    spent = SPENT.setdefault("/".join(parts[:2]) if len(parts) > 2 else "tests/test_*.py", [0.0, 0.0])
    seconds = dict(report.user_properties).get("cpu", 0.0)
    spent[0] += 0.0 if "slow" in report.keywords else seconds
    spent[1] += seconds


def pytest_collection():
    """Thousands of tests are made, none goes: the garbage collector would look through them again and again."""
    gc.disable()


def pytest_collection_modifyitems(items):
    """Tests that wait begin first: what they leave of the cores is used by the others, and none waits at the end."""
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)


def pytest_collection_finish(session):
    """What was collected stays until the end, so that the garbage collector leaves it alone from now on too."""
    gc.enable()
    gc.freeze()
    session.config.stash[_LAST] = cpu_seconds()


def pytest_runtest_setup(item):
    """Arrays of tests are small: CuPy need not compile CUB into the sums of each type, which takes seconds for each."""
    if item.get_closest_marker("gpu"):
        with suppress(ImportError, AttributeError):
            from cupy import _core

            _core.set_reduction_accelerators([])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    """A failed test's time counts no more (pytest-timeout lets a debugger have it): what cleans up has some, too.

    Where that is over, the process ends: pytest-xdist names the test and goes on in another.
    """
    if limit := float(item.config.getini("timeout")):  # 0 is none, for pytest-timeout too
        faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def pytest_sessionstart(session):
    """Kernels that were compiled weeks ago are of sources that have changed since, or are compiled once more.

    A shell's job in the background ignores SIGINT, as all processes would that tests start and interrupt.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        for folder, _, names in os.walk(compiled()):  # unlike rglob, while others remove folders there
            for path in map(Path(folder).joinpath, names):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > KEPT_SECONDS:
                        path.unlink()


def pytest_terminal_summary(terminalreporter):
    """What this machine lacks in one line: how many tests for which reason, which says what to install or to set."""
    if path := terminalreporter.config.getoption("cpu_seconds"):
        Path(path).write_text(json.dumps(SPENT), encoding="utf-8")
    reasons = Counter(
        str(report.longrepr[2]).removeprefix("Skipped: ") for report in terminalreporter.stats.get("skipped", [])
    )
    lacking = Counter({r: count for r, count in reasons.items() if r.startswith(("needs ", "could not import "))})
    if lacking:
        told = "; ".join(f"{count} {reason}" for reason, count in lacking.most_common())
        terminalreporter.write_line(f"{lacking.total()} tests were not run for what is not here: {told}")
    if others := (reasons - lacking).total():
        terminalreporter.write_line(f"{others} tests met what a format refuses (-rs lists the reasons)")


@pytest.fixture(scope="session", autouse=True)
def session_home(tmp_path_factory):
    """A home folder for the whole session, and compiled kernels from one session to the next.

    A test that needs an empty home sets SPMVBENCH_HOME itself, one that watches the compiler SPMVBENCH_COMPILED.
    """
    base = tmp_path_factory.getbasetemp()
    # Under pytest-xdist every worker has a folder of its own inside the session's.
    home = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "spmvbench-home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMVBENCH_HOME", str(home))
        patch.setenv("SPMVBENCH_COMPILED", str(compiled()))
        patch.setenv("MPLBACKEND", "Agg")
        patch.delenv("SPMVBENCH_FORMATS", raising=False)
        yield home


@pytest.fixture(scope="session")
def mirror():
    """The folder of real matrices, laid out as the SuiteSparse site; the test is skipped where there is none."""
    folder = os.environ.get("SPMVBENCH_MIRROR")
    if not folder:
        pytest.skip("needs real matrices (SPMVBENCH_MIRROR=folder laid out as the SuiteSparse site)")
    return Path(folder)


@pytest.fixture
def command(capsys, monkeypatch):
    """Runs one command line in this process, errors and exit code handled as at the terminal.

    No line says how far it is: one does every ten seconds, of which a busy machine needs many.
    """
    monkeypatch.setattr("spmvbench.cli.progress.PLAIN_PROGRESS_SECONDS", math.inf)

    @dataclass
    class Result:
        code: int
        out: str
        err: str

    def run(*args):
        from spmvbench.cli import main

        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return Result(stopped.value.code, out, err)

    return run


@pytest.fixture
def registry():
    """Puts the registry back as it was: within a test, and at its end."""
    from spmvbench import formats

    formats.keys()  # register every format before the registry is copied
    known = dict(formats.registry.REGISTRY)

    def restore():
        formats.registry.REGISTRY.clear()
        formats.registry.REGISTRY.update(known)

    yield restore
    restore()


@pytest.fixture
def registered(registry, monkeypatch):
    """Runs a file of formats, which are registered during the test. Gives its module, and the keys that it adds."""
    from spmvbench import formats

    def load(path):
        before = set(formats.registry.REGISTRY)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, path.stem, module)
        spec.loader.exec_module(module)
        return module, sorted(set(formats.registry.REGISTRY) - before)

    return load


@pytest.fixture
def formats_of(monkeypatch, registry):
    """Has SPMVBENCH_FORMATS name files, which are read anew; formats and modules are afterwards as before."""
    from spmvbench import formats

    def forget():
        registry()
        own = [module for name, module in sys.modules.items() if name.startswith("spmvbench_format_")]
        for name in [name for name, module in sys.modules.items() if module in own]:  # by its plain name, too
            del sys.modules[name]
        formats._discover.cache_clear()
        formats.source_hash.cache_clear()

    def name(*files):
        forget()
        monkeypatch.setenv("SPMVBENCH_FORMATS", os.pathsep.join(map(str, files)))

    yield name
    monkeypatch.undo()
    forget()


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One Chromium for all tests of pages."""
    if chromium.PROGRAM is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    running = chromium.Browser(tmp_path_factory.mktemp("browser"))
    yield running
    running.close()
