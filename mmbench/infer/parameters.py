"""A kernel's parameters by type: three matrices, factors and sizes, or a reason why not."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from tree_sitter import Node

from mmbench.errors import UsageError
from mmbench.infer.syntax import Kernel, Source, children, declared, row_sizes, text, walk
from mmbench.overrides import Overrides, as_argument
from mmbench.product import MATRICES
from mmbench.spec import FACTORS, FRACTIONAL, NULL

DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "__half": "float16",
    "int": "int32", "int32_t": "int32", "signed": "int32", "long long": "int64",
    "int64_t": "int64", "char": "int8", "signed char": "int8", "int8_t": "int8",
    "float2": "float32", "float4": "float32", "double2": "float64", "half2": "float16",
    "__half2": "float16", "int4": "int32",
}  # fmt: skip
_FACTOR_TYPES = {"float": "float", "double": "double", "half": "half", "__half": "half"}
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
HINT = "say what it is with --args, or give the file a header (mmbench init)"


@dataclass(frozen=True)
class Parameter:
    """One parameter, its type resolved through typedefs, macros and template parameters.

    ``role`` is what is passed for it, where ``--args`` or a factor's name says so. A
    ``constant`` is no parameter at all but a size that the file itself fixes.
    """

    name: str
    ctype: str
    pointer: bool
    const: bool
    role: str = ""
    constant: bool = False


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel that can be a matrix product."""

    parameters: tuple[Parameter, ...]

    @property
    def matrices(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.pointer and p.role != NULL)

    @property
    def sizes(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if not p.pointer and p.ctype not in FRACTIONAL)


def pointer_count(kernel: Kernel) -> int:
    """How many of the parameters are pointers or arrays."""
    return sum(_depth(node) == 1 for node in kernel.parameters)


def pointer_names(kernel: Kernel) -> set[str]:
    """The names of those."""
    found = (node for node in kernel.parameters if _depth(node) == 1)
    return {declared(d) for node in found for d in node.children_by_field_name("declarator")}


def _depth(parameter: Node) -> int:
    """Levels of pointers, 0 for a value; -1 for what cannot be passed. Rows are no level."""
    declarators = parameter.children_by_field_name("declarator")
    nodes = [node for declarator in declarators for node in walk(declarator)]
    if any(row_sizes(declarator) for declarator in declarators):
        return 1
    depth = sum(n.type in ("*", "array_declarator", "abstract_array_declarator") for n in nodes)
    return -1 if any(n.type in ("&", "&&", "function_declarator") for n in nodes) else depth


def aliases(source: Source) -> dict[str, str]:
    """Names of types that the file and its headers give: typedef, using, and macros."""
    found: dict[str, str] = {}
    for header in source.headers:
        found |= aliases(header)
    found |= {name: source.value(name) for name in source.macros}
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
    name = " ".join(name.split()).removeprefix("std::")
    for _ in range(8):
        if not names.get(name) or "{" in names[name]:
            break
        name = " ".join(_QUALIFIERS.sub(" ", names[name]).split()).removeprefix("std::")
    return name


def read_signature(
    path: Path,
    source: Source,
    kernel: Kernel,
    template_types: dict[str, str],
    overrides: Overrides,
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
                f"plain pointer nor a value; {_WRAP}"
            )
        const = text(node).split("*")[0].find("const") >= 0
        parameters.append(Parameter(name, ctype, depth == 1, const))
    roles = overrides.roles([p.name for p in parameters])
    return _checked(entry, [replace(p, role=roles.get(p.name, "")) for p in parameters])


_WRAP = (
    "mmbench fills pointers to float, double, half and int, factors and sizes: "
    "write a small kernel that takes (A, B, C, N) and calls this code, made __device__"
)


def _checked(entry: str, parameters: list[Parameter]) -> Signature:
    found = tuple(_with_role(entry, p) for p in parameters)
    signature = Signature(found)
    matrices = signature.matrices
    for parameter in matrices:
        if parameter.ctype not in DTYPES:
            raise UsageError(
                f"{entry} has matrices of {parameter.ctype}; mmbench has float, double, half, "
                "int and 8-bit int ones: write a small kernel that takes those and calls this "
                "code, made __device__"
            )
    if not matrices:
        raise UsageError(
            f"{entry} takes no pointer: mmbench passes A, B and C; make them parameters, such as "
            "(const float *A, const float *B, float *C, int N)"
        )
    if len([p for p in found if p.pointer]) < len(MATRICES):
        raise UsageError(
            f"{entry} has {len(matrices)} pointers ({', '.join(p.name for p in matrices)}) where a "
            "product has three: mmbench passes A, B and C; make them parameters, such as "
            "(const float *A, const float *B, float *C, int N)"
        )
    if len(matrices) != len(MATRICES):
        what = ", ".join(p.name for p in matrices) or "none"
        raise UsageError(
            f"{entry} has {len(matrices)} pointers ({what}) where a product has three; say which "
            'are A, B and C with --args, such as "out=C, x=A, w=B, bias=null"'
        )
    return signature


def _with_role(entry: str, parameter: Parameter) -> Parameter:
    """The parameter with its C type in a header's words, and its role where that is plain."""
    if parameter.pointer:
        if parameter.role:
            as_argument(parameter.role, "", True)
        return parameter
    ctype = _INTEGERS.get(parameter.ctype) or _FACTOR_TYPES.get(parameter.ctype)
    if parameter.ctype == "bool":
        ctype = "bool"
        if not parameter.role:
            raise UsageError(
                f"{entry} takes bool {parameter.name}; say what to pass for it with --args, such "
                f'as "{parameter.name}=0"'
            )
    if ctype is None:
        raise UsageError(f"{entry}: parameter {parameter.name} has type {parameter.ctype}; {_WRAP}")
    role = parameter.role
    if not role and ctype in FRACTIONAL:
        role = parameter.name.lower()
        if role not in FACTORS:
            raise UsageError(
                f"{entry} takes {parameter.ctype} {parameter.name}; say what to pass for it with "
                f'--args, such as "{parameter.name}=1.0" or "{parameter.name}=alpha"'
            )
    if role:
        role = as_argument(role, ctype, False, ("TILE_SIZE",)).name
    return replace(parameter, ctype=ctype, role=role)
