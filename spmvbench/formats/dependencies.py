"""What a row depends on: the Python that its format reaches, the code of its kernels, and the compilers' options."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.formats.format import Format
from spmvbench.formats.imports import PACKAGE, digest, imported, parsed, sha256
from spmvbench.formats.kernels import Read, code, headers, kernel_options, kernel_path, read
from spmvbench.formats.launches import Launch, Step, single_steps
from spmvbench.formats.parameters import cached


@cached
def source_hash(cls: type[Format]) -> str:
    """SHA-256 (16 hex digits) of all that a row of this format depends on besides its matrix.

    A row carries it; a row measured from other sources is measured again. Comments, docstrings and layout do not
    count, neither of Python nor of kernels. A format of this project that goes by data, such as a model, has a class
    method `data_digest`, whose text counts as well. Raises UsageError for a source that is not there or cannot be read.
    """
    return hash_of(cls)


def hash_of(cls: type[Format], read: Read = read) -> str:
    """As `source_hash`, from what `read` gives of each file, which is asked once."""
    read = cache(read)
    try:
        found = hash_of_files(python_files(cls, read), kernel_files(cls, read), read)
        data = " ".join(map(_data, (cls, *getattr(cls, "formats", ())))).strip()
        return sha256(f"{found} {data}")[:16] if data else found
    except OSError as error:
        raise UsageError(f"{cls.key} has the source {error.filename}, which cannot be read: {error.strerror}") from None


def _data(cls: type[Format]) -> str:
    """The text of a format's `data_digest`; empty without one."""
    owner = next((base for base in cls.__mro__ if "data_digest" in vars(base)), None)
    if owner is None or owner.__module__.partition(".")[0] != PACKAGE.name:
        return ""
    data: Callable[[], str] = cls.data_digest  # type: ignore[attr-defined]
    return data()


def hash_of_files(python: Iterable[Path], kernels: Iterable[Path], read: Read = read) -> str:
    """As `source_hash`, of modules and of kernels with what they include, each in any order. Raises OSError."""
    modules = digest(python, read)
    texts = sorted(f"{path.name} {sha256(code(read(path)))}" for path in kernels)
    options = [option.replace(str(paths.include()), "include") for option in kernel_options()]
    return sha256("\n".join([modules, *texts, *options]))[:16]


def python_files(cls: type[Format], read: Read = read) -> list[Path]:
    """The modules of a format's class, of those of its parts and of their bases, and all that they import: see
    `imported`.

    Raises UsageError for a class that was defined in no file.
    """
    found: dict[Path, None] = {}
    of_parts = itertools.chain.from_iterable(part.__mro__ for part in getattr(cls, "formats", ()))
    for base in dict.fromkeys((*cls.__mro__, *of_parts)):
        if base.__module__.partition(".")[0] in sys.stdlib_module_names:
            continue
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if file is None:
            raise UsageError(f"{base.__name__} was defined in no file, so that rows of {cls.key} could not name it")
        path = Path(file).resolve()
        if path not in found:
            depth = base.__module__.count(".") + (path.stem == "__init__")
            found |= dict.fromkeys(imported([path], (path.parents[depth],), read))
    return list(found)


def sources(cls: type[Format], read: Read = read) -> tuple[str, ...]:
    """The kernel files that a format may launch, as `Launch.source` has them: every text ``*.cu`` of its modules that
    names a file in kernels/ or from the module's folder.
    """
    found: dict[str, None] = {}
    for path in python_files(cls, read):
        for name in parsed(path, read).kernels:
            candidates = (name, str(path.parent / name))
            found |= dict.fromkeys(text for text in candidates if os.path.isfile(kernel_path(text)))
    return tuple(found)


def kernel_files(cls: type[Format], read: Read = read) -> list[Path]:
    """The kernel files of a format and all that they include."""
    files = map(kernel_path, sources(cls, read))
    return list(dict.fromkeys(path for source in files for path in (source, *headers(source, read))))


def check_sources(cls: type[Format], launches: Iterable[Step], others: Iterable[str] = ()) -> None:
    """Raises UsageError if a launch takes its kernel from a file that is not among `sources`: rows would not know.

    others: files from which an operation takes kernels, which rows name by the operation.
    """
    known = set(others)
    for step in single_steps(launches):
        if isinstance(step, Launch) and step.source not in known and not _known(cls, step.source):
            raise UsageError(
                f"{cls.key} launches {step.kernel} from {step.source}, which no text in its modules names: "
                "write the file's path in kernels/ or from the module's folder as one text that ends in .cu"
            )


@cached
def _known(cls: type[Format], source: str) -> bool:
    if os.path.realpath(kernel_path(source)) in {os.path.realpath(kernel_path(name)) for name in sources(cls)}:
        return True
    # Parts that are chosen by data are in the hash by `data_digest`.
    chosen = cls.candidates() if hasattr(cls, "candidates") else ()
    return any(_known(part, source) for part in (*getattr(cls, "formats", ()), *chosen))
