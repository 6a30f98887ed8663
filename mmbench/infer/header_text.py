"""A spec as the header that states it."""

from __future__ import annotations

import json

from mmbench.spec import KernelSpec


def header_text(spec: KernelSpec) -> str:
    """The lines, comments all, that read_kernel reads as this spec."""
    arguments = [a.name if a.is_matrix else f"{a.ctype} {a.name}" for a in spec.arguments]
    lines = [
        "/// kernel",
        f"summary = {_quoted(spec.summary)}",
        f"entry = {_quoted(spec.entry)}",
        f"dtype = {_quoted(spec.dtype)}",
        f"arguments = [{', '.join(map(_quoted, arguments))}]",
        "",
        "[params]",
        *(f"{name} = {list(values)}" for name, values in spec.params.items()),
        "",
        "[launch]",
        f"block = [{', '.join(_quoted(axis.text) for axis in spec.block)}]",
        f"grid = [{', '.join(_quoted(axis.text) for axis in spec.grid)}]",
    ]
    if spec.dynamic_shared is not None:
        lines.append(f"dynamic_shared_bytes = {_quoted(spec.dynamic_shared.text)}")
    lines += [
        "",
        "[traffic]",
        f"reads = {_quoted(spec.reads.text)}",
        f"writes = {_quoted(spec.writes.text)}",
        "///",
    ]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
