"""What a run measures, and how: one request, whether the command line, `spmvbench.run` or an A/B comparison asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spmvbench import formats as known_formats
from spmvbench import orders as known_orders
from spmvbench import paths
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Format
from spmvbench.formats.determinism import repeats
from spmvbench.matrices import Matrix
from spmvbench.matrices.lookup import require_readable
from spmvbench.matrices.selection import Notify, Selection
from spmvbench.matrices.suitesparse import is_known
from spmvbench.measure import operations
from spmvbench.measure.cases import DEFAULT_MODES, Case, Settings, device_kind
from spmvbench.measure.timing import MODES
from spmvbench.orders import NATURAL
from spmvbench.programs.using import use
from spmvbench.rows import store
from spmvbench.runner import arguments, plan, session

if TYPE_CHECKING:
    import pandas as pd


def _orders(given: Any) -> tuple[str, ...]:
    found = arguments.words(given)
    known_orders.check(found)
    return found


# How a field is read from what was given. Each raises UsageError; other fields are taken as they are.
READERS: dict[str, Callable[[Any], Any]] = {
    "formats": lambda given: given if isinstance(given, str) else ",".join(given),
    "ops": lambda given: tuple(operations.parse(given.split(",") if isinstance(given, str) else given)),
    "orders": _orders,
    "dtypes": lambda given: arguments.words(given, arguments.DTYPES),
    "values": lambda given: arguments.words(given, arguments.VALUES),
    "vectors": lambda given: arguments.words(given, arguments.DTYPES),
    "modes": lambda given: arguments.words(given, MODES),
    "run": store.name_of,
    "results": Path,
    "budget": arguments.seconds,
    "energy": arguments.seconds,
    "timeout": arguments.seconds,
    "max_bytes": arguments.size,
    "programs": lambda given: tuple(use([str(given)] if isinstance(given, str | Path) else list(map(str, given)))),
    "seed": arguments.seed,
    "convert": lambda given: arguments.word(given, arguments.CONVERT),
}


@dataclass(frozen=True)
class RunRequest:
    """Matrices, formats, operations, types and modes of a run, its device, its settings and its folder.

    `of` makes one from what a user gave. formats: a list as `formats.parse` takes it; None: all that the device can
    run, or one per storage idea on the emulated device, where all take minutes. programs: labels of programs that are
    measured beside the formats, as `programs.using.use` gives them. ops: names of operations; empty: those that the
    formats run. dtypes, values, vectors: see `arguments.precisions`. modes: None: all of the device. device: its name,
    not ``auto``. run: the name of the folder under `results`. budget to max_bytes, update, real_part and convert: see
    `Settings`. seed: of x and of generated values. deterministic: leave out formats that are known to give other bits
    in products with the same x. retry: measure failed cases again. fresh: measure every case again.
    """

    selection: Selection
    run: str
    device: str
    formats: str | None = None
    programs: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    orders: tuple[str, ...] = (NATURAL,)
    dtypes: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    vectors: tuple[str, ...] | None = None
    modes: tuple[str, ...] | None = None
    results: Path = Path("results")
    budget: float | None = None
    energy: float = 0.0
    update: bool = False
    timeout: float | None = None
    max_bytes: int | None = None
    seed: int = 0
    convert: str = "both"
    real_part: bool = False
    deterministic: bool = False
    retry: bool = False
    fresh: bool = False

    @classmethod
    def of(cls, **given: Any) -> RunRequest:
        """The request with these fields; None takes the default. Raises UsageError for wrong values and formats."""
        read = {name: READERS.get(name, lambda same: same)(value) for name, value in given.items() if value is not None}
        request = cls(**read)
        if request.convert == "device" and device_kind(request.device) != "cuda":
            raise UsageError(f"--convert device needs a GPU: for {request.device} the host converts")
        if not request.selection:
            raise UsageError("nothing to run: name matrices (HB/1138_bus, pde:16, a file), a --group, or --set demo")
        if not request.chosen_formats():
            raise UsageError("--formats names no format: see spmvbench formats")
        request.precisions()
        return request

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.results / self.run

    @property
    def has_default_formats(self) -> bool:
        """Whether the formats are those of the emulated device's default."""
        dense = {operations.get(op).key for op in self.ops} <= {Format.op}  # few formats run the other operations
        return self.formats is None and dense and device_kind(self.device) == "emulated"

    def chosen_formats(self) -> list[tuple[type[Format], dict[str, Any]]]:
        """The formats with their parameters. Raises UsageError."""
        chosen = self.formats
        if self.has_default_formats:  # all take minutes without a GPU: one per storage idea
            chosen = ",".join((paths.configs() / "formats.txt").read_text(encoding="ascii").split())
        if self.programs and chosen is not None:
            chosen = ",".join((chosen, *self.programs))
        return plan.choose_formats(chosen, self.device, self.ops)

    def precisions(self) -> tuple[str, ...]:
        """The types of the cases. Raises UsageError."""
        return arguments.precisions(self.dtypes, self.values, self.vectors)

    def settings(self) -> Settings:
        """The settings of the measuring process."""
        return Settings(
            self.device,
            self.max_bytes,
            self.budget,
            self.timeout,
            self.real_part,
            self.convert,
            energy=self.energy,
            update=self.update,
        )

    def find(self, notify: Notify, *, dry_run: bool = False, unasked: bool = False) -> list[Matrix]:
        """The matrices, as `Selection.find`; one of them can be read, unless it is a dry run."""
        _require_no_list(self.selection.matrices)
        found = self.selection.find(self.seed, notify, dry_run=dry_run, unasked=unasked)
        if not dry_run:
            require_readable(found, self.seed, "real" if self.real_part else "refuse")
        return found

    def cases(self, matrices: Sequence[Matrix]) -> list[Case]:
        """The cases of these matrices. Raises UsageError if `update` is asked for and no case can tell its time, and if
        `deterministic` leaves none.
        """
        modes = self.modes or DEFAULT_MODES[device_kind(self.device)]
        chosen, types = self.chosen_formats(), self.precisions()
        found = plan.cross(matrices, chosen, types, modes, self.device, self.seed, self.ops, self.orders)
        if self.update and found and not any((case.op, case.mode) == (Format.op, "hot") for case in found):
            raise UsageError(f"--update times new values in hot cases of {Format.op}: this run has none")
        if self.deterministic and found:
            varying = self._varying(found)
            kept = [case for case in found if (case.label, case.op) not in varying]
            if not kept:
                raise UsageError("--deterministic leaves no format: all that are named are known to give other bits")
            return kept
        return found

    def left_out(self, matrices: Sequence[Matrix]) -> list[str]:
        """The formats that `deterministic` leaves out, each with its operation unless that is y = A x."""
        found = replace(self, deterministic=False).cases(matrices[:1]) if self.deterministic else []
        return sorted(label if op == Format.op else f"{label} {op}" for label, op in self._varying(found))

    @staticmethod
    def _varying(cases: Sequence[Case]) -> set[tuple[str, str]]:
        """Labels and operations of the cases that are known to give other bits in products with the same x."""
        return {(label, op) for label, op in {(case.label, case.op) for case in cases} if repeats(label, op) is False}

    def pending(self, folder: Path, cases: Sequence[Case]) -> list[Case]:
        """The cases without a valid row in a folder; with `retry` also those that failed, with `fresh` all."""
        if self.fresh:
            return list(cases)
        return session.pending(folder, cases, self.settings(), settled=self.retry)


def rows_of(folder: Path, cases: Sequence[Case]) -> tuple[pd.DataFrame, str]:
    """The rows of measured cases, as `store.load_run`, and a sentence on mixed rows of the folder, or an empty text.

    Raises SpmvbenchError if a row is missing.
    """
    rows, wanted = store.load_run(folder), {case.case_id for case in cases}
    mixture = store.mixed(rows)
    rows = rows[rows["case_id"].isin(wanted)]
    if gone := len(wanted) - len(rows):
        raise SpmvbenchError(
            f"{gone} of {len(wanted)} rows are missing in {folder}: the same command measures them again"
        )
    return rows, mixture


def _require_no_list(names: Sequence[str]) -> None:
    """Raise UsageError for words of another option: lists take commas, and after a blank a matrix is read."""
    lists = {
        "--formats": known_formats.keys(),
        "--dtype": arguments.VALUES,
        "--mode": MODES,
        "--order": known_orders.names(),
    }
    for name in names:
        for option, words in lists.items():
            if name in words and not is_known(name):
                raise UsageError(
                    f"{name} is no matrix but a word of {option}: write its list with commas, {option} A,{name}"
                )
