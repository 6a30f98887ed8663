"""A file without a header: what is read from it, and that what was read runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import measured_rows
from mmbench.bench import Bench, Settings
from mmbench.errors import UsageError
from mmbench.header import read_kernel, read_source
from mmbench.infer import Inferred, infer
from mmbench.measure import StopRule
from mmbench.overrides import Overrides
from mmbench.product import Problem
from mmbench.runners import Runner, open_runner
from mmbench.spec import KernelSpec, Point
from test_infer_foreign import FOREIGN, FOREIGN_REFUSED
from test_infer_texts import CASES, REFUSED, SQUARE, Case, kernel, tiled


def alone(spec: KernelSpec) -> KernelSpec:
    """What a header can state of a spec."""
    return replace(spec, source="", notes=(), alternatives=())


ALL = CASES | FOREIGN
ALL_REFUSED = REFUSED | FOREIGN_REFUSED


def arguments(found: Inferred) -> str:
    return " ".join(a.name for a in found.spec.arguments)


def read(folder: Path, text: str, entry: str | None = None, **options: Any) -> Inferred:
    """What is inferred of a text; ``options`` are those of ``Overrides``."""
    path = folder / "mine.cu"
    path.write_text(text, encoding="utf-8")
    return infer(path, read_source(path), Overrides(entry=entry, **options))


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_what_is_inferred(tmp_path: Path, case: Case) -> None:
    found = read(tmp_path, case.text, case.entry, layout=case.layout)
    spec = found.spec
    assert arguments(found) == case.arguments
    assert ", ".join(axis.text for axis in spec.block) == case.block
    assert ", ".join(axis.text for axis in spec.grid) == case.grid
    assert spec.params == ({"TILE_SIZE": case.tiles} if case.tiles else {})
    assert spec.product.dtype == case.dtype
    assert str(spec.dynamic_shared or "") == case.shared


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_the_lines_stay_where_they_are(tmp_path: Path, case: Case) -> None:
    source = read(tmp_path, case.text, case.entry, layout=case.layout).spec.source
    assert source.count("\n") == case.text.count("\n")
    for line, original in zip(source.split("\n"), case.text.split("\n"), strict=True):
        if "acc +=" in line:
            assert "acc +=" in original


@pytest.mark.parametrize("case", ALL.values(), ids=ALL)
def test_the_header_says_the_same(tmp_path: Path, case: Case) -> None:
    found = read(tmp_path, case.text, case.entry, layout=case.layout)
    path = tmp_path / "mine.cu"
    path.write_text(found.header + found.spec.source, encoding="utf-8")
    again = read_kernel(path)
    assert alone(again) == alone(found.spec)


@pytest.mark.parametrize(("text", "reason"), ALL_REFUSED.values(), ids=ALL_REFUSED)
def test_what_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, text)
    assert reason in error.value.message
    assert str(tmp_path / "mine.cu") in error.value.message
    assert "\n" not in error.value.message


def test_an_entry_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel is called g; it has f"):
        read(tmp_path, kernel("const float *A, const float *B, float *C, int N"), "g")


def test_a_guarded_tile_size_is_left_alone(tmp_path: Path) -> None:
    text = "#ifndef TILE_SIZE\n#define TILE_SIZE 16\n#endif\n" + tiled("TILE_SIZE")
    assert read(tmp_path, text).spec.source == text


@pytest.mark.parametrize(
    ("definition", "becomes"),
    [
        ("#define TILE_SIZE 16", ""),
        ("#define TW 16", "#define TW TILE_SIZE"),
        ("#define TW 16;", "#define TW TILE_SIZE;"),  # an error as before, wherever it is one
        ("const int TW = 16;", "const int TW = TILE_SIZE;"),
        ("static constexpr int TW{16};", "static constexpr int TW{TILE_SIZE};"),
        ("constexpr int TILE_SIZE = 16;", ""),
        ("enum { TW = 16 };", "enum { TW = TILE_SIZE };"),
    ],
)
def test_the_files_own_value_gives_way(tmp_path: Path, definition: str, becomes: str) -> None:
    name = "TILE_SIZE" if "TILE_SIZE" in definition else "TW"
    found = read(tmp_path, f"{definition}\n{tiled(name)}")
    assert found.spec.source.split("\n")[0].strip() == becomes
    assert found.spec.params == {"TILE_SIZE": (16,)}


def test_the_note_says_what_was_read(tmp_path: Path) -> None:
    text = "#define TW 16\n" + tiled("TW")
    assert read(tmp_path, text).notes == (
        "kernel f; A, B, C, N; TW is the tile; block (TILE_SIZE, TILE_SIZE), "
        "grid (ceil_div(N, TILE_SIZE), ceil_div(N, TILE_SIZE)) "
        "(to change: --args --block --grid --shared --define --layout, or mmbench init)",
        "traffic not declared: requested bytes are not known (a header can state them)",
    )


def test_the_host_goes_and_what_the_kernel_needs_stays(tmp_path: Path) -> None:
    source = read(tmp_path, CASES["a whole program"].text).spec.source
    for gone in ("iostream", "cublas", "std::cout", "std::sin", "main", "other", "<<<", "fill"):
        assert gone not in source
    for stays in ("typedef float real;", "#define AT(", "madd", "__constant__ float one"):
        assert stays in source


HALVES = """\
#include <cuda_fp16.h>
__global__ void halves(const __half *A, const __half *B, __half *C, int N)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < N; k++) acc += __half2float(A[i * N + k]) * __half2float(B[k * N + j]);
    C[i * N + j] = __float2half(acc);
}
"""


@pytest.mark.parametrize(("entry", "runners"), [("f", ("cuda", "cpu")), ("halves", ("cuda",))])
def test_what_needs_a_gpu_is_asked_of_the_chosen_kernel(
    tmp_path: Path, entry: str, runners: tuple[str, ...]
) -> None:
    spec = read(tmp_path, HALVES + kernel(SQUARE), entry).spec
    assert spec.runners == runners
    assert "#include <cuda_fp16.h>" in spec.source  # for nvcc


def test_a_local_header_may_need_what_is_included(tmp_path: Path) -> None:
    text = '#include <cuda_fp16.h>\n#include "mine.cuh"\n' + kernel(SQUARE)
    header = tmp_path / "mine.cuh"
    header.write_text("__device__ float wide(__half x) { return __half2float(x); }\n")
    assert read(tmp_path, text).spec.runners == ("cuda",)
    header.write_text("__device__ float wide(float x) { return x; }\n")
    assert read(tmp_path, text).spec.runners == ("cuda", "cpu")


def test_the_kernels_of_a_file_are_listed(tmp_path: Path) -> None:
    signature = "const float *A, const float *B, float *C, int N"
    text = f"// __global__ void old(float *A) {{}}\n{kernel(signature)}"
    text += kernel(signature).replace("void f(", "void g(")
    with pytest.raises(UsageError, match=r"has 2 kernels \(f, g\); name one with --entry"):
        read(tmp_path, text)
    assert read(tmp_path, text, "g").spec.entry == "g"


@pytest.fixture(scope="module")
def cpu() -> Runner:
    return open_runner("cpu")[0]


@pytest.mark.cpu
def test_what_was_read_is_right_on_the_host(tmp_path: Path, cpu: Runner) -> None:
    rule = StopRule(samples=1, min_time=0, budget=0, warm_up=0)
    points = []
    for name, case in ALL.items():
        if not case.run:
            continue
        path = tmp_path / f"{name.replace(' ', '_')}.cu"
        path.write_text(case.text)
        overrides = Overrides(entry=case.entry, layout=case.layout)
        spec = overrides.apply(infer(path, read_source(path), overrides).spec)
        told = sum(a.expression is not None for a in spec.arguments)
        sizes = told if spec.rectangular else 1
        # A kernel that takes two of the sizes guards no rows: whole tiles only.
        shape = {1: Problem(32, 32, 32), 2: Problem(32, 48, 64)}.get(sizes, Problem(35, 21, 18))
        points.append(Point(spec, shape, {"TILE_SIZE": 8} if spec.params else {}))
    assert len(points) >= 12
    rows = measured_rows(Bench(cpu, Settings(rule)), points)
    wrong = {row.kernel: f"{row.status}: {row.reason}" for row in rows if row.status != "ok"}
    assert not wrong


def test_a_local_headers_tile_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "tile.cuh").write_text("#pragma once\n#define TW 16\n")
    found = read(tmp_path, '#include "tile.cuh"\n#include "gone.h"\n' + tiled("TW"))
    assert found.spec.params == {}
    assert [axis.text for axis in found.spec.block] == ["16", "16"]
    assert found.spec.source.startswith('#include "tile.cuh"\n\n')
    assert "TW stay as they are" in found.notes[0]


def test_a_local_headers_guarded_tile_size_is_swept(tmp_path: Path) -> None:
    guarded = "#ifndef TILE_SIZE\n#define TILE_SIZE 16\n#endif\n"
    (tmp_path / "tile.cuh").write_text(guarded)
    found = read(tmp_path, '#include "tile.cuh"\n' + tiled("TILE_SIZE"))
    assert found.spec.params == {"TILE_SIZE": (16,)}


def test_a_file_with_bom_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "mit Ümlaut.cu"
    text = "// größer\n" + kernel(SQUARE)
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert infer(path, read_source(path)).spec.source == text


@pytest.mark.parametrize("text", ["threadIdx.", "/*", "{", '"', "", "threadIdx.xyz", "("])
def test_a_broken_file_is_no_bug(tmp_path: Path, text: str) -> None:
    with suppress(UsageError):
        read(tmp_path, kernel(SQUARE).replace("threadIdx.x", text))


def test_a_flag_that_is_told_is_passed(tmp_path: Path) -> None:
    found = read(tmp_path, kernel(f"{SQUARE}, bool relu"), args="relu=0")
    assert str(found.spec.arguments[-1]) == "bool 0"
    (tmp_path / "mine.cu").write_text(found.header + kernel(f"{SQUARE}, bool relu"))
    assert read_kernel(tmp_path / "mine.cu").arguments == found.spec.arguments


INSTANTIATED = """\
template <int BM, int BN>
__global__ void mm(const float *A, const float *B, float *C, int N)
{
    int r = blockIdx.y * BM + threadIdx.y, c = blockIdx.x * BN + threadIdx.x;
    float s = 0;
    for (int k = 0; k < N; k++) s += A[r * N + k] * B[k * N + c];
    C[r * N + c] = s;
}
template __global__ void other<1, 2>(const float *, const float *, float *, int);
template __global__ void mm<8, 32>(const float *, const float *, float *, int);
"""


def test_an_explicit_instantiation_gives_the_values(tmp_path: Path) -> None:
    found = read(tmp_path, INSTANTIATED)
    assert "constexpr int BM = 8; constexpr int BN = 32;" in found.spec.source
    assert [axis.text for axis in found.spec.block] == ["32", "8"]


def test_values_that_are_nowhere_are_asked_for_in_good_grammar(tmp_path: Path) -> None:
    text = INSTANTIATED.partition("template __global__")[0]
    with pytest.raises(UsageError, match="template parameters BM, BN without values; give them"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "uses",
    [
        "void go(float *A) { f<8><<<1, 64>>>(A, A, A, 8); f<32><<<1, 1024>>>(A, A, A, 8); }\n",
        "template __global__ void f<32>(const float *, const float *, float *, int);\n"
        "template __global__ void f<8>(const float *, const float *, float *, int);\n",
    ],
    ids=["launches", "instantiations"],
)
def test_the_tiles_that_a_file_uses_are_the_ones_swept(tmp_path: Path, uses: str) -> None:
    text = tiled("BS", before="template <int BS> ") + uses
    assert read(tmp_path, text).spec.params == {"TILE_SIZE": (8, 32)}


def test_a_local_header_that_is_not_there_is_named_with_the_option(tmp_path: Path) -> None:
    text = '#include "mine.h"\n#include <cub/cub.cuh>\n' + tiled("16")
    notes = read(tmp_path, text).spec.notes
    assert any(
        '"mine.h" (not found beside the file' in note and "--include" in note for note in notes
    )
    assert "ignored #include <cub/cub.cuh> (not needed by the kernel)" in notes
    (tmp_path / "mine.h").touch()
    assert not any("mine.h" in note for note in read(tmp_path, text).spec.notes)


def test_a_kernel_that_only_calls_a_device_function_is_read_through(tmp_path: Path) -> None:
    """What mmbench itself proposes for a type that it does not know."""
    text = """\
__device__ void body(const float *A, const float *B, float *C, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || col >= n) return;
    float s = 0;
    for (int e = 0; e < n; ++e) s += A[row * n + e] * B[e * n + col];
    C[row * n + col] = s;
}
__global__ void mm(const float *A, const float *B, float *C, int n) { body(A, B, C, n); }
"""
    spec = read(tmp_path, text).spec
    assert [axis.text for axis in spec.block] == ["TILE_SIZE", "TILE_SIZE"]
    assert [axis.text for axis in spec.grid] == ["ceil_div(N, TILE_SIZE)"] * 2
    assert spec.alternatives == ()


def test_what_the_body_never_asks_for_is_not_asked_of_the_user(tmp_path: Path) -> None:
    text = """\
__global__ void mul(int *A, int filA, int colA, int *B, int filB, int colB, int *C)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= colB) return;
    int s = 0;
    for (int k = 0; k < colA; k++) s += A[r * colA + k] * B[k * colB + c];
    C[r * colB + c] = s;
}
"""
    assert arguments(read(tmp_path, text)) == "A 0 K B 0 N C"


@pytest.mark.parametrize(
    ("body", "block", "grid"),
    [
        (
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N * N; "
            "i += gridDim.x * blockDim.x) {\n"
            "        float s = 0; int row = i / N, col = i % N;\n"
            "        for (int k = 0; k < N; k++) s += A[row * N + k] * B[k * N + col];\n"
            "        C[row * N + col] = s;\n    }",
            ["256"],
            ["ceil_div(N * N, 256)"],
        ),
        (
            "const int step = gridDim.y * blockDim.y;\n"
            "    for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < N; "
            "c += gridDim.x * blockDim.x)\n"
            "        for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < N; "
            "r += step) {\n"
            "            float s = 0;\n"
            "            for (int k = 0; k < N; k++) s += A[r * N + k] * B[k * N + c];\n"
            "            C[r * N + c] = s;\n        }",
            ["TILE_SIZE", "TILE_SIZE"],
            ["ceil_div(N, TILE_SIZE)", "ceil_div(N, TILE_SIZE)"],
        ),
    ],
    ids=["flat", "rows and columns"],
)
def test_a_grid_stride_loop_has_a_thread_for_each_element(
    tmp_path: Path, body: str, block: list[str], grid: list[str]
) -> None:
    head = "__global__ void mm(const float *A, const float *B, float *C, int N)"
    spec = read(tmp_path, f"{head}\n{{\n    {body}\n}}\n").spec
    assert [axis.text for axis in spec.block] == block
    assert [axis.text for axis in spec.grid] == grid
    assert not any("a guess" in note for note in spec.notes)
