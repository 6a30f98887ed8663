"""Is one faster than the other? Ratios with intervals, and the reason in a line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from mmbench import baselines, measure
from mmbench.bench import Measured
from mmbench.csvfile import read_rows
from mmbench.errors import UsageError
from mmbench.results import Row, latest
from mmbench.spec import Point

_POINT = ["kernel", "dtype", "m", "n", "k", "params"]
_RESAMPLES = 2000
_FEWEST = 6  # rounds for an interval
MARGIN = 0.01  # below which a difference does not count


@dataclass(frozen=True)
class Ratio:
    """Time of the baseline over time of the other: above 1 the other is faster.

    ``low`` and ``high`` are its 95 % interval. Two that differ by less than ``margin`` (0.01 is
    1 %) count as the same.
    """

    value: float
    low: float | None = None
    high: float | None = None
    margin: float = MARGIN

    @property
    def verdict(self) -> str:
        """faster, slower or same where all of the interval says so; else unclear."""
        if self.low is None or self.high is None:
            return "unclear"
        most = 1 + self.margin
        if self.low > most:
            return "faster"
        if self.high < 1 / most:
            return "slower"
        return "same" if self.low >= 1 / most and self.high <= most else "unclear"


@dataclass(frozen=True)
class Comparison:
    """Two rows of the same problem; ratio is None unless both are ok."""

    baseline: Row
    other: Row
    ratio: Ratio | None
    reason: str


def group_points(points: Sequence[Point]) -> list[list[Point]]:
    """Points to be measured interleaved: same problem, same tile where they have one.

    A kernel without TILE_SIZE joins every tile's group.
    """
    groups: list[list[Point]] = []
    for problem in dict.fromkeys(point.problem for point in points):
        mine = [point for point in points if point.problem == problem]
        tiles: list[int | None] = [*dict.fromkeys(p.tile for p in mine if p.tile is not None)]
        groups += [[p for p in mine if p.tile in (tile, None)] for tile in tiles or [None]]
    return groups


def compare_measured(group: Sequence[Measured], margin: float = MARGIN) -> list[Comparison]:
    """The first of an interleaved group against each of the others."""
    first, *others = group
    return [_compare_pair(first, other, margin) for other in others]


def _compare_pair(first: Measured, other: Measured, margin: float) -> Comparison:
    for row in (first.row, other.row):
        if not row.plausible:
            return Comparison(first.row, other.row, None, f"{row.kernel} is {row.remarks}")
    ratio = ratio_of(first, other, margin)
    return Comparison(first.row, other.row, ratio, reason(first.row, other.row))


def geometric_mean(found: Sequence[Comparison]) -> float | None:
    """Of all speed-ups; None where there is none."""
    logs = [math.log(each.ratio.value) for each in found if each.ratio]
    return math.exp(sum(logs) / len(logs)) if logs else None


def ratio_of(first: Measured, other: Measured, margin: float = MARGIN) -> Ratio | None:
    """Ratio of two of a group: measured in turns, in one process or in several, or apart."""
    if first.apart or other.apart:
        return _ratio_of_rows(first.row, other.row, margin)
    pairs = list(zip(first.processes, other.processes, strict=False))
    if len(pairs) > 1:
        return _ratio_of_processes(pairs, margin)
    return ratio_of_rounds(first.samples, other.samples, first.row.seed or 0, margin)


def _ratio_of_processes(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], margin: float
) -> Ratio:
    """Geometric mean of the ratios that several processes have found, with its 95 % interval."""
    ratios = [float(np.median(one) / np.median(other)) for one, other in pairs]
    return Ratio(*measure.geometric_mean(ratios), margin)


def ratio_of_rounds(
    baseline: Sequence[float], other: Sequence[float], seed: int = 0, margin: float = MARGIN
) -> Ratio | None:
    """Ratio of the medians, with a 95 % interval from a bootstrap over rounds.

    The samples of a round were taken side by side, so they are drawn together (a paired
    percentile bootstrap: Efron and Tibshirani, An Introduction to the Bootstrap, 1993).
    """
    rounds = min(len(baseline), len(other))
    if rounds == 0:
        return None
    pairs = np.array([baseline[:rounds], other[:rounds]])
    medians = np.median(pairs, axis=1)
    value = float(medians[0] / medians[1])
    if rounds < _FEWEST:
        return Ratio(value, margin=margin)
    drawn = np.random.default_rng(seed).integers(0, rounds, (_RESAMPLES, rounds))
    resampled = np.median(pairs[:, drawn], axis=2)
    low, high = np.quantile(resampled[0] / resampled[1], [0.025, 0.975])
    return Ratio(value, float(low), float(high), margin)


def reason(baseline: Row, other: Row) -> str:
    """What differs between two kernels at a problem, in a line; from model and compiler.

    Nothing is known of what a library launches.
    """
    if {baseline.kernel, other.kernel} & set(baselines.NAMES):
        return ""
    parts = []
    if baseline.requested_bytes and other.requested_bytes:
        share = baseline.requested_bytes / other.requested_bytes
        if abs(share - 1) < 0.005:
            parts.append(f"both request {other.requested_bytes / 1e9:.3g} GB")
        else:
            parts.append(
                f"{other.kernel} requests {_fraction(share)} the bytes "
                f"({other.requested_bytes / 1e9:.3g} GB, {baseline.kernel} "
                f"{baseline.requested_bytes / 1e9:.3g} GB)"
            )
    for label, name, unit in (
        ("registers", "registers", ""),
        ("occupancy", "occupancy_percent", " %"),
        ("shared memory", "shared_bytes", " B"),
    ):
        before, after = getattr(baseline, name), getattr(other, name)
        if before is not None and after is not None:
            parts.append(f"{label} {after:,.0f}{unit} ({before:,.0f}{unit})")
    return "; ".join(parts)


def _fraction(share: float) -> str:
    """How many times fewer or more: 1/32 of, or 1.5 times."""
    return f"1/{share:.3g} of" if share > 1 else f"{1 / share:.3g} times"


@dataclass(frozen=True)
class FileComparison:
    """Two files of results, matched by point."""

    comparisons: tuple[Comparison, ...]
    geometric_mean: float | None
    only_old: tuple[Row, ...]
    only_new: tuple[Row, ...]
    devices: tuple[str, str]


def compare_files(old: Path, new: Path, margin: float = MARGIN) -> FileComparison:
    """Match the rows of two files by kernel, dtype, M, N, K and parameters."""
    before, after = _frame(old), _frame(new)
    both = before.merge(after, on=_POINT, suffixes=("_old", "_new"))
    if both.empty:
        raise UsageError(f"{old} and {new} have no point in common; nothing to compare")
    pairs = zip(both["row_old"], both["row_new"], strict=True)
    comparisons = tuple(_compare_rows(before_row, row, margin) for before_row, row in pairs)
    return FileComparison(
        comparisons=comparisons,
        geometric_mean=geometric_mean(comparisons),
        only_old=_missing(before, after),
        only_new=_missing(after, before),
        devices=(_devices(before), _devices(after)),
    )


def _frame(path: Path) -> pd.DataFrame:
    """A file's rows, the last of each point, with the columns that they are matched by."""
    rows = latest(read_rows(path))
    columns = {name: [getattr(row, name) for row in rows] for name in _POINT}
    return pd.DataFrame({**columns, "row": rows})


def _missing(here: pd.DataFrame, there: pd.DataFrame) -> tuple[Row, ...]:
    """The rows of points that the other file lacks."""
    marked = here.merge(there[_POINT], on=_POINT, how="left", indicator=True)
    return tuple(marked.loc[marked["_merge"] == "left_only", "row"])


def _devices(frame: pd.DataFrame) -> str:
    return ", ".join(sorted({row.device for row in frame["row"]}))


def _compare_rows(old: Row, new: Row, margin: float) -> Comparison:
    if old.status != "ok" or new.status != "ok":
        return Comparison(old, new, None, new.reason or old.reason or "")
    if not (old.plausible and new.plausible):
        return Comparison(old, new, None, new.remarks or old.remarks or "")
    return Comparison(old, new, _ratio_of_rows(old, new, margin), "")


def _ratio_of_rows(old: Row, new: Row, margin: float) -> Ratio | None:
    """Ratio of two medians measured apart; its interval is that of the extreme quotients."""
    if old.time_ms_median is None or new.time_ms_median is None:
        return None
    value = old.time_ms_median / new.time_ms_median
    if None in (old.time_ms_low, old.time_ms_high, new.time_ms_low, new.time_ms_high):
        return Ratio(value, margin=margin)
    low = (old.time_ms_low or 0.0) / (new.time_ms_high or math.inf)
    high = (old.time_ms_high or 0.0) / (new.time_ms_low or math.inf)
    return Ratio(value, low, high, margin)
