"""The catalogue: which kernels there are, found by looking into this folder.

Adding a kernel means adding its .cu file here; nothing in Python names one.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from pathlib import Path

from mmbench import baselines
from mmbench.errors import HeaderError, UsageError
from mmbench.header import has_header, read_kernel, read_source
from mmbench.overrides import Overrides
from mmbench.product import Product
from mmbench.spec import KernelSpec

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The built-in kernels' names, sorted."""
    return sorted(path.stem for path in _FOLDER.glob("*.cu"))


def get(name: str, overrides: Overrides | None = None) -> KernelSpec:
    """Return a built-in kernel by name, or a user's by the path of its .cu file.

    A file without a header is read by inference. ``overrides`` come before what either says.
    """
    overrides = overrides or Overrides()
    if name in baselines.NAMES:
        return overrides.apply(baselines.get(name, Product()))
    if name in names():
        return overrides.apply(read_kernel(_FOLDER / f"{name}.cu"))
    if _is_file(name):
        return overrides.apply(_of_file(Path(name), overrides))
    known = (*names(), *baselines.NAMES)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(known)}"
    raise UsageError(f'no kernel is called "{name}"; {hint}')


def _of_file(path: Path, overrides: Overrides) -> KernelSpec:
    source = read_source(path)
    if has_header(source):
        spec, entry = read_kernel(path), overrides.entry
        if entry not in (None, spec.entry):
            raise UsageError(f"{path}: the header names the entry point {spec.entry}, not {entry}")
        from mmbench.infer import prepare

        return dataclasses.replace(spec, source=prepare(spec, overrides))
    from mmbench.infer import infer

    return infer(path, source, overrides).spec


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


def select(chosen: Sequence[str], overrides: Overrides | None = None) -> list[KernelSpec]:
    """The kernels named, each once; none named means those whose header says ``default``.

    Where files are among them, ``overrides`` are meant for those alone. A library computes the
    product of the first kernel beside it.
    """
    if not chosen:
        chosen = [spec.name for spec in ladder() if spec.default]
    files = [name for name in chosen if _is_file(name)]
    found: dict[str, KernelSpec] = {}
    for each in dict.fromkeys(chosen):
        spec = get(each, overrides if each in files or not files else None)
        # Two files of the same stem: the path tells them apart in every row.
        name = spec.name if spec.name not in found else str(spec.path)
        found[name] = dataclasses.replace(spec, name=name)
    products = [spec.product for spec in found.values() if not spec.library]
    return [
        dataclasses.replace(spec, product=products[0]) if spec.library and products else spec
        for spec in found.values()
    ]


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".cu", ".cuh") or "/" in name
