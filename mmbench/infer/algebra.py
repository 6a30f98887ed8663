"""Index arithmetic as polynomials over named atoms, such as blockIdx.y * TILE_SIZE * N + k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Monomial = tuple[str, ...]


@dataclass(frozen=True)
class Poly:
    """A sum of products of atoms; the atoms of each product are sorted."""

    terms: Mapping[Monomial, int] = field(default_factory=dict)

    @staticmethod
    def of(value: int | str) -> Poly:
        if isinstance(value, str):
            return Poly({(value,): 1})
        return Poly({(): value} if value else {})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for monomial, factor in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + factor
        return Poly({m: f for m, f in terms.items() if f})

    def __mul__(self, other: Poly) -> Poly:
        result = Poly()
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                result += Poly({tuple(sorted(a + b)): x * y})
        return result

    def __neg__(self) -> Poly:
        return self * Poly.of(-1)

    @property
    def atoms(self) -> set[str]:
        return {atom for monomial in self.terms for atom in monomial}

    @property
    def number(self) -> int | None:
        """The value of a polynomial without atoms."""
        if not self.terms:
            return 0
        return self.terms.get(()) if set(self.terms) == {()} else None

    def without(self, atom: str) -> Poly:
        """The factor of the atom: what the terms that have it are multiplied by it."""
        found = Poly()
        for monomial, factor in self.terms.items():
            if atom in monomial:
                rest = list(monomial)
                rest.remove(atom)
                found += Poly({tuple(rest): factor})
        return found

    def substitute(self, atom: str, value: Poly) -> Poly:
        result = Poly()
        for monomial, factor in self.terms.items():
            term = Poly.of(factor)
            for each in monomial:
                term = term * (value if each == atom else Poly.of(each))
            result += term
        return result

    def evaluate(self, value: Callable[[str], int]) -> int:
        total = 0
        for monomial, factor in self.terms.items():
            for atom in monomial:
                factor *= value(atom)
            total += factor
        return total

    def divided(self, other: Poly) -> Poly | None:
        """The exact quotient by a single term, where there is one."""
        if len(other.terms) != 1:
            return None
        (monomial, by), result = next(iter(other.terms.items())), Poly()
        for mine, factor in self.terms.items():
            rest = list(mine)
            for atom in monomial:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if factor % by:
                return None
            result += Poly({tuple(rest): factor // by})
        return result

    def __str__(self) -> str:
        """As a header's expression."""
        parts = []
        for monomial, factor in sorted(self.terms.items(), key=lambda t: (-len(t[0]), t[0])):
            names = [*(() if abs(factor) == 1 and monomial else (str(abs(factor)),)), *monomial]
            sign = "-" if factor < 0 else "+"
            parts.append((sign, " * ".join(names)))
        if not parts:
            return "0"
        first = ("-" if parts[0][0] == "-" else "") + parts[0][1]
        return first + "".join(f" {sign} {term}" for sign, term in parts[1:])
