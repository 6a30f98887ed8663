"""From a file's text to its spec, a step after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mmbench import cache
from mmbench.errors import UsageError
from mmbench.expressions import Expression
from mmbench.gpu_only import needs_gpu
from mmbench.infer.algebra import Poly
from mmbench.infer.body import Body
from mmbench.infer.choice import choose
from mmbench.infer.fixed import FixedSizes, find_fixed_sizes
from mmbench.infer.header_text import header_text
from mmbench.infer.host import Translator, translator
from mmbench.infer.isolate import isolate, reachable
from mmbench.infer.launch import (
    GUESSED,
    LINEAR_BLOCK,
    PARAMETER,
    Sample,
    Shape,
    derive,
    follow,
    launch_bound,
    usual_shapes,
)
from mmbench.infer.launch_calls import HostLaunch
from mmbench.infer.parameters import DTYPES, Signature, aliases, read_signature
from mmbench.infer.roles import Roles, find_roles
from mmbench.infer.settling import settle_parameters
from mmbench.infer.shared import capacity, dynamic_bytes, find_dynamic, fixed_side
from mmbench.infer.syntax import (
    Edits,
    Kernel,
    Source,
    expand,
    has_word,
    once_through,
    parse_tree,
    read,
    text,
    walk,
)
from mmbench.infer.template import Template, classes, make_plain, read_template
from mmbench.infer.tile import (
    SWEEP,
    Constant,
    Tile,
    find_constants,
    find_tile,
    release,
    rename,
    rewrite,
    takes_name,
    undefined_extents,
)
from mmbench.overrides import Overrides, split_axes
from mmbench.product import MATRICES, Product
from mmbench.spec import KernelSpec

_KEEP = frozenset({PARAMETER})
_MOST_READINGS = 18


@dataclass(frozen=True)
class Inferred:
    """A kernel without a header, read all the same; the spec holds its other readings too."""

    spec: KernelSpec
    notes: tuple[str, ...]
    header: str


@dataclass(frozen=True)
class _Launch:
    shape: Shape
    shared: str | None
    origin: str = ""


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
    overrides: Overrides
    sizes: FixedSizes


def infer(path: Path, source: str, overrides: Overrides | None = None) -> Inferred:
    """Read a kernel from a file without a header; raise UsageError where it is not clear.

    ``overrides`` are what the user has said of it.
    """
    overrides = overrides or Overrides()
    overrides.check_launch()
    folders = (path.parent, *overrides.includes)
    file = read(source, folders, overrides.defines)
    kernel = _chosen(path, source, file, overrides)
    label = f"{path}: {kernel.name}"
    template = read_template(file, kernel, overrides.defines)
    signature = read_signature(path, file, kernel, template.types, overrides)
    _refuse_names_of_parameters(label, signature, overrides)
    needed = reachable(file, kernel)
    constants = find_constants(file, kernel, needed, template.values | dict(overrides.defines))
    tile = find_tile(file, kernel, needed, constants, frozenset(overrides.defines))
    tile = replace(tile, choices=template.choices.get(tile.name, ()))
    _refuse_missing(label, kernel, template, tile)
    _refuse_undefined(
        label,
        undefined_extents(
            file, kernel, {tile.name, *constants, *template.values, *overrides.defines}
        ),
    )
    edits = _tiled(file, kernel, template, tile, constants)
    for name in overrides.defines:
        release(edits, file, name, constants)
    program = read(edits.apply(), folders, overrides.defines)
    same = next(k for k in program.kernels if k.name == kernel.name)
    keep = _KEEP if tile.name else frozenset[str]()
    sizes = FixedSizes()
    if not signature.sizes:
        candidates = frozenset(needed & constants.keys() - {tile.name} | overrides.defines.keys())
        body, _ = _body(program, kernel.name, keep | candidates, {})
        sizes = find_fixed_sizes(label, signature, body, constants, candidates, overrides.defines)
        signature = sizes.added_to(signature)
    given = _numbers(overrides)
    signature, settled = settle_parameters(
        signature, _body(program, kernel.name, keep | sizes.names, given)[0]
    )
    body, code = _body(program, kernel.name, keep | sizes.names, given, settled)
    down = _storage_of_c(overrides)
    readings = [
        _Reading(label, program, same, signature, roles, tile, body, code, overrides, sizes)
        for roles in find_roles(label, signature, body, down)
    ]
    launches = [(reading, launch) for reading in readings for launch in _launches(reading)]
    ignored = isolate(edits, file, kernel, folders)
    _free_name(edits, file, tile, launches[0][1])
    text = edits.apply()
    found = [_spec(path, text, reading, launch) for reading, launch in launches]
    notes = _notes(found[0], *launches[0], ignored)
    first, *others = (replace(spec, notes=notes) for spec in _distinct(found)[:_MOST_READINGS])
    return Inferred(replace(first, alternatives=tuple(others)), notes, header_text(first))


def _distinct(specs: list[KernelSpec]) -> list[KernelSpec]:
    found: list[KernelSpec] = []
    for spec in specs:
        if spec not in found:
            found.append(spec)
    return found


def _chosen(path: Path, source: str, file: Source, overrides: Overrides) -> Kernel:
    if not file.kernels:
        _refuse_hidden(path, source)
    return choose(path, file, overrides.entry)


def _refuse_hidden(path: Path, source: str) -> None:
    """Raise UsageError where the file's kernels are all in an #if that is not taken."""
    for node in walk(parse_tree(source.encode())):
        above = node.parent
        while node.type == "function_definition" and above is not None:
            if above.type in ("preproc_if", "preproc_ifdef") and has_word(node, "__global__"):
                line = text(above).split("\n", 1)[0].strip()
                raise UsageError(
                    f"{path}:{above.start_point[0] + 1}: the kernel is in an #if that is not taken "
                    f"({line}); give the macro with --define"
                )
            above = above.parent


def _refuse_names_of_parameters(label: str, signature: Signature, overrides: Overrides) -> None:
    for parameter in signature.parameters:
        if parameter.name in overrides.defines:
            raise UsageError(
                f"{label}: --define {parameter.name} would replace the parameter of that name; "
                f'say what is passed for it with --args, such as "{parameter.name}=N"'
            )


def _refuse_missing(label: str, kernel: Kernel, template: Template, tile: Tile) -> None:
    if own := classes(kernel, template):
        raise UsageError(
            f"{label} takes {', '.join(own)} as a template parameter, which is a class and no "
            "number; write a small kernel that takes (A, B, C, N) and calls this code, made "
            "__device__"
        )
    if missing := template.missing(tile.name):
        options = [f"--define {n}={'true' if template.kinds[n] == 'bool' else 16}" for n in missing]
        one = len(missing) == 1
        raise UsageError(
            f"{label} has the template parameter{'' if one else 's'} {', '.join(missing)} without "
            f"{'a value; give it one with' if one else 'values; give them with'} "
            f"{' '.join(options)}{'' if one else ', or those that they should have'}"
        )


def _refuse_undefined(label: str, names: list[str]) -> None:
    if names:
        options = " ".join(f"--define {name}=16" for name in names[:4])
        raise UsageError(
            f"{label} uses {', '.join(names)}, which nothing in the file defines; give the "
            f"values, such as {options}"
        )


def _storage_of_c(overrides: Overrides) -> bool | None:
    """Whether C is column-major, where the options say so."""
    if overrides.layout in ("row", "col"):
        return overrides.layout == "col"
    return None


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


def _numbers(overrides: Overrides) -> dict[str, Poly]:
    """The whole numbers that ``--define`` gives, and the tile where it gives that."""
    numbers = {n: Poly.of(int(value)) for n, value in overrides.defines.items() if value.isdigit()}
    return numbers | {name: Poly.of(PARAMETER) for name in _given_tile(overrides)}


def _given_tile(overrides: Overrides) -> list[str]:
    """The names that ``--define NAME=T`` makes the tile."""
    return [name for name, value in overrides.defines.items() if value in ("T", PARAMETER)]


def _body(
    program: Source,
    name: str,
    keep: frozenset[str],
    given: Mapping[str, Poly],
    settled: Mapping[str, Poly] | None = None,
) -> tuple[Body, str]:
    """The kernel's body with macros and simple functions expanded, and the file's constants."""
    kernel = next(k for k in program.kernels if k.name == name)
    code = once_through(expand(program, text(kernel.node), keep, functions=True))
    root = parse_tree(code.encode())
    function = next((n for n in walk(root) if n.type == "function_definition"), root)
    return Body(function, _constants(program, keep) | dict(given), dict(settled or {})), code


def _constants(program: Source, keep: frozenset[str]) -> dict[str, Poly]:
    """The named numbers of a file and its local headers."""
    found: dict[str, Poly] = {}
    for header in program.headers:
        found |= _constants(header, keep)
    lines = []
    for node in walk(program.root):
        if node.type == "declaration" and re.match(r"(?:static\s+|inline\s+)*const", text(node)):
            lines.append(expand(program, text(node), keep))
        elif node.type == "field_declaration" and "constexpr" in text(node):
            inner, default = (
                text(node.child_by_field_name(part)) for part in ("declarator", "default_value")
            )
            lines.append(expand(program, f"const int {inner} = {default};", keep))
        elif node.type == "enumerator" and "=" in text(node):
            lines.append(expand(program, f"const int {text(node)};", keep))
    for node in walk(parse_tree("\n".join(lines).encode())):
        if node.type == "init_declarator":
            name = text(node.child_by_field_name("declarator"))
            value = Body(node, found).poly(node.child_by_field_name("value"))
            if name not in keep and not value.atoms - keep:
                found.setdefault(name, value)
    return found


def _launches(reading: _Reading) -> list[_Launch]:
    """The ways to launch a kernel that its text allows, the likeliest first."""
    given = _given_shape(reading.overrides)
    sizes = reading.roles.sizes
    parameters = enumerate(reading.signature.parameters)
    places = {i: sizes[p.name] for i, p in parameters if p.name in sizes}
    keep = _KEEP if reading.tile.name else frozenset[str]()
    host = translator(reading.program, reading.kernel.name, (reading.body.constants, keep), places)
    hosts, linear = _host_shape(host), LINEAR_BLOCK
    if hosts is not None and len(hosts.block) == 1 and hosts.block[0].isdigit():
        linear = int(hosts.block[0])
    block = () if given.grid else given.block  # which the grid follows
    sample = Sample(reading.tile.value or Sample.tile, linear, fixed_side(reading.body), block)
    derived = derive(reading.body, reading.roles, reading.code, sample) or Shape((), ())
    derived = Shape(block, ()).over(derived)
    shape = derived if derived.complete else None
    if shape is not None and reading.tile.fixed and not block and _mentions_tile(*shape.block):
        shape = None  # a free block beside tiles that are not
    shared = _shared(reading, host)
    if given.complete:
        return [_Launch(given, shared)]
    found = []
    if shape is not None:
        found.append(_Launch(shape, shared))
    if hosts is not None:
        from_host = _Launch(hosts, shared, " from the file's own launch")
        bound = shared and shape and _mentions_tile(*shape.block) and not _mentions_tile(shared)
        # the file's bytes of shared memory go with the file's block
        at = 0 if bound or (shape and shape.assumed) else len(found)
        found[at:at] = [*_following(reading, from_host, block), from_host]
    if not found:
        found = [
            _Launch(guess, shared, GUESSED)
            for guess in usual_shapes(reading.code, sample, reading.tile.name, derived)
        ]
    return [replace(each, shape=given.over(each.shape)) for each in found]


def _following(reading: _Reading, from_host: _Launch, block: tuple[str, ...]) -> list[_Launch]:
    """The file's own launch with a user's block, where the kernel asks for its size."""
    if not block or not re.search(r"\bblockDim\b", reading.code):
        return []
    grid = follow(from_host.shape.grid, from_host.shape.block, block)
    return [replace(from_host, shape=Shape(block, grid))]


def _given_shape(overrides: Overrides) -> Shape:
    """Block and grid as the options give them, empty where they do not."""
    block, grid = (split_axes(text) for text in (overrides.block, overrides.grid))
    return Shape(block, grid)


def _host_shape(host: tuple[HostLaunch, Translator] | None) -> Shape | None:
    if host is None:
        return None
    launch, translate = host
    grid, block = translate.dims(launch.grid), translate.dims(launch.block)
    return Shape(block, grid) if block is not None and grid is not None else None


def _shared(reading: _Reading, host: tuple[HostLaunch, Translator] | None) -> str | None:
    program = reading.program
    dynamic = find_dynamic(program, reachable(program, reading.kernel), aliases(program))
    if reading.overrides.shared is not None:
        return reading.overrides.shared
    if dynamic is None:
        return None
    found = dynamic_bytes(reading.body, dynamic, split_axes(reading.overrides.block))
    if found is None and host is not None and host[0].shared is not None:
        found = host[1].expression(host[0].shared)
    if found is None:
        raise UsageError(
            f"{reading.label} uses dynamic shared memory ({dynamic.name}) whose size cannot be "
            'read; give its bytes, such as --shared "2*T*T*4"'
        )
    return found


def _uses_tile(launch: _Launch) -> bool:
    return _mentions_tile(*launch.shape.block, *launch.shape.grid, launch.shared or "")


def _mentions_tile(*parts: str) -> bool:
    return any(PARAMETER in part for part in parts)


def _spec(path: Path, source: str, reading: _Reading, launch: _Launch) -> KernelSpec:
    params: dict[str, tuple[int, ...]] = {}
    name, tile, roles = reading.kernel.name, reading.tile, reading.roles
    given = reading.overrides.defines.values()
    follows = any(re.search(rf"\b(?:T|{PARAMETER})\b", value) for value in given)
    if tile.name or follows or _uses_tile(launch) or _mentions_tile(*roles.sizes.values()):
        one = SWEEP if tile.value is None else (tile.value,)
        params[PARAMETER] = tile.choices or one
    types = {p.name: DTYPES[p.ctype] for p in reading.signature.matrices}
    a, b, c = (types[roles.matrices[matrix]] for matrix in MATRICES)
    if a != b:
        raise UsageError(
            f"{reading.label}: A is {a} and B is {b}; mmbench has products whose A and B have one "
            "type"
        )
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
        declares_traffic=False,
        arguments=roles.arguments(reading.signature),
        params=params,
        dynamic_shared=Expression(launch.shared) if launch.shared else None,
        product=Product(a, c),
        requires=_requirements(reading, launch),
        runners=_runners(path, source, reading.overrides),
        fixed=reading.sizes.problem(roles.sizes),
        fixed_by=reading.sizes.freed(roles.sizes),
        tile_name=tile.name or PARAMETER,
    )


def _runners(path: Path, source: str, overrides: Overrides) -> tuple[str, ...]:
    headers = cache.local_headers(source, (path.parent, *overrides.includes))
    return ("cuda",) if needs_gpu(source, headers) else ("cuda", "cpu")


def _requirements(reading: _Reading, launch: _Launch) -> tuple[tuple[Expression, str], ...]:
    """A block that the user may vary must fit the shared arrays and the bounds of the file."""
    if not _mentions_tile(*launch.shape.block):
        return ()
    room, bound = capacity(reading.body), launch_bound(reading.body)
    threads = " * ".join(
        axis if axis.isidentifier() else f"({axis})" for axis in launch.shape.block
    )
    found = []
    if room is not None:
        found.append((f"{threads} <= {room}", f"the shared arrays have {room} elements"))
    if bound is not None:
        reason = f"__launch_bounds__ allows {bound} threads a block"
        found.append((f"{threads} <= {bound}", reason))
    return tuple((Expression(condition), reason) for condition, reason in found)


def _notes(
    spec: KernelSpec, reading: _Reading, launch: _Launch, ignored: list[str]
) -> tuple[str, ...]:
    signature, tile, roles = reading.signature, reading.tile, reading.roles
    parameters = [p for p in signature.parameters if not p.constant]
    meanings = [
        p.name if p.name == a.name else f"{p.name} = {a.name}"
        for p, a in zip(parameters, spec.arguments, strict=True)
    ]
    if tile_name := tile.name or ", ".join(_given_tile(reading.overrides)):
        size = f"{tile_name} is the tile"
    elif tile.fixed:
        size = f"{', '.join(tile.fixed)} stay as they are"
    else:
        size = "the tile is the block" if spec.params else "no tile to vary"
    block, grid = (", ".join(e.text for e in axes) for axes in (spec.block, spec.grid))
    shared = f", {spec.dynamic_shared} bytes of dynamic shared memory" if launch.shared else ""
    line = (
        f"kernel {spec.entry}; {', '.join(meanings)}; {size}; "
        f"block ({block}), grid ({grid}){launch.origin}{shared} "
        "(to change: --args --block --grid --shared --define --layout, or mmbench init)"
    )
    return (
        line,
        *roles.notes,
        *reading.sizes.notes(roles.sizes),
        *_left_out(ignored),
        "traffic not declared: requested bytes are not known (a header can state them)",
    )


def _left_out(includes: list[str]) -> Iterator[str]:
    """What is said of the includes that are not in the text that is compiled."""
    local = [name for name in includes if name.startswith('"')]
    if others := [name for name in includes if name not in local]:
        yield f"ignored #include {', '.join(others)} (not needed by the kernel)"
    if local:
        yield (
            f"ignored #include {', '.join(local)} (not found beside the file; where the kernel "
            "needs it, --include FOLDER says where it is)"
        )
