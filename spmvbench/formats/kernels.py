"""Kernel files: where they are, options for compilers, which files they include, and their code alone."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spmvbench import paths

Read = Callable[[Path], str]

_COMMENT = re.compile(r"//(?:\\\r?\n|[^\n])*|/\*.*?\*/", re.DOTALL)
_SPLICE = re.compile(r"\\\r?\n")  # a line that goes on in the next
# Literals, in which nothing is a comment: raw strings, strings, characters, 1'000.
_LITERAL = (
    r"""R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|(?<=[\da-fA-F])'(?=[\da-fA-F])"""
    r"""|'(?:\\.|[^'\\\n])*'"""
)
# What separates words, and literals.
_GAP_OR_LITERAL = re.compile(rf"""(?P<gap>(?:\s|{_SPLICE.pattern}|{_COMMENT.pattern})+)|{_LITERAL}""", re.DOTALL)
_COMMENT_OR_LITERAL = re.compile(rf"{_COMMENT.pattern}|(?P<literal>{_LITERAL})", re.DOTALL)
_WORDS = re.compile(r"\w\w|[-+*/%&|^!<>=:.#]{2}")
_COMPILERS = re.compile(r"SPMVBENCH_EMULATED|__CUDA|__NVCC__")  # conditions on who compiles
# A macro may name an included file, so every string counts that is a file's name.
_NAMED = re.compile(r'"([^"\n]+)"|#\s*include\s*<([^>\n]+)>')


def kernel_path(source: str) -> Path:
    """The file behind `Launch.source`: a name in kernels/, or an absolute path."""
    return Path(source) if os.path.isabs(source) else paths.kernels() / source


def kernel_options() -> list[str]:
    """Options of every CUDA compiler: the language and the folder of the shared headers.

    Without a word of their own functions are the device's: some versions of NVRTC take a generic lambda for the host's.
    """
    return ["--std=c++17", "--device-as-default-execution-space", f"--include-path={paths.include()}"]


def read(path: Path) -> str:
    """The text of a source file; bytes that are not UTF-8 are kept separate by their values."""
    return path.read_text(encoding="utf-8", errors="surrogateescape")


@cache
def code(text: str) -> str:
    """C++ without comments, and without spaces and ends of lines that mean nothing: equal for equal programs.

    Ends of lines stay around preprocessor directives, and all spaces in them: ``#define F (x)`` is not ``F(x)``.
    """
    text = f"\n{text}\n"
    parts: list[str] = []
    end, directive = 0, False
    for found in _GAP_OR_LITERAL.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        gap = found["gap"]
        if gap is None:
            parts.append(found[0])
            continue
        bare = _SPLICE.sub("", _COMMENT.sub(" ", gap))
        if "\n" in bare and (directive or text.startswith("#", end)):
            directive = text.startswith("#", end)
            parts.append("\n")
        elif bare and (directive or _run_together(text[found.start() - 1], text[end : end + 1])):
            parts.append(" ")
    return "".join((*parts, text[end:])).strip()


def _run_together(left: str, right: str) -> bool:
    """Whether two signs would be of one word, or of one operator, without a space between them."""
    return bool(_WORDS.fullmatch(left + right))


@cache
def constant(source: str, name: str) -> int:
    """The value of a constant that a kernel file or header defines by a number: ``constexpr int NAME = 128;``.

    Python reads constants that it shares with a kernel, so that they are written once. source: as in `kernel_path`.
    Raises ValueError unless the file gives the name exactly one value.
    """
    found = constants(read(kernel_path(source))).get(name, set())
    if len(found) != 1:
        raise ValueError(f"{source} gives {name} {len(found)} values, not one")
    return next(iter(found))


@cache
def constants(text: str) -> dict[str, set[int]]:
    """The values of the constants that a C++ text defines by numbers, by name."""
    # Not from `code`, which takes ten times as long: every process that imports the formats reads dozens of files.
    bare = _COMMENT_OR_LITERAL.sub(lambda match: match["literal"] or " ", text)
    found: dict[str, set[int]] = {}
    for declared in re.findall(r"\bconstexpr\s[\w\s]*?(\w+\s*=[^;{}()]+);", _SPLICE.sub("", bare)):
        for name, number in re.findall(r"(\w+)\s*=\s*(-?\d\w*)\s*(?![^,])", declared):
            found.setdefault(name, set()).add(int(number.rstrip("uUlL"), 0))
    return found


@cache
def _named(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(quoted or angled for quoted, angled in _NAMED.findall(code(text))))


def headers(source: Path, read: Read = read) -> list[Path]:
    """Every file that the compilers open for a kernel's source file, the source left out, in the order of inclusion.

    A quoted name is looked up in the folder of the file that includes it, in that of the source, and in
    kernels/include: where several hold one, compilers differ in which they take, and all count. Raises OSError for a
    source that cannot be read.
    """
    found: dict[Path, None] = {source: None}
    for path in (todo := [source]):
        for name in _named(read(path)):
            for folder in (path.parent, source.parent, paths.include()):
                candidate = os.path.normpath(folder / name)
                if Path(candidate) not in found and os.path.isfile(candidate):
                    found[Path(candidate)] = None
                    todo.append(Path(candidate))
    return list(found)[1:]


def absent(source: Path) -> list[tuple[Path, int, str]]:
    """The files that a kernel's source includes and NVRTC does not find, as all standard headers: (file, line, name).

    Those under a condition on the compiler are left out.
    """
    found = []
    for path in (source, *headers(source)):
        conditions: list[str] = []
        bare = _COMMENT_OR_LITERAL.sub(lambda match: match["literal"] or "\n" * match[0].count("\n") or " ", read(path))
        for number, line in enumerate(bare.split("\n"), 1):
            if (directive := re.match(r'\s*#\s*(if|endif|include)\w*\s*["<]?([^">\n]*)', line)) is None:
                continue
            kind, rest = directive.groups()
            if kind == "if":
                conditions.append(rest)
            elif kind == "endif":
                conditions[-1:] = []
            elif not any(_COMPILERS.search(condition) for condition in conditions):
                folders = path.parent, source.parent, paths.include()
                if not any((folder / rest).is_file() for folder in folders):
                    found.append((path, number, rest))
    return found


@cache
def text(source: str) -> str:
    """Code of a kernel file and of all that it includes, without comments and layout."""
    path = kernel_path(source)
    return "\n".join(f"{file.name}\0{code(read(file))}" for file in (path, *headers(path)))


@dataclass(frozen=True)
class Declaration:
    """A kernel as its file declares it.

    template: name and default of each template parameter, the default empty without one; a pack is named ``...``.
    The type of y is left out if it is a parameter of its own, ``typename Y = V*`` (`epilogue`): y has its name, and Y.
    parameters: the text of each function parameter. types: the type of each that is a number or a pointer to one, ``V``
    of ``const V* x``, or a struct, whose values are of the first type in brackets, ``S`` of ``Matrix<S, O> a``; empty
    for others.
    """

    template: tuple[tuple[str, str], ...] = ()
    parameters: tuple[str, ...] = ()
    y: tuple[str, str] = ("", "")

    @property
    def types(self) -> tuple[str, ...]:
        """See the class."""
        found = (
            re.match(r"(?:const |volatile )?(\w+)(?: const)?(?:\*(?:__restrict__)?)? ?\w+$", text)
            or re.match(r"(?:const )?\w+<(\w+), ?\w+> ?\w+$", text)
            for text in self.parameters
        )
        own, default = self.y
        names = (match[1] if match else "" for match in found)
        return tuple(default.removesuffix("*") if name and name == own else name for name in names)


@cache
def declaration(source: str, kernel: str) -> Declaration:
    """How a kernel file, or what it includes, declares a kernel; an empty declaration if it was not found."""
    whole = text(source)
    found = re.search(rf"__global__[^;{{}}]*?\b{re.escape(kernel)}\s*\(([^(){{}}]*)\)\s*{{", whole)
    if not found:
        return Declaration()
    before = re.search(r"template<([^;{}]*)>\s*$", whole[max(0, found.start() - 2000) : found.start()])
    template = before[1].rpartition("template<")[2] if before else ""
    matches = (re.match(r"(?:[^=]*[^\w=])?(\w+)\s*(?:=(.*))?$", part, re.DOTALL) for part in split(template))
    declared = [("..." if "..." in match[0] else match[1], (match[2] or "").strip()) for match in matches if match]
    y = declared.pop() if declared and declared[-1][1].endswith("*") else ("", "")
    return Declaration(tuple(declared), tuple(part.strip() for part in split(found[1])), y)


def split(listed: str) -> list[str]:
    """The parts of a C++ list between commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in listed:
        depth += (sign in "<([") - (sign in ">)]")
        if sign == "," and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts] if listed.strip() else []
