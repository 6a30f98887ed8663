"""The block and the grid: from the place in C at which each thread works, else from the host code.

A row such as ``blockIdx.y * 64 + threadIdx.y * 4 + i`` is a number in mixed radix: the threads
of the y axis are 64 / 4, and the grid has ceil(M / 64) blocks in y.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.roles import Roles

LINEAR_BLOCK = 256


@dataclass(frozen=True)
class Shape:
    """Expressions of a header for the block and the grid, x first."""

    block: tuple[str, ...]
    grid: tuple[str, ...]


class _UnclearError(Exception):
    """The place of a thread in C does not tell the launch."""


@dataclass(frozen=True)
class Sample:
    """Values to compare expressions at: the tile, and blocks whose size is free."""

    tile: int = 32
    linear: int = LINEAR_BLOCK
    square: int | None = None  # the side of a block that the shared arrays fix


def derive(body: Body, roles: Roles, code: str, sample: Sample) -> Shape | None:
    """The launch that covers C once; None where the kernel alone does not tell it."""
    two_dimensional = bool(re.search(r"\bthreadIdx\s*\.\s*y\b", code))
    free = Poly.of("TILE_SIZE" if sample.square is None else sample.square)
    free = free if two_dimensional else Poly.of(sample.linear)
    try:
        return _Derivation(body, free, code, sample.tile).shape(roles)
    except _UnclearError:
        return None


class _Derivation:
    def __init__(self, body: Body, free: Poly, code: str, tile: int) -> None:
        self.tile = tile
        self.body = body
        self.free = free
        self.code = code
        self.block: dict[str, str] = {}
        self.grid: dict[str, str] = {}

    def shape(self, roles: Roles) -> Shape:
        row, column = self._fixed(roles.row), self._fixed(roles.column)
        if not self._flat(row, column, len(roles.sizes) == 1):
            if _blocks(row.atoms) & _blocks(column.atoms):
                raise _UnclearError
            self._dimension(row, "N" if len(roles.sizes) == 1 else "M")
            self._dimension(column, "N")
        for builtin, found in (("threadIdx", self.block), ("blockIdx", self.grid)):
            used = set(re.findall(rf"\b{builtin}\s*\.\s*([xyz])\b", self.code))
            if used - found.keys():
                raise _UnclearError
        if not self.block and not self.grid:
            raise _UnclearError
        return Shape(_axes(self.block), _axes(self.grid))

    def _fixed(self, poly: Poly) -> Poly:
        for axis in "xyz":
            poly = poly.substitute(f"blockDim.{axis}", self.free)
        return poly

    def _value(self, poly: Poly) -> int:
        def value(atom: str) -> int:
            if atom == "TILE_SIZE":
                return self.tile
            if atom not in self.body.quotients:
                raise _UnclearError
            sign, left, right = self.body.quotients[atom]
            by = self._value(right)
            if by == 0:
                raise _UnclearError
            return self._value(left) // by if sign == "/" else self._value(left) % by

        return poly.evaluate(value)

    def _is_constant(self, atom: str) -> bool:
        deep = self.body.deep_atoms(Poly.of(atom))
        return deep - self.body.quotients.keys() <= {"TILE_SIZE"}

    def _flat(self, row: Poly, column: Poly, square: bool) -> bool:
        """A thread for each element, numbered through: row = i / N, column = i % N."""
        atoms = [a for a in row.atoms if self.body.quotients.get(a, ("",))[0] == "/"]
        if len(atoms) != 1 or row != Poly.of(atoms[0]):
            return False
        _, left, _ = self.body.quotients[atoms[0]]
        left = self._fixed(left)
        stride = left.without("blockIdx.x")
        if left != stride * Poly.of("blockIdx.x") + Poly.of("threadIdx.x"):
            return False
        if stride.number is None and stride != self.free:
            return False
        self.block["x"] = str(stride)
        self.grid["x"] = f"ceil_div({'N * N' if square else 'M * N'}, {stride})"
        return True

    def _dimension(self, place: Poly, extent: str) -> None:
        moving = [a for a in place.atoms if not self._is_constant(a) and not a.startswith("?")]
        moving = [a for a in moving if not _is_grid_stride(place.without(a) + Poly.of(a))]
        factors = {atom: place.without(atom) for atom in moving}
        values = {atom: self._value(factor) for atom, factor in factors.items()}
        for atom, factor in factors.items():
            if values[atom] <= 0:
                raise _UnclearError
            if atom.startswith("blockIdx."):
                self._set(self.grid, atom[-1], _ceil(extent, factor))
                continue
            axis, divisor = self._thread_axis(atom)
            if axis:
                larger = [other for other in factors if values[other] > values[atom]]
                above = min(larger, key=lambda o: (values[o], bool(factors[o].atoms)), default=None)
                count = _ceil(extent, factor) if above is None else _over(factors[above], factor)
                text = count if divisor == 1 else _times(count, divisor)
                self._set(self.block, axis, text)

    def _thread_axis(self, atom: str) -> tuple[str, int]:
        """The axis of threads that an atom counts, and how many of them make one step."""
        divisor = 1
        while atom in self.body.quotients:
            sign, left, right = self.body.quotients[atom]
            if sign == "%":
                return "", 1
            step = right.number
            if step is None or len(left.terms) != 1 or next(iter(left.terms.values())) != 1:
                return self._tiled_axis(left, right)
            divisor *= step
            atom = next(iter(left.atoms), "")
        return (atom[-1], divisor) if atom.startswith("threadIdx.") else ("", 1)

    def _tiled_axis(self, left: Poly, right: Poly) -> tuple[str, int]:
        """threadIdx.x / TILE_SIZE: rows of a tile, TILE_SIZE of them in all."""
        if left == Poly.of("threadIdx.x") and right == Poly.of("TILE_SIZE"):
            self._set(self.block, "x", "TILE_SIZE * TILE_SIZE")
            return "", 1
        raise _UnclearError

    def _set(self, found: dict[str, str], axis: str, text: str) -> None:
        if axis not in "xyz" or found.get(axis, text) != text:
            raise _UnclearError
        found[axis] = text


def _is_grid_stride(factor: Poly) -> bool:
    return any(atom.startswith("gridDim.") for atom in factor.atoms)


def _blocks(atoms: set[str]) -> set[str]:
    return {axis for atom in atoms for axis in re.findall(r"blockIdx\.\w", atom)}


def _axes(found: dict[str, str]) -> tuple[str, ...]:
    count = max(("xyz".index(axis) + 1 for axis in found), default=1)
    return tuple(found.get(axis, "1") for axis in "xyz"[:count])


def _ceil(extent: str, by: Poly) -> str:
    return extent if by == Poly.of(1) else f"ceil_div({extent}, {by})"


def _over(above: Poly, factor: Poly) -> str:
    exact = above.divided(factor)
    return str(exact) if exact is not None else f"({above}) // ({factor})"


def _times(count: str, by: int) -> str:
    return str(int(count) * by) if count.isdigit() else f"({count}) * {by}"
