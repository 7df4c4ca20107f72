"""`spmvbench program`: measure a program of one's own: a shared library or a Python function."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import click

from spmvbench.errors import UsageError, counted

LANGUAGES = ("c", "cpp", "cuda", "python", "numba", "triton")


@click.group(name="program")
def command() -> None:
    """Measure a program of your own beside the formats: a shared library, or a Python function.

    \b
    spmvbench program new mine --language cuda     writes mine.cu, which works
    spmvbench program build mine.cu                libmine.so, by nvcc or the compiler of C or C++
    spmvbench program check ./libmine.so           tries it on hard matrices
    spmvbench run pde:16 --formats csr5,hyb --program ./libmine.so
    """  # noqa: D301 - click reads the backspace


@command.command()
def header() -> None:
    """Print spmv_program.h, the functions that a shared library exports."""
    from spmvbench.programs.making import HEADER

    click.echo(HEADER.read_text(encoding="utf-8"), nl=False)


@command.command()
@click.argument("name")
@click.option("--language", type=click.Choice(LANGUAGES), default="cpp", help="Of the source file.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=".", help="Folder.")
def new(name: str, language: str, out: Path) -> None:
    """Write a program that works, as a beginning."""
    from spmvbench.programs import making

    files = making.new(name, language, out)
    for file in files:
        click.echo(f"wrote {file}")
    if language in ("c", "cpp", "cuda"):
        library = out / f"lib{name}.so"
        click.echo(f"Build: spmvbench program build {shlex.quote(str(files[0]))}")
        click.echo(f"Check: spmvbench program check {shlex.quote(f'./{library}')}")
    else:
        click.echo(f"Check: spmvbench program check {shlex.quote(str(files[0]))}")


# Without -h: click finds it in a compiler's -march=native and -Wl,-rpath, too.
@command.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="The library. Default: libSOURCE.so here.")
def build(source: Path, options: tuple[str, ...], out: Path | None) -> None:
    """Compile SOURCE into a shared library: .cu by nvcc, .cpp by the C++ compiler, .c by the C compiler.

    OPTIONS are the compiler's. A function main in it is renamed, so that a program that has one need not change.
    """
    from spmvbench.programs import making

    out = out or Path(f"lib{source.stem}.so")
    click.echo(shlex.join(making.build_command(source, out, options)), err=True)
    making.build(source, out, options)
    click.echo(
        f"{out}\nCheck: spmvbench program check {shlex.quote(f'./{out}' if not out.is_absolute() else str(out))}"
    )


@command.command()
@click.argument("program")
@click.option("--device", default="auto", help="As for run.")
def check(program: str, device: str) -> int:
    """Try PROGRAM, a shared library or a Python file, on matrices on which careless programs fail.

    Each kind of failure is one sentence. Exit code 1: something is wrong.
    """
    from spmvbench.cli import program_trial as trial
    from spmvbench.devices import chosen, cuda
    from spmvbench.formats import get
    from spmvbench.measure.cases import device_kind
    from spmvbench.programs import using

    labels = using.use([program])
    kinds = {kind for label in labels for kind in get(label.partition("[")[0]).devices}
    device = "emulated" if device == "auto" and kinds == {"emulated"} else chosen(device)
    if device_kind(device) not in kinds:
        lacks = cuda.why_unavailable() if kinds == {"cuda"} else None
        unable = f"and none can be used here ({lacks}): check it where one is" if lacks else f"and {device} is none"
        needs = "a GPU" if kinds == {"cuda"} else "the host (--device emulated)"
        where = "; runs_on of its decorator says where it runs" * program.endswith(".py")
        raise UsageError(f"{', '.join(labels)} runs on {needs} only, {unable}{where}")
    began = time.monotonic()
    found, tried, types = trial.findings(labels, device)
    for sentence in found:
        click.echo(sentence)
    seconds = time.monotonic() - began
    click.echo(
        f"{', '.join(labels)}: {tried} of {len(trial.hard())} matrices in {types}, {seconds:.0f} s: "
        + (f"{counted(len(found), 'kind')} of failure" if found else "passed")
    )
    return 1 if found else 0
