"""Help that lists options under headings."""

import re

import click
from click.testing import CliRunner

from spmvbench.cli import cli, run
from spmvbench.cli.option_groups import REST, GroupedCommand


def grouped(**groups):
    @click.command(cls=GroupedCommand, groups=groups)
    @click.option("--speed", help="How fast.")
    @click.option("--quantity", "-q", "amount", help="How many.")
    @click.option("--secret", hidden=True)
    @click.argument("place")
    def command(**_):
        pass

    return command


def headings(text):
    """The headings of a help text below its usage, each with the options listed under it."""
    parts = re.split(r"^(\S.*):\n", text.partition("\n\n")[2], flags=re.MULTILINE)
    return {
        title: re.findall(r"^  (?:-\w, )?(--[\w-]+)", body, re.MULTILINE)
        for title, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def shown(command):
    return headings(CliRunner().invoke(command, ["--help"], terminal_width=200, **cli.context_settings).output)


def test_options_are_listed_in_the_order_of_their_groups_others_last_and_hidden_ones_nowhere():
    found = shown(grouped(Second=["--help"], First=["--quantity", "--speed"]))
    assert list(found.items()) == [("Second", ["--help"]), ("First", ["--quantity", "--speed"])]
    assert shown(grouped(First=["--speed"])) == {"First": ["--speed"], REST: ["--quantity", "--help"]}
    result = CliRunner().invoke(grouped(First=["--sped"]), ["--help"])
    assert isinstance(result.exception, KeyError) and "--sped" in str(result.exception)


def test_every_option_of_run_is_in_one_group(command):
    run_help = headings(command("run", "--help").out)
    options = [max(option.opts, key=len) for option in run.command.params if isinstance(option, click.Option)]
    assert sorted(name for names in run_help.values() for name in names) == sorted([*options, "--help"])
    assert REST not in run_help
