"""The text that is compiled of a file with a header: the kernel alone, its tile free to vary."""

from __future__ import annotations

from collections.abc import Mapping

from mmbench.infer.isolate import isolate, reachable
from mmbench.infer.launch import PARAMETER
from mmbench.infer.syntax import Edits, Kernel, Source, read
from mmbench.infer.template import make_plain, read_template
from mmbench.infer.tile import Constant, Tile, find_constants, release, rewrite
from mmbench.overrides import Overrides
from mmbench.spec import KernelSpec


def prepare(spec: KernelSpec, overrides: Overrides) -> str:
    """The source of a user's kernel in which its parameters are those of the header.

    A definition of the file's own gives way to the value that is swept or given, and host code
    around the kernel is cut away. A file that needs none of this comes back as it is.
    """
    file = read(spec.source, (*spec.folders, *overrides.includes), overrides.defines)
    kernel = next((k for k in file.kernels if k.name == spec.entry), None)
    if kernel is None or (file.root.has_error and kernel.template is None):
        return spec.source
    template = read_template(file, kernel, overrides.defines)
    constants = find_constants(file, kernel, reachable(file, kernel), template.values)
    edits = Edits(file.code)
    tile = spec.tile_name if spec.tile_name in (constants.keys() | template.values.keys()) else ""
    make_plain(edits, kernel, template, tile)
    _set_parameters(edits, file, kernel, spec, constants)
    for name in overrides.defines:
        release(edits, file, name, constants)
    isolate(edits, file, kernel, (*spec.folders, *overrides.includes))
    return edits.apply()


def _set_parameters(
    edits: Edits, file: Source, kernel: Kernel, spec: KernelSpec, constants: Mapping[str, Constant]
) -> None:
    if PARAMETER in spec.params and spec.tile_name != PARAMETER:
        rewrite(edits, file, Tile(spec.tile_name), dict(constants))
    for name in (*spec.params, *spec.defines):
        release(edits, file, name, constants)
