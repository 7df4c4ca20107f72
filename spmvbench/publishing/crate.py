"""Description of published runs as an RO-Crate: ro-crate-metadata.json, from the files of the runs themselves.

``python -m spmvbench.publishing crate results/published`` writes it into that folder: before a release, and after a run
was added, whose tables it writes anew in fewer bytes, and whose descriptions of matrices it adds to those of all runs.
Follows the RO-Crate 1.1 specification (https://w3id.org/ro/crate/1.1).
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

from spmvbench import paths
from spmvbench.errors import UsageError
from spmvbench.publishing import in_page
from spmvbench.rows import files, folders, store

NAME = "ro-crate-metadata.json"
CONTEXT = SPECIFICATION = "https://w3id.org/ro/crate/1.1"
TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".json": "application/json",
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".svg": "image/svg+xml",
}
LICENSE = "https://spdx.org/licenses/BSD-3-Clause"
SOFTWARE = "#spmvbench"


def described(folder: Path) -> dict[str, Any]:
    """The crate of all runs in a folder: a data set for each run, its files with sizes and SHA-256, and its devices.

    Raises UsageError if the folder has no run, SpmvbenchError if a run cannot be read.
    """
    runs = sorted(path.parent for path in folder.glob(f"*/{store.ROWS}"))
    if not runs:
        raise UsageError(f"{folder} holds no run")
    graph: list[dict[str, Any]] = []
    devices: set[str] = set()
    dates: list[str] = []
    for run in runs:
        sessions = store.environment(run)["sessions"]
        here = sorted({str(one["properties"]["device_name"]) for one in sessions if "properties" in one})
        devices |= set(here)
        dates += [str(one["started"])[:10] for one in sessions]
        parts = [path for path in sorted(run.iterdir()) if path.is_file() and path.suffix in TYPES]
        title, about = _titled(run)
        graph.append(
            {
                "@id": f"{run.name}/",
                "@type": "Dataset",
                "name": title,
                "description": about,
                "dateCreated": min((str(one["started"])[:10] for one in sessions), default=""),
                "license": {"@id": LICENSE},
                "instrument": [{"@id": _anchor(device)} for device in here],
                "softwareVersion": sorted({str(one["git"]) for one in sessions if one.get("git")}),
                "hasPart": [{"@id": f"{run.name}/{path.name}"} for path in parts],
            }
        )
        graph += [_file(f"{run.name}/", path) for path in parts]
    shared = [path for path in (folder / store.MATRICES,) if path.is_file()]
    graph += [_file("", path) for path in shared]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": "Published runs of spmvbench",
        "description": "Times of storage formats for sparse matrix-vector multiplication on GPUs; one row per case.",
        "datePublished": max(dates, default=""),
        "license": {"@id": LICENSE},
        "hasPart": [*({"@id": f"{run.name}/"} for run in runs), *({"@id": path.name} for path in shared)],
        "isBasedOn": {"@id": SOFTWARE},
    }
    descriptor = {
        "@id": NAME,
        "@type": "CreativeWork",
        "conformsTo": {"@id": SPECIFICATION},
        "about": {"@id": "./"},
    }
    software = {
        "@id": SOFTWARE,
        "@type": "SoftwareSourceCode",
        "name": "spmvbench",
        "programmingLanguage": ["Python", "CUDA C++"],
        "license": {"@id": LICENSE},
    }
    license_ = {"@id": LICENSE, "@type": "CreativeWork", "name": "BSD-3-Clause"}
    made = [{"@id": _anchor(device), "@type": "Thing", "name": device} for device in sorted(devices)]
    return {"@context": f"{CONTEXT}/context", "@graph": [descriptor, root, software, license_, *made, *graph]}


def pack(folder: Path) -> None:
    """Move the descriptions of all runs' matrices into the file beside them, each once, and write tables that the crate
    does not have yet anew where that takes fewer bytes: the same rows, compressed harder.
    """
    shared, own = folder / store.MATRICES, sorted(folder.glob(f"*/{store.MATRICES}"))
    if own:
        tables = [store.valid(path.parent, files.DESCRIPTIONS)[0].to_pandas() for path in (shared, *own)]
        described = folders.descriptions(tables)
        if len(described) > len(tables[0]):
            with paths.written_whole(shared, durable=True) as file:
                files.write(described, files.DESCRIPTIONS, file)
        for path in own:
            path.unlink()
    held = (folder / NAME).read_text(encoding="utf-8") if (folder / NAME).is_file() else ""
    known = {one.get("sha256") for one in json.loads(held)["@graph"]} if held else set()
    written = dict.fromkeys(folder.glob(f"*/{store.ROWS}"), files.CASES) | {shared: files.DESCRIPTIONS}
    for path, layout in written.items():
        if not path.is_file() or _file("", path)["sha256"] in known:
            continue
        content = io.BytesIO()
        files.write(files.read(path, layout), layout, content, smallest=True)
        if len(content.getvalue()) < path.stat().st_size:
            with paths.written_whole(path) as file:
                file.write(content.getvalue())


def text(folder: Path) -> str:
    """The crate as the file has it."""
    return json.dumps(described(folder), indent=1, ensure_ascii=False) + "\n"


def _titled(run: Path) -> tuple[str, str]:
    """The heading of a run's README and its first paragraph of words; the run's name and nothing without one."""
    try:
        words = (run / "README.md").read_text(encoding="utf-8")
    except OSError:
        return run.name, ""
    parts = [" ".join(part.split()) for part in words.split("\n\n")]
    about = next((part for part in parts if not part.startswith(("#", "```"))), "")
    return parts[0].lstrip("# "), about


def _file(place: str, path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {
        "@id": f"{place}{path.name}",
        "@type": "File",
        "name": path.name,
        "encodingFormat": TYPES[path.suffix],
        "contentSize": str(len(content)),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _anchor(device: str) -> str:
    return "#" + "-".join(device.lower().split())


def main() -> None:
    """Write the crate of the folder that is named."""
    words = in_page.parser(__name__)
    words.add_argument(in_page.FOLDER[0], **in_page.FOLDER[1])
    folder = words.parse_args().folder
    pack(folder)
    with paths.written_whole(folder / NAME) as file:
        file.write(text(folder).encode())
    print(f"{folder / NAME}: {len(described(folder)['@graph'])} entities")
