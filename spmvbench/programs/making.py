"""New programs from templates, and shared libraries from one source file by nvcc or the C or C++ compiler."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from spmvbench.errors import SpmvbenchError, UsageError

FOLDER = Path(__file__).parent
HEADER = FOLDER / "spmv_program.h"
TEMPLATES = {
    "c": "csr.c",
    "cpp": "csr.cpp",
    "cuda": "csr.cu",
    "python": "csr_python.py",
    "numba": "csr_numba.py",
    "triton": "csr_triton.py",
}
# By the suffix of a source file: the standard, the variable that names a compiler, and the compilers that are tried.
CPP, C = ("c++17", "CXX", ("g++", "clang++", "c++")), ("c11", "CC", ("gcc", "clang", "cc"))
COMPILERS = {".cpp": CPP, ".cc": CPP, ".cxx": CPP, ".c": C}
SHOWN_ERRORS = 20  # lines of a compiler


def new(name: str, language: str, folder: Path) -> list[Path]:
    """Write the source of a program that works, and the header if it needs it. Returns the files.

    name: of the program, or of its file. Raises UsageError if a file is there already or nobody could type the name.
    """
    if not re.fullmatch(r"\w[\w.+-]*", name):
        raise UsageError(f"the name {name!r} could not be typed: use letters, digits and . _ + -")
    template = FOLDER / "templates" / TEMPLATES[language]
    name = name.removesuffix(template.suffix)
    texts = {folder / f"{name}{template.suffix}": template.read_text(encoding="utf-8").replace("NAME", name)}
    if template.suffix != ".py":
        texts[folder / HEADER.name] = HEADER.read_text(encoding="utf-8")
    if there := [file for file in texts if file.exists() and file.name != HEADER.name]:
        raise UsageError(f"{there[0]} is there already")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    return list(texts)


def build_command(source: Path, out: Path, options: tuple[str, ...] = ()) -> list[str]:
    """The compiler's command that makes a shared library of a source file.

    Raises SpmvbenchError without a compiler, UsageError for a file of another kind.

    A function `main` in it is renamed, so that a program that has one need not be changed. The options
    are behind the source, as linkers want libraries.
    """
    main = "-Dmain=main_that_is_not_called"
    if source.suffix == ".cu":
        nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")
        if nvcc is None:
            raise SpmvbenchError(f"{source.name} needs nvcc, of NVIDIA's CUDA toolkit: put it on PATH or set NVCC")
        command = [*shlex.split(nvcc), "-O3", "-std=c++17", "-shared", "-Xcompiler", "-fPIC", "-lineinfo"]
        if not any(option.startswith(("-arch", "--gpu-architecture", "-gencode")) for option in options):
            command.append(_architecture())
    else:
        if source.suffix not in COMPILERS:
            raise UsageError(f"{source.name} is no source of a program: {', '.join(COMPILERS)} or .cu")
        language, variable, compilers = COMPILERS[source.suffix]
        compiler = os.environ.get(variable) or next(filter(shutil.which, compilers), None)
        if compiler is None:
            raise SpmvbenchError(
                f"{source.name} needs a compiler: install {compilers[0]} or {compilers[1]}, or set {variable}"
            )
        command = [*shlex.split(compiler), "-O3", f"-std={language}", "-shared", "-fPIC"]
    return [*command, main, f"-I{FOLDER}", str(source), *options, "-o", str(out)]


def _architecture() -> str:
    """The compiler's option for the GPU of this machine; for all of them, where there is none."""
    question = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    try:
        asked = subprocess.run(question, capture_output=True, text=True, check=True)
        return f"-arch=sm_{asked.stdout.split()[0].replace('.', '')}"
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "-arch=all-major"


def build(source: Path, out: Path, options: tuple[str, ...] = ()) -> None:
    """Make a shared library of a source file.

    Raises SpmvbenchError with the first errors of the compiler or linker; what was at `out` stays then.
    """
    made = out.with_name(f".{os.getpid()}-{out.name}")  # a linker removes what it could not make
    command = build_command(source, made, options)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise SpmvbenchError(f"{command[0]} cannot be started: {error.strerror}") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if not line.startswith("collect2")]  # it names no cause
        errors = [line for line in said if "error" in line] or said
        raise SpmvbenchError(f"{source.name} cannot be built:\n" + "\n".join(errors[:SHOWN_ERRORS]))
    made.replace(out)
