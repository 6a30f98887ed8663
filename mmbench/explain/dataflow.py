"""Where values come from: which load fed a store to shared memory, which store a read sees.

Knows positions in a block's events only: no matrices' shapes, no steps, no words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mmbench.explain.events import Event
from mmbench.spec import Dim3

Key = tuple[str, int]
_EPOCHS_IN_A_REGISTER = 2  # a value may be loaded before a barrier and stored behind it


@dataclass(frozen=True)
class Dataflow:
    """Links between positions in ``events``.

    ``source_of``: a store to shared memory to the global load whose value it stores.
    ``seen_by``: a load from shared memory to the store that it sees.
    ``direct``: the global loads whose value went into no shared array.
    """

    events: Sequence[Event]
    source_of: dict[int, int]
    seen_by: dict[int, int]
    direct: frozenset[int]
    stores_to: dict[Key, list[int]]

    def store_before(self, key: Key, position: int) -> int | None:
        """The last store to a shared element before a position."""
        stores = self.stores_to.get(key, [])
        at = bisect_left(stores, position)
        return stores[at - 1] if at else None

    def store_after(self, key: Key, position: int) -> int | None:
        """The first store to a shared element after a position."""
        stores = self.stores_to.get(key, [])
        at = bisect_right(stores, position)
        return stores[at] if at < len(stores) else None

    def origin(self, position: int) -> int | None:
        """The global load that a load, direct or from shared memory, has its value from."""
        if position in self.direct:
            return position
        store = self.seen_by.get(position)
        return None if store is None else self.source_of.get(store)


def trace_values(events: Sequence[Event]) -> Dataflow:
    """Link every store and load of a block's events to where its value comes from."""
    source_of = _link_stores(events)
    used = set(source_of.values())
    direct = frozenset(i for i in _operand_loads(events) if i not in used)
    stores_to: dict[Key, list[int]] = defaultdict(list)
    seen_by: dict[int, int] = {}
    for position, event in enumerate(events):
        if event.space != "shared":
            continue
        key = event.variable, event.index
        if event.writes:
            stores_to[key].append(position)
        elif key in stores_to:
            seen_by[position] = stores_to[key][-1]
    return Dataflow(events, source_of, seen_by, direct, dict(stores_to))


def _operand_loads(events: Sequence[Event]) -> Iterator[int]:
    for position, event in enumerate(events):
        if event.space == "global" and event.op == "load" and event.variable != "C":
            yield position


def _link_stores(events: Sequence[Event]) -> dict[int, int]:
    """Link stores to shared memory with loads of the same thread that had the same value.

    Several loads may have it. The first pass notes which matrix a line's stores come from
    where that is certain; the second pass prefers that matrix, then the oldest load. A line
    that stores something that was not loaded, nor is 0, computes what it stores.
    """
    computed: set[tuple[int, str]] = set()
    votes: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for store, candidates in _candidates(events, {}):
        matrices = {events[load].variable for load in candidates}
        if not candidates and events[store].value != 0:
            computed.add(_site(events[store]))
        if len(matrices) == 1:
            votes[_site(events[store])][matrices.pop()] += 1
    favourites = {site: count.most_common(1)[0][0] for site, count in votes.items()}
    return {
        store: candidates[0]
        for store, candidates in _candidates(events, favourites)
        if candidates and _site(events[store]) not in computed
    }


def _site(event: Event) -> tuple[int, str]:
    return event.line, event.variable


def _candidates(
    events: Sequence[Event], favourites: dict[tuple[int, str], str]
) -> Iterator[tuple[int, list[int]]]:
    """Each store with the loads that may have fed it, best first; the best is then used up."""
    pending: dict[Dim3, list[int]] = defaultdict(list)
    for position, event in enumerate(events):
        if event.space == "global" and event.op == "load" and event.variable != "C":
            pending[event.thread].append(position)
        elif event.space == "shared" and event.op == "store":
            loads = _recent(events, pending[event.thread], event.epoch)
            pending[event.thread] = loads
            fitting = [load for load in loads if events[load].value == event.value]
            favourite = favourites.get(_site(event))
            fitting.sort(key=partial(_distance, events, event, favourite))
            if fitting:
                loads.remove(fitting[0])
            yield position, fitting


def _recent(events: Sequence[Event], loads: list[int], epoch: int) -> list[int]:
    oldest = epoch - _EPOCHS_IN_A_REGISTER
    if loads and events[loads[0]].epoch < oldest:
        return [load for load in loads if events[load].epoch >= oldest]
    return loads


def _distance(
    events: Sequence[Event], store: Event, favourite: str | None, load: int
) -> tuple[bool, bool]:
    event = events[load]
    return event.line != store.line, favourite is not None and event.variable != favourite
