"""``python -m spmvbench.publishing NAME ...``: the function `main` of the module NAME. ``--help`` lists the names."""

import ast
import functools
import importlib
import re
import sys
from pathlib import Path

import click

from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py") if path.stem != "in_page")


def about(name: str) -> str:
    """What a module says first of itself, up to a colon or the end of the sentence."""
    text = Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")
    return re.split(r"[:.]\s", (ast.get_docstring(ast.parse(text)) or "") + "\n")[0]


def run(words: list[str]) -> int:
    """Run a module, whose arguments are then those of the process: the exit code. Raises UsageError for other names."""
    if words[:1] in (["--help"], ["-h"]):
        print("python -m spmvbench.publishing NAME ...; NAME --help has the arguments of one:\n")
        print("\n".join(f"{name:<16}{about(name)}" for name in NAMES))
        return 0
    if words[:1] not in [[name] for name in NAMES]:
        hint = did_you_mean(words[0], NAMES) if words else ""
        raise UsageError(f"{words[0] if words else 'no name'} is none of {', '.join(NAMES)}{hint}")
    main = importlib.import_module(f"spmvbench.publishing.{words[0]}").main
    if isinstance(main, click.Command):
        main = functools.partial(main, prog_name=f"python -m spmvbench.publishing {words[0]}")
    sys.argv[1:] = words[1:]
    return main() or 0


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except (SpmvbenchError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(error.exit_code if isinstance(error, SpmvbenchError) else 1)
