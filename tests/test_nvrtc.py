"""Every kernel instantiation that a format can launch compiles for the architectures we promise, without a GPU.

The emulated device is laxer than NVRTC (atomicAdd on unsigned long, min(1, 2ll), standard headers).
"""

import itertools
import os
import re
import sys
from collections import defaultdict
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from spmvbench import formats, paths
from spmvbench.devices import cuda, nvrtc
from spmvbench.devices.base import DeviceFault, DeviceUnavailable
from spmvbench.formats import Csr, Launch, Skip, single_steps
from spmvbench.formats.dependencies import check_sources
from spmvbench.formats.precision import PRECISIONS
from spmvbench.testing import hard_matrices, suited, vectors
from tests.formats.rows import with_long_pointers
from tests.kept import contents, formats_text, keep

# Launched by the bench itself, to measure the device, and by converters on it.
OWN = {
    "vector.cu": {"empty<0>", "copy<double2>", "read<double2>"},
    "hold.cu": {"hold"},
    "repeat.cu": {"repeat"},
    "checksum.cu": {"checksum<0>"},
    "discard.cu": {"discard"},
    "multivector.cu": {
        f"{kernel}<{v}, {n}>"
        for kernel in ("pack_rows", "unpack_rows", "pack_columns", "unpack_columns")
        for v in ("double", "float")
        for n in (1, 2, 8, 33)
    },
    "solve/scaled_add.cu": {f"scaled_add<{v}, {keep}>" for v in ("double", "float") for keep in ("false", "true")},
    "solve/refill.cu": {
        kernel.format(v)
        for v in ("double", "float")
        for kernel in ("refill<{}, int, unsigned short, 4>", "refill<{}, long long, int, 8>", "refill_all<{}>")
    },
    "solve/cg.cu": {
        *(
            kernel.format(v, jacobi, stops)
            for v in ("double", "float")
            for jacobi in ("false", "true")
            for stops in ("false", "true")
            for kernel in (
                *("cg_begin<{2}>", "cg_start<{}, {}, false>", "cg_start<{}, {}, true>"),
                *("cg_dot<{0}, {2}>", "cg_update<{}, {}, {}>", "cg_direction<{}, {}, {}>"),
            )
        ),
    },
    "solve/pdhg.cu": {f"pdhg_start<{v}, float>" for v in ("double", "float")},
    "epilogue.cu": {
        f"epilogue_{rows}<{v}, {update}<{v}, float>>"
        for rows in ("all", "rows")
        for v in ("double", "float")
        for update in ("Primal", "Dual")
    },
    "csr/csr5.cu": {"csr5_fused_coded<double, int, 4, 4, 0, unsigned char, double, Dual<double, float>>"},
    "kept/dia.cu": {"dia_spmv<double, false>", "dia_spmv<float, true, f16>"},
    "partly_kept/dia.cu": {"dia_spmv<double, false>", "dia_spmv<float, true, f16>"},
    "partly_kept/pieces.cu": {"cds_spmv<double, 3, 1, false>"},
    "kept/crsd.cu": {
        "crsd_spmv<float, int, false>",
        "crsd_generated<double, int, false, Pattern<Group<-1, 3>>>",
    },
    "csr/csr.cu": {"csr_vector<double, int, 4, 2, 1, double, Dual<double, float>>"},
    "dia/row_patterns.cu": {"row_patterns_spmv<double, unsigned char, false, Primal<double, float>>"},
    "ellpack/sell_coded.cu": {"sell_pack_spmv<float, int, true, Dual<float, float>>"},
    "solve/pagerank.cu": {
        "pagerank_check<0>",
        *(
            f"pagerank_{kernel}<{v}, {stops}>"
            for v in ("double", "float")
            for stops in ("false", "true")
            for kernel in ("start", "step")
        ),
    },
    "dense_blocks/block_convert.cu": {
        *(
            "slice_steps<int, false, true, int>",
            "slice_steps<long long, true, false, long long>",
            "high_slice_steps<int, false, int>",
            "high_slice_steps<long long, true, long long>",
        ),
        *(f"count_shapes<{index}, {r}, {c}>" for index in ("int", "long long") for r, c in ((175, 175), (4, 175))),
        *("add_shapes<175, 175>", "sort_shapes<175, 175>"),
        *("count_parts<3, int, int>", "count_parts<32, long long, long long>"),
        *(
            "fill_parts<3, double, int, int, int, unsigned char, false, false>",
            "fill_parts<1, double, long long, long long, long long, unsigned int, true, true>",
            "fill_parts<32, float, long long, int, int, unsigned int, true, true>",
        ),
    },
    "row_numbers.cu": {f"row_numbers<{index}>" for index in ("int", "long long")},
    "load_balanced/chain.cu": {"chain_exits", "chain_enters", "chain_places<false>", "chain_places<true>"},
    "load_balanced/adaptive_convert.cu": {
        *(f"{kernel}<{index}>" for kernel in ("adaptive_regions", "adaptive_parts") for index in ("int", "long long")),
        *(f"adaptive_following<int, {regions}>" for regions in ("false", "true")),
        *("adaptive_following<long long, true>", "adaptive_cut<int>", "adaptive_cut<long long>"),
    },
    "cache_blocking/hub_convert.cu": {"hub_count", "hub_used", "hub_columns"},
    "cache_blocking/window_convert.cu": {
        *("window_slices<int, false>", "window_slices<long long, true>", "window_chunks"),
        *("window_tables", "window_fill<double, int, false>", "window_fill<float, long long, true>"),
    },
    "load_balanced/balanced_convert.cu": {
        *(f"mgpu_codes<{index}, 128, {items}>" for index in ("int", "long long") for items in (3, 13)),
        *(f"merbit_fields<{index}, {sigma}>" for index in ("int", "long long") for sigma in (5, 14, 15, 42)),
        *(f"cut_rows<{cut}, {index}>" for cut in ("ENTRIES", "OWNERS", "MERGE") for index in ("int", "long long")),
    },
    "dense_blocks/bccoo_convert.cu": {
        "bccoo_pack<double, unsigned short, unsigned char, int, false>",
        "bccoo_pack<float, int, unsigned int, long long, true>",
        *(f"slice_rows<{index}>" for index in ("int", "long long")),
        *("slice_entries<double, int>", "slice_entries<float, long long>"),
    },
    "dense_blocks/strips_convert.cu": {
        *(f"strips_{by}<{kinds}>" for by in ("sweep", "program") for kinds in ("int, 4, false", "long long, 1, true")),
        *("strips_fill<double, int, int, 4>", "strips_fill<float, long long, long long, 1>"),
    },
    "csr/csr5_convert.cu": {
        *(f"csr5_convert<{value}, int, {sigma}>" for value in ("double", "float") for sigma in (4, 17, 32)),
        *("csr5_convert<double, long long, 32>", "csr5_empty_offsets<int, 4>", "csr5_empty_offsets<long long, 32>"),
    },
    "csc/csc_convert.cu": {f"csc_pointers<{index}>" for index in ("int", "long long")},
    "cache_blocking/fastload_convert.cu": {
        f"fastload_{kernel}>"
        for index in ("int", "long long")
        for kernel in (f"blocks<{index}, true", f"blocks<{index}, false", f"formats<{index}")
    },
    "dia/dia_convert.cu": {
        *("dia_list", "dia_sizes<int>", "dia_sizes<long long>", "dia_rest<double, int, int>"),
        *("cds_see<int>", "cds_see<long long>", "cds_count", "cds_list"),
        *("dia_take<double, int, true>", "dia_take<float, long long, false>", "dia_rest<float, long long, int>"),
        *("hdi_parts<int, int>", "hdi_count<int, int, int>", "hdi_count<long long, int, long long>"),
        *("hdi_fill<double, int, int, int>", "hdi_fill<float, long long, int, long long>"),
    },
    "ellpack/pack_convert.cu": {
        *(f"pack_bits<{value}>" for value in ("double", "float")),
        *("pack_slots<int, false>", "pack_slots<long long, true>"),
        *("pack_fill<double, int, int, false>", "pack_fill<float, int, long long, true>"),
    },
    "ellpack/jad_convert.cu": {
        *(f"{kernel}<{index}>" for kernel in ("jad_keys", "jad_sizes") for index in ("int", "long long")),
        *("jad_fill<double, int, int>", "jad_fill<float, int, long long>", "jad_fill<double, long long, long long>"),
    },
    "ellpack/sell_convert.cu": {
        *("sell_slots<int, false, true, int>", "sell_slots<long long, true, false, long long>", "sell_var_cuts<int>"),
        *(f"sell_local_slots<{kinds}, int>" for kinds in ("int, 2, false", "long long, 1, true", "int, 0, false")),
        *("sell_fill<double, int, int, false>", "sell_fill<float, long long, long long, true>"),
        *("ell_fill<double, int, true>", "ell_fill<float, long long, false>"),
        *("sell_var_fill<double, int, int>", "sell_local_fill<float, int, int, true>", "warps_fill<double, int, int>"),
        *("warps_cut<int, int>", "warps_cut<long long, long long>"),
    },
    # Their rows have more entries than the matrices below have columns.
    "csr/acsr.cu": {"launch_row_grids<double, int, 256, 5>", "launch_row_grids<float, long long, 256, 5>"},
    "ellpack/sell_local.cu": {"sell_local_spmv<float, int, 1, 1, 256, false, false, float, Primal<float, float>>"}
    | {
        f"sell_local_long<{value}, int, {pieces}, {threads}, {rows}, {wide}, {wide}, {index}>"
        for value, pieces, threads, rows, wide, index in (
            ("double", 1, 1, 256, "false", "int"),
            ("float", 2, 4, 32, "true", "long long"),
            ("double", 2, 32, 32, "true", "int"),
        )
    },
    "csr/rows_convert.cu": {
        *("rows_by_length<int, 4096>", *(f"sort_windows<{i}>" for i in ("int", "long long"))),
        *("order_counts<int, true>", "order_counts<long long, false>"),
        *("order_pass<int, true, false>", "order_pass<long long, false, true>"),
        *("order_inverse", "rows_of_classes<int>"),
        *("listed_counts<int, int>", "listed_entries<double, int, int>"),
        *("pieces_count<int, int>", "pieces_cut<int, int>", "pieces_cut<long long, int>", "pieces_place<int, int>"),
    },
    "check_csr.cu": {"check_csr<double, int>", "check_csr<float, long long>"},
    "offsets.cu": {f"offsets<{count}, {ptr}>" for count in ("int", "long long") for ptr in ("int", "long long")},
    "take_convert.cu": {
        *(f"take_counts<{index}, {index}>" for index in ("int", "long long")),
        *(
            "take_entries<double, int, int, true>",
            "take_entries<float, long long, int, false>",
            "take_owners<long long>",
        ),
        *("filled_counts<int, int>", "filled_rows<int, int>", "filled_rows<long long, int>"),
        *("align_counts<int, int>", "align_entries<double, int, int>", "align_entries<float, long long, int>"),
    },
    "cache_blocking/irregular.cu": {
        "look_at_columns",
        "look_at_counts",
        *(f"look_at_rows<{index}>" for index in ("int", "long long")),
    },
    "cache_blocking/sweep_convert.cu": {
        *(f"sweep_{kernel}<{index}>" for kernel in ("cut", "count") for index in ("int", "long long")),
        *("sweep_split<double, int>", "sweep_split<float, long long>"),
        *("sweep_places<double>", "sweep_places<float>"),
    },
    "compressed/bro_convert.cu": {
        *("bro_widths<int, int, true>", "bro_fill<double, int, int, true>", "bro_fill<float, long long, int, false>"),
        *("bro_longer<int>", "bro_rounds<int, int, false, int>", "bro_rounds<long long, int, true, int>"),
        *("bro_round_widths<int, int, true, int, int>", "bro_round_fill<float, long long, int, true, int>"),
    },
    "lane_packing/lane_convert.cu": {
        *("lane_pieces<int>", "lane_pieces<long long>", "lane_following"),
        *("lane_steps<long long, true, int>", "lane_steps<int, false, long long>"),
        *("lane_fill<double, int, int, false>", "lane_fill<float, long long, long long, true>"),
    },
    "tile/tile_convert.cu": {
        "sum_room",
        *(
            f"{kernel.format(index)}>"
            for index in ("int", "long long")
            for kernel in (
                *("count_room<unsigned int, {}, true, false", "count_room<unsigned long long, {}, false, true"),
                *("pack_tiles<double, int, {}, true, false", "pack_tiles<float, {0}, {0}, false, true"),
                "count_marks<unsigned int, {}",
                *("take_marked<float, int, {}", "take_marked<double, {}, int"),
            )
        ),
    },
}


# Converters move values of 16 bits, too. Kernels of formats that are of one type get none.
OWN |= {
    source: kernels | {re.sub("double|float", "f16", kernel) for kernel in kernels}
    for source, kernels in OWN.items()
    if source.endswith("_convert.cu") and not source.startswith("tile/")
}
MIXED = [PRECISIONS[name] for name in ("f32/f64", "f16/f32", "bf16/f32")]


def regular_matrices(row_lengths):
    """A small matrix for every mean row length at which a rule may pick other template arguments."""
    seed = np.random.default_rng(0)
    for row_length in row_lengths:
        yield scipy.sparse.random_array((96, 96), density=row_length / 96, format="csr", rng=seed)


def settings(cls):
    """The defaults, and every choice of every parameter with the others at their defaults."""
    yield {}
    for name, parameter in cls.parameters().items():
        values = parameter.choices or ((False, True) if isinstance(parameter.default, bool) else ())
        ends = () if values else (parameter.low, parameter.high)
        for value in (*values, *(end for end in ends if end is not None)):
            yield {name: value}


@pytest.fixture(scope="session")
def instantiations():
    """As `found_instantiations`, which takes seconds of arithmetic on what the package's own text decides."""
    texts = (formats_text(), contents([Path(__file__)]))
    listed = keep("launched", texts, lambda: {k: sorted(v) for k, v in found_instantiations().items()})
    return {source: set(kernels) for source, kernels in listed.items()}


def found_instantiations():
    """Name expressions by kernel file, over all formats, matrices, value types, pointer types and parameters."""
    found = defaultdict(set, {source: set(kernels) for source, kernels in OWN.items()})
    regular = [Csr.of(a) for a in regular_matrices((1, 2, 4, 8, 16, 32, 64))]
    inputs = [a.astype(np.float64) for a in regular]
    inputs += [with_long_pointers(a.astype(np.float32)) for a in regular]
    # Types of values and of pointers are crossed where the parameters are the defaults.
    odd = [a.astype(np.float32) for a in regular]
    odd += [with_long_pointers(a) for a in regular]
    odd += [Csr.of(a).astype(dtype) for a in hard_matrices().values() for dtype in (np.float64, np.float32)]
    for cls in map(formats.get, formats.keys()):
        if "emulated" not in cls.devices:
            continue  # a vendor's format: calls that need a GPU in place of kernels
        for params in settings(cls):
            for a in inputs if params else (*inputs, *odd):
                try:
                    fmt = cls.converted(a, **params)
                    launches = [*fmt.launches(*vectors(cls, a))]
                except Skip:
                    continue
                if cls.op == "spmv" and cls.transposes():
                    with suppress(Skip):
                        launches += fmt.transposed(*reversed(vectors(cls, a)))
                check_sources(cls, launches)
                for launch in single_steps(launches):
                    if isinstance(launch, Launch):
                        found[launch.source].add(launch.kernel)
        if cls.op == "spmv":
            for launch in mixed_launches(cls):
                found[launch.source].add(launch.kernel)
    return found


def mixed_launches(cls):
    """What a format launches for narrower values than vectors, y = A^T x included; nothing if it refuses them."""
    hard = hard_matrices()
    for name, precision in itertools.product(("uniform 8", "power law", "3x3 blocks"), MIXED):
        a = precision.rounded(suited(cls, hard[name]))
        with suppress(Skip):
            fmt = cls.from_csr(precision.stored(a))
            x, y = vectors(cls, a)
            yield from only_launches(precision.launches(fmt.launches(x, y)))
            if cls.transposes():
                yield from only_launches(precision.launches(fmt.transposed(y, x)))


def only_launches(steps):
    return [step for step in single_steps(steps) if isinstance(step, Launch)]


def ends(listed):
    """The first and the last instantiation of every kernel of a file's list."""
    kernels = groupby(sorted(listed), lambda name: name.partition("<")[0])
    groups = [list(group) for _, group in kernels]
    return {name for group in groups for name in (group[0], group[-1])}


def others(listed):
    """All the instantiations that `ends` leaves out, and one that it has."""
    found = ends(listed)
    return listed - found | {min(found)}


# Older architectures differ from the newest in what headers choose, not in template arguments. The only choices
# are made at 8.0, for which PTX stands, and at 9.0, for which machine code of the newest does.
CHOICES = [("sm_90", ends), ("compute_90", others), ("compute_80", ends), ("sm_75", ends)]


def test_headers_choose_at_compute_capabilities_8_and_9_alone():
    texts = [path.read_text(encoding="utf-8") for path in paths.kernels().rglob("*.cu*")]
    assert {found for text in texts for found in re.findall(r"__CUDA_ARCH__ *([<>=]+ *\d+)", text)} == {
        ">= 800",
        "< 800",
        ">= 900",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "chosen"), CHOICES)
@pytest.mark.parametrize(
    "source", sorted(path.relative_to(paths.kernels()).as_posix() for path in paths.kernels().rglob("*.cu"))
)
def test_instantiations_compile(source, arch, chosen, instantiations, monkeypatch):
    """The ends of each kernel's list as machine code, barely optimized; all others as far as PTX.

    What template arguments decide (types, static_assert) shows by then, in a tenth of the time. Optimizing refuses
    nothing and takes as long again; a GPU's own tests run what it makes.
    """
    if nvrtc.version() >= (13, 0):
        options = nvrtc.nvrtc_options
        monkeypatch.setattr(nvrtc, "nvrtc_options", lambda arch: [*options(arch), "--Ofast-compile=max"])
    assert instantiations.get(source), f"no format launches a kernel of {source}"
    expressions = sorted(chosen(instantiations[source]))
    file = paths.kernels() / source

    def compile():
        code, names, _ = nvrtc.compile(file, expressions, arch)
        return code[:4].hex(), names

    files = contents([file, *formats.kernels.headers(file)])
    texts = (*map(str, nvrtc.version()), *nvrtc.key_options(arch), *expressions, files)
    start, names = keep("nvrtc", texts, compile)
    assert arch.startswith("compute_") or bytes.fromhex(start) == b"\x7fELF"
    assert len(set(names.values())) == len(expressions)


@pytest.mark.slow
def test_pointer_and_value_types_reach_the_kernels(instantiations):
    csr = instantiations["csr/csr.cu"]
    for value in ("double", "float"):
        for pointer in ("int", "long long"):
            assert any(kernel.startswith(f"csr_vector<{value}, {pointer}, ") for kernel in csr)


def test_grids_that_threads_launch_are_linked_with_the_device_runtime(monkeypatch):
    kernel = "launch_row_grids<double, int, 256, 5>"
    source = paths.kernels() / "csr/acsr.cu"
    code, names, ptx = nvrtc.compile(source, [kernel], "sm_90")
    assert code[:4] == b"\x7fELF" and names[kernel].encode() in code and b"row_grid" in code
    assert nvrtc.float_atomics(ptx, names[kernel]), "of the kernel that it launches"
    assert cuda.binary_hash(code) == cuda.binary_hash(nvrtc.compile(source, [kernel], "sm_90").cubin)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    with pytest.raises(DeviceFault, match=r"acsr\.cu launches grids from the device.*cuda-toolkit\[cudart,nvjitlink\]"):
        nvrtc.compile(source, [kernel], "sm_90")


K = "template <typename T> __global__ void k(T* y) { y[0] = 1; }"


@pytest.mark.parametrize(
    ("text", "kernel", "arch", "said"),
    [
        (K.replace("1", "undeclared"), "k<int>", "sm_80", r"k\.cu does not compile for sm_80: k\.cu:1: .*undeclared"),
        (f"#include <stdint.h>\n{K}", "k<int>", "sm_80", r"stdint\.h"),  # the emulated device lets it pass
        (K, "missing<int>", "sm_80", "missing"),
        (K, "k<int>", "sm_1", "sm_1"),
    ],
)
def test_what_does_not_compile_is_a_fault_with_the_compilers_words(tmp_path, text, kernel, arch, said):
    (tmp_path / "k.cu").write_text(text)
    with pytest.raises(DeviceFault, match=said):
        nvrtc.compile(tmp_path / "k.cu", [kernel], arch)


def test_kernel_includes_its_neighbour_and_the_shared_headers(tmp_path):
    (tmp_path / "mine.cuh").write_text("constexpr int MINE = 3;\n")
    file = tmp_path / "mine.cu"
    file.write_text('#include "mine.cuh"\n#include "spmv.cuh"\n__global__ void k(int* y) { y[0] = MINE + WARP; }\n')
    _, names, _ = nvrtc.compile(file, ["k"], "sm_80")
    assert names == {"k": "_Z1kPi"}


def test_the_hash_of_machine_code_is_that_of_any_folder_and_time(tmp_path):
    """Line tables name both."""
    binaries = []
    for folder, seconds, header in (("a", 1_000_000_000, "1"), ("another", 1_700_000_000, "1"), ("a third", 1, "2")):
        place = tmp_path / folder
        place.mkdir()
        (place / "value.cuh").write_text(f"__device__ int value() {{ return {header}; }}\n")
        source = place / "kernel.cu"
        source.write_text('#include "value.cuh"\n__global__ void k(int *x) { *x = value(); }\n')
        for path in place.iterdir():
            os.utime(path, (seconds, seconds))
        binaries.append(nvrtc.compile(source, ["k"], "sm_90")[0])
    one, same, other = map(cuda.binary_hash, binaries)
    assert one == same != other and binaries[0] != binaries[1]


def test_no_library_as_old_as_the_driver_says_what_to_install():
    with pytest.raises(DeviceUnavailable, match="nvidia-cuda-nvrtc"):
        nvrtc.compile(paths.kernels() / "vector.cu", ["zero_fill<float>"], "sm_80", newest=1)


def test_a_binding_without_the_library_says_what_to_install(monkeypatch):
    def missing():
        raise RuntimeError("libnvrtc.so.13")

    monkeypatch.setattr("cuda.bindings.nvrtc.nvrtcVersion", missing)
    with pytest.raises(DeviceUnavailable, match=r"pip install 'cuda-bindings==12\.\*' 'nvidia-cuda-nvrtc-cu12"):
        nvrtc._library.__wrapped__(12)


@pytest.mark.parametrize("sums", ["atomic", "fixed"])
def test_sums_in_a_fixed_order_are_made_without_atomics(sums):
    a = hard_matrices()["long rows among empty"]
    found = {}
    for cls, params in formats.parse(f"all[sum={sums}],-csr5-nv,-irregular"):
        fmt = cls.from_csr(Csr.of(a), **params)
        steps = [step for step in fmt.launches(*vectors(cls, Csr.of(a))) if step.grid]
        names = {(paths.kernels() / step.source, step.kernel) for step in steps}
        found[cls.key] = any(cuda.compiled(*name, "sm_90", None).float_atomics for name in names)
    assert len(found) >= 6 and set(found.values()) == {sums == "atomic"}


def test_floats_that_a_kernel_adds_by_atomics_are_found_in_it_alone(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text(
        "template <typename T> __global__ void adds(T* y) { atomicAdd(y, T(1)); }\n"
        "__global__ void other(float* y) { atomicAdd(y, 1.0f); }\n"
        "template <typename T> __global__ void stores(T* y) { y[threadIdx.x] += 1; }\n"
    )
    kernels = {"adds<double>": True, "adds<float>": True, "adds<int>": False, "stores<double>": False}
    assert {name: cuda.compiled(source, name, "sm_90", None).float_atomics for name in kernels} == kernels
    assert cuda.compiled(source, "adds<double>", "sm_90", None).float_atomics  # from the disk cache
