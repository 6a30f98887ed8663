"""What needs a GPU is found where it is code, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.gpu_only import for_host, gpu_constructs, needs_gpu, without_comments

PLAIN = "__global__ void f(const float *A, float *C, int N) { C[threadIdx.x] = A[N]; }\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('asm volatile("bar.sync 0;");', "inline PTX (asm)"),
        ('__asm__("trap;");', "inline PTX (asm)"),
        ("wmma::mma_sync(c, a, b, c);", "tensor-core operations (wmma)"),
        ("nvcuda::wmma::fill_fragment(a, 0);", "tensor-core operations (wmma)"),
        ("using namespace nvcuda; wmma::fragment<int> a;", "tensor-core operations (wmma)"),
        ("using namespace nvcuda::wmma; mma_sync(c, a, b, c);", "tensor-core operations (wmma)"),
        ("using namespace nvcuda::wmma; fragment<matrix_a> a;", "tensor-core operations (wmma)"),
        ("namespace w = nvcuda::wmma; w::fragment<int> a;", "tensor-core operations (wmma)"),
        ("namespace wmma = nvcuda::wmma; wmma::fragment<int> a;", "tensor-core operations (wmma)"),
        ("using nvcuda::wmma::fragment; fragment<int> a;", "tensor-core operations (wmma)"),
        ("namespace cg = cooperative_groups; cg::sync(b);", "cooperative groups"),
        ("using namespace cooperative_groups; this_grid().sync();", "cooperative groups"),
        ("cooperative_groups::this_thread_block().sync();", "cooperative groups"),
        (
            "#include <cuda/barrier>\nusing namespace cuda; barrier<thread_scope_block> b;",
            "cuda::barrier and cuda::pipeline",
        ),
        ("cuda::std::array<float, 4> x;", "libcu++ (cuda::std)"),
        ("cuda::atomic_ref<float> x(y);", "libcu++ (cuda::std)"),
        ("using namespace cuda::std;", "libcu++ (cuda::std)"),
        ("cuda::memcpy_async(s, g, n, b);", "cuda::barrier and cuda::pipeline"),
        ("cuda :: pipeline p;", "cuda::barrier and cuda::pipeline"),
        ("__pipeline_commit();", "asynchronous copies (cp.async)"),
        ("half x = y;", "half precision"),
        ("load<half>(A);", "half precision"),
        ("load<half, float>(A);", "half precision"),
        ("float x = (half)y;", "half precision"),
        ("int n = sizeof(half);", "half precision"),
        ("auto x = __float2half(y);", "half precision"),
        ("auto x = make_half2(y, y);", "half precision"),
        ("x = __hfma2(x, y, z);", "half precision"),
        ("const __half *A", "half precision"),
        ("half2 *pair;", "half precision"),
        ("__nv_bfloat16 x;", "bfloat16"),
        ("auto x = __float2bfloat16(y);", "bfloat16"),
        ("__nv_fp8_e4m3 x;", "8-bit floating point"),
        ("float x = tex2D<float>(t, 1, 2);", "textures"),
        ("cudaTextureObject_t t;", "textures"),
        ("__cluster_dims__(2, 1, 1)", "thread block clusters"),
        ("cute::Tensor x;", "CUTLASS"),
        ("using namespace cute;", "CUTLASS"),
        (
            "#define LOAD(x) wmma::load(x)\n#define NEXT(x) LOAD(x)\nvoid g() { NEXT(1); }",
            "tensor-core operations (wmma)",
        ),
        ("#define ELEMENT half *\nELEMENT x;", "half precision"),
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
        "int side, half = N / 2; x = half * side; if (x < half) y(half);",
        "unsigned const half = N / 2; x = half * 3;",
        "template <int half> void g() { h(half * 2); }",
        "__device__ float half(float x) { return 2 * half(x); }",
        "__host__ __device__ float __habitat(float x);",
        "int plasma = 1, asmall = 2;",
        "float texture_weight = 1;",
        '#include "tile.cuh"',
        "#include <cuda_runtime.h>",
        "",
        # What only prepares for a use.
        "#include <cuda_fp16.h>",
        '# include "cuda_fp16.h"',
        "#include <cuda_bf16.h>",
        "#include <cuda_fp8.h>",
        "#include <mma.h>",
        "#include <cooperative_groups.h>",
        "#include <cuda/barrier>",
        "#include <cuda/std/limits>",
        "#include <cuda_pipeline_primitives.h>",
        "#include <cutlass/gemm.h>",
        "using namespace nvcuda;",
        "using namespace nvcuda::wmma;",
        "using nvcuda::wmma::fragment;",
        "namespace cg = cooperative_groups;",
        "namespace cg = cooperative_groups;\nvoid g() { namespace cg = cooperative_groups; }",
        "#define HALF2(x) (*(half2 *)&(x))",
        '#define COPY(x) asm("x" : \\\n  : x)\n#define TWICE(x) COPY(x) COPY(x)',
        "#ifndef COPY\n#define COPY(x) asm(x)\n#endif",
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


def test_the_first_mention_is_that_of_the_include() -> None:
    text = f"#include <mma.h>\n#include <cuda_fp16.h>\n{PLAIN}half x;\n"
    assert gpu_constructs(text) == [(text.index("#include <cuda_fp16"), "half precision")]


def test_a_local_header_uses_what_the_file_includes() -> None:
    header = "__device__ float wide(__half x) { return x; }\n"
    assert needs_gpu(f"#include <cuda_fp16.h>\n{PLAIN}", [header]) == "half precision"
    assert needs_gpu(f"#include <mma.h>\n{PLAIN}", [header]) == ""


@pytest.mark.parametrize(
    "line",
    [
        "#include <cuda_fp16.h>",
        '#include "cuda_fp16.h"',
        "  #  include <cuda_bf16.h>",
        "#include <cuda_fp8.h>",
        "#include <mma.h>",
        "#include <cooperative_groups.h>",
        "#include <cooperative_groups/memcpy_async.h>",
        "#include <cuda_pipeline.h>",
        "#include <cuda_pipeline_primitives.h>",
        "#include <cuda/barrier>",
        "#include <cuda/std/type_traits>",
        "namespace cg = cooperative_groups;",
        "using namespace nvcuda;",
        "using namespace cooperative_groups;",
        "using cooperative_groups::thread_block;",
    ],
)
def test_the_host_is_spared_what_is_not_used(line: str) -> None:
    found = for_host(f"{PLAIN}{line}\n{PLAIN}", lambda include: False)
    assert found.split("\n") == [PLAIN.strip(), " " * len(line), PLAIN.strip(), ""]


@pytest.mark.parametrize(
    "line",
    [
        "#include <cuda_runtime.h>",
        "#include <cmath>",
        '#include "tile.cuh"',
        "// #include <mma.h>",
        "namespace mine = yours;",
        "using namespace std;",
    ],
)
def test_the_host_keeps_what_it_knows(line: str) -> None:
    text = f"{line}\n{PLAIN}"
    assert for_host(text, lambda include: False) == text


def test_the_host_keeps_a_header_of_the_users() -> None:
    text = '#include "mma.h"\n#include <mma.h>\n'
    mine = for_host(text, lambda include: include == '"mma.h"')
    assert mine.split("\n") == ['#include "mma.h"', " " * len("#include <mma.h>"), ""]


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
