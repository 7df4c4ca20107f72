"""The survey's rules of thumb, each tested on a table of measurements.

Filippone et al. 2017, sections 5.2, 5.4 and 5.5. The survey gives no numbers. The thresholds here are chosen so that
every rule holds on the survey's own Table 8 (K40M).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd

from spmvbench.analysis.coverage import geometric_mean
from spmvbench.analysis.profiles import performance_profile, share_within
from spmvbench.errors import counted, percent

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"

EVEN = 1.25  # largest ratio of the longest row to the mean row: rows of nearly equal length
POWER_LAW = 50  # smallest such ratio: a few rows are far longer than the rest
FULL = 1.3  # largest ratio of HDI slots to nonzeros: entries lie along pieces of diagonals
NEAR = 0.95  # share of the best rate that counts as equal to it
SLOW = 0.8  # share of the best rate up to which a format counts as slow
GROWTH = 1.5  # the factor tau at which profiles are compared
FEW = 10  # products
HEAVY = 2.0  # bytes over those of CSR

ROW_A_THREAD = ("ELL", "HLL")
ELLPACK_LIKE = ("ELL", "HLL", "HYB", "SELL-P")


class _Unknown(Exception):
    """The table lacks what the rule is about; the text says what is missing."""


@dataclass(frozen=True)
class _Measured:
    """Measurements that rules are tested on.

    rates: GFLOPS by matrix and format, NaN if not held. unevenness: longest over mean row, by matrix. slots: slots of
    HDI over nonzeros, by matrix. bytes: bytes per nonzero by matrix and format. break_even: in SpMVs, of every format
    but CSR on every matrix.
    """

    rates: pd.DataFrame
    unevenness: pd.Series
    slots: pd.Series
    bytes: pd.DataFrame
    break_even: pd.Series

    def on(self, matrices: pd.Series) -> pd.DataFrame:
        """The rates on the matrices that the mask selects and that any format holds."""
        return self.rates[matrices.reindex(self.rates.index, fill_value=False)].dropna(how="all")

    def need(self, *formats: str) -> None:
        """Raises _Unknown if one of these formats was tried on no matrix."""
        missing = [name for name in formats if name not in self.rates]
        if missing:
            raise _Unknown(f"{' and '.join(missing)} not measured")


@dataclass(frozen=True)
class _Found:
    """The result of a rule: true in `yes` of `of` cases; holds: the verdict; text: the numbers behind it."""

    yes: int
    of: int
    holds: bool
    text: str


def lessons(table: pd.DataFrame, slot_bytes: float = 8.0) -> pd.DataFrame:
    """Which of the survey's rules of thumb hold on a table of measurements of its formats.

    table: one row for each matrix and format tried, columns matrix, format (the survey's names), gflops (NaN if the
    format does not hold the matrix), bytes_per_nnz, break_even (against CSR, in SpMVs; inf is never), row_len_mean and
    row_len_max. slot_bytes: bytes of a slot of HDI, 8 in f64 (the survey's Table 9 counts 12).

    Returns columns lesson (a short name), claim, verdict (HOLDS, FAILS or OPEN), yes and of (cases in which the claim
    is true, cases that it is about), numbers (a sentence with the numbers behind the verdict).
    """
    held = table.assign(gflops=table["gflops"].where(table["gflops"] > 0))
    about = table.drop_duplicates("matrix").set_index("matrix")
    grid = {value: held.pivot(index="matrix", columns="format", values=value) for value in ("gflops", "bytes_per_nnz")}
    sizes = grid["bytes_per_nnz"]
    measured = _Measured(
        rates=grid["gflops"],
        unevenness=about["row_len_max"] / about["row_len_mean"],
        slots=sizes["HDI"] / slot_bytes if "HDI" in sizes else pd.Series(dtype=float),
        bytes=sizes,
        break_even=table.loc[table["format"] != "CSR", "break_even"].dropna(),
    )
    return pd.DataFrame(
        [{"lesson": name, "claim": claim} | _judged(rule, measured) for name, (claim, rule) in _RULES.items()]
    )


def _judged(rule: Callable[[_Measured], _Found], measured: _Measured) -> dict[str, object]:
    try:
        found = rule(measured)
    except _Unknown as reason:
        return {"verdict": OPEN, "yes": 0, "of": 0, "numbers": str(reason)}
    return {"verdict": HOLDS if found.holds else FAILS, "yes": found.yes, "of": found.of, "numbers": found.text}


def _mostly(kept: pd.Series, text: str, more: str = "") -> _Found:
    """A rule of thumb holds if it is true on more than half of the matrices."""
    yes, of = int(kept.sum()), len(kept)
    return _Found(yes, of, 2 * yes > of, f"{text} on {yes} of {counted(of, 'matrix')}{more}")


def _ratio(rates: pd.DataFrame, name: str, others: list[str]) -> pd.Series:
    """The rate of a format over the best rate of others, 0 if only the others hold the matrix."""
    return (rates[name].fillna(0) / rates[others].max(axis=1)).dropna()


def _diagonals(measured: _Measured) -> _Found:
    measured.need("HDI")
    others = [name for name in measured.rates if name != "HDI"]
    ratio = _ratio(measured.on(measured.slots <= FULL), "HDI", others)
    if ratio.empty:
        raise _Unknown(f"no matrix whose entries lie along diagonals (HDI at most {FULL} slots per nonzero)")
    return _mostly(ratio >= 1, "HDI is fastest", f"; median {ratio.median():.2f} times the best of the others")


def _even_rows(measured: _Measured) -> _Found:
    measured.need("ELL")
    others = [name for name in ELLPACK_LIKE if name in measured.rates and name != "ELL"]
    even = measured.unevenness <= EVEN
    ratio, rest = (_ratio(measured.on(some), "ELL", others) for some in (even, ~even))
    if ratio.empty:
        what = f"no matrix whose longest row is at most {EVEN} times the mean" if others else "nothing"
        raise _Unknown(f"{what} to compare ELL with HLL, HYB or SELL-P on")
    more = f"; median {ratio.median():.2f} of it" + (f", {rest.median():.2f} on the others" if len(rest) else "")
    return _mostly(ratio >= NEAR, f"ELL is within {percent(1 - NEAR)} of the best of {', '.join(others)}", more)


def _generalists(measured: _Measured) -> _Found:
    measured.need("HLL", "HYB")
    others = [name for name in measured.rates if name not in ("HLL", "HYB")]
    if not others:
        raise _Unknown("no format other than HLL and HYB measured")
    if measured.rates.isna().all(axis=None):
        raise _Unknown("no matrix held by any format")
    long = measured.rates.stack().rename("gflops").reset_index()
    shares = share_within(performance_profile(long), GROWTH).reindex(measured.rates.columns, fill_value=0.0)
    next_best = shares[others].idxmax()
    below = int((shares[others] < shares[["HLL", "HYB"]].min()).sum())
    text = ", ".join(f"{name} {percent(shares[name])}" for name in ("HYB", "HLL", next_best))
    text = f"share of the matrices within {GROWTH} of the fastest: {text} (the most of the others)"
    return _Found(below, len(others), below == len(others), text)


def _everything(measured: _Measured) -> _Found:
    measured.need("CSR")
    rates = measured.rates.dropna(how="all")
    if rates.empty:
        raise _Unknown("no matrix held by any format")
    kept = rates["CSR"].notna()
    missed = f", not {', '.join(kept.index[~kept][:3])}" if not kept.all() else ""
    text = f"CSR holds {int(kept.sum())} of the {counted(len(kept), 'matrix')} that any format holds{missed}"
    slowest = (rates.max(axis=1) / rates["CSR"]).max()
    return _Found(int(kept.sum()), len(kept), bool(kept.all()), f"{text}; at worst {slowest:.1f} times the best time")


def _power_law(measured: _Measured) -> pd.DataFrame:
    rates = measured.on(measured.unevenness >= POWER_LAW)
    if rates.empty:
        raise _Unknown(f"no matrix whose longest row is {POWER_LAW} times the mean or more")
    return rates


def _row_a_thread(measured: _Measured) -> _Found:
    tried = [name for name in ROW_A_THREAD if name in measured.rates]
    if not tried:
        raise _Unknown(f"{' and '.join(ROW_A_THREAD)} not measured")
    rates = _power_law(measured)
    ratio = rates[tried].max(axis=1).fillna(0) / rates.max(axis=1)
    held = ratio[ratio > 0]
    more = f"; median {held.median():.2f} of it on the {len(held)} that fit" if len(held) else ""
    text = f"{' and '.join(tried)} reach {percent(SLOW)} of the fastest at most, or do not fit,"
    return _mostly(ratio <= SLOW, text, more)


def _only_hyb(measured: _Measured) -> _Found:
    measured.need("HYB")
    if len(measured.rates.columns) < 2:
        raise _Unknown("no format other than HYB measured")
    rates = _power_law(measured)
    there, elsewhere = (
        geometric_mean(part["HYB"]) for part in (rates, measured.rates[~measured.rates.index.isin(rates.index)])
    )
    more = f"; {there:.3g} GFLOPS there" + (f", {elsewhere:.3g} on the others" if elsewhere > 0 else "")
    found = _mostly(rates["HYB"] == rates.max(axis=1), "HYB is the fastest of the survey's formats", more)
    return replace(found, holds=found.holds and not there > elsewhere / 2)


def _heavy(measured: _Measured) -> _Found:
    measured.need("HLL", "CSR")
    ratio = (measured.bytes["HLL"] / measured.bytes["CSR"]).dropna()
    if ratio.empty:
        raise _Unknown("no matrix that both HLL and CSR hold")
    yes = int((ratio > HEAVY).sum())
    text = f"HLL takes more than {HEAVY:g} times the bytes of CSR on {yes} of {counted(len(ratio), 'matrix')}; "
    return _Found(yes, len(ratio), yes > 0, f"{text}at most {ratio.max():.1f} times ({ratio.idxmax()})")


def _few_products(measured: _Measured) -> _Found:
    paid = measured.break_even
    if paid.empty:
        raise _Unknown("no break-even against CSR measured")
    late = paid > FEW
    never = paid == float("inf")
    text = (
        f"{int(late.sum())} of {len(paid)} conversions have not broken even after {FEW} products; "
        f"{int(never.sum())} never do"
    )
    return _Found(int(late.sum()), len(paid), 2 * int(late.sum()) > len(paid), text)


_RULES: dict[str, tuple[str, Callable[[_Measured], _Found]]] = {
    "diagonals": ("If entries lie along pieces of diagonals (stencils), HDI is fastest", _diagonals),
    "even rows": ("If the longest row is near the mean, ELL is as good as any ELLPACK-like format", _even_rows),
    "generalists": ("HLL and HYB are the generalists: near the fastest on more matrices than others", _generalists),
    "any matrix": ("CSR handles every matrix", _everything),
    "power law": ("Formats with one thread per row (ELL, HLL) are slow on power-law rows", _row_a_thread),
    "power law, HYB": ("For power-law rows HYB is the best, at less than half of its speed elsewhere", _only_hyb),
    "footprint": ("The footprint can be a problem even for HLL", _heavy),
    "few products": ("For a few products CSR suffices: conversions have not broken even yet", _few_products),
}
