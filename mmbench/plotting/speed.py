"""GFLOP/s over N: a line for each kernel at its best parameters, the roof, the libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mmbench.plotting import style
from mmbench.plotting.study import Study, edge, rate
from mmbench.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 3.3  # inches of the axes
_LEFT, _BELOW, _ABOVE = 0.74, 0.5, 0.22
_LOG_FROM = 6.0  # highest over lowest value from which the axis is logarithmic
_SEEN = 0.01  # width of an interval over its median from which a bar can be seen
_RECTANGULAR = "Hollow, not joined: rectangular products, at the cube root of M*N*K."


def figure(study: Study) -> Figure:
    """Draw a study's speeds. The study has at least one right row."""
    lines = {name: study.best(name) for name in study.kernels}
    notes = [*_interval_note([row for rows in lines.values() for row in rows])]
    if not study.square:
        notes.append(_RECTANGULAR)
    with style.settings():
        sheet = style.Sheet(
            f"{study.unit} over N, each kernel with its best tile",
            study.title,
            notes,
            _ABOVE + _HEIGHT + _BELOW,
        )
        labels = [style.fitting(name)
                  for name in (*lines, *(each.name for each in study.baselines))]  # fmt: skip
        right = max(map(style.text_width, labels)) + 0.62
        axes = sheet.axes(_LEFT, _BELOW, style.WIDTH - _LEFT - right, _HEIGHT)
        _scales(axes, study, lines)
        ends: list[tuple[str, float, float, str, str]] = []
        for position, (name, rows) in enumerate(lines.items()):
            look = style.look(position)
            _line(axes, rows, look, name)
            ends.append(
                (style.fitting(name), edge(rows[-1]), rate(rows[-1]), look.colour, look.mark)
            )
        for baseline in study.baselines:
            xs, ys = zip(*baseline.points, strict=True)
            axes.plot(
                xs, ys, color=style.INK, linestyle=style.BASELINE_DASHES, linewidth=1.6,
                marker="|" if len(xs) > 1 else "_", markersize=7, gid=f"baseline {baseline.name}",
            )  # fmt: skip
            ends.append((style.fitting(baseline.name), xs[-1], ys[-1], style.INK, ""))
        _roof(axes, study)
        style.label_ends(axes, ends)
    return sheet.figure


def _interval_note(rows: Sequence[Row]) -> list[str]:
    widths = [width for row in rows if (width := _interval_width(row)) is not None]
    if not widths:
        return []
    limit = next((x for x in (0.1, 0.2, 0.5, 1.0) if max(widths) * 100 < x), None)
    if limit is not None:
        return [f"95 % intervals of the medians are below {limit:g} % wide, less than the marks."]
    return ["Bars: 95 % interval of the median, where it is wider than 1 %."]


def _interval_width(row: Row) -> float | None:
    if not row.time_ms_low or not row.time_ms_high or not row.time_ms_median:
        return None
    return (row.time_ms_high - row.time_ms_low) / row.time_ms_median


def _ends(row: Row) -> tuple[float, float]:
    """GFLOP/s at both ends of the interval of the median time."""
    median = row.time_ms_median or 0.0
    return rate(row) * median / (row.time_ms_high or 1), rate(row) * median / (row.time_ms_low or 1)


def _line(axes: Axes, rows: Sequence[Row], look: style.Look, name: str) -> None:
    square = [row for row in rows if row.square]
    others = [row for row in rows if not row.square]
    for members, dashes, inside in ((square, look.dashes, look.colour), (others, "", style.HOLLOW)):
        if members:
            axes.plot(
                [edge(row) for row in members], [rate(row) for row in members], color=look.colour,
                marker=look.mark, markersize=5, markerfacecolor=inside, linestyle=dashes,
                linewidth=1.6, gid=f"kernel {name}",
            )  # fmt: skip
    for row in rows:
        width = _interval_width(row)
        if width is not None and width >= _SEEN:
            low, high = _ends(row)
            slow, fast = rate(row) - low, high - rate(row)
            axes.errorbar(
                [edge(row)], [rate(row)], yerr=[[slow], [fast]], color=look.colour, capsize=3,
                linewidth=1.0,
            )  # fmt: skip


def _scales(axes: Axes, study: Study, lines: dict[str, list[Row]]) -> None:
    values = [rate(row) for rows in lines.values() for row in rows]
    values += [y for baseline in study.baselines for _, y in baseline.points]
    highest = max([*values, study.roof_gflops or 0.0])
    logarithmic = highest / min(values) >= _LOG_FROM
    edges = sorted({edge(row) for rows in lines.values() for row in rows}
                   | {x for baseline in study.baselines for x, _ in baseline.points})  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xlim(edges[0] / 1.12, edges[-1] * 1.12)
    axes.set_xlabel("N, edge of the matrices" if study.square else "N, or cube root of M*N*K")
    ticks(axes, sorted({edge(row) for row in study.right if row.square}) or edges)
    if logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(min(values) / 1.3, highest * 1.3)
        steps = [f * 10.0**e for e in range(-3, 9) for f in (1, 2, 5)]
        low, high = axes.get_ylim()
        axes.set_yticks([step for step in steps if low <= step <= high])
        axes.set_yticks([], minor=True)
    else:
        axes.set_ylim(0, highest * 1.1)
    axes.yaxis.set_major_formatter(
        lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"
    )
    style.name_y_axis(axes, f"{study.unit} (log scale)" if logarithmic else study.unit)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def ticks(axes: Axes, edges: Sequence[float]) -> None:
    """Name sizes on the x axis, as many as have room."""
    low, high = (math.log(limit) for limit in axes.get_xlim())
    inches = axes.get_window_extent().width / axes.figure.dpi
    named: list[float] = []
    free = -1.0
    for value in edges:
        at = (math.log(value) - low) / (high - low) * inches
        half = style.text_width(f"{value:.0f}") / 2
        if at - half >= free:
            named.append(value)
            free = at + half + 0.08
    axes.set_xticks(named, [f"{value:.0f}" for value in named])
    axes.set_xticks([value for value in edges if value not in named], minor=True)
    axes.tick_params(axis="x", which="minor", labelbottom=False)


def _roof(axes: Axes, study: Study) -> None:
    roof = study.roof_gflops
    if roof is None:
        return
    axes.axhline(roof, color=style.INK, linewidth=1.2, gid="roof")
    name = "FP32 roof" if study.dtype == "float32" else "roof"
    style.name_roof(axes, f"{name} {roof:,.0f} {study.unit}", roof)
