"""The catalogue: which kernels there are, found by looking into this folder.

Adding a kernel means adding its .cu file here; nothing in Python names one.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path

from mmbench.errors import HeaderError, UsageError
from mmbench.header import has_header, read_kernel, read_source
from mmbench.spec import KernelSpec

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The built-in kernels' names, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.cu"))


def get(name: str, entry: str | None = None) -> KernelSpec:
    """Return a built-in kernel by name, or a user's by the path of its .cu file.

    A file without a header is read by inference; ``entry`` chooses among its kernels.
    """
    if name in names():
        return read_kernel(_FOLDER / f"{name}.cu")
    if Path(name).suffix in (".cu", ".cuh") or "/" in name:
        return _of_file(Path(name), entry)
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
    hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(names())}"
    raise UsageError(f'no kernel is called "{name}"; {hint}')


def _of_file(path: Path, entry: str | None) -> KernelSpec:
    source = read_source(path)
    if has_header(source):
        spec = read_kernel(path)
        if entry not in (None, spec.entry):
            raise UsageError(f"{path}: the header names the entry point {spec.entry}, not {entry}")
        return spec
    from mmbench.infer import infer

    found = infer(path, source, entry)
    return dataclasses.replace(found.spec, notes=found.notes, declares_traffic=False)


def ladder() -> list[KernelSpec]:
    """All built-in kernels, each behind the one it improves on (``after`` in its header)."""
    specs = {name: get(name) for name in names()}
    for spec in specs.values():
        if spec.after is not None and spec.after not in specs:
            raise HeaderError(f'{spec.path}: after = "{spec.after}" is no kernel')
    ordered: list[KernelSpec] = []

    def visit(after: str | None) -> None:
        for spec in specs.values():
            if spec.after == after:
                ordered.append(spec)
                visit(spec.name)

    visit(None)
    if len(ordered) < len(specs):
        circle = sorted(specs.keys() - {spec.name for spec in ordered})
        raise HeaderError(f"the after lines of {', '.join(circle)} form a circle")
    return ordered


def select(chosen: Sequence[str], entry: str | None = None) -> list[KernelSpec]:
    """The kernels named, each once; none named means those whose header says ``default``."""
    if not chosen:
        return [spec for spec in ladder() if spec.default]
    found: dict[str, KernelSpec] = {}
    for spec in (get(name, entry) for name in dict.fromkeys(chosen)):
        # Two files of the same stem: the path tells them apart in every row.
        name = spec.name if spec.name not in found else str(spec.path)
        found[name] = dataclasses.replace(spec, name=name)
    return list(found.values())
