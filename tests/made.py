"""Matrices of tests, and rows as a run writes them, of cases that no device has measured."""

import numpy as np
import pandas as pd

from spmvbench.analysis.cases import latest_cases
from spmvbench.matrices import Matrix
from spmvbench.rows import store
from spmvbench.rows.schema import blank_row


class Made(Matrix):
    """A matrix as cases have it, which is read from a function."""

    def __init__(self, make=None, name="m"):
        super().__init__("G", name, "test", "test")
        object.__setattr__(self, "make", make)

    def read(self, seed=0, complex_values="refuse"):
        return self.make()


def row(name, label, seconds, **columns):
    """A row in f64, hot, of a matrix with a million entries: verified, or skipped if it has no seconds."""
    about = {
        "run_id": "r",
        "case_id": f"{name} {label} {columns}",
        "group": "G",
        "name": name,
        "matrix_sha256": "ab",
        "nnz": 1_000_000,
        "format": label.partition("[")[0],
        "label": label,
        "source_hash": "ff",
        "dtype": "f64",
        "mode": "hot",
        "op": "spmv",
        "device": "cuda:0",
        "device_name": "GPU",
        "status": "skipped",
        "started_at": "2026-01-01T00:00:00.000000+00:00",
    }
    times = {
        "status": "ok",
        "t_median": seconds,
        "gflops": 2e-3 / (seconds or 1),
        "bytes_per_nnz": 12.0,
        "t_convert_host": 1.0,
        "t_convert_device": 0.5,
        "t_transfer": 0.25,
        "t_setup": 0.0,
    }
    return blank_row() | about | (times if seconds else {}) | columns


def write_run(folder, cases, session=(), **columns):
    """A run of these cases: (matrix, label, seconds, or a status and its reason). session: more of its metadata."""
    folder.mkdir(parents=True)
    store.append_session(folder, {"started": "2026-01-01T10:00:00"} | dict(session))
    for place, (name, label, t) in enumerate(cases):
        known = {"run_id": folder.name, "case_id": f"{name}-{label}", "sequence": place + 1, "matrix_sha256": name * 8}
        if isinstance(t, str):
            status, _, reason = t.partition(": ")
            found = row(name, label, None, status=status, reason=reason)
        else:
            found = row(name, label, t, samples=[t] * 9, repeats=1)
        store.append(folder, found | known | columns)


def rows(*given):
    """These rows as analyses take them."""
    return latest_cases(pd.DataFrame(given))


def on_some_gpu(labels, seconds, failed, status, reason=""):
    """Rows of formats that a GPU has measured: seconds of a product, and for those that failed status and reason."""
    made = dict.fromkeys(("t_convert_host", "t_transfer", "t_setup", "t_tune"), np.nan) | {"t_convert_device": 1e-3}
    return pd.DataFrame(
        {"label": labels, "format": labels, "device": "cuda:0", "device_name": "Some GPU", **made}
    ).assign(
        t_median=np.where(failed, np.nan, seconds),
        status=np.where(failed, status, "ok"),
        reason=np.where(failed, reason, ""),
    )
