"""Draws the values of a tile with characters: spans of (text, role), no colours."""

from __future__ import annotations

from itertools import pairwise

from mmbench.explain.drawing import Line, Span
from mmbench.explain.model import Cell, Tile
from mmbench.explain.words import number

_TILE_EDGE = 8


def tile_grid(tile: Tile, title: str) -> list[Line]:
    """The values of a tile; the thread's own element in brackets, what it reads with a dot."""
    cells = {(cell.row, cell.column): cell for cell in tile.cells}
    own = next((cell for cell in tile.cells if cell.own), None)
    rows = _some({cell.row for cell in tile.cells}, own.row if own else None)
    columns = _some({cell.column for cell in tile.cells}, own.column if own else None)
    gutter = max((len(str(row)) for row in rows if row is not None), default=1) + 3
    lines: list[Line] = [[(" " * (gutter + 1) + title, tile.matrix)]]
    header = "".join(f"{'' if c is None else c:>3} " for c in columns)
    lines.append([(" " * gutter + header, "dim")])
    for row in rows:
        line: Line = [(f"{'' if row is None else row} ".rjust(gutter), "dim")]
        for column in columns:
            line.append(_value(cells, row, column, tile.matrix))
        lines.append(line)
    return lines


def _value(
    cells: dict[tuple[int, int], Cell], row: int | None, column: int | None, matrix: str
) -> Span:
    if row is None or column is None:
        return " .. ", "dim"
    cell = cells.get((row, column))
    if cell is None:
        return "    ", ""
    before, after = " ", " "
    if cell.own:
        before, after = ("[", "]") if cell.read else ("(", ")")
    elif cell.read:
        before = "•"
    role = f"{matrix} mine" if cell.read or cell.own else "plain"
    return f"{before}{number(cell.value):>2}{after}", role


def _some(numbers: set[int], wanted: int | None) -> list[int | None]:
    """All numbers, or of many the first, the wanted and the last, with None for gaps."""
    ordered = sorted(numbers)
    if len(ordered) <= _TILE_EDGE:
        return list(ordered)
    kept = sorted({*ordered[:3], *ordered[-2:], *([] if wanted is None else [wanted])})
    found: list[int | None] = [kept[0]]
    for before, after in pairwise(kept):
        if ordered.index(after) - ordered.index(before) > 1:
            found.append(None)
        found.append(after)
    return found


GRID_LEGEND = "• read by this thread   [ ] read and stored by it   ( ) only stored by it"
