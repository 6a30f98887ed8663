"""Shared by all tests: hardware markers, and .cu files written on the spot."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from mmbench.bench import Bench
from mmbench.errors import RunnerUnavailableError
from mmbench.results import Row
from mmbench.runners import Runner, host_compiler, open_runner
from mmbench.spec import Point
from mmbench.supervisor import Progress

HEADER = """\
// /// kernel
// summary = "A kernel of the tests."
// entry = "{entry}"
// arguments = {arguments}
{extra}//
// [params]
// TILE_SIZE = [16]
//
// [launch]
// block = {block}
// grid  = {grid}
// {launch}
//
// [traffic]
// reads  = "2 * M * N * K"
// writes = "M * N"
// ///
"""

RIGHT = """
__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N || col >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < N; ++k) acc += A[row * N + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""
"""A kernel for any N, without a header, which tests take apart."""

WriteKernel = Callable[..., Path]


def quiet(text: str, share: float | None) -> None:
    """Progress that nobody watches."""


def measured_rows(bench: Bench, points: Sequence[Point], progress: Progress = quiet) -> list[Row]:
    """A row for each point, measured one after the other."""
    groups = bench.run_groups([[point] for point in points], progress)
    return [each.row for group in groups for each in group]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        default="",
        help="Markers whose tests must run, e.g. gpu,cpu: a skip for lack of hardware fails.",
    )


def _missing(marker: str) -> str:
    """Why tests with this marker cannot run here, or an empty text."""
    try:
        if marker == "gpu":
            open_runner("cuda")
        else:
            host_compiler.find()
    except RunnerUnavailableError as error:
        return error.message
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:  # those of a file share what it has made; those that measure take turns
        group = "gpu" if item.get_closest_marker("gpu") else item.path.name
        item.add_marker(pytest.mark.xdist_group(group))
    required = config.getoption("--require").split(",")
    for marker in ("gpu", "cpu"):
        marked = [item for item in items if item.get_closest_marker(marker)]
        if not marked or marker in required:
            continue
        if reason := _missing(marker):
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"no {marker} runner: {reason}"))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels of the tests go to a folder of the tests; a user's tunings are not used."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MMBENCH_CONFIG", str(tmp_path_factory.mktemp("config")))
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    patch.setenv("MMBENCH_CACHE", str(shared / "mmbench-cache"))
    yield
    patch.undo()


@pytest.fixture
def write_kernel(tmp_path: Path) -> WriteKernel:
    """Write a .cu file with a header: write_kernel("name", body, entry="f", ...)."""

    def write(
        name: str,
        body: str,
        *,
        entry: str = "matmul",
        arguments: str = '["A", "B", "C", "int N"]',
        block: str = '["TILE_SIZE", "TILE_SIZE"]',
        grid: str = '["ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"]',
        launch: str = "",
        extra: str = "",
    ) -> Path:
        header = HEADER.format(
            entry=entry, arguments=arguments, block=block, grid=grid, launch=launch, extra=extra
        )
        path = tmp_path / f"{name}.cu"
        path.write_text(f"{header}\n{body}", encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def gpu() -> Runner:
    return open_runner("cuda")[0]


@pytest.fixture(scope="session")
def cpu() -> Runner:
    return open_runner("cpu")[0]
