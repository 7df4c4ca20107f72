"""Check of programs: the machine code of a row's kernels and the arrays that they take are made again, without a GPU.

A row names its program by a hash (`measure.program`). The matrix is converted on the host by the sources of this
installation, the kernels are compiled for the row's GPU by the NVRTC of its run, and both give the hash anew. If it is
that of the row, the row is of this program; only the times have to be believed.

Of rows whose hash of machine code is of the first version (`CODE_HASH`) the launches and arrays are made again.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil

from spmvbench import formats
from spmvbench.bundles import sources
from spmvbench.bundles.findings import FAILED, NOTE, OPEN, PASSED, Bundle, Finding, cases, mapping, shortened
from spmvbench.bundles.limited import limit_memory
from spmvbench.bundles.matrices import OfMatrix, at_hand, by_matrix, made_again, size_of
from spmvbench.devices import cuda, nvrtc
from spmvbench.devices.base import CODE_HASH, DeviceFault, DeviceUnavailable
from spmvbench.errors import SpmvbenchError
from spmvbench.formats import Call, Csr, Skip
from spmvbench.formats.arrays import Array
from spmvbench.formats.conversion import Limits, converting_for
from spmvbench.formats.kernels import kernel_path
from spmvbench.formats.launches import single_steps
from spmvbench.measure import operations
from spmvbench.measure.cases import precision_of
from spmvbench.measure.program import kernels_run, program_hash
from spmvbench.measure.verify import Checks
from spmvbench.rows.stored import parsed

MOST_BYTES = 1 << 31  # of a format that is made again
MEMORY = 5 * MOST_BYTES  # of a process: a matrix, a format and what a conversion needs beside them
MOST_PARTITIONING = 5.0  # seconds that partitioning a graph has taken; this host would take longer
OPERATIONS = {"spmv", "spmv-t"}  # launches of others depend on vectors that are drawn at random
SHARED_BYTES = {"sm_90": 227 << 10}  # of a block, where the metadata of older runs lacks them
LIBRARY = "a vendor's library"
AT_ONCE = 1 << 16  # words of an array, which stay in a cache


class Target(NamedTuple):
    """What machine code and conversions depend on besides their sources. nvrtc: its version, such as ``13.0``."""

    arch: str
    nvrtc: str
    limits: Limits

    @classmethod
    def of(cls, session: Mapping[str, Any]) -> Target:
        """Of an invocation, whose metadata is untrusted."""
        known = mapping(session.get("properties"))
        arch = str(known.get("architecture") or "")
        counts = (known.get(name) for name in ("multiprocessors", "shared_bytes", "l2_bytes"))
        multiprocessors, shared, l2 = (n if isinstance(n, int) and 0 < n < 1 << 31 else 0 for n in counts)
        limits = Limits(multiprocessors, shared or SHARED_BYTES.get(arch, 0), str(known.get("device_name") or ""), l2)
        return cls(arch, str(known.get("nvrtc") or ""), limits)

    @property
    def major(self) -> int:
        """The major version of NVRTC."""
        return int(self.nvrtc.partition(".")[0])


class Judged(NamedTuple):
    """What was found of rows that are alike, by their numbers.

    verdict: AGREES, OTHER_CODE, OTHER, or why they were not made again. same_code: whether their machine code was made
    again. with_code: whether it can be. current: whether they are of this installation's sources.
    """

    numbers: list[int]
    verdict: str
    target: Target | None = None
    same_code: bool = False
    with_code: bool = False
    current: bool = True


AGREES, OTHER_CODE, OTHER = "agrees", "other machine code", "other launches or arrays"
Late = Callable[[], str]  # why no more programs are made; empty while there is time


def processes() -> int:
    """As many as there are cores and as the memory that is free has room for."""
    return max(min(os.cpu_count() or 1, psutil.virtual_memory().available // MEMORY), 1)


def programs(bundle: Bundle, seconds: float, progress: Callable[[str], None], workers: int = 0) -> Iterator[Finding]:
    """Make the programs of rows again, those of the smallest matrices first, within the time limit.

    workers: processes, each of which makes those of a matrix in MEMORY; 0 for this process.

    FAILED: rows of this installation's sources with other launches or arrays, or with other machine code, though that
    of other rows of their run could be made again. OPEN: rows of other sources with another program, formats that were
    chosen by timing or by a model, machine code whose hash is of the first version, and what could not be made again
    here. NOTE: calls of libraries.
    """
    rows = bundle.verified
    is_hashed = rows["device"].str.startswith("cuda") & (rows["program"] != "")
    if others := len(rows) - is_hashed.sum():
        reason = "of the emulated device or without the hash of a program"
        yield Finding("programs", OPEN, f"{others} of {len(rows)} rows not made again, {reason}")
    rows = rows[is_hashed].reset_index(drop=True)
    if not len(rows):
        return
    rows["target"] = [Target.of(bundle.sessions_of(row)[0]) for row in rows.itertuples()]
    judged, of_matrices = list[Judged](), by_matrix(rows)
    limit = time.monotonic() + seconds, seconds  # by a clock that processes share
    made = partial(_of_rows, seeds=bundle.seeds, limit=limit)
    for ((_, name, *_), _), found in zip(of_matrices, _each(made, of_matrices, workers), strict=True):
        progress(f"programs of {name} made again")
        judged += found
    yield from _findings(rows, judged)


def _each(
    made: Callable[[OfMatrix], list[Judged]], of_matrices: Sequence[OfMatrix], workers: int
) -> Iterator[list[Judged]]:
    workers = min(workers, len(of_matrices))
    if not workers:
        yield from map(made, of_matrices)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), limit_memory, (MEMORY,)) as pool:
        of_each = [(rows, pool.submit(made, (named, rows))) for named, rows in of_matrices]
        for rows, future in of_each:
            try:
                yield future.result()
            except BrokenProcessPool:
                yield _left(rows, "whose process was killed, as for lack of memory")


def _left(rows: pd.DataFrame, reason: str) -> list[Judged]:
    return [Judged(list(rows.index), reason)]


def _of_rows(of_matrix: OfMatrix, seeds: Sequence[int], limit: tuple[float, float]) -> list[Judged]:
    """What is found of the rows of a matrix. limit: when by the clock, and after how many seconds, the time is over."""
    (group, name, order, digest), rows = of_matrix
    until, seconds = limit

    def late() -> str:
        return f"no time was left of {seconds:g} s (--programs)" if time.monotonic() >= until else ""

    matrix = at_hand(group, name)
    if isinstance(matrix, str):
        return _left(rows, f"whose matrices are not made again: {matrix}")
    if reason := late():
        return _left(rows, reason)
    try:
        found = made_again(matrix(), order, digest, seeds, size_of(rows))
    except (SpmvbenchError, MemoryError) as error:
        return _left(rows, f"whose matrices are not made again: {error}")
    return _left(rows, "whose matrices are other ones here") if found is None else _of_matrix(found[0], rows, late)


# Rows that are equal in these are made again once, such as hot and cold rows of one program.
ALIKE = ["format", "params", "dtype", "op", "source_hash", "code_hash", "program", "target"]


def _of_matrix(a: Csr, rows: pd.DataFrame, late: Late) -> list[Judged]:
    judged, stored = list[Judged](), dict[tuple[str, str], tuple[Csr, Array, Array]]()
    for _, alike in rows.groupby(ALIKE, sort=False):
        row, numbers = alike.iloc[0], list(alike.index)
        made = _refusal(row) or late() or _tried(a, row, stored)
        judged.append(Judged(numbers, made) if isinstance(made, str) else _judged(row, numbers, *made))
    return judged


def _tried(a: Csr, row: pd.Series, stored: dict[tuple[str, str], tuple[Csr, Array, Array]]) -> tuple[str, str] | str:
    """As `_made`, or why a row's program could not be made."""
    try:
        return _made(a, row, _in_use(row, parsed(row["detail"])), stored)
    except Skip as skip:
        return f"refused here: {skip.reason}"
    except (DeviceUnavailable, DeviceFault) as error:
        return str(error).partition("\n")[0]
    except Exception as error:  # a conversion of what a stranger sent may raise anything
        return f"{type(error).__name__}: {error}"[:120]


def _judged(row: pd.Series, numbers: list[int], code: str, program: str) -> Judged:
    """What is found of rows that are alike. code, program: the hashes that were made again."""
    known, with_code, same = parsed(row["detail"]), _has_code(row), code == row["code_hash"]
    current = sources.installed(row["format"]) == sources.of_format(row["source_hash"])
    if program == row["program"] and (same or not with_code):
        verdict = AGREES
    elif _is_tuned(row, known) or "chosen" in known:
        verdict = "which were chosen by timing or by a model"
    elif not current:
        verdict = "of other revisions of their formats, with other programs"
    else:
        verdict = OTHER_CODE if program == row["program"] else OTHER
    return Judged(numbers, verdict, row["target"], same, with_code, current)


def _refusal(row: pd.Series) -> str:
    """Why a row's program is not made again; empty if it is tried."""
    if row["format"] not in formats.shipped():
        return "of formats that are not of this installation"
    cls = formats.get(row["format"])
    if "emulated" not in cls.devices:
        return LIBRARY
    if operations.kind(row["op"]) not in OPERATIONS:
        return "of other operations than y = A x and y = A^T x"
    if row["bytes_format"] > MOST_BYTES:
        return f"larger than {MOST_BYTES >> 30} GiB"
    partitioning = parsed(row["detail"]).get("partition_s", 0.0)
    if isinstance(partitioning, int | float) and partitioning > MOST_PARTITIONING:
        return "whose graphs take long to partition"
    target = row["target"]
    if not re.fullmatch(r"sm_\d+a?", target.arch) or not re.fullmatch(r"\d+\.\d+", target.nvrtc):
        return "of runs that do not say for which architecture and by which NVRTC they compiled"
    if not target.limits.multiprocessors or not target.limits.shared_bytes:
        return "of runs that do not say how many multiprocessors, or how much shared memory, their GPU has"
    if _has_code(row) and (here := _nvrtc(target.major)) != target.nvrtc:
        name = f"nvidia-cuda-nvrtc{'-cu12' if target.major == 12 else ''}"
        is_here = f"{here} is" if here else "none is"
        packages = f"'cuda-bindings=={target.major}.*' '{name}=={target.nvrtc}.*'"
        return f"compiled by NVRTC {target.nvrtc}, where {is_here} here (pip install {packages})"
    return ""


def _has_code(row: pd.Series) -> bool:
    """Whether the hash of a row's machine code can be made again: it is of the second version."""
    return str(row["code_hash"]).startswith(CODE_HASH)


@cache
def _nvrtc(newest: int) -> str:
    """The version of NVRTC that is here, not newer than this major version; empty without one."""
    try:
        return ".".join(map(str, nvrtc.version(newest)))
    except DeviceUnavailable:
        return ""


def _is_tuned(row: pd.Series, detail: Mapping[str, Any]) -> bool:
    """Whether parameters were found by timing; `detail` said so before there was a column."""
    return "search_seconds" in detail or not math.isnan(row["t_tune"])


def _in_use(row: pd.Series, detail: Mapping[str, Any]) -> dict[str, Any]:
    """A row's parameters; those that were found by timing as `detail` tells them."""
    given = parsed(row["params"])
    tuned = _is_tuned(row, detail)
    return {name: detail[name] if tuned and name in detail else value for name, value in given.items()}


def _made(
    a: Csr, row: pd.Series, params: Mapping[str, Any], stored: dict[tuple[str, str], tuple[Csr, Array, Array]]
) -> tuple[str, str]:
    """Hashes of machine code, empty where it is not made, and of the program with the row's machine code.

    stored: the matrix and vectors by type and operation, once made.

    Raises as `Format.from_csr`, DeviceFault if a kernel does not compile, DeviceUnavailable without NVRTC.
    """
    target, cls, op = row["target"], formats.get(row["format"]), operations.get(row["op"])
    precision = precision_of(row["dtype"])
    with converting_for(target.limits):
        if (row["dtype"], row["op"]) not in stored:
            host = op.matrix(precision.rounded(a))
            stored[row["dtype"], row["op"]] = (precision.stored(host).read_only(), *op.vectors(host))
        matrix, x, y = stored[row["dtype"], row["op"]]
        fmt = cls.from_csr(matrix, max_bytes=MOST_BYTES, **params)
        steps = precision.launches(op.launches(fmt, x, y, Checks([], [], [], 0), None))  # type: ignore[arg-type]
    if any(isinstance(step, Call) for step in single_steps(steps)):
        raise Skip(LIBRARY)
    ran = [(step.source, step.kernel) for step in kernels_run(steps)] if _has_code(row) else []
    code = cuda.code_hash(_binary_hash(source, kernel, target.arch, target.major) for source, kernel in ran)
    return code, program_hash(fmt, steps, _checksums, x, y, row["code_hash"])


@cache
def _binary_hash(source: str, kernel: str, arch: str, major: int) -> bytes:
    return cuda.binary_hash(cuda.compiled(kernel_path(source), kernel, arch, major).binary)


def _checksums(arrays: Sequence[Array]) -> Callable[[], list[int]]:
    """As `Device.checksums` of a GPU, on the host."""
    return lambda: list(map(checksum, arrays))


def checksum(array: Array) -> int:
    """64 bits of a contiguous NumPy array, as kernels/checksum.cu computes them of a copy on a GPU."""
    data = array.reshape(-1).view(np.uint8)
    words = data if data.size % 4 else data.view(np.uint32)
    total = 0
    for first in range(0, words.size, AT_ONCE):
        part = words[first : first + AT_ONCE].astype(np.uint64)
        total += int(_mixed(part, first).sum(dtype=np.uint64))
    return total % (1 << 64)


def _mixed(words: Array, first: int) -> Array:
    """SplitMix64 of every word and its place, in place. first: place of the first one."""
    words += np.arange(first + 1, first + 1 + words.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def _findings(rows: pd.DataFrame, judged: Sequence[Judged]) -> Iterator[Finding]:
    total, found = len(rows), defaultdict[str, list[int]](list)
    known_code = {each.target for each in judged if each.same_code}
    for each in judged:
        verdict = each.verdict
        if verdict == OTHER_CODE:
            unlike = "whose machine code differs in all rows: it may be of another build of NVRTC"
            verdict = OTHER if each.target in known_code else unlike
        found[verdict] += each.numbers
    if wrong := found.pop(OTHER, []):
        text = f"these sources make another program: {len(wrong)} of {total} rows: {cases(rows.loc[wrong])}"
        yield Finding("programs", FAILED, text)
    found.pop(AGREES, None)
    for with_code, what in ((True, "machine code"), (False, "launches")):
        agreeing = [each for each in judged if each.verdict == AGREES and each.with_code == with_code]
        if count := sum(len(each.numbers) for each in agreeing):
            text = f"{what} and arrays made again from these sources: {count} of {total} rows"
            if revised := sum(len(each.numbers) for each in agreeing if not each.current):
                text += f", {revised} of them measured with other revisions of their formats"
            yield Finding("programs", PASSED, text)
            if not with_code:
                reason = "its hash covers folders and times of source files on the machine that compiled it"
                yield Finding("programs", OPEN, f"machine code of {count} of {total} rows not made again: {reason}")
    if calls := found.pop(LIBRARY, []):
        yield Finding("programs", NOTE, f"calls of {LIBRARY}, which are not made again: {len(calls)} of {total} rows")
    for reason, numbers in found.items():
        labels = list(dict.fromkeys(rows.loc[numbers, "label"]))
        yield Finding("programs", OPEN, f"{len(numbers)} of {total} rows not made again, {reason}: {shortened(labels)}")
