"""A stand-in for the checked build: the accesses of two kernels, made in plain Python.

The other tests of explain take their recordings from here; one of them compares these with
what the real kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from mmbench import kernels
from mmbench.explain.events import Event, Recording
from mmbench.inputs import make_inputs
from mmbench.product import Problem
from mmbench.runners import Array
from mmbench.spec import Dim3, Point


def point(name: str, tile: int, m: int, n: int | None = None, k: int | None = None) -> Point:
    return Point(kernels.get(name), Problem(m, n or m, k or m), {"TILE_SIZE": tile})


def inputs(at: Point) -> tuple[Array, Array]:
    made = make_inputs(at.problem, at.spec.product, 0, "whole")
    return made.a, made.b


def line_of(at: Point, text: str) -> int:
    """The line of the kernel's file that holds this text."""
    lines = at.spec.source.splitlines()
    numbered = enumerate(lines, 1)
    return next(at for at, line in numbered if text in line and not line.startswith("//"))


@dataclass
class Simulator:
    """Runs one block of a kernel; ``shared`` are its arrays, ``events`` what it did.

    ``second_barrier`` and ``swapped`` plant a missing barrier and a swapped index.
    """

    point: Point
    block: Dim3
    second_barrier: bool = True
    swapped: bool = False
    events: list[Event] = field(default_factory=list)
    shared: dict[tuple[str, int], float] = field(default_factory=dict)
    epoch: int = 0

    def __post_init__(self) -> None:
        self.a, self.b = inputs(self.point)
        self.tile = self.point.params["TILE_SIZE"]
        self.sums = {thread: 0.0 for thread in self.threads()}

    def threads(self) -> list[Dim3]:
        return [(x, y, 0) for y in range(self.tile) for x in range(self.tile)]

    def place(self, thread: Dim3) -> tuple[int, int]:
        return (
            self.block[1] * self.tile + thread[1],
            self.block[0] * self.tile + thread[0],
        )

    def _note(
        self, thread: Dim3, op: str, variable: str, index: int, value: float, text: str
    ) -> float:
        space = "shared" if variable.startswith("s") else "global"
        line = line_of(self.point, text)
        self.events.append(
            Event(thread, self.epoch, line, space, op, variable, index, value)  # type: ignore[arg-type]
        )
        return value

    def _stage(self, thread: Dim3, step: int) -> None:
        problem, tile = self.point.problem, self.tile
        (row, column), (x, y, _) = self.place(thread), thread
        for matrix, values, at, edge in (
            ("A", self.a, (row, step * tile + x), (problem.m, problem.k)),
            ("B", self.b, (step * tile + y, column), (problem.k, problem.n)),
        ):
            text = f"s{matrix}[ty][tx] ="
            inside = at[0] < edge[0] and at[1] < edge[1]
            value = float(values[at]) if inside else 0.0
            if inside:
                self._note(thread, "load", matrix, at[0] * edge[1] + at[1], value, text)
            index = y * tile + x
            self.shared[f"s{matrix}", index] = value
            self._note(thread, "store", f"s{matrix}", index, value, text)

    def _multiply(self, thread: Dim3) -> None:
        x, y, _ = thread
        text, tile = "acc += sA", self.tile
        for k in range(tile):
            at_b = x * tile + k if self.swapped else k * tile + x
            values = [
                self._note(thread, "load", name, at, self.shared[name, at], text)
                for name, at in (("sA", y * tile + k), ("sB", at_b))
            ]
            self.sums[thread] += values[0] * values[1]

    def _store(self, thread: Dim3) -> None:
        problem = self.point.problem
        row, column = self.place(thread)
        if row < problem.m and column < problem.n:
            text = "C[row * N + col] = acc"
            index = row * problem.n + column
            self._note(thread, "store", "C", index, self.sums[thread], text)

    def staged(self) -> Recording:
        """The kernel that stages tiles in shared memory."""
        steps = -(-self.point.problem.k // self.tile)
        for step in range(steps):
            for thread in self.threads():
                if step and not self.second_barrier:
                    self._multiply(thread)
                self._stage(thread, step)
            self.epoch += 1
            if self.second_barrier:
                for thread in self.threads():
                    self._multiply(thread)
                self.epoch += 1
        for thread in self.threads():
            if not self.second_barrier:
                self._multiply(thread)
            self._store(thread)
        shape = (self.tile, self.tile)
        return Recording(self.block, tuple(self.events), {"sA": shape, "sB": shape})

    def direct(self) -> Recording:
        """The kernel that reads all operands from global memory."""
        problem, text = self.point.problem, "acc += A[row"
        for thread in self.threads():
            row, column = self.place(thread)
            if row >= problem.m or column >= problem.n:
                continue
            for k in range(problem.k):
                values = float(self.a[row, k]), float(self.b[k, column])
                self._note(thread, "load", "A", row * problem.k + k, values[0], text)
                self._note(thread, "load", "B", k * problem.n + column, values[1], text)
                self.sums[thread] += values[0] * values[1]
            self._store(thread)
        return Recording(self.block, tuple(self.events))


def staged(
    at: Point, block: Dim3 = (1, 1, 0), *, second_barrier: bool = True, swapped: bool = False
) -> Recording:
    return Simulator(at, block, second_barrier, swapped).staged()


def direct(at: Point, block: Dim3 = (1, 1, 0)) -> Recording:
    return Simulator(at, block).direct()


@pytest.mark.parametrize("name", ["tiled", "naive"])
def test_the_simulator_multiplies(name: str) -> None:
    at = point(name, 4, 9, 10, 11)
    recording = staged(at, (1, 2, 0)) if name == "tiled" else direct(at, (1, 2, 0))
    a, b = inputs(at)
    stored = {e.index: e.value for e in recording.events if e.variable == "C"}
    product = (a.astype(np.float64) @ b.astype(np.float64)).ravel()
    assert stored == {index: product[index] for index in (84, 85, 86, 87)}


@pytest.mark.cpu
@pytest.mark.parametrize("name", ["tiled", "naive"])
@pytest.mark.parametrize("block", [(1, 1, 0), (2, 2, 0)])
def test_it_does_what_the_real_kernel_does(name: str, block: Dim3) -> None:
    from mmbench.check import check_point
    from mmbench.explain.events import from_trace

    at = point(name, 4, 9, 10, 11)
    trace = check_point(at, trace_block=block).trace
    assert trace is not None
    real = from_trace(trace)
    simulated = staged(at, block) if name == "tiled" else direct(at, block)
    assert len(real.events) > 20
    assert real.events == simulated.events
    assert {name: real.shapes[name] for name in simulated.shapes} == simulated.shapes
