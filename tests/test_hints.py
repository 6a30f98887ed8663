"""What a wrong kernel is told: the sizes at which it would be right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from conftest import measured_rows
from mmbench import kernels
from mmbench.bench import Bench, Settings
from mmbench.expressions import Expression
from mmbench.hints import at_multiples_of_tile
from mmbench.measure import StopRule
from mmbench.product import Problem
from mmbench.runners import open_runner
from mmbench.spec import Point

TILED = kernels.get("tiled")

UNGUARDED = """
#ifndef TILE_SIZE
#define TILE_SIZE 16
#endif
__global__ void bare(const float *A, const float *B, float *C, int N)
{
    int row = blockIdx.y * TILE_SIZE + threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < N / TILE_SIZE; ++t)
        for (int k = 0; k < TILE_SIZE; ++k)
            sum += A[row * N + t * TILE_SIZE + k] * B[(t * TILE_SIZE + k) * N + col];
    FAULT
    if (row < N && col < N) C[row * N + col] = sum;
}
"""


def at(n: int, **changes: object) -> Point | None:
    spec = replace(TILED, **changes)  # type: ignore[arg-type]
    return at_multiples_of_tile(Point(spec, Problem(n, n, n), {"TILE_SIZE": 16}))


def test_another_size_is_tried_only_where_it_can_tell() -> None:
    assert at(64) is None
    tried = at(17)
    assert tried is not None
    assert tried.problem == Problem(32, 48, 64)
    assert at(17, fixed=Problem(17, 17, 17)) is None
    assert at(17, defines={"WIDTH": Expression("N")}) is None
    assert at_multiples_of_tile(Point(TILED, Problem(17, 17, 17), {"TILE_SIZE": 1024})) is None


@pytest.mark.cpu
@pytest.mark.parametrize(("fault", "hinted"), [("", True), ("sum += 1.0f;", False)])
def test_the_hint_is_given_where_the_kernel_is_right_there(
    tmp_path: Path, fault: str, hinted: bool
) -> None:
    path = tmp_path / "bare.cu"
    path.write_text(UNGUARDED.replace("FAULT", fault))
    spec = kernels.get(str(path))
    points = [Point(spec, Problem(n, n, n), {"TILE_SIZE": 16}) for n in (17, 20)]
    bench = Bench(open_runner("cpu")[0], Settings(StopRule(samples=1, min_time=0, budget=0.1)))
    for row in measured_rows(bench, points):
        assert row.status == "wrong"
        assert ("multiples of the tile" in (row.reason or "")) == hinted
        assert ("right at N=32" in (row.reason or "")) == hinted
