import os
import subprocess
import sys
from contextlib import suppress

import click
import pytest

from spmvbench import __version__
from spmvbench.cli import COMMANDS, cli, formats
from spmvbench.errors import SpmvbenchError, UsageError


@pytest.fixture
def failing(monkeypatch):
    """Makes `spmvbench formats` raise what it is given."""

    def fail(error):
        def callback(**_):
            raise error

        monkeypatch.setattr(formats.command, "callback", callback)

    return fail


def test_help_lists_every_command_with_a_line(command):
    shown = command("--help").out
    for name in COMMANDS:
        (line,) = [line for line in shown.splitlines() if line.split()[:1] == [name]]
        assert len(line.split()) > 3


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(command, name):
    for flag in ("--help", "-h"):
        result = command(name, flag)
        assert result.code == 0
        assert f"Usage: spmvbench {name}" in result.out


def test_every_number_is_finite():
    taken = []
    for name in COMMANDS:
        for option in cli.get_command(None, name).params:
            with suppress(click.BadParameter):
                if isinstance(option.type.convert("1.5", option, None), float):
                    taken.append(option.name)
                    for text in ("nan", "inf", "-inf", "1e999"):
                        with pytest.raises(click.BadParameter, match=r"number|percentage"):
                            option.type.convert(text, option, None)
    assert {"seconds", "programs", "spmvs", "budget", "energy", "timeout", "threshold"} <= set(taken)


def test_help_is_also_a_word(command):
    assert command("help").out == command("--help").out
    assert command("help", "run").out == command("run", "--help").out


def test_version(command):
    assert command("--version").out.split()[-1] == __version__


def test_mistyped_command_is_a_wrong_command_with_a_hint(command):
    result = command("fromats")
    assert result.code == 2
    assert "did you mean formats?" in result.err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (SpmvbenchError("no network: give --mirror"), 1, "Error: no network: give --mirror\n"),
        (UsageError("there is no set 'x'"), 2, "Error: there is no set 'x'\n"),
        (PermissionError(13, "Permission denied", "/locked"), 1, "Error: Permission denied (/locked)\n"),
        (OSError(28, "No space left on device"), 1, "Error: No space left on device\n"),
        (ValueError("odd"), 1, "Error: ValueError: odd (a defect: --debug shows where)\n"),
        (click.Abort(), 130, "Stopped.\n"),
        (KeyboardInterrupt(), 130, "Stopped.\n"),
    ],
)
def test_errors_are_one_line_and_a_code(command, failing, error, code, text):
    failing(error)
    result = command("formats")
    assert (result.code, result.err.lstrip("\n"), result.out) == (code, text, "")


@pytest.mark.parametrize("error", [SpmvbenchError("short"), OSError(28, "No space"), ValueError("odd")])
def test_debug_shows_the_traceback(failing, error):
    from spmvbench.cli import main

    failing(error)
    with pytest.raises(type(error)):
        main(["--debug", "formats"])


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["formats", "csr5"], ["info", "diag:5", "--image", "-"], ["--help"]], ids=" ".join)
def test_reader_that_leaves_ends_the_program_as_sigpipe_would(words, unbuffered):
    """As in `spmvbench formats | head -1`: no line about it, and the code that a shell has for others."""
    read, write = os.pipe()
    os.close(read)
    environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "spmvbench", *words]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(write)
    assert done.returncode == 141 and b"Error" not in done.stderr


@pytest.mark.parametrize(
    ("words", "expected", "unwanted"),
    [
        ("spmvbench for", "formats", "fetch"),
        ("spmvbench formats csr-", "csr-vector", "ell"),
        ("spmvbench formats --family ELL", "ELLPACK", "CSR"),
    ],
)
def test_shell_completion(words, expected, unwanted):
    asked = {"_SPMVBENCH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "spmvbench"], stdout=subprocess.PIPE, text=True, env=os.environ | asked
    )
    values = [line.partition(",")[2] for line in done.stdout.splitlines()]
    assert expected in values
    assert unwanted not in values
