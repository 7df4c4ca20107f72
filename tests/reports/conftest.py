"""Generated rows with every column filled as a run on a GPU would fill it; nothing was measured."""

import base64
import contextlib
import functools
import hashlib
import http.server
import json
import math
import re
import threading

import numpy as np
import pandas as pd
import pytest

from spmvbench.analysis.cases import latest_cases
from spmvbench.formats.arrays import Csr
from spmvbench.matrices import features, synthetic
from spmvbench.reports import figures, published, style
from spmvbench.reports.api import typed
from spmvbench.rows.schema import MATRIX_COLUMNS, blank_row

# key: (bytes of an index by entry, share of the bandwidth reached, bytes of padding grow with the row variation)
FORMATS = {
    "bcsr": (1.0, 0.75, 0.8),
    "coo-flat": (8.0, 0.60, 0.0),
    "csr-scalar": (4.0, 0.25, 0.0),
    "csr-vector": (4.0, 0.70, 0.0),
    "csr5": (4.4, 0.78, 0.0),
    "cusparse-csr-alg1": (4.0, 0.66, 0.0),
    "dia": (0.0, 0.80, 9.0),
    "ell": (4.0, 0.82, 5.0),
    "hyb": (4.6, 0.80, 0.4),
    "sell-c-sigma": (4.2, 0.84, 0.6),
}
TILE_FORMATS = {
    "csr-vector": FORMATS["csr-vector"],
    "csr5": FORMATS["csr5"],
    "cusparse-bsr": (1.0, 0.60, 0.9),
    "merge-csr": (4.0, 0.74, 0.0),
    "tile": (2.2, 0.80, 0.1),
    "tile-csr": (3.0, 0.62, 0.2),
    "tile-deferred-coo": (2.4, 0.82, 0.1),
}
FASTLOAD_FORMATS = {
    "csc-warp": (4.0, 0.30, 0.0),
    "csr-vector": FORMATS["csr-vector"],
    "csr5": FORMATS["csr5"],
    "cusparse-csr-alg1": FORMATS["cusparse-csr-alg1"],
    "fastload": (4.5, 0.50, 0.0),
    "tile-deferred-coo": TILE_FORMATS["tile-deferred-coo"],
    "two-phase": (8.5, 0.65, 0.0),
}
# (height, optimized), and time over that of height 1
FASTLOADS = {("none", False): 3.0, ("2", False): 1.01, ("8", False): 1.1, ("1", True): 0.8}
EHYB_FORMATS = {
    "csr-vector": FORMATS["csr-vector"],
    "csr5": FORMATS["csr5"],
    "cusparse-csr-alg1": FORMATS["cusparse-csr-alg1"],
    "ehyb": (2.4, 0.86, 0.3),
    "ehyb-rcm": (2.6, 0.80, 0.5),
}


def with_both_kernels(rows, *keys):
    """The rows, and those of these keys once more as of their authors' kernels."""
    theirs = [rows[rows["label"] == key].assign(label=f"{key}[kernel=paper]") for key in keys]
    return pd.concat([rows, *theirs], ignore_index=True)


TILES = ("csr", "coo", "ell", "hyb", "dns", "dns_row", "dns_col")
TILE_SET = {"TSOPF": "TSOPF_RS_b2383", "Williams": "cant", "GHS_indef": "exdata_1", "Andrianov": "mip1"}
HASH = "0123456789abcdef"


def generated_rows(matrices=30, formats=None, device="cuda:0", seed=0):
    """matrices x formats x (f64, f32) x (hot, cold): mostly ok, some skipped, a few wrong, a timeout, an unread one."""
    rng = np.random.default_rng(seed)
    formats = formats or FORMATS
    rows = []
    emulated = device == "emulated"
    for m in range(matrices):
        nnz = int(10 ** rng.uniform(3, 8))
        mean = 10 ** rng.uniform(0.4, 2)
        cv = float(rng.choice([0.0, 0.2, 0.5, 1.5, 6.0]))
        n = max(1, int(nnz / mean))
        about = {
            "run_id": "generated",
            "group": ["HB", "Oberwolfach", "SNAP"][m % 3],
            "name": f"matrix{m:04}",
            "matrix_sha256": f"{m * 7919 + 1:x}".ljust(64, "5"),
            "kind": ["structural problem", "model reduction", "directed graph"][m % 3],
            "rows": n,
            "cols": n,
            "nnz": nnz,
            "row_len_mean": nnz / n,
            "row_len_max": int(mean * (1 + 3 * cv)) + 1,
            "row_len_std": cv * nnz / n,
            "row_len_cv": cv,
            "op": "spmv",
            "device": device,
            "device_name": "a processor" if emulated else "NVIDIA H200",
            "sm_clock_mhz": float("nan") if emulated else 1980.0 - m % 3 * 15,
            "started_at": f"2026-03-{1 + m % 28:02}T10:00:00.000000+00:00",
        }
        for key, (index, share, padding) in formats.items():
            luck = rng.lognormal(0, 0.15)
            for dtype, size in (("f64", 8), ("f32", 4)):
                for mode in ("hot", "cold"):
                    row = blank_row() | about
                    row |= {
                        "case_id": f"{m}-{key}-{dtype}-{mode}-{device}",
                        "format": key,
                        "label": f"{key}[C=32]" if key.startswith("sell") else key,
                        "params": json.dumps({"C": 32} if key.startswith("sell") else {}),
                        "source_hash": HASH,
                        "dtype": dtype,
                        "mode": mode,
                    }
                    held = (size + index) * (1 + padding * cv)
                    if padding * cv > 12:
                        needed = int(held * nnz)
                        row |= {
                            "status": "skipped",
                            "reason": f"{needed / 1e9:.3g} GB for {nnz:,} nonzeros, over the limit",
                        }
                        row |= {"bytes_needed": needed}
                    elif key == "csr5" and m == 7:
                        row |= {
                            "status": "wrong",
                            "reason": "entry 12 of y is off by 4.1 times its bound",
                            "error_ratio": 4.1,
                        }
                        row |= {"gflops": 9999.0, "t_median": 1e-9}
                    elif key == "csr-scalar" and m == 11:
                        row |= {"status": "timeout", "reason": "over 60 s while timing hot"}
                    else:
                        footprint = int(held * nnz) + 4 * n
                        moved = footprint + 2 * size * n
                        bandwidth = 4.2e12 * share * luck * (1.3 if mode == "hot" and nnz < 4e6 else 1)
                        t = moved / bandwidth * (1 + (cv if "scalar" in key else 0)) + 2e-6
                        t *= 2e4 if emulated else 1
                        convert = (0.1 if key.startswith(("csr", "cusparse")) else 2 + 20 * padding) * 1e-9 * nnz
                        row |= {
                            "status": "ok",
                            "t_median": t,
                            "t_q1": t * 0.999,
                            "t_q3": t * 1.001,
                            "n_samples": 30,
                            "samples": [t] * 30,
                            "repeats": 10,
                            "gflops": 2e-9 * nnz / t,
                            "gbps": 1e-9 * moved / t,
                            "model_bytes": moved,
                            "bytes_format": footprint,
                            "bytes_per_nnz": footprint / nnz,
                            "t_convert_host": convert * 20 + 1e-5,
                            "t_convert_device": float("nan") if emulated else convert + 1e-5,
                            "t_transfer": float("nan") if emulated else footprint / 2e10,
                            "t_setup": 1e-5 if key.startswith("cusparse") else 0.0,
                            "t_compile": 0.4,
                            "t_spmv_host": 1e-9 * nnz + 1e-6,
                            "t_kernels": json.dumps({"ell": 0.7 * t, "coo": 0.2 * t})
                            if (key, mode) == ("hyb", "hot")
                            else "",
                            "error_ratio": 0.05,
                            "launches": 1,
                            "work": 2 * nnz,
                            "x_sectors": 0.5,
                            "x_lines": 0.4,
                            "bound_gflops": 3e-9 * nnz / t,
                            "bound_by": "gathers" if m % 2 else "bytes",
                            "near_launch_overhead": not emulated and t < 3e-6,
                        }
                        if mode == "hot" and not emulated:
                            row |= {"same_bits": "no" if key == "hyb" else "yes", "float_atomics": "no"}
                            row |= {"t_update": math.nan if key == "hyb" else 2 * t}
                            row |= {"energy": 500 * t, "energy_low": 490 * t, "energy_high": 510 * t}
                    rows.append(row)
    unread = blank_row() | {
        "run_id": "generated", "case_id": "unread", "group": "Broken", "name": "archive", "label": "ell",
        "format": "ell", "dtype": "f64", "mode": "hot", "op": "spmv", "device": device, "status": "skipped",
        "reason": "the archive is cut short", "started_at": "2026-03-01T09:00:00.000000+00:00",
        "device_name": rows[0]["device_name"],
    }  # fmt: skip
    return typed(pd.DataFrame([*rows, unread]))


ENVIRONMENT = {
    "started": "2026-03-01T09:00:00",
    "device": "cuda:0",
    "kind": "cuda",
    "properties": {
        "device_name": "NVIDIA H200",
        "architecture": "sm_90",
        "multiprocessors": 132,
        "l2_bytes": 62914560,
        "memory_bytes": 150754820096,
        "driver": "570.133.20",
        "max_sm_clock_mhz": 1980,
    },
    "launch_overhead": {"hot": 1.6e-6, "cold": 2.1e-6},
    "read_bandwidth_gbps": 4210.5,
    "host": {"cpu": "a processor", "cores": 16},
    "versions": {"spmvbench": "0.1.0", "numpy": "2.4.0"},
}
ENVIRONMENT["sessions"] = [dict(ENVIRONMENT)]


@pytest.fixture(scope="session")
def rows():
    return generated_rows()


@pytest.fixture(scope="session")
def tile_rows():
    """Rows of the tile formats and their rivals; four matrices are of the paper's 16."""
    table = generated_rows(24, TILE_FORMATS, seed=1)
    rng = np.random.default_rng(2)
    for m, (group, name) in enumerate(TILE_SET.items()):
        table.loc[table["name"] == f"matrix{m:04}", ["group", "name"]] = group, name
    for _, matrix in table[table["format"].isin(["tile", "tile-deferred-coo"])].groupby("name"):
        of_tile, of_nnz = rng.dirichlet([1, 4, 1, 0.5, 0.3, 0.1, 0.1]), rng.dirichlet([2, 1, 1, 0.5, 1.5, 0.1, 0.1])
        detail = {
            "tiles": 1000,
            "tile_share": dict(zip(TILES, of_tile.tolist(), strict=True)),
            "nnz_share": dict(zip(TILES, of_nnz.tolist(), strict=True)),
            "schedule_bytes": 800,
        }
        table.loc[matrix.index, "detail"] = json.dumps(detail)
    return table


SURVEY_KEYS = {
    "CSR": "csr-rg", "JSR": "csr-jsr", "HDI": "hdi", "ELL": "ell-psblas", "HLL": "hll", "HYB": "hyb",
    "SELL-P": "sell-p",
}  # fmt: skip
NOT_IN_RUN = ("Janna/Cube_Coup_dt0", "Fluorem/RM07R")
WRONG = ("Williams/cant", "SELL-P")


def survey_run():
    """The survey's matrices and formats as a run would have them that is 20 times as fast as the K40M on every one."""
    template = generated_rows(1, {"csr-vector": FORMATS["csr-vector"]}).iloc[0].to_dict()
    rows = []
    for m in published.get("survey-k40m").rows.itertuples():
        if m.matrix in NOT_IN_RUN:
            continue
        group, _, name = m.matrix.partition("/")
        for dtype, factor in (("f64", 20.0), ("f32", 30.0)):
            t = 2e-9 * m.nnz / (factor * m.gflops)
            key = SURVEY_KEYS[m.format]
            row = template | {
                "case_id": f"{m.matrix}-{key}-{dtype}", "group": group, "name": name, "format": key, "label": key,
                "matrix_sha256": hashlib.sha256(m.matrix.encode()).hexdigest(), "dtype": dtype, "mode": "hot",
                "rows": m.rows, "cols": m.rows, "nnz": m.nnz, "row_len_mean": m.row_len_mean,
                "row_len_max": m.row_len_max, "row_len_cv": (m.row_len_max / m.row_len_mean - 1) / 4,
                "t_median": t, "gflops": factor * m.gflops, "bytes_per_nnz": m.bytes_per_nnz,
                "model_bytes": int((m.bytes_per_nnz if m.bytes_per_nnz > 0 else 13) * m.nnz) + 16 * m.rows,
                "t_convert_device": 5e-12 * m.nnz * (1 if m.format == "CSR" else 8),
            }  # fmt: skip
            if not t > 0:
                row |= {"status": "skipped", "reason": f"{m.nnz * 99 / 1e9:.1f} GB, over the limit of 112 GB"}
                row |= {"t_median": math.nan, "gflops": math.nan, "bytes_per_nnz": math.nan}
            if (m.matrix, m.format) == WRONG:
                row |= {"status": "wrong", "reason": "entry 3 of y is off", "gflops": 9999.0, "t_median": 1e-9}
                row |= {"bytes_per_nnz": 9999.0}
            rows.append(row)
    return pd.DataFrame(rows)


def descriptions(rows, specs=("pde:9", "fem:5:2", "uniform:500:7", "powerlaw:3000:6", "denserow:1500")):
    """What a run would keep of these rows' matrices, as small generated ones look."""
    looks = [features.description(Csr.of(synthetic.generate(spec))) for spec in specs]
    hashes = sorted(set(rows["matrix_sha256"]) - {""})
    return pd.DataFrame(
        blank_row(MATRIX_COLUMNS) | {"matrix_sha256": sha} | looks[place % len(looks)]
        for place, sha in enumerate(hashes)
    )


@pytest.fixture(scope="session")
def survey_rows():
    return survey_run()


@pytest.fixture(scope="session")
def matrices(rows, survey_rows):
    return descriptions(pd.concat([rows, survey_rows]))


@pytest.fixture(scope="session")
def fastload_rows():
    """Rows of FastLoad with several heights, its experiment and its rivals.

    Of 24 matrices 16 are of two groups of the paper's, the others generated ones.
    """
    table = generated_rows(24, FASTLOAD_FORMATS, seed=3)
    table["group"] = table["group"].replace({"Oberwolfach": "Bai", "SNAP": "synthetic"})
    right, trial, plain = table["status"] == "ok", table["format"] == "two-phase", table["format"] == "fastload"
    table.loc[right, "bytes_peak"] = 3 * table["bytes_format"]
    table.loc[trial, "experiment"] = True
    shares = {"clear": 0.05, "gather": 0.05, "multiply": 0.3, "rearrange": 0.4, "add": 0.2}
    parts = table["t_median"].map(lambda t: json.dumps({part: share * t for part, share in shares.items()}))
    table.loc[trial & right & (table["mode"] == "hot"), "t_kernels"] = parts
    table.loc[plain, "params"] = json.dumps({"height": "1", "optimized": False})
    variants = [
        table[plain].assign(
            label="fastload[optimized=true]" if optimized else f"fastload[height={height}]",
            params=json.dumps({"height": height, "optimized": optimized}),
            t_median=table["t_median"] * times,
            gflops=table["gflops"] / times,
        )
        for (height, optimized), times in FASTLOADS.items()
    ]
    return pd.concat([table, *variants], ignore_index=True)


def of_operation(rows, key, op, times, work=None):
    """Rows of one format as another would have them that runs an operation, in so many times the time."""
    searches = op.startswith("bfs")
    rows = rows[(rows["format"] == "csr-vector") & (rows["status"] == "ok")]
    rows = rows[rows["dtype"] == "f32"].assign(dtype="pattern") if searches else rows
    work = 2 * rows["nnz"] if work is None else work * rows["nnz"]
    return rows.assign(
        case_id=[f"{case}-{key}-{op}" for case in rows["case_id"]],
        format=key.partition("[")[0],
        label=key,
        op=op,
        t_median=times * rows["t_median"],
        work=work,
        gflops=1e-9 * work / (times * rows["t_median"]),
        t_convert_device=4 * times * rows["t_median"],
        model_bytes=0,
        gbps=math.nan,
    )


SEARCH_TIMES = {
    "tile-bfs": 4.0,
    "tile-bfs[kernels=1]": 16.0,
    "tile-bfs[kernels=12]": 8.0,
    "bfs-push": 6.0,
    "bfs-do": 2.0,
}


@pytest.fixture(scope="session")
def sparse_rows():
    """Rows of SpMV, of SpMSpV at four densities and of searches from two sources; four matrices are the paper's."""
    table = generated_rows(8, {key: TILE_FORMATS[key] for key in ("csr-vector", "merge-csr", "tile")}, seed=7)
    named = ("Williams/cant", "SNAP/roadNet-TX", "GHS_psdef/audikw_1", "Williams/pdb1HYS")
    for m, matrix in enumerate(named):
        table.loc[table["name"] == f"matrix{m:04}", ["group", "name"]] = matrix.split("/")
    plain, found = table, [table]
    for exponent, density in enumerate((0.1, 0.01, 0.001, 0.0001), start=1):
        for key, times in (("tile-spmspv", 0.5), ("spmspv-csc-atomic", 0.25)):
            found.append(of_operation(plain, key, f"spmspv@{density}", times / exponent))
    for source in range(2):
        for key, times in SEARCH_TIMES.items():
            rows = of_operation(plain, key, f"bfs@{source}", (1 + source) * times, work=2)
            if source == 0 and key in ("tile-bfs", "bfs-do"):
                levels = {"level_seconds": [1e-6, 5e-6, 2e-6], "level_kernel": [1, 2, 3], "level_found": [9, 90, 8]}
                rows = rows.assign(detail=json.dumps({"source": 3} | levels))
            found.append(rows)
    return pd.concat(found, ignore_index=True)


@pytest.fixture(scope="session")
def emulated_rows():
    return generated_rows(6, {key: FORMATS[key] for key in ("csr-vector", "ell", "hyb", "coo-flat")}, device="emulated")


@pytest.fixture(scope="session")
def environment():
    return ENVIRONMENT


@pytest.fixture(scope="session")
def ehyb_rows():
    """Rows of EHYB and its rivals but merge-csr and cuSPARSE's second algorithm; two matrices of the paper's set."""
    table = generated_rows(20, EHYB_FORMATS, seed=5)
    for m, matrix in enumerate(("DNVS/ship_003", "Janna/Hook_1498")):
        table.loc[table["name"] == f"matrix{m:04}", ["group", "name"]] = matrix.split("/")
    ours = table["format"].isin(["ehyb", "ehyb-rcm"])
    table.loc[ours, "detail"] = [json.dumps({"partition_s": 400 * t}) for t in table.loc[ours, "t_median"]]
    table.loc[ours, "t_convert_device"] = 50 * table.loc[ours, "t_median"]
    return table


def _latest(rows):
    """A fixture: the latest cases of the rows of another one."""
    return pytest.fixture(scope="session")(lambda request: latest_cases(request.getfixturevalue(rows)))


ready, tiled, loaded, surveyed, partitioned, sparse = map(
    _latest, ("rows", "tile_rows", "fastload_rows", "survey_rows", "ehyb_rows", "sparse_rows")
)


def figure_of(name):
    """The figure of a name of `--figures`."""
    (found,) = figures.choose([name])
    return found


def words(name, table, options):
    """All words of a figure of this table: above it, titles, legend, in its panels and at its axes."""
    with style.theme():
        picture = figure_of(name).draw(table, options)
        picture.canvas.draw()
    texts = [text for part in picture.legends for text in part.get_texts()]
    for ax in picture.axes:
        texts += [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    titles = [ax.get_title(loc="left") for ax in picture.axes]
    return "\n".join([picture.get_suptitle(), *titles, *(text.get_text() for text in texts)])


class Family:
    """The figures of a paper, with the marks that its tests give them."""

    def __init__(self, name, *marked):
        self.name = name
        marks = style.marks(["csr-vector", *marked], "csr-vector")
        self.options = figures.Options("csr-vector", marks, environment=ENVIRONMENT)

    def figure(self, name):
        return figure_of(f"{self.name}-{name}")

    def data(self, name, rows):
        return figures.table_of(self.figure(name), rows, self.options)

    def words(self, name, rows):
        return words(f"{self.name}-{name}", self.data(name, rows), self.options)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(folder):
    """The address of a folder over HTTP."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def unrendered(monkeypatch):
    """Figures are drawn but not laid out and not turned into pictures, which takes most of the time.

    test_figures.py does that with each.
    """
    monkeypatch.setattr(style, "rendered", lambda figure, kind: b"<svg />")


def data_of(text):
    """The numbers behind the page's figures and its table of matrices."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    packed = sum(len(column[1]) for column in data["cases"].values())
    data["cases"] = {name: unpacked(*column) for name, column in data["cases"].items()}
    assert packed <= 30 * len(data["cases"]["matrix"]) + 100  # in base64
    return data


def unpacked(kind, text, low=None, step=None):
    name = kind.removesuffix("Array").lower()
    values = np.frombuffer(base64.b64decode(text), np.dtype(name).newbyteorder("<"))
    if step is None:
        return values
    return np.select([values > 1, values == 1], [np.exp(low + (values - 2.0) * step), 0.0], np.nan)
