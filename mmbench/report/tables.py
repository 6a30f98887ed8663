"""Tables of the report: a column says its name, its unit, and how a row's cell reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape

from mmbench.plotting.study import edge, is_baseline, library, shape, unit
from mmbench.results import COLUMNS, Row
from mmbench.table import number

_UNITS = {column.name: column.unit for column in COLUMNS}
_MEANINGS = {column.name: column.meaning for column in COLUMNS}


@dataclass(frozen=True)
class Cells:
    """A column of the table of all rows. ``value`` is what it is sorted by."""

    name: str  # in the CSV
    title: str
    text: Callable[[Row], str]
    value: Callable[[Row], float | None] | None = None  # None: sorted as text
    own_unit: str = ""  # where it is not the one in COLUMNS

    @property
    def unit(self) -> str:
        return self.own_unit or _UNITS[self.name]

    @property
    def meaning(self) -> str:
        return _MEANINGS[self.name]


def _number(name: str, title: str, text: Callable[[float], str] | None = None) -> Cells:
    """A column of numbers, of four digits unless ``text`` says otherwise."""

    def value(row: Row) -> float | None:
        found = getattr(row, name)
        return None if found is None else float(found)

    def shown(row: Row) -> str:
        found = value(row)
        if found is None:
            return ""
        return text(found) if text else number(found, 4)

    return Cells(name, title, shown, value)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _tenths(value: float) -> str:
    return f"{value:.1f}"


def _hundredths(value: float) -> str:
    return f"{value:.2f}"


def columns(rows: Sequence[Row]) -> list[Cells]:
    """What the table of all rows shows: columns that say something, and tell rows apart."""
    several = {
        name for name in ("device", "dtype", "cache", "runner")
        if len({getattr(row, name) for row in rows}) > 1
    }  # fmt: skip
    more = any(row.params not in ("", f"TILE_SIZE={row.tile_size}") for row in rows)
    name = "N" if all(row.square for row in rows) else "MxNxK"
    against = next((library(row).split()[0] for row in rows if row.baseline_percent), "baseline")
    units = {unit(row.dtype) for row in rows}
    speed = replace(_number("gflops", "speed"), own_unit=units.pop() if len(units) == 1 else "")
    found = [
        Cells("kernel", "kernel", lambda row: row.kernel),
        *(Cells(key, key, lambda row, key=key: str(getattr(row, key) or ""))  # type: ignore[misc]
          for key in ("device", "dtype", "cache", "runner") if key in several),
        Cells("n", name, shape, edge),
        _number("tile_size", "tile", _whole),
        *([Cells("params", "parameters", lambda row: row.params)] if more else []),
        Cells("status", "status", lambda row: row.status),
        _number("time_ms_median", "time"),
        _number("spread_percent", "spread", _tenths),
        _number("process_spread_percent", "processes differ", _hundredths),
        speed,
        _number("roof_percent", "of roof", _tenths),
        _number("baseline_percent", f"of {against}", _tenths),
        _number("requested_gbs", "requested"),
        _number("compulsory_gbs", "compulsory"),
        _number("arithmetic_intensity", "intensity", lambda value: number(value, 3)),
        _number("max_error", "error", lambda value: f"{value:.1e}"),
        _number("registers", "registers", _whole),
        _number("shared_bytes", "shared", _whole),
        _number("occupancy_percent", "occupancy", _tenths),
        _number("sm_clock_mhz", "clock", _whole),
        _number("power_w", "power", lambda value: number(value, 3)),
        _number("gflops_per_watt", "per watt", lambda value: number(value, 3)),
        _number("joules", "energy", lambda value: number(value, 3)),
        _number("samples", "samples", _whole),
        Cells("remarks", "remarks", lambda row: row.remarks or ""),
    ]  # fmt: skip
    return [cells for cells in found if any(cells.text(row) for row in rows)]


def all_rows(rows: Sequence[Row]) -> str:
    """Every row in a table that a script lets people sort; without it the order is the file's."""
    shown = columns(rows)
    heads = "".join(_head(cells) for cells in shown)
    body = "\n".join(f"<tr>{''.join(_cell(cells, row) for cells in shown)}</tr>" for row in rows)
    return scrolled(
        f'<table class="sortable" data-status="sorted">'
        f'<caption id="all-rows"><span>All rows, {len(rows)} in all</span></caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody></table>",
        "all-rows",
    )


def _head(cells: Cells) -> str:
    kind = "text" if cells.value is None else "number"
    left = "" if cells.value is not None else ' class="left"'
    name = f"{cells.title}, {cells.unit}" if cells.unit else cells.title
    return (
        f'<th scope="col" data-kind="{kind}" data-name="{escape(name)}"{left}>'
        f'<span>{escape(cells.title)}</span><span class="unit">{escape(cells.unit)}</span></th>'
    )


def _cell(cells: Cells, row: Row) -> str:
    text = escape(cells.text(row))
    if cells.name == "kernel":
        note = ' <span class="soft">(library)</span>' if is_baseline(row) else ""
        return f'<th scope="row">{text}{note}</th>'
    if cells.value is None:
        bad = cells.name == "status" and row.status in ("wrong", "failed", "timeout")
        kind = " bad" if bad else " why" if cells.name == "remarks" and text else ""
        return f'<td class="left{kind}">{text}</td>'
    value = cells.value(row)
    return "<td></td>" if value is None else f'<td data-value="{value!r}">{text}</td>'


def plain(
    caption: str, name: str, heads: Sequence[str], rows: Sequence[Sequence[str]],
    texts: Sequence[str] = (),
) -> str:  # fmt: skip
    """A small table, the first cell of a row its head. ``name`` is the caption's id.

    ``texts`` are heads of columns of words; the others hold numbers.
    """
    sides = [' class="left"' if head in texts else "" for head in heads]
    top = "".join(
        f'<th scope="col"{side}>{escape(head)}</th>'
        for head, side in zip(heads, sides, strict=True)
    )
    lines = "\n".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(
            f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row[1:], sides[1:], strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return scrolled(
        f'<table><caption id="{name}"><span>{escape(caption)}</span></caption>\n'
        f"<thead><tr>{top}</tr></thead>\n<tbody>\n{lines}\n</tbody></table>",
        name,
    )


def scrolled(table: str, name: str) -> str:
    """A part that may be wider than the window: it scrolls by itself, by keys too."""
    return f'<div class="scroll" role="region" tabindex="0" aria-labelledby="{name}">{table}</div>'


def meanings(rows: Sequence[Row]) -> str:
    """What the columns shown mean, in the words of COLUMNS."""
    lines = []
    for cells in columns(rows):
        its_unit = f', <span class="soft">{escape(cells.unit)}</span>' if cells.unit else ""
        lines.append(
            f"<dt>{escape(cells.title)}{its_unit}</dt>"
            f'<dd>{_coded(cells.meaning)} <span class="soft">In the CSV: '
            f"<code>{escape(cells.name)}</code>.</span></dd>"
        )
    return f"<dl>{''.join(lines)}</dl>"


def _coded(text: str) -> str:
    """`x` to <code>x</code>."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
