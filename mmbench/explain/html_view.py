"""A walk to one self-contained page: no network, readable without its script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import pairwise

from mmbench.explain import words
from mmbench.explain.geometry import thread_name
from mmbench.explain.html_page import page
from mmbench.explain.html_svg import Marks, Sheet
from mmbench.explain.model import Cell, Element, Step, Term, Tile, Walk

_FRAMES_IN_FULL, _FIRST_FRAMES, _LAST_FRAMES = 16, 4, 2
_LARGE_TILE = 12
_NOTE = '<p class="soft">&bull; read by this thread; in a box: stored by it.</p>'


def render(walk: Walk) -> str:
    """The page's text."""
    sheet = Sheet(walk)
    steps = [_who(walk, sheet)]
    for step in walk.steps:
        if step.direct:
            steps += _direct(step, walk, sheet)
        else:
            steps.append(_step(step, walk, sheet))
    steps.append(_end(walk, sheet))
    return page(words.title(walk), walk.summary, sheet.symbols(), steps)


def _frame(title: str, picture: str, text: str) -> str:
    return (
        f"<h2>{escape(title)}</h2>\n"
        f'<div class="both">{picture}'
        f'<div class="words">{text}</div></div>'
    )


def _list(rows: list[tuple[str, str]]) -> str:
    """A definition list of (label, HTML)."""
    return "<dl>" + "".join(f"<dt>{label}</dt><dd>{text}</dd>" for label, text in rows) + "</dl>"


def _who(walk: Walk, sheet: Sheet) -> str:
    rows = [words.who_block(walk), words.who_thread(walk)]
    text = _list([(escape(name), escape(said)) for name, said in rows])
    if walk.faults:
        found = words.plural(walk.faults, "fault")
        text += f'<p class="bad">mmbench check finds {found} in this kernel at this size.</p>'
    caption = "The three matrices and the block's part of each"
    reads = tuple(element for step in walk.steps for element in _reads(step.terms))
    return _frame("Who does what", sheet.picture(Marks(reads=reads, caption=caption)), text)


def _step(step: Step, walk: Walk, sheet: Sheet) -> str:
    title = words.heading(step, walk)
    marks = Marks(
        tiles=tuple((tile.variable, tile.origins) for tile in step.tiles),
        loads=tuple(copy.source for copy in step.copies if copy.source),
        reads=_reads(step.terms),
        total=words.number(step.total),
        caption=f"{title}: the tiles, and what the thread loads and reads",
    )
    copies = [f"{_code(words.copy(copy))} {_line(copy.line)}" for copy in step.copies]
    copies = copies or ["This thread loads nothing itself." if step.tiles else "nothing"]
    rows = [("load", "<br>".join([*copies, escape(words.block_copies(step))]))]
    tiles = "".join(_tile(tile, walk) for tile in step.tiles) + (_NOTE if step.tiles else "")
    rows.append(("barrier", escape(words.barrier_before(step, walk))))
    if step.others:
        rows.append(("read", f"{escape(words.others(step))} {_line(step.line.line)}"))
    if step.terms:
        rows.append(("compute", f"{_code(words.dot(step))} {_line(step.line.line)}"))
        rows.append(("", _code(words.running_sum(step))))
    rows += [("", f'<span class="bad">{escape(text)}</span>') for text in words.remarks(step)]
    rows.append(("barrier", escape(words.barrier_after(step, walk))))
    text = f'{_list(rows[:1])}<div class="tiles">{tiles}</div>{_list(rows[1:])}'
    return _frame(title, sheet.picture(marks), text)


def _reads(terms: tuple[Term, ...]) -> tuple[Element, ...]:
    operands = (operand for term in terms for operand in (term.a, term.b))
    return tuple(operand.origin for operand in operands if operand.origin)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _line(number: int) -> str:
    return f'<span class="soft nowrap">line {number}</span>'


def _tile(tile: Tile, walk: Walk) -> str:
    """A tile's values as a table; marks are words in a cell's title and shapes in its style."""
    cells = {(cell.row, cell.column): cell for cell in tile.cells}
    rows = sorted({cell.row for cell in tile.cells})
    columns = sorted({cell.column for cell in tile.cells})
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join(
        f"<tr><th>{row}</th>{''.join(_cell(cells.get((row, c)), walk) for c in columns)}</tr>"
        for row in rows
    )
    large = " large" if len(columns) > _LARGE_TILE else ""
    caption = f'<caption class="{tile.matrix}">{escape(words.tile_title(tile))}</caption>'
    table = f'<table class="tile {tile.matrix}{large}">{caption}<tr><th></th>{head}</tr>{body}'
    return f'<div class="scroll">{table}</table></div>'


def _cell(cell: Cell | None, walk: Walk) -> str:
    if cell is None:
        return "<td></td>"
    roles = " ".join(role for role, yes in (("own", cell.own), ("read", cell.read)) if yes)
    origin = cell.origin.label if cell.origin else "no element: past the edge"
    title = f"{origin}, stored by thread {thread_name(cell.writer, walk.extent)}"
    mark = "&bull;" if cell.read else ""
    shown = words.number(cell.value)
    return f'<td class="{roles}" title="{escape(title)}">{mark}{escape(shown)}</td>'


def _direct(step: Step, walk: Walk, sheet: Sheet) -> Iterator[str]:
    """A frame for each product, of many for the first and last ones, and one for the rest."""
    count = len(step.terms)
    cuts = list(range(count + 1))
    if count > _FRAMES_IN_FULL:
        cuts = [*range(_FIRST_FRAMES + 1), *range(count - _LAST_FRAMES, count + 1)]
    total = step.total - step.subtotal
    for first, end in pairwise(cuts):
        terms = step.terms[first:end]
        before, total = total, total + sum(term.product for term in terms)
        yield _products(step, terms, (first, count, before, total), sheet)


def _products(
    step: Step, terms: tuple[Term, ...], place: tuple[int, int, float, float], sheet: Sheet
) -> str:
    first, count, before, total = place
    last = first + len(terms) - 1
    which = f"{first + 1}" if len(terms) == 1 else f"{first + 1} to {last + 1}"
    title = f"Product {which} of {count}"
    marks = Marks(
        loads=_reads(terms), reads=_reads(terms), total=words.number(total), caption=title
    )
    rows = []
    if len(terms) == 1:
        for operand in (terms[0].a, terms[0].b):
            shown = f"{(operand.origin or operand.place).label} = {words.number(operand.value)}"
            rows.append(("load", _code(shown)))
        rows.append(("product", _code(words.product(terms[0]))))
    else:
        rows.append(("products", f"{len(terms)} of them, alike"))
    added = words.number(total - before)
    rows.append(("sum", _code(f"{words.number(before)} + ({added}) = {words.number(total)}")))
    rows.append((f"line {step.line.line}", _code(step.line.text)))
    if any(term.strange for term in terms):
        text = " ".join(words.remarks(step))
        rows.append(("", f'<span class="bad">{escape(text)}</span>'))
    note = "<p>Straight from global memory: no tiles, no barriers.</p>"
    return _frame(title, sheet.picture(marks), note + _list(rows))


def _end(walk: Walk, sheet: Sheet) -> str:
    right, said = words.check(walk)
    line = walk.written.line
    rows = [
        ("store", f"{_code(words.result(walk))} {_line(line.line)}: {_code(line.text)}"),
        ("check", f'<span class="{"" if right else "bad"}">{escape(said)}</span>'),
    ]
    head = "<tr><th>of the block</th><th>elements</th><th>loads from global</th>"
    head += "<th>reads by threads</th></tr>"
    body = "".join(
        f"<tr><td>{each.matrix}</td><td>{each.elements:,}</td><td>{each.loads:,}</td>"
        f"<td>{each.uses:,}</td></tr>"
        for each in walk.reuse
    )
    sentences = [*map(words.reuse, walk.reuse), words.requests(walk)]
    text = f'{_list(rows)}<div class="tiles"><table>{head}{body}</table></div>'
    text += "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    marks = Marks(total=words.number(walk.written.value), caption="The element stored")
    return _frame("The result and the reuse", sheet.picture(marks), text)
