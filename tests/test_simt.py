"""The runtime that runs CUDA threads as fibers: barriers, warps, shared memory, stacks.

All kernels stand in one .cu file, so that each form of the runtime compiles once. A form runs
in a process of its own: two runtimes in one process would find each other's symbols.
"""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import HEADER
from mmbench.errors import RunnerUnavailableError
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners import Array, host_compiler
from mmbench.runners.cpu import CpuRunner, CpuSession, worker_count
from mmbench.spec import Dim3, Launch, Point
from mmbench.status import Status

pytestmark = pytest.mark.cpu

SIMT = Path(host_compiler.__file__).parent / "simt"
REPLY_SECONDS = 60.0
BLOCKS = [(1, 1, 1), (31, 1, 1), (32, 1, 1), (33, 1, 1), (1000, 1, 1), (1024, 1, 1),
          (8, 4, 1), (32, 32, 1), (2, 3, 5), (10, 10, 10), (1, 1, 64)]  # fmt: skip

PLACES = r"""
#include <cassert>
#include <cuda_runtime.h>
#include <stdio.h>
#include <unistd.h>

#define KERNEL(name) __global__ void name(const float *A, const float *B, float *C, int N)

__device__ int rank_in_block()
{
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ int block_size() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ int rank_in_grid()
{
    int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return block * block_size() + rank_in_block();
}

KERNEL(where)
{
    const uint3 t = threadIdx;
    dim3 size = blockDim, grid = gridDim;
    uint3 b = blockIdx;
    float *c = C + 12 * rank_in_grid();
    c[0] = t.x, c[1] = t.y, c[2] = t.z, c[3] = b.x, c[4] = b.y, c[5] = b.z;
    c[6] = size.x, c[7] = size.y, c[8] = size.z, c[9] = grid.x, c[10] = grid.y, c[11] = grid.z;
}
"""

BARRIERS = r"""
KERNEL(rotate)
{
    __shared__ float s[1024];
    int t = rank_in_block(), size = block_size();
    float value = A[rank_in_grid()];
    for (int i = 0; i < N; ++i) {
        s[t] = value;
        __syncthreads();
        value = s[(t + 1) % size] + 1.0f;
        __syncthreads();
    }
    C[rank_in_grid()] = value;
}

KERNEL(leave)
{
    if (rank_in_block() >= N) return;
    C[rank_in_grid()] = A[rank_in_grid()] + 1.0f;
}

KERNEL(leave_early)
{
    __shared__ float s[1024];
    int t = rank_in_block();
    s[t] = A[t];
    if (t % 3 == N) return;
    float sum = 0.0f;
    for (int i = 0; i < 5; ++i) {
        __syncthreads();
        sum += s[(t + i) % block_size()];
        __syncthreads();
        s[t] += 1.0f;
    }
    C[t] = sum;
}

KERNEL(staircase)
{
    __shared__ float s[1024];
    int t = rank_in_block(), next = min(t + 1, block_size() - 1);
    float sum = 0.0f;
    for (int round = 0; round < t; ++round) {
        s[t] = round + t;
        __syncthreads();
        sum += s[next];
        __syncthreads();
    }
    C[t] = sum;
}

KERNEL(skip)
{
    int t = rank_in_block();
    if (t < N) __syncthreads();
    if (t % 2) { C[t] = 1.0f; __syncthreads(); } else { C[t] = 2.0f; __syncthreads(); }
    for (int i = 0; i < t % 4; ++i) __syncthreads();
    C[t] += t;
}

KERNEL(reductions)
{
    int t = rank_in_block();
    if (t % 5 == N) return;
    for (int i = 0; i < 5; ++i) {
        C[(3 * i + 0) * block_size() + t] = __syncthreads_count(t % (i + 2) == 0);
        C[(3 * i + 1) * block_size() + t] = __syncthreads_and(t < 40 - 10 * i);
        C[(3 * i + 2) * block_size() + t] = __syncthreads_or(t > 10 * i);
    }
}
"""

WARPS = r"""
KERNEL(shuffle)
{
    int t = rank_in_block(), by = (int)B[0], size = block_size();
    float v = A[t];
    long long wide = (long long)v << 33;
    C[0 * size + t] = __shfl_sync(0xffffffffu, v, by, N);
    C[1 * size + t] = __shfl_up_sync(0xffffffffu, v, by, N);
    C[2 * size + t] = __shfl_down_sync(0xffffffffu, v, by, N);
    C[3 * size + t] = __shfl_xor_sync(0xffffffffu, v, by, N);
    C[4 * size + t] = __shfl_xor_sync(0xffffffffu, wide, by, N) >> 33;
}

KERNEL(masks)
{
    int lane = threadIdx.x % warpSize;
    float v = A[threadIdx.x];
    if (lane < 16) {
        v = __shfl_xor_sync(0x0000ffffu, v, 1);
    } else {
        v = __shfl_xor_sync(0xffff0000u, v, 2);
        v = __shfl_down_sync(0xffff0000u, v, 4, 16);
    }
    if (lane % 4 == 0) v += __shfl_sync(0x11111111u, v, 28);
    C[threadIdx.x] = v;
}

KERNEL(votes)
{
    int t = rank_in_block(), size = block_size(), p = t % N == 0;
    unsigned *c = reinterpret_cast<unsigned *>(C);
    c[0 * size + t] = __ballot_sync(0xffffffffu, p);
    c[1 * size + t] = __any_sync(0xffffffffu, t == 33);
    c[2 * size + t] = __all_sync(0xffffffffu, t != 33);
}

KERNEL(butterfly)
{
    __shared__ volatile float s[1024];
    int t = rank_in_block();
    s[t] = A[t];
    for (int offset = 16; offset > 0; offset /= 2) {
        __syncwarp();
        float other = s[t ^ offset];
        __syncwarp();
        s[t] += other;
    }
    C[t] = s[t];
}

__device__ float warp_sum(float v)
{
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
    return v;
}

KERNEL(block_sum)
{
    __shared__ float sums[32];
    int t = rank_in_block(), warps = block_size() / 32;
    for (int i = 0; i < N; ++i) {
        float v = warp_sum(A[t] + i);
        if (t % 32 == 0) sums[t / 32] = v;
        __syncthreads();
        if (t < 32) {
            v = warp_sum(t < warps ? sums[t] : 0.0f);
            if (t == 0) C[i] = v;
        }
        __syncthreads();
    }
}

KERNEL(absent_lane)
{
    int t = rank_in_block();
    float v = t;
    if (t != 3) v = __shfl_sync(0xffffffffu, v, t);
    __syncthreads();
    C[t] = v;
}

/* Runs a program of N steps, an operation and a number for each: any order of all of them. */
KERNEL(mix)
{
    __shared__ int s[1024];
    int t = rank_in_block(), size = block_size(), v = (int)A[t];
    unsigned gone = 0;
    s[t] = v;
    for (int i = 0; i < N; ++i) {
        int k = (int)B[2 * i + 1], partner = t ^ (k & 31), other;
        unsigned mask = 0;
        for (int l = 0; l < 32; ++l) {
            int lane = t / 32 * 32 + l;
            if (lane < size && !(gone >> lane % 11 & 1)) mask |= 1u << l;
        }
        switch ((int)B[2 * i]) {
        case 0:
            s[t] = v;
            __syncthreads();
            v += s[(t + k) % size];
            __syncthreads();
            break;
        case 1:
            if (t / 32 % 2 != k % 2) break;
            other = __shfl_xor_sync(mask, v, k);
            if (mask >> partner % 32 & 1) v += other;
            break;
        case 2:
            v += __syncthreads_count(v % 3 == 0);
            v += 2 * __syncthreads_or(v % 50 == 0) + __syncthreads_and(v % 50);
            break;
        case 3:
            if (t % 11 == k % 11) { C[rank_in_grid()] = v; return; }
            gone |= 1u << k % 11;
            break;
        case 4:
            if (t % 2) v += __popc(__ballot_sync(mask & 0xaaaaaaaau, v & 1));
            else v += 7 * __any_sync(mask & 0x55555555u, v % 9 == 0);
            break;
        }
        v %= 1000;
    }
    C[rank_in_grid()] = v;
}
"""

SHARED = r"""
template <class T, int SIZE> __device__ T reversed(T value, int t)
{
    __shared__ T tile[SIZE];
    tile[t] = value;
    __syncthreads();
    return tile[SIZE - 1 - t];
}

KERNEL(arrays)
{
    __shared__ float one[32], two[32][33];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int i = 0; i < N; ++i) {
        __shared__ float inner[32];
        inner[t] = A[t] + i;
        one[t] = t;
        for (int j = 0; j < 32; ++j) two[j][t] = j * t;
        __syncthreads();
        sum += inner[31 - t] + one[(t + i) % 32] + two[t][i % 32];
        __syncthreads();
    }
    C[t] = sum + reversed<float, 32>(t, t) + 1000 * reversed<double, 32>(t, t);
}

KERNEL(vectors)
{
    __shared__ float4 tile[32];
    int t = threadIdx.x;
    tile[t] = reinterpret_cast<const float4 *>(A)[t];
    __syncthreads();
    float4 v = tile[31 - t];
    *reinterpret_cast<float4 *>(&C[4 * t]) = make_float4(v.w, v.z, v.y, v.x);
}

KERNEL(atomics)
{
    __shared__ int in_block;
    if (threadIdx.x == 0) in_block = 0;
    __syncthreads();
    atomicAdd(&in_block, 1);
    __syncthreads();
    int *c = reinterpret_cast<int *>(C);
    atomicAdd(reinterpret_cast<double *>(C), 0.5);
    atomicAdd(reinterpret_cast<unsigned long long *>(C + 2), 1ull << 20);
    atomicAdd(&C[4], 1.0f);
    atomicAdd(&c[5], 3);
    atomicSub(&c[6], in_block);
    atomicMax(&c[7], rank_in_grid());
    atomicMin(&c[8], -rank_in_grid());
    for (int seen = c[9]; atomicCAS(&c[9], seen, seen + 2) != seen;)
        seen = *(volatile int *)&c[9];
    atomicOr(&c[10], 1 << threadIdx.x % 31);
    atomicInc(reinterpret_cast<unsigned *>(&c[11]), 9u);
    atomicExch(&c[12], 5);
}

KERNEL(functions)
{
    assert(N == 7 && "never seen");
    C[0] = fmaf(A[1], A[2], 4.0f) + __fmaf_rn(1.0f, 2.0f, 3.0f);
    C[1] = __ldg(&A[3]);
    C[2] = min(3, 2u) + (float)max(-1l, 5ul);
    C[3] = min(1.5f, 2.5) + max(N, 6) + min(N, 6);
    C[4] = fminf(1.0f, 2.0f) + fmaxf(1.0f, 2.0f);
    C[5] = make_uint3(1, 2, 3).z + dim3(4).x + dim3(1, 5).y + dim3(1, 5).z;
}

__device__ int in_flight;

KERNEL(crowd)
{
    __shared__ int tag, seen[32];
    int t = threadIdx.x;
    if (t == 0) {
        tag = blockIdx.x;
        atomicAdd(&in_flight, 1);
        for (int i = 0; i < N && *(volatile int *)&in_flight < 2; ++i) usleep(1000);
    }
    __syncthreads();
    seen[t] = 100 * tag + t;
    __syncthreads();
    C[32 * blockIdx.x + t] = seen[31 - t];
    C[32 * gridDim.x + blockIdx.x] = gettid() % 65536;
}

/* The values are held in vector registers while this OS thread asks for `s` the first time. */
KERNEL(held)
{
#define ALL(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13)
#ifdef __x86_64__
#define HOLD(i) asm volatile("" : "+x"(v##i));
#else
#define HOLD(i)
#endif
#define LOAD(i) float v##i = A[i];
#define STORE(i) C[i] = v##i;
    __shared__ float s[4096];
    float *p = s;
    ALL(LOAD) ALL(HOLD)
    asm volatile("" : "+r"(p));
    p[N] = 1.0f;
    ALL(HOLD) ALL(STORE)
}
"""

STACKS = r"""
__device__ __noinline__ float dig(int depth, float v)
{
    volatile float pad[256];
    pad[depth % 256] = v;
    if (depth == 0) {
        __syncthreads();
        return pad[0];
    }
    return dig(depth - 1, v + 1.0f) + 2.0f * pad[depth % 256];
}

KERNEL(recursion) { C[rank_in_block()] = dig(N, A[rank_in_block()]); }

template <int KIB> __device__ float fill(float v)
{
    volatile float local[256 * KIB];
    for (int i = 0; i < 256 * KIB; ++i) local[i] = v + i;
    __syncthreads();
    float wrong = 0.0f;
    for (int i = 0; i < 256 * KIB; ++i) wrong += local[i] != v + i;
    return wrong;
}

KERNEL(large_local) { C[rank_in_block()] = fill<48>(A[rank_in_block()]); }
KERNEL(huge_local) { C[rank_in_block()] = fill<256>(A[rank_in_block()]); }

/* An aligned frame of variable size has two pointers to it, which must outlast a switch. */
KERNEL(aligned_local)
{
    __align__(64) volatile float local[16];
    int t = rank_in_block();
    volatile float *variable = (volatile float *)__builtin_alloca(64 * N);
    for (int i = 0; i < 16; ++i) local[i] = variable[i] = A[t] + i;
    __syncthreads();
    float sum = (uintptr_t)local % 64 + variable[7] - local[7];
    for (int i = 0; i < 16; ++i) sum += local[i];
    C[t] = sum;
}

KERNEL(speak)
{
    if (threadIdx.x == 3) printf("thread %d of %d says %.2f\n", threadIdx.x, blockDim.x, 1.5);
}
"""

BODY = PLACES + BARRIERS + WARPS + SHARED + STACKS


def source() -> str:
    """The file, with an entry point for each of its kernels."""
    header = HEADER.format(
        entry="rotate", arguments='["A", "B", "C", "int N"]', extra="", block="[1]", grid="[1]",
        launch="",
    )  # fmt: skip
    entries = "".join(
        f'extern "C" void entry_{name}(void **a) {{ simt_call(&{name}, a); }}\n'
        for name in re.findall(r"^KERNEL\((\w+)\)", BODY, re.MULTILINE)
    )
    return header + BODY.replace("KERNEL(rotate)", ROTATE) + entries


# Written out: the header's reader looks for the entry point by its name.
ROTATE = "__global__ void rotate(const float *A, const float *B, float *C, int N)"


def compilers() -> dict[str, str]:
    """$CXX for each form of the runtime that can be built here."""
    try:
        found = list(host_compiler.find().command)
    except RunnerUnavailableError:
        return {}
    forms = {"switch": shlex.join(found), "ucontext": shlex.join([*found, "-DSIMT_UCONTEXT"])}
    if clang := shutil.which("clang++"):
        forms["clang"] = clang
    if importlib.util.find_spec("ziglang"):
        forms["zig"] = shlex.join([sys.executable, "-m", "ziglang", "c++"])
    return forms


FORMS = compilers()


class Host:
    """A process that launches the kernels with one compiler."""

    def __init__(self, path: Path, cxx: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.memory: Any = context.RawArray(ctypes.c_char, ctypes.sizeof(Status))
        self.pipe, other = context.Pipe()
        self.process = context.Process(
            target=serve, args=(other, path, cxx, self.memory), daemon=True
        )
        self.process.start()
        other.close()

    def run(
        self,
        kernel: str,
        block: Dim3,
        *,
        size: int,
        grid: Dim3 = (1, 1, 1),
        a: Array | None = None,
        b: Array | None = None,
        n: int = 0,
        launches: int = 1,
    ) -> Array:
        """C after each launch, a row a launch; C is zero before. ``size``: its elements."""
        self.pipe.send((kernel, Launch(grid, block, 0), a, b, size, n, launches))
        if not self.pipe.poll(REPLY_SECONDS):
            self.stop()
            pytest.fail(f"{kernel} does not end")
        reply: Array = self.pipe.recv()
        return reply if launches > 1 else reply[0]

    def crash(self, kernel: str, block: Dim3, n: int = 0) -> str:
        """Run a kernel that ends its process; return what the process says of it."""
        with pytest.raises(EOFError):
            self.run(kernel, block, size=1024, n=n)
        self.process.join()
        return Status.from_buffer(self.memory).fault()

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def serve(pipe: Any, path: Path, cxx: str, memory: Any) -> None:
    """Compile the file and launch what the pipe asks for."""
    os.environ["CXX"] = cxx
    os.environ["MMBENCH_NO_BLOCK_FORM"] = "1"
    point = Point(read_kernel(path), Problem(1, 1, 1), {})
    program = CpuRunner().compile(point)
    session = CpuSession(memory)
    while True:
        try:
            kernel, launch, a, b, size, n, launches = pipe.recv()
        except EOFError:
            return
        inputs = [np.zeros(1024, np.float32) if x is None else x.astype(np.float32) for x in (a, b)]
        buffers = [session.allocate(array.nbytes) for array in inputs]
        for buffer, array in zip(buffers, inputs, strict=True):
            session.write(buffer, array)
        c = session.allocate(4 * size)
        result = np.zeros((launches, size), np.float32)
        loaded = session.load(replace(program, symbol=f"entry_{kernel}"), point, launch)
        for row in result:
            session.write(c, np.zeros(size, np.float32))
            loaded.launch([buffers[0].address, buffers[1].address, c.address, n])
            session.read(c, row)
        pipe.send(result)


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("simt") / "all.cu"
    file.write_text(source())
    return file


@pytest.fixture(scope="session", params=list(FORMS))
def host(request: pytest.FixtureRequest, path: Path) -> Iterator[Host]:
    started = Host(path, FORMS[request.param])
    yield started
    started.stop()


@pytest.fixture(params=list(FORMS))
def fresh_host(request: pytest.FixtureRequest, path: Path) -> Iterator[Host]:
    """A process that no kernel has run in, for one test alone."""
    started = Host(path, FORMS[request.param])
    yield started
    started.stop()


def numbers(count: int) -> Array:
    return np.random.default_rng(count).integers(0, 1000, count).astype(np.float32)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 3, 2)])
def test_indices(host: Host, block: Dim3, grid: Dim3) -> None:
    threads, blocks = int(np.prod(block)), int(np.prod(grid))
    c = host.run("where", block, grid=grid, size=12 * threads * blocks)
    t = np.stack(np.unravel_index(np.arange(threads), block[::-1])[::-1], axis=1)
    b = np.stack(np.unravel_index(np.arange(blocks), grid[::-1])[::-1], axis=1)
    expected = np.concatenate(
        [
            np.tile(t, (blocks, 1)),
            np.repeat(b, threads, axis=0),
            np.tile([*block, *grid], (threads * blocks, 1)),
        ],
        axis=1,
    )
    np.testing.assert_array_equal(c.reshape(-1, 12), expected)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_barriers_in_a_loop(host: Host, block: Dim3, rounds: int) -> None:
    threads = int(np.prod(block))
    a = numbers(12 * threads)
    c = host.run("rotate", block, grid=(2, 3, 2), size=len(a), a=a, n=rounds)
    expected = np.roll(a.reshape(12, threads), -rounds, axis=1) + rounds
    np.testing.assert_array_equal(c.reshape(12, threads), expected)


def test_many_launches_agree(host: Host) -> None:
    a = numbers(4 * 100)
    c = host.run("rotate", (100, 1, 1), grid=(4, 1, 1), size=len(a), a=a, n=5, launches=200)
    expected = np.roll(a.reshape(4, 100), -5, axis=1) + 5
    assert np.array_equal(c, np.broadcast_to(expected.reshape(-1), c.shape))


@pytest.mark.parametrize("stay", [0, 1, 32, 99, 100])
def test_threads_return_without_a_barrier(host: Host, stay: int) -> None:
    a = numbers(200)
    c = host.run("leave", (100, 1, 1), grid=(2, 1, 1), size=200, a=a, n=stay)
    expected = np.where(np.arange(200) % 100 < stay, a + 1, 0)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("threads", [1, 31, 33, 1000, 1024])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_threads_that_have_returned_count_as_arrived(host: Host, threads: int, gone: int) -> None:
    a, t = numbers(threads), np.arange(threads)
    c = host.run("leave_early", (threads, 1, 1), size=threads, a=a, n=gone)
    stays = t % 3 != gone
    others = [(t + i) % threads for i in range(5)]
    expected = np.sum([a[other] + i * stays[other] for i, other in enumerate(others)], axis=0)
    np.testing.assert_array_equal(c, np.where(stays, expected, 0))


@pytest.mark.parametrize("threads", [1, 2, 33, 300])
def test_threads_leave_one_after_the_other(host: Host, threads: int) -> None:
    c = host.run("staircase", (threads, 1, 1), size=threads)
    expected = [sum(r + min(t + 1, threads - 1) for r in range(t)) for t in range(threads)]
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("n", [0, 1, 16, 70])
def test_a_barrier_that_some_threads_skip_ends(host: Host, n: int) -> None:
    c = host.run("skip", (70, 1, 1), size=70, n=n)
    t = np.arange(70)
    np.testing.assert_array_equal(c, t + np.where(t % 2, 1, 2))


@pytest.mark.parametrize("threads", [1, 33, 100, 1024])
@pytest.mark.parametrize("gone", [2, 9])  # every fifth thread has returned; none has
def test_barriers_that_reduce(host: Host, threads: int, gone: int) -> None:
    c = host.run("reductions", (threads, 1, 1), size=15 * threads, n=gone).reshape(15, threads)
    t = np.arange(threads)
    stays = t % 5 != gone
    for i in range(5):
        count = int(np.count_nonzero((t % (i + 2) == 0) & stays))
        every = int(np.all((t < 40 - 10 * i)[stays]))
        some = int(np.any((t > 10 * i)[stays]))
        for row, value in zip(c[3 * i : 3 * i + 3], (count, every, some), strict=True):
            np.testing.assert_array_equal(row, np.where(stays, value, 0))


@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("by", [0, 1, 3, 7, 16, 31])
@pytest.mark.parametrize("threads", [32, 40, 1024])
def test_shuffles(host: Host, width: int, by: int, threads: int) -> None:
    a, t = numbers(threads), np.arange(threads)
    b = np.array([by])
    c = host.run("shuffle", (threads, 1, 1), size=5 * threads, a=a, b=b, n=width)
    lane = t % 32
    base = lane // width * width
    sources = [
        base + by % width,
        np.where(lane - by < base, lane, lane - by),
        np.where(lane + by >= base + width, lane, lane + by),
        np.where(lane ^ by >= base + width, lane, lane ^ by),
        np.where(lane ^ by >= base + width, lane, lane ^ by),
    ]
    for row, source_lane in zip(c.reshape(5, threads), sources, strict=True):
        source_thread = t - lane + source_lane
        there = source_thread < threads  # what a lane gets from one that is not there: undefined
        np.testing.assert_array_equal(row[there], a[source_thread[there]])


def test_partial_masks(host: Host) -> None:
    a = numbers(96)
    c = host.run("masks", (96, 1, 1), size=96, a=a)
    for warp in range(3):
        v = a[32 * warp : 32 * warp + 32]
        lane = np.arange(32)
        low = v[lane[:16] ^ 1]
        high = v[lane[16:] ^ 2]
        high = np.concatenate([high[4:], high[12:]])
        expected = np.concatenate([low, high])
        expected[::4] += expected[28]
        np.testing.assert_array_equal(c[32 * warp : 32 * warp + 32], expected)


@pytest.mark.parametrize("threads", [1, 32, 40, 128])
@pytest.mark.parametrize("n", [1, 3, 33])
def test_votes(host: Host, threads: int, n: int) -> None:
    c = host.run("votes", (threads, 1, 1), size=3 * threads, n=n).view(np.uint32)
    for t in range(threads):
        warp = range(t // 32 * 32, min(t // 32 * 32 + 32, threads))
        ballot = sum(1 << u % 32 for u in warp if u % n == 0)
        expected = [ballot, 33 in warp, 33 not in warp]
        assert c.reshape(3, threads)[:, t].tolist() == expected


@pytest.mark.parametrize("threads", [32, 96, 1024])
def test_sums_over_warps_and_blocks(host: Host, threads: int) -> None:
    a = numbers(threads)
    warps = a.reshape(-1, 32).sum(axis=1)
    c = host.run("butterfly", (threads, 1, 1), size=threads, a=a)
    np.testing.assert_array_equal(c, np.repeat(warps, 32))
    c = host.run("block_sum", (threads, 1, 1), size=3, a=a, n=3)
    np.testing.assert_array_equal(c, a.sum() + threads * np.arange(3))


def test_a_warp_function_that_a_lane_skips_ends(host: Host) -> None:
    c = host.run("absent_lane", (64, 1, 1), size=64)
    np.testing.assert_array_equal(c, np.arange(64))


def run_mix(a: Array, program: Array) -> Array:
    """What the kernel ``mix`` computes, one step for all threads at a time."""
    threads = len(a)
    t = np.arange(threads)
    v = a.astype(np.int64)
    s, alive = v.copy(), np.ones(threads, bool)
    for op, k in program:
        new = v.copy()
        if op == 0:
            s[alive] = v[alive]
            new += s[(t + k) % threads]
        elif op == 1:
            partner = t ^ (k & 31)
            there = (partner < threads) & (t // 32 % 2 == k % 2)
            partner = np.where(there, partner, t)
            new += np.where(there & alive[partner], v[partner], 0)
        elif op == 2:
            new += np.count_nonzero((new % 3 == 0) & alive)
            some, every = np.any((new % 50 == 0) & alive), np.all((new % 50 != 0) | ~alive)
            # The second reduction sees what the first has not yet been added to.
            new += 2 * int(some) + int(every)
        elif op == 3:
            alive &= t % 11 != k % 11
        elif op == 4:
            for first in range(0, threads, 32):
                warp = slice(first, first + 32)
                live, odd, values = alive[warp], t[warp] % 2 == 1, v[warp]
                ballot = np.count_nonzero(live & odd & (values % 2 == 1))
                some = np.any(live & ~odd & (values % 9 == 0))
                new[warp] += np.where(odd, ballot, 7 * int(some))
        v = np.where(alive, new % 1000, v)
    return v


@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_barriers_warps_and_returns(host: Host, seed: int) -> None:
    rng = np.random.default_rng(seed)
    threads = int(rng.choice([1, 20, 32, 33, 64, 100, 1000, 1024]))
    steps = 30
    program = np.stack([rng.integers(0, 5, steps), rng.integers(0, 64, steps)], axis=1)
    if seed % 2:  # the warps' part begins late, in the middle of a pass and after returns
        program[:15, 0] = rng.choice([0, 2, 3], 15)
    a = numbers(threads)
    c = host.run(
        "mix",
        (threads, 1, 1),
        grid=(3, 1, 1),
        size=3 * threads,
        a=a,
        b=program.reshape(-1),
        n=steps,
    )
    np.testing.assert_array_equal(c.reshape(3, threads), np.tile(run_mix(a, program), (3, 1)))


def test_shared_arrays(host: Host) -> None:
    a, t = numbers(32), np.arange(32)
    c = host.run("arrays", (32, 1, 1), size=32, a=a, n=6)
    expected = sum(a[31 - t] + i + (t + i) % 32 + t * i for i in range(6)) + 1001 * (31 - t)
    np.testing.assert_array_equal(c, expected)


def test_float4(host: Host) -> None:
    a = numbers(128)
    np.testing.assert_array_equal(host.run("vectors", (32, 1, 1), size=128, a=a), a[::-1])


def test_atomics_across_blocks(host: Host) -> None:
    total = 40 * 64
    c = host.run("atomics", (64, 1, 1), grid=(40, 1, 1), size=16)
    whole = c.view(np.int32)
    assert c[:2].view(np.float64)[0] == total / 2
    assert c[2:4].view(np.uint64)[0] == total << 20
    assert c[4] == total
    assert whole[5:13].tolist() == [
        3 * total, -64 * total, total - 1, 1 - total, 2 * total, 2**31 - 1, total % 10, 5
    ]  # fmt: skip


def test_device_functions(host: Host) -> None:
    c = host.run("functions", (1, 1, 1), size=6, a=np.arange(8), n=7)
    assert c.tolist() == [6 + 5, 3, 2.0**64, 1.5 + 7 + 6, 3, 3 + 4 + 5 + 1]


def test_blocks_run_on_several_os_threads(host: Host) -> None:
    blocks = 16
    c = host.run("crowd", (32, 1, 1), grid=(blocks, 1, 1), size=33 * blocks, n=3000)
    expected = 100 * np.arange(blocks)[:, None] + np.arange(31, -1, -1)
    np.testing.assert_array_equal(c[: 32 * blocks].reshape(blocks, 32), expected)
    os_threads = len(set(c[32 * blocks :].tolist()))
    assert min(2, worker_count()) <= os_threads <= worker_count()


def test_recursion_and_large_local_arrays(host: Host) -> None:
    a = numbers(100)
    c = host.run("recursion", (100, 1, 1), size=100, a=a, n=40)
    np.testing.assert_array_equal(c, (a + 40) + 2 * sum(a + i for i in range(40)))
    assert not host.run("large_local", (1024, 1, 1), size=1024, a=numbers(1024)).any()
    np.testing.assert_array_equal(
        host.run("aligned_local", (100, 1, 1), size=100, a=a, n=2), 16 * a + sum(range(16))
    )


def test_a_first_access_to_shared_memory_keeps_registers(fresh_host: Host) -> None:
    """Before glibc 2.40 the first access clobbers what the compiler holds in registers."""
    a = np.arange(1, 15)
    np.testing.assert_array_equal(fresh_host.run("held", (1, 1, 1), size=14, a=a), a)


@pytest.mark.parametrize(("kernel", "n"), [("recursion", 1000), ("huge_local", 0)])
def test_too_much_local_memory_is_reported(fresh_host: Host, kernel: str, n: int) -> None:
    assert fresh_host.crash(kernel, (64, 1, 1), n) == (
        "a thread needs more local memory than the cpu runner's 64 KiB, "
        "at block (0, 0, 0), thread (0, 0, 0)"
    )


def test_printf(capfd: pytest.CaptureFixture[str], path: Path) -> None:
    started = Host(path, FORMS["switch"])
    started.run("speak", (32, 1, 1), size=1)
    started.stop()
    assert "thread 3 of 32 says 1.50\n" in capfd.readouterr().out


def test_clang_is_covered() -> None:
    if "clang" not in FORMS:
        pytest.skip("clang++ is not installed")


@pytest.mark.parametrize("form", [form for form in FORMS if "ziglang" not in FORMS[form]])
def test_no_warnings(form: str) -> None:
    command = shlex.split(FORMS[form])
    flags = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-march=native", "-O2"]
    for unit in (["-x", "c", "-std=gnu11", "simt.c"], ["-x", "c++", "-std=c++17", "cuda_shim.h"]):
        result = subprocess.run(
            [*command, *flags, *unit], cwd=SIMT, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")
