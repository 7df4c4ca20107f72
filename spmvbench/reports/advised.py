"""What the advice chose for the matrices of published runs while their families were left out of its training."""

from __future__ import annotations

import pandas as pd

from spmvbench import paths


def choices(rows: pd.DataFrame) -> pd.DataFrame | None:
    """Columns matrix (group/name), dtype, spmvs, label and, if the model's evaluation has it, measured, from the model
    of the rows' GPU; None if it has no model. See `analysis.products.products`.

    configs/advice holds for each model what `advise` said in its evaluation: each matrix was predicted by a model that
    had not seen any matrix of its family. A model covers a GPU if its name is a word of the GPU's name.
    """
    names = rows["device_name"].str.lower().unique()
    if len(names) != 1:
        return None
    covered = [path for path in (paths.configs() / "advice").glob("*.csv") if path.stem in names[0].split()]
    if not covered:
        return None
    found = pd.read_csv(covered[0]).rename(columns={"advised": "label"})
    return found.filter(["matrix", "dtype", "spmvs", "label", "measured"])
