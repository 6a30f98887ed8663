"""What a command's options say of a kernel, in place of its header or of what is inferred."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mmbench.arguments import parse_argument
from mmbench.errors import UsageError
from mmbench.expressions import Expression, ExpressionError
from mmbench.header import as_define
from mmbench.product import MATRICES, Product
from mmbench.spec import Argument, KernelSpec, Point

_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Overrides:
    """The options, read but not yet applied. Empty ones leave a kernel as it is."""

    entry: str | None = None
    args: str | None = None
    block: str | None = None
    grid: str | None = None
    shared: str | None = None
    defines: Mapping[str, str] = field(default_factory=dict)
    includes: tuple[Path, ...] = ()
    layout: str | None = None
    transposed: frozenset[str] = frozenset()
    alpha: float | None = None
    beta: float | None = None

    def roles(self, parameters: Sequence[str]) -> dict[str, str]:
        """What ``--args`` says is passed for each of an entry point's parameters.

        Either a list in their order (``C,A,B,K,N``) or names (``out=C, bias=null``), of which
        some may be left out. Raise UsageError where it does not fit the parameters.
        """
        if self.args is None:
            return {}
        parts = [part.strip() for part in self.args.split(",")]
        if not any("=" in part for part in parts):
            if len(parts) != len(parameters):
                raise UsageError(
                    f"--args has {len(parts)} names, the kernel has {len(parameters)} parameters "
                    f"({', '.join(parameters)}); name one for each"
                )
            return dict(zip(parameters, parts, strict=True))
        found: dict[str, str] = {}
        for part in parts:
            name, equals, role = (piece.strip() for piece in part.partition("="))
            if not equals or name not in parameters:
                raise UsageError(
                    f'--args: "{part}" names no parameter of the kernel; write NAME=ROLE with one '
                    f"of {', '.join(parameters)}"
                )
            found[name] = role
        return found

    def refuse_empty(self, points: Iterable[Point]) -> None:
        """Raise UsageError where the block or grid that was given has no threads or blocks."""
        for point in points:
            for option, text, axes in (
                ("--block", self.block, point.spec.block), ("--grid", self.grid, point.spec.grid)
            ):  # fmt: skip
                if text is not None and not all(axis.value(point.names) > 0 for axis in axes):
                    raise UsageError(f'{option} "{text}" is 0 at {point}; round it up: ceil(a/b)')

    def check_launch(self) -> None:
        """Raise UsageError where block, grid or shared bytes are no expressions of sizes."""
        names = frozenset({"M", "N", "K"})
        _axes("--block", self.block, names)
        _axes("--grid", self.grid, names)
        _expression("--shared", self.shared, names)

    def apply(self, spec: KernelSpec) -> KernelSpec:
        """The spec with these options in force; raise UsageError where one does not fit."""
        arguments = self._arguments(spec)
        product = self._product(replace(spec, arguments=arguments))
        names = frozenset({"M", "N", "K", *spec.params})
        defines = dict(spec.defines) | {
            name: as_define(_long(text), names) for name, text in self.defines.items()
        }
        return replace(
            spec,
            arguments=arguments,
            product=product,
            block=_axes("--block", self.block, names) or spec.block,
            grid=_axes("--grid", self.grid, names) or spec.grid,
            dynamic_shared=_expression("--shared", self.shared, names) or spec.dynamic_shared,
            defines=defines,
            params={k: v for k, v in spec.params.items() if k not in self.defines},
            includes=(*spec.includes, *self.includes),
            alternatives=tuple(map(self.apply, spec.alternatives)),
        )

    def _arguments(self, spec: KernelSpec) -> tuple[Argument, ...]:
        if self.args is None or spec.notes:  # an inferred kernel was read with them already
            return spec.arguments
        given = self.roles([argument.name for argument in spec.arguments])
        return tuple(
            as_argument(given[a.name], a.ctype, a.is_pointer, spec.params) if a.name in given else a
            for a in spec.arguments
        )

    def _product(self, spec: KernelSpec) -> Product:
        product = spec.product
        column_major = _layout(self.layout, product.column_major) ^ self.transposed
        alpha = product.alpha if self.alpha is None else self.alpha
        beta = product.beta if self.beta is None else self.beta
        for name, value in (("alpha", alpha), ("beta", beta)):
            if name not in spec.factors and not float(value).is_integer():
                raise UsageError(
                    f"--{name} {value:g}: {spec.entry} takes no {name}, and only whole numbers can "
                    "be checked exactly without; give a whole number"
                )
        return replace(product, column_major=column_major, alpha=alpha, beta=beta)


def as_argument(role: str, ctype: str, pointer: bool, params: Iterable[str] = ()) -> Argument:
    """What ``--args`` says of one parameter; raise UsageError where that means nothing."""
    try:
        argument = parse_argument(_long(role), params, ctype)
    except ValueError as error:
        raise UsageError(f"--args: {error}") from None
    if argument.is_pointer != pointer:
        fitting = "A, B, C or null" if pointer else "a size, alpha, beta or a number"
        raise UsageError(f'--args: "{role}" does not fit its parameter, which takes {fitting}')
    return argument


def parse_defines(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` or ``NAME`` alone, which is 1, as for a compiler's -D."""
    found = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not _NAME.fullmatch(name):
            raise UsageError(f'--define: "{text}" is not NAME=VALUE')
        found[name] = value or "1"
    return found


def _long(text: str) -> str:
    """``T`` is short for TILE_SIZE."""
    return re.sub(r"\bT\b", "TILE_SIZE", text)


def _expression(option: str, text: str | None, names: frozenset[str]) -> Expression | None:
    if text is None:
        return None
    try:
        expression = Expression(_long(text))
    except ExpressionError as error:
        raise UsageError(f"{option}: {error}") from None
    if unknown := sorted(expression.names - names - {"TILE_SIZE"}):
        raise UsageError(
            f'{option}: "{text}" uses {", ".join(unknown)}; known: {", ".join(sorted(names))}'
        )
    return expression


def split_axes(text: str | None) -> tuple[str, ...]:
    """The axes of ``x,y,z``: parts separated by commas outside of brackets."""
    if text is None:
        return ()
    return tuple(_long(part.strip()) for part in re.split(r",(?![^()]*\))", text))


def _axes(option: str, text: str | None, names: frozenset[str]) -> tuple[Expression, ...]:
    parts = split_axes(text)
    if len(parts) > 3:
        raise UsageError(f'{option}: "{text}" has {len(parts)} axes; write x or x,y or x,y,z')
    found = (_expression(option, part, names) for part in parts)
    return tuple(each for each in found if each is not None)


def _layout(text: str | None, before: frozenset[str]) -> frozenset[str]:
    """``row``, ``col``, or orders of single matrices such as ``B=col``."""
    if text is None:
        return before
    if text in ("row", "col"):
        return frozenset(MATRICES if text == "col" else ())
    found = set(before)
    for part in text.split(","):
        name, _, order = part.strip().partition("=")
        if name not in MATRICES or order not in ("row", "col"):
            raise UsageError(f'--layout: "{text}" is not row, col, or a list such as B=col,C=row')
        (found.add if order == "col" else found.discard)(name)
    return frozenset(found)
