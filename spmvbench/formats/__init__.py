"""Storage formats: a room for each technique, a module for each format or a few. A new module's keys appear everywhere.

Rooms are by technique because formats of one technique share code, although their storages differ. Tables are by the
family of the survey (Filippone et al. 2017, Table 2), because readers look formats up by their storage.

What an author of a format needs is in this module, and the steps of converters in `arrays` and, for converters that run
kernels, `conversion`. `format` says what a format is, `launches` and `parameters` what it is made of, `admission` which
matrices it takes, `registry` its key, `survey` the survey's names with the keys that run them.

`keys()` lists what users can type, `get(key)` returns the class, `find("HYB")` the keys of a survey's name or a family,
`parse("ell[threads=2]")` a class with parameters.
The environment variable SPMVBENCH_FORMATS adds modules: Python files, separated like PATH.
"""

from __future__ import annotations

import fnmatch
import hashlib
import importlib
import importlib.util
import itertools
import json
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from spmvbench.errors import UsageError, did_you_mean
from spmvbench.formats import survey, two_copies
from spmvbench.formats.admission import FREE_SHARE, Skip, byte_text
from spmvbench.formats.arrays import Csr
from spmvbench.formats.dependencies import source_hash, sources
from spmvbench.formats.format import Adding, Format
from spmvbench.formats.kernels import constant, kernel_options, kernel_path
from spmvbench.formats.launches import (
    Call,
    Launch,
    Loop,
    Step,
    Struct,
    after_zeros,
    cbool,
    ctype,
    flat,
    in_part,
    only_kernels,
    per_thread,
    single_steps,
    zero_fill,
)
from spmvbench.formats.parameters import Parameter
from spmvbench.formats.registry import REGISTRY, register

__all__ = [
    "FREE_SHARE",
    "Adding",
    "Call",
    "Csr",
    "Format",
    "Launch",
    "Loop",
    "Parameter",
    "Skip",
    "Step",
    "Struct",
    "after_zeros",
    "byte_text",
    "cbool",
    "constant",
    "ctype",
    "find",
    "flat",
    "get",
    "in_part",
    "kernel_options",
    "kernel_path",
    "keys",
    "label",
    "load_file",
    "meanings",
    "only_kernels",
    "parse",
    "per_thread",
    "register",
    "shipped",
    "single_steps",
    "source_hash",
    "sources",
    "survey",
    "zero_fill",
]

# Formats of users may still ask the module of before version 1.0 for these names.
sys.modules[f"{__name__}.base"] = sys.modules[__name__]


@cache
def _discover() -> None:
    """Import every module of this folder and its rooms, those of FORMAT_MODULES and those of SPMVBENCH_FORMATS."""
    import spmvbench

    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    for name in spmvbench.FORMAT_MODULES:
        importlib.import_module(name)
    for name in filter(None, os.environ.get("SPMVBENCH_FORMATS", "").split(os.pathsep)):
        try:
            load_file(name)
        except UsageError as error:
            raise UsageError(f"SPMVBENCH_FORMATS: {error}") from error


def load_file(name: str) -> list[str]:
    """Register the formats of a file and return their keys: of a Python file, or of one that FORMAT_FILES knows.

    Modules in its folder can be imported. Raises UsageError, which names the file and the line, if it cannot be
    imported or registers nothing.
    """
    import spmvbench

    path = Path(name).resolve()
    if not path.is_file():
        raise UsageError(f"{name} is not a file")
    if path.suffix in spmvbench.FORMAT_FILES:
        return [importlib.import_module(spmvbench.FORMAT_FILES[path.suffix]).load(path).key]
    before = dict(REGISTRY)
    try:
        module = _imported(path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit too: it would end whatever asked for the formats
        REGISTRY.clear()
        REGISTRY.update(before)
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name} cannot be imported: {_told(error, path)}") from error
    found = [key for key, cls in REGISTRY.items() if key not in before or cls.__module__ == module.__name__]
    if not found:
        raise UsageError(
            f"{name} registers no format (@register before a class)"
            " and no program (@spmvbench.program before a function)"
        )
    return found


def _imported(path: Path) -> ModuleType:
    """A file as a module, which files beside it import by its plain name, too, unless that is another module's."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(path.name) and Path(file).resolve() == path:
            return module  # another format's file has imported it
    # Named by the whole path: files in two folders may have one name, and are two sources.
    name = f"spmvbench_format_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path.name} is no Python file: its name must end in .py")
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)
    names = {name}
    if path.stem.isidentifier() and path.stem not in sys.modules and _is_own(importlib.util.find_spec(path.stem), path):
        names.add(path.stem)
    module = importlib.util.module_from_spec(spec)
    sys.modules |= dict.fromkeys(names, module)  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        for known in names:
            del sys.modules[known]
        raise
    return module


def _is_own(spec: ModuleSpec | None, path: Path) -> bool:
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _told(error: BaseException, path: Path) -> str:
    """What a file did wrong, and in which of its lines."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"{error.msg} (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    where = f" (line {lines[-1]})" if lines else ""
    if isinstance(error, SystemExit):
        return f"it ends the program{where}"
    message = str(error).partition("\n")[0]
    return f"{type(error).__name__}{': ' * bool(message)}{message}{where}"


def keys() -> list[str]:
    """The key of every format, sorted."""
    _discover()
    return sorted(REGISTRY)


def shipped() -> list[str]:
    """The keys of this package's formats, sorted: without those that SPMVBENCH_FORMATS or a program has registered."""
    import spmvbench

    package, loaders = __name__.partition(".")[0], set(spmvbench.FORMAT_FILES.values())
    modules = {key: get(key).__module__ for key in keys()}
    return [key for key, name in modules.items() if name.partition(".")[0] == package and name not in loaders]


def get(key: str) -> type[Format]:
    """The class of a key; of two with a plus that of `two_copies`. Raises UsageError with the nearest keys for an
    unknown one.
    """
    if key not in REGISTRY:
        _discover()
        first, plus, second = key.partition(two_copies.PLUS)
        if plus and key not in REGISTRY:
            if not first or not second:
                raise UsageError(f"cannot read {key!r}: of two formats, write key+key")
            return two_copies.of(key, get(first), get(second))
    try:
        return REGISTRY[key]
    except KeyError:
        raise UsageError(f"there is no format {key!r}{did_you_mean(key, keys())}") from None


def import_shipped(modules: Iterable[str]) -> None:
    """Import those of some modules that are this package's, so that `get` knows their formats without the others.

    All others take 0.1 s, a fifth of the time until a measuring process has its first row.
    """
    for name in modules:
        if name.startswith(f"{__name__.partition('.')[0]}."):
            importlib.import_module(name)


def families() -> list[str]:
    """The families of the formats, sorted."""
    return sorted({get(key).family for key in keys()})


def find(words: str) -> list[str]:
    """The keys that words mean: a key, two with a plus, a glob over keys, ``all``, or, in any case, a survey's name or
    a family.

    A name that is both (``CSR``) gives what either has, and `meanings` says so. Raises UsageError if there is none,
    with the reason for a name of the survey that nothing runs.
    """
    if words in REGISTRY or words in (known := keys()):
        return [words]
    lower = words.lower()
    if two_copies.PLUS in words and not any(c in words for c in "*?"):
        return [get(words).key]
    if lower == "all":
        return known
    if any(c in words for c in "*?"):
        found = fnmatch.filter(known, lower)
        if not found:
            raise UsageError(f"no format matches {words!r}{did_you_mean(words, known)}")
        return found
    named = [name for name in survey.names() if name.called(words)]
    found = [key for name in named for key in name.keys]
    found += [key for key in known if lower in (key, get(key).family.lower())]
    if found:
        return list(dict.fromkeys(found))
    if named:
        raise UsageError(f"{named[0].title} is not built: {'; '.join(name.why_not for name in named)}")
    planned = [name.title for name in survey.names() if lower in name.to_come]
    if planned:
        raise UsageError(f"{words} is still to come, for the survey's {' and '.join(planned)}")
    near = did_you_mean(words, [*known, *(name.title for name in survey.names()), *families()])
    raise UsageError(f"there is no format {words!r}{near}")


def parse(text: str, ops: Container[str] | None = None) -> list[tuple[type[Format], dict[str, Any]]]:
    """Formats and parameters of a list such as ``tile,ell[threads=2],csr-*,HYB``; each word as `find` takes it.

    Of a word that means several keys those count that take its parameters: ``all[kernel=paper]`` is the authors'
    kernel of every format that has one. ``sell[height=*]`` is every choice of a parameter. ops: what formats may run;
    of a word that means several keys those count that do. Without ops they are those that run y = A x, where there are
    any: ``all`` is every format of SpMV. A word after a minus takes away what it means of the words before it, with any
    parameters or those it names: ``all,-ehyb*``. Returns (class, every parameter's value) in the order given, without
    repeats. Raises UsageError.
    """
    chosen: dict[str, tuple[type[Format], dict[str, Any]]] = {}
    for word in _split(text):
        name, given = _read(word)
        for cls, values in _taking(_running(ops, name), name, given):
            if not word.startswith("-"):
                chosen.setdefault(label(cls, values), (cls, values))
                continue
            for known, (other, theirs) in list(chosen.items()):
                if other is cls and all(theirs[parameter] == values[parameter] for parameter in given):
                    del chosen[known]
    return list(chosen.values())


def meanings(text: str, ops: Container[str] | None = None) -> list[str]:
    """What the words of a list mean that are families, not keys: a sentence each, with the keys of the plain format.

    text, ops: as `parse` takes them. ``csr`` is such a word, ``dia``, which is a key, is none. Raises UsageError.
    """
    found = []
    for word in dict.fromkeys(_split(text)):
        name, given = _read(word)
        family = next((family for family in families() if family.lower() == name.lower()), None)
        if family is None or name in keys():
            continue
        classes = [cls for cls, _ in _taking(_running(ops, name), name, given)]
        plain = [key for known in survey.names() if known.called(name) for key in known.keys]
        said = f"; plain {family} is {' or '.join(plain)}" if plain else ""
        found.append(f"{name} means the family {family}, {len(classes)} formats{said}")
    return found


def _split(text: str) -> list[str]:
    """The words of a list, those after a minus with it."""
    return [word for part in re.split(r",(?![^\[]*\])", text) if (word := part.strip())]


def _read(word: str) -> tuple[str, dict[str, str]]:
    """What a word names, without a minus, and the parameters that it gives. Raises UsageError."""
    item = word.removeprefix("-").strip()
    match = re.fullmatch(r"([^\[\]]+(?:\[[\d ]+\])?)(?:\[(.*)\])?", item)  # digits: a reference of the survey's
    if match is None:
        both = ", of two formats key+key[a.name=value,t.name=value]" if two_copies.PLUS in item else ""
        raise UsageError(f"cannot read {item!r}: write key[name=value,...]{both}")
    given = {}
    for setting in filter(None, (match[2] or "").split(",")):
        parameter, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"cannot read {setting!r} in {item!r}: write name=value")
        if (name := parameter.strip()) in given:
            raise UsageError(f"{item!r} gives {name} twice: name a format for each value, or all by {name}=*")
        given[name] = value.strip()
    return match[1].strip(), given


def _taking(
    classes: Sequence[type[Format]], name: str, given: Mapping[str, str]
) -> list[tuple[type[Format], dict[str, Any]]]:
    """Those of the classes that take these parameters, with every parameter's value. Raises UsageError for none."""
    found, refused = [], []
    for cls in classes:
        try:
            found += [(cls, cls.resolve(values)) for values in _swept(cls, given)]
        except UsageError as error:
            refused.append(error)
    if not found:
        settings = ",".join(f"{parameter}={value}" for parameter, value in given.items())
        raise refused[0] if len(classes) == 1 else UsageError(f"no format of {name!r} takes [{settings}]")
    return found


def _swept(cls: type[Format], given: Mapping[str, str]) -> list[dict[str, Any]]:
    """The parameters with every choice of those whose value is ``*``. Raises UsageError if there are no choices."""
    choices = []
    for name, value in given.items():
        parameter = cls.parameters().get(name)
        if value != "*" or parameter is None:
            choices.append([value])
        elif not (choices_of := parameter.choices or ((False, True) if isinstance(parameter.default, bool) else ())):
            raise UsageError(f"{cls.key}[{name}=*] has no list of choices: it takes {parameter.range}, name values")
        else:
            choices.append(list(choices_of))
    return [dict(zip(given, values, strict=True)) for values in itertools.product(*choices)]


def _running(ops: Container[str] | None, words: str) -> list[type[Format]]:
    """The classes that words mean, of those the ones that run one of `ops`, as `parse` says."""
    classes = list(map(get, find(words)))
    if ops is None:
        return [cls for cls in classes if cls.op == Format.op] or classes
    found = [cls for cls in classes if cls.op in ops]
    if not found:
        there = " and ".join(sorted({cls.op for cls in classes}))
        raise UsageError(f"{words} runs {there}, which --op does not name")
    return found


def label(cls: type[Format], params: dict[str, Any]) -> str:
    """How tables name a format with parameters: the key, and what differs from the defaults in brackets."""
    changed = {n: params[n] for n, p in cls.parameters().items() if n in params and params[n] != p.default}
    text = ",".join(f"{n}={str(v).lower() if isinstance(v, bool) else v}" for n, v in changed.items())
    return f"{cls.key}[{text}]" if text else cls.key


def params_text(params: dict[str, Any]) -> str:
    """Every parameter as JSON with sorted names: the column `params`, and the same text for the same settings."""
    return json.dumps(params, sort_keys=True)
