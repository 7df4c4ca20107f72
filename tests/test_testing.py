"""A matrix that a format refuses with a reason is a skipped test, neither failed nor passed."""

import subprocess
import sys
import unittest

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

from spmvbench import formats, testing
from spmvbench.formats.csr.csr import CsrScalar

MATRICES = {"narrow": sparse.csr_array(np.eye(3)), "wide": sparse.csr_array(np.ones((2, 9)))}

PICKY = """
from spmvbench.formats import Skip, register
from spmvbench.formats.csr.csr import CsrScalar

@register
class Picky(CsrScalar):
    key, reference, survey_name = "picky", "none", ""

    @classmethod
    def convert(cls, a, **params):
        if a.cols > 8:
            raise Skip(f"column {a.cols - 1} does not fit 3 bits")
        return super().convert(a, **params)
"""

TESTS = """
import numpy as np
import pytest
from scipy import sparse
from spmvbench import testing

@pytest.mark.parametrize("cols", [3, 9])
def test_conversion(cols):
    with testing.skipping():
        testing.check_conversion("picky", sparse.csr_array(np.ones((2, cols))))
"""


@pytest.fixture
def refusing(monkeypatch):
    """Registers a format that refuses matrices of more columns than this, with a reason."""
    formats.keys()

    def register(most, reason="it is too wide"):
        class Picky(CsrScalar):
            key = "picky"

            @classmethod
            def convert(cls, a, **params):
                if a.cols > most:
                    raise formats.Skip(reason)
                return super().convert(a, **params)

        monkeypatch.setitem(formats.registry.REGISTRY, "picky", Picky)

    return register


def check(a):
    testing.check_conversion("picky", a)


def test_a_refusal_is_a_skipped_test_with_its_reason(refusing):
    refusing(8)
    with testing.skipping():
        check(MATRICES["narrow"])
    with pytest.raises(unittest.SkipTest, match=r"^it is too wide$"), testing.skipping():
        check(MATRICES["wide"])
    with pytest.raises(formats.Skip):
        check(MATRICES["wide"])


def test_matrices_after_a_refused_one_are_checked(refusing):
    refusing(8)
    met = []

    def noted(a):
        check(a)
        met.append(a.shape)

    backwards = dict(reversed(MATRICES.items()))
    with pytest.raises(
        unittest.SkipTest, match=r"^1 of 2 matrices are refused, the others pass: wide: it is too wide$"
    ):
        testing.over(backwards, noted)
    assert met == [(3, 3)]
    refusing(9)
    assert testing.over(backwards, noted) is None


def test_a_wrong_result_fails_also_after_a_refusal(refusing):
    refusing(8)

    def wrong(a):
        check(a)
        raise AssertionError("y is off")

    with pytest.raises(AssertionError, match="y is off"):
        testing.over(MATRICES, wrong)


def test_a_format_that_refuses_everything_fails(refusing):
    refusing(0)
    with pytest.raises(AssertionError, match="every matrix is refused, so nothing was checked: narrow: it is too wide"):
        testing.over(MATRICES, check)


@pytest.mark.parametrize("reason", ["", " "])
def test_a_refusal_without_a_reason_fails(refusing, reason):
    refusing(8, reason)
    with pytest.raises(AssertionError, match="refused without a reason"), testing.skipping():
        check(MATRICES["wide"])
    with pytest.raises(AssertionError, match="refused without a reason"):
        testing.over(MATRICES, check)


@pytest.mark.slow  # a separate process
def test_the_suite_of_an_external_format_lists_refusals(tmp_path, monkeypatch):
    (tmp_path / "picky.py").write_text(PICKY)
    (tmp_path / "test_picky.py").write_text(TESTS)
    monkeypatch.setenv("SPMVBENCH_FORMATS", str(tmp_path / "picky.py"))
    run = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "test_picky.py"]
    result = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
    assert "1 passed, 1 skipped" in result.stdout
    assert "column 8 does not fit 3 bits" in result.stdout


def test_the_command_counts_what_was_right_and_what_was_not(monkeypatch):
    def checked(spec, a, device, **_):
        if a.dtype == np.float32:
            raise AssertionError("lost an entry")
        return 0.25

    monkeypatch.setattr(testing, "check_product", checked)
    result = CliRunner().invoke(testing.main, ["ell", "--device", "emulated", "--largest", "1"])
    *wrong, last = result.output.splitlines()
    count = len(wrong)
    assert count and all(line.endswith("float32: lost an entry") for line in wrong) and result.exit_code == 1
    assert last.split(maxsplit=1) == ["ell", f"{count} of {2 * count} products right, largest error 0.25 of its bound"]
