"""`spmvbench info`: features, row lengths and sparsity picture of a matrix."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

import click

from spmvbench.cli import option_types
from spmvbench.errors import SpmvbenchError, UsageError, counted

if TYPE_CHECKING:
    from spmvbench.formats.arrays import Csr
    from spmvbench.matrices import Matrix

SHADES = "·░▒▓█"
WIDTH = 64  # characters of the picture and of the longest bar


@click.command()
@click.argument("matrix")
@option_types.JSON
@click.option(
    "--image",
    type=option_types.OUTPUT,
    help="Write the sparsity picture to a PNG, SVG or PDF file; -: PNG on standard output.",
)
@option_types.real_part
@option_types.seed
def command(matrix: str, as_json: bool, image: str | None, real_part: bool, seed: int) -> None:
    """Show features, row lengths and sparsity picture of MATRIX.

    MATRIX is group/name (fetched if it is missing), a generated matrix such as pde:60, or a file.
    """
    from spmvbench import paths
    from spmvbench.formats.arrays import Csr
    from spmvbench.matrices import features
    from spmvbench.matrices.lookup import obtain

    suffix = _image_type(image) if image else ""
    found = obtain(matrix)
    a = found.read(seed, "real" if real_part else "refuse")
    csr = Csr.of(a)
    about = _about(found, a)
    numbers = features.features(csr)
    histogram = features.row_length_histogram(csr)
    echo = functools.partial(click.echo, err=image == "-")
    if as_json:
        echo(_json(found, about, numbers, histogram))
    else:
        echo(f"{found.id}{f' ({found.kind})' if found.kind else ''}")
        for name, text in about.items():
            echo(f"{name}: {text}")
        echo()
        echo(_table(numbers))
        echo("\nRow lengths\n" + _bars(histogram))
        if csr.nnz:
            echo("\nStored entries\n" + _picture(csr))
    if image:
        if not csr.nnz:
            raise SpmvbenchError(f"{found.id} has no entries to draw")
        content = _drawn(csr, found.id, suffix)
        with paths.output(image) as file:
            file.write(content)
        if image != "-":
            click.echo(f"Wrote {image}", err=True)


def _image_type(image: str) -> str:
    """The image type by the suffix of a file name; png without one, as for /dev/stdout. Raises UsageError."""
    suffix = os.path.splitext(image)[1].lower().removeprefix(".") or "png"
    if suffix not in ("png", "svg", "pdf"):
        raise UsageError(f"{image} should end in .png, .svg or .pdf")
    return suffix


def _about(found: Matrix, a: Any) -> dict[str, str]:
    """Description, domain, model, licence and pattern hash of a generated matrix; empty for other matrices."""
    from spmvbench.matrices import structures, synthetic

    if found.source != "synthetic":
        return {}
    about = {"description": structures.description(found.kind)}
    if found.kind in structures.ORIGINS:
        origin = structures.ORIGINS[found.kind]
        about |= {"domain": origin.domain, "model": origin.source, "licence": origin.licence}
    return about | {"pattern SHA-256": synthetic.hashes(a)[0]}


def _json(found: Matrix, about: dict[str, str], numbers: dict[str, Any], histogram: list[tuple[int, int, int]]) -> str:
    import json
    import math

    plain = {name: None if isinstance(n, float) and math.isnan(n) else n for name, n in numbers.items()}
    rows = [{"shortest": low, "longest": high, "rows": count} for low, high, count in histogram]
    head = {"group": found.group, "name": found.name, "kind": found.kind, "source": found.source}
    about = {name.lower().replace(" ", "_").replace("-", ""): text for name, text in about.items()}
    return json.dumps(head | about | plain | {"row_lengths": rows}, indent=2)


def _table(numbers: dict[str, Any]) -> str:
    """Name, value and meaning of every feature, aligned."""
    from spmvbench.rows.schema import COLUMNS

    texts = {name: f"{n:,}" if isinstance(n, int) else f"{n:,.4g}" for name, n in numbers.items()}
    left, right = max(map(len, texts)), max(map(len, texts.values()))
    return "\n".join(f"{name:<{left}}  {text:>{right}}  {COLUMNS[name][1]}" for name, text in texts.items())


def _bars(histogram: list[tuple[int, int, int]]) -> str:
    """A bar for each bin of row lengths: the longest has WIDTH characters, every non-empty bin at least one."""
    labels = [str(low) if low == high else f"{low}-{high}" for low, high, _ in histogram]
    most = max(count for _, _, count in histogram) or 1
    left, right = max(map(len, labels)), len(f"{most:,}")
    return "\n".join(
        f"{label:>{left}}  {count:>{right},}  {'█' * max(round(WIDTH * count / most), count > 0)}".rstrip()
        for label, (_, _, count) in zip(labels, histogram, strict=True)
    )


def _picture(csr: Csr) -> str:
    """The matrix as characters shaded by the logarithm of the density of entries, with a legend."""
    import numpy as np

    from spmvbench.matrices.features import density

    across = min(csr.cols, WIDTH)
    # A character is twice as tall as wide; the picture keeps the matrix's shape within reason.
    down = min(csr.rows, max(8, min(WIDTH // 2, round(across / 2 * csr.rows / csr.cols))))
    cells = density(csr, down, across)
    low, high = cells[cells > 0].min(), cells.max()
    edges = np.geomspace(low, high, len(SHADES) + 1) if high > low else np.array([low, high])
    shades = SHADES[-1] if high == low else SHADES
    level = np.asarray(np.clip(np.searchsorted(edges, cells, side="right"), 1, len(shades)) - 1)
    lines = [
        "".join(shades[k] if cell else " " for k, cell in zip(levels, filled, strict=True))
        for levels, filled in zip(level, cells, strict=True)
    ]
    border = "+" + "-" * across + "+"
    legend = "   ".join(
        f"{shade} {100 * a:.3g}{f'-{100 * b:.3g}' if b > a else ''} %"
        for shade, a, b in zip(shades, edges[:-1], edges[1:], strict=True)
    )
    rows, cols = -(-csr.rows // down), -(-csr.cols // across)
    note = f"One character covers up to {rows:,} x {cols:,} positions; share of these that hold an entry:"
    return "\n".join([border, *(f"|{line}|" for line in lines), border, note, legend])


def _drawn(csr: Csr, title: str, suffix: str) -> bytes:
    """The density of entries as an image file, at most 500 cells along the longer side."""
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    from spmvbench.matrices.features import density, grid
    from spmvbench.reports import style

    cells = density(csr, *grid(csr.shape, 500))
    with style.theme():
        figure = Figure(figsize=(7, 6.4))
        axes = figure.add_subplot()
        picture = style.density(axes, cells, LogNorm(cells[cells > 0].min(), cells.max()), (0, 0), csr.shape)
        axes.set_title(f"{title}: {csr.rows:,} x {csr.cols:,}, {counted(f'{csr.nnz:,}', 'entry')}")
        bar = figure.colorbar(picture, label="share of positions that hold an entry")
        style.plain_ticks(bar.ax.yaxis)
        return style.rendered(figure, suffix)
