import dataclasses

import numpy as np

from spmvbench import formats
from spmvbench.matrices import Matrix
from spmvbench.measure.cases import DTYPES
from spmvbench.measure.row import known_columns
from spmvbench.runner import plan
from tests.made import Made


def cross(device="emulated", text="csr-scalar,ell,ell[threads=2]", modes=("hot",), dtypes=("f64",), names="ab", seed=0):
    return plan.cross([Made(name=name) for name in names], formats.parse(text), dtypes, modes, device, seed)


def test_the_cross_has_every_combination_once():
    cases = cross("cuda:0", modes=("hot", "cold"), dtypes=("f64", "f32"))
    assert len(cases) == 2 * 3 * 2 * 2
    assert len({case.case_id for case in cases}) == len(cases)
    assert not any(case.refusal for case in cases)


def test_case_ids_are_stable_and_unique():
    (case,) = cross(text="ell[threads=2]", names="a")
    # If this value changes, every existing run is measured again.
    assert case.case_id == "272ab7a1c16062ab"
    others = [
        *cross(text="ell", names="a"),
        *cross(text="ell[threads=2]", names="b"),
        *cross(text="ell[threads=2]", names="a", seed=1),
        *cross(text="ell[threads=2]", names="a", dtypes=("f32",)),
        *cross(text="ell[threads=2]", names="a", device="emulated-check"),
        *cross(text="ell[threads=2]", names="a", device="cuda:0"),
        dataclasses.replace(case, mode="cold"),
    ]
    assert case.case_id not in {other.case_id for other in others}
    (on_another_gpu,) = cross("cuda:1", text="ell", names="a")
    assert on_another_gpu.case_id == cross("cuda:0", text="ell", names="a")[0].case_id


def test_formats_without_a_list_are_those_of_the_device():
    keys = {cls.key for cls, _ in plan.choose_formats(None, "emulated")}
    assert "csr-scalar" in keys
    assert not any(key.startswith("cusparse") for key in keys)
    spmv = {key for key in formats.keys() if formats.get(key).op == "spmv"}  # noqa: SIM118 - a function of the module
    assert {cls.key for cls, _ in plan.choose_formats(None, "cuda:3")} == spmv


def test_impossible_cases_are_planned_with_a_refusal():
    cases = cross(text="cusparse-csr-alg1,ell", modes=("hot", "cold"), names="a")
    assert [bool(case.refusal) for case in cases] == [True, True, False, True]
    assert "cuda only" in cases[0].refusal
    assert "flush" in cases[3].refusal


def test_pending_omits_cases_measured_from_the_same_sources():
    cases = cross()
    measured = {case.case_id: case.source_hash for case in cases[:4]}
    measured[cases[2].case_id] = "other sources"
    assert plan.pending(cases, measured) == [cases[2], *cases[4:]]


def test_groups_share_matrix_and_type_and_keep_modes_together():
    cases = cross("cuda:0", modes=("hot", "cold"), dtypes=("f64", "f32"))
    groups = plan.grouped(cases)
    names = [f"{group.matrix.name} {group.dtype}" for group in groups]
    assert names == ["a f64", "a f32", "b f64", "b f32"]
    assert [[case.mode for case in modes] for modes in groups[0].formats] == [["hot", "cold"]] * 3
    assert [case for group in groups for case in group.cases] == cases


def test_a_group_can_be_reduced_to_some_cases():
    (group,) = plan.grouped(cross("cuda:0", modes=("hot", "cold"), names="a"))
    left = group.only([group.formats[0][1].case_id, *(case.case_id for case in group.formats[2])])
    assert [[case.mode for case in modes] for modes in left.formats] == [["cold"], ["hot", "cold"]]
    assert group.only([]).formats == ()


def test_columns_and_identity_of_a_case_come_from_its_matrix_and_format():
    (case,) = cross(text="ell[threads=2]", names="a", dtypes=("f32",))
    expected = {
        "label": "ell[threads=2]", "family": "ELLPACK", "params": '{"threads": 2}', "group": "G", "name": "a",
        "kind": "test", "dtype": "f32", "op": "spmv", "mode": "hot", "file_sha256": "",
    }  # fmt: skip
    assert expected.items() <= known_columns(case).items()
    assert DTYPES["f32"] == np.float32
    edited = [
        dataclasses.replace(case, matrix=Matrix("G", "a", "test", "test", file_sha256=sha)) for sha in ("ab", "cd")
    ]
    assert len({each.case_id for each in (case, *edited)}) == 3 and known_columns(edited[1])["file_sha256"] == "cd"
    found = [known_columns(case) for case in cross(text="csr5,csr5[kernel=paper],ell,two-phase", names="a")]
    assert [row["project_kernel"] for row in found] == [True, False, False, False]
    assert [row["experiment"] for row in found] == [False, False, False, True]
