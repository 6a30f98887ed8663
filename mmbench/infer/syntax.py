"""A CUDA file as inference sees it: its kernels, macros and named constants, and edits to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tree_sitter import Language, Node, Parser

from mmbench.infer.conditionals import settle_conditionals
from mmbench.infer.expansion import (
    Macro,
    expand_once,
    show_hidden,
    simple_function,
    without_brackets,
    without_token_comments,
)

_PRAGMA = re.compile(rb"(?m)^[ \t]*#[ \t]*pragma\b[^\n\\]*$")
_ALIGN = re.compile(rb"\b__align__\s*\([^()\n]*\)")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TYPE_DEFINITIONS = ("type_definition", "alias_declaration", "type_parameter_declaration",
                     "optional_type_parameter_declaration")  # fmt: skip
_WORD = re.compile(r"[A-Za-z_]\w*")


def text(node: Node | None) -> str:
    """The source text of a node; empty for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def walk(node: Node) -> Iterator[Node]:
    """Every node of a tree, parents first, without comments."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        if found.type != "comment":
            yield found
            waiting.extend(reversed(found.children))


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
    """The tree of a text. Pragmas are hidden from the parser, which knows them at few places;
    so are alignments, but for those in macros, whose text is used."""
    import tree_sitter_cuda

    hidden = _PRAGMA.sub(lambda found: b" " * len(found.group()), code)
    hidden = b"".join(
        line
        if line.lstrip().startswith(b"#") or line.rstrip().endswith(b"\\")
        else _ALIGN.sub(lambda found: b" " * len(found.group()), line)
        for line in hidden.splitlines(keepends=True)
    )
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


def is_part(node: Node, outer_type: str, field: str) -> bool:
    """Whether a node is this field of the one around it, which is of that type."""
    outer = node.parent
    if outer is None or outer.type != outer_type:
        return False
    part = outer.child_by_field_name(field)
    return part is not None and part.id == node.id


def row_sizes(declarator: Node) -> list[Node]:
    """The sizes of a parameter's rows: K of ``A[M][K]`` and ``(*A)[K]``, none of ``A[M]``."""
    sizes: list[Node] = []
    node: Node | None = declarator
    while node is not None and node.type == "array_declarator":
        size = node.child_by_field_name("size")
        sizes[:0] = [size] if size is not None else []
        node = node.child_by_field_name("declarator")
        if node is not None and node.type == "identifier":
            return sizes[1:] if size is not None else sizes
    inner = children(node)[0] if node is not None and len(children(node)) == 1 else None
    pointer = inner is not None and inner.type == "pointer_declarator"
    plain = pointer and inner is not None and children(inner)[-1].type == "identifier"
    return sizes if plain and node is not None and node.type == "parenthesized_declarator" else []


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
    path: Path | None = None  # of a header
    foreign: set[str] = field(default_factory=set)  # macros that only those define
    types: set[str] = field(default_factory=set)  # names of types that the file makes
    functions: dict[str, Macro] = field(default_factory=dict)  # device functions of one statement

    def value(self, name: str) -> str:
        """The body of an object-like macro's first definition; empty if there is none."""
        return macro_body(self.macros[name][0]) if name in self.macros else ""


def macro_body(node: Node) -> str:
    return _COMMENT.sub(" ", text(node.child_by_field_name("value"))).replace("\\\n", " ").strip()


def read(
    source: str,
    folders: Sequence[Path],
    defines: Mapping[str, str] | None = None,
    depth: int = 4,
) -> Source:
    """Parse a file and find its macros and kernels, and the macros of its local headers.

    ``defines`` are macros given on the command line: they take part in ``#if``.
    """
    find = partial(find_header, folders=folders)
    source = settle_conditionals(source, defines or {}, find)
    found = _parsed(source, folders, defines or {}, depth)
    shown = show_hidden(source, {name: _macro(nodes[0]) for name, nodes in found.macros.items()})
    return found if shown == source else _parsed(shown, folders, defines or {}, depth)


def _parsed(source: str, folders: Sequence[Path], defines: Mapping[str, str], depth: int) -> Source:
    code = source.encode()
    found = Source(code, parse_tree(code))
    for node in walk(found.root):
        if node.type in ("preproc_def", "preproc_function_def"):
            found.macros.setdefault(text(node.child_by_field_name("name")), []).append(node)
        elif node.type == "function_definition" and has_word(node, "__global__"):
            _add_kernel(found, node)
        elif node.type == "function_definition":
            _add_function(found, node)
        elif node.type in _TYPE_DEFINITIONS:
            found.types |= {text(n) for n in walk(node) if n.type == "type_identifier"}
        elif node.type == "preproc_include" and depth > 0:
            path = find_header(text(node.child_by_field_name("path")), folders)
            if path is not None:
                beside = (path.parent, *folders[1:])
                found.headers.append(_header(path, beside, defines, depth - 1))
    _take_over(found)
    return found


def _header(path: Path, folders: Sequence[Path], defines: Mapping[str, str], depth: int) -> Source:
    found = read(path.read_text(encoding="utf-8", errors="replace"), folders, defines, depth)
    found.path = path
    return found


def _take_over(found: Source) -> None:
    """A file knows what its headers define."""
    for header_source in found.headers:
        found.types |= header_source.types
        found.functions = header_source.functions | found.functions
        for name, nodes in header_source.macros.items():
            if name not in found.macros:
                found.macros[name] = nodes
                found.foreign.add(name)


def find_header(included: str, folders: Sequence[Path]) -> Path | None:
    """The file that an include names: beside the source (quotes only) or in a further folder."""
    name = included.strip('"<>')
    searched = folders if included.startswith('"') else folders[1:]
    return next((f / name for f in searched if (f / name).is_file()), None)


def has_word(function: Node, word: str) -> bool:
    """Whether a function's declaration, its body left out, has this word."""
    outer = function.parent
    linked = outer is not None and outer.type == "linkage_specification"
    begin = outer.start_byte if linked and outer is not None else function.start_byte
    body = function.child_by_field_name("body")
    heads = [child for child in function.children if body is None or child.id != body.id]
    parts = (n for head in heads for n in walk(head) if not n.children and begin <= n.start_byte)
    return any(text(part) == word for part in parts)


def _add_kernel(source: Source, node: Node) -> None:
    declarator = function_declarator(node)
    if declarator is None:
        return
    parameters = declarator.child_by_field_name("parameters")
    parent = node.parent
    template = parent if parent is not None and parent.type == "template_declaration" else None
    name = declared(declarator.child_by_field_name("declarator") or declarator)
    source.kernels.append(Kernel(name, node, tuple(children(parameters)), template))


def _macro(node: Node) -> Macro:
    """A macro's definition."""
    body = macro_body(node)
    if node.type == "preproc_def":
        return Macro(body)
    parameters = children(node.child_by_field_name("parameters"))
    return Macro(body, tuple(text(parameter) for parameter in parameters))


def _add_function(source: Source, node: Node) -> None:
    """A function at file level that can be put in the place of its calls; none if overloaded."""
    declarator = function_declarator(node)
    parent = node.parent
    if declarator is None or (parent is not None and parent.type == "field_declaration_list"):
        return
    name = declared(declarator.child_by_field_name("declarator") or declarator)
    template: tuple[str, ...] = ()
    if parent is not None and parent.type == "template_declaration":
        listed = children(parent.child_by_field_name("parameters"))
        template = tuple(_last_name(n) for n in listed)
    formal = tuple(_last_name(n) for n in children(declarator.child_by_field_name("parameters")))
    found = simple_function(name, node, formal, template)
    if found is not None and (found.value or has_word(node, "__device__")):
        twice = name in source.functions
        source.functions[name] = Macro("", (), (), function=True) if twice else found


def _last_name(parameter: Node) -> str:
    """The name of a function's or a template's parameter."""
    declarator = parameter.child_by_field_name("declarator")
    if declarator is not None:
        return declared(declarator)
    names = [n for n in walk(parameter) if n.type.endswith("identifier")]
    return text(names[0]) if names else ""


def expand(source: Source, code: str, keep: frozenset[str], functions: bool = False) -> str:
    """The code with the file's macros expanded, but for the names to keep; for analysis only.

    ``functions``: calls of its simple device functions, too.
    """
    macros = {name: _macro(nodes[0]) for name, nodes in source.macros.items()}
    if functions:
        macros = source.functions | macros
    code = without_token_comments(code)
    for _ in range(8):  # of macros in macros
        expanded = expand_once(code, macros, keep)
        if expanded == code or len(expanded) > 500_000:
            break
        code = expanded
    return without_brackets(code, source.types)


def once_through(code: str) -> str:
    """A kernel whose grid-stride loops are passed once, as a grid of full size does; for analysis.

    ``for (int i = begin; i < n; i += gridDim.x * blockDim.x) ...`` begins where any thread does.
    """
    if "gridDim" not in code:
        return code
    data = code.encode()
    nodes = list(walk(parse_tree(data)))
    strides = {"gridDim"} | {
        declared(node)
        for node in nodes
        if node.type == "init_declarator" and "gridDim" in text(node.child_by_field_name("value"))
    }
    parts: list[tuple[int, int, str]] = []
    for node in nodes:
        step, body = node.child_by_field_name("update"), node.child_by_field_name("body")
        if node.type != "for_statement" or step is None or body is None:
            continue
        if not strides & words(step):
            continue
        first = text(node.child_by_field_name("initializer")).rstrip(";")
        condition = text(node.child_by_field_name("condition"))
        parts.append((node.start_byte, body.start_byte, f"{{ {first}; if ({condition}) "))
        parts.append((node.end_byte, node.end_byte, "}"))
    for begin, end, by in sorted(parts, reverse=True):
        data = data[:begin] + by.encode() + data[end:]
    return data.decode()


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
