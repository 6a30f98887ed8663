"""Bytes of dynamic shared memory that a kernel needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.infer.algebra import Poly
from mmbench.infer.body import BYTES, Body
from mmbench.infer.extents import extents
from mmbench.infer.syntax import Source, declared, text, walk, words


@dataclass(frozen=True)
class Dynamic:
    """The array of a kernel's dynamic shared memory."""

    name: str
    element_bytes: int
    types: Mapping[str, str] = field(default_factory=dict)  # names of the file's own types

    def bytes_of(self, kind: str) -> int:
        """Bytes of an element of that type; 0 where it is not known."""
        return BYTES.get(self.types.get(kind, kind), 0)


def find_dynamic(source: Source, needed: set[str], types: dict[str, str]) -> Dynamic | None:
    for node in walk(source.root):
        if node.type == "declaration" and {"extern", "__shared__"} <= words(node):
            for declarator in node.children_by_field_name("declarator"):
                kind = text(node.child_by_field_name("type"))
                name = declared(declarator)
                sized = declarator.child_by_field_name("size") is not None  # nvcc: a plain array
                if name in needed and not sized:
                    return Dynamic(name, BYTES.get(types.get(kind, kind), 0), types)
    return None


def dynamic_bytes(body: Body, dynamic: Dynamic, block: Sequence[str] = ()) -> str | None:
    """Arrays of one size laid end to end, as ``a = s, b = s + T * T`` says; None if unclear.

    ``block`` is the one that a user gives; else its sides are the tile.
    """
    offsets: list[Poly] = []
    units: set[int] = set()
    for variables in body.variables.values():
        for variable in variables:
            if variable.value is not None:
                place = body.poly(variable.value)
                if place.without(dynamic.name) == Poly.of(1):
                    offset = place + -Poly.of(dynamic.name)
                    if offset not in offsets:
                        offsets.append(offset)
                    if offset.terms:
                        units.add(_unit(body, variable.value, dynamic))
    sides = extents(block) or dict.fromkeys("xyz", Poly.of("TILE_SIZE"))
    for axis, side in sides.items():
        offsets = [offset.substitute(f"blockDim.{axis}", side) for offset in offsets]
    moved = [offset for offset in offsets if offset.terms]
    known = {"TILE_SIZE"}.union(*(side.atoms for side in sides.values()))
    if not moved or any(o.atoms - known for o in moved) or len(units) != 1 or 0 in units:
        return None
    size = min(moved, key=lambda offset: offset.evaluate(lambda _: 16))
    expected = [size * Poly.of(i + 1) for i in range(len(moved))]
    if any(offset not in expected for offset in moved):
        return None
    total = size * Poly.of((len(moved) + 1) * units.pop())
    return str(total)


def _unit(body: Body, value: Node, dynamic: Dynamic) -> int:
    """The bytes in which a pointer counts that is ``value``: those of what it starts from."""
    for node in walk(value):
        if node.type != "identifier":
            continue
        if text(node) == dynamic.name:
            return dynamic.element_bytes
        variable = body.find(text(node), node.start_byte)
        inner = variable.value if variable is not None else None
        if inner is not None and dynamic.name in body.poly(inner).atoms:
            declarator = inner.parent
            declaration = declarator.parent if declarator is not None else None
            kind = text(declaration.child_by_field_name("type")) if declaration else ""
            return _unit(body, inner, dynamic) if kind == "auto" else dynamic.bytes_of(kind)
    return 0


def capacity(body: Body) -> int | None:
    """Elements of the smallest shared row in which each thread of any block has a place of its own.

    Such as ``s[threadIdx.y * blockDim.x + threadIdx.x]``: a larger block would overrun it.
    """
    sizes: dict[str, int] = {}
    found: list[int] = []
    for node in walk(body.function):
        if node.type == "declaration" and "__shared__" in words(node):
            for row in (n for n in walk(node) if n.type == "array_declarator"):
                inner = row.child_by_field_name("declarator")
                size = body.poly(row.child_by_field_name("size")).number
                if inner is not None and inner.type == "identifier" and size is not None:
                    sizes[text(inner)] = size
        elif node.type == "subscript_expression":
            name = text(node.child_by_field_name("argument"))
            place = body.poly(node.child_by_field_name("indices")).atoms if name in sizes else set()
            if {"threadIdx.x", "threadIdx.y", "blockDim.x"} <= place:
                found.append(sizes[name])
    return min(found, default=None)


def fixed_side(body: Body) -> int | None:
    """The n of shared arrays ``[n][n]`` whose extents are numbers, where all have the same."""
    sides = set()
    for node in walk(body.function):
        if node.type == "declaration" and "__shared__" in words(node):
            for outer in walk(node):
                inner = outer.child_by_field_name("declarator")
                both = (outer.type, inner.type if inner is not None else "")
                if inner is not None and both == ("array_declarator", "array_declarator"):
                    sides.add(body.poly(inner.child_by_field_name("size")).number)
    return sides.pop() if len(sides) == 1 else None
