"""What the host's compiler and loader say of a kernel, as one sentence in the user's words."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

from mmbench.errors import CompileError, WrongRunnerError

HOST_ERROR = re.compile(r"^(.+?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.MULTILINE)
_UNDECLARED = re.compile(  # as g++ and as clang say it
    r"^.(\w+). (?:was not declared|does not name a type|has not been declared)"
    r"|^there are no arguments to .(\w+). that|undeclared identifier .(\w+)."
    r"|^call to function .(\w+). that is neither|^unknown type name .(\w+)."
)
# Listed, and not all that begins with __: a misspelt __syncthread is an error on a GPU too, and
# so is __shfl, which CUDA has given up.
_CUDA_NAME = re.compile(
    r"__activemask|__(?:match|reduce)_\w+_sync|__barrier_sync\w*|__uni_sync|__fns"
    r"|__v(?:abs|add|avg|cmp|hadd|max|min|neg|sad|set|sub)\w*[24]|__vib?(?:add)?(?:max|min)3?_\w+"
    r"|__[fd](?:add|sub|mul|div|rcp|sqrt|rsqrt|fma)2?_r[nzud]|__fmaf?(?:_ieee)?_r[nzud]"
    r"|__(?:float|double|half|u?int|u?ll|u?short|u?char|bfloat16|hiloint)2?2\w+|__float_to_tf32"
    r"|__(?:u|r|ur)hadd|__u?sad|__h(?:add|sub|mul|fma|div|neg|abs|max|min)2?(?:_\w+)?"
    r"|__is(?:Global|Shared|Constant|Local|GridConstant|ClusterShared|CtaShared)|__cvta_\w+"
    r"|__nv\w+|__cluster\w+|__threadfence_cluster|__brkpt|__prof_trigger|__mbarrier_\w+"
    r"|__[hidb]mma_\w+|cuda[A-Z]\w*|(?:tex|surf)[123]D\w*"
    r"|r?norm(?:[34]d)?f?|r(?:hypot|cbrt)f?|(?:sin|cos|sincos)pif?|erf(?:cx|inv|cinv)f?"
    r"|normcdf(?:inv)?f?|cyl_bessel_i[01]f?"
)
_UNDEFINED = re.compile(r"undefined symbol: (\w+)")
_OUR_OWN = re.compile(r"simt_|checked_|__tsan_|__ubsan_")  # missing ones are no fault of the user's
_LENGTH = re.compile(r"\d+")


@dataclass(frozen=True)
class _Said:
    """An error of the compiler."""

    where: str
    line: int
    text: str

    @property
    def cuda_name(self) -> str:
        """The name of CUDA's that the compiler does not know; "" where it is about another."""
        found = _UNDECLARED.search(self.text)
        name = next(filter(None, found.groups())) if found else ""
        return name if _CUDA_NAME.fullmatch(name) else ""


def in_users_words(error: CompileError, path: Path) -> CompileError | WrongRunnerError:
    """The first error in the user's own file, with its line; wrapper lines are no one's.

    A file whose only fault is that it calls what the shim lacks is right, but not for here.
    """
    if (missing := cuda_name_missing(error, path)) is not None:
        name, _ = missing
        return WrongRunnerError(f"the cpu runner has no {name}; run it on a GPU", error.details)
    said = _errors(error, path)
    for each in [one for one in said if not one.cuda_name] or said:
        return CompileError(f"{each.where}:{each.line}: error: {each.text}", error.details)
    return CompileError(f"{path}: the host compiler refused it", error.details)


def cuda_name_missing(error: CompileError, path: Path) -> tuple[str, int] | None:
    """The first device function of CUDA that the shim lacks, and its line, if that is all."""
    said = _errors(error, path)
    unknown = [each for each in said if each.cuda_name]
    places = {(each.where, each.line) for each in unknown}
    if not unknown or any((each.where, each.line) not in places for each in said):
        return None
    return unknown[0].cuda_name, unknown[0].line


def _errors(error: CompileError, path: Path) -> list[_Said]:
    """What the compiler found wrong in the user's own file; where it is nothing, elsewhere."""
    said = [
        _Said(where, int(line), text) for where, line, text in HOST_ERROR.findall(error.details)
    ]
    mine = [each for each in said if Path(each.where).resolve() == path.resolve()]
    return [dataclasses.replace(each, where=str(path)) for each in mine] or said


def missing_definition(said: str, path: Path) -> CompileError | None:
    """The error where the loader misses what a kernel only declares; None where it misses nothing.

    A shared library may be linked with names left open, so it is the loader that finds out.
    """
    found = _UNDEFINED.search(said)
    if found is None or _OUR_OWN.match(found[1]):
        return None
    name = _as_declared(found[1])
    return CompileError(
        f"{path}: {name} is declared but not defined in this file; define it there", said
    )


def _as_declared(symbol: str) -> str:
    """The qualified name in a C++ symbol, without its types; the symbol itself if it is none."""
    start = re.match(r"_Z(?:TW|TH)?(N[rVKRO]*)?L?", symbol)
    if start is None:
        return symbol
    parts, at = [], start.end()
    while length := _LENGTH.match(symbol, at):
        at = length.end() + int(length.group())
        parts.append(symbol[length.end() : at])
        if start[1] is None:  # what follows are the parameters
            break
    return "::".join(parts) or symbol
