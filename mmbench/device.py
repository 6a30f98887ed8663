"""What launches run on: its name, its limits, its roofs. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from mmbench.metrics import MultiprocessorLimits
from mmbench.spec import Dim3


@dataclass(frozen=True)
class Limits:
    """Largest launch that a device accepts. The cpu runner applies a GPU's, see CUDA_LIMITS."""

    threads: int = 1024
    block: Dim3 = (1024, 1024, 64)
    grid: Dim3 = (2**31 - 1, 65535, 65535)
    static_shared_bytes: int = 48 * 1024
    dynamic_shared_bytes: int = 99 * 1024

    def static_shared_reason(self, size: int) -> str | None:
        """Why a block with this much static shared memory cannot launch; None if it can."""
        if size <= self.static_shared_bytes:
            return None
        return (
            f"needs {size} bytes of static shared memory per block, "
            f"the limit is {self.static_shared_bytes}"
        )


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": the values that
# all of compute capability 5.0 and later share; dynamic shared memory is that of 8.6.
CUDA_LIMITS = Limits()


@dataclass(frozen=True)
class Device:
    """What launches run on, and all that is known of it. Rates are None where unknown."""

    runner: str
    index: int
    name: str
    uuid: str
    limits: Limits
    memory_bytes: int
    host_memory_bytes: int
    compute_capability: tuple[int, int] | None = None
    multiprocessors: int | None = None
    multiprocessor: MultiprocessorLimits | None = None
    l2_bytes: int | None = None
    clock_mhz: float | None = None  # the highest of the SMs
    fp32_roof_gflops: float | None = None
    dram_peak_gbs: float | None = None
    driver: str = ""
    compiler: str = ""
    environment: dict[str, str] = field(default_factory=dict)
