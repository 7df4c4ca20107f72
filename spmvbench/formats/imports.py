"""Modules that a module imports, at any depth, and a hash of what they do."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.formats.kernels import Read, read

PACKAGE = Path(__file__).resolve().parents[1]
Roots = tuple[Path, ...]


class Module(NamedTuple):
    """What counts of a module's text.

    digest: of its syntax tree. imports: names, relative ones with their level. kernels: texts that may name a file.
    """

    digest: str
    imports: tuple[tuple[int, str], ...]
    kernels: tuple[str, ...]


def imported(starts: Iterable[Path], roots: Roots = (), read: Read = read) -> list[Path]:
    """Modules and all that they import, at any depth, anywhere in their text: of this package, from `roots`, and from
    folders that a user has added to Python's path; not the standard library, nor what is installed.

    roots: where absolute names are looked up first. What is in an ``__init__.py`` of this package only says where
    names are found: it does not count.
    """
    found = dict.fromkeys(starts)
    for path in (todo := list(found)):
        own = path.is_relative_to(PACKAGE)
        parsed(path, read)
        for target in _targets(path, read(path), () if own else (*roots, *_user_folders(tuple(sys.path)))):
            if target not in found:
                found[target] = None
                todo.append(target)
    return list(found)


def digest(files: Iterable[Path], read: Read = read) -> str:
    """SHA-256 of modules without comments, docstrings and layout, whatever their order."""
    return sha256("\n".join(sorted(f"{path.name} {parsed(path, read).digest}" for path in files)))


def parsed(path: Path, read: Read) -> Module:
    """What counts of a module. Raises UsageError for a file that is no Python."""
    try:
        return _module(read(path))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as Python: {error}") from None


def sha256(text: str) -> str:
    """64 hex digits of a text, which may hold bytes that are no text."""
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
def _module(text: str) -> Module:
    """What counts of a module's text, on the disk from the first time on: every process asks for that of a hundred
    modules. Raises SyntaxError or ValueError where it is no Python.
    """
    file = paths.home() / "modules" / f"{sha256(_own_text() + text)[:32]}.json"
    with suppress(OSError, ValueError), open(paths.opened(file), "rb") as kept:
        checksum, content = kept.read().decode().split("\n")
        if paths.is_own(os.fstat(kept.fileno())) and checksum == sha256(content):
            digest, imports, kernels = json.loads(content)
            return Module(digest, tuple((level, name) for level, name in imports), tuple(kernels))
    tree = ast.parse(text.encode("utf-8", "surrogateescape"))  # bytes: a module may say that it is in another encoding
    seen = _Seen([], [], [])
    _write(tree, seen)
    found = Module(sha256("\0".join(seen.parts)), tuple(dict.fromkeys(seen.imports)), tuple(seen.kernels))
    content = json.dumps(found)
    with suppress(OSError), paths.written_whole(file) as target:
        target.write(f"{sha256(content)}\n{content}".encode())
    return found


@cache
def _own_text() -> str:
    return read(Path(__file__))


class _Seen(NamedTuple):
    """What `_write` has met: the text of the tree in parts, and what `Module` has besides its digest."""

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
