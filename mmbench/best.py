"""The best tile of each kernel at each problem. Ties are shown as ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from mmbench.results import Row, latest

# Too few samples for a confidence interval: medians this close are not told apart.
_NO_INTERVAL_MARGIN = 0.05


@dataclass(frozen=True)
class Best:
    """The fastest row of one kernel and problem, and those that cannot be told from it."""

    row: Row
    ties: tuple[Row, ...]

    @property
    def tiles(self) -> tuple[int, ...]:
        return tuple(sorted(row.tile_size or 0 for row in (self.row, *self.ties)))


def best_tiles(rows: Sequence[Row]) -> list[Best]:
    """For each kernel and problem with more than one tile measured, its fastest ok row."""

    def group(row: Row) -> tuple[int, int, int, str, str]:
        return row.m, row.n, row.k, row.kernel, row.dtype

    found = []
    for _, members in groupby(sorted(latest(rows), key=group), key=group):
        tiled = [row for row in members if row.tile_size is not None]
        right = sorted(
            (row for row in tiled if row.status == "ok" and row.plausible),
            key=lambda row: row.time_ms_median or 0.0,
        )
        if len(tiled) > 1 and right:
            found.append(Best(right[0], tuple(r for r in right[1:] if is_tie(right[0], r))))
    return found


def is_tie(fastest: Row, other: Row) -> bool:
    """Whether the intervals of the medians overlap."""
    if fastest.time_ms_high is None or other.time_ms_low is None:
        a, b = fastest.time_ms_median or 0.0, other.time_ms_median or 0.0
        return b <= a * (1 + _NO_INTERVAL_MARGIN)
    return other.time_ms_low <= fastest.time_ms_high
