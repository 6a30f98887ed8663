"""What in a kernel's source needs a GPU, found before a host compiler meets it."""

from __future__ import annotations

import re

_CONSTRUCTS = (
    (r"\basm\b|\b__asm__\b", "inline PTX (asm)"),
    (r"\bwmma\s*::|#\s*include\s*[<\"]mma\.h|\bnvcuda\b", "tensor-core operations (wmma)"),
    (r"\bcooperative_groups\b", "cooperative groups"),
    (r"\bcuda\s*::\s*(?:barrier|pipeline|memcpy_async|aligned_size_t)\b"
     r"|#\s*include\s*[<\"]cuda/(?:barrier|pipeline)", "cuda::barrier and cuda::pipeline"),
    (r"\b__pipeline_\w+|\bcp_async\w*|#\s*include\s*[<\"]cuda_pipeline",
     "asynchronous copies (cp.async)"),
    (r"\b(?:__half2?|half2?)\b(?=\s*[*&\w(])|#\s*include\s*[<\"]cuda_fp16", "half precision"),
    (r"\b__nv_bfloat16\w*|\bnv_bfloat162?\b|#\s*include\s*[<\"]cuda_bf16", "bfloat16"),
    (r"\b__nv_fp8\w*|#\s*include\s*[<\"]cuda_fp8", "8-bit floating point"),
    (r"\btex(?:1D|2D|3D)\w*\s*[<(]|\bcudaTextureObject_t\b|\btexture\s*<|\bsurf(?:1D|2D|3D)\w*\s*[<(]",
     "textures"),
    (r"\bcluster_dims\b|\b__cluster_dims__\b", "thread block clusters"),
    (r"\bcute\s*::|\bcutlass\s*::|#\s*include\s*[<\"](?:cute|cutlass)/", "CUTLASS"),
)  # fmt: skip
_SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b.*$", re.MULTILINE)


def without_comments(source: str) -> str:
    """The source with comments and texts blanked out; lines and columns stay as they are.

    The names of included files are kept.
    """
    includes = [match.span() for match in _INCLUDE.finditer(source)]

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        if text[0] == '"' and any(begin <= match.start() < end for begin, end in includes):
            return text
        return re.sub(r"[^\n]", " ", text)

    return _SKIPPED.sub(blank, source)


def gpu_constructs(source: str) -> list[tuple[int, str]]:
    """The constructs that need a GPU, each with the offset of its first use, the first first."""
    text = without_comments(source)
    found = ((re.search(pattern, text), name) for pattern, name in _CONSTRUCTS)
    return sorted((match.start(), name) for match, name in found if match)


def needs_gpu(source: str) -> str:
    """The first construct that needs a GPU, in words; "" where there is none."""
    return next((name for _, name in gpu_constructs(source)), "")
