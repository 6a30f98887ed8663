"""The roofline: GFLOP/s over arithmetic intensity, below the compute roof and the DRAM peak.

Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009. Each kernel stands at two
intensities: FLOP per requested byte, which says what its loads and stores ask for, and FLOP per
compulsory byte, which says what the product needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmbench.plotting import style
from mmbench.plotting.study import Study, edge, rate, shape
from mmbench.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 3.7
_LEFT, _BELOW, _ABOVE = 0.74, 0.5, 0.22


@dataclass(frozen=True)
class _Placed:
    """One kernel at its largest problem: a row for each tile, and the fastest of them."""

    name: str
    rows: tuple[Row, ...]
    best: Row
    look: style.Look


def requested(row: Row) -> float | None:
    """FLOP per requested byte; None where the kernel's traffic is unknown."""
    return row.arithmetic_intensity


def compulsory(row: Row) -> float | None:
    """FLOP per compulsory byte."""
    if not row.flop or not row.compulsory_bytes:
        return None
    return row.flop / row.compulsory_bytes


def figure(study: Study) -> Figure:
    """Draw a study's roofline. The study has at least one right row."""
    placed = [_at_largest(study, name, i) for i, name in enumerate(study.kernels)]
    sizes = sorted({edge(each.best) for each in placed})
    first = placed[0].best
    where = f"{'N' if first.square else 'MxNxK'} = {shape(first)}"
    where = where if len(sizes) == 1 else "each kernel at its largest N"
    libraries = _libraries(study, placed)
    with style.settings():
        notes = _notes(study, placed)
        sheet = style.Sheet(f"Roofline, {where}", study.title, notes, _ABOVE + _HEIGHT + _BELOW)
        names = [style.fitting(_name(each, len(sizes) > 1)) for each in placed]
        right = max(map(style.text_width, [*names, *(name for name, _, _ in libraries)])) + 0.62
        axes = sheet.axes(_LEFT, _BELOW, style.WIDTH - _LEFT - right, _HEIGHT)
        points = [(x, rate(row)) for each in placed for row in each.rows
                  for x in (requested(row), compulsory(row)) if x]  # fmt: skip
        points += [(x, y) for _, x, y in libraries]
        _scales(axes, study, points)
        _roofs(axes, study, points)
        for each in placed:
            _marks(axes, each)
        ends = [(name, compulsory(each.best) or requested(each.best) or 1.0, rate(each.best),
                 each.look.colour, each.look.mark)
                for name, each in zip(names, placed, strict=True)]  # fmt: skip
        for name, x, y in libraries:
            axes.plot([x], [y], color=style.INK, marker="+", markersize=9, markeredgewidth=1.6,
                      linestyle="", gid=f"baseline {name}")  # fmt: skip
            ends.append((name, x, y, style.INK, "+"))
        style.label_ends(axes, ends)
    return sheet.figure


def _libraries(study: Study, placed: Sequence[_Placed]) -> list[tuple[str, float, float]]:
    """Name, compulsory intensity and GFLOP/s of each library at the kernels' largest problem."""
    if not placed:
        return []
    row = max((each.best for each in placed), key=edge)
    x = compulsory(row)
    return [
        (style.fitting(baseline.name), x, y)
        for baseline in study.baselines
        for at, y in baseline.points
        if x is not None and at == edge(row)
    ]


def _at_largest(study: Study, name: str, position: int) -> _Placed:
    rows = [row for row in study.right if row.kernel == name]
    largest = max(rows, key=edge)
    members = [row for row in rows if shape(row) == shape(largest)]
    members.sort(key=lambda row: (requested(row) or 0.0, row.tile_size or 0))
    return _Placed(name, tuple(members), max(members, key=rate), style.look(position))


def _name(each: _Placed, with_size: bool) -> str:
    return f"{each.name} (N={shape(each.best)})" if with_size else each.name


def _notes(study: Study, placed: Sequence[_Placed]) -> list[str]:
    notes = []
    if any(requested(row) for each in placed for row in each.rows):
        notes.append(
            "\u25cf  requested intensity: FLOP per byte that the kernel's own loads and stores ask "
            "for; a mark for each tile"
        )
    notes.append(
        "\u25cb  compulsory intensity: FLOP per byte with each element of A, B and C moved once; "
        "best tile"
    )
    if study.roof_gflops is None:
        notes.append("The roofs are not known here.")
    elif not study.dram_peak_gbs:
        notes.append("The DRAM peak is not known here.")
    else:
        notes.append("Shaded: above the DRAM peak; caches served a part of the requests.")
    return notes


def _scales(axes: Axes, study: Study, points: Sequence[tuple[float, float]]) -> None:
    xs, ys = [x for x, _ in points], [y for _, y in points]
    roof, peak = study.roof_gflops, study.dram_peak_gbs
    if roof and peak:
        xs.append(roof / peak / 6)  # so much of the slope is always in the picture
    top = roof or max(ys)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlim(min(xs) / 1.6, max(xs) * 1.25)
    axes.set_ylim(min(ys) / 1.8, top * 1.4)
    low, high = axes.get_xlim()
    powers = [2.0**e for e in range(-8, 20) if low <= 2.0**e <= high]
    powers = powers[:: math.ceil(len(powers) / 9)]
    axes.set_xticks(powers, [f"{power:g}" for power in powers])
    axes.set_xticks([], minor=True)
    low, high = axes.get_ylim()
    axes.set_yticks([f * 10.0**e for e in range(-3, 9) for f in (1, 2, 5)
                     if low <= f * 10.0**e <= high])  # fmt: skip
    axes.set_yticks([], minor=True)
    axes.yaxis.set_major_formatter(
        lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"
    )
    axes.set_xlabel("arithmetic intensity, FLOP/byte (log scale)")
    style.name_y_axis(axes, f"{study.unit} (log scale)")
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _roofs(axes: Axes, study: Study, marks: Sequence[tuple[float, float]]) -> None:
    roof, peak = study.roof_gflops, study.dram_peak_gbs
    low, high = axes.get_xlim()
    if roof is None:
        return
    ridge = roof / peak if peak else low
    axes.plot([ridge, high], [roof, roof], color=style.INK, linewidth=1.4, gid="roof")
    name = "FP32 roof" if study.dtype == "float32" else "roof"
    style.name_roof(axes, f"{name} {roof:,.0f} {study.unit}", roof)
    if not peak:
        return
    axes.plot([low, ridge], [low * peak, roof], color=style.INK, linewidth=1.4, gid="dram")
    axes.fill_between([low, ridge], [low * peak, roof], [roof, roof], color=style.LINE, alpha=0.25,
                      linewidth=0)  # fmt: skip
    _name_dram(axes, peak, ridge, marks)


def _name_dram(axes: Axes, peak: float, ridge: float, marks: Sequence[tuple[float, float]]) -> None:
    """Write the DRAM peak along its line, on the side and at the place that has room."""
    text = f"DRAM peak {peak:,.0f} GB/s"
    (low, _), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    start = max(low, bottom / peak)
    slope = math.radians(_slope(axes))
    points = [axes.transData.transform(mark) for mark in marks]
    dots = axes.figure.dpi / 72
    half = style.text_width(text) * 72 * dots / 2
    left, lower = axes.get_window_extent().p0
    upper = axes.transData.transform((ridge, ridge * peak))[1]

    def room(place: tuple[float, int]) -> float:
        """Dots from the middle line of the text to the nearest mark; below 0 outside the axes."""
        share, side = place
        x = start * (ridge / start) ** share
        cx, cy = axes.transData.transform((x, x * peak))
        cx, cy = cx - side * 8 * dots * math.sin(slope), cy + side * 8 * dots * math.cos(slope)
        if cx - half * math.cos(slope) < left or cy - half * math.sin(slope) < lower:
            return -1.0
        if cy + half * math.sin(slope) + 5 * dots * math.cos(slope) > upper:
            return -1.0
        along = [(px - cx) * math.cos(slope) + (py - cy) * math.sin(slope) for px, py in points]
        across = [(py - cy) * math.cos(slope) - (px - cx) * math.sin(slope) for px, py in points]
        return min(
            (math.hypot(max(0.0, abs(a) - half), b) for a, b in zip(along, across, strict=True)),
            default=math.inf,
        )

    places = [(share, side) for share in (0.7, 0.6, 0.5, 0.4, 0.3) for side in (1, -1)]
    enough = [place for place in places if room(place) > 14 * dots]
    share, side = enough[0] if enough else max(places, key=room)
    x = start * (ridge / start) ** share
    axes.annotate(
        text, (x, x * peak), (-side * 8 * math.sin(slope), side * 8 * math.cos(slope)),
        textcoords="offset points", ha="center", va="center", rotation_mode="anchor",
        rotation=math.degrees(slope),
    )  # fmt: skip


def _slope(axes: Axes) -> float:
    """Degrees of a line of slope 1 on both logarithmic axes, as it is drawn."""
    (x0, y0), (x1, y1) = axes.transData.transform([(1.0, 1.0), (10.0, 10.0)])
    return math.degrees(math.atan2(y1 - y0, x1 - x0))


def _marks(axes: Axes, each: _Placed) -> None:
    colour, mark = each.look.colour, each.look.mark
    known = [row for row in each.rows if requested(row)]
    if known:
        axes.plot(
            [requested(row) or 0.0 for row in known], [rate(row) for row in known], color=colour,
            marker=mark, markersize=6, linestyle=each.look.dashes, linewidth=1.2,
            gid=f"requested {each.name}",
        )  # fmt: skip
    x = compulsory(each.best)
    if x is None:
        return
    start = requested(each.best)
    if start:
        axes.plot([start, x], [rate(each.best)] * 2, color=colour, linewidth=0.6,
                  linestyle=(0, (1, 3)))  # fmt: skip
    axes.plot(
        [x], [rate(each.best)], color=colour, marker=mark, markersize=7, linestyle="",
        markerfacecolor=style.HOLLOW, markeredgewidth=1.4, gid=f"compulsory {each.name}",
    )  # fmt: skip
