"""Text retrieval: the files of a large public source tree against the identifiers that they name."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from spmvbench.errors import SpmvbenchError
from spmvbench.matrices.structures import Structure, application, needs, of_matrix

PACKAGE = "linux-source-6.1"  # Debian's; its updates change a few files, and with them the pattern
FOLDER = Path("/usr/src")
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_SOURCE = (
    "G. Salton, C. Buckley, Information Processing & Management 24(5), 1988; the Linux kernel, Debian's " + PACKAGE
)
_RULE = needs("EVERY of 1 to 1000", lambda EVERY: 1 <= EVERY <= 1000)


def _texts(every: int) -> Iterator[bytes]:
    """Every so-manieth file of C in the package's archive, in its order."""
    archive = FOLDER / f"{PACKAGE}.tar.xz"
    if not archive.is_file():
        raise SpmvbenchError(f"this matrix is made of Debian's package {PACKAGE}: apt-get install {PACKAGE}")
    count = 0
    try:
        with tarfile.open(archive, "r|xz") as tar:
            for member in tar:
                if member.isfile() and member.name.endswith((".c", ".h", ".S")):
                    if count % every == 0:
                        content = tar.extractfile(member)
                        assert content is not None, "a file has content"
                        yield content.read()
                    count += 1
    except (tarfile.TarError, OSError, EOFError) as error:
        raise SpmvbenchError(f"{archive} cannot be read: {error}") from None


def _counted(every: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Identifiers of each file and how many it has, those that no other file has left out; and how many there are."""
    numbers: dict[bytes, int] = {}
    found = [
        np.unique([numbers.setdefault(word, len(numbers)) for word in dict.fromkeys(_WORD.findall(text))])
        for text in _texts(every)
    ]
    lengths = np.array([len(words) for words in found])
    words = np.concatenate(found).astype(np.int64)
    shared = np.bincount(words) > 1
    place, keep = np.cumsum(shared) - 1, shared[words]
    lengths = np.bincount(np.repeat(np.arange(len(lengths)), lengths)[keep], minlength=len(lengths))
    return place[words[keep]], lengths, int(shared.sum())


def _weighed(every: int, transposed: bool) -> Structure:
    import scipy.sparse as sp

    from spmvbench.formats.arrays import offsets

    columns, lengths, count = _counted(every)
    rarity = np.log(len(lengths) / np.bincount(columns, minlength=count))
    found = sp.csr_array((rarity[columns], columns, offsets(lengths)), shape=(len(lengths), count))
    return of_matrix(found.T.tocsr() if transposed else found)


@application("text retrieval", _SOURCE, licence="the kernel's source is GPL-2.0; no line of it is in the matrix")
@_RULE
def terms(EVERY: int) -> Structure:
    """Every EVERY-th C file of Linux 6.1 against the identifiers that at least two of them name; rectangular.

    Identifiers are numbered as they first occur; values are the logarithm of files over files that name it. Rows and
    columns have a heavy tail. Needs Debian's package linux-source-6.1.
    """
    return _weighed(EVERY, transposed=False)


@application("text retrieval", _SOURCE, licence="the kernel's source is GPL-2.0; no line of it is in the matrix")
@_RULE
def mentions(EVERY: int) -> Structure:
    """The transpose of terms:EVERY, which files name an identifier: an inverted index."""
    return _weighed(EVERY, transposed=True)
