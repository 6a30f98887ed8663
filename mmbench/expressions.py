"""Whole-number arithmetic in a kernel's header, such as ``"ceil_div(N, TILE_SIZE)"``.

A header may come from anybody's file, so nothing is ever handed to ``eval``: the text is
parsed and only the node types listed here are walked.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache


class ExpressionError(ValueError):
    """The text is not an expression of a header, or has no value at this point."""


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)


_OPERATORS: dict[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,  # as C divides whole numbers
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {"ceil_div": _ceil_div, "min": min, "max": max}


@dataclass(frozen=True)
class Expression:
    """An arithmetic expression over M, N, K and a kernel's parameters."""

    text: str

    def __post_init__(self) -> None:
        try:
            _evaluate(self._tree(), None)
        except RecursionError:
            raise ExpressionError("the expression is nested too deeply") from None

    @property
    def names(self) -> frozenset[str]:
        """The variables that the expression uses."""
        return frozenset(
            node.id
            for node in ast.walk(self._tree())
            if isinstance(node, ast.Name) and node.id not in (*_FUNCTIONS, "ceil")
        )

    def value(self, names: Mapping[str, int]) -> int:
        """Evaluate with these values; raise ExpressionError where there is no value."""
        try:
            return int(_evaluate(self._tree(), names))
        except (ZeroDivisionError, OverflowError) as error:
            raise ExpressionError(f'"{self.text}" has no value here: {error}') from None

    def __str__(self) -> str:
        return self.text

    def _tree(self) -> ast.expr:
        return _parse(self.text)


@cache
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f'"{text}" is not an arithmetic expression') from None


def _evaluate(node: ast.expr, names: Mapping[str, int] | None) -> int:
    """Value of a tree. With ``names`` None only the form is checked and the value is 1."""
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            result = value
        case ast.Name(id=name):
            if names is not None and name not in names:
                raise ExpressionError(f'"{name}" is not defined; known: {", ".join(names)}')
            result = 1 if names is None else names[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            result = _apply(op, _evaluate(left, names), _evaluate(right, names), names)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            result = _apply(op, _evaluate(left, names), _evaluate(right, names), names)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -_evaluate(operand, names)
        case ast.Call(
            func=ast.Name(id="ceil"),
            args=[ast.BinOp(left=left, op=ast.Div(), right=right)],
            keywords=[],
        ):
            above, below = _evaluate(left, names), _evaluate(right, names)
            result = 1 if names is None else _ceil_div(above, below)
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if (
            function in _FUNCTIONS and len(args) == 2
        ):
            values = [_evaluate(argument, names) for argument in args]
            result = 1 if names is None else _FUNCTIONS[function](*values)
        case _:
            raise ExpressionError(
                f'"{ast.unparse(node)}" is not allowed here; '
                "use whole numbers, names, + - * / % **, one comparison, "
                "ceil(a / b), ceil_div(a, b), min(a, b) and max(a, b)"
            )
    return result


def _apply(op: ast.AST, left: int, right: int, names: Mapping[str, int] | None) -> int:
    if isinstance(op, ast.Pow) and not 0 <= right <= 64:
        raise ExpressionError(f"exponent {right} is outside 0..64")
    if names is None:
        return 1
    return _OPERATORS[type(op)](left, right)
