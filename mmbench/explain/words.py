"""The sentences of a walk, the same for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from mmbench.explain.geometry import ranges, region, thread_name, thread_names, whole
from mmbench.explain.model import Copy, Others, Reuse, Step, Term, Tile, Walk
from mmbench.spec import Dim3

_TERMS_SHOWN = 8
_STEPS_SHOWN = 4


def number(value: float) -> str:
    """A value without needless zeros; -0 is 0."""
    return f"{value + 0.0:.9g}"


def factor(value: float) -> str:
    """A value as a factor of a product."""
    return f"({number(value)})" if value < 0 else number(value)


def plural(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def title(walk: Walk) -> str:
    params = "".join(f", {name}={value}" for name, value in walk.params)
    block, thread = thread_name(walk.block, walk.grid), thread_name(walk.thread, walk.extent)
    return f"{walk.kernel}, {walk.problem}{params}: block {block}, thread {thread}"


def who_block(walk: Walk) -> tuple[str, str]:
    """The block's name, and what it is and does."""
    one_of = f"One of {whole(walk.grid)} blocks of {whole(walk.extent)} threads."
    stores = f"It stores {region('C', walk.part)}, {plural(len(walk.part), 'element')}."
    return f"Block {thread_name(walk.block, walk.grid)}", f"{one_of} {stores}"


def who_thread(walk: Walk) -> tuple[str, str]:
    """The thread's name, and what it owns."""
    name, element = f"Thread {thread_name(walk.thread, walk.extent)}", walk.followed
    row, column = element.at
    terms = plural(walk.problem.k, "product")
    if len(walk.owned) == 1:
        return name, (
            f"Owns {element.label}: row {row} of A times column {column} of B, the sum of {terms}."
        )
    owned = f"{plural(len(walk.owned), 'element')}, {region('C', walk.owned)}"
    return name, f"Owns {owned}. Followed here: {element.label}, the sum of {terms}."


def heading(step: Step, walk: Walk) -> str:
    depth = step.depth
    along = f"k = {ranges(depth)}" if depth else "values that threads computed"
    if len(walk.steps) == 1:
        return f"The walk along {along}"
    return f"Step t = {step.number} of 0..{len(walk.steps) - 1}, {along}"


def shown(walk: Walk) -> set[int]:
    """The steps that a terminal shows in full: the first ones and the last."""
    count = len(walk.steps)
    return set(range(count)) if count <= _STEPS_SHOWN else {0, 1, count - 1}


def copy(each: Copy) -> str:
    value, target = number(each.value), each.target.label
    if each.source is None:
        why = "no load: past the edge" if each.value == 0 else "no load: computed"
        return f"{value} -> {target}   {why}"
    return f"{each.source.label} = {value} -> {target}"


def tile_title(tile: Tile) -> str:
    """What of which matrix the tile holds: sA = A[4..7][0..3]."""
    name = tile.variable + "".join(f"[{i}]" for i in tile.prefix)
    return f"{name} = {region(tile.matrix, tile.origins)}" if tile.origins else f"{name} = zeros"


def block_copies(step: Step) -> str:
    """What all threads of the block together bring into shared memory."""
    parts = []
    zeros = 0
    for tile in step.tiles:
        name = tile.variable + "".join(f"[{i}]" for i in tile.prefix)
        outside = sum(cell.origin is None for cell in tile.cells)
        zeros += outside
        if tile.origins:
            parts.append(f"{region(tile.matrix, tile.origins)} into {name}")
        elif outside:
            parts.append(f"only zeros into {name}")
    if not parts:
        return ""
    text = f"The block brings {' and '.join(parts)}"
    return f"{text}; {plural(zeros, 'element')} past the edge become 0." if zeros else f"{text}."


def barrier_before(step: Step, walk: Walk) -> str:
    """What this thread waits for before it reads."""
    before = step.before
    assert before is not None
    if not before.needed:
        return "This thread reads shared memory that nobody has stored to."
    needed = _others(before.needed, walk.extent, "written by ")
    if before.barriers == 0:
        if before.races:
            return (
                f"NO __syncthreads() lies between the stores and these reads of {needed}: "
                f"{plural(before.races, 'element')} may not have arrived yet."
            )
        return "No barrier is needed: this thread reads only what it stored itself."
    visible = f"{plural(before.stores, 'store')} by {plural(before.threads, 'thread')}"
    text = f"Makes {visible} visible. This thread will read {needed}."
    if before.races:
        text += f" {plural(before.races, 'element')} of them came WITHOUT a barrier in between."
    return text


def barrier_after(step: Step, walk: Walk) -> str:
    """Whom the barrier behind the reads holds back."""
    after = step.after
    assert after is not None
    if after.races:
        writers = _others(after.overwritten, walk.extent, "by ")
        return (
            f"NO __syncthreads() follows before others overwrite {writers}: "
            "a fast thread may do so while this one still reads."
        )
    if after.overwritten:
        held = " and ".join(
            f"{thread_names(each.threads, walk.extent)} would overwrite {each.elements} of "
            f"{each.variable}"
            for each in after.overwritten
        )
        return f"Holds back the next stores: {held} while this thread still reads them."
    if after.exists:
        return "Nothing read here is overwritten later: for this step a barrier protects nothing."
    return "Nothing read here is overwritten later, and no barrier follows."


def _others(groups: Sequence[Others], extent: Dim3, how: str) -> str:
    return " and ".join(
        f"{each.elements} of {each.variable}, {how}{thread_names(each.threads, extent)}"
        for each in groups
    )


def product(term: Term) -> str:
    return f"{number(term.a.value) if term.a.value >= 0 else factor(term.a.value)}*" + factor(
        term.b.value
    )


def dot(step: Step) -> str:
    """The products that a step adds: 1*2 + 3*4 + ... = 14."""
    terms = [product(term) for term in step.terms]
    if len(terms) > _TERMS_SHOWN:
        left_out = len(terms) - _TERMS_SHOWN + 2
        terms = [*terms[: _TERMS_SHOWN - 4], f"... {left_out} more ...", *terms[-2:]]
    return f"{' + '.join(terms)} = {number(step.subtotal)}" if terms else "no products"


def running_sum(step: Step) -> str:
    before = step.total - step.subtotal
    return f"sum so far: {number(before)} + {factor(step.subtotal)} = {number(step.total)}"


def remarks(step: Step) -> list[str]:
    """What is odd about a step's reads."""
    found = []
    strange = [term for term in step.terms if term.strange]
    races = step.before.races if step.before else 0
    why = "they came too early or too late" if races else "look at the indices"
    if strange:
        pair = " * ".join((o.origin or o.place).label for o in (strange[0].a, strange[0].b))
        found.append(
            f"{plural(len(strange), 'product')} here do not belong to this element of C, "
            f"for instance {pair}: {why}."
        )
    return found


def others(step: Step) -> str:
    """What else a step reads from shared memory, or nothing."""
    if not step.others:
        return ""
    return f"This thread reads {plural(step.others, 'value')} that threads computed."


def summary(step: Step) -> tuple[str, str, str, str]:
    """A step in one line: t, k, how much it adds, the sum."""
    return (
        f"t = {step.number}",
        f"k = {ranges(step.depth)}",
        f"{plural(len(step.terms), 'product')} = {number(step.subtotal)}",
        f"sum {number(step.total)}",
    )


def result(walk: Walk) -> str:
    written = walk.written
    return f"{written.element.label} {'+=' if written.atomic else '='} {number(written.value)}"


def check(walk: Walk) -> tuple[bool, str]:
    """Whether the value is right, and how that is known."""
    written = walk.written
    row, column = written.element.at
    inputs = f"row {row} of A · column {column} of B of the inputs is {number(written.expected)}"
    own = number(written.own_sum)
    if written.atomic:
        agrees = written.value == written.own_sum
        text = f"Added to what other blocks add. The products above sum to {own}; {inputs}."
        return agrees, text
    if written.value == written.expected == written.own_sum:
        return True, f"Right: {inputs}, and the {plural(written.products, 'product')} sum to it."
    if written.value == written.expected:
        return True, (
            f"Right: {inputs}. The products of what this thread itself read sum to {own}; "
            "the rest came from other threads."
        )
    text = f"WRONG: {inputs}, but {number(written.value)} was stored."
    if written.own_sum != written.value:
        return False, f"{text} The products of what was read sum to {own}, another value still."
    return False, f"{text} It is the sum of the products above: the wrong operands were read."


def reuse(each: Reuse) -> str:
    """How often all blocks load one element, against threads that fetch for themselves."""
    if each.times is None:
        return (
            f"{each.matrix}: this block alone does not tell how often all blocks load an element."
        )
    edge = "N" if each.matrix == "A" else "M"
    instead = f"{edge} = {each.alone} times"
    if each.times == each.alone:
        return f"Each element of {each.matrix} is read {instead}: nothing is reused."
    text = f"{plural(each.times, 'time')}"
    return f"Each element of {each.matrix} is read {text} instead of {instead}."


def requests(walk: Walk) -> str:
    """Loads from global memory for the whole product, with and without reuse."""
    alone = sum(each.size * each.alone for each in walk.reuse)
    declared = f"the kernel's header declares {walk.declared_reads:,}"
    if any(each.times is None for each in walk.reuse):
        return f"Threads that fetch for themselves request 2*M*N*K = {alone:,}; {declared}."
    total = sum(each.size * (each.times or 0) for each in walk.reuse)
    share = f", 1/{alone // total} of it" if total and total < alone and alone % total == 0 else (
        f", {total / alone:.0%} of it" if total < alone else ""
    )  # fmt: skip
    agrees = "as its header declares" if total == walk.declared_reads else f"but {declared}"
    return (
        f"Requests to global memory for the whole product: 2*M*N*K = {alone:,} if each thread "
        f"fetches for itself; this kernel {total:,}{share}, {agrees}."
    )
