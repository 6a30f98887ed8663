"""A kernel's launch in host code: ``<<<>>>``, or a call of the runtime or the driver."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from mmbench.infer.syntax import children, text, walk

_CALLS = ("cudaLaunchKernel", "cudaLaunchCooperativeKernel")
_DRIVER_CALLS = ("cuLaunchKernel", "cuLaunchCooperativeKernel")
_EXTENDED_CALLS = ("cudaLaunchKernelEx", "cudaLaunchKernelExC")


@dataclass(frozen=True)
class HostLaunch:
    """A launch as nodes of the text: grid, block and bytes of dynamic shared memory.

    Grid and block are one node each, or three with the axes.
    """

    function: Node | None
    called: Node
    grid: tuple[Node, ...]
    block: tuple[Node, ...]
    shared: Node | None
    arguments: tuple[Node, ...]


def launches(root: Node, kernel: str) -> Iterator[HostLaunch]:
    """All launches of the kernel in a text, in its order."""
    for node in walk(root):
        if node.type == "call_expression":
            found = _chevrons(node, kernel) or _call(root, node, kernel)
            if found is not None:
                yield found


def _chevrons(node: Node, kernel: str) -> HostLaunch | None:
    called = node.child_by_field_name("function")
    shape = next((n for n in node.children if n.type == "kernel_call_syntax"), None)
    if called is None or shape is None or not _names(called, kernel):
        return None
    parts = children(shape)
    if len(parts) < 2:
        return None
    shared = parts[2] if len(parts) > 2 else None
    passed = tuple(children(node.child_by_field_name("arguments")))
    return HostLaunch(function_of(node), called, (parts[0],), (parts[1],), shared, passed)


def _names(called: Node, kernel: str) -> bool:
    names = [n for n in walk(called) if n.type in ("identifier", "template_function")]
    outer = next((n for n in names if n.type == "template_function"), None)
    name = text(outer.child_by_field_name("name")) if outer is not None else text(called)
    return name.rpartition("::")[2] == kernel


def _call(root: Node, node: Node, kernel: str) -> HostLaunch | None:
    name = text(node.child_by_field_name("function")).partition("<")[0]
    given = children(node.child_by_field_name("arguments"))
    function = function_of(node)
    if function is None:
        return None
    if name in _CALLS and len(given) >= 4 and _mentions(given[0], kernel):
        shared = given[4] if len(given) > 4 else None
        passed = _addresses(function, given[3])
        return HostLaunch(function, given[0], (given[1],), (given[2],), shared, passed)
    if name in _DRIVER_CALLS and len(given) >= 8 and _asks_for(root, kernel):
        passed = _addresses(function, given[9]) if len(given) > 9 else ()
        grid, block = tuple(given[1:4]), tuple(given[4:7])
        return HostLaunch(function, given[0], grid, block, given[7], passed)
    if name in _EXTENDED_CALLS and len(given) >= 2 and _mentions(given[1], kernel):
        fields = dict(_fields(function, text(given[0]).strip("& ")))
        if fields.keys() >= {"gridDim", "blockDim"}:
            return HostLaunch(
                function, given[1], (fields["gridDim"],), (fields["blockDim"],),
                fields.get("dynamicSmemBytes"), tuple(given[2:]),
            )  # fmt: skip
    return None


def _mentions(node: Node, kernel: str) -> bool:
    return any(text(n) == kernel for n in walk(node) if n.type == "identifier")


def _asks_for(root: Node, kernel: str) -> bool:
    """Whether ``cuModuleGetFunction(&f, module, "kernel")`` is in the text."""
    return any(n.type == "string_literal" and text(n).strip('"') == kernel for n in walk(root))


def _addresses(function: Node, node: Node) -> tuple[Node, ...]:
    """The variables whose addresses an array lists: ``void *args[] = {&a, &n}``."""
    for each in walk(function):
        if each.type == "init_declarator":
            listed = each.child_by_field_name("value")
            declarator = each.child_by_field_name("declarator")
            if declarator is not None and text(node) in {text(n) for n in walk(declarator)}:
                return tuple(_pointee(n) for n in children(listed))
    return ()


def _pointee(node: Node) -> Node:
    """``x`` of ``&x`` and of ``(void *)&x``."""
    for each in walk(node):
        if each.type == "pointer_expression":
            return each.child_by_field_name("argument") or each
    return node


def _fields(function: Node, name: str) -> Iterator[tuple[str, Node]]:
    """What is assigned to the fields of a variable."""
    for node in walk(function):
        if node.type == "assignment_expression":
            target = node.child_by_field_name("left")
            value = node.child_by_field_name("right")
            if target is None or target.type != "field_expression" or value is None:
                continue
            if text(target.child_by_field_name("argument")) == name:
                yield text(target.child_by_field_name("field")), value


def function_of(node: Node) -> Node | None:
    """The function that a node is in."""
    above: Node | None = node
    while above is not None and above.type != "function_definition":
        above = above.parent
    return above
