"""Writes a site: pages of matrices, formats and papers, their lists, the index and what the search needs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pandas as pd

from spmvbench import formats
from spmvbench.analysis.cases import matrix_names
from spmvbench.analysis.totals import read, totals
from spmvbench.errors import UsageError, counted
from spmvbench.formats.descriptions import summary
from spmvbench.paths import inside, written_whole
from spmvbench.reports import links, page, tables
from spmvbench.reports.site import one_format, one_matrix, pictures
from spmvbench.reports.site.runs import Run, all_runs

ABOUT = (
    "spmvbench measures storage formats for sparse matrix-vector multiplication (SpMV, y = A x) on GPUs.",
    "All formats run on the same matrices, with the same timing and the same verification of results.",
    "Each run has a page with its figures, each matrix and each format one with all that was measured of it.",
)
DOCUMENTATION = "results.html"  # a page of the documentation: if the folder above the site has it, the index links it


def shared(site: Path, out: Path) -> tuple[str, str]:
    """Write the shared files of a site; returns the relative paths from a page in `out` to them and to the index."""
    page.write_shared(site / links.SHARED)
    for name in ("site.js", "site.css"):
        text = (resources.files("spmvbench.reports.site") / "templates" / name).read_text(encoding="utf-8")
        _write(site / links.SHARED / name, text)
    return f"{_way(site / links.SHARED, out)}/", _way(site / links.INDEX, out)


def write(site: Path, repository: str = "") -> Path:
    """Write all pages of the runs in a folder that have a page. Returns the path of the index.

    repository: address of the project's repository, which the index links to; empty for none. Pages of matrices and
    formats that no run has any more are removed. Raises UsageError for an address that is not of the web.
    """
    if repository and urlsplit(repository).scheme not in ("http", "https"):
        raise UsageError(f"--repository takes an address that begins with https://, not {repository!r}")
    runs = all_runs(site)
    shared(site, site)
    rows = _together(runs)
    keys = sorted(set(rows["format"].unique()) | set(formats.keys()))
    matrices = {
        str(name): part for name, part in rows.groupby("matrix", sort=True) if (part["matrix_sha256"] != "").any()
    }
    for name in (links.MATRICES, links.FORMATS):
        folder = inside(site, name)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.html"):  # a page that is not written anew is of nothing any more
            old.unlink()
    writer = _Writer(site, repository)
    described = [run.matrices for run in reversed(runs) if len(run.matrices)]
    descriptions = pd.concat(described or [pd.DataFrame({"matrix_sha256": []})], ignore_index=True)
    listed = []
    for name, part in matrices.items():
        about = one_matrix.page(name, part, descriptions, runs)
        writer.page("matrix.html", links.matrix(name), about["name"], m=about)
        listed.append((about, links.matrix(name)))
    namesakes: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for about, place in listed:  # a matrix of which there are several has @ and a hash after its name
        if (plain := about["name"].partition("@")[0]) not in matrices:
            namesakes.setdefault(plain, []).append((about, place))
    for plain, same in namesakes.items():
        writer.page("matrices.html", links.matrix(plain), plain, listed=same)
    known = one_format.known(runs, rows)
    papers: dict[str, list[str]] = {}
    families: dict[str, list[tuple[str, str, str]]] = {}
    for key in keys:
        of_format = one_format.page(key, known, runs)
        writer.page("format.html", links.format(key), key, f=of_format, dense=pictures.dense_example())
        cls = formats.get(key) if of_format["about"] else None
        reference, family = (cls.reference, cls.family) if cls else ("", "Not in this version")
        families.setdefault(family, []).append((key, summary(cls) if cls else "", reference))
        papers.setdefault(reference or "No paper", []).append(key)
    writer.page("matrices.html", f"{links.MATRICES}/{links.INDEX}", "Matrices", listed=listed)
    writer.page("formats.html", f"{links.FORMATS}/{links.INDEX}", "Formats", families=sorted(families.items()))
    writer.page("papers.html", links.PAPERS, "Papers", papers=sorted(papers.items()))
    search = _search(runs, matrices, keys, papers)
    _write(site / links.SHARED / "search.js", f"const SEARCH = {tables.script_json(search)};\n")
    writer.page("index.html", links.INDEX, "Reports", runs=runs, total=totals(rows) if runs else None)
    return site / links.INDEX


def _together(runs: Sequence[Run]) -> pd.DataFrame:
    """The rows of all runs; a matrix is named as in each run's page, unless contents of one file differ."""
    parts = [run.rows.assign(setting=run.rows["setting"].astype(str)) for run in runs]
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in one_matrix.READ})
    rows = pd.concat(parts, ignore_index=True)
    rows = rows.assign(matrix=matrix_names(rows, "file_sha256")).filter(items=one_matrix.READ)
    # Pages take rows one by one, which is several times as fast from Python's texts.
    return rows.astype(dict.fromkeys(rows.select_dtypes(["string", "object"]), object))


def _search(
    runs: Sequence[Run], matrices: Mapping[str, pd.DataFrame], keys: Sequence[str], papers: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, str, str]]:
    """(kind, name, further words, address) of everything that the search finds."""
    found = [("run", run.name, f"{', '.join(run.devices)} {run.about}", run.link) for run in runs]
    for name, part in matrices.items():
        known = read(part).iloc[-1]
        found.append(("matrix", name, f"{known['kind']}, {known['nnz']:,} nonzeros", links.matrix(name)))
    for key in keys:
        words = ""
        if key in formats.keys():  # noqa: SIM118 - a function of the module
            cls = formats.get(key)
            words = f"{cls.family} {cls.survey_name}. {summary(cls)}"
        found.append(("format", key, words, links.format(key)))
    found += [
        ("paper", paper, ", ".join(names), f"{links.PAPERS}#{links.slug(paper)}")
        for paper, names in sorted(papers.items())
    ]
    return found


class _Writer:
    """Writes pages from templates, with links relative to each."""

    def __init__(self, site: Path, repository: str) -> None:
        self.site, self.repository = site, repository
        self.documentation = (site.resolve().parent / DOCUMENTATION).is_file()
        self.templates = page.templates("spmvbench.reports.site")
        self.templates.globals |= {
            "counted": counted,
            "links": links,
            "number": tables.number,
            "percent": tables.percent,
        }

    def page(self, template: str, place: str, title: str, **values: Any) -> None:
        root = "../" * place.count("/")
        text = self.templates.get_template(template).render(
            root=root,
            title=title,
            about=ABOUT,
            repository=self.repository,
            documentation=f"{root}../index.html" if self.documentation else "",
            **values,
        )
        _write(self.site / place, text)


def _write(path: Path, text: str) -> None:
    with written_whole(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def _way(to: Path, start: Path) -> str:
    return Path(os.path.relpath(to, start)).as_posix()
