"""Kernels as people write them, for test_infer: small, each of a kind of its own."""

from __future__ import annotations

from dataclasses import dataclass

PLACE = """\
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
"""
PRODUCT = """\
    if (row < N && col < N) {
        float acc = 0;
        for (int k = 0; k < N; k++)
            acc += A[row * N + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
"""
SQUARE = "const float *A, const float *B, float *C, int N"
TILES = "TILE_SIZE, TILE_SIZE"
GRID = "ceil_div(N, TILE_SIZE), ceil_div(N, TILE_SIZE)"
GRID_MN = "ceil_div(N, TILE_SIZE), ceil_div(M, TILE_SIZE)"


def kernel(parameters: str, body: str = PLACE + PRODUCT, before: str = "") -> str:
    return f"{before}__global__ void f({parameters})\n{{\n{body}}}\n"


def general(parameters: str, names: str) -> str:
    """A product by the names of A B C M N K in the file."""
    a, b, c, m, n, k = names.split()
    return kernel(
        parameters,
        f"""{PLACE}    if (row < {m} && col < {n}) {{
        float acc = 0;
        for (int i = 0; i < {k}; ++i)
            acc += {a}[row * {k} + i] * {b}[i * {n} + col];
        {c}[row * {n} + col] = acc;
    }}
""",
    )


def tiled(tile: str, parameters: str = SQUARE, before: str = "", local: str = "") -> str:
    body = f"""{local}    __shared__ float a[{tile}][{tile}];
    __shared__ float b[{tile}][{tile} + 1];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = blockIdx.y * {tile} + ty, c = blockIdx.x * {tile} + tx;
    float acc = 0;
    for (int t = 0; t < (N + {tile} - 1) / {tile}; ++t) {{
        int x = t * {tile} + tx, y = t * {tile} + ty;
        a[ty][tx] = r < N && x < N ? A[r * N + x] : 0;
        b[ty][tx] = y < N && c < N ? B[y * N + c] : 0;
        __syncthreads();
        for (int k = 0; k < {tile}; ++k)
            acc += a[ty][k] * b[k][tx];
        __syncthreads();
    }}
    if (r < N && c < N)
        C[r * N + c] = acc;
"""
    return kernel(parameters, body, before)


@dataclass(frozen=True)
class Case:
    text: str
    arguments: str = "A B C N"
    block: str = TILES
    grid: str = GRID
    tiles: tuple[int, ...] = (8, 16, 32)
    dtype: str = "float32"
    shared: str = ""
    entry: str | None = None
    run: bool = False
    layout: str | None = None


def general_case(parameters: str, names: str, arguments: str, run: bool = False) -> Case:
    return Case(general(parameters, names), arguments, grid=GRID_MN, run=run)


def file_tile(text: str, tiles: tuple[int, ...] = (16,), run: bool = False) -> Case:
    return Case(text, tiles=tiles, run=run)


PROGRAM = """\
#include <iostream>
#include <cuda_runtime.h>
#include "cublas_v2.h"
#define CHECK(x) do { if ((x) != cudaSuccess) std::cerr << "bad"; } while (0)
#define AT(m, i, j) m[(i) * width + (j)]
using namespace std;
typedef float real;
typedef std::vector<float> Vec;
__constant__ float one = 1.0f;
static cublasHandle_t handle;
__device__ __forceinline__ real madd(real x, real y, real z) { return x * y * one + z; }
void fill(float *p, int n) { for (int i = 0; i < n; i++) p[i] = rand(); }
__global__ void other(float *x, int n) { x[threadIdx.x] = std::sin(n); }
__global__ void f(real *d_A, real *d_B, real *d_C, int width)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= width || col >= width) return;
    real acc = 0;
    for (int k = 0; k < width; k++) acc = madd(AT(d_A, row, k), AT(d_B, k, col), acc);
    AT(d_C, row, col) = acc;
}
int main(int argc, char **argv)
{
    dim3 block(16, 16), grid(4, 4);
    f<<<grid, block>>>(nullptr, nullptr, nullptr, 64);
    std::cout << "done: __global__ void g()" << std::endl;
    return 0;
}
"""

SAMPLE = """\
template <int BLOCK_SIZE> __global__ void f(float *C, float *A, float *B, int wA, int wB)
{
    int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
    int aBegin = wA * BLOCK_SIZE * by, aEnd = aBegin + wA - 1, aStep = BLOCK_SIZE;
    int bBegin = BLOCK_SIZE * bx, bStep = BLOCK_SIZE * wB;
    float acc = 0;
    for (int a = aBegin, b = bBegin; a <= aEnd; a += aStep, b += bStep) {
        __shared__ float As[BLOCK_SIZE][BLOCK_SIZE];
        __shared__ float Bs[BLOCK_SIZE][BLOCK_SIZE];
        As[ty][tx] = A[a + wA * ty + tx];
        Bs[ty][tx] = B[b + wB * ty + tx];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; ++k)
            acc += As[ty][k] * Bs[k][tx];
        __syncthreads();
    }
    int c = wB * BLOCK_SIZE * by + BLOCK_SIZE * bx;
    C[c + wB * ty + tx] = acc;
}
"""

BLOCKTILING = """\
template <const int BM, const int BN, const int BK, const int TM>
__global__ void f(int M, int N, int K, const float *A, const float *B, float *C)
{
    const unsigned cRow = blockIdx.y, cCol = blockIdx.x;
    const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
    __shared__ float As[BM * BK];
    __shared__ float Bs[BK * BN];
    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;
    const unsigned innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK;
    const unsigned innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
    float sums[TM] = {0.0};
    for (unsigned bk = 0; bk < K; bk += BK) {
        As[innerRowA * BK + innerColA] = A[innerRowA * K + innerColA];
        Bs[innerRowB * BN + innerColB] = B[innerRowB * N + innerColB];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (unsigned d = 0; d < BK; ++d)
            for (unsigned i = 0; i < TM; ++i)
                sums[i] += As[(threadRow * TM + i) * BK + d] * Bs[d * BN + threadCol];
        __syncthreads();
    }
    for (unsigned i = 0; i < TM; ++i)
        C[(threadRow * TM + i) * N + threadCol] = sums[i];
}
void run(int M, int N, int K, float *A, float *B, float *C)
{
    const unsigned BM = 64;
    f<64, 64, 8, 8><<<dim3(N / 64, M / BM), 512>>>(M, N, K, A, B, C);
}
"""

REGISTER_TILE = """\
#define WORK 4
__global__ void f(const float *A, const float *B, float *C, int M, int N, int K)
{
    int r0 = (blockIdx.y * blockDim.y + threadIdx.y) * WORK;
    int c0 = (blockIdx.x * blockDim.x + threadIdx.x) * WORK;
    for (int i = 0; i < WORK; i++)
        for (int j = 0; j < WORK; j++) {
            int r = r0 + i, c = c0 + j;
            if (r >= M || c >= N) continue;
            float acc = 0;
            for (int k = 0; k < K; k++)
                acc += A[r * K + k] * B[k * N + c];
            C[r * N + c] = acc;
        }
}
"""

DYNAMIC = """\
__global__ void f(const float *A, const float *B, float *C, int N)
{
    extern __shared__ float s[];
    int T = blockDim.x, x = threadIdx.x, y = threadIdx.y;
    float *a = s, *b = &s[T * T];
    int r = blockIdx.y * T + y, c = blockIdx.x * T + x;
    float acc = 0;
    for (int t = 0; t < (N + T - 1) / T; t++) {
        a[y * T + x] = r < N && t * T + x < N ? A[r * N + t * T + x] : 0;
        b[y * T + x] = t * T + y < N && c < N ? B[(t * T + y) * N + c] : 0;
        __syncthreads();
        for (int k = 0; k < T; k++) acc += a[y * T + k] * b[k * T + x];
        __syncthreads();
    }
    if (r < N && c < N) C[r * N + c] = acc;
}
"""

FLAT = """\
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N * N) return;
    int row = i / N, col = i % N;
    float acc = 0;
    for (int k = 0; k < N; k++) acc += A[row * N + k] * B[k * N + col];
    C[i] = acc;
"""
ROW_A_THREAD = """\
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= N) return;
    for (int j = 0; j < N; j++) {
        float acc = 0;
        for (int k = 0; k < N; k++) acc += A[row * N + k] * B[k * N + j];
        C[row * N + j] = acc;
    }
"""
HOST_1D = """\
#define SIDE 8
__global__ void f(const float *A, const float *B, float *C, int N)
{
    for (int e = threadIdx.x; e < SIDE * SIDE; e += blockDim.x) {
        int row = blockIdx.y * SIDE + e / SIDE, col = blockIdx.x * SIDE + e % SIDE;
        if (row >= N || col >= N) continue;
        float acc = 0;
        for (int k = 0; k < N; k++) acc += A[row * N + k] * B[k * N + col];
        C[row * N + col] = acc;
    }
}
void go(float *a, float *b, float *c, int size)
{
    int threads = 32;
    dim3 grid((size + SIDE - 1) / SIDE, (size + SIDE - 1) / SIDE);
    f<<<grid, threads>>>(a, b, c, size);
}
"""
STRIDED = """\
    int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
"""
TORCH = """\
#include <torch/extension.h>
#define CHECK(x) TORCH_CHECK(x.is_cuda(), #x " must be on the GPU")
template <typename scalar_t>
__global__ void f(const scalar_t *m, const scalar_t *n, scalar_t *out, int h, int w, int d)
{
    int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= h || c >= w) return;
    scalar_t acc = 0;
    for (int i = 0; i < d; ++i) acc += m[r * d + i] * n[i * w + c];
    out[r * w + c] = acc;
}
torch::Tensor product(torch::Tensor m, torch::Tensor n)
{
    auto out = torch::zeros({m.size(0), n.size(1)}, m.options());
    AT_DISPATCH_FLOATING_TYPES(m.scalar_type(), "f", ([&] {
        f<scalar_t><<<1, dim3(16, 16)>>>(m.data_ptr<scalar_t>(), n.data_ptr<scalar_t>(),
                                         out.data_ptr<scalar_t>(), 1, 1, 1);
    }));
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("product", &product, "A product"); }
"""
MODERN = """\
#include <cuda_runtime.h>
namespace gemm {
namespace detail { __device__ inline float mad(float a, float b, float c) { return a * b + c; } }
template <typename T, unsigned SIDE>
static __global__ void __launch_bounds__(SIDE * SIDE)
    f(T const *__restrict__ a, T const *__restrict__ b, T *__restrict__ c,
      std::size_t m, std::size_t n, std::size_t p)
{
    __shared__ T sa[SIDE][SIDE];
    __shared__ T sb[SIDE][SIDE + 1];
    auto const i = blockIdx.y * SIDE + threadIdx.y, j = blockIdx.x * SIDE + threadIdx.x;
    T acc{0};
    for (std::size_t t{0}; t < (n + SIDE - 1) / SIDE; ++t) {
        auto const x = t * SIDE + threadIdx.x, y = t * SIDE + threadIdx.y;
        sa[threadIdx.y][threadIdx.x] = (i < m && x < n) ? a[i * n + x] : T{0};
        sb[threadIdx.y][threadIdx.x] = (y < n && j < p) ? b[y * p + j] : T{0};
        __syncthreads();
        for (unsigned k = 0; k < SIDE; ++k)
            acc = detail::mad(sa[threadIdx.y][k], sb[k][threadIdx.x], acc);
        __syncthreads();
    }
    if (i < m && j < p) c[i * p + j] = acc;
}
void go(float const *a, float const *b, float *c)
{
    constexpr unsigned SIDE = 16;
    f<float, SIDE><<<dim3{1, 1}, dim3{SIDE, SIDE}>>>(a, b, c, 1, 1, 1);
}
}  // namespace gemm
"""
GRID_STRIDE = """\
    for (int r = blockIdx.y * blockDim.y + threadIdx.y; r < M; r += blockDim.y * gridDim.y)
        for (int c = blockIdx.x * blockDim.x + threadIdx.x; c < N; c += blockDim.x * gridDim.x) {
            float acc = 0;
            for (int k = 0; k < K; ++k) acc += A[r * K + k] * B[k * N + c];
            C[r * N + c] = acc;
        }
"""
COARSE = """\
#define TILE_WIDTH 16
#define COARSE 4
__global__ void f(float *M, float *N, float *P, int width)
{
    int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    int first = blockIdx.x * TILE_WIDTH * COARSE + threadIdx.x;
    for (int c = 0; c < COARSE; ++c) {
        int col = first + c * TILE_WIDTH;
        float acc = 0;
        for (int k = 0; k < width; ++k) acc += M[row * width + k] * N[k * width + col];
        P[row * width + col] = acc;
    }
}
"""
BYTES_OF_THE_HOST = """\
__global__ void f(const float *A, const float *B, float *C, int N)
{
    extern __shared__ float s[];
    int T = blockDim.x, x = threadIdx.x, y = threadIdx.y;
    int r = blockIdx.y * T + y, c = blockIdx.x * T + x;
    float acc = 0;
    for (int t = 0; t < N; t += T) {
        s[y * T + x] = A[r * N + t + x];
        s[T * T + y * T + x] = B[(t + y) * N + c];
        __syncthreads();
        for (int k = 0; k < T; k++) acc += s[y * T + k] * s[T * T + k * T + x];
        __syncthreads();
    }
    C[r * N + c] = acc;
}
void go(const float *A, const float *B, float *C, int n)
{
    int side = 16;
    dim3 block(side, side), grid((n + side - 1) / side, n / block.y);
    size_t bytes = 2 * block.x * block.y * sizeof(float);
    f<<<grid, block, bytes>>>(A, B, C, n);
}
"""
BLOCKED_TILE = """\
    __shared__ float a[32][32], b[32][33];
    a[threadIdx.y][threadIdx.x] = b[threadIdx.y][threadIdx.x] = 0;
"""
F3 = "const float *A, const float *B, float *C"
CASES = {
    "naive": Case(kernel(SQUARE), run=True),
    "the names of a text": Case(
        kernel("float *M, float *N, float *P, int Width", PLACE + PRODUCT.replace("N", "Width")
               .replace("A[", "M[").replace("B[", "N[").replace("C[", "P[")),
    ),
    "row on x": Case(kernel(SQUARE, PLACE.replace("y", "z").replace("x", "y").replace("z", "x")
                            .replace("blockIdy", "blockIdx").replace("threadIdy", "threadIdx")
                            + PRODUCT), run=True),
    "double": Case(kernel(SQUARE.replace("float", "double")), dtype="float64"),
    "typedef": Case(kernel(SQUARE.replace("float", "real"), before="typedef double real;\n"),
                    dtype="float64"),
    "type macro": Case(kernel(SQUARE.replace("float", "T"), before="#define T float\n")),
    "int": Case(kernel(SQUARE).replace("float", "int"), dtype="int32", run=True),
    "half": Case(kernel(SQUARE.replace("float", "half")), dtype="float16"),
    "alpha": Case(
        kernel(f"{SQUARE}, float alpha", PLACE + PRODUCT.replace("= acc", "= alpha * acc")),
        "A B C N alpha", run=True),
    "BLAS": Case(
        kernel("int M, int N, int K, float alpha, const float *A, const float *B, float beta, "
               "float *C", PLACE + PRODUCT.replace("row < N", "row < M").replace("k < N", "k < K")
               .replace("row * N + k", "row * K + k").replace(
                   "= acc", "= alpha * acc + beta * C[row * N + col]")),
        "M N K alpha A B beta C", grid=GRID_MN, run=True),
    "using": Case(kernel(SQUARE.replace("float", "T"), before="using T = double;\n"),
                  dtype="float64"),
    "m n k": general_case(f"{F3}, int M, int N, int K", "A B C M N K", "A B C M N K", True),
    "m k n": general_case("float *a, float *b, float *c, int m, int k, int n", "a b c m n k",
                          "A B C M K N", True),
    "m n k of another meaning": general_case(
        "float *a, float *b, float *c, int m, int n, int k", "a b c m k n", "A B C M K N", True),
    "sizes first": general_case(f"int M, int N, int K, {F3}", "A B C M N K", "M N K A B C"),
    "output first": general_case("float *out, const float *x, const float *w, int p, int q, int r",
                                 "x w out p q r", "C A B M N K", True),
    "left right": general_case("float *right, float *left, float *res, long h, long w, long d",
                               "left right res h w d", "B A C M N K"),
    "size_t": general_case(f"{F3}, size_t M, size_t N, size_t K", "A B C M N K", "A B C M N K",
                           True),
    "rows and columns": general_case(
        "float *A, float *B, float *C, int numARows, int numAColumns, int numBColumns",
        "A B C numARows numBColumns numAColumns", "A B C M K N"),
    "all six sizes": Case(
        general("float *A, float *B, float *C, int numARows, int numAColumns, int numBRows, "
                "int numBColumns, int numCRows, int numCColumns",
                "A B C numCRows numCColumns numAColumns").replace("[i * numCColumns", "[i * "
                                                                  "numBColumns"),
        "A B C M K K N M N", grid=GRID_MN),
    "device names": Case(kernel("float *d_A, float *d_B, float *d_C, unsigned int N", PLACE
                                + PRODUCT.replace("A[", "d_A[").replace("B[", "d_B[")
                                .replace("C[", "d_C["))),
    "column-major": Case(kernel(SQUARE, """\
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < N && j < N) {
        float acc = 0;
        for (int k = 0; k < N; k++) acc += A[i + k * N] * B[k + j * N];
        C[i + j * N] = acc;
    }
"""), run=True, layout="col"),
    "pointers that walk": Case(kernel(SQUARE, PLACE + """\
    if (row >= N || col >= N) return;
    const float *a = A + row * N, *b = &B[col];
    float acc = 0;
    for (int k = 0; k < N; k++, b += N) acc += a[k] * *b;
    *(C + row * N + col) = acc;
"""), run=True),
    "guarded tile size": file_tile(
        "#ifndef TILE_SIZE\n#define TILE_SIZE 16\n#endif\n" + tiled("TILE_SIZE")),
    "tile size defined": file_tile("#define TILE_SIZE 16 // the tile\n" + tiled("TILE_SIZE")),
    "tile width": file_tile("#define TILE_WIDTH 32\n" + tiled("TILE_WIDTH"), (32,), True),
    "guarded tile of another name": file_tile(
        "#ifndef BLOCK_SIZE\n#define BLOCK_SIZE 16\n#endif\n" + tiled("BLOCK_SIZE"), run=True),
    "tile in parentheses": file_tile("#define TS (1 << 4)\n" + tiled("TS")),
    "tile by another macro": file_tile("#define TS 16\n#define B_ TS\n" + tiled("B_")),
    "const tile": file_tile("const int TILE_DIM = 16;\n" + tiled("TILE_DIM"), run=True),
    "local const tile": file_tile(tiled("TILE_SIZE", local="    const int TILE_SIZE = 16;\n"),
                                  run=True),
    "enum tile": file_tile("enum { TILE_SIZE = 16 };\n" + tiled("TILE_SIZE")),
    "tile that nobody defines": Case(tiled("TILE_DIM"), run=True),
    "two constants in one line": file_tile("constexpr int PAD = 1, TILE_SIZE = 16;\n"
                                           + tiled("TILE_SIZE"), run=True),
    "template tile": Case(tiled("BS", before="template <int BS> "), run=True),
    "template type": Case(
        tiled("BS", SQUARE.replace("float", "T"), "template <typename T, int BS = 16>\n"),
        tiles=(16,), run=True),
    "a sample's template": Case(
        SAMPLE, "C A B K N", grid=GRID_MN, tiles=(8, 16, 32), run=True),
    "block tiling": Case(BLOCKTILING, "M N K A B C", "512", "ceil_div(N, 64), ceil_div(M, 64)", ()),
    "register tile": Case(REGISTER_TILE, "A B C M N K",
                          grid="ceil_div(N, 4 * TILE_SIZE), ceil_div(M, 4 * TILE_SIZE)", run=True),
    "numbers in the code": Case(tiled("16"), block="16, 16",
                                grid="ceil_div(N, 16), ceil_div(N, 16)", tiles=()),
    "a flat block of tiles": Case(
        kernel(SQUARE, STRIDED + PRODUCT), block="256",
        grid="ceil_div(N, 16), ceil_div(N, 16)", tiles=(), run=True),
    "extern shared memory of a size": Case(DYNAMIC.replace("s[]", "s[2048]"), run=True),
    "dynamic shared memory": Case(DYNAMIC, shared="8 * TILE_SIZE * TILE_SIZE", run=True),
    "numbered through": Case(kernel(SQUARE, FLAT), block="256", grid="ceil_div(N * N, 256)",
                             tiles=(), run=True),
    "a row a thread": Case(kernel(SQUARE, ROW_A_THREAD), block="256", grid="ceil_div(N, 256)",
                           tiles=(), run=True),
    "a block a row": Case(
        kernel(SQUARE, "    int row = blockIdx.x, col = threadIdx.x;\n" + PRODUCT),
        block="N", grid="N", tiles=(), run=True),
    "the file's own launch": Case(
        HOST_1D, block="32", grid="ceil_div(N, 8), ceil_div(N, 8)", tiles=(), run=True
    ),
    "launch bounds": Case(kernel(SQUARE).replace("void f", "void __launch_bounds__(256) f")),
    "extern C": Case('extern "C" {\n' + kernel(SQUARE) + "}\n", run=True),
    "static": Case("static " + kernel(SQUARE), run=True),
    "namespace": Case(
        "namespace a { namespace {\nconst int one = 1;\n" + kernel(SQUARE).replace(
            "= acc", "= acc * a::one") + "} }\nvoid g() { a::f<<<1, 1>>>(0, 0, 0, 1); }\n",
        run=True),
    "restrict": Case(kernel("const float *__restrict__ A, const float *__restrict__ B, "
                            "float *__restrict__ C, const int N")),
    "array parameters": Case(kernel("const float A[], const float B[], float C[], int N")),
    "a transpose beside it": Case(
        "__global__ void t(const float *x, float *y, int n) { y[threadIdx.x] = x[n]; }\n"
        + kernel(SQUARE)),
    "only in a comment": Case(
        f"/* __global__ void g({SQUARE}) {{}} */\nconst char *s = \"__global__ void h()\";\n"
        + kernel(SQUARE)),
    "a whole program": Case(PROGRAM, run=True),
    "one of two": Case(kernel(SQUARE) + kernel(SQUARE).replace("void f", "void g"), entry="g"),
    "an extension of torch": Case(TORCH, "A B C M N K", grid=GRID_MN, run=True),
    "modern C++": Case(MODERN, "A B C M K N", grid=GRID_MN, tiles=(16,), run=True),
    "grid-stride loops": Case(
        kernel(f"{F3}, int M, int N, int K", GRID_STRIDE), "A B C M N K", grid=GRID_MN, run=True
    ),
    "thread coarsening": Case(
        COARSE, grid="ceil_div(N, 4 * TILE_SIZE), ceil_div(N, TILE_SIZE)", tiles=(16,), run=True
    ),
    "bytes of the host": Case(
        BYTES_OF_THE_HOST,
        block="16, 16",
        grid="ceil_div(N, 16), N // 16",
        tiles=(),
        shared="((2 * 16) * 16) * 4",
        run=True,
    ),
    "shared arrays of numbers fix the block": Case(
        kernel(SQUARE, BLOCKED_TILE + PLACE + PRODUCT),
        block="32, 32",
        grid="ceil_div(N, 32), ceil_div(N, 32)",
        tiles=(),
        run=True,
    ),
    "disabled by the preprocessor": Case(
        "#if 0\n" + kernel(SQUARE) + "#endif\n" + kernel(SQUARE)
    ),
    "a prototype first": Case(f"__global__ void f({SQUARE});\n" + kernel(SQUARE), run=True),
    "tiles of two names": Case(
        BLOCKTILING.replace("BM = 64", "X = 64").replace("M / BM", "M / X"),
        "M N K A B C",
        "512",
        "ceil_div(N, 64), ceil_div(M, 64)",
        (),
    ),
    "a name of its own use": Case(kernel(
        SQUARE, "    const int TILE_SIZE = blockDim.x;\n    int row = blockIdx.y * TILE_SIZE + "
        "threadIdx.y, col = blockIdx.x * TILE_SIZE + threadIdx.x;\n" + PRODUCT), run=True),
}  # fmt: skip

REFUSED = {
    "an empty file": ("", "no __global__ function"),
    "host code": ("int main() { return 0; }\n", "no __global__ function"),
    "a kernel in a comment": (f"// {kernel(SQUARE, '')[:30]}\n", "no __global__ function"),
    "structs": (
        "struct Mat { int w; float *p; };\n" + kernel("Mat A, Mat B, Mat C"),
        "parameter A has type Mat; mmbench fills pointers"),
    "four pointers": (kernel(f"{SQUARE}, const float *bias"), "4 pointers"),
    "two pointers": (kernel("float *x, float *y, int n"), "2 pointers"),
    "no size": (kernel(F3), "takes no size"),
    "a float without a meaning": (
        kernel(f"{SQUARE}, float scale"), "takes float scale; say what to pass for it with --args"),
    "a flag": (kernel(f"{SQUARE}, bool relu"), 'such as "relu=0"'),
    "short": (kernel(SQUARE.replace("float", "short")), "matrices of short"),
    "float and double": (
        kernel("float *A, double *B, float *C, int N"), "A is float32 and B is float64"),
    "pointers to pointers": (kernel("float **A, float **B, float **C, int N"), "float **A"),
    "references": (kernel(f"{F3}, const int &N"), "const int &N"),
    "sizes without a meaning": (
        kernel(f"{F3}, int N, int u, int v, int w", f"    u += v % w;\n{PLACE}{PRODUCT}"),
        "the meaning of u, v, w cannot be read"),
    "shared memory of unknown size": (
        DYNAMIC.replace("*b = &s[T * T]", "*b = s + N % 7 * T"), "dynamic shared memory (s)"),
    "a template without a value": (
        kernel(SQUARE, before="template <bool GUARD> "), "GUARD without a value"),
}  # fmt: skip
