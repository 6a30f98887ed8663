"""Counts of the checked build equal closed forms, and a model written from the definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from mmbench import kernels
from mmbench.check import PointReport, check_point, choose_points
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.spec import Point

pytestmark = pytest.mark.cpu

GOOD = Path(__file__).parent / "check" / "good"
AWKWARD = (Problem(33, 20, 17), Problem(1, 1, 1), Problem(47, 7, 31), Problem(7, 47, 5))


HOST_KERNELS = [name for name in kernels.names() if "cpu" in kernels.get(name).runners]


@pytest.mark.parametrize("name", HOST_KERNELS)
def test_declared_traffic_is_counted_traffic(name: str) -> None:
    spec = kernels.get(name)
    points = choose_points(spec)
    params = points[0].params
    if spec.rectangular and not spec.requires:
        points += [Point(spec, problem, params) for problem in AWKWARD]
    assert len(points) >= 3
    for point in points:
        report = check_point(point)
        assert report.ok, (str(point), report.findings, report.verdict_message)
        traffic = point.traffic()
        loads = sum(report.elements(matrix, "load") for matrix in "ABC")
        assert loads == traffic.reads, str(point)
        assert report.elements("C", "store") == traffic.writes, str(point)


def test_closed_forms() -> None:
    m, n, k, t = 33, 20, 17, 8
    for name, reads in (
        ("naive", {"A": m * n * k, "B": m * n * k}),
        ("tiled", {"A": m * k * -(-n // t), "B": k * n * -(-m // t)}),
    ):
        point = Point(kernels.get(name), Problem(m, n, k), {"TILE_SIZE": t})
        report = check_point(point)
        for matrix, elements in reads.items():
            assert report.elements(matrix, "load") == elements
        assert report.elements("C", "store") == m * n


# The model: for each warp of each block, the addresses of the lanes, instruction by instruction.
# An access is (variable, op, {lane: address}); global addresses count elements of one matrix.
Access = tuple[str, str, dict[int, int]]


def warps(t: int) -> Iterator[list[tuple[int, int]]]:
    threads = [(i % t, i // t) for i in range(t * t)]
    for first in range(0, t * t, 32):
        yield threads[first : first + 32]


def naive(p: Problem, t: int, row_is_y: bool = True) -> Iterator[Access]:
    for by in range(-(-p.m // t) if row_is_y else -(-p.n // t)):
        for bx in range(-(-p.n // t) if row_is_y else -(-p.m // t)):
            for lanes in warps(t):
                xy = [(bx * t + x, by * t + y) for x, y in lanes]
                at = {i: ((y, x) if row_is_y else (x, y)) for i, (x, y) in enumerate(xy)}
                at = {i: (r, c) for i, (r, c) in at.items() if r < p.m and c < p.n}
                for k in range(p.k):
                    yield "A", "load", {i: r * p.k + k for i, (r, _) in at.items()}
                    yield "B", "load", {i: k * p.n + c for i, (_, c) in at.items()}
                yield "C", "store", {i: r * p.n + c for i, (r, c) in at.items()}


def tiled(p: Problem, t: int, width: int, transposed: bool = False) -> Iterator[Access]:
    """The tile of A lies in rows of ``width`` words; transposed, its column index comes first."""
    for by in range(-(-p.m // t)):
        for bx in range(-(-p.n // t)):
            for k0 in range(0, p.k, t):
                for warp in warps(t):
                    yield from tile_step(p, t, width, transposed, (bx, by, k0), warp)
            for warp in warps(t):
                at = [(by * t + y, bx * t + x) for x, y in warp]
                yield (
                    "C",
                    "store",
                    {i: r * p.n + c for i, (r, c) in enumerate(at) if r < p.m and c < p.n},
                )


def tile_step(
    p: Problem, t: int, width: int, transposed: bool, at: tuple[int, int, int],
    warp: list[tuple[int, int]],
) -> Iterator[Access]:  # fmt: skip
    bx, by, k0 = at
    lanes = list(enumerate(warp))
    yield (
        "A",
        "load",
        {
            i: (by * t + y) * p.k + k0 + x
            for i, (x, y) in lanes
            if by * t + y < p.m and k0 + x < p.k
        },
    )
    yield (
        "B",
        "load",
        {
            i: (k0 + y) * p.n + bx * t + x
            for i, (x, y) in lanes
            if k0 + y < p.k and bx * t + x < p.n
        },
    )
    a_word = (lambda x, y: x * width + y) if transposed else (lambda x, y: y * width + x)
    yield "sA", "store", {i: a_word(x, y) for i, (x, y) in lanes}
    # + y if transposed else y * width + x) for i, (x, y) in lanes}
    yield "sB", "store", {i: y * width + x for i, (x, y) in lanes}
    for k in range(t):
        yield "sA", "load", {i: a_word(k, y) for i, (_, y) in lanes}
        yield "sB", "load", {i: k * width + x for i, (x, _) in lanes}


def model(accesses: Iterator[Access]) -> dict[tuple[str, str], tuple[int, ...]]:
    """Accesses, requests, sectors, ideal sectors, wavefronts and the worst conflict."""
    total: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 6)
    for variable, op, lanes in accesses:
        if not lanes:
            continue
        words = set(lanes.values())
        banks: dict[int, int] = defaultdict(int)
        for word in words:
            banks[word % 32] += 1
        worst = max(banks.values())
        is_shared = variable.startswith("s")
        sums = total[variable, op]
        sums[0] += len(lanes)
        sums[1] += 1
        sums[2] += 0 if is_shared else len({4 * word // 32 for word in words})
        sums[3] += 0 if is_shared else -(-4 * len(words) // 32)
        sums[4] += worst if is_shared else 0
        sums[5] = max(sums[5], worst if is_shared else 0)
    return {key: tuple(sums) for key, sums in total.items()}


def counted(report: PointReport) -> dict[tuple[str, str], tuple[int, ...]]:
    total: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * 6)
    for c in report.counts:
        sums = total[c.variable, c.op]
        for i, value in enumerate(
            (c.accesses, c.requests, c.sectors, c.ideal_sectors, c.wavefronts)
        ):
            sums[i] += value
        sums[5] = max(sums[5], c.worst_conflict)
    return {key: tuple(sums) for key, sums in total.items()}


SHAPES = [(16, 8), (20, 5), (23, 7), (33, 16), (40, 32)]


@pytest.mark.parametrize(("n", "t"), SHAPES)
def test_the_model_of_a_warp_agrees(n: int, t: int) -> None:
    p = Problem(n + 3, n, max(n - 5, 1))
    for path, accesses in (
        (GOOD / "naive_guarded.cu", naive(p, t)),
        (GOOD / "tiled_guarded.cu", tiled(p, t, t)),
        (GOOD / "tiled_padded.cu", tiled(p, t, t + 1)),
        (GOOD / "tiled_transposed.cu", tiled(p, t, t, transposed=True)),
        (kernels.get("uncoalesced").path, naive(p, t, row_is_y=False)),
    ):
        report = check_point(Point(read_kernel(path), p, {"TILE_SIZE": t}))
        assert report.ok
        assert counted(report) == model(accesses), path.stem


def test_vectors_count_as_their_bytes() -> None:
    spec = read_kernel(GOOD / "register_tile_float4.cu")
    report = check_point(Point(spec, Problem(32, 32, 32), {}))
    loads = [c for c in report.counts if c.variable in ("A", "B") and c.op == "load"]
    assert {c.bytes_each for c in loads} == {16}
    assert sum(c.accesses for c in loads) == 2 * 32 * 32 // 4
    (b_loads,) = (c for c in loads if c.variable == "B")
    assert b_loads.sectors == b_loads.ideal_sectors == 32 * 32 * 4 // 32
    (b_stores,) = (c for c in report.counts if c.variable == "sB" and c.op == "store")
    assert b_stores.bytes_each == 16
    assert b_stores.wavefronts == b_stores.ideal_wavefronts == 4 * b_stores.requests
