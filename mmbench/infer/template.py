"""Template parameters of a kernel, made into constants and types in front of it.

``template <int BS> __global__ void f(...)`` becomes ``constexpr int BS = 16; __global__ ...``:
the runners look for one function, by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from mmbench.infer.host import instantiated, template_arguments
from mmbench.infer.launch_calls import launches
from mmbench.infer.parameters import DTYPES, aliases
from mmbench.infer.syntax import Edits, Kernel, Source, children, declared, text, walk


@dataclass
class Template:
    """A kernel's template parameters with their values; empty text for those without one."""

    types: dict[str, str] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)  # by the user, as macros
    choices: dict[str, tuple[int, ...]] = field(default_factory=dict)  # where the file has several

    def missing(self, tile: str) -> list[str]:
        return [name for name, value in self.values.items() if not value and name != tile]

    def declarations(self, tile: str) -> str:
        """One line of C++ that declares them all."""
        types = {name: value for name, value in self.types.items() if name not in self.given}
        parts = [f"using {name} = {value};" for name, value in types.items()]
        for name, value in self.values.items():
            if name in self.given or name == tile == "TILE_SIZE":
                continue
            value = "TILE_SIZE" if name == tile else value
            parts.append(f"constexpr {self.kinds[name]} {name} = {value};")
        return " ".join(parts) + " " if parts else ""


def read_template(source: Source, kernel: Kernel, given: Mapping[str, str]) -> Template:
    """The parameters, with the values given, else those that the file has for them.

    Those are its own launch's, an explicit instantiation's, or the defaults.
    """
    template = Template()
    if kernel.template is None:
        return template
    used = [template_arguments(launch) for launch in launches(source.root, kernel.name)]
    used = [each for each in used if each] + list(instantiated(source.root, kernel.name))
    launched = used[0] if used else ()
    formal = children(kernel.template.child_by_field_name("parameters"))
    for i, node in enumerate(formal):
        default = node.child_by_field_name("default_type")
        value = launched[i] if i < len(launched) else text(default)
        if "type_parameter" in node.type:
            name_node = node.child_by_field_name("name") or (children(node) or [node])[0]
            template.types[text(name_node)] = _type(source, value)
        else:
            _value(template, node, value)
            _choices(template, node, {each[i] for each in used if i < len(each)})
    template.given = given.keys() & (template.values.keys() | template.types.keys())
    for name in given.keys() & template.values.keys():
        template.values[name] = given[name]
    for name in given.keys() & template.types.keys():
        template.types[name] = given[name]
    return template


def classes(kernel: Kernel, template: Template) -> list[str]:
    """The type parameters that are asked for members, as in ``Config::TILE``: no numbers."""
    scopes = {
        text(node.child_by_field_name("scope"))
        for node in walk(kernel.node)
        if node.type == "qualified_identifier"
    }
    return sorted(scopes & template.types.keys() - template.given)


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


def _choices(template: Template, node: Node, values: set[str]) -> None:
    declarator = node.child_by_field_name("declarator")
    if declarator is not None and len(values) > 1 and all(map(str.isdecimal, values)):
        template.choices[declared(declarator)] = tuple(sorted(map(int, values)))


def make_plain(edits: Edits, kernel: Kernel, template: Template, tile: str) -> None:
    if kernel.template is not None:
        begin, end = kernel.template.start_byte, kernel.node.start_byte
        edits.span(begin, end, template.declarations(tile))
