"""The walk of one thread through a kernel: frozen data that a view turns into text or a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmbench.product import Problem
from mmbench.spec import Dim3


@dataclass(frozen=True)
class Element:
    """An element of an array. ``at`` is empty where its row and column are not known."""

    variable: str
    index: int
    at: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        return self.variable + "".join(f"[{i}]" for i in self.at or (self.index,))


@dataclass(frozen=True)
class Source:
    """A line of the kernel's file."""

    line: int
    text: str


@dataclass(frozen=True)
class Copy:
    """A store of the thread to shared memory; ``source`` is None where it stores no element."""

    source: Element | None
    target: Element
    value: float
    line: int


@dataclass(frozen=True)
class Operand:
    """A value that went into a product: from matrix ``origin``, read at ``place``."""

    value: float
    place: Element
    origin: Element | None


@dataclass(frozen=True)
class Term:
    """One product. It is ``strange`` if it does not belong to the element it is added to."""

    a: Operand
    b: Operand
    strange: bool = False

    @property
    def product(self) -> float:
        return self.a.value * self.b.value


@dataclass(frozen=True)
class Cell:
    """An element of a tile: who stored what there, and whether this thread stores or reads it."""

    row: int
    column: int
    value: float
    origin: Element | None
    writer: Dim3
    own: bool
    read: bool


@dataclass(frozen=True)
class Tile:
    """What a block holds of a matrix in a shared array. Rows and columns of the cells are those
    of the array, or those of the matrix where ``by_matrix``.
    """

    variable: str
    matrix: str
    cells: tuple[Cell, ...]
    by_matrix: bool
    prefix: tuple[int, ...] = ()

    @property
    def origins(self) -> tuple[Element, ...]:
        return tuple(cell.origin for cell in self.cells if cell.origin is not None)


@dataclass(frozen=True)
class Others:
    """Elements of a shared array and the threads that write them."""

    variable: str
    elements: int
    threads: tuple[Dim3, ...]


@dataclass(frozen=True)
class BarrierBefore:
    """What lies between the stores to the tiles and this thread's reads of them."""

    barriers: int
    stores: int
    threads: int
    needed: tuple[Others, ...]
    races: int


@dataclass(frozen=True)
class BarrierAfter:
    """Who overwrites what this thread has read, and whether a barrier holds them back."""

    exists: bool
    overwritten: tuple[Others, ...]
    races: int


@dataclass(frozen=True)
class Step:
    """One stretch between barriers in which the thread multiplies, and how its data got there.

    ``others`` counts the values that it read from shared memory and that are neither elements
    of A or B nor zeros, for instance sums of other threads.
    """

    number: int
    copies: tuple[Copy, ...]
    tiles: tuple[Tile, ...]
    before: BarrierBefore | None
    terms: tuple[Term, ...]
    line: Source
    others: int
    subtotal: float
    total: float
    after: BarrierAfter | None

    @property
    def direct(self) -> bool:
        """Whether all operands came straight from global memory."""
        return self.before is None

    @property
    def depth(self) -> tuple[int, ...]:
        """The values of k whose products this step adds."""
        origins = (operand.origin for term in self.terms for operand in (term.a, term.b))
        return tuple(
            sorted({o.at[1] if o.variable == "A" else o.at[0] for o in origins if o and o.at})
        )


@dataclass(frozen=True)
class Written:
    """The store to C, against this thread's own sum and the product of the inputs."""

    element: Element
    value: float
    line: Source
    atomic: bool
    own_sum: float
    expected: float
    products: int


@dataclass(frozen=True)
class Reuse:
    """How often a block loads the elements of a matrix, and how often its threads use them.

    ``times`` is how often all blocks together load each element, ``alone`` how often threads
    do that each fetch the operands of one element of C; None where this block does not tell.
    """

    matrix: str
    size: int
    elements: int
    loads: int
    uses: int
    times: int | None
    alone: int


@dataclass(frozen=True)
class Walk:
    """All that is shown of one thread's way through a kernel.

    ``part`` are the elements of C that the block stores; ``faults`` is how many a check found.
    """

    kernel: str
    summary: str
    path: Path
    problem: Problem
    params: tuple[tuple[str, int], ...]
    grid: Dim3
    extent: Dim3
    block: Dim3
    thread: Dim3
    owned: tuple[Element, ...]
    part: tuple[Element, ...]
    steps: tuple[Step, ...]
    written: Written
    reuse: tuple[Reuse, ...]
    declared_reads: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[tuple[float, ...], ...]
    faults: int = 0

    @property
    def followed(self) -> Element:
        """The element of C whose sum is shown."""
        return self.written.element

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows of C, and so of A, that the block works on."""
        return tuple(sorted({element.at[0] for element in self.part}))

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of C, and so of B, that the block works on."""
        return tuple(sorted({element.at[1] for element in self.part}))
