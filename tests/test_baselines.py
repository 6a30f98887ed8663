"""Libraries beside kernels: what they compute, where they run, and what a row says of them."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import quiet
from mmbench import baselines, kernels
from mmbench.bench import Bench, Settings
from mmbench.errors import LaunchError, RunnerUnavailableError
from mmbench.measure import StopRule
from mmbench.overrides import Overrides
from mmbench.product import Problem, Product
from mmbench.runners import cublas, open_runner
from mmbench.runners.blas import BlasKernel
from mmbench.spec import Point

QUICK = StopRule(samples=3, min_time=0.0, budget=0.2, warm_up=0.01)
SHAPE = Problem(5, 7, 3)


@pytest.mark.parametrize("column_major", ["", "ABC", "A", "BC"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, 3)])
def test_blas_is_the_product_in_every_storage_order(
    column_major: str, alpha: int, beta: int
) -> None:
    product = Product(column_major=frozenset(column_major))
    rng = np.random.default_rng(0)
    a, b, c = (
        np.array(rng.integers(-4, 5, SHAPE.shape(name)), np.float32,
                 order="F" if name in column_major else "C")
        for name in "ABC"
    )  # fmt: skip
    right = alpha * (a.astype(float) @ b) + beta * c
    addresses = [matrix.ctypes.data for matrix in (a, b, c)]
    assert BlasKernel(SHAPE, product).launch([*addresses, alpha, beta]) > 0
    assert np.array_equal(c, right)


@pytest.mark.cpu
def test_kernels_are_measured_beside_the_library() -> None:
    bench = Bench(open_runner("cpu")[0], Settings(QUICK))
    tiled = Point(kernels.get("tiled"), Problem(64, 48, 32), {"TILE_SIZE": 16})
    (pair,) = bench.pairs([tiled], bench.baseline("auto"))
    ((mine, library),) = bench.run_groups([pair], quiet)
    assert (mine.row.status, library.row.status) == ("ok", "ok")
    assert library.row.kernel == "blas"
    assert library.row.block is None
    assert mine.row.baseline == f"blas ({library.row.flags})"
    assert "NumPy" in (mine.row.baseline or "")
    assert mine.row.gflops is not None
    assert library.row.gflops is not None
    share = 100 * mine.row.gflops / library.row.gflops
    assert mine.row.baseline_percent == pytest.approx(share)
    assert library.row.baseline_percent is None


@pytest.mark.cpu
def test_a_wrong_kernel_gets_no_share(tmp_path: Path) -> None:
    path = tmp_path / "wrong.cu"
    path.write_text(
        "__global__ void w(const float *A, const float *B, float *C, int N)\n"
        "{ int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;\n"
        "  if (r < N && c < N) C[r * N + c] = A[r * N + c] + B[r * N + c]; }\n"
    )
    bench = Bench(open_runner("cpu")[0], Settings(QUICK))
    (pair,) = bench.pairs([Point(kernels.get(str(path)), Problem(32, 32, 32), {})], "blas")
    ((mine, library),) = bench.run_groups([pair], quiet)
    assert (mine.row.status, library.row.status) == ("wrong", "ok")
    assert mine.row.baseline_percent is None


def test_a_library_is_left_out_where_it_has_no_such_product() -> None:
    bench = Bench(open_runner("cpu")[0], Settings(QUICK))
    whole = replace(kernels.get("tiled"), product=Product("int32", "int32"))
    assert bench.pairs([Point(whole, SHAPE, {})], "blas") == [[Point(whole, SHAPE, {})]]
    assert bench.baseline("none") == ""


def test_a_library_computes_the_product_of_the_kernel_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(
        "__global__ void d(const double *A, const double *B, double *C, int N)\n"
        "{ int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;\n"
        "  C[r * N + c] = A[r * N + c] * B[c]; }\n"
    )
    found = kernels.select(["cublas", str(path), "tiled"], Overrides(layout="col"))
    products = {spec.name: spec.product for spec in found}
    assert products["cublas"] == products["mine"]
    assert products["mine"].dtype == "float64"
    assert products["mine"].column_major == frozenset("ABC")
    assert products["tiled"] == Product()  # the options are meant for the file


@pytest.mark.parametrize("name", baselines.NAMES)
def test_a_library_runs_on_one_runner_and_takes_any_shape(name: str) -> None:
    spec = kernels.get(name)
    assert spec.rectangular
    assert spec.runners == (("cpu",) if name == "blas" else ("cuda",))
    assert not spec.declares_traffic


class FakeLibrary:
    """Remembers how cuBLAS was called; status 0 unless told otherwise."""

    def __init__(self) -> None:
        self.status = 0
        self.calls: dict[str, tuple[Any, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls[name] = arguments
            return self.status

        return call


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    fake = FakeLibrary()
    monkeypatch.setattr(cublas, "_library", lambda folder: fake)
    return fake


def gemm(library: FakeLibrary, column_major: str = "", dtype: str = "float32") -> tuple[Any, ...]:
    product = Product(dtype, dtype, frozenset(column_major))
    cublas.Gemm("", "cublas", SHAPE, product)([0xA, 0xB, 0xC, 1, 0])
    return library.calls["cublasGemmEx"]


def numbers(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operations, m, n, k, and the first and second matrix with their leading dimensions."""
    return (*call[1:6], call[7].value, call[9], call[10].value, call[12], call[14].value, call[16])


def test_a_row_major_product_is_asked_for_as_that_of_the_transposes(library: FakeLibrary) -> None:
    assert numbers(gemm(library)) == (0, 0, 7, 5, 3, 0xB, 7, 0xA, 3, 0xC, 7)


def test_a_column_major_product_is_asked_for_as_it_is(library: FakeLibrary) -> None:
    assert numbers(gemm(library, "ABC")) == (0, 0, 5, 7, 3, 0xA, 5, 0xB, 3, 0xC, 5)


def test_a_matrix_in_the_other_order_is_transposed(library: FakeLibrary) -> None:
    assert numbers(gemm(library, "B")) == (1, 0, 7, 5, 3, 0xB, 3, 0xA, 3, 0xC, 7)


def test_fp32_stays_fp32_in_the_pedantic_mode(library: FakeLibrary) -> None:
    call = gemm(library)
    assert library.calls["cublasSetMathMode"][1] == 2  # CUBLAS_PEDANTIC_MATH
    assert call[17] == 69  # CUBLAS_COMPUTE_32F_PEDANTIC
    assert isinstance(call[6]._obj, ctypes.c_float)
    assert gemm(library, dtype="float64")[17] == 71
    cublas.Gemm("", "cublas:default", SHAPE, Product())([1, 2, 3, 1, 0])
    assert library.calls["cublasSetMathMode"][1] == 0
    assert library.calls["cublasGemmEx"][17] == 68


def test_a_refusal_of_cublas_is_a_failed_launch(library: FakeLibrary) -> None:
    product = cublas.Gemm("", "cublas", SHAPE, Product())
    library.status = 15
    with pytest.raises(LaunchError, match="status 15"):
        product([1, 2, 3, 1, 0])


def test_a_missing_library_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "_candidates", lambda folder: iter(["/nonexistent/lib.so"]))
    cublas._library.cache_clear()
    with pytest.raises(RunnerUnavailableError, match="pip install nvidia-cublas"):
        cublas.describe("", "cublas")
    cublas._library.cache_clear()
