"""The time left is of the work done, also before the first row."""

import os

import pytest

from spmvbench.cli import progress
from spmvbench.matrices import resolve
from spmvbench.runner import plan


@pytest.fixture
def groups():
    matrices, _ = resolve(["pde:4", "pde:5"])
    chosen = plan.choose_formats("ell,csr-scalar", "cuda:0")
    return plan.grouped(plan.cross(matrices, chosen, ("f64",), ("hot", "cold"), "cuda:0", 0))


def test_work_is_done_before_a_group_writes_its_rows(groups):
    first, second = groups
    work = progress.Work(rounds=2)  # a case has four steps
    work.begin(first, None, "reading the matrix")
    for modes in first.formats:
        for stage in ("converting on the device", "compiling", "checking"):
            work.begin(first, modes[0], stage)
    assert work.done == 4 / 4
    for _ in range(2):
        for modes in first.formats:
            for stage in ("timing hot", "timing cold"):
                work.begin(first, modes[0], stage)
    for part in ("gather", "multiply"):
        work.begin(first, first.formats[0][0], f"timing {part}")
    assert work.done == 4 * 3 / 4
    for case in first.cases:
        work.end(case.case_id)
    assert (work.done, work.rows) == (4, 4)
    work.begin(second, second.formats[0][0], "checking")
    assert work.done == 4 + 2 / 4
    again = second.only({case.case_id for case in second.cases})  # a worker died; another begins anew
    work.begin(again, None, "reading the matrix")
    assert work.done == 4


def test_time_left_goes_down_with_the_work(groups, capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "PLAIN_PROGRESS_SECONDS", 0)
    with progress.Progress(8, rounds=2) as shown:
        clock[0] = 6.0
        shown.on_begin(groups[0], None, "reading the matrix")
        shown.on_begin(groups[0], groups[0].formats[0][0], "checking")
        shown.on_row({"case_id": groups[0].cases[0].case_id})
    assert capsys.readouterr().err.splitlines() == [
        "0/8 cases in 0:06: synthetic/pde:4 reading the matrix",
        "0/8 cases in 0:06, about 1:30 left: synthetic/pde:4 ell",
        "1/8 cases in 0:06, about 0:32 left: synthetic/pde:4 ell",
    ]


def test_time_left_is_at_the_rate_of_the_latter_part(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "PLAIN_PROGRESS_SECONDS", 0)
    with progress.Progress(100, rounds=2) as shown:
        for seconds in [1] * 50 + [10] * 25:
            clock[0] += seconds
            shown.on_row({"case_id": "of none"})
    assert capsys.readouterr().err.splitlines()[-1] == "75/100 cases in 5:00, about 4:10 left: "


@pytest.mark.parametrize("columns", [60, 120])
def test_the_bar_and_the_time_left_have_room_beside_the_case(columns, groups, monkeypatch):
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((columns, 24)))
    shown = progress.Progress(8, rounds=2)
    text = shown._fitting("poisson2d:1000 auto[spmvs=1000000] with a long label of many letters, and more")
    bar = shown.bar.format_meter(
        4, 8, 3600, ncols=columns, prefix=text, postfix="about 120:00 left", bar_format=progress.BAR
    )
    assert len(bar) <= columns and bar.endswith("about 120:00 left]")
    assert bar.count("█") >= 2, "half of a bar that can be seen"


def test_messages_do_not_break_inside_words(monkeypatch):
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((20, 24)))
    wrapped = progress.wrapped("Error: there is no cusparse-csr-alg1 here")
    assert wrapped == "Error: there is no\ncusparse-csr-alg1\nhere"
