"""The table of docs/results/speed.md: which rows count."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.errors import UsageError
from spmvbench.paths import configs
from spmvbench.publishing import in_page, speed
from spmvbench.rows.schema import blank_row


def row(label, gflops, matrix="pde:100", **columns):
    known = {
        "name": matrix,
        "format": label.partition("[")[0],
        "label": label,
        "gflops": gflops,
        "bound_gflops": 1000.0,
    }
    return blank_row() | known | {"status": "ok", "op": "spmv", "mode": "hot", "dtype": "f64"} | columns


def cell(*rows):
    found = speed.table(pd.DataFrame(rows)).set_index(["matrix", "dtype"])
    return found.loc["pde:100", "f64"]


def test_the_fastest_format_that_stores_every_value_counts():
    found = cell(
        row("csr5", 500.0),
        row("dia", 900.0),
        row("cusparse-sell", 950.0),
        row("ell", 960.0, status="wrong"),
        row("sell", 970.0, mode="cold"),
        row("hyb", 980.0, order="rcm"),
        row("cds", 990.0, experiment=True),
        row("bcsr", 995.0, op="spmspv:0.1"),
        row("row-patterns", 1400.0, compresses_values=True),
        row("bellpack", 2000.0, matrix="fem:40:3"),
    )
    assert (found["label"], found["gflops"], found["compressed"], found["target"]) == ("dia", 900.0, 1400.0, 873)
    assert found["ratio"] == pytest.approx(900 / found["public"]) and found["share"] == pytest.approx(0.9)


def test_public_programs_with_wrong_results_or_work_left_out_do_not_count():
    best = speed.public()
    given = pd.read_csv(speed.folder() / "public.csv")
    for (matrix, dtype), found in best.iterrows():
        case = given[(given["matrix"] == matrix) & (given["type"] == dtype)]
        faster = case[case["gflops"] > found["public"]]
        assert ((faster["verdict"] != "ok") | faster["program"].str.endswith("-once")).all()
    settings = len(set(given.loc[~given["program"].str.endswith("-once"), "program"]))
    for page in ("README.md", "docs/results/speed.md"):
        assert f"{settings} settings" in (configs().parent / page).read_text(encoding="utf-8"), page
    assert len(best) == 16 and best.loc[("denserow:1000000", "f32"), "program"] == "hola"


def test_what_was_not_measured_stays_empty_and_aims_are_bold():
    text = speed.markdown(speed.table(pd.DataFrame([row("dia", 960.0), row("csr5", 700.0, matrix="fem:40:3")])))
    by_cell = {tuple(line.split(" | ")[:2]): line for line in text.splitlines()}
    assert "| `dia` | **960** | **1.59** | 873 | 1000 | **0.96** |" in by_cell["| pde:100", "f64"]
    assert "| `csr5` | 700 | 1.14 | 962 | 1000 | 0.70 |" in by_cell["| fem:40:3", "f64"]
    assert by_cell["| band", "f32"].endswith("|  |  |  | 1500 |  |  |  |")
    short = speed.markdown(speed.table(pd.DataFrame([row("dia", 960.0)])), short=True)
    assert short.splitlines()[2].endswith("| `dia` | 960 | 1.59 |") and "target" not in short


def test_a_page_without_a_place_is_refused():
    with pytest.raises(UsageError, match="no place for the table"):
        in_page.updated(
            "# Speed\n", speed.markdown(speed.table(pd.DataFrame([row("dia", 1.0)]))), "spmvbench.publishing.speed"
        )


def test_every_cell_has_a_target():
    assert len(speed.targets()) == 16 and not np.isnan(speed.targets()).any()
