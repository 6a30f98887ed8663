"""The block form of a kernel must do what its threads would do, or not exist.

The oracle is the kernel as written, run by one OS thread per CUDA thread with a real barrier,
so it shares nothing with the rewriting.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from mmbench.runners.regions import to_block_form

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = [
    pytest.mark.cpu,
    pytest.mark.skipif(COMPILER is None, reason="neither g++ nor clang++ is installed"),
]
Floats = npt.NDArray[np.float32]
Launch = Callable[[tuple[int, int], tuple[int, int], int], Floats]

SHIM = """
#include <math.h>
#include <pthread.h>
#include <string.h>
#define __global__ __attribute__((noinline))
#define __device__
#define __launch_bounds__(...)
#define __restrict __restrict__
#define SIMT_MAX_THREADS 1024
struct uint3 { unsigned x, y, z; };
struct alignas(16) float4 { float x, y, z, w; };
static inline int min(int a, int b) { return a < b ? a : b; }
static thread_local uint3 simt_block, simt_dim, simt_grid, simt_thread;
#define blockIdx (*(const uint3 *)&simt_block)
#define blockDim (*(const uint3 *)&simt_dim)
#define gridDim (*(const uint3 *)&simt_grid)
static inline float atomicAdd(float *p, float v) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock); float old = *p; *p += v; pthread_mutex_unlock(&lock); return old;
}
#ifdef SIMT_BLOCK_FORM
#define __shared__ thread_local
#else
#define __shared__ static
#define threadIdx (*(const uint3 *)&simt_thread)
static pthread_barrier_t simt_all;
static inline void __syncthreads() { pthread_barrier_wait(&simt_all); }
#endif
#line 1 "user.cu"
"""
DRIVER = """
struct Job { const float *A, *B; float *C; int N; uint3 grid, dim, block, thread; };
static void *simt_one(void *argument) {
    Job *j = (Job *)argument;
    simt_block = j->block; simt_dim = j->dim; simt_grid = j->grid; simt_thread = j->thread;
    KERNEL((float *)j->A, (float *)j->B, j->C, j->N);
    return 0;
}
extern "C" void launch(const unsigned *s, const float *A, const float *B, float *C, int N) {
    for (unsigned y = 0; y < s[1]; ++y) for (unsigned x = 0; x < s[0]; ++x) {
        Job job = {A, B, C, N, {s[0], s[1], 1}, {s[2], s[3], 1}, {x, y, 0}, {0, 0, 0}};
#ifdef SIMT_BLOCK_FORM
        simt_one(&job);
#else
        static Job jobs[1024]; static pthread_t threads[1024];
        unsigned n = s[2] * s[3];
        pthread_barrier_init(&simt_all, 0, n);
        for (unsigned t = 0; t < n; ++t) {
            jobs[t] = job; jobs[t].thread = {t % s[2], t / s[2], 0};
            pthread_create(&threads[t], 0, simt_one, &jobs[t]);
        }
        for (unsigned t = 0; t < n; ++t) pthread_join(threads[t], 0);
#endif
    }
}
"""
SIGNATURE = "__global__ void k(const float *A, const float *B, float *C, int N)"


def build(source: str, folder: Path, block_form: bool, call: str = "k") -> Launch:
    """Compile one form of a kernel; the answer launches it on fixed whole-number inputs."""
    folder.mkdir(parents=True, exist_ok=True)
    cpp, library = folder / f"{block_form}.cpp", folder / f"{block_form}.so"
    cpp.write_text(SHIM + source + DRIVER.replace("KERNEL", call))
    flags = ["-O3", "-fopenmp-simd", "-DSIMT_BLOCK_FORM"] if block_form else ["-O0"]
    assert COMPILER is not None
    command = [COMPILER, "-std=c++17", "-w", "-fPIC", "-shared", "-pthread", "-march=native"]
    subprocess.run(
        [*command, *flags, "-ffp-contract=off", str(cpp), "-o", str(library)], check=True
    )
    function = ctypes.CDLL(str(library)).launch

    def launch(grid: tuple[int, int], block: tuple[int, int], n: int) -> Floats:
        random = np.random.default_rng(n)
        a, b = (random.integers(-4, 5, 4096).astype(np.float32) for _ in "AB")
        c = np.full(4096, 7, np.float32)
        shape = (ctypes.c_uint * 4)(*grid, *block)
        function(shape, *(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)), n)
        return c

    return launch


def kernel(body: str, before: str = "") -> str:
    """A file with one kernel."""
    return f"{before}\n{SIGNATURE} {{\n{body}\n}}\n"


INDICES = """
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * blockDim.y + ty, col = blockIdx.x * blockDim.x + tx;
    int me = (row * gridDim.x * blockDim.x) + col;"""
TILED = """
    __shared__ float p[4][4], q[4][4];
    int x = threadIdx.x, y = threadIdx.y;
    int r = blockIdx.y * 4 + y, c = blockIdx.x * 4 + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < N; k0 += 4) {
        p[y][x] = (r < N && k0 + x < N) ? A[r * N + k0 + x] : 0.0f;
        q[y][x] = (k0 + y < N && c < N) ? B[(k0 + y) * N + c] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 4; ++k) s += p[y][k] * q[k][x];
        __syncthreads();
    }
    if (r < N && c < N) C[r * N + c] = s;"""
PRODUCTS = {
    "tiled": kernel(TILED),
    "double buffered": kernel("""
    __shared__ float p[2][4][5], q[2][4][5];
    int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y * 4 + y, c = blockIdx.x * 4 + x;
    float s = 0; const int steps = (N + 3) / 4;
    p[0][y][x] = (r < N && x < N) ? A[r * N + x] : 0;
    q[0][y][x] = (y < N && c < N) ? B[y * N + c] : 0;
    __syncthreads();
    for (int t = 0; t < steps; ++t) {
        int now = t & 1, next = now ^ 1, k0 = (t + 1) * 4;
        if (t + 1 < steps) {
            p[next][y][x] = (r < N && k0 + x < N) ? A[r * N + k0 + x] : 0;
            q[next][y][x] = (k0 + y < N && c < N) ? B[(k0 + y) * N + c] : 0;
        }
        for (int k = 0; k < 4; ++k) s += p[now][y][k] * q[now][k][x];
        __syncthreads();
    }
    if (r < N && c < N) C[r * N + c] = s;"""),
    "naive": kernel("""
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < N && c < N) {
        float s = 0;
        for (int k = 0; k < N; ++k) { s += A[r * N + k] * B[k * N + c]; }
        C[r * N + c] = s;
    }"""),
    "returning guard": kernel("""
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= N || c >= N) return;
    float s = 0;
    for (int k = 0; k < N; ++k) s += A[r * N + k] * B[k * N + c];
    C[r * N + c] = s;"""),
    "two guards": kernel("""
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= N) return;
    if (c >= N) { return; }
    C[r * N + c] = 0;
    for (int k = 0; k < N; ++k) C[r * N + c] += A[r * N + k] * B[k * N + c];"""),
    "pointer steps": kernel("""
    __shared__ float p[4][4], q[4][4];
    int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y * 4 + y, c = blockIdx.x * 4 + x;
    const float *a = A + r * N + x; const float *b = &B[y * N + c];
    float s = 0;
    int k0 = 0;
    while (k0 < N) {
        p[y][x] = (r < N && k0 + x < N) ? *a : 0;
        q[y][x] = (k0 + y < N && c < N) ? *b : 0;
        a += 4; b += 4 * N;
        __syncthreads();
        for (int k = 0; k < 4; ++k) s += p[y][k] * q[k][x];
        __syncthreads();
        k0 += 4;
    }
    if (r < N && c < N) C[r * N + c] = s;"""),
    "template and macros": """
#define AT(X, i, j) X[(i) * N + (j)]
#define EDGE 4
template <typename T, int TILE>
__global__ void __launch_bounds__(TILE * TILE) k(const T *__restrict__ A, const T *B, T *C, int N) {
    __shared__ T p[TILE][TILE], q[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int r = blockIdx.y * TILE + y, c = blockIdx.x * EDGE + x;
    T s = T(0);
    for (int t = 0; t * TILE < N; ++t) {
        p[y][x] = (r < N && t * TILE + x < N) ? AT(A, r, t * TILE + x) : T(0);
        q[y][x] = (t * TILE + y < N && c < N) ? AT(B, t * TILE + y, c) : T(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) s += p[y][k] * q[k][x];
        __syncthreads();
    }
    if (r < N && c < N) AT(C, r, c) = s;
}
""",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, tmp_path: Path) -> None:
    block_form = to_block_form(PRODUCTS[name], "k")
    assert block_form is not None
    call = "k<float, 4>" if "template" in name else "k"
    launch = build(block_form, tmp_path, True, call)
    for n in (1, 3, 4, 5, 13):
        random = np.random.default_rng(n)
        a, b = (random.integers(-4, 5, 4096)[: n * n].reshape(n, n) for _ in "AB")
        c = launch((-(-n // 4), -(-n // 4)), (4, 4), n)
        np.testing.assert_array_equal(c[: n * n].reshape(n, n), a @ b)
        assert (c[n * n :] == 7).all()


LIKE_THREADS = {
    "private value crosses regions": """
    __shared__ float s[64];
    float v = A[me], w;
    s[ty * blockDim.x + tx] = v; v *= 2; w = v + tx;
    __syncthreads();
    v += s[(ty * blockDim.x + tx + 1) % (blockDim.x * blockDim.y)];
    __syncthreads();
    C[me] = v - w;""",
    "private array and its first values": """
    __shared__ float s[64];
    float v[3] = {1, 2}; const float f(3); float g{A[me]};
    for (int i = 0; i < 3; ++i) v[i] += A[me + i];
    s[ty * blockDim.x + tx] = v[0];
    __syncthreads();
    float *p = v; p[1] += s[0]; v[2]++;
    __syncthreads();
    C[me] = v[0] * 4 + v[1] * 2 + v[2] + f * g;""",
    "++ inside an index": """
    __shared__ float s[64];
    int i = me; s[ty * blockDim.x + tx] = A[i++];
    __syncthreads();
    C[me] = s[0] + A[i] + i;""",
    "address taken": """
    __shared__ float s[64];
    int i = tx; int *p = &i; *p += 5; s[ty * blockDim.x + tx] = A[i];
    __syncthreads();
    C[me] = s[0] + i;""",
    "changed through a reference parameter": """
    __shared__ float s[64];
    int i = tx; bump(i); s[ty * blockDim.x + tx] = A[i];
    __syncthreads();
    C[me] = s[0] + i;""",
    "changed in a nested block": """
    __shared__ float s[64];
    int i = tx; if (ty == 1) { i = 3; } s[ty * blockDim.x + tx] = A[i];
    __syncthreads();
    C[me] = s[0] + i;""",
    "index from a counter that a region's end moves": """
    __shared__ float s[64];
    int base = 1; float sum = 0;
    while (base < N) {
        int i = base + tx; s[ty * blockDim.x + tx] = A[i];
        __syncthreads();
        base += 2;
        sum += s[0] * i + base;
        __syncthreads();
    }
    C[me] = sum;""",
    "loop variable also stepped in the body": """
    __shared__ float s[64];
    float sum = 0;
    for (int t = 0; t < N; ++t) {
        int i = t + tx; s[ty * blockDim.x + tx] = A[i];
        __syncthreads();
        t += 1;
        sum += s[0] * i + t;
        __syncthreads();
    }
    C[me] = sum;""",
    "macro with the thread in it": """
    __shared__ float s[64];
    float sum = ME; s[ME] = A[ME];
    __syncthreads();
    for (int t = 0; t < N; ++t) { sum += s[(ME + t) % 12]; __syncthreads(); }
    C[me] = sum;""",
    "uniform branch around a barrier": """
    __shared__ float s[64];
    float v = A[me]; s[ty * blockDim.x + tx] = v;
    if (N > 3) { __syncthreads(); v += s[0]; } else v = 1;
    if (N % 2) { if (blockIdx.x == 1) { v += 2; __syncthreads(); v *= 2; } }
    C[me] = v;""",
    "nested barrier loops": """
    __shared__ float s[64];
    float v = 0;
    for (int i = 0; i < 3; ++i) {
        float w = v + i;
        for (int j = i; j < N; j += 2) {
            s[ty * blockDim.x + tx] = w + j; __syncthreads();
            v += s[(ty * blockDim.x + tx + j) % (blockDim.x * blockDim.y)]; w = v;
            __syncthreads();
        }
    }
    for (int i = 0; i < 2; ++i) { __syncthreads(); v += i; }
    C[me] = v;""",
    "parameters that are changed": """
    __shared__ float s[64];
    A += 2; B += tx;
    for (int t = 0; t < N; ++t) {
        s[ty * blockDim.x + tx] = A[me] + B[t]; __syncthreads();
        A += 1; B += ty;
        C[me] = s[0] + A[0] * B[0]; __syncthreads();
    }""",
    "guard with a hole": """
    if ((col & 1) == 0 || row == 1) return;
    float v = 0;
    for (int i = 0; i < N; ++i) v += A[i] * col;
    C[me] = v;""",
    "inner loop that not all threads run alike": """
    float v = 0;
    if (row < 3) {
        for (int i = tx; i < N; ++i) { if (i == 5) continue; v += A[i]; }
        for (int i = 0; i < N; ++i) { if (A[i] > 2) v += i; else v -= tx; }
        C[me] = v;
    }""",
    "return in the middle": """
    for (int i = 0; i < N; ++i) { if (A[i] == tx) { C[me] = i; return; } }
    N += tx;
    C[me] = N;""",
    "shared declared in the loop": """
    float v = 0;
    for (int i = 0; i < N; ++i) {
        __shared__ float s[64]; int at = ty * blockDim.x + tx;
        s[at] = A[me + i]; __syncthreads(); v += s[at ^ 1]; __syncthreads();
    }
    C[me] = v;""",
    "fixed sizes from constants": """
    const int S = 4 / 2; __shared__ float s[64];
    float acc[S][S];
    for (int i = 0; i < S; ++i) for (int j = 0; j < S; ++j) acc[i][j] = A[me + i * S + j];
    s[ty * blockDim.x + tx] = acc[1][0]; __syncthreads();
    for (int i = 0; i < S; ++i) for (int j = 0; j < S; ++j) acc[i][j] *= s[i + j];
    C[me] = acc[0][0] + acc[0][1] * acc[1][0] + acc[1][1];""",
    "atomics": """
    float v = 1;
    for (int i = 0; i < N; ++i) v += A[i];
    atomicAdd(&C[0], v); atomicAdd(&C[1 + tx], 1);""",
}
HELPERS = """
#define ME (threadIdx.y * blockDim.x + threadIdx.x)
__device__ void bump(int &x) { x += 3; }
"""


@pytest.mark.parametrize("name", LIKE_THREADS)
def test_same_as_threads(name: str, tmp_path: Path) -> None:
    source = kernel(INDICES + LIKE_THREADS[name], HELPERS)
    block_form = to_block_form(source, "k")
    assert block_form is not None
    ours, threads = build(block_form, tmp_path, True), build(source, tmp_path, False)
    for block, n in (((4, 3), 5), ((6, 2), 8), ((1, 4), 2)):
        np.testing.assert_array_equal(ours((2, 2), block, n), threads((2, 2), block, n))


def with_barrier(before: str = "", inside: str = "", after: str = "") -> str:
    """A body that would be fine but for what is put in."""
    return (
        f"__shared__ float s[64]; int tx = threadIdx.x; float v = A[tx]; {before}\n"
        f"s[tx] = v; {inside}\n __syncthreads();\n v += s[0]; {after}\n C[tx] = v;"
    )


REFUSED = {
    "loop bound by thread": "int tx = threadIdx.x; for (int i = 0; i < tx; ++i) __syncthreads();",
    "loop start by thread": "for (int i = threadIdx.x; i < 9; ++i) { __syncthreads(); }",
    "loop bound in memory": "for (int i = 0; i < A[0]; ++i) { C[i] = 1; __syncthreads(); }",
    "loop bound in shared": "__shared__ int n; n = 3; while (n > 0) { __syncthreads(); n--; }",
    "loop bound made from memory": "int n = B[0]; for (int i = 0; i < n; ++i) __syncthreads();",
    "counter changed by some threads": (
        "for (int t = 0; t < N; ++t) { if (threadIdx.x == 1) t++; __syncthreads(); }"
    ),
    "counter with its address taken": (
        "for (int t = 0; t < N; ++t) { int *p = &t; *p += threadIdx.x; __syncthreads(); }"
    ),
    "counter changed by a call": ("for (int t = 0; t < N; ++t) { bump(t); __syncthreads(); }"),
    "counter changed in an index": ("for (int t = 0; t < N;) { C[t++] = 1; __syncthreads(); }"),
    "counter's name used for a lane": (
        "for (int t = 0; t < N; ++t) { for (int t = threadIdx.x; t < 9; ++t) C[t] = 1;"
        " __syncthreads(); }"
    ),
    "shadowed index": with_barrier(
        "int i = N + tx;", after="{ int N = 3; __syncthreads(); v += i + N; }"
    ),
    "barrier under a thread's condition": "if (threadIdx.x < 3) __syncthreads();",
    "barrier in a switch": "switch (N) { case 1: __syncthreads(); }",
    "barrier in a do loop": "do { __syncthreads(); } while (N < 0);",
    "barrier in an expression": "N > 3 ? __syncthreads() : __syncthreads();",
    "barrier by macro": with_barrier(after="SYNC;"),
    "barrier in a helper": with_barrier(after="helped();"),
    "break": "for (int t = 0; t < N; ++t) { if (A[0] > t) break; __syncthreads(); }",
    "continue": "for (int t = 0; t < N; ++t) { if (t == 2) continue; __syncthreads(); }",
    "return": with_barrier("if (tx > 3) return;"),
    "return by macro": with_barrier("LEAVE(tx > 3);"),
    "goto": with_barrier("again: if (v > 9) goto again;"),
    "thread in a helper": with_barrier(after="v += mine();"),
    "thread by macro around a barrier": "for (int t = 0; t < MINE; ++t) __syncthreads();",
    "assignment by macro": with_barrier(after="INCREASE(v);"),
    "unknown function": with_barrier(after="v = mystery(v);"),
    "unknown name": with_barrier(after="v = mystery;"),
    "shuffle": with_barrier(after="v += __shfl_down_sync(0xffffffff, v, 1);"),
    "warp barrier": "C[threadIdx.x] = 1; __syncwarp(); C[0] = 2;",
    "counting barrier": "C[0] = __syncthreads_count(N);",
    "volatile": "volatile float *c = C; c[threadIdx.x] = 1;",
    "assembly": with_barrier(after='asm("");'),
    "lambda": with_barrier(after="auto f = [&] { v = 1; }; f();"),
    "reference": with_barrier(after="float &w = v; w = 2;"),
    "static": with_barrier(after="static int n; v = n++;"),
    "conditional compiling": with_barrier(after="\n#if 1\nv = 2;\n#endif\n"),
    "big private state": with_barrier("float big[999]; big[tx] = 1;", after="v = big[tx];"),
    "unwritten type": with_barrier("auto w = A[tx];", after="w += 1; v = w;"),
    "does not parse": "int a = ; __syncthreads();",
    "reserved prefix": "int simt_x = 3; C[simt_x] = 1;",
}
TRAPS = """
#define SYNC __syncthreads()
#define LEAVE(c) if (c) return;
#define MINE threadIdx.x
#define INCREASE(x) x += 1
__device__ void bump(int &x) { x += 3; }
__device__ int mine() { return threadIdx.x; }
__device__ void helped() { __syncthreads(); }
"""


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    assert to_block_form(kernel(REFUSED[name], TRAPS), "k") is None


def test_the_refused_frame_is_accepted_without_its_trap() -> None:
    assert to_block_form(kernel(with_barrier(), TRAPS), "k") is not None


@pytest.mark.parametrize("entry", ["absent", "bump", "twice"])
def test_not_one_kernel(entry: str) -> None:
    twice = "__global__ void twice(int a) {}\n__global__ void twice(float a) {}\n"
    assert to_block_form(TRAPS + twice, entry) is None


def test_a_header_of_the_users_may_hide_anything() -> None:
    source = kernel(TILED.replace("4", "TILE"), '#include "mine.cuh"')
    assert to_block_form(source, "k") is None
    assert to_block_form(source.replace('"mine.cuh"', "<cuda_runtime.h>"), "k") is not None


def test_other_text_stays_and_errors_name_the_users_line(tmp_path: Path) -> None:
    before = "// früher\r\n#include <math.h>\nint after_all() { return 1; }\n"
    other = "\n__global__ void other(float *C) {\n  C[threadIdx.x] = 1;\n  __syncthreads();\n}\n"
    source = kernel(TILED.replace("s += p", "s += oops.p"), before) + other + "int last = gone;\n"
    block_form = to_block_form(source.replace("oops.", ""), "k")
    assert block_form is not None
    assert block_form.startswith(before)
    cpp = tmp_path / "lines.cpp"
    cpp.write_text(SHIM + block_form.replace("s += p[y][k]", "s += oops"))
    assert COMPILER is not None
    answer = subprocess.run(
        [COMPILER, "-DSIMT_BLOCK_FORM", "-std=c++17", "-w", "-fsyntax-only", str(cpp)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = source.split("\n")
    wrong = {
        name: next(i for i, t in enumerate(lines, 1) if name in t) for name in ("oops", "gone")
    }
    errors = [line for line in answer.stderr.splitlines() if "error:" in line]
    assert [e.split(":")[:2] for e in errors] == [
        ["user.cu", str(wrong["oops"])],
        ["user.cu", str(wrong["gone"])],
    ]


def _line_of(name: str, lines: list[str]) -> int:
    return next(number for number, line in enumerate(lines, 1) if name in line)
