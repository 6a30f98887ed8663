"""The constant that is a kernel's tile, and the text in which TILE_SIZE sets it.

What a sweep varies must be what is compiled: a file's own value is replaced on its line.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.launch import PARAMETER
from mmbench.infer.syntax import (
    Edits,
    Kernel,
    Source,
    children,
    declared,
    expand,
    is_part,
    macro_body,
    parse_tree,
    text,
    walk,
    words,
)

_DECLARING = (
    "declaration", "parameter_declaration", "optional_parameter_declaration", "enumerator",
    "field_declaration", "type_parameter_declaration", "optional_type_parameter_declaration",
)  # fmt: skip
SWEEP = (8, 16, 32)
_USUAL = re.compile(
    r"_*(?:TILE|BLOCK|BLK)_?(?:SIZE|SZ|WIDTH|DIM|LEN|SIDE|N)?|[BT]S|TPB|TW|T|TILESIZE|BLOCKSIZE"
    r"|THREADS_PER_BLOCK|(?:SHMEM|SMEM|SUB|CHUNK)_?(?:SIZE|DIM|WIDTH)|k(?:Tile|Block)\w*",
    re.IGNORECASE,
)
_PADDING = re.compile(r"\w*(?:PAD|SKEW|OFFSET|BANK)\w*", re.IGNORECASE)


@dataclass(frozen=True)
class Constant:
    """A named whole number: where it is defined, and its expression."""

    name: str
    definitions: tuple[Node, ...]
    expression: str
    value: int | None


@dataclass(frozen=True)
class Tile:
    """The tile's name in the file; empty where the file has none. Its own value, if it has one."""

    name: str = ""
    value: int | None = None
    fixed: tuple[str, ...] = ()  # tiles of several names, which are left as they are
    choices: tuple[int, ...] = ()  # the values that the file itself launches it with, if several


@dataclass
class _Finder:
    source: Source
    kernel: Kernel
    reachable: set[str]
    constants: dict[str, Constant] = field(default_factory=dict)
    capacities: set[str] = field(default_factory=set)  # names that are only extents of one row

    def collect(self, values: Mapping[str, str]) -> None:
        for name, nodes in self.source.macros.items():
            if nodes[0].type == "preproc_def":
                self._add(name, tuple(nodes), macro_body(nodes[0]))
        for node in walk(self.source.root):
            inside = self.kernel.node.start_byte <= node.start_byte < self.kernel.node.end_byte
            if node.type == "declaration" and (inside or not _in_function(node)):
                self._declaration(node)
            elif node.type == "field_declaration" and {"const", "constexpr"} & words(node):
                value = node.child_by_field_name("default_value")
                if value is not None:
                    self._add(text(node.child_by_field_name("declarator")), (node,), text(value))
            elif node.type == "enumerator" and (inside or not _in_function(node)):
                value = node.child_by_field_name("value")
                if value is not None:
                    self._add(text(node.child_by_field_name("name")), (node,), text(value))
        for name, expression in values.items():
            self._add(name, (), expression, override=True)

    def _declaration(self, node: Node) -> None:
        if {"const", "constexpr"} & words(node) and "__shared__" not in words(node):
            for declarator in node.children_by_field_name("declarator"):
                value = declarator.child_by_field_name("value")
                if declarator.type == "init_declarator" and value is not None:
                    self._add(declared(declarator), (declarator,), text(value).strip("{}"))

    def _add(
        self, name: str, nodes: tuple[Node, ...], expression: str, override: bool = False
    ) -> None:
        if name and (override or name not in self.constants):
            value = evaluate(self.source, expression, self.constants)
            own = self.constants[name].definitions if name in self.constants else nodes
            self.constants[name] = Constant(name, own, expression, value)

    def roots(self, name: str, depth: int = 8) -> set[str]:
        """The constants without others behind them that this one is made of."""
        constant = self.constants.get(name)
        if constant is None or depth == 0:
            return set()
        inner = set(re.findall(r"[A-Za-z_]\w*", constant.expression)) & self.constants.keys()
        found = {root for each in inner for root in self.roots(each, depth - 1)}
        return found or ({name} if constant.value is not None or not constant.expression else set())

    def extents(self) -> set[str]:
        """The names in the extents of shared arrays."""
        found: set[str] = set()
        capacities = self.capacities
        for node in walk(self.source.root):
            if node.type == "declaration" and "__shared__" in words(node):
                for declarator in (n for n in walk(node) if n.type == "array_declarator"):
                    size = declarator.child_by_field_name("size")
                    inner = declarator.child_by_field_name("declarator")
                    if size is None or inner is None:
                        continue
                    found |= _names(size)
                    if inner.type == size.type == "identifier" and not _is_row(declarator):
                        capacities.add(text(size))
        capacities -= {
            name for name in capacities
            if any(map(self._is_used_elsewhere, {name, *self.roots(name)}))
        }  # fmt: skip
        found -= capacities
        return {name for name in found & self.reachable if not _PADDING.fullmatch(name)}

    def derived(self, root: str, extents: set[str]) -> str:
        """The tile where one side alone is made of the root, as in ``#define TILE (WARP / 2)``."""
        made = {
            name
            for name in self.reachable & self.constants.keys() - {root}
            if re.search(rf"\b{root}\b", self.constants[name].expression)
        }
        if (
            root == PARAMETER
            or len(made) != 1
            or not made <= extents
            or not _tile_like(self.constants[min(made)])
        ):
            return root
        name = min(made)
        in_code = any(
            text(node) == root and _in_function(node)
            for node in walk(self.source.root)
            if node.type == "identifier"
        )
        macros = (
            n
            for each, nodes in self.source.macros.items()
            if each not in (root, name)
            for n in nodes
        )
        elsewhere = in_code or any(root in words(node) for node in macros)
        return root if elsewhere or not self._is_side(name) else name

    def _is_side(self, name: str) -> bool:
        """Whether a name is an extent of an array of arrays."""
        return any(
            node.type == "array_declarator"
            and text(node.child_by_field_name("size")) == name
            and (_is_row(node) or text(node.child_by_field_name("declarator")).endswith("]"))
            for node in walk(self.kernel.node)
        )

    def _is_used_elsewhere(self, name: str) -> bool:
        """Whether the kernel uses a name besides the extents of shared arrays."""
        shared = [
            node
            for node in walk(self.kernel.node)
            if node.type == "declaration" and "__shared__" in words(node)
        ]
        return any(
            text(node) == name
            and not any(s.start_byte <= node.start_byte < s.end_byte for s in shared)
            for node in walk(self.kernel.node)
            if node.type == "identifier"
        )


def _names(node: Node) -> set[str]:
    """The identifiers of an expression, without scopes and functions: ``Config::size(TILE)``."""
    found = (n for n in walk(node) if n.type == "identifier")
    return {text(n) for n in found if not _is_called(n)}


def _is_called(node: Node) -> bool:
    while (outer := node.parent) is not None and outer.type in (
        "qualified_identifier",
        "template_function",
    ):
        node = outer
    return is_part(node, "call_expression", "function")


def undefined_extents(source: Source, kernel: Kernel, known: Container[str]) -> list[str]:
    """Names in the extents of a kernel's arrays that nothing in the file or its headers defines."""
    headers = {word for header in source.headers for word in words(header.root)}
    extents: set[str] = set()
    others: set[str] = set()  # identifiers anywhere else: a name's own declaration is among them
    for node in walk(source.root):
        size = node.child_by_field_name("size") if node.type == "array_declarator" else None
        inside = kernel.node.start_byte <= node.start_byte < kernel.node.end_byte
        if size is not None and inside:
            extents |= _names(size)
        elif node.type in _DECLARING:
            others |= {declared(d) for d in node.children_by_field_name("declarator")}
            others |= {text(node.child_by_field_name("name"))}
    found = extents - others - headers - source.macros.keys()
    return sorted(name for name in found if name not in known)


def _is_row(declarator: Node) -> bool:
    """Whether an array is one of an array of arrays."""
    return declarator.parent is not None and declarator.parent.type == "array_declarator"


def _in_function(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type != "function_definition":
        above = above.parent
    return above is not None


def evaluate(source: Source, expression: str, constants: dict[str, Constant]) -> int | None:
    """The value of a whole-number expression over the file's constants."""
    if len(expression) > 200 or "{" in expression:
        return None
    code = expand(source, f"int x[{expression}];", frozenset())
    for node in walk(parse_tree(code.encode())):
        if node.type == "array_declarator":
            poly = Body(node, {}).poly(node.child_by_field_name("size"))
            for name in poly.atoms:
                value = constants[name].value if name in constants else None
                if value is None:
                    return None
                poly = poly.substitute(name, Poly.of(value))
            return poly.number
    return None


def find_constants(
    source: Source, kernel: Kernel, reachable: set[str], values: Mapping[str, str]
) -> dict[str, Constant]:
    """The named whole numbers that the kernel may use; ``values`` are known from elsewhere."""
    finder = _Finder(source, kernel, reachable)
    finder.collect(values)
    return finder.constants


def find_tile(
    source: Source,
    kernel: Kernel,
    reachable: set[str],
    constants: dict[str, Constant],
    settled: frozenset[str] = frozenset(),
) -> Tile:
    """Choose the constant that is the tile, among those that the kernel uses.

    ``settled`` are names whose value a user has given: they are no tile.
    """
    finder = _Finder(source, kernel, reachable, constants)
    extents = finder.extents()
    names = {root for name in extents for root in finder.roots(name)}
    elsewhere = {word for header in source.headers for word in words(header.root)}
    given = {
        n for n in extents - constants.keys() - elsewhere if n.isupper() or _USUAL.fullmatch(n)
    }
    given -= _template_names(source) - constants.keys()
    known = {name for name in names if _tile_like(constants[name])} | given
    if not extents:
        named = reachable & constants.keys() - finder.capacities
        usual = {n for n in named if _USUAL.fullmatch(n)}
        known = {root for name in usual for root in finder.roots(name)}
        known = {name for name in known if _tile_like(constants[name])}
    known -= settled
    known -= {
        n for n in known & source.foreign if not (n == PARAMETER and _is_guarded(constants[n]))
    }
    if PARAMETER in known and (len(known) == 1 or _is_guarded(constants.get(PARAMETER))):
        known = {PARAMETER}
    if len(known) != 1:
        fixed = known | (reachable & extents & (source.foreign | elsewhere))
        return Tile(fixed=tuple(sorted(fixed - settled)))
    name = finder.derived(next(iter(known)), extents)
    return Tile(name, constants[name].value if name in constants else None)


def _template_names(source: Source) -> set[str]:
    """The template parameters of all functions of a file."""
    lists = (n for n in walk(source.root) if n.type == "template_parameter_list")
    return {declared(d) for n in lists for p in children(n) for d in _declarators(p)}


def _declarators(parameter: Node) -> list[Node]:
    return parameter.children_by_field_name("declarator")


def _tile_like(constant: Constant) -> bool:
    return constant.value is None or 1 <= constant.value <= 1024


def _is_guarded(constant: Constant | None) -> bool:
    if constant is None or not constant.definitions:
        return False
    return all(guarded(node, constant.name) for node in constant.definitions)


def guarded(node: Node, name: str) -> bool:
    """Whether a definition gives way to one from the command line."""
    above = node.parent
    while above is not None:
        if above.type.startswith("preproc_"):
            first = text(above).split("\n", 1)[0]
            if re.search(rf"#\s*(?:ifndef|ifdef|if|else|elif)\b.*\b{name}\b", first):
                return True
        above = above.parent
    return False


def rewrite(edits: Edits, source: Source, tile: Tile, constants: dict[str, Constant]) -> None:
    """Make TILE_SIZE the tile: on the line of each definition, or where an undefined name is."""
    name = tile.name
    definitions = constants[name].definitions if name in constants else ()
    for node in definitions:
        if node.type == "preproc_def":
            _rewrite_macro(edits, node, name)
        else:
            _rewrite_constant(edits, node, name)
    if name == PARAMETER:
        drop_scopes(edits, source, name)
    for node in walk(source.root):
        if node.type == "preproc_call" and re.match(rf"#\s*undef\s+{name}\b", text(node)):
            edits.blank(node)
    if name and name != PARAMETER and name not in constants:
        rename(edits, source, name, PARAMETER)


def drop_scopes(edits: Edits, source: Source, name: str) -> None:
    """``config::TILE_SIZE`` has lost its definition: it becomes the macro alone."""
    for node in walk(source.root):
        if node.type == "qualified_identifier" and text(node).endswith(f"::{name}"):
            edits.replace(node, name)


def release(edits: Edits, source: Source, name: str, constants: Mapping[str, Constant]) -> None:
    """Take away a name's own definitions, so that the compiler's -D gives its value."""
    drop_scopes(edits, source, name)
    for node in constants[name].definitions if name in constants else ():
        if node.type != "preproc_def":
            _remove_constant(edits, node, name)
        elif not guarded(node, name):
            edits.blank(node)


def _rewrite_macro(edits: Edits, node: Node, name: str) -> None:
    value = node.child_by_field_name("value")
    if name == PARAMETER:
        if not guarded(node, name):
            edits.blank(node)
    elif value is not None:
        # A semicolon behind the number is an error wherever nvcc says so: it stays.
        end = ";" if text(value).rstrip().endswith(";") else ""
        edits.replace(value, (" " if text(value).startswith(" ") else "") + PARAMETER + end)


def _rewrite_constant(edits: Edits, node: Node, name: str) -> None:
    """``const int T = 16`` becomes ``const int T = TILE_SIZE``; one of that name goes."""
    value = node.child_by_field_name("value") or node.child_by_field_name("default_value")
    if value is not None and name != PARAMETER:
        opening = text(value)[:1] if value.type.endswith("_list") else ""
        edits.replace(value, opening + PARAMETER + {"{": "}", "(": ")"}.get(opening, ""))
    else:
        _remove_constant(edits, node, name)


def _remove_constant(edits: Edits, node: Node, name: str) -> None:
    parent = node.parent
    if node.type == "field_declaration":
        edits.blank(node)
        return
    alone = parent is not None and len(parent.children_by_field_name("declarator")) == 1
    if node.type == "init_declarator" and parent is not None and alone:
        edits.blank(parent)
    else:
        edits.replace(node, f"{name}_own = 0")


def rename(edits: Edits, source: Source, name: str, by: str) -> None:
    """Replace a name wherever the code, macros included, has it."""
    for node in walk(source.root):
        if node.type in ("identifier", "type_identifier") and text(node) == name:
            edits.replace(node, by)
        elif node.type == "preproc_arg" and name in words(node):
            edits.replace(node, re.sub(rf"\b{name}\b", by, text(node)))


def takes_name(source: Source) -> bool:
    """Whether the file has a use of its own for the name TILE_SIZE."""
    return any(
        text(n) == PARAMETER or (n.type == "preproc_arg" and PARAMETER in words(n))
        for n in walk(source.root)
        if not children(n)
    )
