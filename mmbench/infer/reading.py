"""From a file's text to its spec, a step after the other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mmbench.errors import UsageError
from mmbench.expressions import Expression
from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.choice import choose
from mmbench.infer.header_text import header_text
from mmbench.infer.host import HostLaunch, Translator, translator
from mmbench.infer.isolate import isolate, reachable
from mmbench.infer.launch import LINEAR_BLOCK, Sample, Shape, derive
from mmbench.infer.parameters import HINT, Signature, aliases, read_signature
from mmbench.infer.roles import Roles, find_roles
from mmbench.infer.shared import dynamic_bytes, find_dynamic, fixed_side
from mmbench.infer.syntax import (
    Edits,
    Kernel,
    Source,
    expand,
    parse_tree,
    read,
    text,
    walk,
)
from mmbench.infer.template import Template, make_plain, read_template
from mmbench.infer.tile import (
    PARAMETER,
    SWEEP,
    Constant,
    Tile,
    find_tile,
    rename,
    rewrite,
    takes_name,
)
from mmbench.spec import KernelSpec

_KEEP = frozenset({PARAMETER})


@dataclass(frozen=True)
class Inferred:
    """A kernel without a header, read all the same."""

    spec: KernelSpec
    notes: tuple[str, ...]
    header: str


@dataclass(frozen=True)
class _Launch:
    shape: Shape
    shared: str | None
    from_host: bool


@dataclass(frozen=True)
class _Reading:
    """What is known of a kernel before its launch."""

    label: str
    program: Source
    kernel: Kernel
    signature: Signature
    roles: Roles
    tile: Tile
    body: Body
    code: str


def infer(path: Path, source: str, entry: str | None = None) -> Inferred:
    """Read a kernel from a file without a header; raise UsageError where it is not clear."""
    file = read(source, path.parent)
    kernel = choose(path, file, entry)
    label = f"{path}: {kernel.name}"
    template = read_template(file, kernel)
    signature = read_signature(path, file, kernel, template.types)
    tile, constants = find_tile(file, kernel, reachable(file, kernel), template.values)
    if missing := template.missing(tile.name):
        raise UsageError(
            f"{label} has the template parameter {', '.join(missing)} without a value; give it "
            "a default or launch the kernel in the file"
        )
    edits = _tiled(file, kernel, template, tile, constants)
    program = read(edits.apply(), path.parent)
    keep = _KEEP if tile.name else frozenset[str]()
    body, code = _body(program, kernel.name, keep)
    same = next(k for k in program.kernels if k.name == kernel.name)
    roles = find_roles(label, signature, body)
    reading = _Reading(label, program, same, signature, roles, tile, body, code)
    launch = _launch(reading)
    isolate(edits, file, kernel, path.parent)
    _free_name(edits, file, tile, launch)
    spec = _spec(path, edits.apply(), reading, launch)
    return Inferred(spec, _notes(spec, reading, launch), header_text(spec))


def _tiled(
    file: Source, kernel: Kernel, template: Template, tile: Tile, constants: dict[str, Constant]
) -> Edits:
    edits = Edits(file.code)
    make_plain(edits, kernel, template, tile.name)
    if tile.name:
        rewrite(edits, file, tile, constants)
    return edits


def _free_name(edits: Edits, file: Source, tile: Tile, launch: _Launch) -> None:
    """Where the file uses TILE_SIZE for something else than the parameter, it is renamed."""
    if tile.name != PARAMETER and takes_name(file) and _uses_tile(launch):
        for node in walk(file.root):
            if text(node) == PARAMETER and node.type == "identifier" and not edits.covers(node):
                rename(edits, file, PARAMETER, f"{PARAMETER}_own")
                return


def _body(program: Source, name: str, keep: frozenset[str]) -> tuple[Body, str]:
    """The kernel's body with the macros expanded, and the constants of the file."""
    kernel = next(k for k in program.kernels if k.name == name)
    code = expand(program, text(kernel.node), keep)
    root = parse_tree(code.encode())
    function = next((n for n in walk(root) if n.type == "function_definition"), root)
    return Body(function, _constants(program, keep)), code


def _constants(program: Source, keep: frozenset[str]) -> dict[str, Poly]:
    """The named numbers of a file and its local headers."""
    found: dict[str, Poly] = {}
    for header in program.headers:
        found |= _constants(header, keep)
    lines = []
    for node in walk(program.root):
        if node.type == "declaration" and re.match(r"(?:static\s+|inline\s+)*const", text(node)):
            lines.append(expand(program, text(node), keep))
        elif node.type == "enumerator" and "=" in text(node):
            lines.append(expand(program, f"const int {text(node)};", keep))
    for node in walk(parse_tree("\n".join(lines).encode())):
        if node.type == "init_declarator":
            name = text(node.child_by_field_name("declarator"))
            value = Body(node, found).poly(node.child_by_field_name("value"))
            if not value.atoms - keep:
                found.setdefault(name, value)
    return found


def _launch(reading: _Reading) -> _Launch:
    sizes = reading.roles.sizes
    parameters = enumerate(reading.signature.parameters)
    places = {i: sizes[p.name] for i, p in parameters if not p.pointer}
    keep = _KEEP if reading.tile.name else frozenset[str]()
    host = translator(reading.program, reading.kernel.name, (reading.body.constants, keep), places)
    given, linear = _host_shape(host), LINEAR_BLOCK
    if given is not None and len(given.block) == 1 and given.block[0].isdigit():
        linear = int(given.block[0])
    sample = Sample(reading.tile.value or Sample.tile, linear, fixed_side(reading.body))
    shape = derive(reading.body, reading.roles, reading.code, sample)
    if shape is not None and reading.tile.fixed and _mentions_tile(*shape.block):
        shape = None  # a free block beside tiles that are not
    found = shape or given
    if found is None:
        raise UsageError(
            f"{reading.label}: its block and grid cannot be read from the kernel, and the file "
            f"has no launch that tells them; {HINT} with block and grid"
        )
    shared = _shared(reading, host)
    if shared and given and _mentions_tile(*found.block) and not _mentions_tile(shared):
        return _Launch(given, shared, True)  # the file's bytes go with the file's block
    return _Launch(found, shared, shape is None)


def _host_shape(host: tuple[HostLaunch, Translator] | None) -> Shape | None:
    if host is None:
        return None
    launch, translate = host
    grid, block = (translate.dims(node) for node in launch.configuration[:2])
    return Shape(block, grid) if block is not None and grid is not None else None


def _shared(reading: _Reading, host: tuple[HostLaunch, Translator] | None) -> str | None:
    program = reading.program
    dynamic = find_dynamic(program, reachable(program, reading.kernel), aliases(program))
    if dynamic is None:
        return None
    found = dynamic_bytes(reading.body, dynamic)
    if found is None and host is not None and len(host[0].configuration) > 2:
        found = host[1].expression(host[0].configuration[2])
    if found is None:
        raise UsageError(
            f"{reading.label} uses dynamic shared memory ({dynamic.name}) whose size cannot be "
            f"read; {HINT} with dynamic_shared_bytes"
        )
    return found


def _uses_tile(launch: _Launch) -> bool:
    return _mentions_tile(*launch.shape.block, *launch.shape.grid, launch.shared or "")


def _mentions_tile(*parts: str) -> bool:
    return any(PARAMETER in part for part in parts)


def _spec(path: Path, source: str, reading: _Reading, launch: _Launch) -> KernelSpec:
    params: dict[str, tuple[int, ...]] = {}
    name, tile = reading.kernel.name, reading.tile
    if tile.name or _uses_tile(launch):
        params[PARAMETER] = SWEEP if tile.value is None else (tile.value,)
    return KernelSpec(
        name=path.stem,
        path=path,
        source=source,
        entry=name,
        summary=f"{name}, read from the file without a header.",
        block=tuple(map(Expression, launch.shape.block)),
        grid=tuple(map(Expression, launch.shape.grid)),
        reads=Expression("M * K + K * N"),
        writes=Expression("M * N"),
        arguments=reading.roles.arguments(reading.signature),
        params=params,
        dynamic_shared=Expression(launch.shared) if launch.shared else None,
        dtype=reading.signature.dtype,
    )


def _notes(spec: KernelSpec, reading: _Reading, launch: _Launch) -> tuple[str, ...]:
    signature, tile, roles = reading.signature, reading.tile, reading.roles
    meanings = [
        p.name if p.name == a.name else f"{p.name} = {a.name}"
        for p, a in zip(signature.parameters, spec.arguments, strict=True)
    ]
    if tile.name:
        size = f"{tile.name} is the tile"
    elif tile.fixed:
        size = f"{', '.join(tile.fixed)} stay as they are"
    else:
        size = "the tile is the block" if spec.params else "no tile to vary"
    block, grid = (", ".join(e.text for e in axes) for axes in (spec.block, spec.grid))
    where = " from the file's own launch" if launch.from_host else ""
    shared = f", {spec.dynamic_shared} bytes of dynamic shared memory" if launch.shared else ""
    line = (
        f"kernel {spec.entry}; {', '.join(meanings)}; {size}; "
        f"block ({block}), grid ({grid}){where}{shared}"
    )
    return (
        line,
        *roles.notes,
        "traffic not declared: requested bytes are not known (a header can state them)",
    )
