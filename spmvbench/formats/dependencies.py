"""What a row depends on: the Python that its format reaches, the code of its kernels, and the compilers' options."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.formats.base import Format, Launch, Step, cached, single_steps
from spmvbench.formats.kernels import Read, code, headers, kernel_options, kernel_path, read

PACKAGE = Path(__file__).resolve().parents[1]
Roots = tuple[Path, ...]


class _Module(NamedTuple):
    """What counts of a module's text.

    digest: of its syntax tree. imports: names, relative ones with their level. kernels: texts that may name a file.
    """

    digest: str
    imports: tuple[tuple[int, str], ...]
    kernels: tuple[str, ...]


@cached
def source_hash(cls: type[Format]) -> str:
    """SHA-256 (16 hex digits) of all that a row of this format depends on besides its matrix.

    A row carries it; a row measured from other sources is measured again. Comments, docstrings and layout do not
    count, neither of Python nor of kernels. Raises UsageError for a source that is not there or cannot be read.
    """
    return hash_of(cls)


def hash_of(cls: type[Format], read: Read = read) -> str:
    """As `source_hash`, from what `read` gives of each file, which is asked once."""
    read = cache(read)
    try:
        return hash_of_files(python_files(cls, read), kernel_files(cls, read), read)
    except OSError as error:
        raise UsageError(f"{cls.key} has the source {error.filename}, which cannot be read: {error.strerror}") from None


def hash_of_files(python: Iterable[Path], kernels: Iterable[Path], read: Read = read) -> str:
    """As `source_hash`, of modules and of kernels with what they include, each in any order. Raises OSError."""
    modules = digest(python, read)
    texts = sorted(f"{path.name} {_digest(code(read(path)))}" for path in kernels)
    options = [option.replace(str(paths.include()), "include") for option in kernel_options()]
    return _digest("\n".join([modules, *texts, *options]))[:16]


def python_files(cls: type[Format], read: Read = read) -> list[Path]:
    """The modules of a format's class and its bases, and all that they import: see `imported`.

    Raises UsageError for a class that was defined in no file.
    """
    found: dict[Path, None] = {}
    for base in cls.__mro__:
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
        for name in _parsed(path, read).kernels:
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
    return os.path.realpath(kernel_path(source)) in {os.path.realpath(kernel_path(name)) for name in sources(cls)}


def imported(starts: Iterable[Path], roots: Roots = (), read: Read = read) -> list[Path]:
    """Modules and all that they import, at any depth, anywhere in their text: of this package, from `roots`, and from
    folders that a user has added to Python's path; not the standard library, nor what is installed.

    roots: where absolute names are looked up first. What is in an ``__init__.py`` of this package only says where
    names are found: it does not count.
    """
    found = dict.fromkeys(starts)
    for path in (todo := list(found)):
        own = path.is_relative_to(PACKAGE)
        _parsed(path, read)
        for target in _targets(path, read(path), () if own else (*roots, *_user_folders(tuple(sys.path)))):
            if target not in found:
                found[target] = None
                todo.append(target)
    return list(found)


def digest(files: Iterable[Path], read: Read = read) -> str:
    """SHA-256 of modules without comments, docstrings and layout, whatever their order."""
    return _digest("\n".join(sorted(f"{path.name} {_parsed(path, read).digest}" for path in files)))


def _parsed(path: Path, read: Read) -> _Module:
    try:
        return _module(read(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Python: {error}") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@cache
def _targets(path: Path, text: str, roots: Roots) -> tuple[Path, ...]:
    """The files that a module's text imports."""
    found: dict[Path, None] = {}
    for level, name in _module(text).imports:
        parts = name.split(".") if name else []
        if level:
            candidates = [path.parents[level - 1]]
        elif parts[0] == PACKAGE.name:
            candidates, parts = [PACKAGE], parts[1:]
        else:
            candidates = list(roots)
        for folder in candidates:
            files = list(_files(folder, parts))
            found |= dict.fromkeys(files)
            if files:
                break
    return tuple(found)


def _files(folder: Path, parts: list[str]) -> Iterator[Path]:
    """The file of a module by its name's parts in a folder, and those of the packages around it, as far as they are."""
    place = folder
    for part in parts:
        place = place / part
        if os.path.isfile(module := f"{place}.py"):
            yield Path(module)
            return
        if not os.path.isdir(place):
            return
        if not place.is_relative_to(PACKAGE) and (init := place / "__init__.py").is_file():
            yield init


@cache
def _user_folders(searched: tuple[str, ...]) -> Roots:
    """The folders of Python's path that are neither the standard library's nor installed packages'."""
    standard = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    folders = [Path(os.path.realpath(folder)) for folder in searched if os.path.isdir(folder or ".")]
    return tuple(
        folder
        for folder in folders
        if not {"site-packages", "dist-packages"} & set(folder.parts)
        and not any(folder.is_relative_to(place) for place in standard)
    )


@cache
def _module(text: str) -> _Module:
    """What counts of a module's text. Raises SyntaxError or ValueError where it is no Python."""
    tree = ast.parse(text.encode("utf-8", "surrogateescape"))  # bytes: a module may say that it is in another encoding
    seen = _Seen([], [], [])
    _write(tree, seen)
    return _Module(_digest("\0".join(seen.parts)), tuple(dict.fromkeys(seen.imports)), tuple(seen.kernels))


class _Seen(NamedTuple):
    """What `_write` has met: the text of the tree in parts, and what `_Module` has besides its digest."""

    parts: list[str]
    imports: list[tuple[int, str]]
    kernels: list[str]


def _write(node: ast.AST, seen: _Seen) -> None:
    """A syntax tree as text, and what it imports: a name taken from a module may be a module of its own.

    The text is the same in every version of Python: empty fields, which versions add, are left out. So are docstrings
    and other texts that do nothing.
    """
    if isinstance(node, ast.Import):
        seen.imports.extend((0, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        seen.imports.extend((node.level, f"{node.module or ''}.{alias.name}".lstrip(".")) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(".cu"):
        seen.kernels.append(node.value)
    seen.parts.append(node.__class__.__name__)
    for name in node._fields:
        value = getattr(node, name, None)
        items = [item for item in value if not _is_text(item)] if isinstance(value, list) else (value,)
        if items and value is not None:
            seen.parts.append(name)
            for item in items:
                if isinstance(item, ast.AST):
                    _write(item, seen)
                else:
                    seen.parts.append(repr(item))
    seen.parts.append(")")


def _is_text(node: object) -> bool:
    """Whether a statement is nothing but a text."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
