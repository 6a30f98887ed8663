"""Builds the walk of one thread from the events of its block. Knows no kernel and no view."""

from __future__ import annotations

from collections.abc import Sequence

from mmbench.errors import UsageError
from mmbench.explain.dataflow import trace_values
from mmbench.explain.events import Event, Recording
from mmbench.explain.geometry import Geometry, source, thread_name, whole
from mmbench.explain.model import Element, Step, Walk, Written
from mmbench.explain.reuse import count_reuse
from mmbench.explain.steps import StepMaker
from mmbench.runners import Array
from mmbench.spec import Dim3, Point

LARGEST_EDGE = 256


def check_place(point: Point, block: Dim3, thread: Dim3) -> None:
    """Raise UsageError unless there are such a block and such a thread, in a drawable problem."""
    launch, problem = point.launch(), point.problem
    edge = max(problem.m, problem.n, problem.k)
    if edge > LARGEST_EDGE:
        raise UsageError(
            f"{problem} is too large to draw: explain goes up to {LARGEST_EDGE}, and a small "
            "problem of a few tiles, such as --n 8 --tile 4, shows all there is to see"
        )
    for what, wanted, extent, owner in (
        ("block", block, launch.grid, f"the grid of {point}"),
        ("thread", thread, launch.block, f"a block of {point}"),
    ):
        if any(not 0 <= index < size for index, size in zip(wanted, extent, strict=True)):
            last = tuple(size - 1 for size in extent)
            raise UsageError(
                f"there is no {what} {_triple(wanted)}: {owner} has {whole(extent)} {what}s, "
                f"so the largest is {_triple((last[0], last[1], last[2]))}"
            )


def _triple(index: Dim3) -> str:
    return ",".join(map(str, index if index[2] else index[:2]))


def walk(point: Point, thread: Dim3, recording: Recording, a: Array, b: Array) -> Walk:
    """The walk of ``thread`` of the recorded block, whose inputs were ``a`` and ``b``.

    Raise UsageError where the place does not exist or the thread owns no element of C.
    """
    check_place(point, recording.block, thread)
    launch, problem, spec = point.launch(), point.problem, point.spec
    geometry = Geometry(problem, recording.shapes)
    flow = trace_values(recording.events)
    stores = _stores_to_c(recording.events, geometry)
    owned = tuple(dict.fromkeys(e for event, e in stores if event.thread == thread))
    if not owned:
        raise UsageError(_owns_nothing(point, recording, thread, stores))
    steps = tuple(StepMaker(flow, geometry, thread, owned, source_lines(point)).steps())
    part = tuple(sorted({element for _, element in stores}, key=lambda element: element.at))
    return Walk(
        kernel=spec.name, summary=spec.summary, path=spec.path, problem=problem,
        params=tuple(sorted(point.params.items())), grid=launch.grid, extent=launch.block,
        block=recording.block, thread=thread, owned=owned, part=part, steps=steps,
        written=_written(stores, owned[0], thread, (steps, a, b), source_lines(point)),
        reuse=count_reuse(flow, geometry, part, (recording.block, launch.grid)),
        declared_reads=point.traffic().reads,
        a=_numbers(a), b=_numbers(b),
    )  # fmt: skip


def source_lines(point: Point) -> tuple[str, ...]:
    return tuple(point.spec.source.splitlines())


def _stores_to_c(events: Sequence[Event], geometry: Geometry) -> list[tuple[Event, Element]]:
    """The stores to elements of C, in order; those outside it belong to nobody."""
    found = []
    for event in events:
        if event.space == "global" and event.variable == "C" and event.writes:
            element = geometry.element("C", event.index)
            if element.at:
                found.append((event, element))
    return found


def _owns_nothing(
    point: Point, recording: Recording, thread: Dim3, stores: list[tuple[Event, Element]]
) -> str:
    name = thread_name(thread, point.launch().block)
    block = thread_name(recording.block, point.launch().grid)
    text = f"thread {name} of block {block} of {point} stores no element of C"
    if not stores:
        return f"{text}, nor does any other thread of the block"
    others = dict.fromkeys(event.thread for event, _ in stores)
    nearest = min(others, key=lambda o: sum(abs(i - j) for i, j in zip(o, thread, strict=True)))
    other = "another thread stores its result"
    why = f"it lies past the edge of C, or {other}" if _is_edge(point, recording.block) else other
    return f"{text}: {why}; try --thread {_triple(nearest)}"


def _is_edge(point: Point, block: Dim3) -> bool:
    grid = point.launch().grid
    return any(index == size - 1 for index, size in zip(block[:2], grid[:2], strict=True))


def _written(
    stores: list[tuple[Event, Element]],
    element: Element,
    thread: Dim3,
    inputs: tuple[tuple[Step, ...], Array, Array],
    lines: Sequence[str],
) -> Written:
    steps, a, b = inputs
    mine = [event for event, stored in stores if stored == element and event.thread == thread]
    row, column = element.at
    return Written(
        element=element,
        value=mine[-1].value,
        line=source(lines, mine[-1].line),
        atomic=mine[-1].op == "atomic",
        own_sum=steps[-1].total if steps else 0.0,
        expected=float(a[row].astype("float64") @ b[:, column].astype("float64")),
        products=sum(len(step.terms) for step in steps),
    )


def _numbers(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in matrix)
