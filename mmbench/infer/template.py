"""Template parameters of a kernel, made into constants and types in front of it.

``template <int BS> __global__ void f(...)`` becomes ``constexpr int BS = 16; __global__ ...``:
the runners look for one function, by its name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.infer.host import find_launch
from mmbench.infer.parameters import DTYPES, aliases
from mmbench.infer.syntax import Edits, Kernel, Source, children, declared, text


@dataclass
class Template:
    """A kernel's template parameters with their values; empty text for those without one."""

    types: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def missing(self, tile: str) -> list[str]:
        return [name for name, value in self.values.items() if not value and name != tile]

    def declarations(self, tile: str) -> str:
        """One line of C++ that declares them all."""
        parts = [f"using {name} = {value};" for name, value in self.types.items()]
        for name, value in self.values.items():
            if name == tile == "TILE_SIZE":
                continue
            value = "TILE_SIZE" if name == tile else value
            parts.append(f"constexpr {self.kinds[name]} {name} = {value};")
        return " ".join(parts) + " " if parts else ""


def read_template(source: Source, kernel: Kernel) -> Template:
    """The parameters, with the arguments of the file's own launch or the defaults."""
    template = Template()
    if kernel.template is None:
        return template
    launch = find_launch(source.root, kernel.name)
    given = launch.template_arguments if launch is not None else ()
    formal = children(kernel.template.child_by_field_name("parameters"))
    for i, node in enumerate(formal):
        default = node.child_by_field_name("default_type")
        value = given[i] if i < len(given) else text(default)
        if "type_parameter" in node.type:
            name_node = node.child_by_field_name("name") or (children(node) or [node])[0]
            template.types[text(name_node)] = _type(source, value)
        else:
            _value(template, node, value)
    return template


def _type(source: Source, value: str) -> str:
    resolved = aliases(source).get(value, value)
    return resolved if resolved in DTYPES else "float"


def _value(template: Template, node: Node, value: str) -> None:
    declarator = node.child_by_field_name("declarator")
    if declarator is not None:
        name = declared(declarator)
        default = text(node.child_by_field_name("default_value"))
        template.values[name] = (value or default) if value != name else ""
        kind = text(node.child_by_field_name("type"))
        template.kinds[name] = kind if kind != "auto" else "int"


def make_plain(edits: Edits, kernel: Kernel, template: Template, tile: str) -> None:
    if kernel.template is not None:
        begin, end = kernel.template.start_byte, kernel.node.start_byte
        edits.span(begin, end, template.declarations(tile))
