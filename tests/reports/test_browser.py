"""The page in a real browser: steered by mouse and keyboard, wide and narrow, dark and on paper.

A script of browser/ is added to the page; what it returns is read from the document.
"""

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from spmvbench.reports import page, published

SCRIPTS = Path(__file__).with_name("browser")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)"),
    pytest.mark.slow,
]

NARROWEST = 500  # of a browser's window
_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=20000 --dump-dom"
)
# Faults of the page and answers of the script end in one element, wherever they happened.
_FRAME = """
<script>
const faults = [];
addEventListener("error", (event) => faults.push(event.message));
addEventListener("load", async () => {
  let answer = null;
  try { answer = await (async () => {
%s
  })(); } catch (error) { faults.push(String(error.stack)); }
  const pre = document.createElement("pre");
  pre.id = "answer";
  pre.textContent = JSON.stringify({ answer, faults });
  top.document.body.append(pre);
});
</script>
"""


def answer(file, script, work, width=1400, *flags):
    """What a script (the body of a function that may await) returns in a copy of the page; no error may happen there.

    The window is `width` pixels wide, by a frame where a browser's own is never so narrow.
    """
    text = file.read_text(encoding="utf-8")
    text = text.replace("<head>", f"<head>{_FRAME % script}", 1)
    if width < NARROWEST:
        frame = f'<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{html.escape(text)}"></iframe>'
        text = f"<!doctype html><body style='margin: 0'>{frame}</body>"
    tried = file.with_name(f"tried-{width}.html")
    tried.write_text(text, encoding="utf-8")
    dom = _dump(tried, work, max(width, NARROWEST), *flags)
    found = re.search(r'<pre id="answer">(.*?)</pre>', dom, re.S)
    assert found, "the script never came to its end"
    given = json.loads(html.unescape(found[1]))
    assert given["faults"] == []
    return given["answer"]


def _dump(file, work, width, *flags):
    options = [*_FLAGS.split(), f"--window-size={width},900", f"--user-data-dir={work / 'browser'}", *flags]
    command = [CHROMIUM, *options, file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def written(rows, tile_rows, survey_rows, sparse_rows, environment, matrices, tmp_path_factory):
    """A page of every kind of chart, on some 100 matrices."""
    every = pd.concat([rows, tile_rows, survey_rows[survey_rows["dtype"] == "f64"], sparse_rows], ignore_index=True)
    every = every.drop_duplicates(["group", "name", "label", "dtype", "mode", "op"])
    folder = tmp_path_factory.mktemp("page")
    given = [published.get("survey-k40m")]
    return page.write(every, environment, folder, images=[], published=given, matrices=matrices).page


@pytest.fixture
def ask(written, tmp_path):
    def ask(name, width=1400, *flags):
        script = "".join((SCRIPTS / f"{file}.js").read_text(encoding="utf-8") for file in ("hands", name))
        return answer(written, script, tmp_path, width, *flags)

    return ask


def test_tables_sort_and_the_table_of_matrices_turns_its_pages(ask):
    found = ask("tables")
    down, up, nnz, pages, columns, view = found
    assert (down["sort"], up["sort"], nnz["sort"]) == ("descending", "ascending", "descending")
    assert down["values"] == sorted(down["values"], reverse=True) and len(set(down["values"])) > 5
    assert up["values"] == sorted(up["values"])
    assert nnz["values"] == sorted(nnz["values"], reverse=True) and len(nnz["values"]) == 50
    assert pages["first"].startswith("1 to 50 of") and pages["then"].startswith("51 to") and pages["other"]
    assert columns["after"] - columns["before"] == columns["formats"] - 9  # the highlighted ones stood there at first
    assert view["caption"] == "bytes per nonzero, f32" and len(view["rows"]) > 9
    for row in view["rows"]:  # formats that take as little as the best are marked too
        assert not row["best"] or set(row["best"]) == {row["least"]}


def test_every_figure_is_drawn_and_no_label_meets_another_or_leaves_its_picture(ask):
    for width in (1400, 400):
        found = ask("labels", width)
        assert found["bad"] == [] and found["figures"] > 20
        assert found["empty"] == []
        assert found["wide"] == width, "nothing is wider than the window"


def test_choosing_formats_and_matrices_reaches_every_figure_and_table(ask):
    found = ask("filter")
    assert found["said"] == found["again"] != found["chosen"]
    assert found["before"] == found["after"] and max(found["before"]) > 8
    assert found["foreign"] == []
    assert found["best"] == 1  # the best of those that are chosen
    assert found["matrices"] and all(name.startswith("SNAP/") for name in found["matrices"])
    assert sorted(found["matrices"]) == sorted(found["table"]) and found["warned"]


def test_a_format_under_the_pointer_lights_up_in_every_figure_and_a_click_keeps_it(ask):
    found = ask("pointer")
    assert not found["hidden"] and found["name"] in found["tip"] and "GFLOPS" in found["tip"]
    assert found["figures"] > 5 and min(found["here"]) > 0.8 and max(found["there"]) < 0.2
    assert found["row"] != found["plain"]
    assert found["pinned"] and found["gone"]
    assert found["links"][0].startswith("#format-") and found["links"][1].startswith("#matrix-")


def test_the_baseline_is_chosen_and_said(ask):
    found = ask("baseline")
    assert "Time of hyb over" in found["said"] and not found["has"] and found["all"]


def test_every_control_is_reached_and_worked_by_keyboard(ask):
    found = ask("keyboard")
    assert found["bad"] == [] and found["nameless"] == []
    assert "GFLOPS" in found["first"] and found["first"] != found["second"]
    assert found["toggled"]


def test_formats_and_matrices_are_anchors(ask):
    found = ask("anchors")
    assert found["row"] == found["m"] and not found["page"].startswith("1 to")
    assert found["seen"] == [True, True]


def test_contents_and_heads_of_tables_stay_in_sight(ask):
    found = ask("sticky")
    assert found["missing"] == 0 and 0 <= found["top"] < 5
    assert min(found["moved"]) > 100 and found["head"] < 3 and found["first"] < 3


def test_darkness_reaches_figures(ask):
    light, dark = ask("dark"), ask("dark", 1400, "--force-dark-mode")
    assert light["paper"] > 600 > light["text"] and dark["paper"] < 150 < dark["text"]
    assert light["filter"] == "none" and "invert" in dark["filter"]


def test_paper_keeps_every_column_and_every_figure(ask):
    found = ask("paper")
    assert found["before"] > 12 >= found["widest"] - 6  # a matrix's own columns, and eight formats
    assert found["missing"] == [] and found["lost"] == 0 and found["replaced"] > 1
    assert found["closed"] == 0 and found["undrawn"] == 0
    assert found["after"] == [found["before"], 0]


def test_a_page_of_a_site_works_with_what_it_shares(rows, environment, tmp_path):
    page.write_shared(tmp_path / "shared")
    written = page.write(rows, environment, tmp_path / "run", names=["gflops"], alone=True, shared="../shared/").page
    script = "drawAll(); return document.querySelectorAll('#figure-gflops .panel svg .dot').length;"
    assert answer(written, script, tmp_path) > 8
    data = (SCRIPTS / "hands.js").read_text() + (SCRIPTS / "data.js").read_text()
    found = answer(written, data, tmp_path)  # where no file lies beside the page, it gives its own
    assert found["lines"][0].startswith("setting,format,matrix,gflops,time,")
    assert found["lines"][1].startswith('"f64 hot","') and len(found["lines"]) == found["cases"] + 1
