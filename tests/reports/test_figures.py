"""Every figure, found as the report finds them: what it draws is what its table holds."""

import functools
import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter

from spmvbench.analysis.cases import keyed
from spmvbench.matrices.sets import stands_for
from spmvbench.reports import figures, page, published, style
from tests.reports.conftest import ENVIRONMENT, figure_of, with_both_kernels

EVERY = figures.every()
FAMILIES = {name: [f.name for f in figures.known()[name]] for name in ("tilespmv", "fastload", "survey", "ehyb")}


@pytest.fixture(scope="module")
def families(ready, tiled, loaded, surveyed, partitioned, sparse):
    """Rows for the figures of each family; "" holds those for all others."""
    return {
        "tilespmv": with_both_kernels(tiled, "tile-csr", "tile", "tile-deferred-coo", "csr5"),
        "fastload": with_both_kernels(loaded, "fastload", "tile-deferred-coo", "csr5"),
        "survey": surveyed,
        "ehyb": with_both_kernels(partitioned, "ehyb", "csr5"),
        "tilespmspv": with_both_kernels(sparse, "tile-spmspv", "tile", "tile-bfs"),
        "": ready,
    }


def family_of(figure, families):
    known = figures.known()
    return next((family for family in families if figure in known.get(family, ())), "")


def rows_of(figure, families):
    """Rows that hold what a figure is about."""
    rows = families["fastload" if figure.name == "sweep" else family_of(figure, families)]
    if figure.name == "two-formats":
        rows = rows[rows["label"].isin(["csr5", "csr-vector"])]
    if figure.name == "solvers":
        rows = keyed(rows.assign(op="cg@100", t_kernels=json.dumps({"spmv": 3e-4, "vectors": 1e-4})))
    if figure.name.startswith("orders"):
        rows = keyed(pd.concat([rows, rows.assign(order="rcm", t_order=0.1, t_median=rows["t_median"] / 2)]))
    if figure.name == "values":
        narrow = rows.assign(dtype=rows["dtype"].map({"f64": "f32/f64", "f32": "bf16/f32"}), rounding_error=1e-4)
        rows = keyed(pd.concat([rows, narrow.dropna(subset="dtype").assign(t_median=rows["t_median"] / 1.5)]))
    if figure.name == "stand-ins":
        rows = keyed(
            pd.concat([rows, rows.assign(group="synthetic", name="like:" + rows["group"] + "/" + rows["name"])])
        )
    if figure.name == "card-ranks":
        rows = keyed(pd.concat([rows, rows.assign(device_name="another GPU", t_median=2 * rows["t_median"])]))
    if figure.name == "transposed":
        rows = keyed(pd.concat([rows, rows.assign(op="spmv-t@1"), rows.assign(op="spmv-t@2")]))
    if figure.name == "several-vectors":
        rows = keyed(pd.concat([rows, rows.assign(op="spmm@4", k=4, layout="row")]))
    return rows.assign(program=rows["label"].str[:3])  # some names of each family are one program


@pytest.fixture
def about(figure, families):
    return rows_of(figure, families)


@pytest.fixture(scope="module")
def data(families, options):
    """Gives the table of a figure, which several tests look at."""
    return functools.cache(lambda figure: figure.data(rows_of(figure, families), options))


@pytest.fixture(scope="module")
def options(matrices, ready):
    marks = style.marks(["csr-vector", "csr5", "hyb", "ell"], "csr-vector")
    other = ready.assign(device_name="NVIDIA Other", t_median=1.3 * ready["t_median"]), {"read_bandwidth_gbps": 3000.0}
    return figures.Options(
        "csr-vector", marks, matrices, [published.get("survey-k40m")], environment=ENVIRONMENT, other=other
    )


def test_modules_are_complete_and_their_names_differ():
    for figure in EVERY:
        assert figure.title and figure.caption.endswith(".") and isinstance(figure.performance, bool)
    assert len({figure.name for figure in EVERY}) == len({figure.order for figure in EVERY}) == len(EVERY)


def test_family_chooses_all_of_its_figures_and_goes_with_others():
    chosen = [figure.name for figure in figures.choose(["tilespmv", "bytes", "tilespmv-space"])]
    assert chosen == ["bytes", *FAMILIES["tilespmv"]]
    assert {figure.name for figure in figures.choose(None)} >= set(chosen)


@pytest.mark.parametrize("figure", [figure for figure in EVERY if figure.family], ids=lambda f: f.name)
def test_stand_ins_take_the_places_of_the_papers_matrices(figure, about, options):
    """Rows of stand-ins alone."""
    about = about.assign(kind=about["group"])
    named = ~about["group"].isin(["synthetic", "own"])
    stand_ins = {"group": "synthetic", "name": "like:" + about["group"] + "/" + about["name"], "kind": "like"}
    rows = keyed(about.assign(**{column: about[column].mask(named, of) for column, of in stand_ins.items()}))
    table, found = (figure.data(given, options) for given in (about, rows))
    assert len(found) == len(table)
    if "matrix" in table:
        assert list(found["matrix"].map(stands_for).drop_duplicates()) == list(table["matrix"].drop_duplicates())


@pytest.mark.slow
@pytest.mark.parametrize("figure", EVERY, ids=lambda f: f.name)
def test_figure_draws_its_table(figure, about, data, options):
    table = data(figure)
    assert len(table) and set(table.get("label", [])) - {"", "all formats"} <= set(about["label"])
    assert "Broken/archive" not in set(table.get("matrix", []))
    assert figure.draw or figure.show
    if figure.draw:
        with style.theme():
            picture = figure.draw(table, options)
            assert apart(picture) == []
        assert alike(picture) == []
        panels = [ax for ax in picture.axes if ax.get_visible() and ax.get_label() != "<colorbar>"]
        assert panels
        for ax in panels:
            assert ax.get_title(loc="left") and ax.get_xlabel()
            assert min(ax.get_window_extent().size) >= 8, "pressed flat by what stands beside it"
            assert ax.lines or ax.collections or ax.patches or ax.images
        formatters = [axis.get_major_formatter() for ax in picture.axes for axis in (ax.xaxis, ax.yaxis)]
        assert not any(isinstance(found, LogFormatter) for found in formatters), "formulas are not drawn"
    if figure.show:
        shown = figure.show(table, options)
        assert shown and len({part.caption for part in shown}) == len(shown)
        for part in shown:
            assert part.rows and {len(row) for row in part.rows} == {len(part.columns)}
            assert len({column.heading for column in part.columns}) == len(part.columns), "each column has its own name"


@pytest.mark.parametrize("name", ["survey-patterns", "tilespmv-methods", "two-formats", "tilespmspv-searches"])
def test_texts_fit_a_papers_column(name, data, options):
    (figure,) = (figure for figure in EVERY if figure.name == name)
    with style.paper("one-column"), style.theme():
        picture = figure.draw(data(figure), options)
        style.fit(picture)
        assert [found for found in apart(picture) if "leaves" in found] == []


def styles(picture):
    """How each series of each legend and of each panel of bars is drawn: colour, and hatch or marker and line."""
    found = {}
    for place, legend in enumerate([*picture.legends, *(ax.get_legend() for ax in picture.axes if ax.get_legend())]):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            line = handle if hasattr(handle, "get_marker") else None
            found[f"legend {place}", text.get_text()] = (
                (line.get_color(), line.get_marker(), line.get_linestyle(), line.get_markerfacecolor())
                if line
                else (handle.get_facecolor(), handle.get_hatch())
            )
    for place, ax in enumerate(picture.axes):
        for bars in ax.containers:
            found[f"panel {place}", bars.get_label()] = (bars[0].get_facecolor(), bars[0].get_hatch()) if bars else ()
    return found


def alike(picture):
    """Which series of one legend or panel cannot be told apart: up to eight by colour, and in grey by hatch, or marker
    and line; more of them by the whole style.
    """
    found = []
    for _, group in itertools.groupby(styles(picture).items(), key=lambda item: item[0][0]):
        group = list(group)
        for ((place, one), drawn), ((_, other), its) in itertools.combinations(group, 2):
            hatched = len(drawn) == len(its) == 2
            colours = len(group) <= len(style.HATCHES) and to_rgb(drawn[0]) == to_rgb(its[0])
            lines = len(group) <= len(style.HATCHES) and len(drawn) == len(its) == 4 and "other formats" not in other
            grey = lines and drawn[1:3] == its[1:3] and (drawn[3] == "none") == (its[3] == "none")
            if drawn == its or colours or grey or (hatched and drawn[1] == its[1]):
                found.append(f"{place}: {one} and {other}")
    return found


def test_more_bars_than_hatches_are_in_several_panels():
    labels = [f"format{i}" for i in range(10)]
    table = pd.DataFrame([{"matrix": m, "label": key, "gflops": 1.0, "setting": "f64"} for m in "ab" for key in labels])
    with style.theme():
        picture = figures.bars(table, "gflops", "GFLOPS", style.marks_of(labels, {}))
    assert [len(ax.containers) for ax in picture.axes] == [8, 2]
    assert alike(picture) == []
    same = dict.fromkeys(labels[:2], style.BASELINE)
    assert alike(figures.bars(table[table["label"].isin(same)], "gflops", "GFLOPS", same)) != []


def apart(picture):
    """Which texts of a figure meet another text of the same panel, or leave the figure.

    Lines to them do not count, nor do letters beside points.
    """
    renderer = FigureCanvasAgg(picture).get_renderer()
    for ax in picture.axes:
        ax.minorticks_off()  # they carry no text, and making and placing them is a third of the time
    picture.draw_without_rendering()  # lays out as drawing does
    inside = picture.bbox.padded(2)
    found = []
    for ax in [ax for ax in picture.axes if ax.get_visible()]:
        texts = [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax._left_title]
        low, high = ax.get_xlim(), ax.get_ylim()
        kept = [tick for axis, (a, b) in ((ax.xaxis, low), (ax.yaxis, high)) for tick in axis.get_major_ticks()
                if min(a, b) <= tick.get_loc() <= max(a, b)]  # fmt: skip
        ticks = {id(text) for tick in kept for text in (tick.label1, tick.label2)}
        texts = [text for text in texts if text.get_text().strip() and text.get_visible()]
        labels = {*map(id, ax.get_xticklabels()), *map(id, ax.get_yticklabels())}
        texts = [text for text in texts if id(text) not in labels or id(text) in ticks]
        boxes = [(text.get_text(), Text.get_window_extent(text, renderer), text.get_rotation()) for text in texts]
        found += [f"{text!r} leaves the figure" for text, box, _ in boxes if not inside.contains(*box.min)]
        found += [f"{text!r} leaves the figure" for text, box, _ in boxes if not inside.contains(*box.max)]
        straight = [(text, box.padded(-1)) for text, box, angle in boxes if angle % 90 == 0]
        found += [
            f"{one!r} meets {other!r}"
            for (one, box), (other, its) in itertools.combinations(straight, 2)
            if box.overlaps(its) and len(one + other) > 2
        ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_family_is_drawn_whole(family, families, matrices, unrendered, environment, tmp_path):
    rows = families[family].drop(columns=["matrix", "setting"])
    given = {"matrices": matrices, "published": [published.get("survey-k40m")]}
    report = page.write(rows, environment, tmp_path, names=[family], images=[], **given)
    assert [drawn.name for drawn in report.drawn] == FAMILIES[family] and report.left_out == {}
    assert family == "survey" or all("paper" in drawn.caption.lower() for drawn in report.drawn)


LEFT_OUT = {
    "tilespmv": {"no verified row of tile-csr, tile, tile-deferred-coo": FAMILIES["tilespmv"]},
    "ehyb": {"the run holds none of the 92 matrices of EHYB's paper (the set ehyb92)": FAMILIES["ehyb"]},
    "fastload": {
        "no verified row of fastload, fastload-opt": [n for n in FAMILIES["fastload"] if n != "fastload-two-phase"],
        "no verified row of two-phase with a kernel breakdown": ["fastload-two-phase"],
    },
}


@pytest.mark.parametrize("family", LEFT_OUT)
def test_a_run_without_a_family_leaves_it_out_and_says_why(family, rows, environment, tmp_path):
    report = page.write(rows, environment, tmp_path, names=[family])
    assert report.drawn == [] and report.left_out == LEFT_OUT[family]


def test_texts_that_meet_or_leave_are_found():
    with style.theme():
        figure, (axes,) = style.grid(1, 1)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "one")
        axes.text(0.51, 0.5, "other")
        axes.text(3, 0.5, "gone", in_layout=False)
        assert apart(figure) == ["'gone' leaves the figure"] * 2 + ["'one' meets 'other'"]


@pytest.mark.slow
def test_a_format_keeps_its_mark_over_a_whole_report(monkeypatch, unrendered, survey_rows, environment, tmp_path):
    drawn = []
    monkeypatch.setattr(style, "legend", lambda figure, shown, *args, **more: drawn.append(dict(shown)))
    report = page.write(survey_rows, environment, tmp_path, published=[published.get("survey-k40m")])
    given = {}
    for shown in drawn:
        for label, mark in shown.items():
            label = re.sub(r".* \((.*)\)$", r"\1", label).lower()  # the survey's name, and ours in brackets
            assert given.setdefault(label, mark) == mark, label
    assert len(given) > 8 and len(report.drawn) > 10


def test_marks_of_all_differ_and_those_of_one_figure_by_colour_too():
    labels = [f"format{i}" for i in range(150)]
    beside = labels[100:107]
    first = style.marks(labels, "format3")
    assert len(first) == 9 and next(iter(first)) == "format3"
    others = [mark.parts for mark in first.values() if mark is not style.BASELINE]
    assert [len(set(parts)) for parts in zip(*others, strict=True)] == [8, 8, 8], "each part tells them apart"
    found = style.marks_of_all([*labels, "format100[k=1]"], first, [beside])
    assert len({(mark.color, mark.marker, mark.filled) for mark in found.values()}) == len(found) == 151
    assert len({found[label].color for label in beside}) == len(beside)
    assert found["format3"] is style.BASELINE


def test_names_with_dollar_signs_are_drawn_as_they_are():
    name = "a$b_{c$.mtx"
    with style.theme():
        figure, (axes,) = style.grid(1, 1)
        axes.plot([0, 1], [1, 2], label=name)
        axes.set(title=name, xlabel=name)
        axes.text(0, 1, name)
        style.names_below(axes, [f"file/{name}", "HB/1138_bus"])
        style.missing(figure, [name])
        style.legend(figure, style.marks([name]))
        figure.draw_without_rendering()
    assert sum(text.get_text() == name for text in figure.findobj(Text)) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("figure", [f for f in EVERY if f.performance], ids=lambda f: f.name)
def test_wrong_rows_are_nowhere(figure, data):
    table = data(figure)
    if "matrix" in table:
        right = table[table["status"] == "ok"] if "status" in table else table  # else it is there by its status alone
        assert not ((right["matrix"] == "Oberwolfach/matrix0007") & (right.get("label") == "csr5")).any()
    assert not (table.select_dtypes("number") == 9999.0).any(axis=None)


def test_profile_keeps_settings_apart_and_levels_at_coverage(ready, options):
    profile = figure_of("profile")
    table = profile.data(ready, options)
    assert list(table["setting"].unique()) == ["f64 hot", "f64 cold", "f32 hot", "f32 cold"]
    right = ready[(ready["setting"] == "f64 hot") & (ready["status"] == "ok")]
    level = table[table["setting"] == "f64 hot"].groupby("label")["rho"].max()
    assert level.to_dict() == pytest.approx((right.groupby("label").size() / 30).to_dict())


def test_roofline_without_bandwidth_is_left_out(ready, options):
    roofline = figure_of("roofline")
    with pytest.raises(figures.LeftOut, match="no measured bandwidth"):
        roofline.draw(roofline.data(ready, options), replace(options, environment={}))


def test_roofline_on_an_unknown_device_still_has_its_roof(ready, options):
    roofline = figure_of("roofline")
    picture = roofline.draw(roofline.data(ready, options), replace(options, environment={"read_bandwidth_gbps": 100.0}))
    assert not any("multiprocessor" in text.get_text() for ax in picture.axes for text in ax.texts)


# Of linear RGB: what is seen with one kind of cone missing (Machado, Oliveira, Fernandes, TVCG 2009, severity 1).
SEEN = {
    "every cone": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def lab(color, seen):
    """CIELAB (D65) of a colour as it is seen."""
    srgb = np.array(to_rgb(color))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(seen) @ linear, 0, 1) / to_xyz.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN)
def test_colours_differ_for_everybody(seen):
    colors = [mark.color for mark in style.marks([f"format{i}" for i in range(9)], "format3").values()]
    assert len(colors) == 9
    for one, other in itertools.combinations(colors, 2):
        assert np.linalg.norm(lab(one, SEEN[seen]) - lab(other, SEEN[seen])) > 15, (one, other)


def test_kernels_that_differ_by_a_width_are_one(ready, options):
    known = ready[ready["t_kernels"] != ""].copy()
    known["t_kernels"] = json.dumps({"ell_22": 2e-6, "ell_32": 1e-6, "csr_52": 1e-6, "csr": 0.0})
    breakdown = figure_of("kernels")
    table = breakdown.data(known, options)
    found = table[["label", "kernel", "share"]].drop_duplicates().to_numpy().tolist()
    assert found == [["hyb", "ell", 0.75], ["hyb", "csr", 0.25]]


def test_break_even_that_never_comes_is_kept_as_infinite(ready, options):
    breakeven = figure_of("breakeven")
    table = breakeven.data(ready, options)
    assert math.isinf(table["break_even"].max())
    assert set(table["setting"].astype(str)) == {"f64 hot", "f32 hot"}
    assert set(table["path"]) == {"device"}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["svg", "png", "pdf"])
def test_files_repeat_byte_for_byte(ready, options, suffix):
    coverage = figure_of("coverage")
    with style.theme():
        pictures = [coverage.draw(coverage.data(ready, options), options) for _ in range(2)]
        one, other = (style.rendered(picture, suffix) for picture in pictures)
    assert one == other


def test_coarse_keeps_the_last_of_each_part():
    values = pd.Series([1.0, 1.1, 1.2, 5.0, 9.9]).to_numpy()
    assert style.coarse(values, 1.0, 10.0, parts=9).tolist() == [2, 3, 4]


@pytest.mark.parametrize("name", ["speedup-mean", "bytes", "conversion", "energy", "breakeven"])
def test_the_page_draws_the_best_and_the_highlighted_of_many_lines_and_all_on_demand(
    name, monkeypatch, rows, environment, tmp_path
):
    monkeypatch.setattr(figures, "FEW", 2)
    every = [*rows["label"].unique()]
    (drawn,) = page.write(rows, environment, tmp_path, names=[name], highlight=every[-1:]).drawn
    lines = [label for label in every if f">{label}<" in drawn.drawing]
    assert every[-1] in lines and len(lines) in (2, 3, 4)  # the baseline, too
    whole = [label for label in every if f">{label}<" in drawn.whole]
    assert set(lines) < set(whole)
    (figure,) = figures.choose([name])
    numbers = pd.read_csv(drawn.files[-1])
    medians = numbers.groupby("label")[figure.by.removeprefix("-")].median().sort_values()
    best = medians.index[-2:] if figure.by.startswith("-") else medians.index[:2]
    assert set(best) <= set(lines)
