"""Macros and device functions put in place, for analysis; and what hides a kernel, for good.

``KERNEL(mm)(float *A)`` and ``GLOBAL void mm(float *A)`` are kernels whose ``__global__`` stands
in a macro: such macros are expanded in the text that is compiled, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from mmbench.infer.conditionals import directives

TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|[A-Za-z_]\w*|\d[\w.]*(?:(?<=[eE])[-+]\d+)?\w*|\s+|->|::|.",
    re.DOTALL,
)
_HIDDEN = re.compile(
    r"\b__(?:global|device|host|shared|constant|launch_bounds|restrict|forceinline)_*\b"
)
_TYPE = re.compile(
    r"void|bool|char|short|int|long|unsigned|signed|float|double|half|u?int|uchar|\w+_t|[a-z]+[1-4]"
)
_MEMBER = (".", "->", "::")


@dataclass(frozen=True)
class Macro:
    """A macro, or a device function that is as simple as one. ``formal`` is None for a name."""

    body: str
    formal: tuple[str, ...] | None = None
    template: tuple[str, ...] = ()
    value: bool = True  # of a function: an expression; else statements
    function: bool = False


def expand_once(code: str, macros: Mapping[str, Macro], keep: Iterable[str] = ()) -> str:
    """The code with each use of the macros replaced, but for the names to keep."""
    tokens = TOKEN.findall(code)
    keep = frozenset(keep)
    result: list[str] = []
    i, before = 0, ""
    while i < len(tokens):
        token = tokens[i]
        macro = macros.get(token) if token not in keep else None
        i += 1
        if macro is not None and not (macro.function and before in _MEMBER):
            used, text = _use(macro, tokens, i)
            if text is not None:
                lost = sum(t.count("\n") for t in tokens[i : i + used]) - text.count("\n")
                result.append(text + "\n" * max(0, lost))
                i, before = i + used, ")"
                continue
        result.append(token)
        before = before if token.isspace() else token
    return "".join(result)


def _use(macro: Macro, tokens: list[str], at: int) -> tuple[int, str | None]:
    """How many tokens a use takes behind the name, and what stands for it; None for no use."""
    if macro.formal is None:
        return 0, macro.body
    given: list[str] = []
    skipped = 0
    if macro.template:
        skipped, given = _listed(tokens, at, "<", ">")
    used, arguments = _listed(tokens, at + skipped, "(", ")")
    if not used:
        return 0, None
    if macro.function:
        if len(arguments) != len(macro.formal) or len(given) > len(macro.template):
            return 0, None
        arguments = [_wrapped(a) for a in arguments]
    bound = dict(zip(macro.formal, arguments, strict=False))
    bound |= dict(zip(macro.template, given, strict=False))
    text = "".join(bound.get(t, t).strip() or " " for t in TOKEN.findall(macro.body))
    text = re.sub(r"\s*##\s*", "", text)
    if macro.function:
        text = f"({text})" if macro.value else f"{{ {text} }}"
    return skipped + used, text


def _wrapped(argument: str) -> str:
    plain = argument.strip()
    return plain if re.fullmatch(r"\w+", plain) else f"({plain})"


def _listed(tokens: list[str], start: int, opening: str, closing: str) -> tuple[int, list[str]]:
    """How many tokens an argument list takes from here, and the arguments."""
    i = start
    while i < len(tokens) and tokens[i].isspace():
        i += 1
    if i == len(tokens) or tokens[i] != opening:
        return 0, []
    depth, arguments = 0, [""]
    for j in range(i, len(tokens)):
        token = tokens[j]
        depth += (token in "([{" or token == opening) - (token in ")]}" or token == closing)
        if depth == 0:
            return j + 1 - start, [] if arguments == [""] else arguments
        if depth == 1 and token == ",":
            arguments.append("")
        elif j > i and not token.startswith(("//", "/*")):
            arguments[-1] += token
    return 0, []


def without_brackets(code: str, types: Iterable[str]) -> str:
    """``(i) * (n)`` as ``i * n``, which a parser that knows no types takes for a cast."""
    tokens, types = TOKEN.findall(code), frozenset(types)
    before = ""
    for i, token in enumerate(tokens):
        inner = [t for t in tokens[i + 1 : i + 5] if not t.isspace()]
        name = inner[0] if token == "(" and len(inner) > 1 and inner[1] == ")" else ""
        plain = re.fullmatch(r"[A-Za-z_]\w*", name) and not _TYPE.fullmatch(name)
        if plain and name not in types and not re.fullmatch(r"[\w)\]>]+", before):
            tokens[i] = " "
            tokens[tokens.index(")", i)] = " "
        if not tokens[i].isspace():
            before = tokens[i]
    return "".join(tokens)


def without_token_comments(code: str) -> str:
    return "".join(t for t in TOKEN.findall(code) if not t.startswith(("//", "/*")))


def show_hidden(source: str, macros: Mapping[str, Macro]) -> str:
    """The source with those macros expanded that hide the words of CUDA; lines stay."""
    hidden = {name: macro for name, macro in macros.items() if _HIDDEN.search(macro.body)}
    for name, macro in macros.items():
        inner = set(re.findall(r"\w+", macro.body)) & hidden.keys()
        if inner and name not in hidden:
            hidden[name] = macro
    if not hidden:
        return source
    result, at = "", 0
    for begin, end in (*directives(source), (len(source), len(source))):
        part = source[at:begin]
        for _ in range(3):
            part = expand_once(part, hidden)
        result += part + source[begin:end]
        at = end
    return result


def simple_function(
    name: str, definition: Node, formal: tuple[str, ...], template: tuple[str, ...]
) -> Macro | None:
    """A function that is one ``return`` of a value, or statements without any, as a macro.

    A bare ``return``, behind a guard, is left in: it skips what a guard of the kernel's skips.
    """
    body = definition.child_by_field_name("body")
    if body is None or body.text is None or body.type != "compound_statement":
        return None
    text = without_token_comments(body.text.decode()).strip()[1:-1].strip()
    if re.search(rf"\b{re.escape(name)}\b", text):
        return None
    returned = re.fullmatch(r"return\b(.*);", text, re.DOTALL)
    if returned and ";" not in returned[1]:
        return Macro(returned[1].strip(), formal, template, True, True)
    if re.search(r"\breturn\b(?!\s*;)", text):
        return None
    return Macro(text, formal, template, False, True)
