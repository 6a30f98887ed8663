"""Cut a kernel out of a whole program: what it does not need is blanked, lines stay where they are.

What stays is what the kernel's names lead to: macros, constants, types and device functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from mmbench.infer.syntax import (
    Edits,
    Kernel,
    Source,
    children,
    declared,
    find_header,
    function_declarator,
    has_word,
    text,
    walk,
    words,
)

_DEVICE_HEADERS = re.compile(
    r"<(?:cuda(?:_runtime(?:_api)?|_fp16|_bf16|_fp8|_pipeline(?:_primitives)?|_pipeline_helpers)?"
    r"|device_launch_parameters|device_functions|math_constants|mma|vector_types"
    r"|vector_functions|sm_\w+|cooperative_groups(?:/\w+)?|math_functions|builtin_types"
    r"|assert|math|limits|float|stdio|stdlib|string|stdint|stddef|inttypes|crt/\w+"
    r"|cassert|cmath|climits|cfloat|cstdio|cstdlib|cstring|cstdint|cstddef|type_traits|utility"
    r"|limits|cuda/\w+|cuda/std/\w+|cuda_fp16)(?:\.h|\.hpp|\.cuh)?>"
)
_CONTAINERS = (
    "translation_unit", "declaration_list", "linkage_specification", "namespace_definition",
    "preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "preproc_elifdef",
)  # fmt: skip
_KEPT = ("preproc_def", "preproc_function_def", "preproc_call", "static_assert_declaration")


@dataclass(frozen=True)
class Item:
    """A definition at file level, by the names that it gives."""

    node: Node
    names: frozenset[str]
    device: bool  # whether it may stay at all


def items(node: Node) -> Iterator[Item]:
    """All definitions at file level, those in namespaces and conditionals too."""
    for child in children(node):
        if child.type == "linkage_specification":
            body = child.child_by_field_name("body")
            if body is not None and body.type == "declaration_list":
                yield from items(body)
            elif body is not None:
                yield from _item(body, child)
        elif child.type in _CONTAINERS:
            yield from items(child)
        elif child.parent is None or child.parent.type in _CONTAINERS:
            yield from _item(child, child)


def _item(node: Node, whole: Node) -> Iterator[Item]:
    inner = node
    if node.type == "template_declaration":
        inner = children(node)[-1]
    if inner.type == "function_definition":
        declarator = function_declarator(inner)
        device = any(has_word(inner, w) for w in ("__device__", "__global__", "constexpr"))
        yield Item(whole, _function_names(declarator), device or _is_macro_call(inner))
    elif inner.type == "declaration":
        yield _declaration(inner, whole)
    elif inner.type in ("struct_specifier", "class_specifier", "union_specifier"):
        yield Item(whole, frozenset({text(inner.child_by_field_name("name"))}), True)
    elif inner.type in ("type_definition", "alias_declaration", "enum_specifier"):
        names = {text(n) for n in walk(inner) if n.type in ("type_identifier", "identifier")}
        yield Item(whole, frozenset(names), True)
    elif inner.type == "using_declaration":
        yield Item(whole, frozenset(words(inner) - {"using", "namespace"}), True)
    elif inner.type in ("expression_statement", "template_instantiation"):
        yield Item(whole, frozenset(), False)


def _function_names(declarator: Node | None) -> frozenset[str]:
    """A function's name; an operator's operand types instead, since its calls do not name it."""
    if declarator is None:
        return frozenset()
    name = declarator.child_by_field_name("declarator")
    if name is None or name.type != "operator_name":
        return frozenset({declared(declarator).rpartition("::")[2]})
    types = {text(n) for n in walk(declarator) if n.type == "type_identifier"}
    return frozenset(types | {f"make_{each}" for each in types})


def _is_macro_call(function: Node) -> bool:
    """``DEVICE float f(...)``: the word that makes it a device function is hidden in a macro."""
    kind = function.child_by_field_name("type")
    return kind is not None and text(kind).isupper()


def _declaration(node: Node, whole: Node) -> Item:
    declarators = node.children_by_field_name("declarator")
    names = {declared(declarator) for declarator in declarators}
    kind = node.child_by_field_name("type")
    if kind is not None and kind.type.endswith("specifier"):
        names |= {text(n) for n in walk(kind) if n.type.endswith("identifier")}
    return Item(whole, frozenset(names - {""}), True)


def reachable(source: Source, kernel: Kernel) -> set[str]:
    """All words that the kernel leads to, through the file's macros, types and functions."""
    whole = kernel.template or kernel.node
    found = words(whole)
    known = [item for item in items(source.root) if item.device]
    pending = set(found)
    while pending:
        new: set[str] = set()
        for item in known:
            operators = any(name.startswith("operator") for name in item.names)
            if item.names & pending or operators:
                new |= words(item.node)
        for name in pending & source.macros.keys():
            for macro in source.macros[name]:
                new |= words(macro)
        pending = new - found
        found |= new
    return found


def isolate(edits: Edits, source: Source, kernel: Kernel, folders: Sequence[Path]) -> list[str]:
    """Blank the host's part of a file; return the includes that went with it."""
    needed = reachable(source, kernel)
    ignored: list[str] = []
    mine = kernel.template or kernel.node
    for item in items(source.root):
        holds = item.node.start_byte <= mine.start_byte < item.node.end_byte
        operators = any(name.startswith("operator") for name in item.names)
        kernels = not holds and any(has_word(n, "__global__") for n in _functions(item.node))
        wanted = item.device and (operators or bool(item.names & needed)) and not kernels
        if item.node.type == "using_declaration":
            wanted = not {"std", "torch", "at"} & words(item.node)
        if not holds and not wanted:
            edits.blank(item.node)
    for node in walk(source.root):
        if node.type == "preproc_include" and not _device_include(node, folders):
            edits.blank(node)
            ignored.append(text(node.child_by_field_name("path")))
    _dissolve_namespaces(edits, source, kernel)
    _drop_static(edits, kernel)
    return ignored


def _functions(node: Node) -> list[Node]:
    return [n for n in walk(node) if n.type in ("function_definition", "declaration")]


def _device_include(node: Node, folders: Sequence[Path]) -> bool:
    path = text(node.child_by_field_name("path"))
    if find_header(path, folders) is not None:
        return True
    return bool(_DEVICE_HEADERS.fullmatch(f"<{path.strip('<>' + chr(34))}>"))


def _dissolve_namespaces(edits: Edits, source: Source, kernel: Kernel) -> None:
    """Take the kernel out of its namespaces: its name is then the name in the module."""
    names: set[str] = set()
    above = kernel.node.parent
    while above is not None:
        if above.type == "namespace_definition":
            body = above.child_by_field_name("body")
            name = text(above.child_by_field_name("name"))
            names |= set(name.split("::")) - {""}
            if body is not None:
                opening, closing = body.children[0], body.children[-1]
                edits.parts[above.start_byte, opening.end_byte] = ""
                edits.blank(closing)
        above = above.parent
    for node in walk(source.root) if names else ():
        scope = node.child_by_field_name("scope")
        if node.type == "qualified_identifier" and text(scope) in names:
            inner = node.child_by_field_name("name")
            if inner is not None:
                edits.parts[node.start_byte, inner.start_byte] = ""
        elif node.type == "using_declaration" and words(node) & names and "::" not in text(node):
            edits.blank(node)
        elif node.type == "namespace_definition" and not edits.covers(node):
            same = text(node.child_by_field_name("name")) in names
            body = node.child_by_field_name("body")
            if same and body is not None and not _around(node, kernel):
                edits.parts[node.start_byte, body.children[0].end_byte] = ""
                edits.blank(body.children[-1])


def _around(node: Node, kernel: Kernel) -> bool:
    return node.start_byte <= kernel.node.start_byte < node.end_byte


def _drop_static(edits: Edits, kernel: Kernel) -> None:
    """A static kernel has no name that a module could be asked for."""
    for node in children(kernel.node):
        if node.type == "storage_class_specifier" and text(node) == "static":
            edits.blank(node)
