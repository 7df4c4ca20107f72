"""`--config`: a TOML file with options that override their defaults."""

from __future__ import annotations

from pathlib import Path

import click

from spmvbench.errors import UsageError, did_you_mean

# What one command does; a file says what is measured.
ACTIONS = {"config", "dry_run", "estimate", "fresh", "plan", "retry"}


def read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Make the settings of the file the defaults of the command (callback of the option). Raises UsageError."""
    if value is None:
        return
    import tomllib

    from spmvbench import paths

    shipped = {path.stem: path for path in sorted((paths.configs() / "runs").glob("*.toml"))}
    path = Path(value) if Path(value).is_file() else shipped.get(value)
    if path is None:
        hint = did_you_mean(value, list(shipped)) or f"; ready-made are {', '.join(shipped)}"
        raise UsageError(f"there is no configuration {value!r}{hint}")
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # no access; no TOML, no text, endless numbers; too deep
        raise UsageError(f"cannot read {path}: {error}") from None
    options = {option.opts[0].lstrip("-"): option for option in ctx.command.params if option.name not in ACTIONS}
    ctx.default_map = {}
    for key, setting in given.items():
        option = options.get(key.replace("_", "-"))
        if option is None:
            hint = did_you_mean(key, list(options)) or f"; it takes {', '.join(options)}"
            raise UsageError(f"{path} has an unknown key {key}{hint}")
        if getattr(option, "is_flag", False):
            if not isinstance(setting, bool):
                raise UsageError(f"{path}: {key} takes true or false")
            ctx.default_map[option.name] = setting
            continue
        items = setting if isinstance(setting, list) else [setting]
        many = option.multiple if isinstance(option, click.Option) else option.nargs == -1
        comma = option.type.name == "list" or key == "formats"
        if not all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in items) or (
            isinstance(setting, list) and not many and not comma
        ):
            raise UsageError(f"{path}: {key} takes {'a list of texts' if many or comma else 'one text or number'}")
        texts = [str(item) for item in items]
        ctx.default_map[option.name] = texts if many else ",".join(texts)
