"""Counts how often a block loads the elements of A and B, and how often its threads read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mmbench.explain.dataflow import Dataflow
from mmbench.explain.geometry import Geometry, part_size
from mmbench.explain.model import Element, Reuse
from mmbench.spec import Dim3

Place = tuple[Dim3, Dim3]


def count_reuse(
    flow: Dataflow, geometry: Geometry, part: Sequence[Element], place: Place
) -> tuple[Reuse, ...]:
    """The counts of A and of B for a block that works on ``part`` of C; ``place`` is (block, grid).

    Elements of A are shared by the blocks along a row of C, those of B by those along a column.
    """
    problem = geometry.problem
    rows, columns = ({element.at[axis] for element in part} for axis in (0, 1))
    loads: dict[str, Counter[int]] = {"A": Counter(), "B": Counter()}
    uses: Counter[str] = Counter()
    for position, event in enumerate(flow.events):
        if event.op != "load":
            continue
        is_operand = event.space == "global" and event.variable in loads
        if is_operand and geometry.element(event.variable, event.index).at:
            loads[event.variable][event.index] += 1
        origin = flow.origin(position)
        if origin is not None:
            uses[flow.events[origin].variable] += 1
    found = []
    for matrix, across, edge in (("A", columns, problem.n), ("B", rows, problem.m)):
        shape = geometry.shape(matrix)
        each = set(loads[matrix].values())
        rectangle = len(rows) * len(columns) == len(part)
        known = len(each) == 1 and rectangle
        found.append(
            Reuse(
                matrix=matrix,
                size=shape[0] * shape[1],
                elements=len(loads[matrix]),
                loads=sum(loads[matrix].values()),
                uses=uses[matrix],
                times=_times(each.pop(), across, edge, place) if known else None,
                alone=edge,
            )
        )
    return tuple(found)


def _times(each: int, across: set[int], edge: int, place: Place) -> int | None:
    """Loads of one element by all blocks, if this block loads it ``each`` times for its
    ``across`` rows or columns of C, of which there are ``edge``.
    """
    size, count = part_size(across, edge, place), len(across)
    if each == count > 1:
        return edge
    # A part that is cut off tells whether elements are loaded once a block only where it is
    # wider than one, and says nothing of other multiples.
    if size is None or (size != count and (each > 1 or count == 1)):
        return None
    return each * -(-edge // size)
