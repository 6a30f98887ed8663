"""What in a kernel's source needs a GPU, found before a host compiler meets it.

A construct counts where the code uses it. An include, a name for a namespace and a macro are no
use: beside a plain kernel they often belong to another one of the file, which has been cut away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class _Construct:
    """What uses it, and what only prepares for it: the headers that have it."""

    name: str
    use: str
    header: str = "(?!)"


_HALF_FUNCTIONS = (
    r"\b__h(?:add|sub|mul|div|fma|neg|abs|max|min|cmadd|is(?:nan|inf)|b?(?:eq|ne|lt|le|gt|ge))"
    r"(?:u?2?|_\w+)\b"
)
_CONSTRUCTS = (
    _Construct("inline PTX (asm)", r"\basm\b|\b__asm__\b"),
    _Construct(
        "tensor-core operations (wmma)",
        r"\bwmma\s*::|\bnvcuda\b|\b(?:(?:load|store)_matrix|mma)_sync\b|\bfill_fragment\b"
        r"|\bfragment\s*<\s*(?:matrix_[ab]|accumulator)\b",
        r"(?:crt/)?mma\.h",
    ),
    _Construct(
        "cooperative groups",
        r"\bcooperative_groups\b|\bthis_(?:thread_block|grid|cluster)\b|\btiled_partition\b"
        r"|\bcoalesced_threads\b|\bthread_block_tile\s*<",
        r"cooperative_groups[./]",
    ),
    _Construct(
        "cuda::barrier and cuda::pipeline",
        r"\bcuda\s*::\s*(?:barrier|pipeline|memcpy_async|aligned_size_t|make_pipeline)\b"
        r"|\b(?:barrier|pipeline\w*)\s*<\s*(?:cuda\s*::\s*)?thread_scope_",
        r"cuda/(?:barrier|pipeline)",
    ),
    _Construct(
        "libcu++ (cuda::std)",
        r"\bcuda\s*::\s*(?:std|ptx|atomic\w*|thread_scope\w*|latch|annotated_ptr)\b"
        r"|\busing\s+namespace\s+cuda\b",
        r"cuda/",
    ),
    _Construct(
        "asynchronous copies (cp.async)", r"\b__pipeline_\w+|\bcp_async\w*", "cuda_pipeline"
    ),
    _Construct(
        "half precision",
        r"\b(?:__\w*|make_)half\w*|\bsizeof\s*\(\s*half[28]?\s*\)"
        r"|\bhalf[28]?\b(?=\s*(?:[*&\w(>\[]|,\s*\w+\s*[,>]|\)\s*[\w(]))"
        rf"|{_HALF_FUNCTIONS}",
        "cuda_fp16",
    ),
    _Construct(
        "bfloat16",
        r"\b__nv_bfloat16\w*|\bnv_bfloat162?\b|\b__\w*2bfloat16\w*|\b__bfloat16\w+",
        "cuda_bf16",
    ),
    _Construct("8-bit floating point", r"\b__nv_(?:fp8|cvt)\w*", "cuda_fp8"),
    _Construct(
        "textures",
        r"\btex(?:1D|2D|3D)\w*\s*[<(]|\bcudaTextureObject_t\b|\btexture\s*<"
        r"|\bsurf(?:1D|2D|3D)\w*\s*[<(]",
    ),
    _Construct("thread block clusters", r"\bcluster_dims\b|\b__cluster_dims__\b"),
    _Construct(
        "CUTLASS",
        r"\b(?:cute|cutlass)\s*::|\busing\s+namespace\s+(?:cute|cutlass)\b",
        "(?:cute|cutlass)/",
    ),
)

_SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*", re.MULTILINE)
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_HALF_VARIABLE = re.compile(
    r"\b(?:int|unsigned|long|short|size_t|u?int\d+_t|float|double|auto)\s+"
    r"(?:const\s+)?"
    r"(?:\w+\s*(?:=[^;,(){}]*)?,\s*)*half\s*[=;,()\[>]"
)

# What only the CUDA toolkit has; the host's build gives its own CUDA types and functions.
_GPU_HEADER = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*(?P<named>[<\"](?:cuda_(?:fp16|bf16|fp8|fp6|fp4)\.hp*"
    r"|(?:crt/)?mma\.h|cooperative_groups(?:/\w+)?\.h|cuda_pipeline\w*\.h|cuda/[\w/]+"
    r"|(?:device|math)_functions\.h|math_constants\.h|vector_(?:types|functions)\.hp*"
    r"|builtin_types\.h|sm_\w+\.hp*)"
    r"[>\"])",
    re.MULTILINE,
)
_SPACE = r"(?:::\s*)?(?:{})\b(?:\s*::\s*\w+)*"
_NAMESPACES = "nvcuda|wmma|cooperative_groups|cuda|cute|cutlass"
_ALIAS = re.compile(rf"\bnamespace\s+(\w+)\s*=\s*{_SPACE.format(_NAMESPACES)}\s*;")
_USING_NAME = re.compile(rf"\busing\s+{_SPACE.format(_NAMESPACES)}\s*::\s*(\w+)\s*;")
_USING_ALL = re.compile(
    rf"\busing\s+namespace\s+{_SPACE.format('nvcuda|wmma|cooperative_groups')}\s*;"
)


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with these parts blanked out; lines and columns stay as they are."""
    for begin, end in spans:
        text = text[:begin] + _blanked(text[begin:end]) + text[end:]
    return text


def without_comments(source: str) -> str:
    """The source with comments and texts blanked out; lines and columns stay as they are.

    The names of included files are kept.
    """
    includes = [match.span() for match in _INCLUDE.finditer(source)]

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        if text[0] == '"' and any(begin <= match.start() < end for begin, end in includes):
            return text
        return _blanked(text)

    return _SKIPPED.sub(blank, source)


def _without_idle_macros(text: str) -> str:
    """The text without directives, but for the macros that the code leads to."""
    macros: dict[str, list[re.Match[str]]] = {}
    directives = list(_DIRECTIVE.finditer(text))
    for each in directives:
        if found := _DEFINE.match(each.group()):
            macros.setdefault(found.group(1), []).append(each)
    code = _without(text, [each.span() for each in directives])
    used: set[tuple[int, int]] = set()
    pending = set(_WORD.findall(code))
    while pending:
        name = pending.pop()
        for each in macros.pop(name, ()):
            used.add(each.span())
            pending |= set(_WORD.findall(each.group()))
    return _without(text, [each.span() for each in directives if each.span() not in used])


def _idle_names(code: str) -> list[tuple[int, int]]:
    """Where the code names a namespace of the GPU's and makes no use of the name."""
    named = [match for pattern in (_ALIAS, _USING_NAME) for match in pattern.finditer(code)]
    whole = [match.span() for match in _USING_ALL.finditer(code)]
    used = _WORD.findall(_without(code, whole + [match.span() for match in named]))
    return whole + [match.span() for match in named if match.group(1) not in used]


def _used(text: str) -> str:
    """The part of a text without comments that uses something."""
    code = _without_idle_macros(text)
    code = _without(code, _idle_names(code))
    if _HALF_VARIABLE.search(code):
        code = re.sub(r"\bhalf\b", "    ", code)  # a number of that name, and not the type
    return code


def gpu_constructs(source: str, headers: Sequence[str] = ()) -> list[tuple[int, str]]:
    """The constructs that need a GPU, the first first, each with the offset of its first mention.

    ``headers`` are the texts of the local headers: what they use of a header that the source
    includes counts as well.
    """
    text = without_comments(source)
    code, beside = _used(text), _used(without_comments("\n".join(headers)))
    found = []
    for each in _CONSTRUCTS:
        use = re.search(each.use, code)
        included = re.search(rf"#\s*include\s*[<\"]{each.header}", text)
        if use or (included and re.search(each.use, beside)):
            mentions = [match.start() for match in (use, included) if match]
            found.append((min(mentions), each.name))
    return sorted(found)


def needs_gpu(source: str, headers: Sequence[str] = ()) -> str:
    """The first construct that needs a GPU, in words; "" where there is none."""
    return _first_construct(source, tuple(headers))


@lru_cache  # each point of a kernel asks
def _first_construct(source: str, headers: tuple[str, ...]) -> str:
    return next((name for _, name in gpu_constructs(source, headers)), "")


def for_host(source: str, is_local: Callable[[str], bool]) -> str:
    """The source without what a host compiler does not know and the code does not use.

    That are the toolkit's headers, and names for its namespaces. ``is_local`` says of an include,
    with its quotes or brackets, whether it is a file of the user's. Lines stay where they are.
    """
    text = without_comments(source)
    spans = [
        match.span()
        for match in _GPU_HEADER.finditer(text)
        if not is_local(match.group("named"))
    ]  # fmt: skip
    spans += _idle_names(_without_idle_macros(text))
    return _without(source, spans)
