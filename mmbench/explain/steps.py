"""Cuts a thread's accesses into steps, each an epoch in which it reads what it multiplies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from mmbench.explain.dataflow import Dataflow, Key
from mmbench.explain.events import Event
from mmbench.explain.geometry import Geometry, source
from mmbench.explain.model import (
    BarrierAfter,
    BarrierBefore,
    Copy,
    Element,
    Operand,
    Others,
    Source,
    Step,
    Tile,
)
from mmbench.explain.products import Products
from mmbench.explain.tiles import make_tiles
from mmbench.spec import Dim3


class StepMaker:
    """Makes the steps of one thread."""

    def __init__(
        self,
        flow: Dataflow,
        geometry: Geometry,
        thread: Dim3,
        owned: Sequence[Element],
        lines: Sequence[str],
    ) -> None:
        self.flow, self.events, self.geometry = flow, flow.events, geometry
        self.thread, self.owned, self.lines = thread, owned, lines
        self.last_epoch = max(event.epoch for event in self.events)
        self.matrix_of = self._matrices()

    def steps(self) -> Iterator[Step]:
        """The steps in order, each with the sum so far."""
        epochs: dict[int, list[int]] = defaultdict(list)
        for position, event in enumerate(self.events):
            is_read = event.space == "shared" and event.op == "load"
            if event.thread == self.thread and (is_read or position in self.flow.direct):
                epochs[event.epoch].append(position)
        products = Products(self.owned)
        total = 0.0
        for number, (epoch, positions) in enumerate(sorted(epochs.items())):
            operands = [self._operand(position) for position in positions]
            known = [operand for operand in operands if operand is not None]
            terms = products.of(known)
            subtotal = sum(term.product for term in terms)
            total += subtotal
            reads = self._last_reads(positions)
            fills = {key: self.flow.seen_by[at] for key, at in reads.items()
                     if at in self.flow.seen_by}  # fmt: skip
            stored = self._stored(fills, positions[0])
            yield Step(
                number=number,
                copies=self._copies(stored),
                tiles=self._tiles(stored, fills),
                before=self._before(epoch, fills, stored) if reads else None,
                terms=terms,
                line=self._line(positions),
                others=len(operands) - len(known),
                subtotal=subtotal,
                total=total,
                after=self._after(epoch, reads) if reads else None,
            )

    def _matrices(self) -> dict[str, str]:
        """The matrix that a shared array holds elements of, where it is one matrix only."""
        held: dict[str, set[str]] = defaultdict(set)
        for store, load in self.flow.source_of.items():
            held[self.events[store].variable].add(self.events[load].variable)
        return {name: matrices.pop() for name, matrices in held.items() if len(matrices) == 1}

    def _element(self, position: int) -> Element:
        event = self.events[position]
        return self.geometry.element(event.variable, event.index)

    def _operand(self, position: int) -> tuple[str, Operand] | None:
        """The matrix and value that a read brings, or None if it is no element of a matrix."""
        event, origin = self.events[position], self.flow.origin(position)
        if origin is not None:
            element = self._element(origin)
            return element.variable, Operand(event.value, self._element(position), element)
        matrix = self.matrix_of.get(event.variable)
        return (matrix, Operand(event.value, self._element(position), None)) if matrix else None

    def _last_reads(self, positions: Iterable[int]) -> dict[Key, int]:
        return {
            (event.variable, event.index): position
            for position in positions
            if (event := self.events[position]).space == "shared"
        }

    def _stored(self, fills: dict[Key, int], first_read: int) -> dict[Key, int]:
        """All that the block stored to the arrays that are read, at the time it filled them."""
        variables = {variable for variable, _ in fills}
        epochs = {self.events[store].epoch for store in fills.values()}
        found: dict[Key, int] = {}
        for key in self.flow.stores_to:
            store = self.flow.store_before(key, first_read)
            if key[0] in variables and store is not None and self.events[store].epoch in epochs:
                found[key] = store
        return found | fills

    def _copies(self, stored: dict[Key, int]) -> tuple[Copy, ...]:
        copies = []
        for store in sorted(stored.values()):
            if self.events[store].thread == self.thread and self._is_copy(store):
                load = self.flow.source_of.get(store)
                origin = None if load is None else self._element(load)
                event = self.events[store]
                copies.append(Copy(origin, self._element(store), event.value, event.line))
        return tuple(copies)

    def _is_copy(self, store: int) -> bool:
        return store in self.flow.source_of or self.events[store].variable in self.matrix_of

    def _tiles(self, stored: dict[Key, int], fills: dict[Key, int]) -> tuple[Tile, ...]:
        origins = {
            store: self._element(self.flow.source_of[store])
            for store in stored.values()
            if store in self.flow.source_of
        }
        copied = {key: store for key, store in stored.items() if self._is_copy(store)}
        entries = [
            (self.geometry.element(*key), self.events[store], origins.get(store), key in fills)
            for key, store in copied.items()
        ]
        return make_tiles(entries, self.thread, self.matrix_of)

    def _line(self, positions: Sequence[int]) -> Source:
        lines = Counter(self.events[position].line for position in positions)
        return source(self.lines, lines.most_common(1)[0][0])

    def _before(self, epoch: int, fills: dict[Key, int], stored: dict[Key, int]) -> BarrierBefore:
        writers = [self.events[store] for store in fills.values()]
        filled = max((event.epoch for event in writers), default=epoch)
        return BarrierBefore(
            barriers=epoch - filled,
            stores=len(stored),
            threads=len({self.events[store].thread for store in stored.values()}),
            needed=_by_variable(writers),
            races=sum(event.epoch == epoch and event.thread != self.thread for event in writers),
        )

    def _after(self, epoch: int, reads: dict[Key, int]) -> BarrierAfter:
        later = [self.flow.store_after(key, position) for key, position in reads.items()]
        writers = [self.events[store] for store in later if store is not None]
        racing = [e for e in writers if e.epoch == epoch and e.thread != self.thread]
        return BarrierAfter(
            exists=self.last_epoch > epoch,
            overwritten=_by_variable(racing or writers),
            races=len(racing),
        )


def _by_variable(writers: Sequence[Event]) -> tuple[Others, ...]:
    """Stores by array, and in it the threads that made them."""
    groups: dict[str, list[Dim3]] = defaultdict(list)
    for event in writers:
        groups[event.variable].append(event.thread)
    return tuple(
        Others(variable, len(threads), tuple(sorted(set(threads))))
        for variable, threads in sorted(groups.items())
    )
