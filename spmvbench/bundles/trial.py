"""Trial of a submitted format: a process in a container multiplies, this process verifies the results.

The parent draws random matrices and x. A container of the image that the Containerfile makes gets them on its standard
input, with this package and the bundle's sources, as an archive. A child there converts, runs the format's launches on
the emulated device, and writes plain numbers to its standard output. The container has no network, no folder of this
machine, and limited time and memory. The parent trusts nothing of its answer: it compares every y with its own product
and hashes the sources itself. The child must end with exit code 0, print nothing and compute all products. A format may
refuse a matrix; refusals are counted.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spmvbench import formats, paths, testing, untrusted
from spmvbench.bundles.findings import FAILED, OPEN, PASSED, Finding
from spmvbench.devices import Device, open_device
from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Skip, dependencies, imports
from spmvbench.formats.vectors import orders, restored
from spmvbench.measure import operations, verify

MAX_ENTRIES = 9000  # of a matrix in a trial; also the maximum number of rows
SECONDS = 600
MEMORY = 8  # GiB
TASKS, SOURCES = "tasks", "sources"  # in the archive: a file, and the folder of the bundle's sources
MAX_TEXT = 1 << 16  # bytes of a text from the child
RESULT, REFUSED = b"y", b"-"  # before each answer of the child
# Exit codes of the container: of an engine that could not start it (podman-run(1)), and after SIGKILL.
NOT_STARTED, KILLED = 125, 137
ENGINES = ("podman", "docker")
IMAGE = "spmvbench"
# Compiled kernels are loaded from the temporary folder, which therefore allows execution.
CONFINED = (
    "run --rm --interactive --pull never --network none --read-only --tmpfs /tmp:rw,exec,mode=1777,size=2g "
    f"--cap-drop all --security-opt no-new-privileges --memory {MEMORY}g --pids-limit 1024 "
    "--env HOME=/tmp --env SPMVBENCH_HOME=/tmp/cache"
).split()
STEPS = f"cd && tar -x && exec timeout -s KILL {SECONDS} python -m {{module}}"
# Parameters of the operations in a trial, by kind.
SEARCHES = {"bfs": ("bfs@0", "bfs@1"), "bfs-directed": ("bfs-directed@1",)}
# A solver is this project's, and only its products are the format's.
OPERATIONS = testing.CHECKED | SEARCHES | dict.fromkeys(("cg", "pagerank"), testing.CHECKED["spmv"])


@dataclass(frozen=True)
class Product:
    """One matrix in one operation. references: every x with the reference for y, on the host."""

    name: str
    op: str
    a: Csr
    references: list[verify.Reference]

    def without_results(self) -> Product:
        """The task for the child: without the reference results."""
        nothing = np.zeros(0)
        bare = [replace(r, x=r.whole_x(self.a.cols), y=nothing, bound=nothing) for r in self.references]
        return replace(self, references=[replace(r, columns=None, rows=None) for r in bare])

    @property
    def y_dtype(self) -> np.dtype[Any]:
        """The type of y."""
        y = operations.get(self.op).vectors(self.a)[1]
        found: np.dtype[Any] = np.dtype(y.dtype)
        return found

    @property
    def y_bytes(self) -> int:
        """The size of every y together."""
        return self.a.rows * self.y_dtype.itemsize * len(self.references)


def products(kinds: Iterable[str], matrices: Mapping[str, Any], device: Device, seed: int) -> list[Product]:
    """The products that a format of these operations has to compute, with every x drawn from the seed.

    For each matrix this includes the integer matrix, whose products are exact.
    """
    found = []
    for name, matrix in matrices.items():
        for op in dict.fromkeys(op for kind in kinds for op in OPERATIONS.get(kind, ())):
            operation = operations.get(op)
            for dtype in (np.float32,) if operation.pattern else (np.float64, np.float32):
                try:
                    a = operation.matrix(Csr.of(matrix).astype(dtype))
                    checks = operation.checks(a, a, device, seed, seed + 1)
                except Skip:
                    continue
                found.append(Product(f"{name}, {np.dtype(dtype)}", op, a, [*checks.dense, *checks.sparse]))
                integers = verify.integer_matrix(a) if checks.integer else None
                if integers is not None:
                    found.append(
                        Product(f"{name}, {np.dtype(dtype)}, exact integer test", op, integers, checks.integer)
                    )
    return found


def engine() -> str:
    """The container engine that runs trials. Raises UsageError without one, or without the image."""
    found = next(filter(None, map(shutil.which, ENGINES)), None)
    name = Path(found).name if found else ENGINES[0]
    build = f"{name} build --tag {IMAGE} --file Containerfile CLONE"
    if found is None:
        raise UsageError(
            f"--run-sources runs a stranger's program in a container: install {' or '.join(ENGINES)}, type `{build}`, "
            "with CLONE for the folder of a clone of spmvbench, and check again"
        )
    looked = subprocess.run([found, "image", "inspect", IMAGE], capture_output=True, text=True, check=False)
    if looked.returncode:
        raise UsageError(
            f"{name} has no image {IMAGE}{_last_words(looked.stderr)}; type `{build}`, with CLONE for the folder of a "
            "clone of spmvbench"
        )
    return found


def run(
    key: str,
    measured: str,
    settings: Sequence[Mapping[str, Any]],
    kinds: Sequence[str],
    modules: Sequence[Path],
    matrices: Mapping[str, Any] | None = None,
) -> Finding:
    """Try a format with each of its settings; returns the finding.

    measured: the source hash of its rows. kinds: of its operations. modules: the bundle's Python files, all in one
    folder. matrices: csr_arrays by name; None: the hard ones that every format is tested with. Raises UsageError as
    `engine`.
    """
    program, folder = engine(), modules[0].parent.resolve()
    wanted = products(
        kinds, trial_matrices() if matrices is None else matrices, open_device("emulated"), secrets.randbits(62)
    )
    bare = [product.without_results() for product in wanted]
    names = [module.name for module in modules]
    tasks = pickle.dumps((key, names, [dict(setting) for setting in settings], bare))
    sizes = [product.y_bytes for product in wanted] * len(settings)
    with tempfile.TemporaryFile() as archive:
        _pack(archive, tasks, folder)
        command = [program, *CONFINED, IMAGE, "sh", "-c", STEPS.format(module=__name__)]
        code, out, err = _ran(command, archive, sum(sizes) + len(sizes) + MAX_TEXT)
    if code == NOT_STARTED:
        return Finding("formats", OPEN, f"not run: {Path(program).name} could not start it{_last_words(err)}")
    if code:
        reason = f"took more than {SECONDS} s or {MEMORY} GiB" if code == KILLED else f"ended with {code}"
        return Finding("formats", FAILED, f"its process {reason}{_last_words(err)}")
    answer = io.BytesIO(out)
    if wrong := _source_mismatch(answer, key, measured, folder, names, _last_words(err)):
        return Finding("formats", FAILED, wrong)
    return _verified(answer, wanted, len(settings), _last_words(err))


def _pack(archive: Any, tasks: bytes, folder: Path) -> None:
    """Write the container's input, a tar archive: this package, its kernels, the bundle's sources, the tasks."""
    with tarfile.open(fileobj=archive, mode="w") as packed:
        for name, place in _places(folder).items():
            packed.add(place, name, filter=lambda member: None if "__pycache__" in member.name else member)
        member = tarfile.TarInfo(TASKS)
        member.size = len(tasks)
        packed.addfile(member, io.BytesIO(tasks))
    archive.seek(0)


def _places(folder: Path) -> dict[str, Path]:
    """Where what is in the container is here, by the first part of its path there."""
    return {imports.PACKAGE.name: imports.PACKAGE, "kernels": paths.kernels().resolve(), SOURCES: folder}


def _ran(command: Sequence[str], archive: Any, most: int) -> tuple[int, bytes, str]:
    """Exit code and output of a command, at most so many bytes of it, and the first MAX_TEXT bytes of its errors."""

    def beginning(stream: Any, limit: int) -> bytes:
        with stream:
            content: bytes = stream.read(limit)
        return content

    pipe = subprocess.PIPE
    with ThreadPoolExecutor(1) as pool, subprocess.Popen(command, stdin=archive, stdout=pipe, stderr=pipe) as process:
        err = pool.submit(beginning, process.stderr, MAX_TEXT)
        out = beginning(process.stdout, most + 1)
        code = process.wait()
    return code, out, err.result().decode(errors="replace")


def trial_matrices() -> dict[str, Any]:
    """The matrices of a trial: the small ones of the hard matrices."""
    found = testing.hard_matrices() | testing.hard_graphs()
    return {name: a for name, a in found.items() if max(a.nnz, *a.shape) <= MAX_ENTRIES}


def _source_mismatch(
    answer: io.BytesIO, key: str, measured: str, folder: Path, modules: Sequence[str], last_words: str
) -> str:
    """What is wrong with the format's source files as the child lists them; their hash is computed here."""
    line = answer.readline(MAX_TEXT)
    if not line:
        return f"its process ended early{last_words}"
    try:
        names = json.loads(line)
        python, kernels = ([_here(name, folder) for name in names[kind]] for kind in ("python", "kernels"))
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        return "it prints, which a format must not do"
    if None in python or None in kernels:
        return "its sources lie outside of the bundle"
    if not set(python) & {folder / module for module in modules}:
        return "none of the bundle's sources is its own"
    try:
        found = dependencies.hash_of_files(set(filter(None, python)), set(filter(None, kernels)))
    except (UsageError, OSError) as error:
        return f"{key} has a source that cannot be read: {error}"
    return "" if found == measured else f"it was measured from {measured}, the bundle holds {found}"


def _here(name: str, folder: Path) -> Path | None:
    """The file here that the child names; None if it is not in the bundle, the package or its kernels."""
    first, _, rest = name.partition("/")
    place = _places(folder).get(first)
    found = (place / rest).resolve() if place else None
    return found if place and found and found.is_relative_to(place) else None


def _last_words(output: str) -> str:
    last = next((line.strip() for line in reversed(output.split("\n")) if line.strip()), "")
    return f": {untrusted.text(last[:200])}" if last else ""


def _verified(answer: io.BytesIO, wanted: Sequence[Product], settings: int, last_words: str) -> Finding:
    verified, refused = 0, 0
    for product in [*wanted] * settings:
        mark = answer.read(1)
        if mark == REFUSED:
            refused += 1
            continue
        content = answer.read(product.y_bytes)
        if mark != RESULT or len(content) != product.y_bytes:
            return Finding("formats", FAILED, f"no result for {product.name}{last_words}")
        results = np.frombuffer(content, product.y_dtype).reshape(len(product.references), product.a.rows)
        for y, reference in zip(results, product.references, strict=True):
            verdict = verify.compare(y, reference)
            if not verdict.passed:
                text = f"wrong on the emulated device: {verdict} ({product.name}, {product.op})"
                return Finding("formats", FAILED, text)
            verified += 1
    if answer.read(1):
        return Finding("formats", FAILED, "it prints, which a format must not do")
    matrices = f"{refused} of {settings * len(wanted)} matrices refused" if refused else ""
    if not verified or refused > settings * len(wanted) / 2:
        return Finding("formats", OPEN, f"the source of the bundle, hardly tested: {matrices or 'nothing to multiply'}")
    text = f"the source of the bundle, verified on the emulated device in {verified} products"
    return Finding("formats", PASSED, f"{text}; {matrices}" if refused else text)


# --- the child


def main() -> None:
    """`python -m spmvbench.bundles.trial`: compute the products of the tasks in the present folder."""
    key, modules, settings, tasks = pickle.loads(Path(TASKS).read_bytes())  # written by the parent
    here = Path.cwd().resolve()
    sys.path.append(str(here / SOURCES))
    os.environ["SPMVBENCH_FORMATS"] = os.pathsep.join(str(here / SOURCES / name) for name in modules)
    cls = formats.get(key)
    found = {"python": dependencies.python_files(cls), "kernels": dependencies.kernel_files(cls)}
    files = {kind: [os.path.relpath(path, here) for path in listed] for kind, listed in found.items()}
    device = open_device("emulated")
    results = [_result(cls, params, product, device) for params in settings for product in tasks]
    sys.stdout.buffer.write(b"".join([json.dumps(files).encode(), b"\n", *results]))


def _result(cls: type[formats.Format], params: Mapping[str, Any], product: Product, device: Device) -> bytes:
    try:
        return b"".join([RESULT, *_results(cls, params, product, device)])
    except Skip:
        return REFUSED


def _results(cls: type[formats.Format], params: Mapping[str, Any], product: Product, device: Device) -> Iterable[bytes]:
    """The bytes of y for every x, each computed from a y that is no correct result."""
    operation = operations.get(product.op)
    if operation.key != cls.op:
        raise Skip(f"it runs {cls.op}, not {product.op}")
    fmt = cls.from_csr(product.a.fresh(), **params)
    x, y = operation.vectors(product.a)
    program = device.compile(fmt.launches(x, y))
    for reference in product.references:
        verify.set_x(fmt, reference, x)
        y[...] = verify.garbage(y)
        program.run()
        yield np.ascontiguousarray(restored(y, orders(fmt)[1])).tobytes()


if __name__ == "__main__":
    main()
