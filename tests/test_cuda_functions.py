"""The shim's device functions against their definitions, on values at the edges and at random."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from conftest import WriteKernel, measured_rows
from mmbench.bench import Bench, Settings
from mmbench.check import check_point
from mmbench.header import read_kernel
from mmbench.product import Problem
from mmbench.runners import Array, Runner, host_compiler
from mmbench.spec import Point

pytestmark = pytest.mark.cpu

TYPES: dict[str, Any] = {
    "f": ("float", np.float32), "d": ("double", np.float64), "i": ("int", np.int32),
    "u": ("unsigned", np.uint32), "l": ("long long", np.int64),
    "m": ("unsigned long long", np.uint64),
}  # fmt: skip
RNG = np.random.default_rng(7)
_WORDS = [0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x100, 0x7FFFFF, 0x800000, 0xFFFFFF, 0x1000001, 0x7FFFFFFF,
          0x80000000, 0x80000001, 0xFFFFFFFF, 0x80FF7F01, 0x12345678]  # fmt: skip
_LONGS = [*_WORDS, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0]
_REALS = [0.0, -0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, -0.5, -0.75, -1.0, -1.5, -2.5, 16777217.0,
          2147483520.0, 2147483647.0, 2147483648.0, 4294967295.0, 4294967296.0, -2147483648.0,
          -2147483649.0, 9.3e18, 1.9e19, -9.3e18, 1e30, -1e30, 1e-50, -1e-50, 1e300, math.inf,
          -math.inf, math.nan]  # fmt: skip


def values(letter: str) -> list[Any]:
    """What a parameter of this type is tried with."""
    if letter in "fd":
        with np.errstate(over="ignore"):
            return list(np.array([*_REALS, *RNG.normal(0, 1e6, 30)]).astype(TYPES[letter][1]))
    wide = letter in "lm"
    random = RNG.integers(0, 1 << 64, 30, dtype=np.uint64).tolist()
    unsigned = np.array([*(_LONGS if wide else _WORDS), *random], np.uint64)
    return list((unsigned if wide else unsigned.astype(np.uint32)).view(TYPES[letter][1]))


def signed(value: int, bits: int) -> int:
    """The low bits as a signed number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def whole(rounded: Callable[[float], int], bits: int, is_signed: bool, nan: int) -> Any:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)

    def convert(v: float) -> int:
        if math.isnan(v):
            return nan
        if math.isinf(v):
            return high if v > 0 else low
        return min(high, max(low, rounded(v)))

    return convert


def nearest_float(way: str) -> Any:
    """A number as a float, rounded as ``way`` says."""

    def convert(v: float) -> float:
        with np.errstate(over="ignore"):
            near = np.float32(v)
        if math.isnan(v) or float(near) == v or way == "rn":
            return float(near)
        up = way == "ru" or (way == "rz" and v < 0)
        wrong = float(near) < v if up else float(near) > v
        toward = np.float32(math.inf if up else -math.inf)
        return float(np.nextafter(near, toward)) if wrong else float(near)

    return convert


def parts(v: int, bits: int, is_signed: bool) -> list[int]:
    found = [v >> at & ((1 << bits) - 1) for at in range(0, 32, bits)]
    return [signed(each, bits) for each in found] if is_signed else found


def dot(bits: int, is_signed: bool, first: int = 0) -> Any:
    def apply(a: int, b: int, c: int) -> int:
        sum_ = c + sum(
            x * y
            for x, y in zip(parts(a, bits, is_signed), parts(b, 8, is_signed)[first:], strict=False)
        )
        return signed(sum_, 32) if is_signed else sum_ & 0xFFFFFFFF

    return apply


def permuted(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    digits = [selector >> at & 15 for at in range(0, 16, 4)]
    chosen = [(255 if data[d & 7] & 128 else 0) if d & 8 else data[d] for d in digits]
    return int.from_bytes(bytes(chosen), "little")


def reverse(bits: int) -> Any:
    return lambda v: int(f"{v:0{bits}b}"[::-1], 2)


def as_type(to: str) -> Any:
    return lambda v: np.array(v).view(TYPES[to][1])[()]


def clamped(v: float) -> float:
    return 0.0 if math.isnan(v) else min(1.0, max(0.0, v))


ROUNDINGS: dict[str, Any] = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}
Definition = tuple[str, str, Callable[..., Any]]  # parameters, result, what it is in Python
DEFINED: dict[str, Definition] = {
    "__dp4a/i": ("iii", "i", dot(8, True)), "__dp4a/u": ("uuu", "u", dot(8, False)),
    "__dp2a_lo/i": ("iii", "i", dot(16, True)), "__dp2a_lo/u": ("uuu", "u", dot(16, False)),
    "__dp2a_hi/i": ("iii", "i", dot(16, True, 2)), "__dp2a_hi/u": ("uuu", "u", dot(16, False, 2)),
    "__mul24": ("ii", "i", lambda a, b: signed(signed(a, 24) * signed(b, 24), 32)),
    "__umul24": ("uu", "u", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) & 0xFFFFFFFF),
    "__mulhi": ("ii", "i", lambda a, b: a * b >> 32),
    "__umulhi": ("uu", "u", lambda a, b: a * b >> 32),
    "__mul64hi": ("ll", "l", lambda a, b: a * b >> 64),
    "__umul64hi": ("mm", "m", lambda a, b: a * b >> 64),
    "__popc": ("u", "i", int.bit_count), "__popcll": ("m", "i", int.bit_count),
    "__clz": ("i", "i", lambda v: 32 - (v & 0xFFFFFFFF).bit_length()),
    "__clzll": ("l", "i", lambda v: 64 - (v & (1 << 64) - 1).bit_length()),
    "__ffs": ("i", "i", lambda v: (v & -v).bit_length()),
    "__ffsll": ("l", "i", lambda v: (v & -v).bit_length()),
    "__brev": ("u", "u", reverse(32)), "__brevll": ("m", "m", reverse(64)),
    "__byte_perm": ("uuu", "u", permuted),
    "__funnelshift_l": ("uuu", "u", lambda a, b, s: ((b << 32 | a) << s % 32 >> 32) & 0xFFFFFFFF),
    "__funnelshift_r": ("uuu", "u", lambda a, b, s: (b << 32 | a) >> s % 32 & 0xFFFFFFFF),
    "__funnelshift_lc":
        ("uuu", "u", lambda a, b, s: ((b << 32 | a) << min(s, 32) >> 32) & 0xFFFFFFFF),
    "__funnelshift_rc": ("uuu", "u", lambda a, b, s: (b << 32 | a) >> min(s, 32) & 0xFFFFFFFF),
    "__float_as_int": ("f", "i", as_type("i")), "__float_as_uint": ("f", "u", as_type("u")),
    "__int_as_float": ("i", "f", as_type("f")), "__uint_as_float": ("u", "f", as_type("f")),
    "__double_as_longlong": ("d", "l", as_type("l")),
    "__longlong_as_double": ("l", "d", as_type("d")),
    "__saturatef": ("f", "f", clamped),
    **{
        f"__{source}2{to}_{way}": (letter, result, whole(rounded, bits, is_signed, nan))
        for way, rounded in ROUNDINGS.items()
        for source, letter in (("float", "f"), ("double", "d"))
        for to, result, bits, is_signed, nan in (
            ("int", "i", 32, True, 0 if letter == "f" else -(1 << 31)),
            ("uint", "u", 32, False, 0 if letter == "f" else 1 << 31),
            ("ll", "l", 64, True, -(1 << 63)),
            ("ull", "m", 64, False, 1 << 63),
        )
    },
    **{
        f"__{source}2float_{way}": (letter, "f", nearest_float(way))
        for way in ROUNDINGS
        for source, letter in (("int", "i"), ("uint", "u"), ("double", "d"))
    },
}  # fmt: skip
CLOSE: dict[str, Definition] = {
    "__expf": ("f", "f", np.exp), "__logf": ("f", "f", np.log), "__log2f": ("f", "f", np.log2),
    "__log10f": ("f", "f", np.log10), "__sinf": ("f", "f", np.sin), "__cosf": ("f", "f", np.cos),
    "__tanf": ("f", "f", np.tan), "__tanhf": ("f", "f", np.tanh),
    "__exp10f": ("f", "f", lambda v: np.power(10.0, v)), "__powf": ("ff", "f", np.power),
    "__fdividef": ("ff", "f", np.divide), "fdividef": ("ff", "f", np.divide),
    "__fdiv_rn": ("ff", "f", np.divide), "__frcp_rn": ("f", "f", lambda v: 1 / v),
    "__fsqrt_rn": ("f", "f", np.sqrt), "rsqrtf": ("f", "f", lambda v: 1 / np.sqrt(v)),
    "__frsqrt_rn": ("f", "f", lambda v: 1 / np.sqrt(v)), "__dsqrt_rn": ("d", "d", np.sqrt),
    "rsqrt": ("d", "d", lambda v: 1 / np.sqrt(v)), "__fsub_rn": ("ff", "f", np.subtract),
}  # fmt: skip
ALL = DEFINED | CLOSE


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """A library with a function ``at_NAME`` for each: it applies it to whole arrays."""
    lines = []
    for key, (letters, result, _) in ALL.items():
        inputs = ", ".join(f"const {TYPES[c][0]} *in{i}" for i, c in enumerate(letters))
        call = ", ".join(f"in{i}[j]" for i in range(len(letters)))
        lines.append(
            f'extern "C" void at_{key.replace("/", "_")}(int n, {TYPES[result][0]} *out, {inputs}) '
            f"{{ for (int j = 0; j < n; ++j) out[j] = {key.partition('/')[0]}({call}); }}\n"
        )
    path, _ = host_compiler.build(
        "".join(lines), host_compiler.kernel_flags(), host_compiler.shim_identity(), ".cpp"
    )
    return ctypes.CDLL(str(path))


def columns(letters: str) -> list[Array]:
    """Every combination of the values of up to two parameters; of three, many."""
    given = [values(letter) for letter in letters]
    rows = list(product(*given)) if len(given) < 3 else list(zip(*(
        RNG.permutation(np.array(each * 20)) for each in given), strict=True))  # fmt: skip
    return [
        np.array([row[i] for row in rows], TYPES[letter][1]) for i, letter in enumerate(letters)
    ]


def applied(library: ctypes.CDLL, key: str, inputs: list[Array]) -> Array:
    out = np.zeros(len(inputs[0]), TYPES[ALL[key][1]][1])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (out, *inputs)]
    getattr(library, f"at_{key.replace('/', '_')}")(len(out), *pointers)
    return out


@pytest.mark.parametrize("key", DEFINED)
def test_it_is_what_its_definition_says(library: ctypes.CDLL, key: str) -> None:
    letters, result, definition = DEFINED[key]
    inputs = columns(letters)
    given = inputs if definition.__name__ == "<lambda>" and "_as_" in key else [
        each.tolist() for each in inputs
    ]  # fmt: skip
    expected = np.array([definition(*row) for row in zip(*given, strict=True)], TYPES[result][1])
    np.testing.assert_array_equal(applied(library, key, inputs), expected)


@pytest.mark.parametrize("key", CLOSE)
def test_it_is_close_to_the_function(library: ctypes.CDLL, key: str) -> None:
    letters, result, definition = CLOSE[key]
    inputs = columns(letters)
    with np.errstate(all="ignore"):
        exact = definition(*(each.astype(np.float64) for each in inputs))
        expected = np.asarray(exact).astype(TYPES[result][1])
    np.testing.assert_allclose(applied(library, key, inputs), expected, rtol=1e-6)


REST = """\
static_assert(sizeof(char4) == 4 && alignof(char4) == 4 && sizeof(uchar2) == 2, "");
static_assert(sizeof(short4) == 8 && alignof(short4) == 8 && sizeof(ushort3) == 6, "");
static_assert(sizeof(double3) == 24 && alignof(longlong4) == 16 && sizeof(float1) == 4, "");

__global__ void matmul(const float *A, const float *B, float *C, int N)
{
    __shared__ int count, least;
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (threadIdx.x == 0 && threadIdx.y == 0) count = least = 0;
    __syncthreads();
    long long begin = clock64();
    clock_t processor = clock();
    atomicAdd_block(&count, 1);
    atomicMin_system(&least, -(int)threadIdx.x);
    atomicCAS_system(&count, -1, 7);
    __threadfence_system();
    __nanosleep(20);
    __syncthreads();
    __builtin_assume(N > 0);
    __assume(N > 0);
    char4 a = make_char4(1, -2, 3, -4);
    uchar4 b = make_uchar4(250, 251, 252, 253);
    bool right = count == blockDim.x * blockDim.y && least == 1 - (int)blockDim.x;
    right = right && clock64() >= begin && clock() >= processor;
    right = right && __dp4a(a, a, 5) == 35 && __dp4a(b, b, 1u) == 253015u;
    right = right && make_short2(-1, 2).x == -1 && make_ulonglong2(1, 2).y == 2;
    right = right && umin(3u, 0xffffffffu) == 3 && llmax(-1, 1ll << 40) == 1ll << 40;
    if (!right) __trap();
    if (row >= N || col >= N) return;
    float sum = 0;
    for (int k = 0; k < N; ++k) sum += __ldcv(&A[row * N + k]) * __ldlu(&B[k * N + col]);
    __stwt(&C[row * N + col], sum);
}
"""


def test_types_atomics_and_clocks_in_both_builds(cpu: Runner, write_kernel: WriteKernel) -> None:
    path = write_kernel("rest", REST)
    point = Point(read_kernel(path), Problem(9, 9, 9), {"TILE_SIZE": 8})
    (row,) = measured_rows(Bench(cpu, Settings(cache="hot")), [point])
    assert (row.status, row.reason) == ("ok", None)
    assert check_point(point).ok
