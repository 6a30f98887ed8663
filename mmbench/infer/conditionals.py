"""Settle the ``#if`` groups of a file whose conditions are known: dead branches are blanked.

A group that gives a default (``#ifndef T``, ``#define T 16``) or asks for what only a compiler
knows stays as it is. Lines stay where they are.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmbench.gpu_only import without_comments

_DIRECTIVE = re.compile(r"\s*#\s*(\w+)\s*(.*)", re.DOTALL)
_DEFINE = re.compile(r"(\w+)(\(?)\s*(.*)", re.DOTALL)
_DEFINED = re.compile(r"\bdefined\b\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPILERS = re.compile(r"_\w*|CUDA\w*|TILE_SIZE|true|false")  # not known from the text alone
_NUMBER = re.compile(r"\b(\d+)[uUlL]+\b")
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class _UnknownError(Exception):
    """A condition that the text alone does not decide."""


@dataclass
class _Branch:
    kind: str
    condition: str
    begin: int  # the directive's first line
    body: int  # the line behind it


@dataclass
class _Preprocessor:
    """A file's lines, and the macros that are defined where it has got to."""

    lines: list[str]
    bare: list[str]
    macros: dict[str, str | None]  # None: defined, with a value that is not known
    find: Callable[[str], Path | None]
    dead: set[int] = field(default_factory=set)

    def directive(self, line: int) -> tuple[str, str, int]:
        """The word and the rest of the directive on a line, and the line behind it."""
        end = line + 1
        while end < len(self.bare) and self.bare[end - 1].endswith("\\"):
            end += 1
        whole = " ".join(text.rstrip("\\") for text in self.bare[line:end])
        found = _DIRECTIVE.match(whole)
        return (found[1], found[2].strip(), end) if found else ("", "", line + 1)

    def run(self, begin: int, end: int) -> None:
        line = begin
        while line < end:
            word, rest, after = self.directive(line)
            if word in ("if", "ifdef", "ifndef"):
                after = self._group(line, end)
            elif word == "define":
                self._define(rest)
            elif word == "undef":
                self.macros.pop(rest, None)
            elif word == "include":
                self._include(rest)
            line = after

    def _define(self, rest: str) -> None:
        found = _DEFINE.match(rest)
        if found:
            same = self.macros.get(found[1], found[3]) == found[3]
            self.macros[found[1]] = found[3] if same and not found[2] else None

    def _include(self, rest: str) -> None:
        path = self.find(rest.strip())
        if path is not None:
            text = path.read_text(encoding="utf-8", errors="replace")
            inner = _Preprocessor(text.split("\n"), _bare(text), self.macros, lambda _: None)
            inner.run(0, len(inner.bare))

    def _branches(self, begin: int, end: int) -> tuple[list[_Branch], int]:
        """The branches of the group that begins here, and the line of its ``#endif``."""
        found: list[_Branch] = []
        depth, line = 0, begin
        while line < end:
            word, rest, after = self.directive(line)
            if word in ("if", "ifdef", "ifndef"):
                depth += 1
            if depth == 1 and word in ("if", "ifdef", "ifndef", "elif", "else"):
                found.append(_Branch(word, rest, line, after))
            if word == "endif":
                depth -= 1
                if depth == 0:
                    return found, line
            line = after
        return found, end

    def _group(self, begin: int, limit: int) -> int:
        branches, end = self._branches(begin, limit)
        ends = [branch.begin for branch in branches[1:]] + [end]
        taken = self._taken(branches, end)
        for i, (branch, stop) in enumerate(zip(branches, ends, strict=True)):
            if taken is None or taken == i:
                self.run(branch.body, stop)
            if taken is not None:
                first = branch.begin
                self.dead.update(range(first, branch.body if taken == i else stop))
        if taken is not None:
            self.dead.add(end)
        return end + 1

    def _taken(self, branches: Sequence[_Branch], end: int) -> int | None:
        """The branch that is compiled, len(branches) for none; None where it is not known."""
        names = {n for b in branches for n in re.findall(r"[A-Za-z_]\w*", b.condition)}
        for line in range(branches[0].begin, end):
            word, rest, _ = self.directive(line)
            if word == "define" and re.split(r"\W", rest)[0] in names:
                return None
        try:
            for i, branch in enumerate(branches):
                if self._holds(branch):
                    return i
        except _UnknownError:
            return None
        return len(branches)

    def _holds(self, branch: _Branch) -> bool:
        if branch.kind == "else":
            return True
        if branch.kind in ("ifdef", "ifndef"):
            return self._is_defined(branch.condition.split()[0]) == (branch.kind == "ifdef")
        return bool(self._value(branch.condition))

    def _is_defined(self, name: str) -> bool:
        if name not in self.macros and _COMPILERS.fullmatch(name):
            raise _UnknownError
        return name in self.macros

    def _value(self, condition: str) -> int:
        text = _DEFINED.sub(lambda m: str(int(self._is_defined(m[1] or m[2]))), condition)
        for _ in range(8):
            text = re.sub(r"[A-Za-z_]\w*", self._replaced, text)
        text = _NUMBER.sub(r"\1", text)
        text = re.sub(r"!(?!=)", " not ", text.replace("&&", " and ").replace("||", " or "))
        try:
            return _evaluate(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, ValueError, ZeroDivisionError):
            raise _UnknownError from None

    def _replaced(self, name: re.Match[str]) -> str:
        if name[0] in self.macros:
            value = self.macros[name[0]]
            if value is None:
                raise _UnknownError
            return f"({value})"
        if _COMPILERS.fullmatch(name[0]):
            raise _UnknownError
        return "0"


def _evaluate(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BoolOp(op=op, values=values):
            every = all if isinstance(op, ast.And) else any
            return int(every(_evaluate(value) for value in values))
        case ast.UnaryOp(op=ast.Not() | ast.USub() as op, operand=operand):
            value = _evaluate(operand)
            return int(not value) if isinstance(op, ast.Not) else -value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left), _evaluate(right))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return int(_OPERATORS[type(op)](_evaluate(left), _evaluate(right)))
    raise _UnknownError


def _bare(source: str) -> list[str]:
    return without_comments(source).split("\n")


def settle_conditionals(
    source: str, defines: Mapping[str, str], find: Callable[[str], Path | None]
) -> str:
    """The source without dead branches; ``find`` gives the file that an include names."""
    if not re.search(r"(?m)^\s*#\s*if", source):
        return source
    macros: dict[str, str | None] = dict(defines)
    lines = source.split("\n")
    preprocessor = _Preprocessor(lines, _bare(source), macros, find)
    preprocessor.run(0, len(lines))
    return "\n".join("" if i in preprocessor.dead else line for i, line in enumerate(lines))


def directives(source: str) -> Iterator[tuple[int, int]]:
    """Where the preprocessor's lines begin and end, continued lines included."""
    for found in re.finditer(r"(?m)^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*", without_comments(source)):
        yield found.span()
