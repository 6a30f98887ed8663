"""Tile over N as a map of cells, a map for each kernel, on one scale of colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mmbench.best import best_tiles
from mmbench.plotting import style
from mmbench.plotting.study import (
    Study,
    edge,
    is_baseline,
    is_right,
    parameters,
    rate,
    shape,
    variant,
)
from mmbench.results import Row
from mmbench.table import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.27  # inches of a row of cells
_NAME = 0.3  # above a map: the kernel's name
_BETWEEN = 0.16
_INSET = 0.025  # of a frame in its cell
_BAR = 0.92  # at the right: the scale with its numbers
_BAR_FROM = 0.8  # height of all maps from which there is a scale
_LOG_FROM = 20.0
_STEPS = 64  # colours on the scale
# One hue, ever darker: the order is plain in grey print and to every eye.
_SCALE = ("#e9f2f9", "#9cc6e3", "#4d97c9", "#0f62a3", "#072f57")
# On a cell; not among the colours that a page may exchange.
_DARK_TEXT, _LIGHT_TEXT = "#010101", "#fdfdfd"
_NOTHING, _SKIPPED, _FAILED = "#eceff3", "#dfe3e8", "#f7dfe3"
_NOTE = (
    "Bold and framed: best tile of a column, or tiles whose 95 % intervals overlap the best one's."
)


def figure(study: Study) -> Figure:
    """Draw the maps of a study. The study has at least one right row.

    It is wider than other pictures only where it has more columns than fit at full size.
    """
    rows = [row for row in study.rows if not is_baseline(row)]
    maps = {name: [row for row in rows if row.kernel == name]
            for name in dict.fromkeys(row.kernel for row in rows)}  # fmt: skip
    names = {name: _variants(members) for name, members in maps.items()}
    problems = sorted({(row.m, row.n, row.k): row for row in rows}.values(), key=edge)
    columns = [shape(row) for row in problems]
    heads = [text.replace("x", "x\n") for text in columns]
    best = _best(rows)
    with style.settings():
        left = 0.24 + max(
            style.text_width(style.fitting(text))
            for texts in (*names.values(), ["tile"])
            for text in texts
        )
        cell = 0.12 + max(
            *(style.text_width(_words(row), bold=row.point_key in best) for row in rows),
            *(style.text_width(line) for head in heads for line in head.split("\n")),
        )
        inner = max(style.WIDTH - left - _BAR, cell * len(columns))
        below = 0.27 + style.LEADING * max(head.count("\n") for head in heads)
        body = sum(_NAME + _ROW * len(each) + _BETWEEN for each in names.values()) + below
        sheet = style.Sheet(
            f"{study.unit} by tile and N", study.title, [_NOTE] if best else [], body,
            left + inner + _BAR,
        )  # fmt: skip
        colours = _Colours([rate(row) for row in rows if is_right(row)])
        y = body
        for name, members in maps.items():
            height = _ROW * len(names[name])
            y -= _NAME + height
            axes = sheet.axes(left, y, inner, height)
            _map(axes, members, names[name], columns, (colours, best))
            _name(axes, name, members)
            y -= _BETWEEN
        axes.set_xticks([i + 0.5 for i in range(len(heads))], heads)
        square = all(row.square for row in rows)
        axes.set_xlabel("N, edge of the matrices" if square else "N or MxNxK", labelpad=3)
        bottom = y + _BETWEEN
        if body - _NAME - bottom >= _BAR_FROM:
            bar = sheet.axes(left + inner + 0.18, bottom, 0.14, body - _NAME - bottom)
            _bar(bar, colours, study.unit)
    return sheet.figure


def _best(rows: Sequence[Row]) -> set[tuple[object, ...]]:
    """Keys of the best row of each kernel and problem, and of those that cannot be told from it."""
    found = best_tiles([replace(row, tile_size=row.tile_size or 0) for row in rows])
    return {row.point_key for each in found for row in (each.row, *each.ties)}


def _name(axes: Axes, name: str, rows: Sequence[Row]) -> None:
    """The kernel's name above its map, and what the names of its rows are values of."""
    parts = [key for key, _ in parameters(rows[0])]
    at: Any = {"xycoords": "axes fraction", "textcoords": "offset points",
               "annotation_clip": False}  # fmt: skip
    room = axes.get_window_extent().width / axes.figure.dpi
    name = style.fitting(name, room, bold=True)
    axes.annotate(name, (0, 1), (0, 5), weight="bold", **at)
    if parts == ["TILE_SIZE"]:
        axes.annotate("tile", (0, 1), (-6, 5), ha="right", color=style.SOFT, **at)
    elif parts:
        x = (style.text_width(name, bold=True) + 0.12) * 72
        rest = style.fitting(" ".join(parts), room - x / 72)
        if len(rest) > 1:
            axes.annotate(rest, (0, 1), (x, 5), color=style.SOFT, **at)


def _variants(rows: Sequence[Row]) -> list[str]:
    """The kernel's tiles, smallest first; a kernel without one has an empty name there."""
    order = {variant(row): (row.tile_size or 0, row.params) for row in rows}
    return sorted(order, key=lambda text: order[text])


class _Colours:
    """GFLOP/s to a colour: logarithmic where they differ much."""

    def __init__(self, values: Sequence[float]) -> None:
        from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

        low, high = min(values), max(values)
        self.logarithmic = high / low >= _LOG_FROM
        self.norm: Any = LogNorm(low, high) if self.logarithmic else Normalize(0, high)
        self.map = LinearSegmentedColormap.from_list("speed", _SCALE)

    def cell(self, value: float) -> str:
        from matplotlib.colors import to_hex

        return str(to_hex(self.map(float(self.norm(value)))))


def _luminance(colour: str) -> float:
    """Relative luminance of a colour, by WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def text_on(colour: str) -> str:
    """Dark or light, whichever has the higher contrast on this colour."""
    light = _luminance(colour)
    return _DARK_TEXT if (light + 0.05) ** 2 > 0.05 * 1.05 else _LIGHT_TEXT


def _map(
    axes: Axes,
    rows: Sequence[Row],
    labels: Sequence[str],
    columns: Sequence[str],
    marks: tuple[_Colours, set[tuple[object, ...]]],
) -> None:
    from matplotlib.patches import Rectangle

    colours, best = marks
    inset_x = _INSET * len(columns) / (axes.get_window_extent().width / axes.figure.dpi)
    inset_y = _INSET / _ROW
    cells = {(labels.index(variant(row)), columns.index(shape(row))): row for row in rows}
    for y in range(len(labels)):
        for x in range(len(columns)):
            row = cells.get((y, x))
            right = row is None or is_right(row)
            fill = _NOTHING if row is None else _fill(row, colours)
            words = "" if row is None else _words(row)
            axes.add_patch(Rectangle((x, y), 1, 1, facecolor=fill, edgecolor=style.PAPER,
                                     linewidth=1.5))  # fmt: skip
            chosen = row is not None and row.point_key in best
            if chosen:
                frame = (x + inset_x, y + inset_y), 1 - 2 * inset_x, 1 - 2 * inset_y
                axes.add_patch(
                    Rectangle(*frame, fill=False, edgecolor=text_on(fill), linewidth=1.2)
                )
            axes.text(
                x + 0.5, y + 0.5, words, ha="center", va="center_baseline", color=text_on(fill),
                weight="bold" if chosen else "normal", style="normal" if right else "italic",
            )  # fmt: skip
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(labels), 0)
    axes.set_yticks([i + 0.5 for i in range(len(labels))], [style.fitting(t) for t in labels])
    axes.set_xticks([])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _fill(row: Row, colours: _Colours) -> str:
    if is_right(row):
        return colours.cell(rate(row))
    return _SKIPPED if row.status == "skipped" else _FAILED


def _words(row: Row) -> str:
    if is_right(row):
        return number(row.gflops, 4)
    return row.status if row.status != "ok" else "implausible"


def _bar(axes: Axes, colours: _Colours, unit: str) -> None:
    """The scale, as rectangles: a picture of a picture would not scale, nor be text in an SVG."""
    from matplotlib.patches import Rectangle

    low, high = float(colours.norm.vmin), float(colours.norm.vmax)
    for i in range(_STEPS):
        value = float(colours.norm.inverse((i + 0.5) / _STEPS))
        colour = colours.cell(value)
        axes.add_patch(Rectangle((0, i / _STEPS), 1, 1 / _STEPS, color=colour, linewidth=0.3))
    if colours.logarithmic:
        steps = [f * 10.0**e for e in range(-3, 9) for f in (1, 2, 5)]
    else:
        step = 10.0 ** math.floor(math.log10(high))
        step = step if high / step >= 3 else step / 2 if high / step >= 1.5 else step / 5
        steps = [i * step for i in range(10)]
    shown = [step for step in steps if low <= step <= high]
    names = [f"{step:,.0f}" if step >= 10 or step == 0 else f"{step:g}" for step in shown]
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.set_yticks([float(colours.norm(step)) for step in shown], names)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.annotate(
        unit, (1, 1), (-6, 8), xycoords="axes fraction", textcoords="offset points",
        annotation_clip=False,
    )  # fmt: skip
