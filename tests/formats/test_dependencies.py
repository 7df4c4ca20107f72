"""What a row depends on: every edit of it changes the hash, and no comment, docstring or layout does."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spmvbench import formats, paths
from spmvbench.advice import auto, quick
from spmvbench.errors import SpmvbenchError, UsageError
from spmvbench.formats import Call, Launch, Loop, conversion, dependencies, imports
from spmvbench.formats.conversion import EMULATED, converting_for
from spmvbench.formats.dependencies import check_sources, hash_of
from spmvbench.formats.imports import PACKAGE
from spmvbench.formats.kernels import code, headers, read
from tests.formats.rows import stub_of_cupy

INCLUDE = paths.include()
FORMATS = PACKAGE / "formats"


def edited(path: Path, old: str, new: str):
    """Reads files, this one with another text in place of a part of it."""
    assert old in read(path), f"{path} no longer has {old!r}"
    return lambda file: read(file).replace(old, new, 1) if file == path else read(file)


def hashes(keys, reader=read) -> dict[str, str]:
    return {key: hash_of(formats.get(key), reader) for key in keys}


# --- the formats of the package

SOME = ("csr-scalar", "ell", "hyb", "csr5", "tile")


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        ("launches.py", "block: int = 256", "block: int = 128", SOME),  # per_thread's default block
        ("admission.py", "FREE_SHARE = 4", "FREE_SHARE = 8", SOME),
        ("arrays.py", "INT32_MAX =", "INT32_MAX = 1 +", SOME),
        ("conversion.py", "multiprocessors=16", "multiprocessors=8", SOME),
        ("tuning.py", "times: int = 3", "times: int = 4", ("ell", "hyb")),
        ("csr/csr5.py", 'key = "csr5"', 'key = "csr-5"', ("csr5", "tile")),
        ("coo/coo.py", "Coo(", "Ooc(", ("hyb", "tile")),
        ("tile/convert.py", "COO", "OCO", ("tile",)),
    ],
)
def test_an_edit_of_a_module_changes_what_imports_it(file, old, new, changed):
    before, after = hashes(SOME), hashes(SOME, edited(FORMATS / file, old, new))
    assert {key for key in SOME if before[key] != after[key]} == set(changed)


def test_every_module_and_kernel_file_that_a_row_depends_on_counts():
    for key in ("csr-scalar", "hyb", "tile"):
        cls = formats.get(key)
        before = hash_of(cls)
        for path in dependencies.python_files(cls):
            assert hash_of(cls, lambda file, it=path: read(file) + "\nADDED = 1\n" * (file == it)) != before, path
        for path in dependencies.kernel_files(cls):
            assert hash_of(cls, lambda file, it=path: read(file) + "\nint added;\n" * (file == it)) != before, path


def test_comments_docstrings_and_layout_of_the_package_change_nothing():
    def talkative(file: Path) -> str:
        text = read(file)
        if file.suffix == ".py":
            return f'"""Another docstring."""\n# A comment.\n\n{text}\n\n"""What does nothing."""  # more\n'
        return f"// One comment.\n/* Another,\n   of two lines. */\n{text}\n\n  // The end, \\\n which goes on.\n"

    assert hashes(SOME, talkative) == hashes(SOME)
    docstring = edited(FORMATS / "launches.py", '"""Grid and block for one thread per item."""', '"""Of threads."""')
    assert hashes(SOME, docstring) == hashes(SOME)


def test_an_edit_of_a_header_changes_the_formats_that_include_it():
    before = hashes(SOME)
    after = hashes(SOME, edited(INCLUDE / "csr5.cuh", "template", "inline template"))
    assert {key for key in SOME if before[key] != after[key]} == {"csr5", "tile"}
    comment = hashes(SOME, edited(INCLUDE / "csr5.cuh", "template", "/* what follows */ template"))
    assert comment == before


def test_options_count_and_where_the_headers_are_does_not(monkeypatch):
    cls = formats.get("csr-scalar")
    before = hash_of(cls)
    options = dependencies.kernel_options()
    monkeypatch.setattr(dependencies, "kernel_options", lambda: [*options, "--use_fast_math"])
    assert hash_of(cls) != before
    assert str(INCLUDE) in " ".join(options)
    monkeypatch.setattr(paths, "include", lambda: Path("/elsewhere"))
    moved = [option.replace(str(INCLUDE), "/elsewhere") for option in options]
    monkeypatch.setattr(dependencies, "kernel_options", lambda: moved)
    monkeypatch.setattr(dependencies, "kernel_files", lambda cls, read: [])
    elsewhere = hash_of(cls)
    monkeypatch.undo()
    monkeypatch.setattr(dependencies, "kernel_files", lambda cls, read: [])
    assert hash_of(cls) == elsewhere


def test_a_model_counts_by_its_arrays_and_a_choice_by_its_candidates(monkeypatch, tmp_path):
    shipped, file = quick.chooser(), tmp_path / "auto.npz"
    monkeypatch.setattr(quick, "path", lambda: file)
    monkeypatch.setattr(quick, "chooser", quick.chooser.__wrapped__)

    def of(**changes):
        replace(shipped, **changes).save(file)
        return hash_of(auto.Auto)

    found = of()
    assert of(about={"runs": []}) == found
    assert len({found, of(threshold=shipped.threshold + 1), of(labels=(*shipped.labels[:-1], "ell"))}) == 3
    file.write_bytes(b"no model")
    with pytest.raises(SpmvbenchError, match="is no model"):
        hash_of(auto.Auto)
    file.unlink()
    with pytest.raises(UsageError, match=r"auto has the source .+, which cannot be read: No such file"):
        hash_of(auto.Auto)


@pytest.mark.parametrize("key", ["auto", "csr-scalar+auto"])
def test_kernels_of_formats_that_are_chosen_by_data_are_known(key):
    for part in formats.get("auto").candidates():
        launched = [Launch(source, "k", 1, 1, ()) for source in formats.sources(part)]
        dependencies.check_sources(formats.get(key), launched)
    assert formats.source_hash(formats.get("csr-scalar+auto")) != formats.source_hash(
        formats.get("csr-scalar+csr-lanes")
    )


def test_rooms_hold_no_code_in_their_packages_file():
    """It does not count, and need not."""
    for file in FORMATS.glob("*/__init__.py"):
        assert imports._module(read(file)).digest == imports._module("").digest, file


# --- a user's format

MODULE = '''
"""A format of one's own."""
from pathlib import Path
from spmvbench.formats import Launch
from spmvbench.formats.csr.csr import CsrArrays
import {user}_helper
from {user}_package.part import rule

class Own(CsrArrays):
    """What it stores."""
    key = "own"
    block = 128

    def launches(self, x, y):
        return [Launch(str(Path(__file__).with_name("own.cu")), "own<0>", 1, self.block, (y,))]
'''
FILES = {
    "own.py": MODULE,
    "{user}_helper.py": "def share(n):\n    '''A share.'''\n    from {user}_late import HALF\n    return n * HALF\n",
    "{user}_late.py": "HALF = 0.5\n",
    "{user}_package/__init__.py": "EACH = 4\n",
    "{user}_package/part.py": "from . import other\nfrom .other import PER\n\ndef rule(n):\n    return n // PER\n",
    "{user}_package/other.py": "PER = 8\n",
    "own.cu": '#include "own.h"\n#include <spmv.cuh>\n#define TABLE "parts/table.inc"\n#include TABLE\nint own;\n',
    "own.h": '#include "parts/deep.cuh"\nint here;\n',
    "parts/deep.cuh": '#include "beside.h"\nint deep;\n',
    "parts/beside.h": "int beside;\n",
    "parts/table.inc": "int table;\n",
    "unused.cuh": "int unused;\n",
    "unused.py": "UNUSED = 1\n",
}


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The class of a user's format, in a folder with what it needs and what it does not."""
    user = f"user_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_")  # names that no other test imports
    files = {name.format(user=user): text.replace("{user}", user) for name, text in FILES.items()}
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    formats.keys()  # the package's own modules stay
    modules = set(sys.modules)
    formats._imported(tmp_path / "own.py")
    (cls,) = (vars(sys.modules[name])["Own"] for name in set(sys.modules) - modules if "format_own" in name)
    yield cls, {name: tmp_path / name.format(user=user) for name in FILES}
    for module in set(sys.modules) - modules:
        del sys.modules[module]


@pytest.mark.parametrize("name", [name for name in FILES if "unused" not in name])
def test_an_edit_of_a_users_file_changes_the_hash(own, name):
    cls, files = own
    comment, code = ("# A comment.", "added = 1") if name.endswith(".py") else ("// A comment.", "int added;")

    def hash_with(line):
        return hash_of(cls, lambda file: f"{read(file)}\n{line}\n" if file == files[name] else read(file))

    assert hash_with(comment) == hash_of(cls) != hash_with(code)


def test_what_a_users_format_does_not_reach_does_not_count(own):
    cls, files = own
    reached = {*dependencies.python_files(cls), *dependencies.kernel_files(cls)}
    assert {files[name] for name in FILES if "unused" in name} & reached == set()
    assert {path for path in reached if not path.is_relative_to(PACKAGE)} >= {
        files[name] for name in FILES if "unused" not in name
    }
    assert not [path for path in reached if "numpy" in path.parts]


def test_a_kernel_file_may_have_the_name_of_one_of_the_packages(own, tmp_path):
    cls, files = own
    named = {"csr/csr.cu", "multivector.cu", "transposed.cu", "vector.cu"}  # what its bases name counts
    own_kernel = str(files["own.cu"])
    assert set(before := formats.sources(cls)) > {own_kernel, *named}
    files["own.py"].write_text(read(files["own.py"]).replace("own.cu", "vector.cu"))
    (tmp_path / "vector.cu").write_text("int own;")
    assert set(formats.sources(cls)) == {str(tmp_path / "vector.cu"), *before} - {own_kernel}


def test_a_class_of_no_file_is_refused():
    scope = {"CsrArrays": formats.get("csr-scalar").__mro__[1], "__name__": "typed_in"}
    exec("class Typed(CsrArrays):\n    key = 'typed'", scope)
    with pytest.raises(UsageError, match="Typed was defined in no file"):
        hash_of(scope["Typed"])


def test_a_users_file_that_is_no_longer_python_is_named(own):
    cls, files = own
    broken = lambda file: "x = (" if file == files["own.py"] else read(file)  # noqa: E731
    with pytest.raises(UsageError, match=r"own\.py cannot be read as Python: '\(' was never closed"):
        hash_of(cls, broken)


# --- launches


def launch(source):
    return Launch(source, "k<0>", 1, 1, ())


def test_a_launch_from_a_file_that_no_module_names_is_refused(own, tmp_path):
    cls, files = own
    known = [launch(str(files["own.cu"])), launch(str(tmp_path / "parts/../own.cu")), launch("vector.cu")]
    check_sources(cls, [*known, Call("v", print, ()), Loop((launch("vector.cu"),), np.zeros(1, np.int32), 9)])
    (tmp_path / "other.cu").write_text("int other;")
    other = launch(str(tmp_path / "other.cu"))
    for steps in ([*known, other], [Loop((other,), np.zeros(1, np.int32), 9)]):
        with pytest.raises(UsageError, match=r"own launches k<0> from .*other\.cu, which no text in its modules names"):
            check_sources(cls, steps)
        check_sources(cls, steps, [other.source])


def test_a_conversion_is_held_to_its_sources_too(own, monkeypatch):
    ran = []
    monkeypatch.setattr(conversion, "compiled", lambda source, _: SimpleNamespace(kernel=SimpleNamespace(ptr=source)))
    stub_of_cupy(monkeypatch, lambda *given: ran.append(given[0]))
    with converting_for(EMULATED, lambda launches: check_sources(own[0], launches)):
        conversion.run(launch("vector.cu"))
        with pytest.raises(UsageError, match=r"from csr/csr5\.cu, which no text"):
            conversion.run(launch("csr/csr5.cu"))
    conversion.run(launch("csr/csr5.cu"))
    assert ran == ["vector.cu", "csr/csr5.cu"]


@pytest.mark.parametrize("damage", ["", "5", "[1]", "{}", "0\n{}"])
def test_what_counts_of_a_module_is_kept_unless_the_file_is_damaged(tmp_path, monkeypatch, damage):
    monkeypatch.setenv("SPMVBENCH_HOME", str(tmp_path))
    read_anew = imports._module.__wrapped__
    found = read_anew('import json\nfrom . import b\nKERNEL = "a.cu"\n')
    (file,) = tmp_path.glob("modules/*.json")
    assert found.imports == ((0, "json"), (1, "b")) and found.kernels == ("a.cu",)
    (_, kept) = file.read_text().split("\n")
    other = kept.replace("a.cu", "z.cu")
    whole = f"{imports.sha256(other)}\n{other}"
    for content, kernels in ((whole, "z.cu"), (damage, "a.cu"), (whole.replace("z.cu", "y.cu"), "a.cu")):
        file.write_text(content)
        assert read_anew('import json\nfrom . import b\nKERNEL = "a.cu"\n') == found._replace(kernels=(kernels,))


# --- kernels' text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a; // b", "int a;"),
        ("int a; // b \\\n goes on\nint c;", "int a; int c;"),
        ("int/* b */a;", "int a;"),
        ("a /* 1 \n 2 */ = b;", "a = b;"),
        ("f(a,\n  b);", "f(a, b);"),
        ("f( a ) ;", "f(a);"),
        ("\n\n#define A 1 // one\n\nint b;\n", "#define A 1\nint b;"),
        ("#define A \\\n  1\nint b;", "#define A 1\nint b;"),
        ("  #define A 1 /* one\n two */\nint b;", "#define A 1\nint b;"),
        ("x = 1'000; // don't", "x = 1'000;"),
        ("x = 0xFF'FF; // it's", "x = 0xFF'FF;"),
        ("c = '\"'; // \"", "c = '\"';"),
        ("c = '\\''; // '", "c = '\\'';"),
        ('s = R"(a // b)"; // c', 's = R"(a // b)";'),
        ('s = R"x(a)" // b)x"; // c', 's = R"x(a)" // b)x";'),
    ],
)
def test_comments_and_layout_are_no_code(one, other):
    assert code(one) == code(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('s = "a // b";', 's = "a";'),
        ('s = "a /* b */";', 's = "a ";'),
        ('s = "a\\" // b";', 's = "a\\" // c";'),
        ('s = "a  b";', 's = "a b";'),
        ('s = R"(a\n\nb)";', 's = R"(a\nb)";'),
        ('s = R"(a // b)";', 's = R"(a // c)";'),
        ("c = '/'/ '/';", "c = '/';"),
        ("a + +b;", "a ++b;"),
        ("int a;", "inta;"),
        ("#define F (x)\n", "#define F(x)\n"),
        ("#define A 1\nint b;", "#define A 1 int b;"),
        ("a;\n#pragma unroll\nb;", "a; b;"),
        ("x / *p;", "x /*p;*/;"),
    ],
)
def test_code_is_kept(one, other):
    assert code(one) != code(other)


def test_headers_are_those_that_are_included(tmp_path):
    def files(**texts):
        for name, text in texts.items():
            (tmp_path / name.replace("_", ".")).write_text(text)

    files(a_cu='#include "b.h"\n// #include "c.h"\n/*\n#include "c.h"\n*/\n# include <sell.cuh>\n', c_h="", d_h="")
    files(b_h='#pragma once\n#include "d.h"\n#include "a.cu"\n#include <stdint.h>\n')
    known = [INCLUDE / name for name in ("sell.cuh", "spmv.cuh", "multivector.cuh")]
    assert headers(tmp_path / "a.cu") == [tmp_path / "b.h", known[0], tmp_path / "d.h", *known[1:]]
    with pytest.raises(FileNotFoundError):
        headers(tmp_path / "none.cu")


def test_headers_of_the_package_are_found():
    """All that is in kernels/include is included by some kernel file, which may also include another kernel file."""
    found = {header for source in paths.kernels().rglob("*.cu") for header in headers(source) if header.suffix != ".cu"}
    assert found == set(INCLUDE.glob("*"))
