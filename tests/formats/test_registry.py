"""Keys, parameters, names of the survey, and the hash that says which sources a row was measured with."""

from __future__ import annotations

import fnmatch
import importlib
import inspect
import re

import pytest

from spmvbench import formats
from spmvbench.errors import UsageError
from spmvbench.formats import Parameter, descriptions, recent, survey
from spmvbench.publishing import format_pages

# What is still to come may only get fewer: lower this with every key that is built.
TO_COME = 0


def specs(text):
    return [formats.label(cls, params) for cls, params in formats.parse(text)]


def test_lists_keep_order_and_drop_repeats():
    assert specs("hyb, ell[threads=2],hyb,ell[threads=1],ell") == ["hyb", "ell[threads=2]", "ell"]


def test_globs_and_all():
    assert specs("coo-*") == ["coo-atomic", "coo-flat", "coo-load-balance", "coo-scan"]
    assert specs("all") == [key for key in formats.keys() if formats.get(key).op == "spmv"]  # noqa: SIM118


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("CSR5", ["csr5"]),
        ("CSR5 [67][sigma=4]", ["csr5[sigma=4]"]),
        ("csr optimization [36], HLL", ["csr-elzein", "hll"]),
        ("dia", ["dia"]),
        ("DIA", ["dia", "hdi"]),
        ("Jad", ["jad", "jds-enh", "pjds"]),
        ("Csr-Scalar", ["csr-scalar"]),
        ("COO-*", ["coo-atomic", "coo-flat"]),
    ],
)
def test_names_of_the_survey_and_families_mean_their_keys_whatever_the_case(text, keys):
    assert set(specs(text)) >= set(keys)  # a family grows
    assert specs(text)[: len(keys)] == keys or len(keys) > 1


def test_parameters_choose_among_the_keys_of_a_word():
    assert specs("csr5*[kernel=paper]") == ["csr5[kernel=paper]"]
    assert {"csr5[kernel=paper]", "ehyb[kernel=paper]"} <= set(specs("all[kernel=paper]"))
    assert specs("hyb-c*[rule=max]") == ["hyb-cusp[rule=max]"]
    with pytest.raises(UsageError, match=r"^no format of 'ell-\*' takes \[kernel=paper\]$"):
        formats.parse("ell-*[kernel=paper]")


def test_a_minus_removes_keys_from_what_precedes_it():
    assert specs("csr5,csr5[kernel=paper],coo-flat,-csr5") == ["coo-flat"]
    assert specs("csr5,csr5[kernel=paper],-csr5[kernel=paper]") == ["csr5"]
    assert specs("-csr5,csr5") == ["csr5"]
    assert set(specs("all")) - set(specs("all,-ehyb*,-hyb")) == {*specs("ehyb*"), "hyb"}
    with pytest.raises(UsageError, match="no format 'ehyv'; did you mean ehyb"):
        formats.parse("all,-ehyv")


def test_several_parameters_in_one_bracket():
    ((cls, params),) = formats.parse("hyb[rule=cusp,breakeven=10]")
    assert (cls.key, params) == ("hyb", {"rule": "cusp", "breakeven": 10, "relative_speed": 3.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SMAT", "SMAT is not built: chooses among formats; no storage of its own"),
        ("csr-vectr", "no format 'csr-vectr'; did you mean csr-vector"),
        ("ell[threads=3]", "threads takes 1, 2, 4, 8, 16, 32, not '3'"),
        ("ell[threads=two]", "threads takes"),
        ("ell[thread=2]", "no parameter thread; did you mean threads"),
        ("ell[threads]", "write name=value"),
        ("ell[threads=2,threads=4]", "gives threads twice"),
        ("ell[threads=2", "cannot read"),
        ("xyz*", "no format matches"),
        ("hyb[relative_speed=0.5]", "1.0 <= float"),
        ("coo-atomic[x=1]", "it takes none"),
    ],
)
def test_mistakes_are_reported_in_one_sentence(text, message):
    with pytest.raises(UsageError, match=message.replace("[", r"\[")) as error:
        formats.parse(text)
    assert error.value.exit_code == 2


def test_parameters_parse_text_and_numbers():
    flag = Parameter(False, "a flag")
    assert (flag.check("true"), flag.check("0"), flag.check(True)) == (True, False, True)
    bounded = Parameter(8, "a count", low=1, high=9)
    assert bounded.check("9") == 9
    assert bounded.range == "1 <= int <= 9"
    for bad in ("10", 0, 2.5, None):
        with pytest.raises(UsageError):
            bounded.check(bad)


@pytest.mark.parametrize("names", [survey.names, recent.names])
def test_every_key_of_the_tables_exists_or_is_still_to_come(names):
    built = {key for name in names() for key in name.keys}
    to_come = {key for name in names() for key in name.to_come}
    assert built - set(formats.keys()) == set(), "no format has these keys of names.csv"
    assert to_come & set(formats.keys()) == set(), "built: move these from to_come to keys in names.csv"
    assert len(to_come) <= TO_COME


def test_survey_names_of_formats_are_names_of_the_table_that_list_them():
    for cls in map(formats.get, formats.keys()):
        listed = [name for name in survey.names() if cls.key in name.keys]
        allowed = [name.title for name in listed if name.in_table2] or [name.title for name in listed] or [""]
        assert cls.survey_name in allowed, cls.key


def test_every_name_can_be_typed_and_says_what_runs_or_why_nothing_does():
    assert survey.count()[1] == 75
    for name in survey.names():
        assert "," not in name.name
        assert bool(name.keys) or bool(name.why_not), name.title
        assert not (name.reason and (name.keys or name.to_come)), name.title
        assert name.called(name.title.lower())
        assert bool(name.issues) == name.in_table2 and (name.in_table2 or not name.available)
    titles = [name.title for name in survey.names()]
    assert len(set(titles)) == len(titles)
    assert sum(name.available for name in survey.names()) == 24


def test_every_name_says_what_was_read_of_it():
    for name in survey.names():
        assert name.confidence in survey.CONFIDENCE, name.title
        assert name.keys or name.confidence == survey.CONFIDENCE[-1], f"{name.title}: nothing of it is built"
        for cls in map(formats.get, name.keys):
            if "of Filippone et al. 2017" in cls.reference or "as Filippone et al. 2017 describe it" in cls.reference:
                assert name.confidence == "survey's sentence alone", cls.key
            if "The paper was not available" in " ".join((cls.__doc__ or "").split()):
                assert name.confidence not in ("authors' code", "paper"), cls.key
    assert survey.confidence("bin-bcsr") == survey.confidence("csc-vector") == "survey's sentence alone"
    assert (survey.confidence("cmrs"), survey.confidence("csr5")) == ("abstract", "authors' code")
    assert survey.confidence("merge-csr") == ""


def test_every_name_that_runs_says_what_its_paper_adds():
    for name in survey.names():
        assert bool(name.contribution) == bool(name.keys), name.title
        assert name.keys or not name.lacks, name.title
        assert format_pages.grade(name) in ("A", "B", "C") or not name.keys
    assert survey.lacks("bellpack").startswith("the model of the run time")
    assert survey.lacks("csr-vector") == survey.lacks("merge-csr") == ""


def test_grades_follow_what_is_missing_what_was_read_and_what_docstrings_say():
    by_title = {name.title: format_pages.grade(name) for name in survey.names() if name.keys}
    assert by_title["CSR5"] == "A"
    assert by_title["CMRS"] == "B", "only the abstract was read"
    assert by_title["SELL-C-sigma"] == "B", "the authors' code was read, and the defaults are our reading"
    assert by_title["ACSR"] == "B", "the survey's sentence alone"
    assert set(by_title.values()) == {"A", "B", "C"}
    lines = format_pages.grades().splitlines()
    (acsr,) = (line for line in lines if line.startswith("| ACSR "))
    assert "`formats/csr/bins.py`" in acsr and "5 entries are our reading." in acsr
    (crsd,) = (line for line in lines if line.startswith("| CRSD "))
    assert "`crsd[kernel=paper]`" in crsd


def test_sentences_that_say_our_reading_are_found_whole():
    assert descriptions.readings(formats.get("csr-yt"))[0] == "Rounding up to a power of two is our reading."
    assert descriptions.readings(formats.get("sic"))[0].startswith("Our reading: the survey gives no sizes")
    assert descriptions.readings(formats.get("csr5")) == []


def test_all_with_the_papers_kernel_reaches_every_key_that_this_project_tuned():
    tuned = {"csr-line-enhance", "csr-load-balance", "fastload", "tile-bfs", "sell-c-sigma", "hdc", "crsd"}
    found = {cls.key for cls, _ in formats.parse("all[kernel=paper]")} | {
        cls.key for cls, _ in formats.parse("tile-bfs[kernel=paper]")
    }
    assert tuned <= found
    for key in tuned:
        cls = formats.get(key)
        assert cls.runs_project_kernel(cls.resolve({}))
        assert not cls.runs_project_kernel(cls.resolve({"kernel": "paper"}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("csr", "csr means the family CSR, {} formats; plain CSR is csr-scalar or csr-vector"),
        ("-DIA", "DIA means the family DIA, {} formats; plain DIA is dia"),
        ("hybrid", "hybrid means the family Hybrid, {} formats"),
    ],
)
def test_a_word_that_is_a_family_is_explained(text, said):
    family = said.split(",")[0].split()[-1]
    of = [formats.get(key) for key in formats.find(family)]
    count = sum(cls.op == "spmv" for cls in of)
    assert formats.meanings(f"hll,{text},csr-*") == [said.format(count)]


def test_parameters_count_those_of_a_family_that_take_them():
    assert formats.meanings("csr[kernel=paper]")[0].startswith("csr means the family CSR, ")
    assert len(specs("csr[kernel=paper]")) < len(specs("csr"))
    assert f" {len(specs('csr[kernel=paper]'))} format" in formats.meanings("csr[kernel=paper]")[0]
    assert formats.meanings("ell,dia,CSR optimization [13],hll [10],all,coo-*") == []
    with pytest.raises(UsageError, match=r"no format of 'csr' takes \[nothing=1\]"):
        formats.meanings("csr[nothing=1]")


@pytest.mark.parametrize("value", ["9" * 400, "9" * 5000, 10**400, 2**63, "inf", "-inf", "nan", float("nan"), "1e400"])
@pytest.mark.parametrize("default", [1, 1.0])
def test_a_parameter_is_a_number_that_a_row_and_a_kernel_can_hold(default, value):
    with pytest.raises(UsageError, match=r"takes (int|float), not .{1,60}$"):
        Parameter(default, "a number").check(value)


ROOMS = sorted({cls.__module__.rpartition(".")[0] for cls in map(formats.get, formats.keys())})


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_names_its_keys(room):
    doc = inspect.getdoc(importlib.import_module(room))
    here = {key for key in formats.keys() if formats.get(key).__module__.startswith(f"{room}.")}  # noqa: SIM118
    named = {pattern: set(fnmatch.filter(here, pattern)) for pattern in re.findall(r"`([^`]+)`", doc)}
    assert here - set().union(*named.values()) == set()
    assert [pattern for pattern, found in named.items() if not found] == []
    assert len(doc.splitlines()) <= 8
