"""A block that the user gives without a grid: the grid of a file without a header follows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmbench import kernels
from mmbench.header import read_source
from mmbench.infer import infer
from mmbench.overrides import Overrides
from mmbench.product import Problem
from mmbench.spec import KernelSpec, Point
from test_infer_texts import PLACE, PRODUCT, SQUARE, general, kernel, tiled

GENERAL = general("const float *A, const float *B, float *C, int M, int N, int K", "A B C M N K")
FLAT = kernel(
    SQUARE,
    "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i >= N * N) return;\n"
    "    int row = i / N, col = i % N;\n" + PRODUCT,
)
CLEAR = kernel(SQUARE)
# A width that changes in a loop cannot be read, so the kernel alone does not tell its grid.
UNCLEAR = kernel(
    SQUARE,
    "    int w = blockDim.x, h = blockDim.y;\n    while (w > 2000) --w;\n"
    "    int row = blockIdx.y * h + threadIdx.y, col = blockIdx.x * w + threadIdx.x;\n" + PRODUCT,
)
HOST = """\
int main()
{
    int n = 64;
    dim3 block(8, 8), grid((n + 7) / 8, (n + 7) / 8);
    f<<<grid, block>>>(0, 0, 0, n);
}
"""


def read(folder: Path, text: str, **options: str) -> KernelSpec:
    path = folder / "mine.cu"
    path.write_text(text)
    overrides = Overrides(**options)  # type: ignore[arg-type]
    return overrides.apply(infer(path, read_source(path), overrides).spec)


def launch(spec: KernelSpec) -> tuple[str, str]:
    return ", ".join(map(str, spec.block)), ", ".join(map(str, spec.grid))


@pytest.mark.parametrize(
    ("text", "block", "grid"),
    [
        (GENERAL, "4,4", "ceil_div(N, 4), ceil_div(M, 4)"),
        (GENERAL, "32,2*4", "ceil_div(N, 32), ceil_div(M, 8)"),
        (GENERAL, "64", "ceil_div(N, 64), M"),
        (FLAT, "64", "ceil_div(N * N, 64)"),
        (FLAT, "32,2", "ceil_div(N * N, 32)"),
        (UNCLEAR, "4,16", "ceil_div(N, 4), ceil_div(M, 16)"),
        (CLEAR + HOST, "4,16", "ceil_div(N, 4), ceil_div(N, 16)"),
        (UNCLEAR + HOST, "4,16", "ceil_div(N, 4), ceil_div(N, 16)"),
    ],
)
def test_a_constant_block_leaves_no_tile(tmp_path: Path, text: str, block: str, grid: str) -> None:
    spec = read(tmp_path, text, block=block)
    assert launch(spec)[1] == grid
    assert spec.params == {}


@pytest.mark.parametrize("text", [GENERAL, CLEAR, UNCLEAR, CLEAR + HOST, UNCLEAR + HOST])
@pytest.mark.parametrize(("block", "x", "y"), [("T,T", 16, 16), ("2*T,T/2", 32, 8)])
def test_a_block_of_the_tile_is_swept(
    tmp_path: Path, text: str, block: str, x: int, y: int
) -> None:
    spec = read(tmp_path, text, block=block)
    assert spec.params == {"TILE_SIZE": (8, 16, 32)}
    found = Point(spec, Problem(70, 70, 70), {"TILE_SIZE": 16}).launch()
    assert found.block == (x, y, 1)
    assert found.grid == (-(-70 // x), -(-70 // y), 1)


def test_a_block_may_follow_the_sizes(tmp_path: Path) -> None:
    spec = read(tmp_path, GENERAL, block="min(N, 32),4")
    assert Point(spec, Problem(70, 20, 70), {}).launch().grid == (1, 18, 1)


@pytest.mark.parametrize("block", ["T,T", "4,16"])
def test_the_likelier_of_several_readings_follows_it(tmp_path: Path, block: str) -> None:
    """The first right one is taken, and a grid for 8 x 8 is right for a tile of 8."""
    spec = read(tmp_path, UNCLEAR + HOST, block=block)
    grids = [launch(each)[1] for each in (spec, *spec.alternatives)]
    eighths = "ceil_div(N, 8), ceil_div(N, 8)"
    assert eighths in grids[1:]
    assert {launch(each)[0] for each in spec.alternatives} == {launch(spec)[0]}


@pytest.mark.parametrize(
    ("text", "block", "grid"),
    [
        (tiled("TW", before="#define TW 16\n"), "8,8", "ceil_div(N, TILE_SIZE)"),
        (CLEAR.replace("blockDim.x", "16").replace("blockDim.y", "16"), "8,8", "ceil_div(N, 16)"),
    ],
)
def test_the_sources_own_tile_keeps_its_grid(
    tmp_path: Path, text: str, block: str, grid: str
) -> None:
    assert launch(read(tmp_path, text, block=block))[1] == f"{grid}, {grid}"


def test_a_given_grid_stays(tmp_path: Path) -> None:
    spec = read(tmp_path, GENERAL, block="4,4", grid="ceil(N/T),M")
    assert launch(spec) == ("4, 4", "ceil(N/TILE_SIZE), M")
    assert spec.params == {"TILE_SIZE": (8, 16, 32)}


def test_a_headers_grid_stays() -> None:
    spec = kernels.get("naive", Overrides(block="4,4"))
    assert launch(spec)[1] == launch(kernels.get("naive"))[1]


@pytest.mark.parametrize(
    ("block", "size"), [("", 2048), ("8,8", 512), ("T,T", 2048), ("T/2,T/2", 512)]
)
def test_dynamic_shared_memory_follows_it(tmp_path: Path, block: str, size: int) -> None:
    body = (
        "    extern __shared__ float s[];\n    float *a = s, *b = s + blockDim.x * blockDim.y;\n"
        f"{PLACE}    a[threadIdx.x] = b[threadIdx.y] = 0;\n{PRODUCT}"
    )
    spec = read(tmp_path, kernel(SQUARE, body), **({"block": block} if block else {}))
    point = Point(spec, Problem(64, 64, 64), {"TILE_SIZE": 16})
    assert point.launch().dynamic_shared_bytes == size
