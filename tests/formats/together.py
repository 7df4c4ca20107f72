"""An emulated device that compiles at once what the tests of a file ask for, one kernel file after another."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from spmvbench import formats, paths
from spmvbench.devices.base import DeviceFault
from spmvbench.devices.emulated import Emulated
from spmvbench.devices.emulation import build
from spmvbench.formats import kernel_path, single_steps
from tests.formats.representatives import DECIDING, EMULATED
from tests.kept import contents, keep


@cache
def sources() -> dict[str, list[str]]:
    """The kernel files that each format may launch: finding them reads hundreds of modules, for each format anew."""
    files = (path.relative_to(paths.kernels()).as_posix() for path in sorted(paths.kernels().rglob("*.cu")))
    return keep("sources", (*DECIDING, *files), lambda: {key: formats.sources(formats.get(key)) for key in EMULATED})


class Together(Emulated):
    """Compiles with the first instantiation of a file that is missing all that tests ask for of that file.

    One by one they would take more than twice the time. instantiated: gives the kernels of a key's tests. keys: those
    with tests.
    """

    def __init__(self, instantiated: Callable[[str], list[list[str]]], keys: Iterable[str]):
        super().__init__()
        self._instantiated, self._keys = instantiated, sorted(keys)
        # Every format's: finding out who launches what would take longer than compiling it.
        self._seen = {"vector.cu"}

    def compile(self, launches):
        for launch in single_steps(launches):
            kernel = (launch.source, launch.kernel)
            if launch.source not in self._seen and self._lacks(*kernel):
                self._seen.add(launch.source)
                users = [key for key in self._keys if launch.source in sources()[key]]
                with suppress(DeviceFault):  # where one does not compile, the others are compiled one by one
                    self.precompile(
                        (source, expression)
                        for key in users
                        for source, expression in self._instantiated(key)
                        if source == launch.source
                    )
        return super().compile(launches)

    def _lacks(self, source: str, expression: str) -> bool:
        found = build.cached_at(kernel_path(source), [expression], self.check)
        return (source, expression) not in self._made and not found[expression].exists()


def together(
    request: pytest.FixtureRequest,
    file: str,
    instantiated: Callable[[str, bool], Iterable[tuple[str, str]]],
    keys: Collection[str],
    slow_keys: Collection[str],
) -> Together:
    """The device of a file of tests.

    instantiated: the source and the expression of every kernel that the tests of a key ask for, without and with slow
    tests. keys, slow_keys: those with tests, without and with slow tests.
    """
    slow = any(item.path == Path(file) and item.get_closest_marker("slow") for item in request.session.items)
    texts = (*DECIDING, contents([Path(file)]), f"{slow=}")

    @cache
    def kernels(key):
        return keep(Path(file).stem, (*texts, key), lambda: sorted(set(instantiated(key, slow))))

    return Together(kernels, slow_keys if slow else keys)
