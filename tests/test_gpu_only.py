"""What needs a GPU is found where it is code, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.gpu_only import gpu_constructs, needs_gpu, without_comments

PLAIN = "__global__ void f(const float *A, float *C, int N) { C[threadIdx.x] = A[N]; }\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('asm volatile("bar.sync 0;");', "inline PTX (asm)"),
        ('__asm__("trap;");', "inline PTX (asm)"),
        ("#include <mma.h>", "tensor-core operations (wmma)"),
        ("using namespace nvcuda;", "tensor-core operations (wmma)"),
        ("wmma::mma_sync(c, a, b, c);", "tensor-core operations (wmma)"),
        ("namespace cg = cooperative_groups;", "cooperative groups"),
        ("#include <cuda/barrier>", "cuda::barrier and cuda::pipeline"),
        ("cuda::memcpy_async(s, g, n, b);", "cuda::barrier and cuda::pipeline"),
        ("cuda :: pipeline p;", "cuda::barrier and cuda::pipeline"),
        ("__pipeline_commit();", "asynchronous copies (cp.async)"),
        ("#include <cuda_pipeline_primitives.h>", "asynchronous copies (cp.async)"),
        ("#include <cuda_fp16.h>", "half precision"),
        ('# include "cuda_fp16.h"', "half precision"),
        ("half x = y;", "half precision"),
        ("const __half *A", "half precision"),
        ("half2 *pair;", "half precision"),
        ("__nv_bfloat16 x;", "bfloat16"),
        ("#include <cuda_bf16.h>", "bfloat16"),
        ("#include <cuda_fp8.h>", "8-bit floating point"),
        ("float x = tex2D<float>(t, 1, 2);", "textures"),
        ("cudaTextureObject_t t;", "textures"),
        ("__cluster_dims__(2, 1, 1)", "thread block clusters"),
        ("#include <cute/tensor.hpp>", "CUTLASS"),
        ("cute::Tensor x;", "CUTLASS"),
        ("#include <cutlass/gemm.h>", "CUTLASS"),
    ],
)
def test_a_construct_is_named(line: str, name: str) -> None:
    assert needs_gpu(f"{line}\n{PLAIN}") == name
    assert needs_gpu(f"{PLAIN}{line}") == name


@pytest.mark.parametrize(
    "line",
    [
        "// asm volatile would be faster, wmma::mma_sync too",
        "/* #include <mma.h>\n half x; */",
        'const char *s = "asm half x wmma::";',
        "int half_width = 3, halfway = 2, myhalf;",
        "int half = N / 2;",
        "int plasma = 1, asmall = 2;",
        "float texture_weight = 1;",
        '#include "tile.cuh"',
        "#include <cuda_runtime.h>",
        "",
    ],
)
def test_what_only_looks_like_one_is_not(line: str) -> None:
    assert needs_gpu(f"{line}\n{PLAIN}") == ""


def test_they_come_in_the_order_of_the_file() -> None:
    text = 'half x;\nasm("trap;");\nwmma::fill_fragment(a, 0);\n'
    assert [name for _, name in gpu_constructs(text)] == [
        "half precision", "inline PTX (asm)", "tensor-core operations (wmma)",
    ]  # fmt: skip
    assert [text[at:].split()[0] for at, _ in gpu_constructs(text)][:1] == ["half"]


def test_comments_go_and_included_names_stay() -> None:
    text = 'int a; // b "c"\n#include "d.h" // e\nchar *f = "g//h"; /* i\nj */ int k = \'"\';\n'
    assert without_comments(text).split("\n") == [
        "int a;         ",
        '#include "d.h"     ',
        "char *f =       ;     ",
        "     int k =    ;",
        "",
    ]


@given(st.text(alphabet="ab\"'/*\\\n #", max_size=60))
def test_lines_and_columns_stay_as_they_are(text: str) -> None:
    found = without_comments(text)
    assert len(found) == len(text)
    assert [i for i, c in enumerate(found) if c == "\n"] == [
        i for i, c in enumerate(text) if c == "\n"
    ]
    assert all(new in (old, " ") for old, new in zip(text, found, strict=True))
