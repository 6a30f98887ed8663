"""GFLOP/s over N as lines of text, drawn by plotext on a canvas of a terminal's width."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmbench.errors import UsageError
from mmbench.plotting.placing import apart
from mmbench.plotting.study import Study, edge, rate

if TYPE_CHECKING:
    from types import ModuleType

MIN_WIDTH, MIN_HEIGHT = 40, 12
_MARKS = "ox+*#@%&ABCDEFGHIJKLMNP"
_COLOURS = ("blue", "orange", "green", "magenta", "yellow", "cyan")
_LOG_FROM = 6.0
_FRAME = 3  # rows that are not the canvas: two axes and the ticks
_ROOF, _BETWEEN = "═", "·"
# Where a terminal has no such characters.
_PLAIN = str.maketrans("─│┌┐└┘├┤┬┴┼┊┄═·●", "-|++++||--+:-=.o")


@dataclass(frozen=True)
class _Line:
    name: str
    mark: str
    colour: str
    points: list[tuple[float, float]]
    joined: bool


def draw(study: Study, width: int, height: int, colour: bool, plain: bool = False) -> str:
    """A study as lines of at most ``width`` characters, ``height`` of them and the title's.

    ``plain`` keeps to ASCII. Raises UsageError where plotext is missing or there is no room.
    """
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        raise UsageError(
            f"a picture needs {MIN_WIDTH} columns and {MIN_HEIGHT} lines, here are {width} and "
            f"{height}; widen the terminal, or leave --terminal away to write files"
        )
    plotext = _plotext()
    lines = _lines(study)
    scale = _Scale.of(study, lines)
    entries = [(f"{line.mark} {line.name}", line.colour, line.points[-1][1]) for line in lines]
    if study.roof_gflops:
        entries.append((f"{_ROOF} roof {study.roof_gflops:,.0f}", "", study.roof_gflops))
    rows = height - _FRAME
    fits = len(entries) <= rows
    room = min(max(len(text) for text, _, _ in entries), width // 3) if fits else -1
    canvas = _canvas(plotext, study, lines, scale, (width - room - 1, height), colour)
    beside = _beside([scale.share(y) for _, _, y in entries], rows) if fits else {}

    def coloured(text: str, its_colour: str) -> str:
        return str(plotext.colorize(text, its_colour)) if colour and its_colour else text

    shown = textwrap.wrap(f"{study.unit} over N, best tile of each kernel: {study.title}", width)
    shown.append(f"{study.unit} (log scale)" if scale.logarithmic else study.unit)
    for number, line in enumerate(canvas):
        if number - 1 in beside:
            text, its_colour, _ = entries[beside[number - 1]]
            short = text if len(text) <= room else f"{text[: room - 1]}~"
            line = f"{line} {coloured(short, its_colour)}"
        shown.append(line.rstrip())
    if not fits:
        shown += textwrap.wrap("   ".join(text for text, _, _ in entries), width)
    drawn = "\n".join(shown)
    return drawn.translate(_PLAIN) if plain else drawn


def _plotext() -> ModuleType:
    try:
        import plotext  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        raise UsageError(
            "a picture in the terminal needs plotext, which is not installed; "
            'pip install "mmbench[plot]"'
        ) from None
    return plotext  # type: ignore[no-any-return,unused-ignore]


def _lines(study: Study) -> list[_Line]:
    lines = [
        _Line(name, _MARKS[i % len(_MARKS)], _COLOURS[i % len(_COLOURS)],
              [(edge(row), rate(row)) for row in study.best(name)], study.square)
        for i, name in enumerate(study.kernels)
    ]  # fmt: skip
    lines += [_Line(each.name, "=", "", list(each.points), True) for each in study.baselines]
    return lines


@dataclass(frozen=True)
class _Scale:
    """The y axis: its ends, in GFLOP/s or in their logarithms."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def of(cls, study: Study, lines: Sequence[_Line]) -> _Scale:
        values = [y for line in lines for _, y in line.points]
        highest = max([*values, study.roof_gflops or 0.0])
        if highest / min(values) < _LOG_FROM:
            return cls(0.0, highest * 1.08, False)
        return cls(math.log10(min(values) / 1.4), math.log10(highest * 1.2), True)

    def at(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value

    def share(self, value: float) -> float:
        """Height of a value, 0 at the bottom and 1 at the top."""
        return (self.at(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            steps = [factor * 10.0**power for power in range(-3, 9) for factor in (1, 2, 5)]
        else:
            step = 10.0 ** math.floor(math.log10(self.high))
            step = next(step / part for part in (5, 2, 1) if self.high / (step / part) <= 10)
            steps = [i * step for i in range(11)]
        return [
            step for step in steps if self.low <= self.at(step or 1e-9) <= self.high or not step
        ]


def _beside(shares: Sequence[float], rows: int) -> dict[int, int]:
    """Row of the canvas to the entry whose name stands there, a row for each."""
    wanted = [(1 - share) * (rows - 1) for share in shares]
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = apart(wanted, 1.0, 0.0, rows - 1.0)
    taken: dict[int, int] = {}
    for i in order:
        free = max(taken, default=-1) + 1
        # The next names must still fit below.
        last = rows - (len(order) - len(taken))
        taken[min(max(round(placed[i]), free), last)] = i
    return taken


def _canvas(
    plotext: ModuleType, study: Study, lines: Sequence[_Line], scale: _Scale,
    size: tuple[int, int], colour: bool,
) -> list[str]:  # fmt: skip
    """The axes with the lines in them, a text for each row."""
    plotext.terminal.limit(False, False)
    figure: Any = plotext.figure
    figure.clear()
    figure.theme("colorless")  # the terminal's own background and ink; lines bring their colours
    figure.plot_size(*size)
    edges = sorted({x for line in lines for x, _ in line.points})
    across, up = figure.ruler("x", 0), figure.ruler("y", 0)
    low, high = math.log2(edges[0]) - 0.15, math.log2(edges[-1]) + 0.15
    across.lim(low, high)
    named = _named(edges, (low, high), size[0] - 9)
    across.ticks([math.log2(x) for x in named], [f"{x:.0f}" for x in named])
    up.lim(scale.low, scale.high)
    steps = scale.ticks()
    up.ticks([scale.at(step) if step else 0.0 for step in steps], [f"{step:,g}" for step in steps])
    if study.roof_gflops:
        roof = scale.at(study.roof_gflops)
        figure.draw(figure.signal([low, high], [roof, roof], marker=_ROOF).lines())
    for between in (True, False):  # marks lie above all lines
        for line in lines:
            xs = [math.log2(x) for x, _ in line.points]
            ys = [scale.at(y) for _, y in line.points]
            mark = (line.mark if not line.colour else _BETWEEN) if between else line.mark
            if between and not (line.joined and len(xs) > 1):
                continue
            mark = plotext.marker(mark, line.colour) if colour and line.colour else mark
            figure.draw(figure.signal(xs, ys, marker=mark).lines(between))
    rows = str(figure.build().string(not colour)).splitlines()
    figure.clear()
    plotext.terminal.limit(True, True)
    return rows


def _named(edges: Sequence[float], limits: tuple[float, float], columns: int) -> list[float]:
    """The sizes whose names have room on the axis."""
    low, high = limits
    named: list[float] = []
    free = -1.0
    for edge_ in edges:
        at = (math.log2(edge_) - low) / (high - low) * columns
        half = len(f"{edge_:.0f}") / 2
        if at - half >= free:
            named.append(edge_)
            free = at + half + 2
    return named
