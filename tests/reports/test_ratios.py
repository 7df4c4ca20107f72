"""Every format on every matrix: what a cell says, who stands where, and that all of it can be read."""

import math

import pandas as pd
import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.analysis.ranking import ratios
from spmvbench.reports import figures, style
from spmvbench.reports.figures.ratios import _on, _two_digits
from tests.made import row as made

(FIGURE,) = figures.choose(["ratios"])
OPTIONS = figures.Options(None, {})
MATRICES = (
    "band:1048576:24:2000",
    "denserow:1000000",
    "fem:40:3",
    "fem:60:3",
    "pde:100",
    "pde:200",
    "rmat:20:16",
    "u:9",
)


def row(label, matrix, time, family="CSR", status="ok", **more):
    right = {"gflops": 1 / time} if status == "ok" else {}
    known = {"case_id": f"{label} {matrix}", "matrix_sha256": matrix, "family": family, "device_name": "a GPU"}
    return made(matrix, label, time) | known | {"status": status, "started_at": ""} | right | more


@pytest.fixture(scope="module")
def few():
    """Two families and a label whose row on b is older than the column; ell is the best on a, csr on b."""
    return latest_cases(
        pd.DataFrame(
            [
                row("ell", "a", 1.0, "ELLPACK"),
                row("ell", "b", 4.0, ""),
                row("sell", "a", 1.2, "ELLPACK", project_kernel=True),
                row("sell", "b", 1.1, "ELLPACK", project_kernel=True),
                row("csr", "a", 30.0),
                row("csr", "b", 1.0),
                row("csr-broken", "a", 0, status="wrong"),
                row("csr-broken", "b", 0, status="crashed"),
                row("dia", "a", 0, "DIA", status="skipped"),
                row("same", "a", 1.0, "ELLPACK", alias_of="ell"),
                row("trial", "a", 0.1, experiment=True),
                row("csr", "unread", 0, status="skipped", matrix_sha256=""),
            ]
        )
    )


def drawn(rows):
    """The figure of these rows, drawn."""
    with style.theme():
        picture = FIGURE.draw(FIGURE.data(rows, OPTIONS), OPTIONS)
        picture.draw_without_rendering()
    return picture


def panels_of(picture):
    return [ax for ax in picture.axes if ax.get_label() != "<colorbar>"]


def texts_of(ticks):
    return [tick.get_text() for tick in ticks]


def test_families_follow_their_best_and_labels_their_standing(few):
    table = ratios(few)
    assert list(dict.fromkeys(zip(table["family"], table["label"], strict=True))) == [
        ("ELLPACK", "sell"), ("ELLPACK", "ell"), ("CSR", "csr"), ("CSR", "csr-broken"), ("DIA", "dia"),
    ]  # fmt: skip


def test_ratio_is_that_to_the_best_right_row(few):
    cells = ratios(few).set_index(["label", "matrix"])["ratio"]
    assert cells["ell", "G/a"] == 1 and cells["csr", "G/a"] == 30 and cells["sell", "G/b"] == pytest.approx(1.1)
    assert cells[["csr-broken", "dia"]].isna().all() and cells.notna().sum() == 6


def test_cells_show_two_digits_or_what_became_of_the_case(few):
    (panel,) = panels_of(drawn(few))
    assert texts_of(panel.get_yticklabels()) == [
        "ELLPACK", "sell (project)", "ell", "CSR", "csr", "csr-broken", "DIA", "dia",
    ]  # fmt: skip
    cells = {tuple(int(place) for place in text.get_position()): text for text in panel.texts}
    shown = [[cells[x, y].get_text() if (x, y) in cells else "" for x in (0, 1)] for y in range(8)]
    nothing = ["", ""]
    assert shown == [
        nothing, ["1.2", "1.1"], ["1.0", "4.0"], nothing, ["30", "1.0"], ["x", "!"], nothing, ["-", ""],
    ]  # fmt: skip
    assert [cells[place].get_weight() for place in ((0, 1), (0, 2), (1, 4))] == ["normal", "bold", "bold"]


def test_rows_from_before_families_were_kept_are_one_group_without_a_heading(few):
    (panel,) = panels_of(drawn(few.assign(family="")))
    assert texts_of(panel.get_yticklabels()) == ["sell (project)", "ell", "csr", "csr-broken", "dia"]


def test_first_setting_with_a_right_row_is_drawn_and_all_are_in_the_table(few):
    both = pd.concat([few.drop(columns=["setting", "matrix"]), few.drop(columns=["setting", "matrix"])])
    both["dtype"] = ["f64"] * len(few) + ["f32"] * len(few)
    both.loc[both["dtype"] == "f64", "status"] = "skipped"
    rows = latest_cases(both.reset_index(drop=True))
    assert set(FIGURE.data(rows, OPTIONS)["setting"]) == {"f64 hot", "f32 hot"}
    assert [ax.get_title(loc="left") for ax in panels_of(drawn(rows))] == ["f32 hot"]


def test_without_a_rate_it_is_left_out(few):
    with pytest.raises(figures.LeftOut, match="rate"):
        FIGURE.data(few.assign(gflops=0.0), OPTIONS)


def test_too_many_matrices_have_colours_alone():
    rows = [row(label, f"m{m:03}", 1.0 + m) for label in ("csr", "coo") for m in range(120)]
    (panel,) = panels_of(drawn(latest_cases(pd.DataFrame(rows))))
    assert not panel.texts and panel.collections[0].get_array().shape == (3, 120)


@pytest.mark.slow
def test_130_labels_on_eight_matrices_can_be_read_at_1000_pixels():
    labels = [f"family{i % 8}-{i}" + "[kernel=paper]" * (i % 5 == 0) for i in range(130)]
    rows = [
        row(label, matrix, (1 + i * m) ** 1.5, f"Family {i % 8}")
        for i, label in enumerate(labels)
        for m, matrix in enumerate(MATRICES)
    ]
    picture = drawn(latest_cases(pd.DataFrame(rows)))
    panels = panels_of(picture)
    assert len(panels) == 3
    names = [text for ax in panels for text in texts_of(ax.get_yticklabels())]
    assert sum(name.startswith("family") for name in names) == 130
    assert not any(texts_of(ax.get_yticklabels())[-1].startswith("Family") for ax in panels)

    pixels = 1000 / (picture.get_figwidth() * 72)  # of a point
    for ax in panels:
        assert len(ax.texts) == 8 * sum(text.startswith("family") for text in texts_of(ax.get_yticklabels()))
        cell = ax.get_window_extent()
        width, height = cell.width / len(MATRICES), cell.height / ax.get_ylim()[0]
        for text in [*ax.texts, *ax.get_yticklabels(), *ax.get_xticklabels()]:
            assert text.get_fontsize() * pixels >= 7
        for text in ax.texts:
            extent = text.get_window_extent()
            assert extent.width <= width and extent.height <= height, text.get_text()
        for label in ax.get_yticklabels():
            assert label.get_window_extent().x0 >= 0


DIGITS = {1.0: "1.0", 1.249: "1.2", 9.94: "9.9", 9.96: "10", 99.6: "100", 345.0: "340", 999.0: "1.0k", 4370.0: "4.4k"}
DIGITS |= {12345.0: "12k", 456789.0: "460k", 3e6: "3.0M", 7e9: "7.0G"}


@pytest.mark.parametrize(("ratio", "text"), DIGITS.items())
def test_two_digits(ratio, text):
    assert _two_digits(ratio) == text


def test_numbers_stand_out_from_their_cells():
    assert _on(1.0) == "white" and _on(10.0) == _on(math.inf) == style.INK
