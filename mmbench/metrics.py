"""Every formula: floating-point operations, bytes, rates, intensity, roofs, occupancy.

Seconds, bytes and FLOP in; a name says so where a result is in another unit. Knows no
kernel, no device and no formatting.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmbench.product import Problem, Product
from mmbench.spec import Traffic


def flop(problem: Problem) -> int:
    """Floating-point operations of a product: one multiply and one add per (m, n, k)."""
    return 2 * problem.m * problem.n * problem.k


def requested_bytes(traffic: Traffic, product: Product) -> int:
    """Bytes the kernel's own loads and stores ask for, whichever memory serves them."""
    return traffic.reads * product.bytes_of("A") + traffic.writes * product.bytes_of("C")


def compulsory_bytes(problem: Problem, product: Product) -> int:
    """Fewest bytes any kernel can move: A and B read once, C written once.

    C is read once as well where beta is not 0.
    """
    m, n, k = problem.m, problem.n, problem.k
    passes_over_c = 1 if product.beta == 0 else 2
    inputs = (m * k + k * n) * product.bytes_of("A")
    return inputs + passes_over_c * m * n * product.bytes_of("C")


def giga_per_second(amount: float, seconds: float) -> float:
    """``amount`` (FLOP or bytes) per second in 10^9: GFLOP/s or GB/s."""
    return amount / seconds / 1e9


def arithmetic_intensity(flops: int, traffic_bytes: int) -> float:
    """FLOP per byte of traffic (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009)."""
    return flops / traffic_bytes


# FP32 cores (FMA units) of one SM by compute capability: CUDA C++ Programming Guide, table
# "Throughput of Native Arithmetic Instructions", row 32-bit floating-point add, multiply, FMA.
_FP32_FMA_PER_SM = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128,
    (7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128,
    (9, 0): 128, (10, 0): 128, (10, 3): 128, (11, 0): 128, (12, 0): 128, (12, 1): 128,
}  # fmt: skip


def fp32_roof_gflops(
    compute_capability: tuple[int, int], multiprocessors: int, clock_hz: float
) -> float | None:
    """Peak FP32 rate: SMs x FMA units x 2 FLOP x clock; None for an unknown architecture."""
    units = _FP32_FMA_PER_SM.get(compute_capability)
    return None if units is None else multiprocessors * units * 2 * clock_hz / 1e9


def dram_peak_gbs(memory_clock_hz: float, bus_width_bits: int) -> float:
    """Peak memory rate: clock x 2 (double data rate) x bus width."""
    return memory_clock_hz * 2 * bus_width_bits / 8 / 1e9


@dataclass(frozen=True)
class MultiprocessorLimits:
    """What one SM can hold at a time."""

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    reserved_shared_bytes: int
    warp: int = 32


# Registers are handed out to a warp in units of 256 (CUDA Occupancy Calculator, all of
# compute capability 5.0 and later), and shared memory in units of 128 bytes from 8.0 on.
# Each of an SM's four partitions has its own share of the registers (cuda_occupancy.h).
_REGISTER_UNIT = 256
_PARTITIONS = 4
_SHARED_UNIT = 128


def occupancy(
    limits: MultiprocessorLimits, threads: int, registers: int, shared_bytes: int
) -> float:
    """Share of an SM's warps that blocks of this size can keep resident, 0 to 1.

    ``registers`` per thread; ``shared_bytes`` per block, static and dynamic together.
    """
    warps = -(-threads // limits.warp)
    registers_warp = -(-registers * limits.warp // _REGISTER_UNIT) * _REGISTER_UNIT
    shared = shared_bytes + limits.reserved_shared_bytes
    shared = -(-shared // _SHARED_UNIT) * _SHARED_UNIT
    most = [limits.blocks, limits.threads // (warps * limits.warp)]
    if registers_warp:
        partition = limits.registers // _PARTITIONS // registers_warp
        most.append(partition * _PARTITIONS // warps)
    if shared:
        most.append(limits.shared_bytes // shared)
    return max(0, min(most)) * warps * limits.warp / limits.threads
