"""Packs a run's folder into one file: its rows, its metadata, and the sources of formats that are not this project's.

A bundle is a ZIP archive; ``bundle.json`` lists its files with their SHA-256.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench import __version__, formats, paths
from spmvbench.bundles import sources
from spmvbench.errors import UsageError
from spmvbench.formats import dependencies, imports
from spmvbench.programs.base import Program
from spmvbench.programs.using import use
from spmvbench.rows import files, store
from spmvbench.rows.metadata import ENVIRONMENT
from spmvbench.rows.schema import IMPORTED, SCHEMA_VERSION

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "bundle.json"
VERSION = 1
SUFFIX = ".spmvbench.zip"
LIBRARIES = "programs/"  # folder of a bundle
# Metadata that is removed: the host's name. Paths, which may contain a user's name, are shortened.
PRIVATE = ("host",)
_PATH = re.compile(r"(?<![\w.:/])(?:~|/)[^\s,:;='\"]*/")


def pack(
    run: Path, target: Path | str, *, identify: bool = False, include_programs: Sequence[str] = ()
) -> dict[str, Any]:
    """Write a bundle of a run's folder to `target`, as `paths.output` does, and return its manifest.

    identify: keep host names and paths. Sources that are neither a release's nor this installation's are included from
    SPMVBENCH_FORMATS. Of programs only the hash and the description are, without those of `include_programs`, files as
    `programs.using.use` takes them. Raises UsageError if a format's source is missing or has changed since the
    measurement.
    """
    named = {label.partition("[")[0] for label in use(include_programs)}
    rows = store.load(run)
    if rows.empty:
        raise UsageError(f"{run} holds no rows: there is nothing to submit")
    if (rows["device"] == IMPORTED).any():
        raise UsageError(f"{run} holds imported rows, which others measured: name the files that they are from instead")
    metadata = {"schema_version": SCHEMA_VERSION, "sessions": store.environment(run)["sessions"]}
    measured = rows[["format", "source_hash"]].drop_duplicates().itertuples(index=False)
    programs = {pair: about for pair, about in described(metadata["sessions"]).items() if pair[0] not in named}
    origins, included = _origins(measured, programs)
    contents = {
        store.ROWS: packed(rows if identify else _anonymous(rows), files.CASES),
        store.MATRICES: packed(store.matrices(run), files.DESCRIPTIONS),
        ENVIRONMENT: _json(metadata if identify else redacted(metadata)),
        **included,
    }
    manifest = {
        "bundle": VERSION,
        "spmvbench": __version__,
        "packed": store.now(),
        "run": run.name,
        "division": "closed" if all(origin["from"] not in ("bundle", "program") for origin in origins) else "open",
        "cases": len(rows),
        "formats": origins,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()},
    }
    with paths.output(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {MANIFEST: _json(manifest), **contents}.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return manifest


def described(sessions: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """The programs that metadata describes, by format and source hash; untrusted."""
    known = [about for session in sessions if isinstance(found := session.get("programs"), list) for about in found]
    return {
        (str(about.get("format")), str(about.get("source_hash"))): about for about in known if isinstance(about, dict)
    }


def _origins(
    measured: Iterable[Any], programs: Mapping[tuple[str, str], dict[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Where the sources of the formats come from, and the files to include, by name. programs: of which there are
    none.
    """
    origins, included = list[dict[str, Any]](), dict[str, bytes]()
    here = {key: formats.get(key) for key in sorted(formats.keys())}
    outside = {key: here[key] for key in here.keys() - set(formats.shipped())}
    for key, source_hash in measured:
        origin = sources.known(key, source_hash)
        if not origin and (about := programs.get((key, sources.of_format(source_hash)))) is not None:
            about = {name: part for name, part in about.items() if name not in ("format", "source_hash")}
            origins.append({"format": key, "source_hash": source_hash, "from": "program", "description": about})
            continue
        if not origin:
            cls = outside.get(key)
            same = cls is not None and formats.source_hash(cls) == sources.of_format(source_hash)
            if cls is None or not same or not sources.solver_known(source_hash):
                problem = "is missing" if key not in here else "has changed"
                raise UsageError(
                    f"the source of {key} that was measured ({source_hash}) {problem}: check out what was measured, "
                    "name it in SPMVBENCH_FORMATS, or measure again"
                )
            origin = "bundle"
            home = Path(inspect.getfile(cls)).resolve().parent
            for path in (*dependencies.python_files(cls), *dependencies.kernel_files(cls)):
                if not path.is_relative_to(imports.PACKAGE) and not path.is_relative_to(paths.kernels()):
                    name = path.relative_to(home).as_posix() if path.is_relative_to(home) else path.name
                    included[f"sources/{name}"] = path.read_bytes()
            if issubclass(cls, Program):
                included |= {LIBRARIES + path.name: path.read_bytes() for path in cls.files()}
        origins.append({"format": key, "source_hash": source_hash, "from": origin})
    return sorted(origins, key=lambda origin: (origin["format"], origin["source_hash"])), included


def redacted(value: Any) -> Any:
    """Metadata without host names, and with paths shortened to their last part."""
    if isinstance(value, dict):
        return {name: redacted(part) for name, part in value.items() if name not in PRIVATE}
    if isinstance(value, list):
        return [redacted(part) for part in value]
    return _PATH.sub("", value) if isinstance(value, str) else value


def _anonymous(rows: Any) -> Any:
    """The rows without paths in their reasons, and without host names in clear text; hashes stay."""
    hashed = rows["host"].str.fullmatch("[0-9a-f]{16}")
    return rows.assign(host=rows["host"].where(hashed, ""), reason=rows["reason"].map(redacted))


def packed(rows: pd.DataFrame, layout: files.Layout) -> bytes:
    """Rows, or descriptions of matrices, as the content of a merged file."""
    content = io.BytesIO()
    files.write(files.parsed(rows.to_dict("records"), layout), layout, content)
    return content.getvalue()


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
