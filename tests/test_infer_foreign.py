"""Kernels as other people write them: further texts for test_infer.py."""

from __future__ import annotations

from test_infer_texts import (
    F3,
    GRID_MN,
    PLACE,
    PRODUCT,
    SQUARE,
    Case,
    file_tile,
    general,
    kernel,
    tiled,
)

OPERATORS = """\
#include <cuda_fp16.h>
struct Sum { float total; };
__device__ Sum operator+(const Sum &sum, float x) { return Sum{sum.total + x}; }
__device__ float2 operator*(float2 a, float2 b) { return make_float2(a.x * b.x, a.y * b.y); }
__device__ half2 operator*(half2 a, half2 b) { return __hmul2(a, b); }
"""
SUMMED = """\
    if (row < N && col < N) {
        Sum acc{0.0f};
        for (int k = 0; k < N; k++)
            acc = acc + (make_float2(A[row * N + k], 0) * make_float2(B[k * N + col], 0)).x;
        C[row * N + col] = acc.total;
    }
"""
HIDDEN = "#define KERNEL __global__ void\n"
INDEXED = """\
    int row = place(blockIdx.y, blockDim.y, threadIdx.y);
    int col = place(blockIdx.x, blockDim.x, threadIdx.x);
    if (row < m && col < n) {
        float acc = 0;
        for (int i = 0; i < k; i++)
            acc += A[at(row, i, k)] * B[at(i, col, n)];
        C[at(row, col, n)] = acc;
    }
"""
HELPERS = """\
__device__ int place(int block, int size, int thread) { return block * size + thread; }
__host__ __device__ inline int at(int i, int j, int ld) { return i * ld + j; }
"""
WRAPPED = """\
template <int SIDE, typename Index>
__device__ void work(const float *A, const float *B, float *C, Index n)
{
    __shared__ float a[SIDE][SIDE], b[SIDE][SIDE];
    Index r = blockIdx.y * SIDE + threadIdx.y, c = blockIdx.x * SIDE + threadIdx.x;
    float acc = 0;
    for (Index t = 0; t < n; t += SIDE) {
        a[threadIdx.y][threadIdx.x] = A[r * n + t + threadIdx.x];
        b[threadIdx.y][threadIdx.x] = B[(t + threadIdx.y) * n + c];
        __syncthreads();
        for (int k = 0; k < SIDE; ++k)
            acc += a[threadIdx.y][k] * b[k][threadIdx.x];
        __syncthreads();
    }
    C[r * n + c] = acc;
}
"""
RUNTIME_TILE = """\
    extern __shared__ float s[];
    float *a = s, *b = s + side * side;
    int x = threadIdx.x, y = threadIdx.y, r = blockIdx.y * side + y, c = blockIdx.x * side + x;
    float acc = 0;
    for (int t = 0; t < (N + side - 1) / side; t++) {
        a[y * side + x] = r < N && t * side + x < N ? A[r * N + t * side + x] : 0;
        b[y * side + x] = c < N && t * side + y < N ? B[(t * side + y) * N + c] : 0;
        __syncthreads();
        for (int k = 0; k < side; k++) acc += a[y * side + k] * b[k * side + x];
        __syncthreads();
    }
    if (r < N && c < N) C[r * N + c] = acc;
"""
BATCH = (
    PLACE.replace("int row", "int z = blockIdx.z, row", 1)
    + """\
    if (z >= batch || row >= M || col >= N) return;
    float acc = 0;
    for (int i = 0; i < K; i++)
        acc += A[z * sa + row * K + i] * B[z * sb + i * N + col];
    C[z * sc + row * N + col] = acc;
"""
)
OFFSETS = (
    PLACE
    + """\
    if (row < N && col < N) {
        float acc = 0;
        for (int k = 0; k < N; k++) acc += A[a0 + row * N + k] * B[b0 + k * N + col];
        C[c0 + row * N + col] = acc;
    }
"""
)
NUMBERED_BLOCKS = (
    """\
    int across = (N + 15) / 16, i = blockIdx.x / across, j = blockIdx.x % across;
    int row = i * 16 + threadIdx.y, col = j * 16 + threadIdx.x;
"""
    + PRODUCT
)
CALLED = """\
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
"""
RUNTIME_CALL = (
    CALLED
    + """\
    dim3 threads(32), grid((size + SIDE - 1) / SIDE, (size + SIDE - 1) / SIDE);
    void *passed[] = {&a, &b, &c, &size};
    cudaLaunchKernel((void *)f, grid, threads, passed, 0, 0);
}
"""
)
CONFIGURED_CALL = (
    CALLED
    + """\
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((size + SIDE - 1) / SIDE, (size + SIDE - 1) / SIDE);
    config.blockDim = dim3(32);
    cudaLaunchKernelEx(&config, f, (const float *)a, (const float *)b, c, size);
}
"""
)
DRIVER_CALL = (
    CALLED
    + """\
    CUfunction handle;
    cuModuleGetFunction(&handle, module, "f");
    int blocks = (size + SIDE - 1) / SIDE;
    void *passed[] = {&a, &b, &c, &size};
    cuLaunchKernel(handle, blocks, blocks, 1, 32, 1, 1, 0, nullptr, passed, nullptr);
}
"""
)
ALL_ROWS = """\
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col < n)
        for (int row = 0; row < m; row++) {
            float acc = 0;
            for (int i = 0; i < k; i++) acc += A[row * k + i] * B[i * n + col];
            C[row * n + col] = acc;
        }
"""
COLUMNS_BY_MACROS = """\
#define A(i, j) A[(i) + (j) * lda]
#define B(i, j) B[(i) + (j) * ldb]
#define C(i, j) C[(i) + (j) * ldc]
__global__ void f(int M, int N, int K, float *A, float *B, float *C)
{
    int lda = M, ldb = K, ldc = M, row = threadIdx.x & 31, col = threadIdx.x >> 5;
    A = &A((blockIdx.x << 5), 0);
    B = &B(0, (blockIdx.y << 5));
    C = &C((blockIdx.x << 5), (blockIdx.y << 5));
    float acc = 0;
    for (int k = 0; k < K; k++) acc += A(row, k) * B(k, col);
    C(row, col) = acc;
}
"""
ADDED = (
    "__global__ void add(const float *x, const float *y, float *z, int n)\n{\n"
    "    for (int i = threadIdx.x; i < n; i += blockDim.x) z[i] = x[i] + y[i];\n}\n"
)
TWO_VERSIONS = (
    "#define VERSION 2\n#if VERSION == 1\n"
    + kernel(SQUARE)
    + "#else\n"
    + kernel(SQUARE).replace("float", "double")
    + "#endif\n"
)
SWITCHED_TYPE = "#ifdef WIDE\n#define T double\n#else\n#define T float\n#endif\n" + kernel(
    SQUARE.replace("float", "T")
)
BYTES = RUNTIME_TILE.replace("float s[]", "__align__(16) unsigned char s[]")
BYTES_OF_FLOATS = BYTES.replace("*a = s", "*a = reinterpret_cast<float *>(s)").replace(
    "b = s +", "b = a +"
)
COUNTED_BYTES = (
    BYTES.replace("*a = s", "*a = (float *)s")
    .replace("s + side * side", "(float *)(s + blockDim.x * blockDim.y * sizeof(float))")
    .replace("side", "(int)blockDim.x")
)
A_BY_COLUMNS = PLACE + PRODUCT.replace("row < N", "row < M").replace("k < N", "k < K").replace(
    "A[row * N + k]", "A[k * M + row]"
)
M_FOR_N = general(f"{F3}, int M, int N, int K", "A B C M N K").replace("C[row * N", "C[row * M")
ROWS_OF_ALL = (
    tiled("SIDE")
    .replace("[SIDE][SIDE + 1]", "[SIDE][SIDE]")
    .replace("[SIDE][SIDE]", "[ALL]")
    .replace("[ty][tx]", "[ty * SIDE + tx]")
    .replace("[ty][k]", "[ty * SIDE + k]")
    .replace("[k][tx]", "[k * SIDE + tx]")
)
WIDE_PLACES = (
    PLACE.replace("blockDim.y +", "int64_t(blockDim.y) +")
    .replace("blockDim.x +", "std::int64_t(blockDim.x) +")
    .replace("int row", "auto row")
    .replace(";\n    int col", ", col")
)
DEFAULT_OR_GIVEN = "#if !defined(SIDE)\n#define SIDE 16\n#endif\n"

FOREIGN = {
    "a macro hides the kernel": Case(HIDDEN + kernel(SQUARE).replace("__global__ void", "KERNEL"),
                                     run=True),
    "a macro with the name hides it": Case(
        "#define ENTRY(name) extern \"C\" __global__ void name\n"
        + kernel(SQUARE).replace("__global__ void f", "ENTRY(f)"), run=True),
    "macros for qualifiers": file_tile(
        "#define SHARED __shared__\n#define RESTRICT __restrict__\n#define SIDE 16\n"
        + tiled("SIDE").replace("__shared__", "SHARED").replace("*A", "*RESTRICT A"), run=True),
    "places from device functions": Case(
        kernel(f"{F3}, int m, int k, int n", INDEXED, HELPERS), "A B C M K N", grid=GRID_MN,
        run=True),
    "the work in a device function": Case(
        kernel(SQUARE, "    work<16, int>(A, B, C, N);\n", WRAPPED), block="16, 16",
        grid="ceil_div(N, 16), ceil_div(N, 16)", tiles=(), run=True),
    "a tile passed at run time": Case(
        kernel(f"{SQUARE}, int side", RUNTIME_TILE), "A B C N TILE_SIZE",
        shared="8 * TILE_SIZE * TILE_SIZE"),
    "operators of its own": Case(kernel(SQUARE, PLACE + SUMMED, OPERATORS), run=True),
    "a batch": Case(
        kernel(f"int batch, int M, int N, int K, {F3}, long sa, long sb, long sc", BATCH),
        "1 M N K A B C 0 0 0", grid=GRID_MN),
    "offsets": Case(kernel(f"int N, {F3}, int a0, int b0, int c0", OFFSETS), "N A B C 0 0 0"),
    "blocks numbered through": Case(
        kernel(SQUARE, NUMBERED_BLOCKS), block="16, 16",
        grid="ceil_div(N, 16) * ceil_div(N, 16)", tiles=(), run=True),
    "a call of the runtime": Case(RUNTIME_CALL, block="32",
                                  grid="ceil_div(N, 8), ceil_div(N, 8)", tiles=(), run=True),
    "a configured call": Case(CONFIGURED_CALL, block="32",
                              grid="ceil_div(N, 8), ceil_div(N, 8)", tiles=(), run=True),
    "a call of the driver": Case(DRIVER_CALL, block="32",
                                 grid="ceil_div(N, 8), ceil_div(N, 8)", tiles=(), run=True),
    "all rows a thread": Case(kernel(f"{F3}, int m, int n, int k", ALL_ROWS), "A B C M N K",
                              block="256", grid="ceil_div(N, 256)", tiles=(), run=True),
    "columns by macros of the matrices' names": Case(
        COLUMNS_BY_MACROS, "M N K A B C", block="1024",
        grid="ceil_div(M, 32), ceil_div(N, 32)", tiles=(), layout="col"),
    "a kernel of another kind beside it": Case(ADDED + kernel(SQUARE), run=True),
    "the version that is chosen": Case(TWO_VERSIONS, dtype="float64", run=True),
    "the type that is chosen": Case(SWITCHED_TYPE, run=True),
    "a default by defined()": file_tile(DEFAULT_OR_GIVEN + tiled("SIDE"), run=True),
    "a constant of a struct": file_tile(
        "struct Config { static constexpr int SIDE = 16; };\n" + tiled("Config::SIDE"), run=True),
    "a TILE_SIZE in a namespace": file_tile(
        "namespace config { constexpr int TILE_SIZE = 16; }\n" + tiled("config::TILE_SIZE"),
        run=True),
    "an explicit instantiation": Case(
        tiled("BS", before="template <int BS> ")
        + "template __global__ void f<16>(const float *, const float *, float *, int);\n",
        tiles=(16,), run=True),
    "sizes of std": Case(
        kernel(SQUARE.replace("int N", "std::int32_t N"), before="#include <cstdint>\n"),
        run=True),
    "brackets around single names": Case(
        kernel(SQUARE, PLACE + PRODUCT.replace("row * N + k", "(row) * (N) + (k)")
               .replace("k * N + col", "(k) * N + (col)")), run=True),
    "aligned bytes of dynamic shared memory": Case(
        kernel(f"{SQUARE}, int side", BYTES_OF_FLOATS), "A B C N TILE_SIZE",
        shared="8 * TILE_SIZE * TILE_SIZE", run=True),
    "dynamic shared memory counted in bytes": Case(
        kernel(SQUARE, COUNTED_BYTES), shared="8 * TILE_SIZE * TILE_SIZE", run=True),
    "A by columns": Case(
        kernel(f"{F3}, int M, int N, int K", A_BY_COLUMNS), "A B C M N K", grid=GRID_MN),
    "one size taken for another": Case(M_FOR_N, "A B C M N K", grid=GRID_MN),
    "a tile squared in its own name": file_tile(
        "#define SIDE 16\n#define ALL (SIDE * SIDE)\n" + ROWS_OF_ALL, run=True),
    "an enumerator squared": file_tile(
        "enum { SIDE = 16 };\nstatic const int ALL = SIDE * SIDE;\n" + ROWS_OF_ALL, run=True),
    "a tile made of another number": file_tile(
        "#define WARP 32\n#define SIDE (WARP / 2)\n" + tiled("SIDE"), run=True),
    "places of 64 bits": Case(
        kernel(SQUARE, WIDE_PLACES + PRODUCT, "#include <cstdint>\n"), run=True),
    "a tile from constexpr functions": Case(
        "constexpr int tile() { return 16; }\nconstexpr int twice(int x) { return 2 * x; }\n"
        + tiled("tile()").replace("[tile()][tile()]", "[tile()][twice(tile()) / 2]"),
        block="16, 16", grid="ceil_div(N, 16), ceil_div(N, 16)", tiles=(), run=True),
    "rows along z": Case(
        kernel(SQUARE, PLACE.replace(".y", ".z") + PRODUCT), block="TILE_SIZE, 1, TILE_SIZE",
        grid="ceil_div(N, TILE_SIZE), 1, ceil_div(N, TILE_SIZE)", run=True),
}  # fmt: skip

FOREIGN_REFUSED = {
    "names that nobody defines": (
        kernel(SQUARE, "    __shared__ float a[rows_][cols_];\n    a[0][0] = 0;\n"
               + PLACE + PRODUCT),
        "uses cols_, rows_, which nothing in the file defines"),
    "no pointer": ("__device__ float A[9];\n" + kernel("int n", "    A[n] = 0;\n"),
                   "takes no pointer"),
    "a flag without a value": (
        kernel(SQUARE, before="template <bool GUARD> "), "--define GUARD=true"),
    "two kernels of one name": (
        kernel(SQUARE) + kernel(SQUARE.replace("float", "double")),
        "has 2 kernels of the name f (lines 1, 12); give the one that is meant a name of its own"),
    "braces too few": (
        kernel(SQUARE).rstrip("}\n "), "mine.cu:1: the __global__ function that begins here"),
    "an #if that is not taken": (
        f"\n#ifdef FAST\n{kernel(SQUARE)}#endif\n",
        "mine.cu:2: the kernel is in an #if that is not taken (#ifdef FAST); give the macro with"),
}  # fmt: skip
