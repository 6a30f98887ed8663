"""Arranges what a block stored into tiles, in rows and columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from mmbench.explain.events import Event
from mmbench.explain.model import Cell, Element, Tile
from mmbench.spec import Dim3

Entry = tuple[Element, Event, Element | None, bool]


def make_tiles(
    entries: Sequence[Entry], thread: Dim3, matrix_of: Mapping[str, str]
) -> tuple[Tile, ...]:
    """Tiles of (shared element, its store, its origin, whether the thread reads it).

    They lie as in the shared array where it has rows and columns of its own, else as in the
    matrix.
    """
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for entry in entries:
        element, _, origin, _ = entry
        matrix = origin.variable if origin else matrix_of.get(element.variable, "")
        groups[matrix, element.variable].append(entry)
    return tuple(
        _tile(variable, matrix, group, thread)
        for (matrix, variable), group in sorted(groups.items())
        if matrix
    )


def _tile(variable: str, matrix: str, group: Sequence[Entry], thread: Dim3) -> Tile:
    prefixes = {element.at[:-2] for element, _, _, _ in group}
    by_matrix = len(prefixes) > 1 or any(len(element.at) < 2 for element, _, _, _ in group)
    cells = []
    for element, store, origin, is_read in group:
        place = (origin.at if origin else ()) if by_matrix else element.at[-2:]
        if len(place) == 2:
            own = store.thread == thread
            cells.append(Cell(*place, store.value, origin, store.thread, own, is_read))
    cells.sort(key=lambda cell: (cell.row, cell.column))
    prefix = () if by_matrix else next(iter(prefixes))
    return Tile(variable, matrix, tuple(cells), by_matrix, prefix)
