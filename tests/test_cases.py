"""Files as people really have them: what a user is told of each, on the host.

A row of a table is a kind of file. Those with the same options are run by one command.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mmbench import cli
from test_infer_texts import BLOCKTILING, DYNAMIC, F3, PLACE, PRODUCT, SQUARE, kernel, tiled

pytestmark = pytest.mark.cpu

QUICK = (
    "--runner", "cpu", "--baseline", "none", "--samples", "1", "--min-time", "0",
    "--max-time", "0.05",
)  # fmt: skip
EDGE = ("--n", "33", "--tile", "16")
OBLONG = ("--m", "20", "--n", "30", "--k", "40", "--tile", "8")
SWEPT = ("--n", "40", "--tile", "8,32")


@dataclass(frozen=True)
class Kind:
    """A file, the options it is run with, and what becomes of each of its rows."""

    text: str | bytes
    status: str = "ok"
    words: tuple[str, ...] = ()  # in the reason of each row
    options: tuple[str, ...] = EDGE
    said: tuple[str, ...] = ()  # on stderr
    beside: Mapping[str, str] = field(default_factory=dict)  # files of its folder


@dataclass(frozen=True)
class Answer:
    code: int
    rows: list[dict[str, Any]]
    err: str

    def of(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kernel"] == name]

    @property
    def error(self) -> str:
        """The one sentence of a command that did nothing."""
        assert "Traceback" not in self.err
        lines = [ln for ln in self.err.splitlines() if ln.startswith(("Error: ", "mmbench: "))]
        return lines[-1]


def command(*words: str) -> Answer:
    """Run ``mmbench run`` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mmbench", "run", *words, *QUICK, "--format", "json"])
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            cli.main()
    rows = json.loads(out.getvalue())["results"] if out.getvalue() else []
    assert isinstance(ended.value.code, int)
    return Answer(ended.value.code, rows, err.getvalue())


def write(folder: Path, name: str, kind: Kind) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.cu"
    text = kind.text
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    for other, content in kind.beside.items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_text(content)
    return path


Table = dict[str, Kind]


# Words for a kernel's text


GUARDED = "#ifndef TILE_SIZE\n#define TILE_SIZE 16\n#endif\n"
NAIVE = kernel(SQUARE)
TILED = GUARDED + tiled("TILE_SIZE")
UNGUARDED = (
    TILED.replace("r < N && x < N ? A[r * N + x] : 0", "A[r * N + x]")
    .replace("y < N && c < N ? B[y * N + c] : 0", "B[y * N + c]")
    .replace("    if (r < N && c < N)\n", "")
)
SYNC = "        __syncthreads();\n"
FIRST, BETWEEN, LAST = TILED.split(SYNC)


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def general(parameters: str, leading: str = "K N N", m_n_k: str = "M N K", real: str = "float",
            store: str = "sum") -> str:  # fmt: skip
    """A product with free names; ``leading`` are the strides of A, B and C."""
    (a, b, c), (m, n, k) = leading.split(), m_n_k.split()
    return f"""\
__global__ void f({parameters})
{{
    auto row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= {m} || col >= {n}) return;
    {real} sum = 0;
    for (int i = 0; i < {k}; ++i) sum += A[row * {a} + i] * B[i * {b} + col];
    C[row * {c} + col] = {store};
}}
"""


INT8 = "const int8_t *A, const int8_t *B, int *C, int M, int N, int K"
F3_MNK = f"{F3}, int M, int N, int K"
BLAS = "int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C"
BLAS_STORE = "alpha * sum + beta * C[row * N + col]"
COLUMNS = """\
__global__ void f(PARAMETERS)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= M || j >= N) return;
    float sum = 0;
    for (int p = 0; p < K; ++p) sum += A[i + p * M] * B[p + j * K];
    C[i + j * M] = sum;
}
"""
LINEAR = """\
__global__ void linear(float *y, const float *x, const float *w, const float *bias,
                       int rows, int in, int units)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x, u = blockIdx.y * blockDim.y + threadIdx.y;
    if (r >= rows || u >= units) return;
    float sum = bias == nullptr ? 0.0f : bias[u];
    for (int i = 0; i < in; ++i) sum += x[r * in + i] * w[u * in + i];
    y[r * units + u] = sum;
}
"""
LINEAR_ARGS = "y=C, x=A, w=B, bias=null, rows=M, in=K, units=N"
FIXED = "const int SIDE = 48;\n" + changed(kernel(f"{F3}"), ("N", "SIDE"))
ROWS = (
    "#define SIDE 48\n"
    + changed(
        kernel("float A[SIDE][SIDE], float B[SIDE][SIDE], float C[SIDE][SIDE]"),
        ("[row * N + k]", "[row][k]"), ("[k * N + col]", "[k][col]"),
        ("[row * N + col]", "[row][col]"), ("N", "SIDE"),
    )
)  # fmt: skip
WIDE = """\
#ifndef BLOCK
#define BLOCK 64
#endif
__global__ void f(const double *A, const double *B, double *C, int N)
{
    __shared__ double a[BLOCK][BLOCK], b[BLOCK][BLOCK];
    double sum[BLOCK / 16][BLOCK / 16] = {};
    for (int k0 = 0; k0 < N; k0 += BLOCK) {
        for (int i = threadIdx.y; i < BLOCK; i += 16)
            for (int j = threadIdx.x; j < BLOCK; j += 16) {
                int r = blockIdx.y * BLOCK + i, c = blockIdx.x * BLOCK + j;
                a[i][j] = r < N && k0 + j < N ? A[r * N + k0 + j] : 0;
                b[i][j] = k0 + i < N && c < N ? B[(k0 + i) * N + c] : 0;
            }
        __syncthreads();
        for (int k = 0; k < BLOCK; ++k)
            for (int i = 0; i < BLOCK / 16; ++i)
                for (int j = 0; j < BLOCK / 16; ++j)
                    sum[i][j] += a[threadIdx.y + 16 * i][k] * b[k][threadIdx.x + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < BLOCK / 16; ++i)
        for (int j = 0; j < BLOCK / 16; ++j) {
            int r = blockIdx.y * BLOCK + threadIdx.y + 16 * i;
            int c = blockIdx.x * BLOCK + threadIdx.x + 16 * j;
            if (r < N && c < N) C[r * N + c] = sum[i][j];
        }
}
"""
COARSE = """\
#define ROWS 32
#define COLS 32
#define STEP 8
#define EACH 4
__global__ void f(float *A, float *B, float *C, int M, int N, int K)
{
    __shared__ float a[ROWS][STEP], b[STEP][COLS];
    int t = threadIdx.x, col = blockIdx.x * COLS + t % COLS, down = t / COLS;
    float sum[EACH] = {};
    for (int k0 = 0; k0 < K; k0 += STEP) {
        int ar = blockIdx.y * ROWS + t / STEP, ak = k0 + t % STEP, bk = k0 + down;
        a[t / STEP][t % STEP] = ar < M && ak < K ? A[ar * K + ak] : 0;
        b[down][t % COLS] = bk < K && col < N ? B[bk * N + col] : 0;
        __syncthreads();
        for (int k = 0; k < STEP; ++k)
            for (int i = 0; i < EACH; ++i) sum[i] += a[down * EACH + i][k] * b[k][t % COLS];
        __syncthreads();
    }
    for (int i = 0; i < EACH; ++i) {
        int row = blockIdx.y * ROWS + down * EACH + i;
        if (row < M && col < N) C[row * N + col] = sum[i];
    }
}
"""
PROGRAM = f"""\
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include "cublas_v2.h"
#include <helper_cuda.h>
#define CHECK(x) if ((x) != cudaSuccess) {{ std::printf("failed\\n"); std::exit(1); }}
#define SIDE 16
// __global__ void old(float *A) {{}}
{tiled("SIDE")}
int main(int argc, char **argv)
{{
    int N = 100;
    float *a, *b, *c;
    CHECK(cudaMalloc(&a, N * N * sizeof(float)));
    CHECK(cudaMalloc(&b, N * N * sizeof(float)));
    CHECK(cudaMalloc(&c, N * N * sizeof(float)));
    std::vector<float> host(N * N, 1.0f);
    f<<<dim3((N + SIDE - 1) / SIDE, (N + SIDE - 1) / SIDE), dim3(SIDE, SIDE)>>>(a, b, c, N);
    cudaDeviceSynchronize();
    std::printf("__global__ void g() took %d ms\\n", 3);
}}
"""
WMMA = """\
#include <mma.h>
using namespace nvcuda;
__global__ void f(const half *A, const half *B, float *C, int N)
{
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::store_matrix_sync(C + blockIdx.y * 16 * N + blockIdx.x * 16, sum, N,
                            wmma::mem_row_major);
}
"""
STORE = "C[row * N + col] = acc;"
IDLE = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <cuda/barrier>
#include <cuda/std/limits>
namespace cg = cooperative_groups;
using namespace nvcuda;
#define HALF2(x) (*reinterpret_cast<half2 *>(&(x)))
#define COPY(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" : : "r"(to))
typedef __half element;
__device__ element twice(element x) { return HALF2(x).x + x; }
struct Pair { element first, second; };
"""
BESIDE_WMMA = IDLE + NAIVE + WMMA.replace("void f", "void by_wmma")
BY_HELPERS = changed(
    NAIVE, ("acc += A[row * N + k]", "acc += through(A[row * N + k])")
)  # fmt: skip
THROUGH = "__device__ float through(float x) { return BODY; }\n"
MULTIPLES = "multiples of the tile"


def named_tile(definition: str, name: str, **more: Any) -> Kind:
    return Kind(f"{definition}\n{tiled(name)}", options=SWEPT, **more)


KINDS: Table = {
    # Right at whole tiles alone.
    "no_edge_guard": Kind(UNGUARDED, "wrong", ("elements outside C", "N=32", "N=33", MULTIPLES)),
    "floor_tile_count": Kind(
        changed(TILED, ("(N + TILE_SIZE - 1) / TILE_SIZE", "N / TILE_SIZE")),
        "wrong", ("elements differ", MULTIPLES)),
    "return_before_barrier": Kind(
        changed(TILED, ("    float acc = 0;",
                        "    if (r >= N || c >= N) return;\n    float acc = 0;")),
        "wrong", ("elements differ", MULTIPLES)),
    "and_for_or": Kind(
        changed(NAIVE, ("if (row < N && col < N)", "if (row < N || col < N)")),
        "wrong", ("elements outside C", MULTIPLES)),
    # Wrong everywhere.
    "swapped_index": Kind(changed(TILED, ("b[ty][tx] =", "b[tx][ty] =")), "wrong", ("differ",)),
    "no_initial_value": Kind(
        changed(NAIVE, ("float acc = 0;", "float acc;")), "wrong", ("elements differ",)),
    "adds_to_c": Kind(
        changed(NAIVE, ("] = acc", "] += acc")), "wrong",
        ("the result is A*B plus the old C; if that is intended, use --beta 1",)),
    "one_nan": Kind(
        changed(NAIVE, (STORE, "if (row == 5 && col == 7) acc = (acc - acc) / 0.0f; " + STORE)),
        "wrong", ("1 of 1089 elements differ; first C[5][7] = ", "1 is NaN")),
    "half_written": Kind(
        changed(NAIVE, ("col < N)", "col < N && row != 4)")), "wrong", ("33 never written",)),
    "ignores_beta": Kind(
        general(BLAS, store="alpha * sum"), "wrong", ("with alpha=2 beta=3: ",)),
    "ignores_alpha": Kind(
        general(BLAS, store="sum + beta * C[row * N + col]"), "wrong", ("with alpha=2 beta=3: ",)),
    "columns_as_rows": Kind(
        COLUMNS.replace("PARAMETERS", SQUARE).replace("M", "N").replace("K", "N"), "wrong",
        ("hint: the result matches column-major storage: use --layout col",)),
    "c_as_columns": Kind(
        changed(NAIVE, ("C[row * N + col]", "C[col * N + row]")), "wrong",
        ("hint: C is stored transposed: use --layout C=col",),
        said=("C seems to be stored by columns, A and B are not (see --layout C=col)",)),
    "float_sum_of_doubles": Kind(
        changed(NAIVE, ("float", "double"), ("double acc", "float acc")), "wrong",
        ("the bound for float64", "the accumulator may be float")),
    "wraps_at_16_bits": Kind(
        changed(general(F3_MNK), ("A[row * K + i]", "A[(short)(row * K + i) & 0x7fff]")),
        "wrong", ("elements differ",), ("--m", "200", "--n", "16", "--k", "200", "--tile", "16")),
    "overflows_int8": Kind(
        general(INT8, real="signed char"),
        "wrong", (), OBLONG),
    # Faults of one kernel are its own.
    "illegal_access": Kind(
        changed(NAIVE, ("C[row * N + col] =", "C[((long long)row << 40) + col] =")),
        "failed", ("illegal memory access",)),
    "device_assert": Kind(
        "#include <assert.h>\n" + changed(NAIVE, (STORE, "assert(row != 32); " + STORE)),
        "failed", ("device-side assert in the kernel (row != 32)",)),
    "assert_that_holds": Kind(
        "#include <cassert>\n" + changed(NAIVE, (STORE, "assert(blockDim.x == 16); " + STORE))),
    "compile_error": Kind(
        changed(NAIVE, ("float acc = 0;", "float acc = 0")), "failed",
        ("compile_error.cu:", "error:")),
    "declared_alone": Kind(
        "__device__ float mad(float a, float b, float c);\n"
        + changed(NAIVE, ("acc += A[row * N + k] * B[k * N + col]",
                          "acc = mad(A[row * N + k], B[k * N + col], acc)")), "failed",
        ("declared_alone.cu: mad is declared but not defined in this file; define it there",)),
    # Right.
    "naive": Kind(NAIVE, said=("naive.cu: kernel f; A, B, C, N; the tile is the block",)),
    "good_tiled": Kind(TILED, said=("TILE_SIZE is the tile",)),
    "fast_math": Kind(
        changed(NAIVE, ("= acc;", "= acc * __fdividef(__expf(0.0f), __cosf(0.0f));"))),
    "double": Kind(NAIVE.replace("float", "double")),
    "extern_c": Kind('extern "C" ' + NAIVE.replace("float *", "float *__restrict__ ")),
    "extern_c_block": Kind('extern "C" {\n' + TILED + "}\n"),
    "launch_bounds": Kind(NAIVE.replace("void f", "void __launch_bounds__(256) f")),
    "static": Kind("static " + NAIVE),
    "in_namespaces": Kind(f"namespace one {{ namespace two {{\n{TILED}}} }}\n"),
    "template_tile": Kind("template <int SIDE>\n" + tiled("SIDE")),
    "template_tile_and_type": Kind(
        "template <class T, unsigned SIDE = 16>\n" + tiled("SIDE").replace("float", "T")),
    "in_comments_and_texts": Kind(
        f"// {SQUARE}\n/* __global__ void old(float *A) {{}}\n*/\n"
        f'static const char *help = "__global__ void g(int N)";\n{NAIVE}'),
    "if_0": Kind(f"#if 0\n{NAIVE.replace('= acc', '= 0')}#endif\n{NAIVE}"),
    "byte_order_mark_and_windows_lines": Kind(
        b"\xef\xbb\xbf"
        + f"// gr\u00f6\u00dfer \u2014 \u7533\u8bf7\n{TILED}".replace("\n", "\r\n").encode()),
    "mein Kern \u00e4 (2)": Kind(NAIVE),
    "a_whole_program": Kind(
        PROGRAM, said=("ignored #include", "cublas_v2.h", "helper_cuda.h", "SIDE is the tile")),
    "headers_of_the_host": Kind(
        f'#include <torch/extension.h>\n# include "cublas_v2.h"\n#include <iostream>\n{NAIVE}',
        said=("<torch/extension.h>",)),
    "a_local_header": Kind(
        '# include "sum.cuh"\n' + changed(NAIVE, ("= acc", "= SCALE * times_one(acc)")),
        beside={"sum.cuh": "#pragma once\n#define SCALE 1.0f\n"
                           "__device__ inline float times_one(float x) { return x; }\n"}),
    "types_of_a_local_header": Kind(
        '#include "types.h"\nusing namespace types;\n'
        + changed(NAIVE, ("int N", "count N"), ("const float *A", "const real *A")),
        beside={"types.h": "namespace types { using count = unsigned; typedef float real; }\n"}),
    "helpers": Kind(
        "__constant__ float one = 1.0f;\n__device__ float mad(float a, float b, float c) "
        "{ return a * b * one + c; }\n"
        + changed(NAIVE, ("acc += A[row * N + k] * B[k * N + col]",
                          "acc = mad(A[row * N + k], B[k * N + col], acc)"))),
    "dynamic_shared": Kind(DYNAMIC, said=("8 * TILE_SIZE * TILE_SIZE bytes of dynamic shared",)),
    "int": Kind(NAIVE.replace("float", "int")),
    # More than one size.
    "m_n_k": Kind(general(F3_MNK), options=OBLONG),
    "k_n_m": Kind(general(f"{F3}, int K, int N, int M"), options=OBLONG),
    "m_k_n_by_other_names": Kind(
        general(f"{F3}, int m, int n, int k", "n k k", "m k n"), options=OBLONG,
        said=("m = M, n = K, k = N",)),
    "output_first": Kind(
        general("float *C, const float *A, const float *B, int hA, int wA, int wB", "wA wB wB",
                "hA wB wA"), options=OBLONG, said=("kernel f; C, A, B, hA = M, wA = K, wB = N",)),
    "size_t": Kind(general(f"{F3}, size_t M, size_t N, size_t K"), options=OBLONG),
    "long_long": Kind(general(f"{F3}, long long M, unsigned int N, int64_t K"), options=OBLONG),
    "leading_dimensions": Kind(
        general(f"{F3}, int M, int N, int K, int lda, int ldb, int ldc", "lda ldb ldc"),
        options=OBLONG),
    "int8_to_int": Kind(
        general(INT8, real="int"),
        options=OBLONG),
    "blas": Kind(general(BLAS, store=BLAS_STORE), options=OBLONG),
    "coarsened": Kind(
        COARSE, options=OBLONG, said=("block (256), grid (ceil_div(N, 32), ceil_div(M, 32))",)),
    # The tile that is swept is the tile that is compiled.
    "unguarded_define": named_tile("#define TILE_SIZE 16", "TILE_SIZE"),
    "const_tile": named_tile("const int TILE_SIZE = 16;", "TILE_SIZE"),
    "constexpr_tile": named_tile("static constexpr unsigned TILE = 16;", "TILE"),
    "enum_tile": named_tile("enum { SIDE = 16 };", "SIDE", said=("SIDE is the tile",)),
    **{
        name: named_tile(f"#define {name} 32", name, said=(f"{name} is the tile",))
        for name in ("TILE_DIM", "BLOCK_SIZE")
    },
    # What cannot run here is skipped with the reason.
    "block_of_4096": Kind(
        NAIVE, "skipped", ("block 64x64 = 4096 threads, the limit is 1024",),
        ("--n", "70", "--tile", "64")),
    "shared_over_48_kb": Kind(
        WIDE, "skipped", ("needs 65536 bytes of static shared memory", "the limit is 49152"),
        ("--n", "70", "--tile", "64")),
    "a_block_over_its_bounds": Kind(
        "constexpr int LIMIT = 64;\n"
        + NAIVE.replace("void f", "void __launch_bounds__(LIMIT, 2) f"),
        "skipped", ("__launch_bounds__ allows 64 threads a block",)),
    "half": Kind(NAIVE.replace("float", "half"), "skipped", ("needs a GPU: half precision",)),
    "half_through_a_function": Kind(
        IDLE + THROUGH.replace("BODY", "__half2float(__float2half(x))") + BY_HELPERS,
        "skipped", ("needs a GPU: half precision",)),
    "half_through_a_type": Kind(
        IDLE + THROUGH.replace("BODY", "Pair p; return x") + BY_HELPERS,
        "skipped", ("needs a GPU: half precision",)),
    "ptx_through_a_macro": Kind(
        IDLE + THROUGH.replace("BODY", "0 * x; COPY(x, x)") + BY_HELPERS,
        "skipped", ("needs a GPU: inline PTX",)),
    "a_group_of_threads": Kind(
        IDLE + NAIVE.replace("{", "{ cg::thread_block all = cg::this_thread_block();", 1),
        "skipped", ("needs a GPU: cooperative groups",)),
    "wmma_beside_it": Kind(
        BESIDE_WMMA, "skipped", ("needs a GPU: half precision",), (*EDGE, "--entry", "by_wmma")),
    # What is in the file for other kernels does not hinder this one.
    "nothing_used": Kind(IDLE + NAIVE),
    "another_uses_it": Kind(BESIDE_WMMA, options=(*EDGE, "--entry", "f")),
    "wmma": Kind(WMMA, "skipped", ("needs a GPU: ",), ("--n", "32", "--tile", "16")),
    "ptx": Kind(
        changed(NAIVE, (STORE, 'asm volatile("membar.gl;"); ' + STORE)), "skipped",
        ("needs a GPU: inline PTX",)),
    "warp_match": Kind(
        changed(NAIVE, (STORE, "if (__match_any_sync(0xffffffffu, row)) " + STORE)), "skipped",
        ("the cpu runner has no __match_any_sync; run it on a GPU",)),
    "grid_over_65535": Kind(
        general(F3_MNK), "skipped", ("grid (1, 70000, 1) is over the limit of 65535 in y",),
        ("--m", "70000", "--n", "4", "--k", "4", "--block", "16,1", "--grid", "ceil(N/16),M")),
    # What the options make of a file.
    "beta_1": Kind(changed(NAIVE, ("] = acc", "] += acc")), options=(*EDGE, "--beta", "1")),
    "plain_with_beta_1": Kind(NAIVE, "wrong", ("elements differ",), (*EDGE, "--beta", "1")),
    "columns": Kind(
        COLUMNS.replace("PARAMETERS", SQUARE).replace("M", "N").replace("K", "N"),
        options=(*EDGE, "--layout", "col")),
    "rows_as_columns": Kind(
        NAIVE, "wrong", ("hint: the result matches row-major storage: use --layout row",),
        (*EDGE, "--layout", "col", "--args", "A,B,C,N")),
    "oblong_columns": Kind(
        COLUMNS.replace("PARAMETERS", F3_MNK), options=(*OBLONG, "--layout", "col")),
    "columns_of_blas": Kind(
        COLUMNS.replace("PARAMETERS", BLAS).replace(
            "= sum;", "= alpha * sum + beta * C[i + j * M];"),
        options=(*OBLONG, "--layout", "col")),
    "columns_with_leading_dimensions": Kind(
        COLUMNS.replace("PARAMETERS", f"{F3_MNK}, int lda, int ldb, int ldc")
        .replace("p * M", "p * lda").replace("j * K", "j * ldb").replace("j * M", "j * ldc"),
        options=(*OBLONG, "--layout", "col")),
    "b_transposed": Kind(LINEAR, options=(*OBLONG, "--args", LINEAR_ARGS, "--trans-b")),
    "b_transposed_untold": Kind(
        LINEAR, "wrong", ("use --trans-b",), (*OBLONG, "--args", LINEAR_ARGS)),
    "wrong_args": Kind(
        NAIVE, "wrong", ("the kernel wrote into A, which it must only read; check --args",),
        (*EDGE, "--args", "C,B,A,N")),
    "a_float_that_is_told": Kind(
        kernel(f"{SQUARE}, float scale", PLACE + PRODUCT.replace("= acc", "= scale * acc")),
        options=(*EDGE, "--args", "scale=1.0")),
    "a_shape_that_is_told": Kind(
        COARSE, options=(*OBLONG, "--block", "256", "--grid", "ceil(N/32),ceil(M/32)")),
    "a_wrong_shape": Kind(
        COARSE, "wrong", ("never written",), (*OBLONG, "--block", "16,16", "--grid", "2,2")),
    "shared_that_is_told": Kind(
        DYNAMIC.replace("*b = &s[T * T]", "*b = s + (N * 0 + T) * T"),
        options=(*EDGE, "--shared", "2*T*T*4")),
    "fixed_size": Kind(FIXED, options=(), said=("no size parameter: SIDE = 48 in the file",)),
    "fixed_size_at_it": Kind(FIXED, options=("--n", "48", "--tile", "16")),
    "fixed_size_freed": Kind(FIXED, options=("--n", "20,33", "--tile", "16", "-D", "SIDE=N")),
    "rows_as_parameters": Kind(ROWS, options=(), said=("SIDE = 48 in the file",)),
    "rows_as_parameters_freed": Kind(
        ROWS.replace("A[SIDE]", "(*A)").replace("C[SIDE][SIDE])", "C[][SIDE])"),
        options=("--n", "20,33", "--tile", "16", "-D", "SIDE=N")),
    "an_entry": Kind(
        NAIVE.replace("= acc", "= 0") + NAIVE.replace("void f", "void g"),
        options=(*EDGE, "--entry", "g")),
    "a_defined_macro": Kind(
        "#ifndef SCALE\n#define SCALE 2\n#endif\n" + NAIVE.replace("= acc", "= SCALE * acc"),
        options=(*EDGE, "--define", "SCALE=1")),
    "a_tile_that_is_told": Kind(
        '#include "lost.h"\n' + tiled("SIDE"), options=(*EDGE, "--define", "SIDE=T"),
        said=("SIDE is the tile; block (TILE_SIZE, TILE_SIZE)",)),
    "large_k": Kind(
        general(F3_MNK), options=("--m", "8", "--n", "8", "--k", "16384", "--tile", "8")),
    "template_arguments": Kind(BLOCKTILING, options=("--n", "64")),
}  # fmt: skip
NAMES = tuple(KINDS)


Run = Callable[[tuple[str, ...]], Answer]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The answer to the command of all kinds with these options, which is run once."""
    answers: dict[tuple[str, ...], Answer] = {}

    def answer(options: tuple[str, ...]) -> Answer:
        if options not in answers:
            words: list[str] = []
            folder = tmp_path_factory.mktemp("a folder with sp\u00e4ces")
            for name, kind in KINDS.items():
                if kind.options == options:
                    words += ["--kernel", str(write(folder, name, kind))]
            answers[options] = command(*words, *options)
        return answers[options]

    return answer


@pytest.mark.parametrize("name", NAMES)
def test_what_a_user_is_told(run: Run, name: str) -> None:
    kind = KINDS[name]
    answer = run(kind.options)
    rows = answer.of(name)
    assert rows, answer.err.splitlines()[-3:]
    for row in rows:
        assert row["status"] == kind.status, row["reason"]
        assert all(words in (row["reason"] or "") for words in kind.words), row["reason"]
        assert (row["gflops"] is not None) is (kind.status == "ok")
    remarks = [line for line in answer.err.splitlines() if f" {name}.cu: " in line]
    for words in kind.said:
        assert words in "\n".join(remarks)
    assert any("(to change: --args --block --grid" in line for line in remarks)
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("options", dict.fromkeys(kind.options for kind in KINDS.values()))
def test_the_exit_code_is_that_of_the_rows(run: Run, options: tuple[str, ...]) -> None:
    kinds = [kind for kind in KINDS.values() if kind.options == options]
    bad = any(kind.status in ("wrong", "failed") for kind in kinds)
    nothing = all("needs a GPU" in "".join(kind.words) for kind in kinds)
    assert run(options).code == (1 if bad else 2 if nothing else 0)


@pytest.mark.parametrize("name", [n for n, kind in KINDS.items() if kind.options == SWEPT])
def test_each_tile_has_its_own_program(run: Run, name: str) -> None:
    rows = run(SWEPT).of(name)
    assert {row["tile_size"]: row["shared_bytes"] for row in rows} == {
        tile: 4 * (tile * tile + tile * (tile + 1)) for tile in (8, 32)
    }


def test_a_compile_error_names_the_line(run: Run) -> None:
    (row,) = run(EDGE).of("compile_error")
    lines = str(KINDS["compile_error"].text).split("\n")
    missing = next(i for i, line in enumerate(lines, 1) if line.endswith("float acc = 0"))
    assert any(
        f"compile_error.cu:{line}: error:" in row["reason"] for line in (missing, missing + 1)
    )
    assert row["kind"] == "compile"
    assert "/tmp/" not in row["reason"].partition(".cu:")[2]


@pytest.mark.parametrize("barrier", ["after the load", "before the next load"])
def test_a_missing_barrier_is_not_called_a_crash(tmp_path: Path, barrier: str) -> None:
    """On the host it may be right or wrong; that it is missing is what ``check`` says."""
    parts = (FIRST, BETWEEN + SYNC, LAST) if barrier == "after the load" else (
        FIRST + SYNC, BETWEEN, LAST)  # fmt: skip
    path = write(tmp_path, "race", Kind("".join(parts)))
    answer = command("--kernel", str(path), "--n", "64", "--tile", "32")
    assert answer.rows[0]["status"] in ("ok", "wrong")
    text = path.read_text()
    assert text.count("__syncthreads") == 1
    done = subprocess.run(
        [sys.executable, "-m", "mmbench", "check", str(path), "--n", "33", "--tile", "16"],
        capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "race.cu:" in done.stdout


def test_an_old_c_is_not_called_unwritten(tmp_path: Path) -> None:
    """Where C is added to, a product of 0 leaves it; with beta = 3 a wrong C can be the old one."""
    for name, text in (
        ("adds", changed(NAIVE, ("] = acc", "] += acc"))),
        ("no_beta", general(BLAS, store="alpha * sum")),
    ):
        (row,) = command("--kernel", str(write(tmp_path, name, Kind(text))), *EDGE).rows
        assert row["status"] == "wrong"
        assert "never written" not in row["reason"]


def test_a_kernel_that_never_ends_ends_alone(tmp_path: Path) -> None:
    text = changed(NAIVE, ("k < N; k++", "k < N; k += N > 16"))
    path = write(tmp_path, "endless", Kind(text))
    answer = command("--kernel", str(path), "--n", "16,32", "--tile", "16", "--timeout", "1")
    first, second = answer.rows
    assert (first["status"], second["status"]) == ("timeout", "ok")
    assert "no result after 1 s" in first["reason"]
    assert answer.code == 1


def test_an_edited_header_is_compiled_anew(tmp_path: Path) -> None:
    kind = Kind('#include "scale.cuh"\n' + NAIVE.replace("= acc", "= SCALE * acc"),
                beside={"scale.cuh": "#define SCALE 1\n"})  # fmt: skip
    words = ("--kernel", str(write(tmp_path, "edited", kind)), *EDGE)
    assert command(*words).rows[0]["status"] == "ok"
    (tmp_path / "scale.cuh").write_text("#define SCALE 2\n")
    assert command(*words).rows[0]["status"] == "wrong"


def test_a_header_of_another_folder(tmp_path: Path) -> None:
    kind = Kind("#include <deep/scale.cuh>\n" + NAIVE.replace("= acc", "= SCALE * acc"),
                beside={"more headers/deep/scale.cuh": "#define SCALE 1\n"})  # fmt: skip
    words = ("--kernel", str(write(tmp_path, "told", kind)), *EDGE)
    lost = command(*words)
    assert (lost.code, lost.rows[0]["kind"]) == (2, "compile")
    assert "told.cu:" in lost.rows[0]["reason"]
    folder = tmp_path / "more headers"
    assert command(*words, "-I", str(folder)).rows[0]["status"] == "ok"
    (folder / "deep" / "scale.cuh").write_text("#define SCALE 2\n")
    assert command(*words, "--include", str(folder)).rows[0]["status"] == "wrong"


def test_a_plain_locale_reads_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "\u00f6rtlich", "k\u00e4se", KINDS["byte_order_mark_and_windows_lines"])
    words = ["run", "--kernel", str(path), *EDGE, *QUICK, "--format", "csv"]
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "mmbench", *words], capture_output=True, check=False,
        env={**os.environ, **plain}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b",ok," in done.stdout


# What is refused before anything runs


REFUSED: dict[str, tuple[str | bytes, tuple[str, ...], str]] = {
    "empty": ("", (), "no __global__ function found"),
    "no_kernel": (
        "__device__ float f(float x) { return x; }\n", (), "no __global__ function found"),
    "only_commented": (f"/*\n{NAIVE}*/\n", (), "no __global__ function found"),
    "two_kernels": (
        NAIVE + NAIVE.replace("void f", "void g"), (),
        "has 2 kernels (f, g); name one with --entry"),
    "another_entry": (NAIVE, ("--entry", "g"), "no kernel is called g; it has f"),
    "four_pointers": (
        LINEAR, (),
        "linear has 4 pointers (y, x, w, bias) where a product has three; say which are A, B and C "
        "with --args"),
    "structs": (
        "struct Matrix { int width; float *data; };\n"
        "__global__ void f(Matrix A, Matrix B, Matrix C) {}\n", (),
        "parameter A has type Matrix; mmbench fills pointers to float, double, half and int"),
    "rows_of_pointers": (kernel("float *A[], float *B[], float *C[], int N"), (), "float *A[]"),
    "a_pitch": (
        kernel(f"{SQUARE}, size_t pitch", PLACE + PRODUCT.replace(
            "C[row * N + col]", "((float *)((char *)C + row * pitch))[col]")), (),
        'pitch is the bytes of a row by its name; say what is passed for it with --args, such as '
        '"pitch=4*N"'),
    "pointers_to_pointers": (kernel("float **A, float **B, float **C, int N"), (), "float **A"),
    "short": (NAIVE.replace("float", "short"), (), "has matrices of short"),
    "a_float_without_a_meaning": (
        kernel(f"{SQUARE}, float scale"), (),
        "takes float scale; say what to pass for it with --args"),
    "no_size": (kernel(F3), (), "takes no size and has no constant that is one"),
    "another_size": (
        FIXED, ("--n", "64"), "has no size parameter and is right for N=48 alone, not for N=64"),
    "three_other_sizes": (
        "#define ROWS 20\n#define COLS 30\n#define INNER 40\n"
        + general(F3, "INNER COLS COLS", "ROWS COLS INNER"), ("--n", "64"),
        "or let COLS, INNER, ROWS follow with --define COLS=N --define INNER=K --define ROWS=M"),
    "shared_of_unknown_size": (
        DYNAMIC.replace("&s[T * T]", "s + N % 7 * T"), (),
        'whose size cannot be read; give its bytes, such as --shared "2*T*T*4"'),
    "no_template_argument": (
        "template <bool FAST> " + NAIVE, (), "the template parameter FAST without a value"),
    "too_few_args": (NAIVE, ("--args", "A,B,C"), "--args has 3 names, the kernel has 4 parameters"),
    "unknown_args": (NAIVE, ("--args", "D=A"), '--args: "D=A" names no parameter of the kernel'),
    "meaningless_args": (
        NAIVE, ("--args", "N=width"), "width is neither A, B, C, null, alpha, beta"),
    "unfitting_args": (NAIVE, ("--args", "N=A"), '"A" does not fit its parameter'),
    "a_defined_parameter": (
        NAIVE, ("--define", "N=64"), "--define N would replace the parameter of that name"),
    "no_definition": (NAIVE, ("--define", "3=N"), '--define: "3=N" is not NAME=VALUE'),
    "block_of_four": (NAIVE, ("--block", "1,2,3,4"), '"1,2,3,4" has 4 axes'),
    "block_of_nothing": (NAIVE, ("--block", "width"), '"width" uses width; known: K, M, N'),
    "empty_grid": (
        TILED, ("--n", "8", "--tile", "16", "--grid", "N/16,N/16"), 'is 0 at empty_grid N=8'),
    "grid_with_python": (NAIVE, ("--grid", "N.real"), "is not allowed here"),
    "shared_with_python": (DYNAMIC, ("--shared", "len(s)"), "is not allowed here"),
    "layout": (NAIVE, ("--layout", "column"), "is not row, col, or a list such as B=col,C=row"),
    "a_fraction_nobody_takes": (
        NAIVE, ("--alpha", "0.5"), "f takes no alpha, and only whole numbers"),
    "alpha_that_is_no_number": (NAIVE, ("--alpha", "two"), "'two' is not a valid float"),
    "include_that_is_none": (NAIVE, ("--include", "absent"), "Directory 'absent' does not exist"),
    "tile_0": (NAIVE, ("--tile", "0"), "0 is not a positive whole number"),
    "tile_-8": (NAIVE, ("--tile", "-8"), "-8 is not a positive whole number"),
    "n_of_words": (NAIVE, ("--n", "64,abc"), '"abc" is not a whole number or a range'),
    "other_encoding": (b"// caf\xe9\n" + NAIVE.encode(), (), ":1: not UTF-8 text (byte 0xe9)"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    text, options, words = REFUSED[name]
    path = write(tmp_path, name, Kind(text))
    answer = command("--kernel", str(path), *options)
    assert (answer.code, answer.rows) == (2, [])
    assert words in answer.error


def test_what_is_no_file(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "is a folder; name a .cu"), (tmp_path / "x.cu", "no such file")):
        answer = command("--kernel", f"{path}/" if path == tmp_path else str(path))
        assert (answer.code, answer.rows) == (2, [])
        assert words in answer.error


@pytest.mark.parametrize("name", ["run", "sweep", "compare", "check", "explain", "profile", "show"])
def test_every_command_takes_the_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["mmbench", name, "--help"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 0
    text = capsys.readouterr().out
    shared = ["entry", "args", "shared", "define", "include", "layout", "trans-a", "alpha", "beta"]
    for option in (*shared, "trans-b"):
        assert f"--{option} " in text
    assert "--block " in text
    assert ("--grid " in text) is (name != "explain")
