"""A spec as the header that states it, and that header in front of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from mmbench import whole_file
from mmbench.errors import HeaderError
from mmbench.expressions import Expression
from mmbench.product import Product
from mmbench.spec import KernelSpec


def header_text(spec: KernelSpec) -> str:
    """The lines, comments all, that read_kernel reads as this spec."""
    lines = ["/// kernel", *_lines(spec), "///"]
    return "".join(f"// {line}".rstrip() + "\n" for line in lines)


def write_on_top(path: Path, header: str) -> None:
    """Put a header block in front of a file's text, in the file's own line ends."""
    data = path.read_bytes()
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    lines = [line.encode() + ending for line in [*header.splitlines(), ""]]
    text = mark + b"".join(lines) + data.removeprefix(mark)
    try:
        whole_file.write(path.resolve(), text, keep_mode=True)  # a link stays one
    except OSError as error:
        raise HeaderError(f"{path} cannot be written: {error.strerror}") from None


def _lines(spec: KernelSpec) -> Iterator[str]:
    yield f"summary = {_quoted(spec.summary)}"
    yield f"entry = {_quoted(spec.entry)}"
    yield f"arguments = {_list([str(argument) for argument in spec.arguments])}"
    if spec.fixed is not None:
        yield f"sizes = {[spec.fixed.m, spec.fixed.n, spec.fixed.k]}"
    yield from _product_lines(spec.product)
    if spec.tile_name != "TILE_SIZE":
        yield f"tile = {_quoted(spec.tile_name)}"
    if spec.runners != ("cuda", "cpu"):
        yield f"runners = {_list(spec.runners)}"
    if spec.includes:
        beside = spec.path.parent
        yield f"include = {_list([os.path.relpath(folder, beside) for folder in spec.includes])}"
    yield from _table("params", {name: str(list(v)) for name, v in spec.params.items()})
    yield from _table("defines", {n: _quoted(str(value)) for n, value in spec.defines.items()})
    launch = {"block": _axes(spec.block), "grid": _axes(spec.grid)}
    if spec.dynamic_shared is not None:
        launch["dynamic_shared_bytes"] = _quoted(spec.dynamic_shared.text)
    yield from _table("launch", launch)
    requires = {_quoted(each.text): _quoted(reason) for each, reason in spec.requires}
    yield from _table("requires", requires)
    if spec.declares_traffic:
        traffic = {"reads": _quoted(spec.reads.text), "writes": _quoted(spec.writes.text)}
        yield from _table("traffic", traffic)


def _product_lines(product: Product) -> Iterator[str]:
    plain = Product()
    yield f"dtype = {_quoted(product.dtype)}"
    if product.c_dtype != product.dtype:
        yield f"c_dtype = {_quoted(product.c_dtype)}"
    if product.column_major:
        yield f"column_major = {_list(sorted(product.column_major))}"
    for name in ("alpha", "beta"):
        if getattr(product, name) != getattr(plain, name):
            yield f"{name} = {getattr(product, name):g}"


def _table(name: str, values: dict[str, str]) -> Iterator[str]:
    if values:
        yield ""
        yield f"[{name}]"
        yield from (f"{key} = {value}" for key, value in values.items())


def _axes(axes: Sequence[Expression]) -> str:
    return _list([axis.text for axis in axes])


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
