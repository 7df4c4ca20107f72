"""Two names of one program say so, and nothing that says so is another program."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from spmvbench import formats, testing
from spmvbench.devices import open_device
from spmvbench.formats import survey
from spmvbench.measure.program import program_hash
from spmvbench.reports import published
from spmvbench.reports.figures import ehyb, fastload, tilespmspv, tilespmv

DEVICE = open_device("emulated")
HARD = testing.hard_matrices()
REGISTERED = formats.keys()
# Names whose rule begins with larger matrices than the hard ones, as settings that let it begin at once.
AT_ANY_SIZE = {"tile-deferred-coo": "tile-deferred-coo[defer=0]"}


def digest(array):
    return str(array.dtype), array.shape, hashlib.sha256(np.ascontiguousarray(array)).hexdigest()


@cache
def program(spec):
    """What a format stores and runs on every hard matrix: names, parts, and what is empty do not count."""
    ((cls, _),) = formats.parse(spec)
    found = []
    for a in HARD.values():
        suited = testing.suited(cls, a)
        x, y = testing.vectors(cls, suited)
        try:
            fmt = testing.convert(spec, suited)
        except formats.Skip as skip:
            found.append(skip.reason)
            continue
        stored = sorted(digest(array) for array in fmt.arrays().values() if array.size)
        found.append((program_hash(fmt, fmt.launches(x, y), DEVICE.checksums, x, y), stored))
    return repr(found)


@pytest.mark.parametrize("key", [key for key in REGISTERED if formats.get(key).alias_of])
def test_another_name_is_the_program_that_it_says(key):
    named = formats.get(key).alias_of
    ((cls, params),) = formats.parse(named)
    assert formats.label(cls, params) == named, "as rows spell it"
    assert not cls.alias_of
    assert program(key) == program(named)


@pytest.mark.slow
def test_no_two_names_are_one_program_unless_they_say_so():
    same = defaultdict(set)
    for key in REGISTERED:
        if "emulated" in formats.get(key).devices:
            same[program(AT_ANY_SIZE.get(key, key))].add(key)
    for names in filter(lambda names: len(names) > 1, same.values()):
        programs = {formats.get(key).alias_of or key for key in names}
        assert len(programs) == 1, f"{sorted(names)} store and launch the same: all but one have to say alias_of"


def paper_tables():
    """The names of each table of a paper, with the formats that run each."""
    yield {name.title: name.keys for name in survey.names() if name.in_table2 and name.keys}
    yield {name: keys[:1] for name, keys in published.paper("survey").formats.items()}
    yield {key: (key,) for key in (*tilespmv.METHODS, *tilespmv.RIVALS)}
    yield {key: (key,) for key in (*ehyb.EHYB, *ehyb.RIVALS)}
    yield {key: (key,) for key in tilespmspv.COMPARED}
    yield {"FastLoad": fastload.FASTLOAD[1:]} | {name: keys[:1] for name, keys in fastload.RIVALS.items()}


def shared_by_names(table, identify):
    """Names of a table that share everything that runs them, as far as the emulated device has it."""
    same = defaultdict(list)
    for name, keys in table.items():
        runs = frozenset(identify(key) for key in keys if "emulated" in formats.get(key).devices)
        if runs:
            same[runs].append(name)
    return [names for names in same.values() if len(names) > 1]


@pytest.mark.parametrize("table", list(paper_tables()))
def test_no_two_names_of_a_paper_are_declared_as_one_format(table):
    assert shared_by_names(table, lambda key: formats.get(key).alias_of or key) == []


@pytest.mark.slow
@pytest.mark.parametrize("table", list(paper_tables()))
def test_no_two_names_of_a_paper_share_all_programs(table):
    assert shared_by_names(table, lambda key: program(AT_ANY_SIZE.get(key, key))) == []


def test_a_different_program_is_distinguished():
    assert program("ell") != program("ell-r")
    assert program("csr-rg") != program("csr-jsr")
    assert program("csr-rg[repeat=1]") == program("csr-jsr")
