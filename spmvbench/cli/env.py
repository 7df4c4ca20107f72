"""`spmvbench env`: versions, devices and folders on this machine, and what to install."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from spmvbench.cli import option_types
from spmvbench.errors import SpmvbenchError, counted

# Extras of pyproject.toml, and their purposes.
OPTIONAL = {
    "cuda13": "measuring on a GPU",  # or cuda12, which the device's own line says
    "cpu": "emulating a GPU where there is no g++ or clang++",
    "partition": "partitions of the format ehyb, and nested dissection",
    "applications": "some generators of matrices",
    "advice": "training the model of advise --from",
    "ssgetpy": "searches that return its objects",
    "cluster": "several hosts, by dask.distributed",
}
COMPLETION = {
    "bash": 'eval "$(_SPMVBENCH_COMPLETE=bash_source spmvbench)"',
    "zsh": 'eval "$(_SPMVBENCH_COMPLETE=zsh_source spmvbench)"',
    "fish": "_SPMVBENCH_COMPLETE=fish_source spmvbench | source",
}


def facts() -> dict[str, Any]:
    """Versions, devices, folders and matrices as JSON values."""
    import platform

    from spmvbench import __version__, paths
    from spmvbench.matrices import suitesparse
    from spmvbench.rows import folders
    from spmvbench.runner import requirements

    return {
        "spmvbench": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": requirements.versions(),
        "devices": {name: _device(name) for name in ("cuda:0", "emulated")},
        "home": str(paths.home()),
        "home_bytes": folders.size(paths.home()),
        "matrices": len(suitesparse.cached_names()),
        "mirror": suitesparse.without_login(os.environ.get("SPMVBENCH_MIRROR", "")),
    }


def _device(name: str) -> dict[str, Any]:
    """The device's properties, or why it cannot be used."""
    from spmvbench.devices import DeviceFault, open_device

    try:
        device = open_device(name)
    except (SpmvbenchError, DeviceFault) as error:
        return {"available": False, "reason": str(error)}
    try:
        return {"available": True} | device.properties()
    finally:
        device.close()


def _device_text(about: dict[str, Any]) -> str:
    if not about["available"]:
        return f"not available: {about['reason']}"
    rest = [
        f"{key} {value}"
        for key, value in about.items()
        if key not in ("available", "device", "device_name") and value not in (None, False)
    ]
    return ", ".join((about["device_name"], *rest))


@click.command(name="env")
@option_types.JSON
def command(as_json: bool) -> None:
    """Show versions, devices and folders, and what to install for missing features."""
    from spmvbench.formats.admission import byte_text
    from spmvbench.runner import requirements

    about = facts()
    if as_json:
        click.echo(json.dumps(about, indent=2))
        return
    shell = os.path.basename(os.environ.get("SHELL", ""))
    here, wanted = about["packages"], requirements.by_extra()
    missing = {extra: names for extra in OPTIONAL if (names := [n for n in wanted.get(extra, ()) if n not in here])}
    if any(name.startswith("cupy") for name in here):
        missing.pop("cuda13", None)
    if about["devices"]["emulated"]["available"]:  # with the compiler that its line names
        missing.pop("cpu", None)
    lines = {
        "spmvbench": f"{about['spmvbench']}, Python {about['python']}, {about['platform']}",
        "packages": ", ".join(f"{name} {version}" for name, version in about["packages"].items()),
        **{name: _device_text(device) for name, device in about["devices"].items()},
        "home": f"{about['home']} ({byte_text(about['home_bytes'])}, {counted(about['matrices'], 'matrix')})",
        "mirror": about["mirror"] or "none: fetch goes to the SuiteSparse site",
        "completion": COMPLETION.get(shell, COMPLETION["bash"]),
    }
    for name, text in lines.items():
        if text:
            click.echo(click.style(f"{name:12}", bold=True) + text)
    if missing:
        click.secho("\nNot installed", bold=True)
    for extra, names in missing.items():
        click.echo(f"{', '.join(names)}: for {OPTIONAL[extra]}: pip install 'spmvbench[{extra}]'")
