"""The command line: one module for each command, each with a click command named `command`."""

from __future__ import annotations

import importlib
import keyword
import os
import re
import signal
import sys

import click

from spmvbench.errors import SpmvbenchError, did_you_mean

COMMANDS = (
    "fetch",
    "run",
    "report",
    "compare",
    "advise",
    "runs",
    "export",
    "import",
    "bundle",
    "check",
    "formats",
    "program",
    "info",
    "env",
)


CLOSED = 128 + signal.SIGPIPE  # what a shell says of a program that wrote to a pipe that nobody reads


class _Commands(click.Group):
    """A group that imports the module of a command when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = f"{name}_" if keyword.iskeyword(name) else name
        command: click.Command = importlib.import_module(f"spmvbench.cli.{module}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], list(COMMANDS))}")
        return super().resolve_command(ctx, args)


def _echo_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from spmvbench import __version__

        click.echo(f"spmvbench, version {__version__}")
        ctx.exit()


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_echo_version, help="Show it.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Benchmark of sparse matrix-vector multiplication (SpMV) formats on GPUs: measure, verify, report.

    \b
    Start here:  spmvbench run --set demo        (no GPU, no network needed)
                 spmvbench report                (figures and one HTML page)
    """  # noqa: D301 - click wants the bare control character


def _open_streams() -> None:
    """Open closed standard streams on the null device. Exits with 1 if standard output is closed.

    Otherwise the next file that is opened would get the number of a stream, and output would be written into it.
    """
    streams = {0: ("stdin", "r"), 1: ("stdout", "w"), 2: ("stderr", "w")}
    closed = [number for number, (name, _) in streams.items() if getattr(sys, name) is None]
    for number in closed:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)
        name, mode = streams[number]
        setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open until the process ends
    if 1 in closed:
        click.echo("Error: standard output is closed: give > /dev/null to discard it", err=True)
        sys.exit(1)


def main(argv: list[str] | None = None) -> None:
    """Entry point. Errors are one line on stderr; the exit code is 2 for a wrong command, 1 for a failed job."""
    _open_streams()
    os.environ["MPLBACKEND"] = "agg"  # a notebook's may name a module that is not installed here
    from spmvbench.cli import terminal

    with terminal.guarded():
        _main(argv)


def _main(argv: list[str] | None) -> None:
    args = list(sys.argv[1:] if argv is None else argv)
    if args[:1] == ["help"]:
        args = [*args[1:], "--help"]
    try:
        code = cli.main(args=args, prog_name="spmvbench", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        click.echo("Stopped.", err=True)
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (BrokenPipeError, SystemExit):  # click makes the second of the first
        sys.exit(CLOSED)
    except Exception as error:
        if "--debug" in args:
            raise
        from spmvbench.cli.progress import wrapped

        text = f"Error: {_sentence(error)}"
        click.echo(wrapped(text) if sys.stderr.isatty() else text, err=True)
        sys.exit(error.exit_code if isinstance(error, SpmvbenchError) else 1)
    sys.exit(code if isinstance(code, int) else 0)


def _sentence(error: Exception) -> str:
    """What a user reads about an error."""
    if isinstance(error, SpmvbenchError):
        return str(error)
    if isinstance(error, OSError):
        from spmvbench.paths import SUFFIX

        # Of a temporary file beside a file that is written whole, `.NAME.hex`, the file that was named.
        name = re.sub(rf"\.([^/]+)\.[0-9a-f]{{8}}{re.escape(SUFFIX)}$", r"\1", str(error.filename or ""))
        return f"{error.strerror or error}{f' ({name})' if name else ''}"
    return f"{type(error).__name__}: {error} (a defect: --debug shows where)"
