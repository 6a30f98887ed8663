"""The walk itself: steps, sums, barriers, reuse, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mmbench.errors import UsageError
from mmbench.explain import words
from mmbench.explain.dataflow import trace_values
from mmbench.explain.events import Event, Recording
from mmbench.explain.geometry import Geometry, part_size, ranges, thread_names
from mmbench.explain.model import Operand, Walk
from mmbench.explain.products import Products
from mmbench.explain.walk import check_place, walk
from mmbench.product import Problem
from mmbench.spec import Dim3, Point
from test_explain_simulator import direct, inputs, point, staged


def walk_of(at: Point, recording: Recording, thread: Dim3 = (3, 1, 0)) -> Walk:
    return walk(at, thread, recording, *inputs(at))


@pytest.fixture
def tutorial_walk() -> Walk:
    at = point("tiled", 4, 8)
    return walk_of(at, staged(at))


def test_who_owns_what(tutorial_walk: Walk) -> None:
    assert [element.label for element in tutorial_walk.owned] == ["C[5][7]"]
    assert tutorial_walk.rows == tutorial_walk.columns == (4, 5, 6, 7)
    assert len(tutorial_walk.part) == 16


def test_what_the_thread_loads_and_where_it_puts_it(tutorial_walk: Walk) -> None:
    a, b = inputs(point("tiled", 4, 8))
    for step, (a_at, b_at) in zip(tutorial_walk.steps, [((5, 3), (1, 7)), ((5, 7), (5, 7))],
                                  strict=True):  # fmt: skip
        for_a, for_b = step.copies
        assert for_a.source
        assert for_a.source.label == f"A[{a_at[0]}][{a_at[1]}]"
        assert for_b.source
        assert for_b.source.label == f"B[{b_at[0]}][{b_at[1]}]"
        assert (for_a.target.label, for_b.target.label) == ("sA[1][3]", "sB[1][3]")
        assert (for_a.value, for_b.value) == (a[a_at], b[b_at])


def test_the_tiles_hold_what_the_matrices_hold(tutorial_walk: Walk) -> None:
    a, b = inputs(point("tiled", 4, 8))
    for number, step in enumerate(tutorial_walk.steps):
        k = slice(4 * number, 4 * number + 4)
        for tile, expected in zip(step.tiles, (a[4:8, k], b[k, 4:8]), strict=True):
            held = np.zeros((4, 4))
            for cell in tile.cells:
                held[cell.row, cell.column] = cell.value
            assert (held == expected).all()
            assert sum(cell.own for cell in tile.cells) == 1
        in_a, in_b = ({(c.row, c.column) for c in tile.cells if c.read} for tile in step.tiles)
        assert in_a == {(1, i) for i in range(4)}
        assert in_b == {(i, 3) for i in range(4)}


def test_the_sums_are_those_of_the_product(tutorial_walk: Walk) -> None:
    a, b = (matrix.astype(np.float64) for matrix in inputs(point("tiled", 4, 8)))
    first, second = tutorial_walk.steps
    assert first.subtotal == first.total == a[5, :4] @ b[:4, 7]
    assert second.subtotal == a[5, 4:] @ b[4:, 7]
    assert second.total == tutorial_walk.written.value == a[5] @ b[:, 7]
    assert (first.depth, second.depth) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert words.check(tutorial_walk)[0]


def test_the_barriers_know_their_threads(tutorial_walk: Walk) -> None:
    first, second = tutorial_walk.steps
    for step in (first, second):
        assert step.before
        assert (step.before.barriers, step.before.stores, step.before.threads) == (1, 32, 16)
        assert [(o.variable, o.elements, o.threads) for o in step.before.needed] == [
            ("sA", 4, tuple((x, 1, 0) for x in range(4))),
            ("sB", 4, tuple((3, y, 0) for y in range(4))),
        ]
        assert step.before.races == 0
    assert first.after
    assert first.before
    assert first.after.overwritten == first.before.needed
    assert second.after
    assert second.after.exists
    assert not second.after.overwritten
    assert "protects nothing" in words.barrier_after(second, tutorial_walk)
    said = words.barrier_before(first, tutorial_walk)
    assert "4 of sA, written by threads (0..3, 1)" in said
    assert "4 of sB, written by threads (3, 0..3)" in said


def test_the_reuse_is_counted(tutorial_walk: Walk) -> None:
    for each in tutorial_walk.reuse:
        assert (each.elements, each.loads, each.uses) == (32, 32, 128)
        assert (each.times, each.alone) == (2, 8)
    assert words.reuse(tutorial_walk.reuse[0]).startswith("Each element of A is read 2 times inst")
    said = words.requests(tutorial_walk)
    assert "1,024" in said
    assert "this kernel 256, 1/4 of it, as its header declares" in said


def test_a_kernel_without_shared_memory() -> None:
    at = point("naive", 4, 8, 12, 20)
    found = walk_of(at, direct(at))
    (step,) = found.steps
    assert step.direct
    assert not step.tiles
    assert step.depth == tuple(range(20))
    assert [(t.a.place.label, t.b.place.label) for t in step.terms[:2]] == [
        ("A[5][0]", "B[0][7]"), ("A[5][1]", "B[1][7]"),
    ]  # fmt: skip
    assert [(r.times, r.alone) for r in found.reuse] == [(12, 12), (8, 8)]
    assert "nothing is reused" in words.reuse(found.reuse[0])


@pytest.mark.parametrize(
    ("tile", "shape", "block", "thread"),
    [
        (4, (9, 10, 11), (2, 2, 0), (1, 0, 0)),
        (4, (9, 10, 11), (0, 1, 0), (2, 3, 0)),
        (8, (16, 24, 8), (2, 1, 0), (7, 7, 0)),
        (2, (5, 3, 7), (1, 0, 0), (0, 1, 0)),
        (16, (20, 20, 20), (0, 0, 0), (15, 15, 0)),
    ],
)
def test_other_tiles_shapes_and_edges(
    tile: int, shape: tuple[int, int, int], block: Dim3, thread: Dim3
) -> None:
    at = point("tiled", tile, *shape)
    found = walk_of(at, staged(at, block), thread)
    a, b = (matrix.astype(np.float64) for matrix in inputs(at))
    row, column = found.followed.at
    assert (row, column) == (block[1] * tile + thread[1], block[0] * tile + thread[0])
    assert found.written.own_sum == found.written.expected == a[row] @ b[:, column]
    assert len(found.steps) == -(-shape[2] // tile)
    assert not any(term.strange for step in found.steps for term in step.terms)
    bands = -(-shape[1] // tile), -(-shape[0] // tile)
    for each, band in zip(found.reuse, bands, strict=True):
        assert each.times in (band, None)


def test_an_edge_thread_stores_zeros_without_a_load() -> None:
    at = point("tiled", 4, 4, 4, 5)
    found = walk_of(at, staged(at, (0, 0, 0)), (3, 1, 0))
    for_a, for_b = found.steps[1].copies
    assert for_a.source is None
    assert for_a.value == for_b.value == 0
    assert words.copy(for_a) == "0 -> sA[1][3]   no load: past the edge"
    assert found.steps[1].depth == (4,)
    assert "24 elements past the edge become 0" in words.block_copies(found.steps[1])


# ---- planted faults ----


def changed(recording: Recording, position: int, value: float) -> Recording:
    events = list(recording.events)
    events[position] = replace(events[position], value=value)
    return replace(recording, events=tuple(events))


def test_a_wrong_stored_sum_is_called_wrong() -> None:
    at = point("tiled", 4, 8)
    recording = staged(at)
    store = next(i for i, e in enumerate(recording.events)
                 if e.variable == "C" and e.thread == (3, 1, 0))  # fmt: skip
    wrong = changed(recording, store, recording.events[store].value + 1)
    right, said = words.check(walk_of(at, wrong))
    assert not right
    assert said.startswith("WRONG")
    assert "another value still" in said


def test_a_wrong_operand_changes_the_sum() -> None:
    at = point("tiled", 4, 8)
    recording = staged(at)
    load = next(i for i, e in enumerate(recording.events)
                if e.variable == "sA" and e.op == "load" and e.thread == (3, 1, 0))  # fmt: skip
    found = walk_of(at, changed(recording, load, recording.events[load].value + 1))
    assert found.written.own_sum != found.written.value == found.written.expected


def test_a_swapped_index_is_named() -> None:
    at = point("tiled", 4, 8)
    found = walk_of(at, staged(at, swapped=True))
    right, said = words.check(found)
    assert not right
    assert "the wrong operands were read" in said
    assert found.written.own_sum == found.written.value
    (remark,) = words.remarks(found.steps[0])
    assert remark.startswith("3 products here do not belong")
    assert "A[5][0] * B[3][4]" in remark


def test_a_missing_second_barrier_is_seen() -> None:
    at = point("tiled", 4, 8)
    found = walk_of(at, staged(at, second_barrier=False))
    first = found.steps[0]
    assert first.before
    assert first.before.races == 4  # threads that ran before this one
    assert "NO __syncthreads()" in words.barrier_before(first, found)
    assert first.after
    assert first.after.races == 2  # threads that run after it
    assert "NO __syncthreads()" in words.barrier_after(first, found)
    assert "too early or too late" in words.remarks(first)[0]


# ---- where values come from ----


def event(op: str, variable: str, index: int, value: float, line: int, epoch: int = 0) -> Event:
    space = "shared" if variable.startswith("s") else "global"
    return Event((0, 0, 0), epoch, line, space, op, variable, index, value)  # type: ignore[arg-type]


def test_stores_find_their_loads_among_equal_values() -> None:
    events = [
        event("load", "A", 0, 2, 1), event("load", "B", 0, 2, 2),
        event("store", "sB", 0, 2, 4), event("store", "sA", 0, 2, 3),  # which is which?
        event("load", "A", 1, 1, 1), event("load", "B", 1, 3, 2),
        event("store", "sB", 1, 3, 4), event("store", "sA", 1, 1, 3),  # here it is certain
    ]  # fmt: skip
    assert trace_values(events).source_of == {2: 1, 3: 0, 6: 5, 7: 4}


def test_a_line_that_computes_copies_nothing() -> None:
    events = [
        event("load", "A", 0, 2, 1), event("store", "sX", 0, 2, 5),
        event("load", "A", 1, 3, 1), event("store", "sX", 1, 7, 5),
        event("load", "sX", 0, 2, 6, epoch=1),
    ]  # fmt: skip
    flow = trace_values(events)
    assert flow.source_of == {}
    assert flow.direct == {0, 2}
    assert flow.origin(4) is None


def test_operands_in_registers_are_paired_by_where_they_come_from() -> None:
    geometry = Geometry(Problem(2, 2, 2), {})
    owned = [geometry.element("C", index) for index in (0, 1, 2, 3)]
    read = [
        (name, Operand(value, geometry.element(name, index), geometry.element(name, index)))
        for name, index, value in [("A", 0, 2.0), ("A", 2, 9.0), ("B", 0, 3.0), ("B", 1, 9.0)]
    ]
    (term,) = Products(owned).of(read)
    assert (term.a.place.label, term.b.place.label, term.product) == ("A[0][0]", "B[0][0]", 6)


# ---- words for places ----


def test_ranges_and_threads_read_as_people_write_them() -> None:
    assert ranges([3, 1, 2, 0]) == "0..3"
    assert ranges([5]) == "5"
    assert ranges([0, 1, 8, 9, 16, 17, 24, 25]) == "0..1, 8..9, .. 24..25"
    block = (4, 4, 1)
    assert thread_names([(x, 1, 0) for x in range(4)], block) == "threads (0..3, 1)"
    assert thread_names([(2, 1, 0)], block) == "thread (2, 1)"
    assert thread_names([(0, 0, 0), (1, 1, 0)], block) == "2 threads, (0, 0) among them"
    assert thread_names([(0, 0, 1)], (4, 4, 2)) == "thread (0, 0, 1)"


def test_an_index_outside_its_array_has_no_place() -> None:
    geometry = Geometry(Problem(2, 3, 4), {"sA": (2, 5, 6)})
    assert geometry.element("A", 7).label == "A[1][3]"
    assert geometry.element("A", 8).at == geometry.element("A", -1).at == ()
    assert geometry.element("sA", 59).label == "sA[1][4][5]"
    assert geometry.element("flat", 7).label == "flat[7]"


@pytest.mark.parametrize(
    ("numbers", "edge", "block", "size"),
    [
        (range(4), 9, (0, 0, 0), 4),
        (range(8, 9), 9, (2, 0, 0), 4),  # cut off: the index of the block tells
        (range(9), 9, (0, 0, 0), 9),
        ((0, 2, 4), 9, (0, 0, 0), None),
    ],
)
def test_how_wide_a_whole_part_is(numbers: range, edge: int, block: Dim3, size: int | None) -> None:
    assert part_size(numbers, edge, (block, (3, 3, 1))) == size


def test_an_axis_of_one_block_tells_nothing() -> None:
    assert part_size(range(8, 9), 9, ((0, 2, 0), (1, 3, 1))) == 4


# ---- what is refused ----


@pytest.mark.parametrize(
    ("block", "thread", "edge", "words_of_it"),
    [
        ((1, 2, 0), (3, 1, 0), 8, "no block 1,2: the grid of tiled N=8 tile=4 has 2 x 2 blocks, "
         "so the largest is 1,1"),
        ((1, 1, 0), (4, 0, 0), 8, "no thread 4,0: a block of tiled N=8 tile=4 has 4 x 4 threads, "
         "so the largest is 3,3"),
        ((-1, 0, 0), (0, 0, 0), 8, "no block -1,0"),
        ((0, 0, 1), (0, 0, 0), 8, "no block 0,0,1"),
        ((0, 0, 0), (0, 0, 0), 512, "too large to draw: explain goes up to 256"),
    ],
)  # fmt: skip
def test_places_that_do_not_exist(block: Dim3, thread: Dim3, edge: int, words_of_it: str) -> None:
    with pytest.raises(UsageError) as error:
        check_place(point("tiled", 4, edge), block, thread)
    assert words_of_it in error.value.message


def test_a_thread_past_the_edge_owns_nothing() -> None:
    at = point("tiled", 4, 9)
    with pytest.raises(UsageError) as error:
        walk_of(at, staged(at, (2, 2, 0)), (3, 1, 0))
    assert "thread (3, 1) of block (2, 2)" in error.value.message
    assert "it lies past the edge of C" in error.value.message
    assert error.value.message.endswith("; try --thread 0,0")
