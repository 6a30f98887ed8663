"""The block that a user gives, in a kernel's index arithmetic: blockDim has its values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from mmbench.expressions import Expression, ExpressionError
from mmbench.infer.algebra import Poly

_TILE = "TILE_SIZE"
_LARGE = 4096  # of M, N and K, where the text of a block has them


def extents(block: Sequence[str]) -> dict[str, Poly]:
    """The value of blockDim on each axis; empty where no block is given.

    A text with names is an atom of its own, so that it stands in the grid as it was written.
    """
    if not block:
        return {}
    return {axis: _extent(part) for axis, part in zip_longest("xyz", block, fillvalue="1")}


def sampled(text: str, tile: int) -> int | None:
    """The value of an extent's text at one tile and at large sizes; None where it has none."""
    names = dict.fromkeys("MNK", _LARGE) | {_TILE: tile}
    try:
        return Expression(text).value(names)
    except ExpressionError:
        return None


def _extent(text: str) -> Poly:
    value = None if Expression(text).names else sampled(text, 1)
    if value is not None:
        return Poly.of(value)
    return Poly.of(text if text == _TILE else f"({text})")
