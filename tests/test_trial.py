"""Of several readings of a file, the one whose product is right is taken, and that is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmbench import trial
from mmbench.expressions import Expression
from mmbench.header import read_source
from mmbench.infer import infer
from mmbench.overrides import Overrides
from mmbench.product import Product
from mmbench.runners import Runner
from mmbench.spec import Argument, KernelSpec
from mmbench.trial import describe, settle

ONE = Expression("1")
FIRST = KernelSpec(
    name="mine", path=Path("folder/mine.cu"), source="", entry="f", summary="", block=(ONE,),
    grid=(Expression("1"),), reads=ONE, writes=ONE, notes=("read so",),
    arguments=tuple(map(Argument, ("A", "B", "C", "N"))),
)  # fmt: skip


def reading(grid: int) -> KernelSpec:
    return replace(FIRST, grid=(Expression(str(grid)),), notes=())


def settled(
    monkeypatch: pytest.MonkeyPatch, cpu: Runner, right: set[str]
) -> tuple[KernelSpec, list[str], list[str]]:
    """With grids 1, 2 and 3 to choose from: the choice, what was said, and what was tried."""
    said: list[str] = []
    tried: list[str] = []

    def is_right(spec: KernelSpec, runner: Runner) -> bool:
        assert not spec.alternatives
        tried.append(spec.grid[0].text)
        return spec.grid[0].text in right

    monkeypatch.setattr(trial, "_is_right", is_right)
    spec = replace(FIRST, alternatives=(reading(2), reading(3)))
    return settle(spec, cpu, said.append), said, tried


def test_one_reading_is_not_tried(monkeypatch: pytest.MonkeyPatch, cpu: Runner) -> None:
    monkeypatch.setattr(trial, "_is_right", lambda *_: pytest.fail("tried"))
    said: list[str] = []
    assert settle(FIRST, cpu, said.append) == FIRST
    assert said == []


def test_the_likeliest_is_tried_first(monkeypatch: pytest.MonkeyPatch, cpu: Runner) -> None:
    found, said, tried = settled(monkeypatch, cpu, {"1", "2", "3"})
    assert (found, said, tried) == (FIRST, [], ["1"])


def test_the_right_one_is_taken_and_named(monkeypatch: pytest.MonkeyPatch, cpu: Runner) -> None:
    found, said, tried = settled(monkeypatch, cpu, {"2", "3"})
    assert found == replace(reading(2), notes=("read so",))
    assert tried == ["1", "2"]
    assert said == [
        "mine.cu: of 3 readings this one is right: f(A, B, C, int N), block (1), grid (2)"
    ]


def test_none_is_right(monkeypatch: pytest.MonkeyPatch, cpu: Runner) -> None:
    found, said, tried = settled(monkeypatch, cpu, set())
    assert found == FIRST
    assert tried == ["1", "2", "3"]
    (line,) = said
    assert "none of 3 readings of the file gives the right C" in line
    assert line.endswith("so the first is measured; --grid says how it is meant")


def test_the_hint_names_what_is_open(monkeypatch: pytest.MonkeyPatch, cpu: Runner) -> None:
    said: list[str] = []
    monkeypatch.setattr(trial, "_is_right", lambda *_: False)
    turned = replace(FIRST, arguments=tuple(map(Argument, ("B", "A", "C", "N"))))
    spec = replace(
        FIRST, alternatives=(turned,), notes=("A seems to be read transposed (see --trans-a)",)
    )
    settle(spec, cpu, said.append)
    assert said[0].endswith("; --args and --trans-a say how it is meant")


def test_nothing_is_said_of_readings_that_cannot_run(
    monkeypatch: pytest.MonkeyPatch, cpu: Runner
) -> None:
    """The row tells why; which reading is meant is another question."""
    said: list[str] = []
    monkeypatch.setattr(trial, "_is_right", lambda *_: None)
    assert settle(replace(FIRST, alternatives=(reading(2),)), cpu, said.append) == FIRST
    assert said == []


@pytest.mark.cpu
@pytest.mark.parametrize("broken", ["= sum", "= UNKNOWN;"])
def test_a_file_that_does_not_compile_is_not_settled(
    tmp_path: Path, cpu: Runner, broken: str
) -> None:
    text = GUESSED.replace("DOWN", "y").replace("ACROSS", "x").replace("= sum;", broken)
    spec = read(tmp_path, text)
    assert spec.alternatives
    said: list[str] = []
    settle(spec, cpu, said.append)
    assert said == []


def test_what_the_options_say_holds_for_every_reading(
    monkeypatch: pytest.MonkeyPatch, cpu: Runner
) -> None:
    told = {
        "product": Product(column_major=frozenset("ABC"), beta=1),
        "defines": {"SCALE": "1"},
        "includes": (Path("headers"),),
    }
    tried: list[KernelSpec] = []
    monkeypatch.setattr(trial, "_is_right", lambda spec, runner: bool(tried.append(spec)))
    settle(replace(FIRST, alternatives=(reading(2),), **told), cpu, lambda text: None)  # type: ignore[arg-type]
    assert [each.grid[0].text for each in tried] == ["1", "2"]
    for each in tried:
        assert {name: getattr(each, name) for name in told} == told


def test_how_a_kernel_is_called() -> None:
    spec = replace(
        FIRST, block=(Expression("TILE_SIZE"), ONE),
        arguments=(Argument("C"), Argument("null"), Argument("K * 2", "size_t")),
    )  # fmt: skip
    assert describe(spec) == "f(C, null, size_t K * 2), block (TILE_SIZE, 1), grid (1)"


UNNAMED = """
__global__ void f(const float *p, const float *q, float *r, int u, int v, int w)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    const float *from = p + i * FIRST_STEP, *by = q + j;
    float sum = 0;
    int left = INNER;
    while (left--) {
        sum += *from++ * *by;
        by += SECOND_STEP;
    }
    r[i * SECOND_STEP + j] = sum;
}
"""
GUESSED = """
__global__ void f(const float *A, const float *B, float *C, int N)
{
    int first = blockIdx.DOWN * 16, second = blockIdx.ACROSS * 16;
    for (int e = threadIdx.x; e < 256; e += blockDim.x) {
        int row = first + e / 16, col = second + e % 16;
        if (row >= N || col >= N) continue;
        float sum = 0;
        for (int k = 0; k < N; ++k) sum += A[row * N + k] * B[k * N + col];
        C[row * N + col] = sum;
    }
}
"""


def read(folder: Path, text: str, **options: str) -> KernelSpec:
    path = folder / "mine.cu"
    path.write_text(text)
    overrides = Overrides(**options)  # type: ignore[arg-type]
    return overrides.apply(infer(path, read_source(path), overrides).spec)


@pytest.mark.cpu
@pytest.mark.parametrize(("inner", "width"), [("u", "v"), ("u", "w"), ("v", "w"), ("w", "u")])
def test_sizes_whose_names_say_nothing(tmp_path: Path, cpu: Runner, inner: str, width: str) -> None:
    text = UNNAMED.replace("FIRST_STEP", inner).replace("INNER", inner)
    spec = read(tmp_path, text.replace("SECOND_STEP", width))
    found = settle(spec, cpu, lambda text: None)
    called = dict(zip("pqruvw", (a.name for a in found.arguments), strict=True))
    assert (called[inner], called[width]) == ("K", "N")


@pytest.mark.cpu
@pytest.mark.parametrize(("down", "across"), ["yx", "xy"])
def test_a_launch_that_nothing_tells(tmp_path: Path, cpu: Runner, down: str, across: str) -> None:
    text = GUESSED.replace("DOWN", down).replace("ACROSS", across)
    spec = read(tmp_path, text)
    said: list[str] = []
    found = settle(spec, cpu, said.append)
    assert "none of" not in "".join(said)
    grid = [axis.value({"M": 160, "N": 160, "TILE_SIZE": 16}) for axis in found.grid]
    assert grid == [10, 10]


@pytest.mark.cpu
def test_a_wrong_kernel_is_not_settled(tmp_path: Path, cpu: Runner) -> None:
    text = GUESSED.replace("DOWN", "y").replace("ACROSS", "x").replace("= sum;", "= sum + 1;")
    spec = read(tmp_path, text)
    assert spec.alternatives
    said: list[str] = []
    found = settle(spec, cpu, said.append)
    assert found == replace(spec, alternatives=())
    assert "gives the right C" in said[0]


def test_a_kernel_of_another_runner_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, cpu: Runner
) -> None:
    """Its row says why it is skipped; no reading of it can be right or wrong here."""
    monkeypatch.setattr(trial, "_is_right", lambda *_: pytest.fail("tried"))
    said: list[str] = []
    spec = replace(FIRST, runners=("cuda",), alternatives=(reading(2),))
    assert settle(spec, cpu, said.append) == replace(spec, alternatives=())
    assert said == []
