"""The text of an entry point's parameter, such as ``A``, ``int N`` or ``float alpha``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mmbench.expressions import ExpressionError
from mmbench.spec import FACTORS, FRACTIONAL, LEADING_DIMENSIONS, SCALAR_BYTES, Argument

SIZES = ("M", "N", "K")
_TYPES = "|".join(sorted(SCALAR_BYTES, key=len, reverse=True))
_TYPED = re.compile(rf"(?:({_TYPES})\s+)?(\S.*)")


def parse_argument(text: str, params: Iterable[str] = (), ctype: str = "") -> Argument:
    """Read ``A``, ``null``, ``int N``, ``size_t lda``, ``float alpha`` or ``float 1.0``.

    ``ctype`` is the C type where the text has none. Raise ValueError with the reason.
    """
    match = _TYPED.fullmatch(text.strip())
    argument = Argument(match[2], match[1] or ctype or "int") if match else Argument("")
    if argument.is_pointer:
        return argument
    if argument.ctype in FRACTIONAL:
        if argument.name not in FACTORS and not _is_number(argument.name):
            raise ValueError(f'"{text}" is neither alpha, beta nor a number')
        return argument
    try:
        expression = argument.expression
    except ExpressionError as error:
        raise ValueError(str(error)) from None
    known = {*SIZES, *LEADING_DIMENSIONS, *params}
    if expression is not None and (unknown := sorted(expression.names - known)):
        raise ValueError(
            f'"{text}": {", ".join(unknown)} is neither A, B, C, null, alpha, beta nor a size '
            f"({', '.join((*SIZES, *LEADING_DIMENSIONS, *params))})"
        )
    return argument


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
