"""How a kernel's file becomes a unit for the host's compiler: its macros and shared arrays."""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import WriteKernel, measured_rows
from mmbench.bench import Bench, Settings
from mmbench.check import check_point
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners import Runner
from mmbench.runners.shared_arrays import sized_as_static
from mmbench.spec import Point

pytestmark = pytest.mark.cpu

COMMON = ["BM", "BN", "BK", "TM", "TN", "TILE", "BLOCK", "WARP", "SIZE", "slots", "current", "old",
          "value", "type", "name", "mask", "width", "arguments", "kernel"]  # fmt: skip
ALL_FEATURES = """\
__global__ void matmul(const float *a, const float *b, float *c, int size)
{
    __shared__ float4 tile[8][8];
    __shared__ int count;
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (threadIdx.x == 0 && threadIdx.y == 0) count = 0;
    tile[threadIdx.y][threadIdx.x] = make_float4(0, 0, 0, 0);
    __syncthreads();
    atomicAdd(&count, __shfl_xor_sync(0xffffffffu, 1, 1));
    __syncthreads();
    assert(count == T * T && gridDim.z == 1);
    if (row >= size || col >= size) return;
    float sum = tile[0][0].x;
    for (int i = 0; i < size; ++i) sum += __ldg(&a[row * size + i]) * b[i * size + col];
    c[row * size + col] = sum;
}
"""


def outcome(runner: Runner, point: Point) -> tuple[str, str | None]:
    (row,) = measured_rows(Bench(runner, Settings(cache="hot")), [point])
    return row.status, row.reason


def point_of(path: Path, **defines: str) -> Point:
    spec = replace(read_kernel(path), defines=defines)
    return Point(spec, Problem(9, 9, 9), {"TILE_SIZE": 8})


def test_a_users_macro_reaches_no_name_of_ours(cpu: Runner, write_kernel: WriteKernel) -> None:
    names = [*string.ascii_uppercase, *COMMON]
    path = write_kernel("macros", ALL_FEATURES)
    point = point_of(path, **{name: "8" for name in names})
    assert outcome(cpu, point) == ("ok", None)
    assert check_point(point).ok


def test_a_macro_is_the_text_that_was_given(cpu: Runner, write_kernel: WriteKernel) -> None:
    path = write_kernel("text", ALL_FEATURES.replace("c[row * size + col] = sum", "STORE(sum)"))
    point = point_of(
        path, **{"STORE(v)": "c[row * SIDE + col] = (v)", "SIDE": "(size + 0)", "T": "8"}
    )
    assert outcome(cpu, point) == ("ok", None)
    assert check_point(point).ok


TILED = """\
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    DECLARED
    int tx = threadIdx.x, ty = threadIdx.y, here = ty * TILE_SIZE + tx;
    int c = blockIdx.x * TILE_SIZE + tx, r = blockIdx.y * TILE_SIZE + ty;
    float sum = 0;
    for (int k0 = 0; k0 < N; k0 += TILE_SIZE) {
        As[here] = r < N && k0 + tx < N ? A[r * N + k0 + tx] : 0;
        Bs[here] = c < N && k0 + ty < N ? B[(k0 + ty) * N + c] : 0;
        __syncthreads();
        for (int k = 0; k < TILE_SIZE; ++k) sum += As[ty * TILE_SIZE + k] * Bs[k * TILE_SIZE + tx];
        __syncthreads();
    }
    if (r < N && c < N) C[r * N + c] = sum;
}
"""
SIZED = """\
extern __shared__ float As[TILE_SIZE * TILE_SIZE];
    extern __shared__ __align__(16) float Bs[ 64 ];"""
SAME_PLACE = """\
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    extern __shared__ float one[];
    extern __shared__ __align__(16) int two[];
    __shared__ volatile float own[64];
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    int here = threadIdx.y * TILE_SIZE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < N && r < N && c < N; ++k) sum += A[r * N + k] * B[k * N + c];
    one[here] = 0;
    two[here] = __float_as_int(sum);
    own[here] = one[here];
    if (r < N && c < N) C[r * N + c] = own[here];
}
"""


@pytest.mark.parametrize("form", ["block", "thread"])
def test_a_sized_extern_array_is_a_plain_one(
    cpu: Runner, write_kernel: WriteKernel, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("MMBENCH_NO_BLOCK_FORM", "1" if form == "thread" else "")
    point = point_of(write_kernel("sized", TILED.replace("DECLARED", SIZED)))
    (row,) = measured_rows(Bench(cpu, Settings(cache="hot")), [point])
    assert (row.status, row.reason, row.shared_bytes) == ("ok", None, 2 * 64 * 4)
    assert check_point(point).ok


def test_arrays_of_unknown_size_lie_at_one_place(cpu: Runner, write_kernel: WriteKernel) -> None:
    path = write_kernel("place", SAME_PLACE, launch='dynamic_shared_bytes = "256"')
    point = point_of(path)
    (row,) = measured_rows(Bench(cpu, Settings(cache="hot")), [point])
    assert (row.status, row.reason, row.shared_bytes) == ("ok", None, 256 + 256)
    assert check_point(point).verdict_message == ""


@pytest.mark.parametrize(
    ("line", "plain"),
    [
        ("extern __shared__ float s[T * T];", True),
        ("extern  __shared__ __align__(16) unsigned int s [4][4];", True),
        ("extern __shared__ float total;", True),
        ("extern __shared__ float s[];", False),
        ("extern __shared__ __align__(16) char s[ ];", False),
        ("extern float s[4];", False),
        ('extern "C" __global__ void f(float *s) { __shared__ float t[4]; }', False),
    ],
)
def test_which_declarations_lose_their_extern(line: str, plain: bool) -> None:
    expected = line.replace("extern", "      ", 1) if plain else line
    assert sized_as_static(line) == expected
