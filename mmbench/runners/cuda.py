"""The cuda runner: the device, its primary context, CUDA events.

Timing keeps the host out of every interval: a small kernel, the gate, holds the stream until all
of the sample's work has been queued, so that no launch latency lies between two events.
"""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from mmbench import metrics
from mmbench.device import Device, Limits
from mmbench.errors import LaunchError, MmbenchError, RunnerUnavailableError
from mmbench.runners import Array, Kernel, Program, Resources, Telemetry, cublas, nvcc, nvml
from mmbench.runners.source_module import SourceModules, options
from mmbench.spec import Launch, Point

_FLOOR_SAMPLES = 20
_INSTALL = 'pip install "mmbench[cuda]" (needs the CUDA toolkit; mmbench doctor says more)'
_FORMATS = {
    "int": "i", "unsigned": "I", "unsigned int": "I", "size_t": "L", "long long": "q",
    "float": "f", "double": "d", "half": "e", "bool": "?",
}  # fmt: skip
_COMPARE_GRID, _COMPARE_BLOCK = (1024, 1), (256, 1, 1)


def _driver() -> Any:
    try:
        import pycuda.driver
    except ImportError as error:
        if "libcuda" in str(error):
            raise RunnerUnavailableError(
                f"no NVIDIA driver ({error}); install the driver of your GPU"
            ) from None
        raise RunnerUnavailableError(f"PyCUDA is not installed; {_INSTALL}") from None
    return pycuda.driver


def _open_device(drv: Any, index: int) -> Any:
    try:
        drv.init()
        count = drv.Device.count()
    except drv.Error as error:
        raise RunnerUnavailableError(f"no CUDA GPU answers ({_reason(error)})") from None
    if not 0 <= index < count:
        known = "none" if count == 0 else f"0 to {count - 1}"
        raise RunnerUnavailableError(f"there is no CUDA device {index}; known: {known}")
    return drv.Device(index)


def preload() -> None:
    """Import what a session will need, before there is one; touch no GPU."""
    _driver()
    nvml.preload()


def device_count() -> int:
    """Number of CUDA devices; raise RunnerUnavailableError where CUDA cannot be used."""
    drv = _driver()
    _open_device(drv, 0)
    return int(drv.Device.count())


def _reason(error: Exception) -> str:
    """The driver's own words, without the name of the call that reported them."""
    return re.sub(r"^cu\w+ failed: ", "", str(error).strip().splitlines()[0])


def _arch(capability: tuple[int, int]) -> str:
    return "sm_{}{}".format(*capability)


class CudaRunner:
    """Compiles for one GPU and describes it. Makes no context."""

    times = "GPU"
    modes: tuple[str, ...] = ("cold", "hot")
    compiles_while_measuring = True

    def __init__(self, index: int) -> None:
        drv = _driver()
        handle = _open_device(drv, index)
        self.nvcc = nvcc.find()
        self.device = _describe(drv, handle, index, self.nvcc)
        self.modules = SourceModules(self.nvcc, _arch(handle.compute_capability()))

    def baseline(self) -> str:
        try:
            cublas.describe(self.nvcc.library_folder, "cublas")
        except RunnerUnavailableError:
            return ""
        return "cublas"

    def prepare(self) -> None:
        self.modules.compile_own()

    def flags(self, point: Point) -> str:
        if point.spec.library:
            return cublas.describe(self.nvcc.library_folder, point.spec.library)
        return " ".join((*options(point), f"-arch={self.modules.arch}"))

    def compile(self, point: Point) -> Program:
        if point.spec.library:
            cublas.describe(self.nvcc.library_folder, point.spec.library)
            return Program(path="", symbol=point.spec.library, compile_seconds=None)
        return self.modules.compile(point)


def _describe(drv: Any, handle: Any, index: int, compiler: nvcc.Nvcc) -> Device:
    name = drv.device_attribute

    def get(attribute: str) -> int:
        return int(handle.get_attribute(getattr(name, attribute)))

    capability = handle.compute_capability()
    multiprocessors = get("MULTIPROCESSOR_COUNT")
    card = nvml.open_card(handle.pci_bus_id())
    version = drv.get_driver_version()
    cuda = f"CUDA {version // 1000}.{version % 1000 // 10}"
    return Device(
        runner="cuda",
        index=index,
        name=handle.name(),
        uuid=card.uuid() if card else handle.pci_bus_id(),
        limits=Limits(
            threads=get("MAX_THREADS_PER_BLOCK"),
            block=(get("MAX_BLOCK_DIM_X"), get("MAX_BLOCK_DIM_Y"), get("MAX_BLOCK_DIM_Z")),
            grid=(get("MAX_GRID_DIM_X"), get("MAX_GRID_DIM_Y"), get("MAX_GRID_DIM_Z")),
            static_shared_bytes=get("MAX_SHARED_MEMORY_PER_BLOCK"),
            dynamic_shared_bytes=get("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        ),
        memory_bytes=handle.total_memory(),
        host_memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        compute_capability=capability,
        multiprocessors=multiprocessors,
        multiprocessor=metrics.MultiprocessorLimits(
            threads=get("MAX_THREADS_PER_MULTIPROCESSOR"),
            blocks=get("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            registers=get("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_bytes=get("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            reserved_shared_bytes=get("RESERVED_SHARED_MEMORY_PER_BLOCK"),
        ),
        l2_bytes=get("L2_CACHE_SIZE"),
        clock_mhz=get("CLOCK_RATE") / 1e3,
        fp32_roof_gflops=metrics.fp32_roof_gflops(
            capability, multiprocessors, get("CLOCK_RATE") * 1e3
        ),
        dram_peak_gbs=metrics.dram_peak_gbs(
            get("MEMORY_CLOCK_RATE") * 1e3, get("GLOBAL_MEMORY_BUS_WIDTH")
        ),
        driver=f"{card.driver()} ({cuda})" if card else cuda,
        compiler=compiler.version,
    )


@contextmanager
def _cuda_failures(drv: Any) -> Iterator[None]:
    """Turn PyCUDA's errors into a LaunchError, in the driver's words."""
    try:
        yield
    except drv.MemoryError as error:
        raise LaunchError(f"the GPU is out of memory ({_reason(error)})") from None
    except drv.Error as error:
        raise LaunchError(f"{_reason(error)} in the kernel") from None


class DeviceBuffer:
    """Memory of the GPU; freed with its last reference."""

    def __init__(self, drv: Any, size: int) -> None:
        with _cuda_failures(drv):
            self._allocation = drv.mem_alloc(size)
        self.address = int(self._allocation)
        self.bytes = size


class CudaSession:
    """The primary context of one GPU, a stream, the gate, and memory to flush the L2 with."""

    own_memory = True

    def __init__(self, index: int) -> None:
        self.drv = _driver()
        handle = _open_device(self.drv, index)
        self.nvcc = nvcc.find()
        self.modules = SourceModules(self.nvcc, _arch(handle.compute_capability()))
        with _cuda_failures(self.drv):
            self.context = handle.retain_primary_context()
            self.context.push()
            self.stream = self.drv.Stream()
            self.begin, self.end = self.drv.Event(), self.drv.Event()
            l2 = handle.get_attribute(self.drv.device_attribute.L2_CACHE_SIZE)
            self.flush_words = max(2 * l2, 1 << 20) // 4
            self.flush_memory = self.drv.mem_alloc(4 * self.flush_words)
            self.open, self.open_address = self._flag()
            self.differ, self.differ_address = self._flag()
        self.card = nvml.open_card(handle.pci_bus_id())

    def _flag(self) -> tuple[Any, Any]:
        """A whole number in memory that host and device share, and its address there."""
        flags = self.drv.host_alloc_flags.DEVICEMAP
        number = self.drv.pagelocked_zeros(1, np.int32, mem_flags=flags)
        return number, np.uintp(number.base.get_device_pointer())

    @cached_property
    def gate(self) -> Any:
        return self._own_kernels.get_function("mmbench_gate").prepare("P")

    @cached_property
    def empty(self) -> Any:
        return self._own_kernels.get_function("mmbench_empty").prepare("")

    @cached_property
    def compare(self) -> Any:
        return self._own_kernels.get_function("mmbench_compare").prepare("PPQP")

    @cached_property
    def _own_kernels(self) -> Any:
        """Loaded for the first task: until then ``CudaRunner.prepare`` may be compiling them."""
        return self.modules.load_own()

    def close(self) -> None:
        """Give the context back; a worker process leaves that to its own end."""
        self.drv.Context.pop()

    def free_bytes(self) -> int:
        with _cuda_failures(self.drv):
            free, _ = self.drv.mem_get_info()
        return int(free)

    def allocate(self, size: int) -> DeviceBuffer:
        return DeviceBuffer(self.drv, size)

    def write(self, buffer: DeviceBuffer, data: Array) -> None:
        with _cuda_failures(self.drv):
            self.drv.memcpy_htod(buffer.address, data)

    def read(self, buffer: DeviceBuffer, data: Array) -> None:
        with _cuda_failures(self.drv):
            self.drv.memcpy_dtoh(data, buffer.address)

    def copy(self, target: DeviceBuffer, source: DeviceBuffer) -> None:
        with _cuda_failures(self.drv):
            self.drv.memcpy_dtod_async(target.address, source.address, source.bytes, self.stream)

    def same(self, pairs: Sequence[tuple[DeviceBuffer, DeviceBuffer]]) -> bool:
        self.differ[0] = 0
        with _cuda_failures(self.drv):
            for one, other in pairs:
                self.compare.prepared_async_call(
                    _COMPARE_GRID, _COMPARE_BLOCK, self.stream,
                    one.address, other.address, one.bytes, self.differ_address,
                )  # fmt: skip
            self.stream.synchronize()
        return not self.differ[0]

    def load(self, program: Program, point: Point, launch: Launch) -> Kernel:
        if point.spec.library:
            return LibraryKernel(self, point)
        return CudaKernel(self, program, point, launch)

    def telemetry(self) -> Telemetry | None:
        return self.card.telemetry() if self.card else None

    def timer_floor(self, cold: bool) -> float:
        """Seconds that an empty kernel reads: the median of some samples."""
        empty = EmptyKernel(self)
        return statistics.median(empty.sample((), 1, cold) for _ in range(_FLOOR_SAMPLES))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Queue work behind the closed gate; it is opened when the block ends."""
        self.open[0] = 0
        self.gate.prepared_async_call((1, 1), (1, 1, 1), self.stream, self.open_address)
        try:
            yield
        finally:
            self.open[0] = 1

    def flush_l2(self) -> None:
        """Queue a write over twice the L2, which leaves nothing of A, B and C in it."""
        self.drv.memset_d32_async(self.flush_memory, 0, self.flush_words, self.stream)


class _Timed:
    """Launches between two events in the session's stream. What is launched, subclasses say."""

    def __init__(self, session: CudaSession) -> None:
        self.session = session

    def call(self, arguments: Sequence[Any]) -> None:
        """Queue one launch."""
        raise NotImplementedError

    def launch(self, arguments: Sequence[Any]) -> float:
        with _cuda_failures(self.session.drv):
            self._queue(arguments, 1)
        return self._wait()

    def sample(self, arguments: Sequence[Any], launches: int, cold: bool) -> float:
        with _cuda_failures(self.session.drv), self.session.held():
            if cold:
                self.session.flush_l2()
            self._queue(arguments, launches)
        return self._wait() / launches

    def _queue(self, arguments: Sequence[Any], launches: int) -> None:
        session = self.session
        session.begin.record(session.stream)
        for _ in range(launches):
            self.call(arguments)
        session.end.record(session.stream)

    def _wait(self) -> float:
        """Seconds between the two events, once both have happened."""
        session = self.session
        with _cuda_failures(session.drv):
            session.end.synchronize()
            return float(session.end.time_since(session.begin)) / 1e3


class EmptyKernel(_Timed):
    """Does nothing: what it takes is what the timer adds to a launch."""

    def call(self, arguments: Sequence[Any]) -> None:
        self.session.empty.prepared_async_call((1, 1), (1, 1, 1), self.session.stream)


class LibraryKernel(_Timed):
    """A product of cuBLAS."""

    resources = Resources(static_shared_bytes=0)

    def __init__(self, session: CudaSession, point: Point) -> None:
        super().__init__(session)
        self.workspace = DeviceBuffer(session.drv, cublas.workspace_bytes())
        self.gemm = cublas.Gemm(
            session.nvcc.library_folder, point.spec.library, point.problem, point.spec.product
        )
        self.gemm.use(session.stream.handle, self.workspace.address)

    def call(self, arguments: Sequence[Any]) -> None:
        self.gemm(arguments)


class CudaKernel(_Timed):
    """A kernel of a loaded module, prepared for one launch shape."""

    def __init__(
        self, session: CudaSession, program: Program, point: Point, launch: Launch
    ) -> None:
        super().__init__(session)
        self.grid = launch.grid
        self.block = launch.block
        self.shared = launch.dynamic_shared_bytes
        drv = session.drv
        try:
            self.module = session.modules.load(point, program)
            function = self.module.get_function(program.symbol)
            attribute = drv.function_attribute
            if self.shared:  # above 48 KiB a kernel must ask for it, below it does no harm
                function.set_attribute(attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self.shared)
        except drv.Error as error:
            raise MmbenchError(f"the GPU cannot load the kernel: {_reason(error)}") from None
        self.resources = Resources(
            static_shared_bytes=function.shared_size_bytes,
            registers=function.num_regs,
            local_bytes=function.local_size_bytes,
            max_threads=function.max_threads_per_block,
        )
        self.function = function.prepare(
            "".join(
                "P" if argument.is_pointer else _FORMATS[argument.ctype]
                for argument in point.spec.arguments
            )
        )

    def call(self, arguments: Sequence[Any]) -> None:
        self.function.prepared_async_call(
            self.grid, self.block, self.session.stream, *arguments, shared_size=self.shared
        )
