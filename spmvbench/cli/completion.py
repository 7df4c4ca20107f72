"""Shell completion of runs, ready-made configurations, devices and comma-separated lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import click


def in_list(incomplete: str, known: Iterable[str]) -> list[str]:
    """Completions of the last word of a comma-separated list."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in known if name.startswith(last)]


def of(module: str, names: Callable[[Any], Iterable[str]], *, listed: bool = False) -> Callable[..., list[str]]:
    """Completions of a name. names: from the module, which is imported when they are asked for. listed: of the last of
    a comma-separated list.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        known = names(import_module(f"spmvbench.{module}"))
        return in_list(incomplete, known) if listed else [name for name in known if name.startswith(incomplete)]

    return complete


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The runs under --results, the newest first; if none matches, the published ones; if none of those, folders."""
    from spmvbench.rows import store

    given = [context.params["results"] for context in (ctx, ctx.parent) if context and context.params.get("results")]
    places = (next(iter(given), "results"), store.PUBLISHED)
    found = ([path.name for path in store.runs(place) if path.name.startswith(incomplete)] for place in places)
    return next(filter(None, found), []) or _folders(incomplete)


def _folders(incomplete: str) -> list[str]:
    from glob import escape, glob

    return [path.rstrip("/") for path in sorted(glob(f"{escape(incomplete)}*/"))]


def configs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """The ready-made configurations; if none matches, files."""
    from click.shell_completion import CompletionItem

    from spmvbench import paths

    known = sorted(path.stem for path in (paths.configs() / "runs").glob("*.toml"))
    found = [CompletionItem(name) for name in known if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def orders(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Orders of rows and columns."""
    from spmvbench.orders import names

    return in_list(incomplete, names())


def devices(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The values of --device on this machine, with one number for each usable GPU."""
    from itertools import count, takewhile

    from spmvbench.devices import cuda

    usable = takewhile(lambda ordinal: cuda.why_unavailable(ordinal) is None, count())
    names = ["auto", *(f"cuda:{ordinal}" for ordinal in usable), "emulated", "emulated-check"]
    return [name for name in names if name.startswith(incomplete)]
