"""The cpu runner: the same .cu, compiled by the host's C++ compiler, run on the host's cores.

Each CUDA thread is a fiber, or, where ``regions`` can prove how, a lane of a vectorised loop
over the threads of a block. Its times are host times; what it applies of a GPU are the limits
on a launch, so that a kernel which passes here can launch there.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mmbench import cache
from mmbench.device import CUDA_LIMITS, Device
from mmbench.errors import CompileError, LaunchError, UnfitError, WrongRunnerError
from mmbench.runners import (
    Array,
    Kernel,
    Program,
    Resources,
    as_bytes,
    blas,
    host_compiler,
    shared_arrays,
)
from mmbench.runners.host_messages import in_users_words, missing_definition
from mmbench.runners.regions import to_block_form
from mmbench.spec import Dim3, Launch, Point
from mmbench.status import Status

_CTYPES: dict[str, type[Any]] = {
    "int": ctypes.c_int32, "unsigned": ctypes.c_uint32, "unsigned int": ctypes.c_uint32,
    "size_t": ctypes.c_uint64, "long long": ctypes.c_int64,
    "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool,
}  # fmt: skip


def worker_count() -> int:
    """OS threads that run blocks: the cores this process may use."""
    return len(os.sched_getaffinity(0))


class CpuRunner:
    """Compiles for the host and describes it."""

    times = "host"
    modes: tuple[str, ...] = ("hot",)
    compiles_while_measuring = False

    def __init__(self) -> None:
        compiler = host_compiler.find()
        memory = _available_memory()
        name = host_compiler.processor().partition(" [")[0]
        self.device = Device(
            runner="cpu",
            index=0,
            name=f"{name} ({worker_count()} cores)",
            uuid=cache.key(host_compiler.processor(), str(worker_count())),
            limits=CUDA_LIMITS,
            memory_bytes=memory,
            host_memory_bytes=memory,
            compiler=compiler.version,
        )

    def baseline(self) -> str:
        return "blas"

    def prepare(self) -> None:
        host_compiler.runtime_library()

    def flags(self, point: Point) -> str:
        if point.spec.library:
            return blas.describe()
        return " ".join(("-O3", "-march=native", *point.defines))

    def compile(self, point: Point) -> Program:
        """Build the block form where the kernel allows it, else the thread form."""
        spec = point.spec
        if spec.library:
            return Program(path="", symbol=spec.library, compile_seconds=None)
        source, block_form = host_compiler.host_source(spec), None
        if not _is_disabled("MMBENCH_NO_BLOCK_FORM"):
            block_form = to_block_form(source, spec.entry)
        if block_form is not None:
            try:
                return self._build(point, block_form, True)
            except (CompileError, WrongRunnerError):
                pass  # the thread form is compiled as written: its messages are the user's
        return self._build(point, source, False)

    def _build(self, point: Point, source: str, block_form: bool) -> Program:
        spec = point.spec
        form = ("-DSIMT_BLOCK_FORM",) if block_form else ()
        flags = (*host_compiler.kernel_flags(), *form, *host_compiler.include_flags(spec))
        identity = cache.with_headers(source, spec.folders) + host_compiler.shim_identity()
        try:
            path, seconds = host_compiler.build(_unit(point, source), flags, identity, ".cpp")
        except CompileError as error:
            raise in_users_words(error, spec.path) from None
        if spec.static_shared is not None:
            shared = spec.static_shared.value(point.names)
        else:
            shared = _static_shared_bytes(path, source)
        if reason := self.device.limits.static_shared_reason(shared):
            raise UnfitError(reason)
        return Program(
            path=str(path),
            symbol="simt_entry",
            compile_seconds=seconds,
            static_shared_bytes=shared,
            block_form=block_form,
        )


def _is_disabled(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")


def _unit(point: Point, source: str) -> str:
    """The translation unit: the user's text at its own line numbers, then how to call it."""
    spec = point.spec
    return (
        f'{host_compiler.define_lines(point.defines)}#line 1 "{spec.path}"\n{source}\n'
        f'#line 1 "mmbench"\n{shared_arrays.definitions(source)}'
        f'extern "C" void simt_entry(void **simt_arguments) '
        f"{{ simt_call(&{spec.entry}, simt_arguments); }}\n"
    )


def _static_shared_bytes(library: Path, source: str) -> int:
    """Bytes of a kernel's shared arrays, without those that stand in for dynamic ones."""
    return _thread_local_bytes(library) - shared_arrays.dynamic_bytes(source)


def _thread_local_bytes(library: Path) -> int:
    """Size of a library's thread-local segment, which holds its shared arrays (ELF, PT_TLS)."""
    from elftools.elf.elffile import ELFFile

    with library.open("rb") as file:
        return sum(int(part["p_memsz"]) for part in ELFFile(file).iter_segments("PT_TLS"))


def _available_memory() -> int:
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        text = ""
    if match := re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE):
        return int(match.group(1)) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class _Uint3(ctypes.Structure):
    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class _Launch(ctypes.Structure):
    """``simt_launch`` of simt/simt.h."""

    _fields_ = (
        ("grid", _Uint3),
        ("block", _Uint3),
        ("entry", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("block_form", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("status", ctypes.c_void_p),
    )


class HostBuffer:
    """Host memory on huge pages, as far as the system grants them."""

    def __init__(self, size: int) -> None:
        self.bytes = size
        self.data = np.empty(size + 64, np.uint8)
        self.address = -(-self.data.ctypes.data // 64) * 64
        start = self.address - self.data.ctypes.data
        self.view = self.data[start : start + size]


class CpuSession:
    """Runs compiled kernels in this process."""

    own_memory = False

    def __init__(self, status: Any) -> None:
        self.status = Status.from_buffer(status)
        self.runtime = ctypes.CDLL(str(host_compiler.runtime_library()), mode=ctypes.RTLD_GLOBAL)
        self.runtime.simt_run.restype = ctypes.c_int64

    def free_bytes(self) -> int:
        return _available_memory()

    def allocate(self, size: int) -> HostBuffer:
        return HostBuffer(size)

    def write(self, buffer: HostBuffer, data: Array) -> None:
        buffer.view[: data.nbytes] = as_bytes(data)

    def read(self, buffer: HostBuffer, data: Array) -> None:
        as_bytes(data)[:] = buffer.view[: data.nbytes]

    def copy(self, target: HostBuffer, source: HostBuffer) -> None:
        target.view[:] = source.view

    def same(self, pairs: Sequence[tuple[HostBuffer, HostBuffer]]) -> bool:
        return all(np.array_equal(one.view, other.view) for one, other in pairs)

    def load(self, program: Program, point: Point, launch: Launch) -> Kernel:
        if point.spec.library:
            return blas.BlasKernel(point.problem, point.spec.product)
        return CpuKernel(self, program, point, launch)

    def telemetry(self) -> None:
        return None

    def timer_floor(self, cold: bool) -> None:
        return None


class CpuKernel:
    """A kernel's library, its launch shape and the types of its arguments."""

    def __init__(self, session: CpuSession, program: Program, point: Point, launch: Launch) -> None:
        self.session = session
        self.library = _loaded(program.path, point.spec.path)
        self.resources = Resources(static_shared_bytes=program.static_shared_bytes or 0)
        self.types = [
            ctypes.c_void_p if argument.is_pointer else _CTYPES[argument.ctype]
            for argument in point.spec.arguments
        ]
        self.c_launch = _Launch(
            grid=_uint3(launch.grid),
            block=_uint3(launch.block),
            entry=ctypes.cast(getattr(self.library, program.symbol), ctypes.c_void_p),
            block_form=program.block_form,
            workers=min(worker_count(), launch.blocks),
            status=ctypes.addressof(session.status),
        )

    def launch(self, arguments: Sequence[Any]) -> float:
        values = [ctype(value) for ctype, value in zip(self.types, arguments, strict=True)]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.c_launch.arguments = ctypes.addressof(pointers)
        nanoseconds = self.session.runtime.simt_run(ctypes.byref(self.c_launch))
        if nanoseconds < 0:
            raise LaunchError("the host has no memory left for the threads' stacks")
        return float(nanoseconds) / 1e9

    def sample(self, arguments: Sequence[Any], launches: int, cold: bool) -> float:
        return sum(self.launch(arguments) for _ in range(launches)) / launches


def _loaded(library: str, source: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(library)
    except OSError as error:
        if (missing := missing_definition(str(error), source)) is not None:
            raise missing from None
        raise


def _uint3(dims: Dim3) -> _Uint3:
    return _Uint3(*dims)
