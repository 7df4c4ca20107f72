"""Linear programs in MPS files, free and fixed, by HiGHS: the constraint matrix, without objective, bounds and sides.

Zeros are no entries.
HiGHS ignores what it does not understand and says so: such a file is refused, since its matrix would be another.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any, cast

from spmvbench.matrices.readers import Stored, apart, reads
from spmvbench.matrices.structures import required


@reads(".mps", ".mps.gz")
def read(path: Path) -> Stored:
    """The constraints: a row each, in the order of the file; a column for each variable."""
    required("highspy")
    return Stored(apart.matrices(path, constraints, "an MPS file")["constraints"])


def constraints(path: Path, folder: Path) -> dict[str, Any]:
    """The constraint matrix by HiGHS, by columns."""
    import highspy
    import numpy as np
    from scipy import sparse

    zipped = path.name.lower().endswith(".gz")
    named = folder / ("a.mps.gz" if zipped else "a.mps")  # HiGHS knows a file by its suffix
    named.symlink_to(path.resolve())
    solver = cast(Any, highspy.Highs)()
    log = folder / "log"
    solver.setOptionValue("log_to_console", False)
    solver.setOptionValue("log_file", str(log))
    solver.setOptionValue("small_matrix_value", 1e-12)  # the least that it allows; smaller entries are refused
    solver.setOptionValue("large_matrix_value", float("inf"))
    status = solver.readModel(str(named))
    said = log.read_text("utf-8", "replace").splitlines() if log.exists() else []
    problems = [line for line in said if any(word in line for word in ("ERROR", "ignor", "same name"))]
    if status == highspy.HighsStatus.kError or problems:
        sentence = problems[0].partition(":")[2].strip() if problems else "HiGHS finds no linear program in it"
        sys.exit(sentence.replace(str(named), "it"))
    with gzip.open(path, "rb") if zipped else open(path, "rb") as file:
        _check_entries(file, fixed=any("fixed format parser" in line for line in said))
    lp = solver.getLp()
    starts, rows, values = (
        np.asarray(part) for part in (lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_)
    )
    return {"constraints": sparse.csc_array((values, rows, starts), shape=(lp.num_row_, lp.num_col_))}


def _check_entries(file: Any, fixed: bool) -> None:
    """Exit for a line of COLUMNS that HiGHS takes for another one: it reads 1.5D3 as 1.5.

    fixed: it read fixed columns, because some name has blanks, and ignores what stands between them.
    """
    section = b""
    for line in file:
        if not line[:1].isspace():
            section = line.split(maxsplit=1)[0] if line.strip() and line[:1] != b"*" else section
        elif section == b"COLUMNS" and b"'MARKER'" not in line and line.strip():
            numbers, between = line.split()[2::2], b""
            if fixed:
                numbers = [line[24:36], *([line[49:61]] if line[39:].strip() else [])]
                between = b"".join(line[first:last] for first, last in ((0, 4), (12, 14), (22, 24), (36, 39), (47, 49)))
            if between.strip() or not numbers or not _are_numbers(numbers):
                sys.exit(f"it has an entry without a number in its place: {line.decode('utf-8', 'replace').strip()}")


def _are_numbers(words: list[bytes]) -> bool:
    try:
        for word in words:
            float(word)
    except ValueError:
        return False
    return True
