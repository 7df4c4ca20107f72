"""Whether rows of stand-ins make the advice better: `python tests/measure/regret_with_stand_ins.py RUN...`, by hand.

RUN: runs of the GPU of the model h200 that hold stand-ins. The model is trained on its own rows, then on these and the
stand-ins, in the formats that both have. Each group of the collection is left out once, with the stand-ins for its
matrices; the regret is that of the choice for its real matrices, geometric mean, per cent. It takes minutes.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from spmvbench.advice import model, training
from spmvbench.matrices.sets import STAND_IN
from spmvbench.rows import store

PUBLISHED = Path(__file__).parents[2] / "results" / "published"
FEWEST = 60  # matrices of the model on which a format has a row


def tables(runs):
    """The model's table and that of the stand-ins, of the same formats."""
    rows = training.of_one_run(training.rows_of([PUBLISHED / run for run in model.load("h200").about["runs"]])[0])
    made = store.load_all(runs)
    made = made[made["name"].str.startswith("like:") & ~made["name"].str.endswith(":index")]
    made = made[(made["mode"] == "hot") & (made["dtype"] == "f64")]
    matrices = rows.groupby("label")["name"].nunique()
    both = set(made["label"]) & set(matrices.index[matrices > FEWEST])
    own, others = (training.table(part[part["label"].isin(both)]) for part in (rows, made))
    parts = {
        name: part if name in ("columns", "family") else part.reindex(columns=getattr(own, name).columns)
        for name, part in vars(others).items()
    }
    parts["excluded"] = parts["excluded"].astype("boolean").fillna(False).astype(bool)
    return own, training.Table(**parts)


def regret(known, group, real):
    """Of real matrices, by chooser and number of SpMVs. group: of each matrix, left out together."""
    lines = []
    for left_out in sorted(set(group[real])):
        out = group.index[(group == left_out) & group.index.isin(real)]
        rest = known.of(group.index[group != left_out])
        lines += training._regrets(rest, training.fitted(rest, training.portfolio(rest)), known.of(out))
    found = pd.DataFrame(lines)
    found = found[found["chooser"].isin(["model", training.TRIED])]
    return found.groupby(["chooser", "spmvs"])["regret"].agg(lambda of: 100 * np.expm1(np.log1p(of).mean())).unstack()


def main(runs):
    """Print both tables."""
    own, made = tables(runs)
    real = own.columns.index[own.columns["group"] != "synthetic"]
    for_matrix = pd.Series(made.family.index, made.family.index).str.removeprefix(STAND_IN).str.partition("/")[0]
    print(f"{len(own.spmv.columns)} formats, {len(real)} real matrices; without stand-ins")
    print(regret(own, own.family, real).round(1).to_string())
    print(f"with {len(made.columns)} stand-ins")
    print(regret(training.stacked([own, made]), pd.concat([own.family, for_matrix]), real).round(1).to_string())


if __name__ == "__main__":
    main(sys.argv[1:])
