"""A, B and C on the device: what is put into them before a launch, and the look at them after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmbench.errors import UnfitError
from mmbench.inputs import Inputs, guard_elements
from mmbench.runners import Array, Buffer, Session
from mmbench.spec import Point
from mmbench.verify import Checker

_MOST_PLACES = 16
_MOST_BYTES = 2**27  # of all places; beyond, a matrix lies in so many pages that one will do


class Operands:
    """The buffers of one problem, each with guard zones, and the references on the host.

    ``places`` are these buffers and ``others`` like them, made ``beside`` them, elsewhere on
    the device.
    """

    def __init__(self, session: Session, checker: Checker, beside: Operands | None = None) -> None:
        self.session = session
        self.checker = checker
        problem, product = checker.problem, checker.product
        sizes = {name: array.nbytes for name, array in checker.real.storage.items()}
        self.bytes = sum(sizes.values())
        free = session.free_bytes()
        if self.bytes > free:
            raise UnfitError(
                f"needs {self.bytes / 1e9:,.1f} GB on the device for A, B and C, "
                f"{free / 1e9:,.1f} GB are free"
            )
        self.buffers = {name: session.allocate(size) for name, size in sizes.items()}
        guard = guard_elements(problem, product)
        self.addresses = {
            name: buffer.address + guard * product.bytes_of(name)
            for name, buffer in self.buffers.items()
        }
        self.loaded: Inputs | None = None
        self.copies: _Copies = beside.copies if beside else _Copies(session)
        # Of a C that has passed, by id(inputs).
        self.errors: dict[int, float | None] = beside.errors if beside else {}
        self.others: list[Operands] = []

    @property
    def places(self) -> list[Operands]:
        return [self, *self.others]

    def forget(self) -> None:
        """Put all of the inputs anew before the next launch: other kernels have run since."""
        for place in self.places:
            place.loaded = None

    def load(self, inputs: Inputs) -> None:
        """Put these inputs into A and B, and what C is to hold before the launch into C."""
        before = self.loaded
        if before is None or before.a_padded is not inputs.a_padded:
            self._put("A", inputs.a_padded)
            self._put("B", inputs.b_padded)
        self.loaded = inputs
        self._put("C", inputs.c_padded)

    def check(self, inputs: Inputs, places: Sequence[Operands] = ()) -> tuple[str, float | None]:
        """What launches in these places did wrong, or ""; and the error of real inputs.

        Wrong is C, or a write into A or B. Without ``places`` it is about a launch in this one.
        """
        places = places or [self]
        # The same bits as after a launch that has passed need no second look.
        if self.copies.hold([pair for place in places for pair in place._after_passing(inputs)]):
            return "", self.errors[id(inputs)]
        for place in places:
            wrong, error = place._look(inputs)
            if wrong:
                break
        return wrong, error

    def _look(self, inputs: Inputs) -> tuple[str, float | None]:
        if self.copies.hold(self._after_passing(inputs)):  # the place before this one has passed
            return "", self.errors[id(inputs)]
        changed = self._changed_input(inputs)
        if changed:
            self.loaded = None
            return changed, None
        wrong, error = self.checker.check(self._fetch("C", inputs.c_padded), inputs)
        if not wrong:
            self.copies.keep(inputs, self.buffers["C"])
            self.errors[id(inputs)] = error
        return wrong, error

    def spoiled(self) -> bool:
        """Whether a stray write has hit the copies, which are dropped then.

        What a kernel was given from them was not what it should have been: check it again.
        """
        intact = self.copies.intact()
        if not intact:
            self.copies.drop()
            self.forget()
        return not intact

    def spread(self, inputs: Inputs) -> None:
        """Put these inputs into several places, for a kernel to be timed cold in each of them.

        Where a small matrix lies makes a difference of up to 1 %: a GPU's multiprocessors are
        not equally near to all of its memory. (Hot it makes none, once the L2 holds them.)
        """
        while self.session.own_memory and self._has_room_for_another():
            self.others.append(Operands(self.session, self.checker, beside=self))
        for place in self.places:
            place.load(inputs)

    def _has_room_for_another(self) -> bool:
        count = len(self.places) + 1
        few = count <= _MOST_PLACES and count * self.bytes <= _MOST_BYTES
        return few and 2 * self.bytes <= self.session.free_bytes()

    def arguments(self, point: Point) -> list[int | float]:
        """Values for the entry point's parameters, in its order, for the inputs in place."""
        product = self.checker.product if self.loaded is None else self.loaded.product
        return point.arguments(self.addresses, product)

    def _put(self, name: str, array: Array) -> None:
        buffer = self.buffers[name]
        if (copy := self.copies.of(array)) is not None:
            self.session.copy(buffer, copy)
        else:
            self.session.write(buffer, array)
            self.copies.keep(array, buffer)

    def _fetch(self, name: str, like: Array) -> Array:
        data = np.empty_like(like)
        self.session.read(self.buffers[name], data)
        return data

    def _after_passing(self, inputs: Inputs) -> list[tuple[object, Buffer]]:
        """The buffers, each with the owner of the copy whose bits it holds after a right launch."""
        owners = {"A": inputs.a_padded, "B": inputs.b_padded, "C": inputs}
        return [(owner, self.buffers[name]) for name, owner in owners.items()]

    def _changed_input(self, inputs: Inputs) -> str:
        """Whether the last launch wrote into A or B, as a sentence, or ""."""
        given = inputs.storage
        if self.copies.hold([(given[name], self.buffers[name]) for name in "AB"]):
            return ""
        a, b = (self._fetch(name, given[name]) for name in "AB")
        return self.checker.changed_input(inputs, a, b)


class _Copies:
    """Copies on the device of what its buffers held at some time, found by whose they are.

    They save sending arrays again and looking at results again, and leave half of the memory
    free. Where that is the host's own they would save nothing, and there are none.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._wanted = session.own_memory
        self._kept: dict[int, tuple[object, Buffer]] = {}

    def keep(self, owner: object, buffer: Buffer) -> None:
        """Copy what a buffer holds now, in the place of an older copy, if there is room."""
        if id(owner) not in self._kept:
            if not self._wanted or not self._has_room(buffer.bytes):
                return
            self._kept[id(owner)] = (owner, self._session.allocate(buffer.bytes))
        self._session.copy(self._kept[id(owner)][1], buffer)

    def of(self, owner: object) -> Buffer | None:
        return self._kept[id(owner)][1] if id(owner) in self._kept else None

    def hold(self, owned: Sequence[tuple[object, Buffer]]) -> bool:
        """Whether there is a copy for each owner, and each buffer holds the same bits now."""
        pairs = [(copy, buffer) for owner, buffer in owned if (copy := self.of(owner))]
        return len(pairs) == len(owned) and self._session.same(pairs)

    def intact(self) -> bool:
        """Whether the copies of arrays still are what the arrays on the host are."""
        for owner, copy in self._kept.values():
            if isinstance(owner, np.ndarray):
                found = np.empty_like(owner)
                self._session.read(copy, found)
                if not np.array_equal(found, owner):
                    return False
        return True

    def drop(self) -> None:
        """Make no more copies, and forget those there are."""
        self._kept.clear()
        self._wanted = False

    def _has_room(self, size: int) -> bool:
        taken = sum(copy.bytes for _, copy in self._kept.values())
        return 2 * (taken + size) <= taken + self._session.free_bytes()
