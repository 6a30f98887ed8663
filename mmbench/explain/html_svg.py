"""Draws the three matrices as SVG: a sheet that all steps share, and on it what a step does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

from mmbench.explain.drawing import axes
from mmbench.explain.geometry import ranges
from mmbench.explain.model import Element, Walk
from mmbench.explain.words import number

_LARGEST_CELL, _SHEET = 30.0, 240.0
_WITH_VALUES, _WITH_LINES, _WITH_DOTS = 15.0, 6.0, 5.0
_MARGIN, _GAP, _FOOT = 34.0, 44.0, 26.0
_KEY = (
    "Shaded: what the block needs. Hatched: the current tiles. Ring: loaded by this thread. "
    "Dot: read by this thread. Filled: the element of C it owns."
)


@dataclass(frozen=True)
class Marks:
    """What a step does: the elements of the current tiles, those loaded, those read."""

    tiles: tuple[tuple[str, tuple[Element, ...]], ...] = ()
    loads: tuple[Element, ...] = ()
    reads: tuple[Element, ...] = ()
    total: str = ""
    caption: str = ""


class Sheet:
    """The places of A, B and C: B above C, A to the left of C."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        problem = walk.problem
        self.cell = min(_LARGEST_CELL, _SHEET / max(problem.m, problem.n, problem.k))
        across, down = problem.k * self.cell, problem.k * self.cell
        self.corner = {
            "A": (_MARGIN, _MARGIN + down + _GAP),
            "B": (_MARGIN + across + _GAP, _MARGIN),
            "C": (_MARGIN + across + _GAP, _MARGIN + down + _GAP),
        }
        self.shape = {
            "A": (problem.m, problem.k), "B": (problem.k, problem.n), "C": (problem.m, problem.n),
        }  # fmt: skip
        x, y = self.corner["C"]
        self.width = x + problem.n * self.cell + 14
        self.height = y + problem.m * self.cell + _FOOT

    def symbols(self) -> str:
        """The sheet itself and the hatching, once for the whole page."""
        hatches = "".join(
            f'<pattern id="hatch-{name}" class="{name}" width="7" height="7" '
            f'patternUnits="userSpaceOnUse" patternTransform="rotate({turn})">'
            '<path class="hatch" d="M0 0V7"/></pattern>'
            for name, turn in (("A", 45), ("B", -45), ("C", 0))
        )
        sheets = "".join(self._sheet(name) for name in "ABC")
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        return (
            '<svg width="0" height="0" style="position:absolute" aria-hidden="true"><defs>'
            f'{hatches}<symbol id="sheet" {size}>{sheets}</symbol></defs></svg>'
        )

    def _sheet(self, name: str) -> str:
        (rows, columns), (x, y), s = self.shape[name], self.corner[name], self.cell
        m, n, k = axes(self.walk, 10**6, by_tile=False)
        down, along = {"A": (m, k), "B": (k, n), "C": (m, n)}[name]
        parts = [self._title(name, x, y)]
        if s >= _WITH_LINES:
            inner = range(1, max(rows, columns))
            parts.append(f'<path class="grid" d="{self._rules(name, inner, inner)}"/>')
        parts.append(f'<path class="cut" d="{self._rules(name, down.breaks, along.breaks)}"/>')
        parts.append(_rect("sheet", x, y, columns * s, rows * s))
        if s >= _WITH_VALUES and name in "AB":
            values = self.walk.a if name == "A" else self.walk.b
            parts += [
                self._text(name, (i, j), number(value), "quiet")
                for i, row in enumerate(values)
                for j, value in enumerate(row)
            ]
        return f'<g class="{name}">{"".join(parts)}</g>'

    def _title(self, name: str, x: float, y: float) -> str:
        rows, columns = self.shape[name]
        return f'<text class="name" x="{x:g}" y="{y - 10:g}">{name}  {rows} x {columns}</text>'

    def _rules(self, name: str, down: Iterable[int], along: Iterable[int]) -> str:
        (rows, columns), (x, y), s = self.shape[name], self.corner[name], self.cell
        parts = [f"M{x:g} {y + i * s:g}h{columns * s:g}" for i in sorted(down) if i < rows]
        parts += [f"M{x + j * s:g} {y:g}v{rows * s:g}" for j in sorted(along) if j < columns]
        return "".join(parts)

    def _text(self, name: str, at: tuple[int, ...], text: str, role: str) -> str:
        (x, y), s = self.corner[name], self.cell
        size = min(13.0, s * 0.46)
        return (
            f'<text class="{role}" x="{x + (at[1] + 0.5) * s:g}" '
            f'y="{y + (at[0] + 0.5) * s + size * 0.36:g}" font-size="{size:g}" '
            f'text-anchor="middle">{escape(text)}</text>'
        )

    def picture(self, marks: Marks) -> str:
        """One step's picture on the shared sheet."""
        parts = [self._band("A"), self._band("B"), self._band("C")]
        parts += [self._tile(variable, elements) for variable, elements in marks.tiles]
        view = f"{self.width:g} {self.height:g}"
        size = f'width="{self.width:g}" height="{self.height:g}"'
        parts.append(f'<use href="#sheet" {size}/>')
        parts += [self._dot(element) for element in dict.fromkeys(marks.reads)]
        parts += [self._ring(element) for element in dict.fromkeys(marks.loads)]
        parts += [self._mine(element) for element in self.walk.owned]
        if marks.total and self.cell >= _WITH_VALUES:
            parts.append(self._text("C", self.walk.followed.at, marks.total, "value"))
        return (
            f'<figure style="flex: 0 1 {self.width:g}px"><svg {size} viewBox="0 0 {view}" '
            f'role="img" aria-label="{escape(marks.caption)}">{"".join(parts)}</svg>'
            f"<figcaption>{_KEY}</figcaption></figure>"
        )

    def _band(self, name: str) -> str:
        rows, columns = self.shape[name]
        down = range(rows) if name == "B" else self.walk.rows
        along = range(columns) if name == "A" else self.walk.columns
        return f'<g class="{name}">{self._area(name, "band", down, along)}</g>'

    def _area(self, name: str, role: str, down: Iterable[int], along: Iterable[int]) -> str:
        (x, y), s = self.corner[name], self.cell
        rows, columns = sorted(down), sorted(along)
        return _rect(
            role, x + columns[0] * s, y + rows[0] * s,
            (columns[-1] - columns[0] + 1) * s, (rows[-1] - rows[0] + 1) * s,
        )  # fmt: skip

    def _tile(self, variable: str, elements: tuple[Element, ...]) -> str:
        places = [element.at for element in elements if element.at]
        if not places:
            return ""
        name = elements[0].variable
        rows, columns = sorted({p[0] for p in places}), sorted({p[1] for p in places})
        (x, y), s = self.corner[name], self.cell
        area = self._area(name, "current", rows, columns)
        area = area.replace("<rect ", f'<rect fill="url(#hatch-{name})" ')
        middle = x + (columns[0] + columns[-1] + 1) * s / 2
        top = y + self.shape[name][0] * s + 18
        if name == "B":  # to its left, where no value stands
            middle, top = x - 16, y + (rows[0] + rows[-1] + 1) * s / 2 + 4
        label = f'<text class="name" x="{middle:g}" y="{top:g}" text-anchor="middle">'
        title = f"<title>{name}[{ranges(rows)}][{ranges(columns)}]</title>"
        return f'<g class="{name}">{area}{label}{escape(variable)}</text>{title}</g>'

    def _dot(self, element: Element) -> str:
        if not element.at:
            return ""
        (x, y), s = self.corner[element.variable], self.cell
        left, top = x + element.at[1] * s, y + element.at[0] * s
        if s < _WITH_DOTS:
            return _rect(f"dot {element.variable}", left, top, s, s)
        radius = min(4.0, s * 0.3)
        inset = radius + 2 if s >= _WITH_VALUES else s / 2
        return (
            f'<circle class="dot {element.variable}" cx="{left + inset:g}" cy="{top + inset:g}" '
            f'r="{radius:g}"/>'
        )

    def _ring(self, element: Element) -> str:
        return self._cell(element, "load") if element.at else ""

    def _mine(self, element: Element) -> str:
        return self._cell(element, "mine C")

    def _cell(self, element: Element, role: str) -> str:
        (x, y), s = self.corner[element.variable], self.cell
        row, column = element.at
        return _rect(role, x + column * s, y + row * s, s, s)


def _rect(role: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{role}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'
