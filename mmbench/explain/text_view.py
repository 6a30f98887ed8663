"""A walk to what a terminal shows. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mmbench.explain import drawing, tile_drawing, words
from mmbench.explain.drawing import Line
from mmbench.explain.model import Step, Walk

_STYLES = {
    "": "", "plain": "", "dim": "dim", "frame": "dim", "mark": "bold",
    "A": "cyan", "B": "magenta", "C": "green",
    "A mine": "bold cyan", "B mine": "bold magenta", "C mine": "bold green",
}  # fmt: skip
_PLAIN = str.maketrans("┌┬┐├┼┤└┴┘─│·░▓█•", "+++++++++-|.:%#*")
_NARROWEST, _WIDEST = 26, 100
_TERMS_IN_FULL, _FIRST_TERMS, _LAST_TERMS = 10, 4, 2
_SUMMARIES, _COPIES = 6, 8


@dataclass(frozen=True)
class _Plain:
    """Anything, in plain ASCII where the terminal knows no other characters."""

    content: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.content, options):
            if options.ascii_only and not segment.control:
                yield Segment(segment.text.translate(_PLAIN), segment.style)
            else:
                yield segment


def render(walk: Walk, width: int) -> RenderableType:
    """The whole walk for a terminal of this width."""
    return _Plain(Group(*_parts(walk, width)))


def _parts(walk: Walk, width: int) -> Iterator[RenderableType]:
    yield Text(words.title(walk), "bold")
    yield Text(walk.summary, "dim")
    if walk.faults:
        found = words.plural(walk.faults, "fault")
        yield Text(f"mmbench check finds {found} in this kernel at this size.", "bold red")
    yield Text()
    yield from _who(walk, width)
    shown = words.shown(walk)
    hidden = [step for step in walk.steps if step.number not in shown]
    for step in walk.steps:
        if step.number in shown:
            yield from _step(step, walk, width)
        elif step is hidden[0]:
            yield _summaries(hidden)
    yield from _result(walk, width)
    yield from _reuse(walk, width)


def _who(walk: Walk, width: int) -> Iterator[RenderableType]:
    """The drawing, with the words in its empty corner where they fit."""
    picture = drawing.overview(walk, width)
    columns, lines = picture.corner
    corner = _corner(walk, columns)
    if columns >= _NARROWEST and len(corner) <= lines:
        yield _lines(drawing.textbook(picture.a, picture.b, picture.c, corner))
    else:
        yield _lines(_corner(walk, min(width, _WIDEST)))
        yield Text()
        yield _lines(drawing.textbook(picture.a, picture.b, picture.c))


def _corner(walk: Walk, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, text in (words.who_block(walk), words.who_thread(walk)):
        lines.append([(name, "mark")])
        lines += [[(line, "")] for line in wrap(text, width)]
        lines.append([])
    return lines + drawing.legend()


def _heading(text: str, width: int) -> Text:
    rule = "─" * max(0, min(width, _WIDEST) - len(text) - 4)
    return Text.assemble(("\n── ", "dim"), (text, "bold"), (f" {rule}", "dim"))


def _sentence(text: str, width: int) -> RenderableType:
    return Padding(Text(text), (0, max(0, width - _WIDEST), 0, 0))


def _lines(lines: Iterable[Line]) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for line in lines:
        kept = list(line)
        while kept and not kept[-1][0].strip():
            kept.pop()
        for part, role in kept:
            text.append(part, _STYLES[role])
        text.append("\n")
    text.right_crop(1)
    return text


def _table(rows: Iterable[tuple[str, RenderableType]], width: int) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=7)
    table.add_column()
    for label, text in rows:
        table.add_row(label, text)
    return Padding(table, (0, max(0, width - _WIDEST), 0, 0))


def _step(step: Step, walk: Walk, width: int) -> Iterator[RenderableType]:
    yield _heading(words.heading(step, walk), width)
    if step.direct:
        yield from _direct(step, width)
        return
    if step.tiles:
        yield _table(_loading(step), width)
        yield Text()
        yield _lines(_picture(step, walk, width))
        if step.number == 0:
            yield Text(f"   {tile_drawing.GRID_LEGEND}", "dim")
        yield Text()
    rows: list[tuple[str, RenderableType]] = [("barrier", Text(words.barrier_before(step, walk)))]
    rows += _computing(step)
    rows.append(("barrier", Text(words.barrier_after(step, walk))))
    yield _table(rows, width)


def _loading(step: Step) -> Iterator[tuple[str, RenderableType]]:
    label = "load"
    for copy in step.copies[:_COPIES]:
        yield label, Text.assemble(words.copy(copy), (f"   line {copy.line}", "dim"))
        label = ""
    if len(step.copies) > _COPIES:
        yield "", Text(f"and {len(step.copies) - _COPIES} more")
    if not step.copies:
        yield label, Text("This thread loads nothing itself.")
    if text := words.block_copies(step):
        yield "", Text(text)


def _picture(step: Step, walk: Walk, width: int) -> list[Line]:
    """Where the tiles lie, and what is in them; below each other where space is short."""
    where = drawing.tile_map(walk, step)
    grids = [tile_drawing.tile_grid(tile, words.tile_title(tile)) for tile in step.tiles]
    if not grids:
        return where
    for blocks in ([where, *grids], [drawing.beside(grids)], *([grid] for grid in grids)):
        lines = drawing.beside(blocks)
        if max(map(drawing.width_of, lines)) <= width + 3:
            return lines if len(blocks) > 1 or len(grids) == 1 else [*where, [], *lines]
    return where


def _computing(step: Step) -> Iterator[tuple[str, RenderableType]]:
    line = (f"   line {step.line.line}", "dim")
    if step.others:
        yield "read", Text.assemble(words.others(step), line)
    if step.terms:
        yield "compute", Text.assemble(words.dot(step), line)
        yield "", Text(words.running_sum(step), "green")
    for remark in words.remarks(step):
        yield "", Text(remark, "bold red")


def _direct(step: Step, width: int) -> Iterator[RenderableType]:
    """Operands that come straight from global memory: the first and last products."""
    yield Text("Every operand comes straight from global memory: no tiles, no barriers.\n")
    table = Table(box=None, pad_edge=False)
    for name in ("k", "from A", "from B", "product", "sum so far"):
        table.add_column(name, justify="right", no_wrap=True)
    total = step.total - step.subtotal
    count = len(step.terms)
    for index, term in enumerate(step.terms):
        total += term.product
        if count > _TERMS_IN_FULL and _FIRST_TERMS <= index < count - _LAST_TERMS:
            if index == _FIRST_TERMS:
                skipped = f"{count - _FIRST_TERMS - _LAST_TERMS} more"
                table.add_row("..", "..", "..", skipped, "..", style="dim")
            continue
        a, b = ((o.origin or o.place).label for o in (term.a, term.b))
        k = str(term.a.place.at[1]) if term.a.place.at else ""
        a, b = (f"{x} = {words.number(o.value):>2}" for x, o in ((a, term.a), (b, term.b)))
        table.add_row(k, a, b, words.number(term.product), words.number(total))
    yield table
    yield Text(f"\nline {step.line.line}: {step.line.text}", "dim")
    for remark in words.remarks(step):
        yield _sentence(remark, width)


def _summaries(steps: list[Step]) -> RenderableType:
    """A line for each of the steps that are not shown in full; of many, the first and last."""
    table = Table.grid(padding=(0, 3, 0, 0))
    for column in range(4):
        table.add_column(justify="right" if column == 3 else "left", no_wrap=True)
    for index, step in enumerate(steps):
        if len(steps) > _SUMMARIES and _SUMMARIES - 2 <= index < len(steps) - 1:
            if index == _SUMMARIES - 2:
                table.add_row("..", f"{len(steps) - _SUMMARIES + 1} more steps alike", "", "")
            continue
        table.add_row(*words.summary(step))
    return Padding(table, (1, 0, 0, 3))


def _result(walk: Walk, width: int) -> Iterator[RenderableType]:
    yield _heading("The result", width)
    right, text = words.check(walk)
    line = walk.written.line
    where = (f"   line {line.line}: {line.text}", "dim")
    store = Text.assemble((words.result(walk), "bold green" if right else "bold red"), where)
    check = Text(text, "" if right else "bold red")
    yield _table([("store", store), ("check", check)], width)


def _reuse(walk: Walk, width: int) -> Iterator[RenderableType]:
    yield _heading("The reuse", width)
    table = Table(box=None, pad_edge=False)
    titles = ("of the block", "elements", "loads from global", "reads by threads", "reads a load")
    for index, name in enumerate(titles):
        table.add_column(name, justify="right" if index else "left")
    for each in walk.reuse:
        ratio = words.number(round(each.uses / each.loads, 2)) if each.loads else ""
        counts = (f"{count:,}" for count in (each.elements, each.loads, each.uses))
        table.add_row(each.matrix, *counts, ratio, style=_STYLES.get(each.matrix))
    yield table
    yield Text()
    for each in walk.reuse:
        yield _sentence(words.reuse(each), width)
    yield _sentence(words.requests(walk), width)
