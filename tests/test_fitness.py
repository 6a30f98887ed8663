"""What does not fit is refused with its reason before it runs; what just fits is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mmbench.device import CUDA_LIMITS, Device
from mmbench.expressions import Expression
from mmbench.fitness import unfit_reason
from mmbench.product import Problem, Product
from mmbench.spec import Argument, KernelSpec, Point

CUBE = Problem(64, 64, 64)
RECTANGULAR = tuple(Argument(name) for name in "ABCMNK")
SQUARE = tuple(Argument(name) for name in "ABCN")
DEVICE = Device(
    runner="cuda",
    index=0,
    name="A device",
    uuid="GPU-1",
    limits=CUDA_LIMITS,
    memory_bytes=10**9,
    host_memory_bytes=10**10,
    compute_capability=(8, 0),
)


def axes(*texts: str) -> tuple[Expression, ...]:
    return tuple(map(Expression, texts))


SPEC = KernelSpec(
    name="mine",
    path=Path("mine.cu"),
    source="",
    entry="mine",
    summary="",
    block=axes("TILE_SIZE", "TILE_SIZE"),
    grid=axes("ceil_div(N, TILE_SIZE)", "ceil_div(M, TILE_SIZE)"),
    reads=Expression("2 * M * N * K"),
    writes=Expression("M * N"),
    arguments=RECTANGULAR,
)


def reason(
    spec: KernelSpec = SPEC,
    problem: Problem = CUBE,
    device: Device = DEVICE,
    tile: int = 16,
) -> str | None:
    return unfit_reason(Point(spec, problem, {"TILE_SIZE": tile}), device)


def test_fit() -> None:
    assert reason() is None
    assert reason(tile=32) is None
    assert reason(problem=Problem(1, 1000, 17)) is None


def test_other_runner() -> None:
    spec = replace(SPEC, runners=("cuda",))
    assert reason(spec) is None
    assert reason(spec, device=replace(DEVICE, runner="cpu")) == "runs on cuda only"


def test_square_kernel() -> None:
    spec = replace(SPEC, arguments=SQUARE)
    assert reason(spec) is None
    for problem in (Problem(64, 64, 32), Problem(32, 64, 64), Problem(64, 32, 64)):
        assert reason(spec, problem) == "the kernel takes square matrices only (M = N = K)"
        assert reason(SPEC, problem) is None


@pytest.mark.parametrize("need", [(8, 6), (9, 0), (10, 0)])
def test_compute_capability(need: tuple[int, int]) -> None:
    spec = replace(SPEC, compute_capability=need)
    text = f"needs compute capability {need[0]}.{need[1]}, this device has 8.0"
    assert reason(spec) == text
    assert reason(spec, device=replace(DEVICE, compute_capability=need)) is None
    assert reason(spec, device=replace(DEVICE, compute_capability=None)) is None
    assert reason(replace(SPEC, compute_capability=(7, 5))) is None


def test_condition_of_the_header() -> None:
    requires = ((Expression("N % TILE_SIZE == 0"), "no edge guard"),)
    spec = replace(SPEC, requires=requires)
    assert reason(spec) is None
    assert reason(spec, Problem(65, 65, 65)) == "no edge guard (N % TILE_SIZE == 0)"


def test_second_condition_of_the_header() -> None:
    requires = ((Expression("N > 1"), "too small"), (Expression("K % 4 == 0"), "float4"))
    assert reason(replace(SPEC, requires=requires), Problem(9, 9, 9)) == "float4 (K % 4 == 0)"


@pytest.mark.parametrize("key", ["block", "grid", "static_shared", "dynamic_shared", "traffic"])
def test_expression_without_a_value(key: str) -> None:
    bad = Expression("N // (TILE_SIZE - 16)")
    changes: dict[str, object] = {
        "block": {"block": (bad,)},
        "grid": {"grid": (bad,)},
        "static_shared": {"static_shared": bad},
        "dynamic_shared": {"dynamic_shared": bad},
        "traffic": {"reads": bad},
    }[key]  # type: ignore[assignment]
    found = reason(replace(SPEC, **changes))  # type: ignore[arg-type]
    assert found is not None
    assert '"N // (TILE_SIZE - 16)" has no value here' in found


def test_condition_without_a_value() -> None:
    spec = replace(SPEC, requires=((Expression("N % (N - 64) == 0"), "odd"),))
    found = reason(spec)
    assert found is not None
    assert "has no value here" in found


def test_threads_of_a_block() -> None:
    assert reason(tile=64) == "block 64x64 = 4096 threads, the limit is 1024"
    assert reason(replace(SPEC, block=axes("1024"))) is None
    assert reason(replace(SPEC, block=axes("1025"))) == (
        "block 1025x1 = 1025 threads, the limit is 1024"
    )
    assert reason(replace(SPEC, block=axes("32", "8", "8"))) == (
        "block 32x8x8 = 2048 threads, the limit is 1024"
    )


@pytest.mark.parametrize(
    ("key", "texts", "found"),
    [
        ("block", ("1", "1", "64"), None),
        ("block", ("1", "1", "65"), "block (1, 1, 65) is over the limit of 64 in z"),
        ("grid", ("2 ** 31 - 1", "65535", "65535"), None),
        ("grid", ("2 ** 31",), "grid (2147483648, 1, 1) is over the limit of 2147483647 in x"),
        ("grid", ("1", "65536"), "grid (1, 65536, 1) is over the limit of 65535 in y"),
        ("grid", ("1", "1", "65536"), "grid (1, 1, 65536) is over the limit of 65535 in z"),
        ("block", ("N - 64",), "the launch shape is empty: grid (4, 4, 1), block (0, 1, 1)"),
        ("grid", ("-N",), "the launch shape is empty: grid (-64, 1, 1), block (16, 16, 1)"),
        ("grid", ("1", "1", "N // 65"), "the launch shape is empty: grid (1, 1, 0), block"),
    ],
)
def test_launch_shape(key: str, texts: tuple[str, ...], found: str | None) -> None:
    spec = replace(SPEC, block=axes(*texts)) if key == "block" else replace(SPEC, grid=axes(*texts))
    if found is None:
        assert reason(spec) is None
    else:
        assert (reason(spec) or "").startswith(found)


def test_static_shared_memory() -> None:
    assert reason(replace(SPEC, static_shared=Expression("48 * 1024"))) is None
    found = "needs 49153 bytes of static shared memory per block, the limit is 49152"
    assert reason(replace(SPEC, static_shared=Expression("48 * 1024 + 1"))) == found
    assert DEVICE.limits.static_shared_reason(49152) is None
    assert DEVICE.limits.static_shared_reason(49153) == found


def test_dynamic_shared_memory() -> None:
    most = CUDA_LIMITS.dynamic_shared_bytes
    assert reason(replace(SPEC, dynamic_shared=Expression(str(most)))) is None
    assert reason(replace(SPEC, dynamic_shared=Expression(f"{most} + 1"))) == (
        f"needs {most + 1} bytes of dynamic shared memory per block, the limit is {most}"
    )


def test_limits_are_the_devices() -> None:
    small = replace(DEVICE, limits=replace(CUDA_LIMITS, threads=128, static_shared_bytes=100))
    assert reason(device=small) == "block 16x16 = 256 threads, the limit is 128"
    spec = replace(SPEC, static_shared=Expression("101"))
    assert "the limit is 100" in (reason(spec, device=small, tile=8) or "")


def test_memory_of_the_device() -> None:
    problem = Problem(1000, 2000, 3000)
    need = (1000 * 3000 + 3000 * 2000 + 1000 * 2000) * 4
    assert reason(problem=problem, device=replace(DEVICE, memory_bytes=need)) is None
    found = reason(problem=problem, device=replace(DEVICE, memory_bytes=need - 1))
    assert found == "needs 0.0 GB of memory for A, B and C, the device has 0.0 GB"
    double = replace(SPEC, product=Product("float64", "float64"))
    assert reason(double, problem, replace(DEVICE, memory_bytes=2 * need)) is None
    assert reason(double, problem, replace(DEVICE, memory_bytes=2 * need - 1)) is not None


def test_memory_of_a_huge_problem() -> None:
    found = reason(problem=Problem(10**5, 10**5, 10**5))
    assert found == "needs 120.0 GB of memory for A, B and C, the device has 1.0 GB"


def test_memory_of_the_host() -> None:
    n = 10_000
    need = 3 * n * n * 4
    roomy = replace(DEVICE, memory_bytes=10**12)
    cube = Problem(n, n, n)
    assert reason(problem=cube, device=replace(roomy, host_memory_bytes=3 * need)) is None
    found = reason(problem=cube, device=replace(roomy, host_memory_bytes=3 * need - 1))
    assert found == (
        "needs 3.6 GB of memory for A, B and C, the host, which checks the result, has 3.6 GB"
    )
