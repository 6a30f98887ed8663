"""What a kernel's body does with its pointers: each access as a polynomial, each store."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.infer.algebra import Poly
from mmbench.infer.syntax import children, declared, is_part, row_sizes, text, walk

_CASTS = {"static_cast", "reinterpret_cast", "const_cast", "__ldg"}
_TYPE = re.compile(r"(?:std::)?(?:u?int\d*(?:_t)?|long|short|size_t|ptrdiff_t|signed|unsigned)")
BYTES = {  # of a value of the types that kernels name
    "float": 4, "double": 8, "half": 2, "__half": 2, "int": 4, "int32_t": 4, "unsigned": 4,
    "unsigned int": 4, "uint32_t": 4, "long long": 8, "char": 1, "unsigned char": 1,
    "signed char": 1, "uint8_t": 1, "int8_t": 1, "float2": 8, "float4": 16, "double2": 16,
    "int4": 16, "uint4": 16,
}  # fmt: skip
_NUMBER = re.compile(r"(0[xX][\da-fA-F]+|\d+)[uUlLzZ]*")
_CHANGES = {"assignment_expression": "left", "update_expression": "argument"}
_LOOPS = ("for_statement", "while_statement", "do_statement")


@dataclass(frozen=True)
class Variable:
    """A declaration in force in a part of the text."""

    name: str
    scope: Node
    start: int
    value: Node | None
    parameter: bool = False


@dataclass
class Body:
    """The variables of a kernel, and the meaning of its expressions."""

    function: Node
    constants: dict[str, Poly]
    settled: dict[str, Poly] = field(default_factory=dict)  # parameters whose value is known
    variables: dict[str, list[Variable]] = field(default_factory=dict)
    quotients: dict[str, tuple[str, Poly, Poly]] = field(default_factory=dict)
    changes: dict[str, list[Node]] = field(default_factory=dict)  # assignments by their target
    rows: dict[str, list[Node]] = field(default_factory=dict)  # sizes of a parameter's rows
    _busy: set[tuple[str, int]] = field(default_factory=set)
    _known: dict[tuple[str, int], Poly] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in walk(self.function):
            if node.type == "parameter_declaration":
                for declarator in node.children_by_field_name("declarator"):
                    self._add(declared(declarator), self.function, node, None, True)
                    self.rows[declared(declarator)] = row_sizes(declarator)
            elif node.type == "declaration" and node.parent is not None:
                for declarator in node.children_by_field_name("declarator"):
                    value = declarator.child_by_field_name("value")
                    if value is not None and value.type in ("argument_list", "initializer_list"):
                        value = next(iter(children(value)), None)
                    extern = text(node).startswith("extern")
                    self._add(declared(declarator), node.parent, declarator, value, extern)
            elif node.type in _CHANGES:
                target = text(node.child_by_field_name(_CHANGES[node.type]))
                self.changes.setdefault(target, []).append(node)

    def _add(self, name: str, scope: Node, at: Node, value: Node | None, parameter: bool) -> None:
        variable = Variable(name, scope, at.start_byte, value, parameter)
        self.variables.setdefault(name, []).append(variable)

    def find(self, name: str, at: int) -> Variable | None:
        """The innermost declaration of the name that is in force at this place."""
        fitting = [
            v
            for v in self.variables.get(name, [])
            if v.start <= at and v.scope.start_byte <= at < v.scope.end_byte
        ]
        return max(fitting, key=lambda v: v.start, default=None)

    def poly(self, node: Node | None) -> Poly:
        """The value of an expression."""
        if node is None:
            return Poly.of("?")
        reader = _READERS.get(node.type)
        return reader(self, node) if reader is not None else Poly.of(f"?{text(node)}")

    def _number(self, node: Node) -> Poly:
        found = _NUMBER.fullmatch(text(node))
        return Poly.of(int(found.group(1), 0) if found else f"?{text(node)}")

    def _identifier(self, node: Node) -> Poly:
        return self._name(text(node), node.start_byte)

    def _qualified(self, node: Node) -> Poly:
        """``Config::TILE``: by its last name."""
        inner = node.child_by_field_name("name")
        return self.poly(inner) if inner is not None else Poly.of(f"?{text(node)}")

    def _inner(self, node: Node) -> Poly:
        return self.poly(next(iter(children(node)), None))

    def _cast(self, node: Node) -> Poly:
        return self.poly(node.child_by_field_name("value"))

    def _sizeof(self, node: Node) -> Poly:
        """``sizeof(double)``; a parser that knows no types takes that of others for a value's."""
        found = node.child_by_field_name("type") or node.child_by_field_name("value")
        size = BYTES.get(text(found).strip("() "))
        return Poly.of(f"?{text(node)}" if size is None else size)

    def _subscript(self, node: Node) -> Poly:
        argument, index = (node.child_by_field_name(part) for part in ("argument", "indices"))
        place = self.poly(index)
        inner, depth = argument, 0
        while inner is not None and inner.type == "subscript_expression":
            inner, depth = inner.child_by_field_name("argument"), depth + 1
        for size in self.rows.get(text(inner), ())[depth:]:
            place = place * self.poly(size)
        return self.poly(argument) + place

    def _field(self, node: Node) -> Poly:
        """``threadIdx.x``, also by a copy of threadIdx."""
        owner = text(node.child_by_field_name("argument"))
        variable = self.find(owner, node.start_byte)
        if variable is not None and text(variable.value).endswith("Idx"):
            owner = text(variable.value)
        return Poly.of(f"{owner}.{text(node.child_by_field_name('field'))}")

    def _name(self, name: str, at: int) -> Poly:
        variable = self.find(name, at)
        if variable is None:
            return self.constants.get(name, Poly.of(name))
        key = (name, variable.start)
        if key not in self._known:
            if key in self._busy:
                return Poly.of(f"?{name}")
            self._busy.add(key)
            self._known[key] = self._variable(variable)
            self._busy.discard(key)
        return self._known[key]

    def _variable(self, variable: Variable) -> Poly:
        """Where it begins, and its step times a new atom for the loop that moves it."""
        name = variable.name
        values = [] if variable.value is None else [self.poly(variable.value)]
        if variable.parameter:
            values = [self.settled.get(name, Poly.of(name))]
        moves = Poly()
        for node, in_loop in self._changes(variable):
            step = self._step(node, name)
            if step is None:
                values.append(self.poly(node.child_by_field_name("right")))
            elif in_loop:
                moves += step * Poly.of(f"~{name}{variable.start}")
            else:
                moves += step
        if not values or any(value != values[0] for value in values):
            return Poly.of(f"?{name}{variable.start}")
        return values[0] + moves

    def _changes(self, variable: Variable) -> Iterator[tuple[Node, bool]]:
        scope = variable.scope
        for node in self.changes.get(variable.name, ()):
            inside = scope.start_byte <= node.start_byte < scope.end_byte
            if not inside or self.find(variable.name, node.start_byte) != variable:
                continue
            above, looped = node.parent, False
            while above is not None and above.id != scope.id:
                looped |= above.type in _LOOPS
                above = above.parent
            yield node, looped or scope.type in _LOOPS

    def _step(self, node: Node, name: str) -> Poly | None:
        """What ``x += step`` and its like add; None for ``x = value``."""
        if node.type == "update_expression":
            return Poly.of(-1 if "--" in text(node) else 1)
        sign, right = text(node.child_by_field_name("operator")), node.child_by_field_name("right")
        if sign == "=" and (right is None or name not in {text(n) for n in walk(right)}):
            return None
        if sign == "=":
            return self.poly(right) + -Poly.of(f"?{name}")
        step = self.poly(right)
        return step if sign == "+=" else -step if sign == "-=" else Poly.of(f"?{text(node)}")

    def _unary(self, node: Node) -> Poly:
        value = self.poly(node.child_by_field_name("argument"))
        sign = text(node.child_by_field_name("operator"))
        if sign in ("+", "&", "*"):
            return value
        return -value if sign == "-" else Poly.of(f"?{text(node)}")

    def _binary(self, node: Node) -> Poly:
        left = self.poly(node.child_by_field_name("left"))
        right = self.poly(node.child_by_field_name("right"))
        sign, by = text(node.child_by_field_name("operator")), right.number
        if sign in ("+", "-"):
            return left + (right if sign == "+" else -right)
        if sign == "*":
            return left * right
        if sign in ("<<", ">>") and by is not None and 0 <= by < 63:
            power = Poly.of(1 << by)
            return left * power if sign == "<<" else self._quotient("/", left, power)
        if sign == "&" and by is not None and by & (by + 1) == 0:
            return self._quotient("%", left, Poly.of(by + 1))
        if sign in ("/", "%"):
            return self._quotient(sign, left, right)
        return Poly.of(f"?{text(node)}")

    def _quotient(self, sign: str, left: Poly, right: Poly) -> Poly:
        if left.number is not None and right.number:
            whole = operator.floordiv if sign == "/" else operator.mod
            return Poly.of(whole(left.number, right.number))
        exact = left.divided(right)
        if exact is not None and right.number != 0:
            return exact if sign == "/" else Poly()
        name = f"({_wrapped(left)} {'//' if sign == '/' else '%'} {_wrapped(right)})"
        self.quotients[name] = (sign, left, right)
        return Poly.of(name)

    def _call(self, node: Node) -> Poly:
        function = text(node.child_by_field_name("function")).partition("<")[0]
        arguments = children(node.child_by_field_name("arguments"))
        cast = function in _CASTS or _TYPE.fullmatch(function)
        cast = cast or re.fullmatch(r"\(\s*[\w:\s]+\)", function)
        if cast and len(arguments) == 1:
            return self.poly(arguments[0])
        if function in ("__mul24", "__umul24") and len(arguments) == 2:
            return self.poly(arguments[0]) * self.poly(arguments[1])
        return Poly.of(f"?{text(node)}")

    def deep_atoms(self, poly: Poly) -> set[str]:
        """The atoms, those inside of quotients too."""
        found: set[str] = set()
        for atom in poly.atoms:
            found.add(atom)
            if atom in self.quotients:
                _, left, right = self.quotients[atom]
                found |= self.deep_atoms(left) | self.deep_atoms(right)
        return found

    def accesses(self, pointers: set[str]) -> dict[str, list[Poly]]:
        """The offsets at which each pointer is read or written."""
        found: dict[str, list[Poly]] = {name: [] for name in pointers}
        for node in walk(self.function):
            dereference = node.type == "pointer_expression" and text(node).startswith("*")
            access = dereference or (node.type == "subscript_expression" and not _is_row(node))
            if access and not _moves(node, pointers):
                place = self.poly(node)
                for name in pointers & place.atoms:
                    if place.without(name) == Poly.of(1):
                        found[name].append(place + -Poly.of(name))
        return found

    def stored(self, pointers: set[str]) -> set[str]:
        """The pointers through which the kernel itself writes."""
        found: set[str] = set()
        for node in walk(self.function):
            target: Node | None = None
            if node.type == "assignment_expression":
                target = node.child_by_field_name("left")
            elif node.type == "update_expression":
                target = node.child_by_field_name("argument")
            elif node.type == "call_expression" and "atomic" in text(node)[:12]:
                target = next(iter(children(node.child_by_field_name("arguments"))), None)
            if target is not None and target.type != "identifier":
                found |= pointers & self.poly(target).atoms
        return found


def _is_row(node: Node) -> bool:
    """Whether ``A[i]`` is a row of which ``A[i][k]`` is an element."""
    return is_part(node, "subscript_expression", "argument")


def _moves(node: Node, pointers: set[str]) -> bool:
    """Whether an expression only moves a pointer, as in ``A = &A[row * K]``."""
    outer = node.parent
    while outer is not None and outer.type in ("pointer_expression", "parenthesized_expression"):
        outer = outer.parent
    if outer is None or outer.type != "assignment_expression":
        return False
    return text(outer.child_by_field_name("left")) in pointers


def _wrapped(poly: Poly) -> str:
    return str(poly) if re.fullmatch(r"\w+|\w+\.\w", str(poly)) else f"({poly})"


_READERS: dict[str, Callable[[Body, Node], Poly]] = {
    "number_literal": Body._number,
    "identifier": Body._identifier,
    "qualified_identifier": Body._qualified,
    "field_expression": Body._field,
    "parenthesized_expression": Body._inner,
    "argument_list": Body._inner,
    "initializer_list": Body._inner,
    "subscript_argument_list": Body._inner,
    "cast_expression": Body._cast,
    "unary_expression": Body._unary,
    "pointer_expression": Body._unary,
    "sizeof_expression": Body._sizeof,
    "binary_expression": Body._binary,
    "subscript_expression": Body._subscript,
    "call_expression": Body._call,
}
