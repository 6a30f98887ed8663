"""Draws the three matrices and the tiles with characters: spans of (text, role), no colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmbench.explain.geometry import part_size
from mmbench.explain.model import Step, Walk
from mmbench.explain.words import number

Span = tuple[str, str]
Line = list[Span]
CellText = Callable[[range, range], Span]

NONE, BAND, TILE, MINE = "·", "░", "▓", "█"
_BANDS, _PIECES, _SCALED = 5, 10, (16, 12, 8, 4)
_GAP = "  "


@dataclass(frozen=True)
class Axis:
    """How the rows or columns of a matrix are cut into pieces, each drawn as one cell.

    Lines are drawn before the pieces in ``breaks``; ``marked`` is the row or column of interest.
    """

    pieces: tuple[range, ...]
    breaks: frozenset[int]
    marked: int | None

    def is_marked(self, piece: range) -> bool:
        return self.marked is not None and self.marked in piece


def axes(walk: Walk, most: int, by_tile: bool) -> tuple[Axis, Axis, Axis]:
    """The cuts along M, N and K: a piece an element, or ``by_tile`` a piece a tile, if few."""
    problem, place = walk.problem, (walk.block, walk.grid)
    row, column = walk.followed.at
    depths = [step.depth for step in walk.steps if step.depth]
    first = depths[0] if depths else ()
    k_tile = len(first) if first and first[-1] - first[0] < len(first) else problem.k
    sizes = (
        (problem.m, part_size(walk.rows, problem.m, place), row),
        (problem.n, part_size(walk.columns, problem.n, place), column),
        (problem.k, k_tile, None),
    )
    cut = _by_tile if by_tile else _by_element
    m, n, k = (cut(edge, tile or edge, marked, most) for edge, tile, marked in sizes)
    return m, n, k


def _by_element(edge: int, tile: int, marked: int | None, most: int) -> Axis:
    least = -(-edge // most)
    size = next(s for s in range(least, edge + 1) if tile % s == 0 or s % tile == 0 or s == edge)
    return _axis(edge, size, tile, marked)


def _by_tile(edge: int, tile: int, marked: int | None, most: int) -> Axis:
    size = tile * -(-edge // (tile * most))
    return _axis(edge, size, size, marked)


def _axis(edge: int, size: int, tile: int, marked: int | None) -> Axis:
    pieces = tuple(range(i, min(i + size, edge)) for i in range(0, edge, size))
    breaks = frozenset(n for n, piece in enumerate(pieces) if n and piece.start % tile == 0)
    few = len(breaks) < _BANDS
    return Axis(pieces, breaks if few else frozenset(), marked)


def box(title: Span, rows: Axis, columns: Axis, cell: CellText, numbered: bool) -> list[Line]:
    """A matrix in a frame; ``cell`` gives each cell's text, all of one width."""
    width = len(cell(rows.pieces[0], columns.pieces[0])[0])
    gutter = len(str(rows.pieces[-1].start)) + 2
    lines: list[Line] = [[(" " * (gutter + 1), ""), title]]
    if numbered:
        lines.append(_numbers(columns, width, gutter))
    lines.append([(" " * gutter, ""), (_rule(columns, width, "┌┬┐"), "frame")])
    for index, row in enumerate(rows.pieces):
        if index in rows.breaks:
            lines.append([(" " * gutter, ""), (_rule(columns, width, "├┼┤"), "frame")])
        marked = rows.is_marked(row)
        shown = str(row.start) if numbered or index in rows.breaks or index == 0 else ""
        line: Line = [
            (
                _label(str(rows.marked) if marked else shown, marked, gutter),
                "mark" if marked else "dim",
            )
        ]
        line.append(("│", "frame"))
        for at, column in enumerate(columns.pieces):
            if at in columns.breaks:
                line.append(("│", "frame"))
            line.append(cell(row, column))
        lines.append([*line, ("│", "frame")])
    lines.append([(" " * gutter, ""), (_rule(columns, width, "└┴┘"), "frame")])
    return lines


def _label(text: str, marked: bool, width: int) -> str:
    return f"[{text}]".rjust(width) if marked else f"{text} ".rjust(width)


def _numbers(columns: Axis, width: int, gutter: int) -> Line:
    line: Line = [(" " * (gutter + 1), "")]
    for at, column in enumerate(columns.pieces):
        if at in columns.breaks:
            line.append((" ", ""))
        marked = columns.is_marked(column)
        line.append((_label(str(column.start), marked, width), "mark" if marked else "dim"))
    return line


def _rule(columns: Axis, width: int, ends: str) -> str:
    left, cross, right = ends[0], ends[1], ends[2]
    parts = []
    for at in range(len(columns.pieces)):
        parts.append((cross if at in columns.breaks else "") + "─" * width)
    return left + "".join(parts) + right


def textbook(
    a: list[Line], b: list[Line], c: list[Line], corner: Sequence[Line] = ()
) -> list[Line]:
    """B above C, A to the left of C, and in the corner whatever fits."""
    left = max(map(width_of, a))
    lines: list[Line] = []
    for row, line in enumerate(b):
        note = list(corner[row]) if row < len(corner) else []
        lines.append([*note, (" " * (left - width_of(note)) + _GAP, ""), *line])
    return lines + beside([a, c])


def beside(blocks: Sequence[list[Line]], gap: str = _GAP) -> list[Line]:
    """Blocks of lines side by side, their tops level."""
    widths = [max(map(width_of, block), default=0) for block in blocks]
    lines = []
    for row in range(max(map(len, blocks))):
        line: Line = []
        for block, width in zip(blocks, widths, strict=True):
            part = block[row] if row < len(block) else []
            line += [*part, (" " * (width - width_of(part)) + gap, "")]
        lines.append(line)
    return lines


def width_of(line: Line) -> int:
    return sum(len(text) for text, _ in line)


@dataclass(frozen=True)
class Overview:
    """The three matrices, and the room above A, left of B, as (columns, lines)."""

    a: list[Line]
    b: list[Line]
    c: list[Line]

    @property
    def corner(self) -> tuple[int, int]:
        return max(map(width_of, self.a)), len(self.b)

    @property
    def width(self) -> int:
        return self.corner[0] + len(_GAP) + max(map(width_of, self.c))


def overview(walk: Walk, width: int) -> Overview:
    """The matrices, the rows and columns that the block needs, and what the thread owns."""
    largest = max(walk.problem.m, walk.problem.n, walk.problem.k)
    if largest <= _SCALED[0]:
        found = _overview(walk, largest, 3 if largest <= 10 else 4)
        if found.width <= width:
            return found
    for most in _SCALED:
        found = _overview(walk, most, 0)
        if found.width <= width:
            break
    return found


def _overview(walk: Walk, most: int, cell: int) -> Overview:
    """An overview of at most ``most`` pieces, with values of ``cell`` columns, or none."""
    problem, with_values = walk.problem, cell > 0
    m, n, k = axes(walk, most, by_tile=False)
    owned = {element.at for element in walk.owned}
    part = {element.at for element in walk.part}
    rows, columns = set(walk.rows), set(walk.columns)
    own_rows, own_columns = ({at[axis] for at in owned} for axis in (0, 1))
    step = cell or 2

    def in_a(row: range, column: range) -> Span:
        value = walk.a[row[0]][column[0]] if with_values else None
        return _shade(value, step, not rows.isdisjoint(row), not own_rows.isdisjoint(row), "A")

    def in_b(row: range, column: range) -> Span:
        value = walk.b[row[0]][column[0]] if with_values else None
        mine = not own_columns.isdisjoint(column)
        return _shade(value, step, not columns.isdisjoint(column), mine, "B")

    def in_c(row: range, column: range) -> Span:
        places = {(i, j) for i in row for j in column}
        return _shade(None, step, bool(part & places), bool(owned & places), "C")

    return Overview(
        box((f"A  {problem.m} x {problem.k}", "A"), m, k, in_a, with_values),
        box((f"B  {problem.k} x {problem.n}", "B"), k, n, in_b, with_values),
        box((f"C  {problem.m} x {problem.n}", "C"), m, n, in_c, with_values),
    )


def _shade(value: float | None, width: int, needed: bool, mine: bool, matrix: str) -> Span:
    if not needed:
        return NONE.rjust(width - 1).ljust(width), "dim"
    role = f"{matrix} mine" if mine else matrix
    if value is not None:
        return f"{number(value):>{width - 1}} ", role
    glyph = MINE if mine else BAND
    return (glyph * 2).rjust(width - 1).ljust(width) if width > 2 else glyph * 2, role


def tile_map(walk: Walk, step: Step) -> list[Line]:
    """The matrices with a cell a tile, where this step's tiles are filled."""
    m, n, k = axes(walk, _PIECES, by_tile=True)
    width = 3 if max(len(axis.pieces) for axis in (m, n, k)) <= _BANDS else 2
    names = {tile.matrix: tile.variable for tile in step.tiles}
    rows, columns, depth = set(walk.rows), set(walk.columns), set(step.depth)

    def shade(matrix: str, band: bool, current: bool) -> Span:
        name = names.get(matrix, "C" if matrix == "C" else TILE * width)
        if current:
            return (name if len(name) <= width else TILE * width).center(width), f"{matrix} mine"
        return (BAND * width, matrix) if band else (" " * width, "")

    def in_a(row: range, column: range) -> Span:
        band = not rows.isdisjoint(row)
        return shade("A", band, band and not depth.isdisjoint(column))

    def in_b(row: range, column: range) -> Span:
        band = not columns.isdisjoint(column)
        return shade("B", band, band and not depth.isdisjoint(row))

    def in_c(row: range, column: range) -> Span:
        current = not rows.isdisjoint(row) and not columns.isdisjoint(column)
        return shade("C", current, current)

    m, n, k = (Axis(axis.pieces, axis.breaks, None) for axis in (m, n, k))
    return textbook(
        box(("A", "A"), m, k, in_a, False),
        box(("B", "B"), k, n, in_b, False),
        box(("C", "C"), m, n, in_c, False),
    )


def legend() -> list[Line]:
    """The marks of the overview and what they mean."""
    return [
        [(BAND * 2, "C"), ("  the block's part", "dim")],
        [(MINE * 2, "C mine"), ("  what this thread owns", "dim")],
    ]
