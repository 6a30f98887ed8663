"""A kernel whose size is a constant of its file: run at that size, at another only if told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmbench.axes import default_problems, points, problems
from mmbench.errors import UsageError
from mmbench.expressions import Expression
from mmbench.fitness import unfit_reason
from mmbench.header import read_kernel, read_source
from mmbench.infer import Inferred, infer
from mmbench.overrides import Overrides
from mmbench.product import Problem
from mmbench.runners import Runner
from mmbench.spec import KernelSpec, Point

SQUARE = """
__global__ void fixed(const float *A, const float *B, float *C)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= SIDE || c >= SIDE) return;
    float sum = 0;
    for (int i = 0; i < SIDE; ++i) sum += A[r * SIDE + i] * B[i * SIDE + c];
    C[r * SIDE + c] = sum;
}
"""
OBLONG = """
__global__ void fixed(const float *A, const float *B, float *C)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= ROWS || c >= COLS) return;
    float sum = 0;
    for (int i = 0; i < INNER; ++i) sum += A[r * INNER + i] * B[i * COLS + c];
    C[r * COLS + c] = sum;
}
"""


def read(folder: Path, text: str, **defines: str) -> Inferred:
    path = folder / "mine.cu"
    path.write_text(text)
    return infer(path, read_source(path), Overrides(defines=defines))


def got(folder: Path, text: str, **defines: str) -> KernelSpec:
    overrides = Overrides(defines=defines)
    return overrides.apply(read(folder, text, **defines).spec)


@pytest.mark.parametrize(
    "definition",
    [
        "const int SIDE = 48;",
        "constexpr int SIDE = 3 * 16;",
        "#define SIDE 48",
        "#define SIDE (3 << 4)",
        "static const unsigned SIDE = 48u;",
        "enum { SIDE = 48 };",
        "#ifndef SIDE\n#define SIDE 48\n#endif",
        "#define EDGE 48\n#define SIDE EDGE",
        "const int EDGE = 24, SIDE = 2 * EDGE;",
    ],
)
def test_the_size_is_read(tmp_path: Path, definition: str) -> None:
    found = read(tmp_path, definition + SQUARE)
    assert found.spec.fixed == Problem(48, 48, 48)
    assert [a.name for a in found.spec.arguments] == ["A", "B", "C"]
    assert any("no size parameter: " in note and " = 48" in note for note in found.notes)
    assert any("--define" in note for note in found.notes)


def test_three_sizes_are_read(tmp_path: Path) -> None:
    constants = "const int ROWS = 20, COLS = 30;\n#define INNER 40\n"
    found = read(tmp_path, constants + OBLONG).spec
    assert found.fixed == Problem(20, 30, 40)
    assert [axis.text for axis in found.grid] == [
        "ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)",
    ]  # fmt: skip


def test_a_size_that_is_told_follows(tmp_path: Path) -> None:
    text = "const int SIDE = 48;" + SQUARE
    found = got(tmp_path, text, SIDE="N")
    assert found.fixed is None
    assert found.defines == {"SIDE": Expression("N")}
    assert "const int SIDE" not in found.source
    assert Point(found, Problem(33, 33, 33), {"TILE_SIZE": 16}).defines == (
        "-DSIDE=33", "-DTILE_SIZE=16",
    )  # fmt: skip
    assert not found.rectangular


def test_three_sizes_that_are_told_follow(tmp_path: Path) -> None:
    text = "#define ROWS 20\n#define COLS 30\n#define INNER 40\n" + OBLONG
    found = got(tmp_path, text, ROWS="M", COLS="N", INNER="K")
    assert found.fixed is None
    assert found.rectangular
    assert Point(found, Problem(3, 4, 5), {}).defines == ("-DCOLS=4", "-DINNER=5", "-DROWS=3")


def test_a_number_that_is_told_is_the_size(tmp_path: Path) -> None:
    found = got(tmp_path, "#define SIDE 48\n" + SQUARE, SIDE="64")
    assert Point(found, Problem(64, 64, 64), {}).defines == ("-DSIDE=64",)


@pytest.mark.parametrize("before", ["", "extern const int SIDE;\n"])
def test_a_size_that_nothing_tells_is_refused(tmp_path: Path, before: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, before + SQUARE)
    assert caught.value.message.startswith(f"{tmp_path / 'mine.cu'}: fixed ")
    assert "\n" not in caught.value.message


def test_a_size_that_is_passed_is_no_constant(tmp_path: Path) -> None:
    text = "#define UNUSED 48\n" + SQUARE.replace("float *C)", "float *C, int SIDE)")
    assert read(tmp_path, text).spec.fixed is None


def test_another_size_is_refused_with_what_to_do(tmp_path: Path) -> None:
    spec = read(tmp_path, "const int SIDE = 48;" + SQUARE).spec
    assert [str(p.problem) for p in points([spec], problems([48]), [16])] == ["N=48"]
    with pytest.raises(UsageError) as caught:
        points([spec], problems([48, 64]), [16])
    assert caught.value.message == (
        f"{tmp_path / 'mine.cu'}: fixed has no size parameter and is right for N=48 alone, not for "
        "N=64; run it with --n 48, or let SIDE follow with --define SIDE=N"
    )
    oblong = read(tmp_path, "const int ROWS = 20, COLS = 30, INNER = 40;" + OBLONG).spec
    with pytest.raises(UsageError, match="--m 20 --n 30 --k 40"):
        points([oblong], problems([30]), None)


def test_the_usual_size_is_the_files(tmp_path: Path) -> None:
    square = read(tmp_path, "const int SIDE = 48;" + SQUARE).spec
    oblong = read(tmp_path, "const int ROWS = 20, COLS = 30, INNER = 40;" + OBLONG).spec
    free = read(tmp_path, SQUARE.replace("float *C)", "float *C, int SIDE)")).spec
    assert default_problems([square], [64]) == (Problem(48, 48, 48),)
    assert default_problems([free, oblong], [64]) == (Problem(20, 30, 40),)
    assert default_problems([free], [64, 96]) == problems([64, 96])
    assert default_problems([square, oblong], [64]) == problems([64])


def test_its_header_states_the_size(tmp_path: Path) -> None:
    found = read(tmp_path, "const int ROWS = 20, COLS = 30, INNER = 40;" + OBLONG)
    path = tmp_path / "mine.cu"
    path.write_text(found.header + found.spec.source)
    spec = read_kernel(path)
    assert spec.fixed == Problem(20, 30, 40)
    with pytest.raises(UsageError, match="--m 20 --n 30 --k 40"):
        points([spec], [Problem(64, 64, 64)])


@pytest.mark.cpu
def test_its_header_runs_at_the_size(tmp_path: Path, cpu: Runner) -> None:
    found = read(tmp_path, "const int ROWS = 20, COLS = 30, INNER = 40;" + OBLONG)
    path = tmp_path / "mine.cu"
    path.write_text(found.header + found.spec.source)
    point = Point(read_kernel(path), Problem(20, 30, 40), {"TILE_SIZE": 16})
    assert unfit_reason(point, cpu.device) is None
