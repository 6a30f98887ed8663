"""Names for places: elements of matrices and arrays, ranges, and groups of threads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mmbench.explain.model import Element, Source
from mmbench.product import Problem
from mmbench.spec import Dim3


@dataclass(frozen=True)
class Geometry:
    """The shapes of the matrices, and of the shared arrays where they are known."""

    problem: Problem
    shapes: Mapping[str, tuple[int, ...]]

    def shape(self, variable: str) -> tuple[int, ...]:
        problem = self.problem
        matrices = {
            "A": (problem.m, problem.k), "B": (problem.k, problem.n), "C": (problem.m, problem.n),
        }  # fmt: skip
        return matrices.get(variable) or self.shapes.get(variable, ())

    def element(self, variable: str, index: int) -> Element:
        """The element with its place, row-major; without one where it lies outside the array."""
        at: list[int] = []
        rest = index
        for size in reversed(self.shape(variable)):
            at.append(rest % size if size else 0)
            rest = rest // size if size else rest
        return Element(variable, index, tuple(reversed(at)) if not rest and index >= 0 else ())


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers as people write them: 0..3, or 0..3, 8..11."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    texts = [_range(part) for part in parts]
    if len(texts) > 3:
        texts = [*texts[:2], f".. {texts[-1]}"]
    return ", ".join(texts)


def _range(part: list[int]) -> str:
    return str(part[0]) if part[0] == part[1] else f"{part[0]}..{part[1]}"


def thread_name(thread: Dim3, extent: Dim3) -> str:
    """A thread or block as (x, y), with z where there are several layers."""
    return f"({', '.join(map(str, thread[: _axes(extent)]))})"


def thread_names(threads: Collection[Dim3], extent: Dim3) -> str:
    """Threads by ranges, (0..3, 1), where they form a rectangle; else how many there are."""
    distinct = set(threads)
    axes = [{thread[axis] for thread in distinct} for axis in range(_axes(extent))]
    size = 1
    for values in axes:
        size *= len(values)
    names = [ranges(values) for values in axes]
    if size == len(distinct) and not any("," in name for name in names):
        text = f"({', '.join(names)})"
        return f"thread {text}" if size == 1 else f"threads {text}"
    return f"{len(distinct)} threads, {thread_name(min(distinct, key=_order), extent)} among them"


def _axes(extent: Dim3) -> int:
    return 3 if extent[2] > 1 else 2


def _order(thread: Dim3) -> tuple[int, int, int]:
    x, y, z = thread
    return z, y, x


def whole(extent: Dim3) -> str:
    """An extent as 4 x 4, with z where there are several layers."""
    return " x ".join(map(str, extent[: _axes(extent)]))


def region(variable: str, elements: Iterable[Element]) -> str:
    """The part of a matrix that elements cover: A[4..7][0..3]."""
    places = [element.at for element in elements if element.at]
    return f"{variable}[{ranges(p[0] for p in places)}][{ranges(p[1] for p in places)}]"


def source(lines: Sequence[str], line: int) -> Source:
    """A line of the kernel with its text, if the file has it."""
    return Source(line, lines[line - 1].strip() if 0 < line <= len(lines) else "")


def part_size(numbers: Collection[int], edge: int, place: tuple[Dim3, Dim3]) -> int | None:
    """How many rows or columns of C a whole block has, where this one has ``numbers`` of ``edge``.

    The last block's part may be cut off: there its index (``place`` is block and grid) tells
    how wide the others are. None where neither does.
    """
    first, count = min(numbers), len(numbers)
    if max(numbers) - first + 1 != count:
        return None
    if first + count < edge or count == edge:
        return count
    for index, size in zip(*place, strict=True):
        if 0 < index == size - 1 and first % index == 0 and first // index >= count:
            return first // index
    return None
