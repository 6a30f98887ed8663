"""Proves which variables are uniform over the block and which are made of indices only.

All proofs start from the hopeful assumption and withdraw it until nothing changes, so a
variable keeps its role only if every one of its values has the property.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from mmbench.runners.regions.parse import (
    CASTS,
    ORDERED_CALLS,
    PURE_CALLS,
    TYPES,
    Cuda,
    Unsupported,
    called,
    children,
    text,
    words,
)
from mmbench.runners.regions.plan import (
    Branch,
    Decl,
    Guard,
    Item,
    Loop,
    Planner,
    Shared,
    Stmt,
)
from mmbench.runners.regions.uses import Expr, Role, Var

_PURE_NODES = words(
    "number_literal char_literal true false parenthesized_expression binary_expression "
    "unary_expression conditional_expression cast_expression sizeof_expression "
    "initializer_list argument_list"
)
_TYPE_NODES = words(
    "type_descriptor primitive_type type_identifier sized_type_specifier type_qualifier "
    "abstract_pointer_declarator template_argument_list"
)
_WIDE = frozenset(("int", "unsigned", "unsigned int", "uint", "size_t", "long", "long long"))


class Reopen(Exception):  # noqa: N818 - a signal to plan again
    """These loops (by position) are better kept as they are written."""

    def __init__(self, positions: set[int]) -> None:
        super().__init__()
        self.positions = positions


def every(items: list[Item]) -> Iterator[Item]:
    """All items of a tree, parents first."""
    for item in items:
        yield item
        if isinstance(item, Loop | Guard | Branch):
            yield from every(item.body)
        if isinstance(item, Branch) and item.otherwise:
            yield from every(item.otherwise)


class Roles:
    """Gives every variable of a plan its role, or raises."""

    def __init__(self, planner: Planner, items: list[Item]) -> None:
        self.cuda: Cuda = planner.cuda
        self.barriers = planner.barriers
        self.variables = planner.variables
        self.items = items
        self._uniform()
        self._rematerialised()
        self._check_control()
        self._groups()
        self._storage()
        self._check_opened()

    def _uniform(self) -> None:
        for var in self.variables:
            if var.shared:
                var.role = Role.SHARED
            elif var.lane_changed or var.dims or (var.escapes and not var.parameter):
                var.role = Role.LANE
        changed = True
        while changed:
            changed = False
            for var in self.variables:
                values = [*var.changes, *([var.value] if var.value else [])]
                if var.role is Role.UNIFORM and not all(self.uniform(e) for e in values):
                    var.role, changed = Role.LANE, True

    def _rematerialised(self) -> None:
        for var in self.variables:
            if (
                var.role is Role.LANE
                and not var.lane_changed
                and not var.changes
                and not var.dims
                and not var.parameter
                and var.value is not None
                and self.pure(var.value)
                and all(self._stable(d, var) for d in var.value.names.values())
            ):
                var.role = Role.REMAT

    @staticmethod
    def _stable(needed: Var, user: Var) -> bool:
        """Whether a variable keeps its value as long as ``user`` lives."""
        if needed.role is Role.UNIFORM:
            return not needed.stepped and all(loop in user.inside for loop in needed.loops)
        return needed.role in (Role.REMAT, Role.SHARED)

    def _check_control(self) -> None:
        late: set[int] = set()
        for item in every(self.items):
            if isinstance(item, Loop) and not all(self.uniform(e) for e in item.controls):
                if item.barrier:
                    raise Unsupported("a barrier in a loop whose trips may differ by thread")
                late.add(item.node.start_byte)
            elif isinstance(item, Branch) and item.condition and not self.uniform(item.condition):
                raise Unsupported("a barrier under a condition that may differ by thread")
            elif isinstance(item, Guard) and not (
                self.pure(item.condition)
                and all(
                    v.role is Role.REMAT or (v.role is Role.UNIFORM and not v.changes)
                    for v in item.condition.names.values()
                )
            ):
                node = item.condition.node.parent
                outer = node.parent if node is not None else None
                late.add(-1 if item.leave or outer is None else outer.start_byte)
        if late:
            raise Reopen(late)

    def _groups(self) -> None:
        self._count = 0
        for var in self.variables:
            if var.parameter and var.role is not Role.UNIFORM:
                var.home = 0
        self._group(self.items)

    def _group(self, items: list[Item]) -> None:
        self._count += 1
        for item in items:
            if isinstance(item, Decl):
                if item.var.role not in (Role.UNIFORM, Role.REMAT):
                    item.group = item.var.home = self._count
                    self._use(item.var.value, item.group)
            elif isinstance(item, Stmt) and not self.of_block(item):
                item.group = self._count
                self._use(item.expr, item.group)
            elif not isinstance(item, Shared):
                if isinstance(item, Loop | Guard | Branch):
                    self._group(item.body)
                if isinstance(item, Branch) and item.otherwise:
                    self._group(item.otherwise)
                self._count += 1

    @staticmethod
    def of_block(item: Stmt) -> bool:
        """Whether a statement is a step of the block and not of each lane."""
        return item.target is not None and item.target.role is Role.UNIFORM

    @staticmethod
    def _use(expr: Expr | None, group: int) -> None:
        for var in expr.names.values() if expr else ():
            var.groups.add(group)

    def _storage(self) -> None:
        for var in self.variables:
            if var.role is not Role.LANE:
                continue
            if var.parameter:
                once = not any(isinstance(i, Loop) for i in every(self.items))
                if once and len(var.groups) <= 1:
                    var.role = Role.LOCAL
            elif not var.escapes and var.groups <= {var.home}:
                var.role = Role.LOCAL
            if var.role is Role.LANE and "auto" in var.specifiers.split():
                raise Unsupported(f"the type of {var.name} is not written out")

    def _check_opened(self) -> None:
        """Open a loop only where what crosses its groups is plain numbers."""
        opened = {
            item.node.start_byte
            for item in every(self.items)
            if isinstance(item, Loop) and not item.barrier
        }
        crossing = [v for v in self.variables if v.role is Role.LANE and not v.scalar]
        if opened and crossing and not self.barriers:
            raise Reopen(opened)
        for item in every(self.items):
            if isinstance(item, Loop) and not item.barrier:
                inside = [e for e in every(item.body) if isinstance(e, Stmt | Decl)]
                exprs = [e.expr if isinstance(e, Stmt) else e.var.value for e in inside]
                used = {v for e in exprs if e for v in e.names.values()}
                if used & set(crossing) or any(self.ordered(e) for e in exprs if e):
                    raise Reopen({item.node.start_byte})

    # -- properties of expressions ----------------------------------------------------------

    def uniform(self, expr: Expr) -> bool:
        """Whether all threads of a block get the same value, without reading memory."""
        return (
            self.pure(expr)
            and "threadIdx" not in expr.others
            and all(v.role is Role.UNIFORM or v.role is Role.SHARED for v in expr.names.values())
        )

    def pure(self, expr: Expr) -> bool:
        """Whether the value is arithmetic on names only."""
        return not (expr.others & self.cuda.memory) and self._pure(expr.node, expr)

    def _pure(self, node: Node, expr: Expr) -> bool:
        special = {
            "identifier": self._pure_name,
            "field_expression": self._pure_field,
            "pointer_expression": self._pure_address,
            "call_expression": self._pure_call,
        }
        if node.type in special:
            return special[node.type](node, expr)
        inner = children(node)
        if node.type in ("initializer_list", "argument_list") and len(inner) != 1:
            return False
        # A step (++) is judged by the variable that it changes.
        leaf = node.type in _TYPE_NODES or node.type == "update_expression"
        return leaf or (node.type in _PURE_NODES and all(self._pure(c, expr) for c in inner))

    def _pure_name(self, node: Node, expr: Expr) -> bool:
        var = expr.names.get(text(node))
        if var is not None and var.shared and not var.dims:
            return False
        return not self.cuda.macro_reads_memory(text(node))

    @staticmethod
    def _pure_field(node: Node, _expr: Expr) -> bool:
        base = node.child_by_field_name("argument")
        operator = text(node.child_by_field_name("operator"))
        return base is not None and base.type == "identifier" and operator != "->"

    def _pure_address(self, node: Node, expr: Expr) -> bool:
        place = node.child_by_field_name("argument")
        if not text(node).startswith("&") or place is None or place.type != "subscript_expression":
            return False
        base = place.child_by_field_name("argument")
        indices = place.child_by_field_name("indices")
        if base is None or base.type != "identifier" or indices is None:
            return False
        var = expr.names.get(text(base))
        flat = text(base) in self.cuda.shared if var is None else var.dims == 1 or var.pointer
        return flat and all(self._pure(c, expr) for c in children(indices))

    def _pure_call(self, node: Node, expr: Expr) -> bool:
        name = called(node, self.cuda)
        arguments = node.child_by_field_name("arguments")
        harmless = name in PURE_CALLS | TYPES | CASTS or self._pure_macro(name)
        return (
            harmless
            and arguments is not None
            and all(self._pure(c, expr) for c in children(arguments))
        )

    def _pure_macro(self, name: str) -> bool:
        tokens = self.cuda.expansion(name) if name in self.cuda.macros else ["["]
        calls = [a for a, b in pairwise(tokens) if b == "(" and re.match(r"[A-Za-z_]", a)]
        known = PURE_CALLS | TYPES | set(self.cuda.macros)
        return set(calls) <= known and not self.cuda.macro_reads_memory(name)

    def ordered(self, expr: Expr) -> bool:
        """Whether code calls something whose order between lanes must not be a vector's."""
        return bool(expr.others & (ORDERED_CALLS | {"assert"} | self.cuda.ordered_helpers))

    # -- indices that grow by one from lane to lane -------------------------------------------

    def unit_step(self, var: Var) -> bool:
        """Whether an integer is a number shared by the row plus threadIdx.x, modulo 2**32."""
        return (
            var.role is Role.REMAT
            and var.value is not None
            and var.base_type in _WIDE
            and not var.pointer
            and self._unit(var.value.node, var.value)
        )

    def _unit(self, node: Node, expr: Expr) -> bool:
        if node.type == "parenthesized_expression":
            return self._unit(children(node)[0], expr)
        if node.type == "binary_expression":
            left, right = (node.child_by_field_name(n) for n in ("left", "right"))
            operator = text(node.child_by_field_name("operator"))
            if left is None or right is None:
                return False
            if operator == "+" and self._row(left, expr) and self._unit(right, expr):
                return True
            return operator in ("+", "-") and self._unit(left, expr) and self._row(right, expr)
        if node.type == "identifier" and text(node) in expr.names:
            return self.unit_step(expr.names[text(node)])
        return text(node) == "threadIdx.x"

    def _row(self, node: Node, expr: Expr) -> bool:
        """Whether a whole-number expression is the same for all lanes of a row."""
        if node.type in ("parenthesized_expression", "binary_expression"):
            return all(self._row(c, expr) for c in children(node)) and (
                text(node.child_by_field_name("operator")) in ("", "+", "-", "*", "/", "%")
            )
        if node.type == "number_literal":
            return re.fullmatch(r"(0[xX][\da-fA-F]+|\d+)[uUlL]*", text(node)) is not None
        if node.type == "field_expression":
            return (
                re.fullmatch(r"(block(Idx|Dim)|gridDim)\.[xyz]|threadIdx\.[yz]", text(node))
                is not None
            )
        return node.type == "identifier" and self._row_name(text(node), expr)

    def _row_name(self, name: str, expr: Expr) -> bool:
        var = expr.names.get(name)
        if var is None:
            return self._whole_constant(name)
        if var.pointer or var.dims or var.base_type not in _WIDE:
            return False
        if var.role is Role.REMAT and var.value is not None:
            return self._row(var.value.node, var.value)
        return var.role is Role.UNIFORM

    def _whole_constant(self, name: str) -> bool:
        tokens = self.cuda.expansion(name)
        whole = re.compile(r"\d+[uUlL]*|[-+*/%()]|[A-Z][A-Z0-9_]*")
        known = (
            name in self.cuda.macros
            or name in self.cuda.template_names
            or (name.isupper() and name not in self.cuda.constants)
        )
        return known and all(whole.fullmatch(t) for t in tokens)
