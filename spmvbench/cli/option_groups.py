"""A click command whose help lists the options under headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

REST = "Other options"


class GroupedCommand(click.Command):
    """A click command whose help has a heading for each group of options.

    groups: the headings in their order, each with the names of its options (``--dtype``) in theirs. Options that no
    group names are listed last, under "Other options".
    """

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups with aligned columns. Raises KeyError if a group names an unknown option."""
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        shown = [(max(option.opts, key=len), option.get_help_record(ctx)) for option in options]
        records = {name: record for name, record in shown if record is not None}
        width = min(max(len(names) for names, _ in records.values()), formatter.width // 3)
        grouped = {title: [records.pop(name) for name in names] for title, names in self.groups.items()}
        for title, rows in (grouped | {REST: list(records.values())}).items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl([(f"{names:{width}}", text) for names, text in rows])
