"""The page in a real browser: by mouse and keyboard, wide and narrow, dark and on paper, from disk and over HTTP.

A script of browser/ is run in the page; what it returns is looked at here.
"""

from pathlib import Path

import pandas as pd
import pytest

from spmvbench.analysis.coverage import FAILED
from spmvbench.reports import links, page
from tests.reports import conftest

SCRIPTS = Path(__file__).with_name("browser")
WIDE, NARROW = 1400, 420
# Every interactive figure, and one of each kind of drawing and table.
FIGURES = [
    "ratios", "profile", "gflops", "coverage", "winners", "speedup", "speedup-mean", "bytes", "claims", "kernels",
    "tilespmv-rivals",
]  # fmt: skip
VIEWS = ["profile", "ratios", "gflops", "matrix", "format"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(rows, tile_rows, environment, tmp_path_factory):
    """A page by itself, and one that shares its script with others."""
    every = pd.concat([rows, tile_rows[tile_rows["dtype"] == "f64"]], ignore_index=True)
    every = every.drop_duplicates(["group", "name", "label", "dtype", "mode", "op"])
    found = tmp_path_factory.mktemp("page")
    page.write(every, environment, found / "alone", images=[], names=FIGURES)
    page.write_shared(found / "shared")
    sharing = {"shared": "../shared/", "home": "../index.html"}
    page.write(rows, environment, found / "site", names=["gflops", "coverage"], alone=True, **sharing)
    return found


@pytest.fixture(scope="module")
def served(folder):
    """The address of the folder over HTTP."""
    with conftest.served(folder) as address:
        yield address


@pytest.fixture
def opened(browser, folder):
    """Opens a page of the folder from disk, or one of another address."""
    pages = []

    def go(name="alone", width=WIDE, address=""):
        pages.append(browser.open(address or (folder / name / page.PAGE).as_uri(), width))
        return pages[-1]

    yield go
    for one in pages:
        one.close()


def script(name):
    return "".join((SCRIPTS / f"{part}.js").read_text(encoding="utf-8") for part in ("hands", name))


@pytest.fixture(scope="module", params=["disk", "HTTP"])
def address(request, folder):
    if request.param == "disk":
        return (folder / "alone" / page.PAGE).as_uri()
    return f"{request.getfixturevalue('served')}/alone/{page.PAGE}"


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_view_is_drawn_and_no_label_meets_another_or_leaves_its_picture(opened, width):
    found = opened(width=width).run(script("labels"))
    assert found["bad"] == [] and found["empty"] == [] and found["views"] == VIEWS
    assert found["wide"] == width, "nothing is wider than the window"
    assert found["drawn"] == len(FIGURES) - 3 - 1, "all but the interactive figures and the table of claims"
    assert found["twice"] == [] and found["lost"] == 0, "each drawing has its own names"


def test_a_matrix_without_entries_has_no_slowdown_and_is_not_marked_as_failed(opened, rows, environment, tmp_path):
    few = rows[rows["name"].isin(rows["name"].unique()[:3]) & (rows["dtype"] == "f64") & (rows["mode"] == "hot")]
    empty = few[few["name"] == few["name"].iloc[0]].assign(name="nothing", nnz=0, work=0, gflops=0.0, status="ok")
    page.write(pd.concat([few, empty], ignore_index=True), environment, tmp_path, names=["ratios"], images=[])
    marks = opened(address=(tmp_path / page.PAGE).as_uri()).run(
        "drawAll();"  # the browser draws a view when it is near, which may be after this script
        "return [...document.querySelectorAll('#figure-ratios .none')].map((mark) => mark.textContent);"
    )
    assert marks.count("") == len(empty) > 5
    assert marks.count("!") == few["status"].isin(FAILED).sum()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_selection_is_in_the_address(opened, address, width):
    first = opened(address=address, width=width)
    plain = first.run(script("shown"))
    first.run("put = (id, value) => { byId(id).value = value; byId(id).dispatchEvent(new Event('input')); };"
              "put('family', 'SNAP'); put('uneven', '1.5'); put('matrix', 'SNAP/matrix0005');")  # fmt: skip
    before = first.run(script("shown"))
    first.run("byId('word').value = 'c'; byId('only').click(); toggle(place.f.get('csr5'));"
              "byId('ranking').tHead.rows[0].cells[9].firstChild.click();")  # fmt: skip
    after = first.run(script("shown"))
    assert len({tuple(shown["ranking"]) for shown in (plain, before, after)}) == 3
    assert after["sorted"] and "csr5" in set(after["pinned"]) ^ set(plain["pinned"])
    first.reload()
    assert first.run(script("shown")) == after
    linked = opened(address=address + after["address"], width=width)
    assert linked.run(script("shown")) == after
    first.run("history.go(-3); await new Promise((done) => addEventListener('hashchange', done, { once: true }));")
    assert first.run(script("shown")) == before
    first.run("history.go(3); await new Promise((done) => addEventListener('hashchange', done, { once: true }));")
    assert first.run(script("shown")) == after


def test_an_anchor_keeps_the_selection(opened):
    found = opened()
    found.run("byId('family').value = 'HB'; byId('family').dispatchEvent(new Event('input'));")
    moved = "location.hash = '{}'; await new Promise((done) => addEventListener('hashchange', done, {{ once: true }}));"
    told = "return [state.family, state.format, location.hash, byId('figure-format').getBoundingClientRect().top];"
    found.run("document.documentElement.style.scrollBehavior = 'auto';")
    family, label, hash_, top = found.run(moved.format("#format-sell-c-sigma%5BC%3D32%5D") + told)
    assert (family, label) == ("HB", "sell-c-sigma[C=32]") and "at=figure-format" in hash_
    assert abs(top) < 10, "the margin above a figure"
    found.reload()
    assert found.run(told)[:3] == [family, label, hash_]
    assert found.run(moved.format("#figure-profile") + told)[:2] == [family, label]
    broken = opened(address=found.run("return location.href.split('#')[0];") + "#%E0%A4%A&setting=nothing&only=none")
    assert broken.run("return [state.setting, rows().length];") == ["f64 hot", 0]


def test_the_filter_reaches_every_view_and_table(opened):
    found = opened().run(script("filter"))
    before, narrow, after = found["before"], found["narrow"], found["after"]
    assert before == after
    assert all(one != other for one, other in zip(before["views"], narrow["views"], strict=True))
    assert narrow["slowdown"] != before["slowdown"] and 0 < narrow["wins"] < before["wins"]
    assert found["foreign"] == [] and found["ranking"] and all("csr" in name for name in found["ranking"])
    assert found["best"] == 1, "the best of those that are chosen"
    assert found["matrices"] and all(name.startswith("SNAP/") for name in found["matrices"])
    assert sorted(found["matrices"]) == sorted(found["shown"]) and max(found["tried"]) == len(found["shown"])
    assert found["other"]["caption"].startswith("f32 cold: ") and found["other"]["title"] == "f32 cold"


def test_tables_sort_and_rows_are_downloaded(opened):
    up, down, nnz, cases, words, download = opened().run(script("tables"))
    assert (up["sort"], down["sort"], nnz["sort"], cases["sort"]) == ("ascending", *["descending"] * 3), "best first"
    for table in (down, nnz, cases):
        assert table["values"] == sorted(table["values"], reverse=True) and len(table["values"]) > 2
    assert up["values"] == sorted(up["values"])
    assert 0 < len(words["some"]) < words["many"]
    assert download["lines"][0] == "format,matrix,status,time,rate,bytes,bound"
    assert len(download["lines"]) == download["cases"] + 1


@pytest.mark.parametrize(("width", "first"), [(WIDE, 6), (NARROW, 3)])
def test_tables_show_what_fits_at_first_and_all_columns_on_demand(opened, width, first):
    found = opened(width=width)
    told = (
        "return [...document.querySelectorAll('.controlled')].map((table) => [[...table.tHead.rows[0].cells]"
        ".filter((th) => th.checkVisibility()).length, table.tHead.rows[0].cells.length,"
        "table.scrollWidth <= table.parentNode.clientWidth]);"
    )
    assert [(shown, fits) for shown, _, fits in found.run(told)] == [(first, True)] * 2
    assert all(
        shown == every > 6
        for shown, every, _ in found.run(
            "document.querySelectorAll('.columns input').forEach((box) => box.click());" + told
        )
    )
    bars = "return [...byId('ranking').tBodies[0].rows].map((row) => Number(row.style.getPropertyValue('--bar')));"
    lengths = found.run(bars)
    assert lengths == sorted(lengths) and 0 <= lengths[0] < lengths[-1] <= 1.0001


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_values_are_told_under_the_pointer_and_at_the_arrow_keys(opened, width):
    found = opened(width=width).run(script("pointer"))
    assert not found["hidden"] and found["name"] in found["tip"] and "GFLOPS" in found["tip"]
    assert min(found["here"]) > 0.8 and max(found["there"]) < 0.2
    assert found["toggled"] and found["gone"] and found["entered"]
    assert found["links"][0].startswith("#format-") and found["links"][1].startswith("#matrix-")
    assert "GFLOPS" in found["first"] and found["first"] != found["second"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_control_is_reached_by_keyboard_and_has_a_name(opened, width):
    found = opened(width=width).run(script("reached"))
    assert found["bad"] == [] and found["nameless"] == [] and found["controls"] > 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_contrast(opened, width, scheme):
    found = opened(width=width)
    found.media(prefers_color_scheme=scheme)
    answer = found.run(script("contrast"))
    assert answer["bad"] == [] and answer["texts"] > 300


def test_darkness_reaches_drawings(opened):
    found = opened()
    look = "return getComputedStyle(document.querySelector('.drawn svg')).filter;"
    assert found.run(look) == "none"
    found.media(prefers_color_scheme="dark")
    assert "invert" in found.run(look)


def test_contents_and_filter_stay_in_sight_and_leave_two_thirds_of_a_narrow_screen(opened):
    side = (
        "document.documentElement.style.scrollBehavior = 'auto'; scrollTo(0, document.body.scrollHeight / 2);"
        "const box = document.querySelector('.side').getBoundingClientRect();"
        "return [box.top, box.height / innerHeight];"
    )
    top, _ = opened().run(side)
    assert 0 <= top < 5
    found = opened(width=NARROW)
    top, share = found.run(side)
    assert 0 <= top < 5 and share < 0.1, "closed at first"
    for places in ((0,), (1,), (0, 1)):
        opening = "".join(f"document.querySelectorAll('.side > details')[{place}].open = true;" for place in places)
        top, share = found.run(opening + side)
        assert 0 <= top < 5 and 0.2 < share <= 1 / 3


def test_what_the_side_links_to_is_there(opened):
    missing = "return [...document.querySelectorAll('.side nav a')].filter((a) => !byId(a.hash.slice(1))).length;"
    found = opened()
    assert found.run(missing) == 0
    linked = found.run("return [...document.querySelectorAll('.side nav a')].map((a) => a.hash.slice(1));")
    there = found.run("return [...document.querySelectorAll('figure, section')].map((e) => e.id);")
    assert set(there) - set(linked) <= {"left-out"}


def test_paper_shows_everything(opened):
    found = opened(width=700)  # A4 without margins
    found.send("Emulation.setEmulatedMedia", media="print")
    answer = found.run(script("paper"))
    assert (answer["closed"], answer["undrawn"], answer["hidden"]) == (0, 0, 0) and answer["again"] > 0
    assert answer["wide"] == [] and answer["tall"] == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_page_of_a_site_works_with_what_it_shares(opened, served, width):
    found = opened(address=f"{served}/site/{page.PAGE}", width=width)
    assert found.run("drawAll(); return document.querySelectorAll('#figure-gflops .panel svg .dot').length;") > 8


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_cell_of_a_site_leads_to_the_pages_of_its_format_and_matrix(opened, width):
    found = opened("site", width=width)
    ranking, worst, matrices, fastest, tip = found.run(script("linked"))
    names = found.run("return formats.name;")
    assert sorted(ranking) == sorted(f"../{links.format(name)}" for name in names)
    of_matrices = {f"../{links.matrix(name)}" for name in found.run("return matrices.name;")}
    assert set(matrices) == of_matrices and worst and set(worst) <= of_matrices
    assert fastest and set(fastest) <= {place.partition("#")[0] for place in ranking}
    assert tip[0] in {*fastest, *ranking} and tip[1] in of_matrices


def test_all_rows_are_offered_only_if_some_are_not_drawn(opened):
    found = opened()
    counts = "drawAll(); return [...document.querySelectorAll('.panels')].map((box) => [box.many ?? 0, FEW,"
    counts += " box.querySelectorAll('text.row').length, box.nextElementSibling.className === 'more']);"
    for label in (found.run("return namesOf([...state.pinned])[0];"), "csr5"):
        found.run(f"byId('format').value = '{label}'; byId('format').dispatchEvent(new Event('input'));")
        for many, few, drawn, offered in found.run(counts):
            assert offered == (many > few) and (drawn < many if offered else drawn == many)
