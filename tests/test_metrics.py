"""Formulas against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench import kernels
from mmbench.metrics import (
    MultiprocessorLimits,
    arithmetic_intensity,
    compulsory_bytes,
    dram_peak_gbs,
    flop,
    fp32_roof_gflops,
    giga_per_second,
    occupancy,
    requested_bytes,
)
from mmbench.product import Problem, Product
from mmbench.spec import Point, Traffic

H200 = MultiprocessorLimits(
    threads=2048, blocks=32, registers=65536, shared_bytes=233472, reserved_shared_bytes=1024
)
DOUBLE = Product("float64", "float64")
MIXED = Product("float16", "float32")  # A and B of 2 bytes, C of 4


def cube(n: int) -> Problem:
    return Problem(n, n, n)


def test_flop() -> None:
    assert flop(Problem(64, 32, 16)) == 65536
    assert flop(cube(1)) == 2
    assert flop(cube(1024)) == 2_147_483_648


def test_gflops() -> None:
    assert giga_per_second(flop(Problem(64, 32, 16)), 1e-3) == pytest.approx(0.065536, rel=1e-15)
    assert giga_per_second(flop(cube(1024)), 2.147483648e-3) == pytest.approx(1000, rel=1e-15)


def test_requested_bytes_of_the_tiled_kernel() -> None:
    point = Point(kernels.get("tiled"), cube(512), {"TILE_SIZE": 16})
    # A and B are each requested 512 / 16 = 32 times, C is written once.
    assert point.traffic() == Traffic(2 * 32 * 512**2, 512**2)
    size = requested_bytes(point.traffic(), point.spec.product)
    assert size == 68_157_440
    assert giga_per_second(size, 0.02e-3) == pytest.approx(3407.872, rel=1e-15)


def test_requested_bytes_of_the_naive_kernel() -> None:
    point = Point(kernels.get("naive"), Problem(3, 5, 7), {"TILE_SIZE": 16})
    assert requested_bytes(point.traffic(), Product()) == (2 * 3 * 5 * 7 + 3 * 5) * 4


def test_tiles_at_the_edge_request_whole_rows() -> None:
    point = Point(kernels.get("tiled"), Problem(17, 33, 5), {"TILE_SIZE": 16})
    # A (17 x 5) once for each of 3 columns of tiles, B (5 x 33) for each of 2 rows of tiles.
    assert point.traffic() == Traffic(17 * 5 * 3 + 5 * 33 * 2, 17 * 33)


def test_requested_bytes_count_reads_and_writes() -> None:
    assert requested_bytes(Traffic(reads=10, writes=3), DOUBLE) == 104


def test_compulsory_bytes() -> None:
    assert compulsory_bytes(Problem(2, 3, 5), Product()) == (2 * 5 + 5 * 3 + 2 * 3) * 4
    assert compulsory_bytes(cube(4096), Product()) == 3 * 4096**2 * 4
    assert compulsory_bytes(cube(4096), DOUBLE) == 2 * compulsory_bytes(cube(4096), Product())


def test_bytes_of_matrices_of_two_types() -> None:
    assert requested_bytes(Traffic(reads=10, writes=3), MIXED) == 10 * 2 + 3 * 4
    assert compulsory_bytes(Problem(2, 3, 5), MIXED) == (2 * 5 + 5 * 3) * 2 + 2 * 3 * 4


def test_c_is_read_as_well_where_beta_makes_it_an_input() -> None:
    adding = Product(beta=1)
    assert compulsory_bytes(Problem(2, 3, 5), adding) == (2 * 5 + 5 * 3 + 2 * 2 * 3) * 4
    assert compulsory_bytes(Problem(2, 3, 5), Product(alpha=2)) == (2 * 5 + 5 * 3 + 2 * 3) * 4


def test_arithmetic_intensity() -> None:
    assert arithmetic_intensity(65536, 8192) == 8.0


def test_roof_of_an_h200() -> None:
    # 132 SMs x 128 FMA units x 2 x 1.98 GHz
    assert fp32_roof_gflops((9, 0), 132, 1980e6) == pytest.approx(66_908.16, rel=1e-12)


def test_roof_of_an_a100() -> None:
    # 108 SMs x 64 FMA units x 2 x 1.41 GHz: NVIDIA states 19.5 TFLOP/s
    assert fp32_roof_gflops((8, 0), 108, 1410e6) == pytest.approx(19_491.84, rel=1e-12)


def test_roof_of_an_unknown_architecture_is_unknown() -> None:
    assert fp32_roof_gflops((99, 0), 132, 1980e6) is None


def test_dram_peak() -> None:
    # A100 40 GB: 1215 MHz, 5120 bits: NVIDIA states 1555 GB/s
    assert dram_peak_gbs(1215e6, 5120) == pytest.approx(1555.2, rel=1e-12)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "warps"),
    [
        # 32 registers: 1024 a warp, 64 warps. All limits allow 64 warps.
        (1024, 32, 8192, 64),
        (256, 32, 2048, 64),
        # 64 threads: 32 blocks of 2 warps, the limit of blocks; 32 threads the half.
        (64, 32, 0, 64),
        (32, 32, 0, 32),
        # Unknown or no registers do not limit.
        (1024, 0, 0, 64),
        # 40 registers: 1280 a warp, so a second block of 32 warps has no room.
        (1024, 40, 8192, 32),
        # 33 registers are handed out as 40: 48 or 51 warps, not 62.
        (1024, 33, 0, 32),
        (256, 33, 0, 48),
        # 255 registers: 8160 a warp, rounded up to 8192: 8 warps in all.
        (256, 255, 0, 8),
        (128, 255, 0, 8),
        # 72 registers: 2304 a warp, 28 warps: 3 blocks of 8.
        (256, 72, 0, 24),
        # 65 registers a thread for 1024 threads do not fit at all.
        (1024, 65, 0, 0),
        # 49152 + 1024 = 50176 bytes a block: 4 blocks of 8 warps.
        (256, 32, 49152, 32),
        # 115712 + 1024 = 116736 bytes: exactly 2 blocks; a byte more takes 128 more: 1 block.
        (256, 32, 115_712, 16),
        (256, 32, 115_713, 8),
        # 45670 + 1024 bytes would fit 5 times, the 46720 that are handed out fit 4 times.
        (256, 32, 45_670, 32),
        (256, 32, 232_448, 8),
        (256, 32, 232_449, 0),
        # 33 threads are 2 warps; 1000 threads are 32.
        (33, 32, 0, 64),
        (1000, 32, 0, 64),
        # 544 threads are 17 warps: 3 blocks.
        (544, 32, 0, 51),
    ],
)
def test_occupancy_of_an_h200(threads: int, registers: int, shared: int, warps: int) -> None:
    assert occupancy(H200, threads, registers, shared) == warps / 64


@pytest.mark.parametrize(
    ("threads", "registers", "blocks"),
    # Blocks by cudaOccMaxActiveBlocksPerMultiprocessor of CUDA's cuda_occupancy.h. A warp lives
    # in one of the SM's four partitions of 16384 registers: 1280 a warp are 12 warps in each.
    [(64, 40, 24), (96, 40, 16), (160, 40, 9), (64, 48, 20), (192, 48, 6), (32, 96, 20)],
)
def test_registers_are_handed_out_by_partition(threads: int, registers: int, blocks: int) -> None:
    assert occupancy(H200, threads, registers, 0) == blocks * threads / 2048


def test_without_reserved_shared_memory() -> None:
    # Compute capability 7.5: 1024 threads, 16 blocks, 64 KiB.
    turing = MultiprocessorLimits(1024, 16, 65536, 65536, 0)
    assert occupancy(turing, 256, 32, 0) == 1.0
    assert occupancy(turing, 32, 32, 0) == 0.5
    assert occupancy(turing, 256, 32, 32768) == 0.5


@given(st.integers(1, 1024), st.integers(0, 255), st.integers(0, 240_000))
def test_occupancy_is_a_share_and_falls_with_use(threads: int, registers: int, shared: int) -> None:
    share = occupancy(H200, threads, registers, shared)
    assert 0 <= share <= 1
    assert occupancy(H200, threads, registers + 1, shared) <= share or registers == 0
    assert occupancy(H200, threads, registers, shared + 1) <= share
