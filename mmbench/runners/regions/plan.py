"""Decides which parts of a kernel run once per block and which once per thread.

A kernel becomes a tree of items: statements that every lane (thread) runs, barriers, and the
loops and branches around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.runners.regions.parse import (
    SYNC,
    TYPES,
    Cuda,
    Unsupported,
    children,
    declared_name,
    leaves,
    text,
    walk,
)
from mmbench.runners.regions.uses import Expr, Names, Var


@dataclass(eq=False)
class Stmt:
    """A statement that every lane runs as it is written."""

    expr: Expr
    target: Var | None = None
    group: int = -1


@dataclass(eq=False)
class Decl:
    """The declaration of one variable."""

    var: Var
    group: int = -1


@dataclass(eq=False)
class Shared:
    """A declaration of shared memory, kept as written."""

    node: Node


@dataclass(eq=False)
class Barrier:
    """A __syncthreads() call."""


@dataclass(eq=False)
class Loop:
    """A for or while loop of which the block is in control."""

    node: Node
    controls: list[Expr] = field(default_factory=list)
    barrier: bool = True
    body: list[Item] = field(default_factory=list)


@dataclass(eq=False)
class Branch:
    """An if with a barrier inside, or (no condition) a bare block."""

    node: Node
    condition: Expr | None
    body: list[Item]
    otherwise: list[Item] | None = None


@dataclass(eq=False)
class Guard:
    """An if of which the body runs for the lanes that pass; ``leave`` for the returning form."""

    condition: Expr
    leave: bool
    body: list[Item]


Item = Stmt | Decl | Shared | Barrier | Loop | Branch | Guard

REFUSED = re.compile(
    r"ERROR|lambda_expression|reference_declarator|structured_binding_declarator|for_range_loop"
    r"|goto_statement|labeled_statement|try_statement|throw_statement|co_\w+|preproc_\w+"
    r"|new_expression|delete_expression|gnu_asm_\w+|using_declaration|alias_declaration"
    r"|type_definition|field_declaration_list|kernel_call_syntax|attribute\w*|requires_\w+"
    r"|namespace_\w+_definition|offsetof_expression|function_definition|optional_parameter\w*"
)


def has_barrier(node: Node) -> bool:
    """Whether a barrier call stands in this tree."""
    return any(text(leaf) == "__syncthreads" for leaf in leaves(node))


def _leaves_loop(node: Node, inside_switch: bool = False) -> bool:
    """Whether a break or continue in a loop's body belongs to that loop."""
    for child in node.children:
        if child.type == "continue_statement":
            return True
        if child.type == "break_statement" and not inside_switch:
            return True
        if child.type in ("for_statement", "while_statement", "do_statement"):
            continue
        if _leaves_loop(child, inside_switch or child.type == "switch_statement"):
            return True
    return False


def statements(body: Node | None) -> list[Node]:
    """The statements of a body with or without braces."""
    if body is None:
        return []
    return children(body) if body.type == "compound_statement" else [body]


class Planner(Names):
    """Builds the tree of items of one kernel; ``verbatim`` holds loops not to be opened."""

    def __init__(self, cuda: Cuda, kernel: Node, verbatim: set[int]) -> None:
        super().__init__(cuda)
        self.kernel, self.verbatim = kernel, verbatim
        self.in_row = 0
        body = kernel.child_by_field_name("body")
        if body is None:
            raise Unsupported("has no body")
        self.body = body
        self.barriers = has_barrier(body)
        self._check_kernel()

    def plan(self) -> list[Item]:
        """The items of the kernel's body."""
        self._parameters()
        self.in_row = 0 if self.barriers else 1
        if self._odd_return():
            expr = self.expression(self.body)
            return [Stmt(expr)]
        return self.sequence(children(self.body))

    @property
    def lambda_body(self) -> bool:
        """Whether the body must be wrapped so that a return ends one lane only."""
        return self._odd_return()

    def _returns(self) -> list[Node]:
        return [n for n in walk(self.body) if n.type == "return_statement"]

    def _odd_return(self) -> bool:
        """Whether there is a return other than the guard form at the top of the body."""
        guards = sum(_guard_return(n) is not None for n in children(self.body))
        return -1 in self.verbatim or len(self._returns()) != guards

    def _check_kernel(self) -> None:
        if self.barriers and self._returns():
            raise Unsupported("a return in a kernel with barriers")
        for node in walk(self.kernel):
            if node.has_error and node is self.kernel:
                raise Unsupported("does not parse")
            if REFUSED.fullmatch(node.type) and node is not self.kernel:
                raise Unsupported(f"holds a {node.type.replace('_', ' ')}")
            if node.type == "qualified_identifier" and text(node) not in (
                "std::min",
                "std::max",
                "std::abs",
                "std::fma",
            ):
                raise Unsupported(f"uses {text(node)}")
        for leaf in leaves(self.kernel):
            name = text(leaf)
            if SYNC.fullmatch(name):
                raise Unsupported(f"uses {name}")
            if name in self.cuda.macros:
                self._check_macro_use(leaf, name)
            elif leaf.type == "type_identifier":
                self.cuda.check_type(name)

    def _check_macro_use(self, leaf: Node, name: str) -> None:
        self.cuda.check_macro(name)
        if leaf.type == "identifier":
            return
        if leaf.type not in ("type_identifier", "primitive_type"):
            raise Unsupported(f"macro {name} stands where no expression does")
        if not set(self.cuda.expansion(name)) <= TYPES:
            raise Unsupported(f"macro {name} stands for a type")

    def _parameters(self) -> None:
        declarator = self.kernel.child_by_field_name("declarator")
        listing = declarator.child_by_field_name("parameters") if declarator is not None else None
        for node in children(listing) if listing is not None else []:
            inner = node.child_by_field_name("declarator")
            if node.type != "parameter_declaration" or inner is None:
                raise Unsupported(f"the parameter {text(node)}")
            var = self.declare(node, inner, None)
            if var.base_type in self.cuda.holding_arrays:
                raise Unsupported(f"the parameter {var.name} may hold an array")
            var.parameter = True
            var.pointer, var.dims = var.pointer or bool(var.dims), 0
        self.scopes.append({})

    # -- statements -------------------------------------------------------------------------

    def sequence(self, nodes: list[Node]) -> list[Item]:
        """The items of consecutive statements, in a scope of their own."""
        self.scopes.append({})
        items: list[Item] = []
        for position, node in enumerate(nodes):
            if (condition := _guard_return(node)) is not None and not self.barriers:
                expr = self.expression(condition)
                rest = self.sequence(nodes[position + 1 :])
                items.append(Guard(expr, True, rest))
                break
            items += self.statement(node)
        self.scopes.pop()
        return items

    def statement(self, node: Node) -> list[Item]:
        """The items of one statement."""
        if node.type == "declaration":
            return self.declaration(node)
        if has_barrier(node):
            return [self.around_barrier(node)]
        if node.type == "expression_statement":
            return [self.assignment(node)] if children(node) else []
        if node.type == "for_statement" and self._worth_opening(node):
            return [self.loop(node, barrier=False)]
        if node.type == "if_statement" and self._worth_guarding(node):
            self.in_row += 1
            condition = self.expression(_condition(node))
            body = self.sequence(statements(node.child_by_field_name("consequence")))
            self.in_row -= 1
            return [Guard(condition, False, body)]
        return [Stmt(self.expression(node))]

    def around_barrier(self, node: Node) -> Item:
        """The item of a statement that is or holds a barrier."""
        if re.fullmatch(r"__syncthreads\s*\(\s*\)\s*;", text(node)):
            return Barrier()
        if node.type in ("for_statement", "while_statement"):
            return self.loop(node, barrier=True)
        if node.type == "compound_statement":
            return Branch(node, None, self.sequence(statements(node)))
        if node.type == "if_statement":
            condition = self.expression(_condition(node))
            body = self.sequence(statements(node.child_by_field_name("consequence")))
            alternative = node.child_by_field_name("alternative")
            otherwise = None
            if alternative is not None:
                otherwise = self.sequence(statements(children(alternative)[0]))
            return Branch(node, condition, body, otherwise)
        raise Unsupported(f"a barrier inside a {node.type.replace('_', ' ')}")

    def declaration(self, node: Node) -> list[Item]:
        """One item per declared variable."""
        words = {text(n) for n in leaves(node)}
        shared = "__shared__" in words
        if not shared and words & {"extern", "register", "__constant__", "inline"}:
            raise Unsupported(f"the declaration {text(node)}")
        items: list[Item] = [Shared(node)] if shared else []
        for whole in node.children_by_field_name("declarator"):
            initialised = whole.type == "init_declarator"
            inner = whole.child_by_field_name("declarator") if initialised else whole
            init = whole.child_by_field_name("value") if initialised else None
            if inner is None or (initialised and init is None):
                raise Unsupported(f"the declaration {text(node)}")
            value = self.expression(init) if init is not None else None
            sizes = self.expression(inner, skip=text(declared_name(inner)))
            if sizes.names and any(not v.scalar for v in sizes.names.values()):
                raise Unsupported(f"the declaration {text(node)}")
            var = self.declare(node, inner, init)
            var.shared, var.value = shared, value
            known = set(var.base_type.split()) <= TYPES | {"auto"}
            var.escapes = not (known or var.pointer or var.dims)  # its members may be arrays
            if not shared:
                items.append(Decl(var))
        if shared and any(n.type == "init_declarator" for n in children(node)):
            raise Unsupported("initialises shared memory")
        return items

    def assignment(self, node: Node) -> Stmt:
        """An expression statement; ``target`` is set where it may be the block's own step."""
        expression = children(node)[0]
        target = _assigned(expression)
        var = self.resolve(target) if target else None
        if var is None or self.in_row or target in self.cuda.macros:
            return Stmt(self.expression(node))
        inner = expression.child_by_field_name("right")
        change = self.expression(inner) if inner is not None else Expr(expression)
        var.changes.append(change)
        var.stepped = True
        used = Expr(node, {**change.names, var.name: var}, change.others)
        return Stmt(used, var)

    def loop(self, node: Node, barrier: bool) -> Loop:
        """A loop of which the block is in control."""
        body = node.child_by_field_name("body")
        if body is None or _leaves_loop(body):
            raise Unsupported("a break or continue around a barrier")
        loop = Loop(node, barrier=barrier)
        self.scopes.append({})
        self._header(node, loop)
        self.in_row += 0 if barrier else 1
        outside, self.loops = self.loops, (*self.loops, loop)
        loop.body = self.sequence(statements(body))
        self.loops = outside
        self.in_row -= 0 if barrier else 1
        self.scopes.pop()
        return loop

    def _header(self, node: Node, loop: Loop) -> None:
        if node.type == "while_statement":
            loop.controls.append(self.expression(_condition(node)))
            return
        init = node.child_by_field_name("initializer")
        if init is not None and init.type == "declaration":
            for item in self.declaration(init):
                if not isinstance(item, Decl) or item.var.value is None:
                    raise Unsupported("a loop variable without a first value")
                loop.controls.append(item.var.value)
                item.var.loops.append(loop)
        elif init is not None:
            self._step(init, loop)
        condition = node.child_by_field_name("condition")
        if condition is not None:
            loop.controls.append(self.expression(condition))
        update = node.child_by_field_name("update")
        if update is not None:
            self._step(update, loop)

    def _step(self, node: Node, loop: Loop) -> None:
        """The first or last expression of a for header: assignments to loop variables."""
        if node.type == "comma_expression":
            for child in children(node):
                self._step(child, loop)
            return
        target = _assigned(node)
        var = self.resolve(target) if target and target not in self.cuda.macros else None
        if var is None or (self.in_row and loop not in var.loops):
            raise Unsupported("a loop header that is not understood")
        right = node.child_by_field_name("right")
        change = self.expression(right) if right is not None else Expr(node)
        place = node.child_by_field_name("left") or node.child_by_field_name("argument")
        loop.controls += [change, Expr(place or node, {var.name: var})]
        var.changes.append(change)
        var.loops.append(loop)

    def _worth_opening(self, node: Node) -> bool:
        """Whether a barrier-free loop runs better with its lanes inside it.

        A compiler unrolls or vectorises around an inner loop of known length by itself; for a
        length known at run time only it needs the loop over the lanes to be the inner one.
        """
        init, condition = (node.child_by_field_name(n) for n in ("initializer", "condition"))
        update, body = (node.child_by_field_name(n) for n in ("update", "body"))
        if (
            node.start_byte in self.verbatim
            or init is None
            or init.type != "declaration"
            or condition is None
            or update is None
            or body is None
            or _leaves_loop(body)
        ):
            return False
        if any(n.type == "return_statement" for n in walk(body)):
            return False
        steps = children(update) if update.type == "comma_expression" else [update]
        declared = [text(declared_name(d)) for d in init.children_by_field_name("declarator")]
        if any(_assigned(step) not in declared for step in steps):
            return False
        names = {text(n) for n in leaves(condition)} - set(declared)
        return any(self._at_run_time(name) for name in names)

    def _at_run_time(self, name: str) -> bool:
        var = self.resolve(name)
        if name in ("blockDim", "gridDim", "blockIdx") or (var is not None and var.parameter):
            return True
        if var is None or not set(var.specifiers.split()) & {"const", "constexpr"}:
            return var is not None
        value = var.value
        return (
            value is None
            or bool(value.others & {"blockDim", "gridDim", "blockIdx"})
            or any(self._at_run_time(n) for n in value.names)
        )

    def _worth_guarding(self, node: Node) -> bool:
        if node.child_by_field_name("alternative") is not None or node.start_byte in self.verbatim:
            return False
        if any(n.type == "return_statement" for n in walk(node)):
            return False
        condition = _condition(node)
        if condition.type == "declaration":
            return False
        body = statements(node.child_by_field_name("consequence"))
        return any(
            (n.type == "for_statement" and self._worth_opening(n))
            or (n.type == "if_statement" and self._worth_guarding(n))
            for n in body
        )


def _condition(node: Node) -> Node:
    clause = node.child_by_field_name("condition")
    value = clause.child_by_field_name("value") if clause is not None else None
    if clause is None or value is None or len(children(clause)) != 1:
        raise Unsupported("a condition that is not understood")
    return value


def _guard_return(node: Node) -> Node | None:
    """The condition of an ``if (...) return;``, else None."""
    if node.type != "if_statement" or node.child_by_field_name("alternative") is not None:
        return None
    body = statements(node.child_by_field_name("consequence"))
    if len(body) != 1 or not re.fullmatch(r"return\s*;", text(body[0])):
        return None
    return _condition(node)


def _assigned(node: Node) -> str:
    """The plain name that an assignment or ++ changes; empty where it is anything else."""
    field_name = {"assignment_expression": "left", "update_expression": "argument"}.get(node.type)
    target = node.child_by_field_name(field_name) if field_name else None
    return text(target) if target is not None and target.type == "identifier" else ""
