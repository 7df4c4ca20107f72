"""Files that SPMVBENCH_FORMATS names: every error is reported in one sentence that names the file."""

import os

import pytest

from spmvbench import formats

FORMAT = """
from spmvbench.formats import register
from spmvbench.formats.csr.csr import CsrScalar

@register
class Mine(CsrScalar):
    key, reference, survey_name = "{key}", "none", ""
"""


@pytest.fixture
def elsewhere(tmp_path, monkeypatch, formats_of):
    """Writes files and has SPMVBENCH_FORMATS name them."""

    def name(files):
        for file, text in files.items():
            path = tmp_path / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        formats_of(*(tmp_path / file for file in files))

    monkeypatch.chdir(tmp_path)
    return name


MISTAKES = {
    "not Python": ("x = (", "'(' was never closed (line 1)"),
    "not text": (b"\xff\xfe", "codec can't decode"),
    "a NUL": ("x = 1\0", "null bytes"),
    "an exception": ("x = 1\n1 / 0", "ZeroDivisionError: division by zero (line 2)"),
    "an import": ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module' (line 1)"),
    "an end": ("import sys\nsys.exit(0)", "it ends the program (line 2)"),
    "an end in a helper": ("def f():\n    raise SystemExit\nf()", "it ends the program (line 2)"),
    "a strange exception": ("class Odd(BaseException): pass\nraise Odd('why')", "Odd: why (line 2)"),
    "recursion": ("def f(): f()\nf()", "RecursionError"),
    "one key twice": (FORMAT.format(key="mine") * 2, "ValueError: the key mine is taken by Mine of f.py (line "),
    "a key of ours": (FORMAT.format(key="ell"), "the key ell is taken by Ell of ellpack.py (line "),
    "no key": (FORMAT.format(key=""), "ValueError: Mine lacks key"),
    "no reference": (FORMAT.format(key="mine") + "    reference = ''\n", "ValueError: Mine lacks reference"),
    "a key that cannot be typed": (FORMAT.format(key="a,b[c]"), "could not be typed"),
    "a key of spaces": (FORMAT.format(key=" "), "could not be typed"),
    "a number for a key": (FORMAT.replace('"{key}"', "5"), "key of Mine must be text"),
    "devices in one text": (FORMAT.format(key="mine") + "    devices = 'cuda'\n", "must be a tuple of texts"),
    "no methods": (
        "from spmvbench.formats import Format, register\n@register\nclass Mine(Format):\n"
        "    key, family, reference = 'mine', 'CSR', 'none'\n    def launches(self, x, y): return []\n",
        "Mine lacks the methods estimate, convert, to_coo",
    ),
    "nothing registered": ("class Mine: pass", "registers no format"),
    "a parameter of no type": (
        FORMAT.format(key="mine") + "    from spmvbench.formats import Parameter\n    p = Parameter(None, 'p')\n",
        "TypeError: the default of a parameter is a truth value, a number or a text, not None",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_that_names_the_file(elsewhere, command, text, said):
    elsewhere({"f.py": text})
    for _ in range(2):  # what was registered before the mistake is forgotten again
        result = command("run", "tridiag:9", "--formats", "csr-scalar", "--device", "emulated", "--dry-run")
        assert result.code == 2
        assert result.err.count("\n") == 1 and "defect" not in result.err
        assert "f.py" in result.err and "SPMVBENCH_FORMATS" in result.err and said in result.err


@pytest.mark.parametrize(("name", "said"), [("f.txt", "must end in .py"), ("no.py", "not a file"), (".", "not a file")])
def test_what_is_no_python_file(elsewhere, command, monkeypatch, tmp_path, name, said):
    elsewhere({"f.txt": ""})
    monkeypatch.setenv("SPMVBENCH_FORMATS", str(tmp_path / name))
    result = command("formats", "ell")
    assert result.code == 2
    assert said in result.err and result.err.count("\n") == 1


def test_files_of_one_name_are_sources_of_their_own(elsewhere, tmp_path):
    elsewhere({"a/f.py": FORMAT.format(key="mine-a"), "b/f.py": FORMAT.format(key="mine-b")})
    a, b = (formats.get(key) for key in ("mine-a", "mine-b"))
    before = formats.source_hash(a), formats.source_hash(b)
    assert before[0] != before[1]
    formats.source_hash.cache_clear()
    (tmp_path / "a/f.py").write_text(FORMAT.format(key="mine-a") + "    edited = True")
    assert formats.source_hash(a) != before[0]
    assert formats.source_hash(b) == before[1]


def test_a_file_named_twice_is_read_once(elsewhere, monkeypatch):
    elsewhere({"f.py": FORMAT.format(key="mine")})
    monkeypatch.setenv("SPMVBENCH_FORMATS", os.pathsep.join(["f.py", "./f.py", os.path.abspath("f.py")]))
    assert formats.get("mine").key == "mine"
