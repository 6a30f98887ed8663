"""Pairs what a thread reads into the products that it adds."""

from __future__ import annotations

from collections.abc import Sequence

from mmbench.explain.model import Element, Operand, Term


class Products:
    """The products of one element of C, step by step.

    A thread that owns one element and reads its operands in turns, A, B, A, B, multiplies each
    pair: these products are those of the kernel even where its indices are wrong. Elsewhere,
    say where operands wait in registers for several elements, each A[row][k] that was read is
    paired with the B[k][column] that was read, in the step in which the later one came.
    """

    def __init__(self, owned: Sequence[Element]) -> None:
        self._row, self._column = owned[0].at
        self._alone = len(owned) == 1
        self._a: dict[int, Operand] = {}
        self._b: dict[int, Operand] = {}
        self._done: set[int] = set()

    def of(self, operands: Sequence[tuple[str, Operand]]) -> tuple[Term, ...]:
        """The products that become possible with these reads, in order."""
        if self._alone and _in_turns([matrix for matrix, _ in operands]):
            return tuple(
                self._term(operands[i], operands[i + 1]) for i in range(0, len(operands), 2)
            )
        return self._by_origin(operands)

    def _term(self, first: tuple[str, Operand], second: tuple[str, Operand]) -> Term:
        a, b = (first[1], second[1]) if first[0] == "A" else (second[1], first[1])
        return Term(a, b, self._is_strange(a.origin, b.origin))

    def _is_strange(self, a: Element | None, b: Element | None) -> bool:
        if (a and not a.at) or (b and not b.at):
            return True
        wrong_row = a is not None and a.at[0] != self._row
        wrong_column = b is not None and b.at[1] != self._column
        apart = a is not None and b is not None and a.at[1] != b.at[0]
        return wrong_row or wrong_column or apart

    def _by_origin(self, operands: Sequence[tuple[str, Operand]]) -> tuple[Term, ...]:
        for _, operand in operands:
            origin = operand.origin
            if origin is None or not origin.at:
                continue
            if origin.variable == "A" and origin.at[0] == self._row:
                self._a[origin.at[1]] = operand
            elif origin.variable == "B" and origin.at[1] == self._column:
                self._b[origin.at[0]] = operand
        ready = sorted((self._a.keys() & self._b.keys()) - self._done)
        self._done.update(ready)
        return tuple(Term(self._a[k], self._b[k]) for k in ready)


def _in_turns(matrices: Sequence[str]) -> bool:
    pairs = zip(matrices[::2], matrices[1::2], strict=False)
    return len(matrices) % 2 == 0 and all({x, y} == {"A", "B"} for x, y in pairs)
