"""Sweeps: labels of one format that differ in a single parameter, and their times relative to each other."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from spmvbench.analysis.cases import verified

LEAST = 3  # values of a parameter that make a sweep


def sweeps(rows: pd.DataFrame) -> pd.DataFrame:
    """The time for each value of a swept parameter, relative to the best of its values on the matrix.

    A sweep is LEAST or more labels of a format that have the same values of all other parameters. Only matrices with a
    verified time for all of its values count. Columns setting, format, parameter, fixed (the other parameters that are
    not those of every label of the format, as text), matrix, label, value (as text), place (0, 1, ...: of the value in
    ascending order), ratio.
    """
    timed = verified(rows)
    timed = timed[timed["t_median"] > 0]
    found = []
    for key, part in timed.groupby("format"):
        labels = part.drop_duplicates("label").set_index("label")["params"]
        for parameter, fixed, values in _swept({label: json.loads(text or "{}") for label, text in labels.items()}):
            ordered = sorted(values, key=_order)
            places = {label: (place, str(value)) for place, (label, value) in enumerate(ordered)}
            times = part[part["label"].isin(list(places))]
            groups = times.groupby(["setting", "matrix"], observed=True)["t_median"]
            times = times.assign(ratio=times["t_median"] / groups.transform("min"), held=groups.transform("size"))
            times = times[times["held"] == len(places)]
            at = times["label"].map(places)
            found.append(
                times[["setting", "matrix", "label", "ratio"]].assign(
                    format=key, parameter=parameter, fixed=fixed, place=at.str[0], value=at.str[1]
                )
            )
    columns = ["setting", "format", "parameter", "fixed", "matrix", "label", "value", "place", "ratio"]
    if not found:
        return pd.DataFrame(columns=columns)
    order = ["setting", "format", "parameter", "fixed", "matrix", "place"]
    return pd.concat(found, ignore_index=True)[columns].sort_values(order, ignore_index=True)


def _swept(params: dict[str, dict[str, Any]]) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Parameter, the others in words, and (label, value) of each, for every sweep among labels of a format."""
    found = []
    names = sorted({name for values in params.values() for name in values})
    varying = [name for name in names if len({json.dumps(values.get(name)) for values in params.values()}) > 1]
    for name in varying:
        groups: dict[str, list[tuple[str, Any]]] = {}
        for label, values in params.items():
            others = ", ".join(f"{other}={values.get(other)}" for other in varying if other != name)
            groups.setdefault(others, []).append((label, values.get(name)))
        found += [(name, others, values) for others, values in sorted(groups.items()) if len(values) >= LEAST]
    return found


def _order(pair: tuple[str, Any]) -> tuple[bool, float, str]:
    try:
        return False, float(pair[1]), ""
    except (TypeError, ValueError):
        return True, 0.0, str(pair[1])
