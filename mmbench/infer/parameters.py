"""A kernel's parameters by type: three matrices and whole-number sizes, or a reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from mmbench.errors import UsageError
from mmbench.infer.syntax import Kernel, Source, children, declared, text, walk

DTYPES = {"float": "float32", "double": "float64"}
_INTEGERS = {
    "int": "int", "signed": "int", "signed int": "int", "int32_t": "int",
    "unsigned": "unsigned", "unsigned int": "unsigned", "uint32_t": "unsigned", "uint": "unsigned",
    "size_t": "size_t", "std::size_t": "size_t", "unsigned long": "size_t",
    "unsigned long int": "size_t", "unsigned long long": "size_t", "uint64_t": "size_t",
    "unsigned long long int": "size_t",
    "long": "long long", "long int": "long long", "long long": "long long",
    "long long int": "long long", "int64_t": "long long", "ptrdiff_t": "long long",
}  # fmt: skip
_QUALIFIERS = re.compile(
    r"\b(const|constexpr|volatile|restrict|__restrict__|__restrict|struct|__grid_constant__)\b"
)
HINT = "give the file a header (mmbench show tiled prints one)"


@dataclass(frozen=True)
class Parameter:
    """One parameter, its type resolved through typedefs, macros and template parameters."""

    name: str
    ctype: str
    pointer: bool
    const: bool


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel that can be a matrix product."""

    parameters: tuple[Parameter, ...]
    dtype: str

    @property
    def matrices(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.pointer)

    @property
    def sizes(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if not p.pointer)


def pointer_count(kernel: Kernel) -> int:
    """How many of the parameters are pointers or arrays."""
    return sum(_depth(node) == 1 for node in kernel.parameters)


def _depth(parameter: Node) -> int:
    """Levels of pointers, 0 for a value; -1 for what cannot be passed."""
    declarators = parameter.children_by_field_name("declarator")
    nodes = [node for declarator in declarators for node in walk(declarator)]
    depth = sum(n.type in ("*", "array_declarator", "abstract_array_declarator") for n in nodes)
    return -1 if any(n.type in ("&", "&&", "function_declarator") for n in nodes) else depth


def aliases(source: Source) -> dict[str, str]:
    """Names of types that the file itself gives: typedef, using, and macros."""
    found = {name: source.value(name) for name in source.macros}
    for node in walk(source.root):
        if node.type == "type_definition":
            for declarator in node.children_by_field_name("declarator"):
                if declarator.type.endswith("identifier"):
                    found[text(declarator)] = text(node.child_by_field_name("type"))
        elif node.type == "alias_declaration":
            found[text(node.child_by_field_name("name"))] = text(node.child_by_field_name("type"))
    return found


def _plain_type(node: Node, names: dict[str, str]) -> str:
    words = [text(n) for n in children(node) if n.type.endswith(("specifier", "qualifier"))]
    base = text(node.child_by_field_name("type"))
    words = [w for w in words if w != base]
    name = _QUALIFIERS.sub(" ", " ".join([*words, base]))
    name = " ".join(name.split())
    for _ in range(8):
        if not names.get(name) or "{" in names[name]:
            break
        name = " ".join(_QUALIFIERS.sub(" ", names[name]).split())
    return name


def read_signature(
    path: Path, source: Source, kernel: Kernel, template_types: dict[str, str]
) -> Signature:
    """Read the parameters; raise UsageError for those that no product has."""
    names = aliases(source) | template_types
    entry = f"{path}: {kernel.name}"
    parameters = []
    for node in kernel.parameters:
        depth, ctype = _depth(node), _plain_type(node, names)
        declarator = node.child_by_field_name("declarator")
        name = declared(declarator) if declarator is not None else ""
        if depth not in (0, 1) or not name:
            raise UsageError(
                f"{entry} has the parameter `{' '.join(text(node).split())}`, which is neither a "
                f"plain pointer nor a size; mmbench passes float or double pointers and sizes"
            )
        const = text(node).split("*")[0].find("const") >= 0
        parameters.append(Parameter(name, ctype, depth == 1, const))
    return _checked(entry, parameters)


def _checked(entry: str, parameters: list[Parameter]) -> Signature:
    matrices = [p for p in parameters if p.pointer]
    values = [p for p in parameters if not p.pointer]
    strange = [p for p in values if p.ctype not in _INTEGERS]
    structs = [p for p in strange if p.ctype not in ("float", "double", "half", "__half", "bool")]
    if structs:
        raise UsageError(
            f"{entry} takes {_list(structs)} by value; mmbench passes three plain pointers and "
            "sizes, so give it a kernel that takes those"
        )
    types = dict.fromkeys(p.ctype for p in matrices)
    if any(ctype not in DTYPES for ctype in types):
        raise UsageError(
            f"{entry} has matrices of {' and '.join(types)}; mmbench has float and double ones"
        )
    if len(matrices) != 3 or len(types) != 1:
        what = _list(matrices) or "none"
        raise UsageError(
            f"{entry} has {len(matrices)} pointers ({what}) where a product has three of one "
            "type, A, B and C; give it a kernel that takes those"
        )
    if strange:
        raise UsageError(
            f"{entry} takes {_list(strange)}, and mmbench has no value for it; give it a kernel "
            "that takes A, B, C and sizes only"
        )
    if not values:
        raise UsageError(
            f"{entry} takes no size, so it is right for one size only; "
            "make the size a parameter such as `int N`"
        )
    whole = [
        p if p.pointer else Parameter(p.name, _INTEGERS[p.ctype], False, p.const)
        for p in parameters
    ]
    return Signature(tuple(whole), DTYPES[next(iter(types))])


def _list(parameters: list[Parameter]) -> str:
    return ", ".join(f"{p.ctype} {'*' if p.pointer else ''}{p.name}" for p in parameters)
