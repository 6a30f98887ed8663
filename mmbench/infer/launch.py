"""The block and the grid: from the place in C at which each thread works, else from the host code.

A row such as ``blockIdx.y * 64 + threadIdx.y * 4 + i`` is a number in mixed radix: the threads
of the y axis are 64 / 4, and the grid has ceil(M / 64) blocks in y.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.extents import extents, sampled
from mmbench.infer.roles import Roles
from mmbench.infer.syntax import children, walk

LINEAR_BLOCK = 256
PARAMETER = "TILE_SIZE"
GUESSED = ", a guess: give the launch with --block and --grid"


@dataclass(frozen=True)
class Shape:
    """Expressions of a header for the block and the grid, x first."""

    block: tuple[str, ...]
    grid: tuple[str, ...]
    assumed: bool = False  # that there is one block along z

    @property
    def complete(self) -> bool:
        return bool(self.block and self.grid)

    def over(self, other: Shape) -> Shape:
        """This shape, with the other's block or grid where it has none."""
        assumed = self.assumed or other.assumed
        return Shape(self.block or other.block, self.grid or other.grid, assumed)


_NOTHING = Shape((), ())


class _UnclearError(Exception):
    """The place of a thread in C does not tell the launch."""


@dataclass(frozen=True)
class Sample:
    """Values to compare expressions at: the tile, and blocks whose size is free."""

    tile: int = 32
    linear: int = LINEAR_BLOCK
    square: int | None = None  # the side of a block that the shared arrays fix
    block: tuple[str, ...] = ()  # the block that a user gives


def derive(body: Body, roles: Roles, code: str, sample: Sample) -> Shape | None:
    """The launch that covers C once; None where the kernel alone does not tell it."""
    two_dimensional = len(set(re.findall(r"\bthreadIdx\s*\.\s*([xyz])\b", code))) > 1
    free = Poly.of("TILE_SIZE" if sample.square is None else sample.square)
    free = free if two_dimensional else Poly.of(sample.linear)
    try:
        return _Derivation(body, free, code, sample).shape(roles)
    except _UnclearError:
        return None


def usual_shapes(code: str, sample: Sample, tile: str, known: Shape = _NOTHING) -> list[Shape]:
    """What kernels of this kind are usually launched with, where nothing tells more.

    Where the file has no tile of its own (``tile`` is empty), the numbers in its code are tried:
    what is swept must be what is compiled. ``known`` is the part that is certain.
    """
    following = _following(code, sample.block) if not known.grid else []
    sides = [PARAMETER] if tile else _sides(code, sample)
    two_dimensional = bool(re.search(r"\bthreadIdx\s*\.\s*y\b", code))
    grid_axes = set(re.findall(r"\bblockIdx\s*\.\s*([xyz])\b", code))
    found = []
    for side in sides:
        columns, rows = f"ceil_div(N, {side})", f"ceil_div(M, {side})"
        blocks: list[tuple[str, ...]] = [(side, side)]
        if not two_dimensional:
            blocks = [(_square(side),), (side,)]
        grids: list[tuple[str, ...]] = [(columns, rows), (rows, columns)]
        if known.grid:
            grids = [known.grid]
            blocks = [(side,), *blocks] if not two_dimensional else blocks
        elif grid_axes == {"x"}:
            grids = [(f"{columns} * {rows}",), (f"ceil_div(M * N, {sample.linear})",)]
        found += [Shape(block, grid) for block in blocks for grid in grids]
    return list(dict.fromkeys(following + found))


def _following(code: str, block: tuple[str, ...]) -> list[Shape]:
    """Grids of a thread for each element, where a kernel asks for the block that a user gives."""
    if not block or not re.search(r"\bblockDim\b", code):
        return []
    if len(block) == 1:
        return [Shape(block, (f"ceil_div(M * N, {block[0]})",))]
    x, y, *_ = block
    return [
        Shape(block, (f"ceil_div(N, {x})", f"ceil_div(M, {y})")),
        Shape(block, (f"ceil_div(M, {x})", f"ceil_div(N, {y})")),
    ]


def follow(grid: tuple[str, ...], old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """A grid in which ``ceil_div(N, side)`` has the new block's side where it has the old one's.

    A block of one axis is counted through, or has its one side.
    """
    found = []
    for axis, count in enumerate(grid):
        side, by = (block[axis] if axis < len(block) else "1" for block in (old, new))
        end = f", {side})"
        fits = side != "1" and count.startswith("ceil_div(") and count.endswith(end)
        found.append(f"{count.removesuffix(end)}, {by})" if fits else count)
    return tuple(found)


def _sides(code: str, sample: Sample) -> list[str]:
    """The usual edges of a tile that a code's numbers name, the largest first."""
    if sample.square is not None:
        return [str(sample.square)]
    named = [side for side in (32, 16, 64, 8) if re.search(rf"\b{side}[uU]?\b", code)]
    return [str(side) for side in named or (32, 16, 8)]


def _square(side: str) -> str:
    return str(int(side) ** 2) if side.isdigit() else f"{side} * {side}"


def launch_bound(body: Body) -> int | None:
    """The threads of a block that ``__launch_bounds__`` allows, where that is a number."""
    for node in walk(body.function):
        if node.type == "launch_bounds":
            return body.poly(next(iter(children(node)), None)).number
    return None


class _Derivation:
    def __init__(self, body: Body, free: Poly, code: str, sample: Sample) -> None:
        self.tile = sample.tile
        self.body = body
        self.given = extents(sample.block)
        self.extents = self.given or dict.fromkeys("xyz", free)
        self.own = {atom for extent in self.given.values() for atom in extent.atoms}
        self.code = code
        self.block: dict[str, str] = {}
        self.grid: dict[str, str] = {}
        self.shared: set[str] = set()  # axes of the grid that hold rows and columns

    def shape(self, roles: Roles) -> Shape:
        row, column = self._fixed(roles.row), self._fixed(roles.column)
        square = len({"M", "N", "K"} & set(roles.sizes.values())) < 2
        if not self._flat(row, column, square):
            self._share_blocks(row, column)
            self._dimension(row, "N" if square else "M")
            self._dimension(column, "N")
        assumed = False
        for builtin, found in (("blockIdx", self.grid), ("threadIdx", self.block)):
            used = set(re.findall(rf"\b{builtin}\s*\.\s*([xyz])\b", self.code))
            if used - found.keys() == {"z"} and builtin == "blockIdx":
                found["z"], assumed = "1", True  # one matrix of a batch
            elif self.given and builtin == "threadIdx":
                return Shape((), _axes(self.grid), assumed)
            elif used - found.keys() and builtin == "threadIdx" and not found:
                return Shape((), _axes(self.grid))
            elif used - found.keys():
                raise _UnclearError
        if not self.block and not self.grid:
            raise _UnclearError
        return Shape(_axes(self.block), _axes(self.grid), assumed)

    def _fixed(self, poly: Poly) -> Poly:
        for axis, extent in self.extents.items():
            poly = poly.substitute(f"blockDim.{axis}", extent)
        return poly

    def _value(self, poly: Poly) -> int:
        def value(atom: str) -> int:
            if atom == "TILE_SIZE":
                return self.tile
            if atom in self.own and (size := sampled(atom, self.tile)) is not None:
                return size
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
        return deep - self.body.quotients.keys() <= {"TILE_SIZE", *self.own}

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
        if stride.number is None and stride != self.extents["x"]:
            return False
        self.block["x"] = str(stride)
        self.grid["x"] = f"ceil_div({'N * N' if square else 'M * N'}, {stride})"
        return True

    def _share_blocks(self, row: Poly, column: Poly) -> None:
        """Blocks of one axis that are numbered through: row = b / n, column = b % n."""
        for axis in _blocks(row.atoms) & _blocks(column.atoms):
            signs = {self.body.quotients[a][0] for a in row.atoms | column.atoms
                     if a in self.body.quotients and axis in a}  # fmt: skip
            if signs != {"/", "%"}:
                raise _UnclearError
            self.shared.add(axis[-1])

    def _dimension(self, place: Poly, extent: str) -> None:
        moving = [a for a in place.atoms if not self._is_constant(a) and not a.startswith("?")]
        moving = [a for a in moving if not _is_grid_stride(place.without(a) + Poly.of(a))]
        factors = {atom: place.without(atom) for atom in moving}
        values = {atom: self._value(factor) for atom, factor in factors.items()}
        for atom, factor in factors.items():
            if values[atom] <= 0:
                raise _UnclearError
            axes = _blocks({atom})
            if atom.startswith("blockIdx.") or axes & {f"blockIdx.{a}" for a in self.shared}:
                self._blocks_of(next(iter(axes))[-1], _ceil(extent, factor))
                continue
            axis, divisor = ("", 1) if self.given else self._thread_axis(atom)
            if axis:
                larger = [other for other in factors if values[other] > values[atom]]
                above = min(larger, key=lambda o: (values[o], bool(factors[o].atoms)), default=None)
                count = _ceil(extent, factor) if above is None else _over(factors[above], factor)
                text = count if divisor == 1 else _times(count, divisor)
                self._set(self.block, axis, text)

    def _blocks_of(self, axis: str, count: str) -> None:
        before = self.grid.get(axis)
        if axis in self.shared and before is not None:
            self.shared.discard(axis)
            self.grid[axis] = f"{count} * {before}"
        else:
            self._set(self.grid, axis, count)

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
    count = max(("xyz".index(axis) + 1 for axis in found if found[axis] != "1"), default=1)
    return tuple(found.get(axis, "1") for axis in "xyz"[:count])


def _ceil(extent: str, by: Poly) -> str:
    return extent if by == Poly.of(1) else f"ceil_div({extent}, {by})"


def _over(above: Poly, factor: Poly) -> str:
    exact = above.divided(factor)
    return str(exact) if exact is not None else f"({above}) // ({factor})"


def _times(count: str, by: int) -> str:
    return str(int(count) * by) if count.isdigit() else f"({count}) * {by}"
