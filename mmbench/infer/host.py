"""What a file's own host code says of a kernel: template arguments, block, grid, shared bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from mmbench.expressions import Expression, ExpressionError
from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.launch_calls import HostLaunch, function_of, launches
from mmbench.infer.syntax import (
    Source,
    children,
    expand,
    parse_tree,
    text,
    walk,
)  # fmt: skip


def find_launch(root: Node, kernel: str) -> HostLaunch | None:
    """The first launch of the kernel in a text."""
    return next(launches(root, kernel), None)


def template_arguments(launch: HostLaunch) -> tuple[str, ...]:
    """What a launch gives for the kernel's template parameters."""
    for inner in walk(launch.called):
        if inner.type == "template_function":
            listed = children(inner.child_by_field_name("arguments"))
            return tuple(_template_argument(launch.called, n) for n in listed)
    return ()


def instantiated(root: Node, name: str) -> Iterator[tuple[str, ...]]:
    """What explicit instantiations, ``template ... name<8, 32>(...);``, give."""
    for node in walk(root):
        if node.type == "template_instantiation":
            for inner in walk(node):
                called = text(inner.child_by_field_name("name"))
                if inner.type == "template_function" and called == name:
                    yield tuple(map(text, children(inner.child_by_field_name("arguments"))))


def _template_argument(call: Node, argument: Node) -> str:
    """Its text; the number where it is a constant of the function that launches."""
    function = function_of(call)
    if function is not None:
        body = Body(function, {})
        variable = body.find(text(argument), call.start_byte)
        if variable is not None and variable.value is not None:
            if text(variable.value) in ("true", "false"):
                return text(variable.value)
            value = body.poly(variable.value).number
            return text(argument) if value is None else str(value)
    return text(argument)


@dataclass(frozen=True)
class Translator:
    """Turns host expressions into those of a header."""

    function: Node
    body: Body
    sizes: dict[str, str]  # the host's names of the sizes -> M, N, K

    def dims(self, nodes: Sequence[Node]) -> tuple[str, ...] | None:
        """The axes of ``16``, ``dim3(x, y)`` or a dim3 variable, or of one node for each."""
        node, parts = nodes[0], list(nodes)
        if len(nodes) > 1:
            pass
        elif node.type == "identifier":
            declared = self._dim3(text(node))
            if declared is not None:
                parts = declared
        elif node.type == "call_expression" and text(node).startswith("dim3"):
            parts = children(node.child_by_field_name("arguments"))
        elif node.type in ("initializer_list", "compound_literal_expression"):
            parts = children(children(node)[-1] if node.type[0] == "c" else node)
        axes = [self.expression(part) for part in parts]
        found = tuple(axis for axis in axes if axis is not None)
        if not found or len(found) < len(parts):
            return None
        while len(found) > 1 and found[-1] == "1":
            found = found[:-1]
        return found

    def _dim3(self, name: str) -> list[Node] | None:
        for node in walk(self.function):
            if node.type != "declaration" or text(node.child_by_field_name("type")) != "dim3":
                continue
            for declarator in node.children_by_field_name("declarator"):
                inner = declarator.child_by_field_name("declarator")
                if text(inner) != name:
                    continue
                # ``dim3 b(x, y)`` reads as the prototype of a function with types x and y
                value = declarator.child_by_field_name("value")
                value = value or declarator.child_by_field_name("parameters")
                if value is not None and value.type == "call_expression":
                    value = value.child_by_field_name("arguments")
                return children(value)
        return None

    def expression(self, node: Node) -> str | None:
        """As a header's expression; None where it uses what a header does not know."""
        found = self._text(node, 6)
        try:
            if found is None or Expression(found).names - {"M", "N", "K", "TILE_SIZE"}:
                return None
        except ExpressionError:
            return None
        whole = found[0] == "(" and _closes_last(found)
        return found[1:-1] if whole else found

    def _text(self, node: Node | None, depth: int) -> str | None:
        if node is None:
            return None
        match node.type:
            case "number_literal":
                found: str | None = re.sub(r"(?:\.0*)?[uUlLfF]*$", "", text(node))
            case "parenthesized_expression":
                found = self._text(children(node)[0], depth)
            case "cast_expression":
                found = self._text(node.child_by_field_name("value"), depth)
            case "sizeof_expression":
                found = {"float": "4", "double": "8"}.get(text(node)[6:].strip(" ()"))
            case "binary_expression":
                found = self._binary(node, depth)
            case "parameter_declaration":
                found = self._text(node.child_by_field_name("type"), depth)
            case "identifier" | "field_expression" | "type_identifier":
                found = self._name(node, depth)
            case "call_expression":
                found = self._call(node, depth)
            case _:
                found = None
        return found

    def _call(self, node: Node, depth: int) -> str | None:
        """``ceil_div(a, b)`` by any of its names, ``ceil(a / b)``, and casts."""
        name = text(node.child_by_field_name("function")).lower()
        parts = [self._text(n, depth) for n in children(node.child_by_field_name("arguments"))]
        if None in parts:
            return None
        if re.search(r"ceil_?div|div_?up|cdiv|div_?ceil|ceil_?of", name) and len(parts) == 2:
            return f"ceil_div({parts[0]}, {parts[1]})"
        if name not in ("ceil", "ceilf", "std::ceil", "int", "unsigned") or len(parts) != 1:
            return None
        ceiled = re.fullmatch(r"\((.+) // (\w+)\)", parts[0] or "")
        return f"ceil_div({ceiled[1]}, {ceiled[2]})" if ceiled and "ceil" in name else parts[0]

    def _binary(self, node: Node, depth: int) -> str | None:
        left, right = (self._text(n, depth) for n in children(node)[:2])
        sign = text(node.child_by_field_name("operator"))
        sign = {"/": "//"}.get(sign, sign)
        if left is None or right is None or sign not in ("+", "-", "*", "//", "%"):
            return None
        if sign == "//" and (over := _rounded_up(left, right)):
            return f"ceil_div({over}, {right})"
        return f"({left} {sign} {right})"

    def _name(self, node: Node, depth: int) -> str | None:
        name = text(node)
        if name in self.sizes:
            return self.sizes[name]
        owner, _, axis = name.partition(".")
        if axis in ("x", "y", "z"):
            parts = self._dim3(owner) or []
            index = "xyz".index(axis)
            found = self._text(parts[index], depth - 1) if index < len(parts) else "1"
            return found if parts else None
        variable = self.body.find(name, node.start_byte)
        if variable is not None and variable.value is not None and depth > 0:
            return self._text(variable.value, depth - 1)
        if name in self.body.constants:
            return str(self.body.constants[name])
        return name if name == "TILE_SIZE" else None


def _rounded_up(left: str, right: str) -> str | None:
    """The a of ``(a + b - 1) // b``."""
    found = re.fullmatch(r"\(\((.+) \+ (\w+)\) - 1\)", left)
    if found and found[2] == right:
        return found[1]
    found = re.fullmatch(r"\((.+) \+ (\d+)\)", left)
    if found and right.isdigit() and int(found[2]) + 1 == int(right):
        return found[1]
    found = re.fullmatch(r"\((.+) \+ \((\w+) - 1\)\)", left)
    return found[1] if found and found[2] == right else None


def _closes_last(text: str) -> bool:
    """Whether the parenthesis that opens the text is closed by its last character."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def translator(
    source: Source,
    kernel: str,
    known: tuple[dict[str, Poly], frozenset[str]],
    roles: dict[int, str],
) -> tuple[HostLaunch, Translator] | None:
    """The file's launch of the kernel, macros expanded, and how to read it.

    ``known`` are the file's constants and the macros to keep; ``roles`` gives M, N or K for the
    places of the sizes in the argument list.
    """
    constants, keep = known
    written = find_launch(source.root, kernel)
    if written is None or written.function is None:
        return None
    code = expand(source, text(written.function), keep)
    launch = find_launch(parse_tree(code.encode()), kernel)
    if launch is None or launch.function is None:
        return None
    sizes = {
        text(node): roles[i]
        for i, node in enumerate(launch.arguments)
        if i in roles and node.type in ("identifier", "field_expression")
    }
    return launch, Translator(launch.function, Body(launch.function, constants), sizes)
