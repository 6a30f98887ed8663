"""Notes which variables a piece of a kernel names, and which it may change.

A variable that is changed, or of which the address is known, cannot be computed anew or shared
by the block, so every doubt here counts as a change.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from tree_sitter import Node

from mmbench.runners.regions.parse import (
    TYPES,
    Cuda,
    Unsupported,
    called,
    children,
    declared_name,
    text,
    walk,
)

if TYPE_CHECKING:
    from mmbench.runners.regions.plan import Loop


class Role(enum.Enum):
    """Where a variable's value lives."""

    UNIFORM = "the same in all threads, so one C++ variable serves the block"
    REMAT = "never changed and made of indices, so it is computed anew wherever needed"
    LOCAL = "used in a single group of statements, so it stays where it was declared"
    LANE = "crosses from group to group, so it lives in an array with a slot per thread"
    SHARED = "shared memory"


@dataclass(eq=False)
class Expr:
    """A piece of the kernel with the variables that its names stand for."""

    node: Node
    names: dict[str, Var] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)


@dataclass(eq=False)
class Var:
    """A parameter or a variable declared where the block, not a single lane, is in control."""

    name: str
    number: int
    specifiers: str
    declarator: Node
    init: Node | None = None
    value: Expr | None = None
    parameter: bool = False
    shared: bool = False
    dims: int = 0
    pointer: bool = False
    lane_changed: bool = False
    stepped: bool = False
    escapes: bool = False
    changes: list[Expr] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    inside: tuple[Loop, ...] = ()
    role: Role = Role.UNIFORM
    groups: set[int] = field(default_factory=set)
    home: int = -1

    @property
    def base_type(self) -> str:
        """The declared type without const, for a variable that is no pointer or array."""
        return " ".join(w for w in self.specifiers.split() if w not in ("const", "constexpr"))

    @property
    def scalar(self) -> bool:
        """Whether this is a plain number."""
        words = set(self.base_type.split())
        return not self.dims and not self.pointer and words <= TYPES - {"half", "float2", "float4"}


class Names:
    """The variables in scope while a kernel is read from top to bottom."""

    def __init__(self, cuda: Cuda) -> None:
        self.cuda = cuda
        self.scopes: list[dict[str, Var]] = [{}]
        self.variables: list[Var] = []
        self.free: set[str] = set()
        self.loops: tuple[Loop, ...] = ()

    def resolve(self, name: str) -> Var | None:
        """The variable that a name stands for at this point."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare(self, node: Node, declarator: Node, init: Node | None) -> Var:
        """Enter a variable into the present scope."""
        name = text(declared_name(declarator))
        if self.resolve(name) is not None or name in self.free:
            raise Unsupported(f"{name} is declared twice or after another use of the name")
        if name in self.cuda.macros:
            raise Unsupported(f"macro {name} is the name of a variable")
        end = node.children_by_field_name("declarator")[0].start_byte
        specifiers = self.cuda.code[node.start_byte : end].decode()
        var = Var(name, len(self.variables), specifiers, declarator, init, inside=self.loops)
        kinds = [n.type for n in walk(declarator)]
        var.dims = kinds.count("array_declarator")
        var.pointer = "pointer_declarator" in kinds
        if "function_declarator" in kinds or ("type_qualifier" in kinds and not var.pointer):
            raise Unsupported(f"cannot read the declaration of {name}")
        self.variables.append(var)
        self.scopes[-1][name] = var
        return var

    def expression(self, node: Node, skip: str = "") -> Expr:
        """Note which variables a piece of code names and which it may change."""
        expr = Expr(node)
        local = {skip} | {
            text(declared_name(d))
            for n in walk(node)
            if n.type == "declaration"
            for d in n.children_by_field_name("declarator")
        }
        for leaf in walk(node):
            parent = leaf.parent
            if leaf.type == "identifier" and text(leaf) != skip:
                if parent is not None and parent.type == "qualified_identifier":
                    continue
                self._name(text(leaf), expr, local)
                self._check_decay(leaf)
        for inner in walk(node):
            self._changes(inner)
        return expr

    def _name(self, name: str, expr: Expr, local: set[str]) -> None:
        var = self.resolve(name)
        if var is not None:
            expr.names[name] = var
        elif name not in local or name in self.cuda.macros:
            self.cuda.check_name(name)
            self.free.add(name)
            expr.others.add(name)
        tokens = self.cuda.expansion(name)
        for before, token in pairwise(["", *tokens]):
            member = before in (".", "->")
            if re.match(r"[A-Za-z_]", token) and token not in TYPES | {name} and not member:
                self._name(token, expr, local)

    def _check_decay(self, leaf: Node) -> None:
        """An array named without all its indices hands out its address."""
        var, node, depth = self.resolve(text(leaf)), leaf, 0
        while node.parent is not None and node.parent.type == "subscript_expression":
            if node.parent.child_by_field_name("argument") != node:
                break
            node, depth = node.parent, depth + 1
        if var is not None and not var.parameter and depth < var.dims:
            var.escapes = var.lane_changed = True

    def _changes(self, node: Node) -> None:
        if node.type == "assignment_expression":
            self._change(node.child_by_field_name("left"))
        elif node.type == "update_expression":
            self._change(node.child_by_field_name("argument"))
        elif node.type == "pointer_expression" and text(node).startswith("&"):
            self._change(node.child_by_field_name("argument"), escapes=True)
        elif node.type == "call_expression":
            name = called(node, self.cuda)
            if self.resolve(name) is not None:
                raise Unsupported(f"calls the variable {name}")
            if self.cuda.check_call(name):
                for argument in children(node.child_by_field_name("arguments") or node):
                    self._change(argument, escapes=True)

    def _change(self, node: Node | None, escapes: bool = False) -> None:
        """Mark the variables that a store into this place changes."""
        if node is None:
            raise Unsupported("an assignment that is not understood")
        if self._behind_pointer(node):
            return
        inner = node.child_by_field_name("argument")
        if node.type in ("subscript_expression", "field_expression"):
            self._change(inner, escapes)
        elif node.type == "parenthesized_expression" and len(children(node)) == 1:
            self._change(children(node)[0], escapes)
        else:
            for leaf in walk(node):
                if leaf.type == "identifier":
                    self._mark(text(leaf), escapes)

    def _behind_pointer(self, node: Node) -> bool:
        """Whether a place is in memory that a pointer leads to, so no variable changes."""
        inner = node.child_by_field_name("argument")
        if node.type == "subscript_expression" and inner is not None:
            var = self.resolve(text(inner)) if inner.type == "identifier" else None
            indexed = var is not None and var.pointer and not var.dims
            return indexed or inner.type == "call_expression"
        if node.type == "field_expression":
            return text(node.child_by_field_name("operator")) == "->"
        if node.type == "pointer_expression":
            return text(node).startswith("*")
        return node.type == "call_expression" and self._is_element(node)

    def _mark(self, name: str, escapes: bool) -> None:
        var = self.resolve(name)
        if var is not None:
            var.lane_changed = True
            var.escapes |= escapes
            return
        for token in self.cuda.expansion(name):
            if self.resolve(token) is not None:
                self._mark(token, escapes)

    def _is_element(self, call: Node) -> bool:
        """Whether a macro stands for one element behind a pointer: ``A[...]``."""
        macros = self.cuda.macros.get(called(call, self.cuda), [])
        arguments = children(call.child_by_field_name("arguments") or call)
        if len(macros) != 1 or macros[0].parameters is None:
            return False
        base, *rest = macros[0].tokens or [""]
        if base == "(" and rest[1:2] == [")"]:
            base, rest = rest[0], rest[2:]
        if base in macros[0].parameters:
            position = macros[0].parameters.index(base)
            base = text(arguments[position]) if position < len(arguments) else ""
        var = self.resolve(base)
        if var is None or not var.pointer or var.dims or rest[:1] != ["["]:
            return False
        depth = 0
        for position, token in enumerate(rest, 1):
            depth += (token == "[") - (token == "]")
            if depth == 0:
                return position == len(rest)
        return False
