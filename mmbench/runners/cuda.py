"""The cuda runner: SourceModule, CUDA events, the device's primary context.

The only module that imports PyCUDA. Timing keeps the host out of every interval: a small
kernel, the gate, holds the stream until all of the sample's work has been queued, so that no
launch latency lies between two events.
"""

from __future__ import annotations

import os
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mmbench import cache, metrics
from mmbench.device import Device, Limits
from mmbench.errors import CompileError, LaunchError, MmbenchError, RunnerUnavailableError
from mmbench.runners import Array, Kernel, Program, Resources, Telemetry, cublas, nvcc, nvml
from mmbench.spec import Launch, Point

_FLOOR_SAMPLES = 20
_INSTALL = 'pip install "mmbench[cuda]" (needs the CUDA toolkit; mmbench doctor says more)'
_INCLUDE = re.compile(r"^([ \t]*#)include\b", re.MULTILINE)
_FORMATS = {
    "int": "i", "unsigned": "I", "unsigned int": "I", "size_t": "L", "long long": "q",
    "float": "f", "double": "d", "half": "e", "bool": "?",
}  # fmt: skip

_OWN_KERNELS = Path(__file__).with_name("cuda_session.cu")
_COMPARE_GRID, _COMPARE_BLOCK = (1024, 1), (256, 1, 1)


def _driver() -> Any:
    try:
        import pycuda.compiler  # now, not between two measurements
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


def device_count() -> int:
    """Number of CUDA devices; raise RunnerUnavailableError where CUDA cannot be used."""
    drv = _driver()
    _open_device(drv, 0)
    return int(drv.Device.count())


def _reason(error: Exception) -> str:
    """The driver's own words, without the name of the call that reported them."""
    return re.sub(r"^cu\w+ failed: ", "", str(error).strip().splitlines()[0])


def _as_text(said: str | bytes | None) -> str:
    """What nvcc said: PyCUDA gives text, or bytes where it was preprocessing."""
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""


def _arch(capability: tuple[int, int]) -> str:
    return "sm_{}{}".format(*capability)


class CudaRunner:
    """Compiles for one GPU and describes it. Makes no context."""

    times = "GPU"
    modes: tuple[str, ...] = ("cold", "hot")
    compiles_while_measuring = True

    def __init__(self, index: int) -> None:
        drv = _driver()
        import pycuda.compiler

        handle = _open_device(drv, index)
        self.nvcc = nvcc.find()
        self.arch = _arch(handle.compute_capability())
        self.device = _describe(drv, handle, index, self.nvcc)
        # PyCUDA remembers it: else all compiles that begin at once would ask.
        pycuda.compiler.get_nvcc_version(self.nvcc.path)

    def baseline(self) -> str:
        try:
            cublas.describe(self.nvcc.library_folder, "cublas")
        except RunnerUnavailableError:
            return ""
        return "cublas"

    def prepare(self) -> None:
        _build(_OWN_KERNELS.read_text(), (), self.arch, self.nvcc)

    def flags(self, point: Point) -> str:
        if point.spec.library:
            return cublas.describe(self.nvcc.library_folder, point.spec.library)
        return " ".join((*_options(point), f"-arch={self.arch}"))

    def compile(self, point: Point) -> Program:
        if point.spec.library:
            cublas.describe(self.nvcc.library_folder, point.spec.library)
            return Program(path="", symbol=point.spec.library, compile_seconds=None)
        identity = cache.with_headers(point.spec.source, point.spec.folders)
        try:
            built = _build(_source(point), _options(point), self.arch, self.nvcc, identity)
        except _driver().CompileError as error:
            log = _as_text(error.stdout) + _as_text(error.stderr)
            raise nvcc.in_users_words(log, point.spec.path) from None
        return Program(
            path=str(built.folder),
            symbol=_symbol(built.cubin, point),
            compile_seconds=built.seconds,
        )


@dataclass(frozen=True)
class _Built:
    """A module in PyCUDA's cache, and the seconds that took; None where it was there."""

    folder: Path
    cubin: bytes
    seconds: float | None


def _build(
    source: str, options: Sequence[str], arch: str, compiler: nvcc.Nvcc, identity: str = ""
) -> _Built:
    """Compile into PyCUDA's own cache format, in a folder that no two sources share.

    PyCUDA keys its cache on the text alone; the folder is keyed on the headers, the
    ``identity``, as well.
    """
    import pycuda.compiler

    name = cache.key(source, identity, *options, arch, compiler.version)
    folder = cache.folder() / f"cuda-{name}"
    begin = time.perf_counter()
    cached = folder.is_dir()
    with tempfile.TemporaryDirectory(dir=cache.folder()) as scratch:
        made = Path(scratch) / "new"
        made.mkdir()
        cubin = pycuda.compiler.compile(
            source, compiler.path, list(options), no_extern_c=True, arch=arch,
            cache_dir=str(folder if cached else made),
        )  # fmt: skip
        if not cached:
            try:
                made.rename(folder)
            except OSError:  # another mmbench was faster
                assert folder.is_dir()
    return _Built(folder, cubin, None if cached else time.perf_counter() - begin)


def _options(point: Point) -> tuple[str, ...]:
    # nvcc runs in a folder of its own. Built-in kernels include nothing.
    folders = [str(folder.resolve()) for folder in point.spec.folders]
    own = str(Path(__file__).parents[1] / "kernels")
    include = (f"-I{folder}" for folder in folders if folder != own)
    # -lineinfo changes no instruction; it lets profilers and checkers name source lines.
    return ("-std=c++17", "-w", "-lineinfo", *include, *point.defines)


def _source(point: Point) -> str:
    """The user's text at its own lines. PyCUDA writes it in the locale's encoding: ASCII only.

    It also runs the preprocessor over a text with "#include" in it, each time it is loaded, for
    the key of its cache. The folder's key knows the headers, so a blank spares that.
    """
    source = _INCLUDE.sub(r"\1 include", point.spec.source)
    text = f'#line 1 "{point.spec.path.name}"\n{source}'
    return text.encode("ascii", "replace").decode()


def _symbol(cubin: bytes, point: Point) -> str:
    """The entry point's name in the compiled module, which C++ has mangled unless extern "C".

    A cubin is an ELF file with a section .text.<symbol> for each kernel.
    """
    entry = point.spec.entry
    symbols = [s.decode() for s in re.findall(rb"\.text\.([A-Za-z_][\w$]*)\0", cubin)]
    mangled = f"_Z{len(entry)}{entry}"
    for symbol in map(str, symbols):
        if symbol == entry or symbol.startswith(mangled):
            return symbol
    raise CompileError(
        f"{point.spec.path}: the compiled module has no kernel {entry} "
        f"(it has {', '.join(symbols) or 'none'}); name the kernel with entry in the header"
    )


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
        self.arch = _arch(handle.compute_capability())
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
        from pycuda.compiler import SourceModule

        source = _OWN_KERNELS.read_text()
        folder = _build(source, (), self.arch, self.nvcc).folder
        return SourceModule(
            source, self.nvcc.path, [], no_extern_c=True, arch=self.arch, cache_dir=str(folder)
        )

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
        from pycuda.compiler import SourceModule

        super().__init__(session)
        self.grid = launch.grid
        self.block = launch.block
        self.shared = launch.dynamic_shared_bytes
        drv = session.drv
        try:
            self.module = SourceModule(
                _source(point), session.nvcc.path, list(_options(point)), no_extern_c=True,
                arch=session.arch, cache_dir=program.path,
            )  # fmt: skip
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
