"""The table of docs/results/speed.md: the programs that it compares with."""

import numpy as np
import pandas as pd
import pytest

from spmvbench.errors import UsageError
from spmvbench.paths import configs
from spmvbench.publishing import in_page, speed


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


def test_a_page_without_a_place_is_refused():
    with pytest.raises(UsageError, match="no place for the table"):
        in_page.updated("# Speed\n", "| a |", "spmvbench.publishing.speed")


def test_every_cell_has_a_target():
    assert len(speed.targets()) == 16 and not np.isnan(speed.targets()).any()
