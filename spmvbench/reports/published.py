"""Published results of papers, to compare a run with: configs/published/PAPER, one name per device, PAPER-DEVICE."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from spmvbench import paths
from spmvbench.errors import SpmvbenchError, UsageError, did_you_mean


@dataclass(frozen=True)
class Paper:
    """Facts that a paper's tables have in common.

    dtype: the type of its values. formats: its names of formats, with the keys that correspond to each, the most
    similar first. matrices: columns matrix (group/name), rows, nnz, row_len_mean, row_len_max, in the paper's order.
    devices: the facts of each, by short name.
    """

    name: str
    title: str
    source: str
    dtype: str
    formats: Mapping[str, Sequence[str]]
    devices: Mapping[str, Mapping[str, Any]]
    matrices: pd.DataFrame


@dataclass(frozen=True)
class Published:
    """A paper's results on one device.

    rows: one row for each matrix and format of the paper, with the columns of its matrices and gflops, bytes_per_nnz,
    seconds, spmvs (of the conversion) and break_even (against CSR; inf is never); NaN if it printed a dash or
    nothing.
    """

    name: str
    paper: Paper
    device: Mapping[str, Any]
    rows: pd.DataFrame

    @property
    def title(self) -> str:
        """The name of the device, marked as published."""
        return f"{self.device['device_name']}, published"


def names() -> list[str]:
    """The names of all published results, sorted."""
    papers = sorted(path.parent.name for path in (paths.configs() / "published").glob("*/about.toml"))
    return [f"{name}-{device}" for name in papers for device in sorted(paper(name).devices)]


@cache
def paper(name: str) -> Paper:
    """A paper by its folder's name. Raises SpmvbenchError for a bad file."""
    folder = paths.configs() / "published" / name
    try:
        about = tomllib.loads((folder / "about.toml").read_text(encoding="utf-8"))
        return Paper(name=name, matrices=pd.read_csv(folder / "matrices.csv"), **about)
    except (OSError, tomllib.TOMLDecodeError, TypeError) as error:
        raise SpmvbenchError(f"{folder} has no published results: {error}") from None


def get(name: str) -> Published:
    """A paper's results on a device, such as survey-k40m. Raises UsageError with similar names for others."""
    known = names()
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"there are no published results {name!r}{hint}")
    stem, _, device = name.rpartition("-")
    of = paper(stem)

    def table(file: str) -> pd.DataFrame:
        found = pd.read_csv(paths.configs() / "published" / stem / f"{file}.csv")
        return found[found["device"] == device].drop(columns="device") if "device" in found else found

    rows = table("gflops")
    for file in ("bytes", "conversion"):
        rows = rows.merge(table(file), on=["matrix", "format"], how="left")
    return Published(name, of, of.devices[device], rows.merge(of.matrices, on="matrix"))


@dataclass(frozen=True)
class PublicPrograms:
    """What public programs reach on one GPU, all timed by one driver: configs/published/programs.

    gpu: the name of the device. programs: columns program, title, and label, that of the format with the same storage;
    a title of several programs is the fastest of them. rows: program, matrix (a name without its group), dtype, gflops;
    hot, y = A x, verified.
    """

    gpu: str
    programs: pd.DataFrame
    rows: pd.DataFrame


@cache
def public_programs() -> PublicPrograms:
    """The programs and their figures on an NVIDIA H200."""
    folder = paths.configs() / "published" / "programs"
    return PublicPrograms("NVIDIA H200", pd.read_csv(folder / "programs.csv"), pd.read_csv(folder / "h200.csv"))
