"""Programs that can only be started, as formats: ``./mine A.mtx x.bin y.bin --repeat N``, which time themselves.

A.mtx is the matrix (Matrix Market, indices from 1), x.bin holds x as doubles, and the program writes y as doubles to
y.bin. It prints a line ``spmv SECONDS`` for each product, and may print ``convert SECONDS`` and ``bytes N``, what it
stores. Its y is verified as every other; its times are what it says, and tables never rank them.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from spmvbench.errors import UsageError
from spmvbench.formats import Csr, Format, Skip, register
from spmvbench.formats.arrays import Array, ArrayModule, array_module, on_host
from spmvbench.formats.conversion import untimed
from spmvbench.formats.registry import REGISTRY
from spmvbench.programs.base import Program

REPEAT = 20  # products that a program times when it is started
KEPT = 1000  # times
_LINE = re.compile(r"^(spmv|convert|bytes)\s+(\d[\d.]*(?:e[+-]?\d+)?)\s*$", re.MULTILINE | re.IGNORECASE)


def load(path: Path) -> type[Format]:
    """The format of a program, registered under the name of its file. Raises UsageError if it cannot be started."""
    if not os.access(path, os.X_OK):
        raise UsageError(f"{path} is neither a library (.so), nor a Python file (.py), nor executable (chmod +x)")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    known = REGISTRY.get(path.stem)
    if known is not None and issubclass(known, SelfTimed) and known.path == path:
        if known.digest == digest:
            return known
        del REGISTRY[path.stem]  # it was built again
    about = {"key": path.stem, "reference": f"the program {path.name}", "path": path, "digest": digest}
    about |= {"__doc__": f"The program {path.name}, which times itself.", "__module__": __name__}
    try:
        return register(type("SelfTimedProgram", (SelfTimed,), about))
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}") from None


class SelfTimed(Program):
    """A program that is started, as a format. path: its file. digest: SHA-256 of that."""

    path: ClassVar[Path] = Path()
    digest: ClassVar[str] = ""
    experiment = True
    returns_y = True

    @classmethod
    def data_digest(cls) -> str:
        """What rows depend on beyond this package's modules."""
        return cls.digest

    @classmethod
    def description(cls) -> dict[str, Any]:
        return super().description() | {"file": cls.path.name, "fingerprint": cls.digest}

    @classmethod
    def files(cls) -> list[Path]:
        return [cls.path]

    @classmethod
    def convert(cls, a: Csr, *_: Any, **params: Any) -> dict[str, Any]:
        if a.values.dtype != np.float64 or (a.vectors is not None and a.vectors != np.float64):
            raise Skip(f"{cls.key} is started with vectors of double precision")
        with untimed():  # the program reads and converts the file itself
            matrix = StartedMatrix(cls.path, a)
        return {"matrix": matrix, "taken": 0, "dtype": a.values.dtype, "home": array_module(a.values)}

    @property
    def setup_seconds(self) -> float:
        return float(self.matrix.said.get("convert", 0.0))

    @property
    def own_times(self) -> list[float]:
        return list(self.matrix.times)

    @property
    def detail(self) -> dict[str, Any]:
        return {"bytes_said": self.matrix.nbytes()}


class StartedMatrix:
    """A matrix in a file, which a program reads for each product. times: seconds that it printed. said: the rest."""

    def __init__(self, path: Path, a: Csr):
        from scipy import io, sparse

        self._path, self._rows, self._home = path, a.rows, array_module(a.values)
        self._folder = tempfile.TemporaryDirectory(prefix="spmvbench-")
        self.times: list[float] = []
        self.said: dict[str, float] = {}
        here = a.on(np)
        matrix = sparse.csr_array((here.values, here.col_idx, here.row_ptr), shape=a.shape)
        io.mmwrite(self._file("A.mtx"), matrix, precision=17, symmetry="general")

    def _file(self, name: str) -> Path:
        return Path(self._folder.name) / name

    def multiply(self, x: Array, _y: Array, _stream: int) -> Array:
        """Start the program, and return its y. Raises RuntimeError with its last words if it fails."""
        home: ArrayModule = self._home
        on_host(x).tofile(self._file("x.bin"))
        files = [str(self._file(name)) for name in ("A.mtx", "x.bin", "y.bin")]
        self._file("y.bin").unlink(missing_ok=True)
        command = [str(self._path), *files, "--repeat", str(REPEAT)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
        if done.returncode or not self._file("y.bin").is_file():
            words = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
            raise RuntimeError(f"{self._path.name} ended with {done.returncode} and wrote no y: {words}")
        found = np.fromfile(self._file("y.bin"))
        if found.shape != (self._rows,):
            raise RuntimeError(f"{self._path.name} wrote {len(found):,} doubles as y, not {self._rows:,}")
        for name, number in _LINE.findall(done.stdout):
            if name.lower() == "spmv":
                self.times.append(float(number))
            else:
                self.said[name.lower()] = float(number)
        del self.times[:-KEPT]
        y: Array = home.asarray(found)
        return y

    def multiply_transposed(self, x: Array, y: Array, stream: int) -> Array:
        """No program that is started does that. Raises Skip."""
        raise Skip("a program that times itself is started for y = A x alone")

    update = None  # it is started with a matrix, and keeps nothing

    def decode(self) -> tuple[Array, Array, Array]:
        """The program keeps what it stores. Raises NotImplementedError."""
        raise NotImplementedError("a program that times itself does not give its entries back")

    def nbytes(self) -> int:
        """What it says that it stores; 0 if it does not say."""
        return int(self.said.get("bytes", 0))
