"""Compiles ahead: who begins when, what is measured meanwhile, and an end that waits for nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from threading import Event, Lock, Timer
from typing import Any

import pytest

from conftest import RIGHT, WriteKernel, quiet
from mmbench import compiles, kernels
from mmbench.bench import Bench, Settings
from mmbench.compiles import Compiles
from mmbench.header import read_kernel
from mmbench.measure import StopRule
from mmbench.product import Problem
from mmbench.runners import Program, Runner
from mmbench.spec import Point


class Scripted:
    """A runner whose compiles end when they are told to."""

    compiles_while_measuring = True

    def __init__(self, cpu: Runner) -> None:
        self.device = cpu.device
        self.begun: list[int] = []
        self.ends: dict[int, Event] = {}
        self._lock = Lock()

    def prepare(self) -> None: ...

    def compile(self, point: Point) -> Program:
        tile = point.params["TILE_SIZE"]
        with self._lock:
            self.begun.append(tile)
        assert self.ends[tile].wait(20)
        return Program("", str(tile), None)

    def points(self, count: int) -> list[Point]:
        self.ends = {tile: Event() for tile in range(1, count + 1)}
        spec = kernels.get("naive")
        return [Point(spec, Problem(8, 8, 8), {"TILE_SIZE": tile}) for tile in self.ends]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def scripted(cpu: Runner, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(compiles.os, "cpu_count", lambda: 12)  # type: ignore[attr-defined]
    return Scripted(cpu)


@pytest.mark.parametrize(("hasty", "beside", "first"), [(True, True, 2), (False, True, 8),
                                                        (True, False, 8)])  # fmt: skip
def test_a_few_begin_alone(scripted: Any, hasty: bool, beside: bool, first: int) -> None:
    scripted.compiles_while_measuring = beside
    points = scripted.points(8)
    made = Compiles(scripted, points, quiet, hasty)
    until(lambda: len(scripted.begun) == first)
    time.sleep(0.1)
    assert sorted(scripted.begun) == list(range(1, first + 1))
    assert not made.ready(points[:1])
    scripted.ends[2].set()
    until(lambda: len(scripted.begun) == 8)
    until(lambda: made.ready(points[1:2]))
    assert not made.ready(points[:2])
    for end in scripted.ends.values():
        end.set()
    assert [made.program(point).symbol for point in points] == [*map(str, scripted.ends)]
    made.__exit__()


def test_those_that_wait_never_begin_once_it_is_over(scripted: Any) -> None:
    points = scripted.points(8)
    with Compiles(scripted, points, quiet, hasty=True) as made:
        until(lambda: len(scripted.begun) == 2)
    for end in scripted.ends.values():
        end.set()
    with pytest.raises(CancelledError):
        made.program(points[-1])
    assert sorted(scripted.begun) == [1, 2]


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_only_long_waits_are_told(scripted: Any, seconds: float) -> None:
    said: list[str] = []
    (point,) = scripted.points(1)
    Timer(seconds, scripted.ends[1].set).start()
    with Compiles(scripted, [point], lambda text, share: said.append(text)) as made:
        if not seconds:
            until(lambda: made.ready([point]))
        assert made.program(point).symbol == "1"
    assert said == (["naive N=8 tile=1: compiling"] if seconds else [])


@pytest.mark.cpu
@pytest.mark.parametrize("in_order", [True, False])
def test_what_is_compiled_is_measured_first(
    cpu: Runner, write_kernel: WriteKernel, monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    """Unless the order is asked for. The last of the slow kernel's points still comes."""
    specs = [read_kernel(write_kernel(name, RIGHT)) for name in ("quick", "slow")]
    compile_it = type(cpu).compile
    others = Event()

    def compile_slowly(self: Runner, point: Point) -> Program:
        if point.spec.name == "slow":
            assert others.wait(20)
        return compile_it(self, point)  # type: ignore[arg-type]

    monkeypatch.setattr(type(cpu), "compile", compile_slowly)
    monkeypatch.setattr(cpu, "compiles_while_measuring", True, raising=False)
    rule = StopRule(samples=3, min_time=0.0, precision=1.0, budget=0.1, warm_up=0.0)
    points = [
        Point(spec, Problem(n, n, n), {"TILE_SIZE": 16}) for n in (15, 16, 17) for spec in specs
    ]
    if in_order:
        others.set()
    rows = []
    groups = [[point] for point in points]
    for (each,) in Bench(cpu, Settings(rule)).run_groups(groups, quiet, in_order):
        rows.append((each.row.kernel, each.row.n, each.row.status))
        if len(rows) == 3:
            others.set()
    order = points if in_order else [p for name in ("quick", "slow") for p in points
                                     if p.spec.name == name]  # fmt: skip
    assert rows == [(point.spec.name, point.problem.n, "ok") for point in order]
