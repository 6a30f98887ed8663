"""cuBLAS beside kernels, other element types, and the device's own measurements, on a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import quiet
from mmbench import baselines, kernels
from mmbench.bench import Bench, Settings
from mmbench.measure import StopRule
from mmbench.overrides import Overrides
from mmbench.probes import measured_roofs, timer_report
from mmbench.product import Problem, Product
from mmbench.results import Row
from mmbench.runners import Runner
from mmbench.spec import Point

pytestmark = pytest.mark.gpu

QUICK = StopRule(samples=5, min_time=0.0, budget=0.5, warm_up=0.01)
SHAPES = (Problem(256, 256, 256), Problem(70, 130, 33), Problem(1, 1, 1))

HALF = """
#include <cuda_fp16.h>
__global__ void hgemm(const half *A, const half *B, half *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    ACCUMULATOR acc = ACCUMULATOR(0.0f);
    for (int k = 0; k < K; ++k) acc = acc + ACCUMULATOR(A[row * K + k] * B[k * N + col]);
    C[row * N + col] = half(acc);
}
"""

TENSOR = """
#include <cuda_fp16.h>
#include <mma.h>
__global__ void tensor(const half *A, const half *B, float *C, int N)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    for (int k = 0; k < N; k += 16) {
        load_matrix_sync(a, A + blockIdx.y * 16 * N + k, N);
        load_matrix_sync(b, B + k * N + blockIdx.x * 16, N);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(C + blockIdx.y * 16 * N + blockIdx.x * 16, c, N, mem_row_major);
}
"""


TF32 = """
#include <mma.h>
__global__ void rounded(const float *A, const float *B, float *C, int N)
{
    using namespace nvcuda::wmma;
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b;
    fragment<accumulator, 16, 16, 8, float> c;
    fill_fragment(c, 0.0f);
    for (int k = 0; k < N; k += 8) {
        load_matrix_sync(a, A + blockIdx.y * 16 * N + k, N);
        load_matrix_sync(b, B + k * N + blockIdx.x * 16, N);
        for (int i = 0; i < a.num_elements; ++i) a.x[i] = __float_to_tf32(a.x[i]);
        for (int i = 0; i < b.num_elements; ++i) b.x[i] = __float_to_tf32(b.x[i]);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(C + blockIdx.y * 16 * N + blockIdx.x * 16, c, N, mem_row_major);
}
"""


def rows(runner: Runner, *groups: list[Point], cache: str = "cold") -> list[Row]:
    bench = Bench(runner, Settings(QUICK, cache, timeout=20))
    return [each.row for group in bench.run_groups(groups, quiet) for each in group]


def user_kernel(folder: Path, text: str, problem: Problem, **options: str) -> Point:
    path = folder / "mine.cu"
    path.write_text(text)
    spec = kernels.get(str(path), Overrides(**options))  # type: ignore[arg-type]
    params = {name: 16 for name in spec.params}
    return Point(spec, problem, params)


@pytest.mark.parametrize("name", ["cublas", "cublas:default"])
@pytest.mark.parametrize("column_major", ["", "ABC", "B", "AC"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cublas_is_right_in_every_storage_order(
    gpu: Runner, name: str, column_major: str, dtype: str
) -> None:
    product = Product(dtype, dtype, frozenset(column_major), alpha=2, beta=3)
    spec = baselines.get(name, product)
    found = rows(gpu, *([Point(spec, problem, {})] for problem in SHAPES))
    assert [row.status for row in found] == ["ok"] * len(SHAPES), [row.reason for row in found]
    assert all("cuBLAS" in (row.flags or "") for row in found)


@pytest.mark.parametrize("c_dtype", ["float16", "float32"])
def test_cublas_is_right_in_half_precision(gpu: Runner, c_dtype: str) -> None:
    spec = baselines.get("cublas", Product("float16", c_dtype))
    found = rows(gpu, *([Point(spec, problem, {})] for problem in SHAPES))
    assert [row.status for row in found] == ["ok"] * len(SHAPES), [row.reason for row in found]


def test_a_kernel_is_measured_beside_cublas(gpu: Runner) -> None:
    problem = Problem(1024, 1024, 1024)
    tiled = Point(kernels.get("tiled"), problem, {"TILE_SIZE": 32})
    bench = Bench(gpu, Settings(QUICK, "cold"))
    (group,) = bench.pairs([tiled], bench.baseline("auto"))
    mine, library = rows(gpu, group)
    assert mine.gflops is not None
    assert library.gflops is not None
    assert mine.baseline_percent is not None
    assert mine.baseline_percent == pytest.approx(100 * mine.gflops / library.gflops)
    assert 5 < mine.baseline_percent < 100
    assert (mine.baseline or "").startswith("cublas (cuBLAS 1")
    assert "pedantic" in (mine.baseline or "")
    assert library.roof_percent is not None
    assert 30 < library.roof_percent < 100


def test_half_precision_with_either_accumulator(gpu: Runner, tmp_path: Path) -> None:
    wide = HALF.replace("ACCUMULATOR", "float")
    narrow = HALF.replace("ACCUMULATOR", "half")
    shapes = Problem(32, 48, 64), Problem(16, 16, 4096)
    found = [rows(gpu, [user_kernel(tmp_path, wide, problem)])[0] for problem in shapes]
    assert [row.status for row in found] == ["ok", "ok"], [row.reason for row in found]
    assert found[0].dtype == "float16"
    found = [rows(gpu, [user_kernel(tmp_path, narrow, problem)])[0] for problem in shapes]
    assert [row.status for row in found] == ["ok", "wrong"], [row.reason for row in found]
    assert "accumulator may be half" in (found[1].reason or "")


def test_tensor_cores_from_half_to_float(gpu: Runner, tmp_path: Path) -> None:
    options = {"block": "32", "grid": "N/16,N/16"}
    point = user_kernel(tmp_path, TENSOR, Problem(64, 64, 64), **options)
    (row,) = rows(gpu, [point])
    assert row.status == "ok", row.reason
    assert row.dtype == "float16/float32"


@pytest.mark.parametrize("n", [64, 1024])
def test_tensor_cores_that_round_floats_are_named(gpu: Runner, tmp_path: Path, n: int) -> None:
    options = {"block": "32", "grid": "N/16,N/16"}
    (row,) = rows(gpu, [user_kernel(tmp_path, TF32, Problem(n, n, n), **options)])
    assert row.status == "wrong"
    assert "computed in TF32" in (row.reason or "")


def test_a_kernel_that_skips_work_is_implausible(gpu: Runner, tmp_path: Path) -> None:
    """It is right in the launches that are checked: it knows them by the marker in C."""
    text = """
    __global__ void liar(const float *A, const float *B, float *C, int N)
    {
        int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
        if (C[row * N + col] != -12345.0f) return;
        float acc = 0.0f;
        for (int k = 0; k < N; ++k) acc += A[row * N + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
    """
    point = user_kernel(tmp_path, text, Problem(4096, 4096, 4096))
    (row,) = rows(gpu, [point])
    assert row.status == "ok", row.reason
    assert not row.plausible
    assert "implausible" in (row.remarks or "")


@pytest.mark.parametrize(
    "params",
    [
        "BM=64 BN=64 BK=16 TM=8 TN=8 STAGES=6 SLICES=2 SPLIT_K=2",
        "BM=64 BN=128 BK=16 TM=8 TN=16 STAGES=4 SLICES=2 SPLIT_K=2",
        "BM=128 BN=128 BK=16 TM=8 TN=16 STAGES=3 SLICES=1 SPLIT_K=2",
        "BM=128 BN=256 BK=8 TM=8 TN=16 STAGES=4 SLICES=1 SPLIT_K=1",
    ],
)
def test_pipelined_is_right_in_other_configurations(gpu: Runner, params: str) -> None:
    spec = kernels.get("pipelined")
    chosen = {name: int(value) for name, value in (each.split("=") for each in params.split())}
    shapes = (1, 1, 1), (33, 20, 17), (130, 257, 67), (127, 129, 9), (515, 260, 1000), (512,) * 3
    groups = [[Point(spec, Problem(*shape), chosen)] for shape in shapes]
    found = rows(gpu, *groups)
    assert [row.status for row in found] == ["ok"] * len(shapes), [row.reason for row in found]
    assert {row.precision for row in found} == {"FP32"}


def test_a_tiny_product_is_marked_as_at_the_timers_floor(gpu: Runner) -> None:
    (row,) = rows(gpu, [Point(kernels.get("naive"), Problem(8, 8, 8), {"TILE_SIZE": 8})])
    assert row.timer_floor_ms is not None
    assert 0.001 < row.timer_floor_ms < 0.008
    assert "floor" in (row.remarks or "")


def test_the_roofs_are_near_the_peaks(gpu: Runner) -> None:
    roofs = measured_roofs(gpu.device, again=True)
    assert gpu.device.fp32_roof_gflops is not None
    assert gpu.device.dram_peak_gbs is not None
    assert 0.85 < roofs.fp32_gflops / gpu.device.fp32_roof_gflops < 1.02
    assert 0.7 < roofs.copy_gbs / gpu.device.dram_peak_gbs < 1.0
    assert measured_roofs(gpu.device) == roofs


def test_the_timer_agrees_with_the_cards_own(gpu: Runner) -> None:
    report = timer_report(0)
    floors = report.floors_us
    assert floors["cold"] < floors["plain events"]
    assert 1 < floors["cold"] < 6
    assert report.bias_us < 3
    for spin in report.spins:
        assert spin.timer_us > spin.cycles / 2100  # no SM runs above 2.1 GHz


def test_compare_with_cublas_fails_on_slower(gpu: Runner) -> None:
    words = "compare cublas tiled --n 512 --tile 32 --fail-on slower --max-time 0.5 --format json"
    command = [sys.executable, "-m", "mmbench", *words.split()]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 3, answer.stderr
    (found,) = json.loads(answer.stdout)["comparisons"]
    assert found["verdict"] == "slower"
    assert found["high"] < 1
