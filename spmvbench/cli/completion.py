"""Shell completion of runs, ready-made configurations, devices and comma-separated lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from glob import escape, glob
from importlib import import_module
from itertools import count, takewhile
from typing import Any

import click


def of(module: str, names: Callable[[Any], Iterable[str]], *, listed: bool = False) -> Callable[..., list[str]]:
    """Completions of a name. names: from the module, which is imported when they are asked for. listed: of the last of
    a comma-separated list.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        known = names(import_module(f"spmvbench.{module}"))
        return [before + comma + name for name in known if name.startswith(last)]

    return complete


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The runs under --results, the newest first; if none matches, the published ones; if none of those, folders."""
    from spmvbench.rows import store

    given = [context.params["results"] for context in (ctx, ctx.parent) if context and context.params.get("results")]
    places = (next(iter(given), "results"), store.PUBLISHED)
    found = ([path.name for path in store.runs(place) if path.name.startswith(incomplete)] for place in places)
    folders = (path.rstrip("/") for path in sorted(glob(f"{escape(incomplete)}*/")))
    return next(filter(None, found), []) or list(folders)


def configs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """The ready-made configurations; if none matches, files."""
    from click.shell_completion import CompletionItem

    from spmvbench import paths

    known = sorted(path.stem for path in (paths.configs() / "runs").glob("*.toml"))
    found = [CompletionItem(name) for name in known if name.startswith(incomplete)]
    return found or [CompletionItem(incomplete, type="file")]


def devices(cuda: Any) -> list[str]:
    """The values of --device on this machine, with one number for each usable GPU. cuda: the module of that name."""
    usable = takewhile(lambda ordinal: cuda.why_unavailable(ordinal) is None, count())
    return ["auto", *(f"cuda:{ordinal}" for ordinal in usable), "emulated", "emulated-check"]
