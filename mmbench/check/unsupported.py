"""What the checked build cannot run, found in the source before a compiler meets it."""

from __future__ import annotations

import re
from pathlib import Path

from mmbench.errors import MmbenchError


class UnsupportedError(MmbenchError):
    """The kernel uses a construct that needs a GPU; the message names it and its line."""

    kind = "unsupported"


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
_LAUNCH = re.compile(r"<<<")
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


def refuse_unsupported(path: Path, source: str, entry: str) -> None:
    """Raise UnsupportedError at the first construct that cannot be checked here."""
    text = without_comments(source)
    found = [
        (match.start(), name)
        for pattern, name in _CONSTRUCTS
        if (match := re.search(pattern, text))
    ]
    launch = _launch_in_kernel(text, entry)
    if launch is not None:
        found.append((launch, "a launch from inside a kernel (dynamic parallelism)"))
    if not found:
        return
    start, name = min(found)
    line = text.count("\n", 0, start) + 1
    raise UnsupportedError(
        f"{path}:{line}: {name} cannot be checked on the host; check this kernel on a GPU"
    )


def _launch_in_kernel(text: str, entry: str) -> int | None:
    """Where the body of the entry, or any function of the device, launches a kernel."""
    for match in _LAUNCH.finditer(text):
        before = text[: match.start()]
        opened = before.rfind("__global__"), before.rfind("__device__")
        body = before[max(opened) :] if max(opened) >= 0 else ""
        if body and body.count("{") > body.count("}"):
            return match.start()
    return None
