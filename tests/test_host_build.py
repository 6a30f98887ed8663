"""How a kernel's file becomes a unit for the host's compiler: its macros."""

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
