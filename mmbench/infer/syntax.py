"""A CUDA file as inference sees it: its kernels, macros and named constants, and edits to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tree_sitter import Language, Node, Parser

_PRAGMA = re.compile(rb"(?m)^[ \t]*#[ \t]*pragma\b[^\n\\]*$")
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|[A-Za-z_]\w*|\d[\w.]*(?:(?<=[eE])[-+]\d+)?\w*|\s+|.",
    re.DOTALL,
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


def text(node: Node | None) -> str:
    """The source text of a node; empty for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, parents first, without comments."""
    if node.type == "comment":
        return
    yield node
    for child in node.children:
        yield from walk(child)


def children(node: Node | None) -> list[Node]:
    """The named children without comments."""
    if node is None:
        return []
    return [child for child in node.named_children if child.type != "comment"]


def words(node: Node) -> set[str]:
    """All words in a node's code, those inside of macro bodies too; comments are left out."""
    found: set[str] = set()
    for each in walk(node):
        if not each.children and "string" not in each.type:
            found.update(_WORD.findall(_COMMENT.sub(" ", text(each))))
    return found


def parse_tree(code: bytes) -> Node:
    """The tree of a text. Pragmas are hidden from the parser, which knows them at few places."""
    import tree_sitter_cuda

    hidden = _PRAGMA.sub(lambda found: b" " * len(found.group()), code)
    return Parser(Language(tree_sitter_cuda.language())).parse(hidden).root_node


def function_declarator(node: Node) -> Node | None:
    """The part of a definition or a prototype that holds the name and the parameters."""
    for declarator in node.children_by_field_name("declarator"):
        inner: Node | None = declarator
        while inner is not None and inner.type != "function_declarator":
            inner = inner.child_by_field_name("declarator") or next(iter(children(inner)), None)
        if inner is not None:
            return inner
    return None


def declared(declarator: Node) -> str:
    """The name that a declarator declares."""
    node: Node | None = declarator
    while node is not None and not node.type.endswith("identifier"):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((n for n in children(node) if n.type != "type_qualifier"), None)
        node = inner
    return text(node)


@dataclass(frozen=True)
class Kernel:
    """A __global__ function, with the template and the namespaces around it."""

    name: str
    node: Node
    parameters: tuple[Node, ...]
    template: Node | None


@dataclass
class Source:
    """A parsed file."""

    code: bytes
    root: Node
    macros: dict[str, list[Node]] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    headers: list[Source] = field(default_factory=list)  # local ones
    foreign: set[str] = field(default_factory=set)  # macros that only those define

    def value(self, name: str) -> str:
        """The body of an object-like macro's first definition; empty if there is none."""
        return macro_body(self.macros[name][0]) if name in self.macros else ""


def macro_body(node: Node) -> str:
    return _COMMENT.sub(" ", text(node.child_by_field_name("value"))).replace("\\\n", " ").strip()


def read(source: str, folder: Path, depth: int = 4) -> Source:
    """Parse a file and find its macros and kernels, and the macros of its local headers."""
    code = source.encode()
    found = Source(code, parse_tree(code))
    for node in walk(found.root):
        if node.type in ("preproc_def", "preproc_function_def"):
            found.macros.setdefault(text(node.child_by_field_name("name")), []).append(node)
        elif node.type == "function_definition" and has_word(node, "__global__"):
            _add_kernel(found, node)
        elif node.type == "preproc_include" and depth > 0:
            path = folder / text(node.child_by_field_name("path")).strip('"')
            if path.is_file():
                header = path.read_text(encoding="utf-8", errors="replace")
                found.headers.append(read(header, path.parent, depth - 1))
    for header_source in found.headers:
        for name, nodes in header_source.macros.items():
            if name not in found.macros:
                found.macros[name] = nodes
                found.foreign.add(name)
    return found


def _is_disabled(node: Node) -> bool:
    """Whether a node is in the dead branch of an ``#if 0``."""
    above: Node | None = node
    while above is not None:
        parent, below = above.parent, above
        if parent is not None and parent.type == "preproc_if":
            dead = text(parent.child_by_field_name("condition")) in ("0", "false")
            if dead and below.type not in ("preproc_else", "preproc_elif"):
                return True
        above = parent
    return False


def has_word(function: Node, word: str) -> bool:
    """Whether a function's declaration, its body left out, has this word."""
    outer = function.parent
    linked = outer is not None and outer.type == "linkage_specification"
    begin = outer.start_byte if linked and outer is not None else function.start_byte
    body = function.child_by_field_name("body")
    end = body.start_byte if body is not None else function.end_byte
    parts = (n for n in walk(function) if not n.children and begin <= n.start_byte < end)
    return any(text(part) == word for part in parts)


def _add_kernel(source: Source, node: Node) -> None:
    declarator = function_declarator(node)
    if declarator is None or _is_disabled(node):
        return
    parameters = declarator.child_by_field_name("parameters")
    parent = node.parent
    template = parent if parent is not None and parent.type == "template_declaration" else None
    name = declared(declarator.child_by_field_name("declarator") or declarator)
    source.kernels.append(Kernel(name, node, tuple(children(parameters)), template))


def expand(source: Source, code: str, keep: frozenset[str]) -> str:
    """The code with the file's macros expanded, but for the names to keep; for analysis only."""
    for _ in range(8):  # of macros in macros
        expanded = _expand_once(source, code, keep)
        if expanded == code or len(expanded) > 500_000:
            return code
        code = expanded
    return code


def _expand_once(source: Source, code: str, keep: frozenset[str]) -> str:
    tokens = [t for t in _TOKEN.findall(code) if not t.startswith(("//", "/*"))]
    result: list[str] = []
    i = 0
    while i < len(tokens):
        token = tokens[i]
        i += 1
        macro = source.macros.get(token, [None])[0] if token not in keep else None
        if macro is None:
            result.append(token)
        elif macro.type == "preproc_def":
            result.append(macro_body(macro))
        else:
            used, arguments = _arguments(tokens, i)
            result.append(_call(macro, arguments) if used else token)
            i += used
    return "".join(result)


def _arguments(tokens: list[str], start: int) -> tuple[int, list[str]]:
    """How many tokens a macro's argument list takes from here, and the arguments."""
    i = start
    while i < len(tokens) and tokens[i].isspace():
        i += 1
    if i == len(tokens) or tokens[i] != "(":
        return 0, []
    depth, arguments = 0, [""]
    for j in range(i, len(tokens)):
        token = tokens[j]
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            return j + 1 - start, arguments
        if depth == 1 and token == ",":
            arguments.append("")
        elif j > i:
            arguments[-1] += token
    return 0, []


def _call(macro: Node, arguments: list[str]) -> str:
    formal = [text(n) for n in children(macro.child_by_field_name("parameters"))]
    bound = dict(zip(formal, arguments, strict=False))
    return "".join(bound.get(t, t).strip() or " " for t in _TOKEN.findall(macro_body(macro)))


@dataclass
class Edits:
    """Replacements of parts of a file. None of them changes the number of a line."""

    code: bytes
    parts: dict[tuple[int, int], str] = field(default_factory=dict)

    def replace(self, node: Node, by: str) -> None:
        self.parts[node.start_byte, node.end_byte] = by

    def span(self, begin: int, end: int, by: str) -> None:
        self.parts[begin, end] = by

    def blank(self, node: Node) -> None:
        self.parts[node.start_byte, node.end_byte] = ""

    def covers(self, node: Node) -> bool:
        """Whether the node is inside a part that is replaced."""
        return any(a <= node.start_byte and node.end_byte <= b for a, b in self.parts)

    def apply(self) -> str:
        result, at = b"", 0
        for (begin, end), by in sorted(self.parts.items(), key=lambda p: (p[0][0], -p[0][1])):
            if begin < at:
                continue  # inside a part that is gone already
            lines = self.code[begin:end].count(b"\n") - by.count("\n")
            result += self.code[at:begin] + by.encode() + b"\n" * lines
            at = end
        return (result + self.code[at:]).decode()
