"""Where a site of reports has its pages: relative to the folder with its index."""

from __future__ import annotations

import hashlib
import re

INDEX, SHARED = "index.html", "shared"
MATRICES, FORMATS, PAPERS = "matrices", "formats", "papers.html"
_LONGEST = 80  # characters of a name in a file's name


def matrix(name: str) -> str:
    """The page of a matrix by its name (group/name): ``matrices/HB-1138_bus.html``."""
    return f"{MATRICES}/{slug(name)}.html"


def format(key: str) -> str:
    """The page of a format by its key, or by a label, whose parameters are an anchor in it: ``formats/csr5.html``."""
    name, bracket, _ = key.partition("[")
    return f"{FORMATS}/{slug(name)}.html" + (f"#{anchor(key)}" if bracket else "")


def anchor(label: str) -> str:
    """The anchor of a label in the page of its format."""
    return f"label-{slug(label)}"


def slug(name: str) -> str:
    """A name as part of a file's name and of an address: only letters, digits and ``. _ -``; different for every name.

    Names come from rows, which a stranger may have written. A name of letters, digits, ``_`` and ``.``, with one ``/``
    after the group, ``:`` between the parameters of a generator, or ``-`` in a format's key, is kept with ``-`` in
    place of the other signs. All other names end in ``--`` and a part of their hash.
    """
    plain = re.fullmatch(r"\w+/\w+(\.\w+)*(:\w+(\.\w+)*)*|[a-z0-9]+(-[a-z0-9]+)*", name, re.ASCII)
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", name)[:_LONGEST].strip("-.")
    if plain and len(name) <= _LONGEST and name != "index":
        return readable
    return "--".join(filter(None, (readable, hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8])))
