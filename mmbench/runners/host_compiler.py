"""The host's C++ compiler: find it, and build shared libraries with it into the cache."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache as memoize
from pathlib import Path

from mmbench import cache
from mmbench.errors import CompileError, RunnerUnavailableError
from mmbench.gpu_only import for_host
from mmbench.runners import find_tool
from mmbench.runners.shared_arrays import sized_as_static
from mmbench.spec import KernelSpec

_SIMT = Path(__file__).parent / "simt"
_COMMON = (
    "-fPIC", "-shared", "-w", "-fno-strict-aliasing", "-ffp-contract=fast",
    "-fstack-clash-protection",  # a large frame must hit a fiber's guard page, not jump over it
)  # fmt: skip
_NO_COMPILER = (
    "no C++ compiler found (looked for $CXX, c++, g++, clang++ and the ziglang package); "
    'install one from your system ("apt install g++", "dnf install gcc-c++") '
    'or with pip: pip install "mmbench[cpu]"'
)


@dataclass(frozen=True)
class HostCompiler:
    """A command that compiles C++ and C, and what it says of itself."""

    command: tuple[str, ...]
    version: str

    @property
    def is_zig(self) -> bool:
        return "ziglang" in self.command

    @property
    def is_gcc(self) -> bool:
        return not self.is_zig and "clang" not in self.version.lower()

    @property
    def machine_flags(self) -> tuple[str, ...]:
        """Options that depend on the compiler and the processor."""
        flags = ["-march=native"]
        if os.uname().machine == "x86_64":
            flags.append("-mno-red-zone")  # the fiber switch pushes below the stack pointer
            if self.is_gcc:
                flags.append("-mtls-dialect=gnu2")  # a cheaper call for each thread_local
        if self.is_zig:
            flags.append("-fno-sanitize=undefined")
        return tuple(flags)


@memoize
def find() -> HostCompiler:
    """The compiler to use; raise RunnerUnavailableError where there is none."""
    chosen = os.environ.get("CXX")
    if chosen:
        return _ask(tuple(shlex.split(chosen)), "$CXX")
    for name in ("c++", "g++", "clang++"):
        if path := find_tool(name):
            return _ask((path,), name)
    if importlib.util.find_spec("ziglang"):
        return _ask((sys.executable, "-m", "ziglang", "c++"), "ziglang")
    raise RunnerUnavailableError(_NO_COMPILER)


def _ask(command: tuple[str, ...], called: str) -> HostCompiler:
    try:
        answer = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise RunnerUnavailableError(
            f"the C++ compiler {called} ({shlex.join(command)}) does not run: {error}"
        ) from None
    lines = answer.stdout.strip().splitlines()
    return HostCompiler(command, lines[0] if lines else called)


@memoize
def processor() -> str:
    """Name of the processor, part of each key: -march=native code is for one kind of it."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.*)$", text, re.MULTILINE)
    name = model.group(1).strip() if model else os.uname().machine
    return f"{name} [{cache.key(flags.group(1)) if flags else ''}]"


@memoize
def runtime_library() -> Path:
    """Build (once for each compiler and processor) the library that runs grids."""
    source = (_SIMT / "simt.c").read_text()
    header = (_SIMT / "simt.h").read_text()
    flags = ("-x", "c", "-std=gnu11", "-O2", "-pthread", "-I", str(_SIMT))
    path, _ = build(source, flags, identity=header, suffix=".c")
    return path


def kernel_flags() -> tuple[str, ...]:
    """Options for a kernel's translation unit, its own -D options aside."""
    return (
        "-x", "c++", "-std=c++17", "-O3", "-fopenmp-simd", "-fno-math-errno",
        "-include", str(_SIMT / "cuda_shim.h"), "-I", str(_SIMT), "-I", str(_SIMT / "include"),
    )  # fmt: skip


def define_lines(options: Sequence[str]) -> str:
    """A kernel's -D options as text: placed behind the shim, no name of theirs reaches into it."""
    pairs = (option.removeprefix("-D").partition("=") for option in options)
    return '#line 1 "mmbench"\n' + "".join(f"#define {name} {text}\n" for name, _, text in pairs)


def include_flags(spec: KernelSpec) -> tuple[str, ...]:
    """Where a kernel's own headers are looked for."""
    beside, *further = (str(folder) for folder in spec.folders)
    return ("-iquote", beside, *(flag for folder in further for flag in ("-I", folder)))


def host_source(spec: KernelSpec) -> str:
    """A kernel's text for the host: without the toolkit's headers, which the host has not.

    An ``extern __shared__`` array with a size is a plain one, as nvcc takes it.
    """

    def is_local(include: str) -> bool:
        folders = spec.folders if include.startswith('"') else spec.folders[1:]
        return any((folder / include[1:-1]).is_file() for folder in folders)

    return sized_as_static(for_host(spec.source, is_local))


@memoize
def shim_identity() -> str:
    """The shim's text: a change of it must not find kernels built with the old one."""
    return "\0".join(path.read_text() for path in sorted(_SIMT.rglob("*.h")))


def build(
    source: str, flags: tuple[str, ...], identity: str, suffix: str
) -> tuple[Path, float | None]:
    """Compile a source to a shared library in the cache; return it and the seconds it took.

    The seconds are None where the cache had it. ``identity`` is text that the result depends
    on besides source, flags and compiler. Raise CompileError with the compiler's own text.
    """
    compiler = find()
    options = (*_COMMON, *compiler.machine_flags, *flags)
    name = cache.key(source, identity, *compiler.command, compiler.version, processor(), *options)
    library = cache.folder() / f"cpu-{name}.so"
    if library.exists():
        return library, None
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=cache.folder()) as scratch:
        unit = Path(scratch) / f"unit{suffix}"
        unit.write_text(source, encoding="utf-8", errors="surrogateescape")
        made = Path(scratch) / "unit.so"
        for command in _commands(compiler, options, unit, made):
            result = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False
            )
            if result.returncode != 0:
                raise CompileError("the host compiler refused it", result.stdout + result.stderr)
        if not made.exists():
            raise CompileError(f"the host compiler ({compiler.version}) wrote no library")
        made.replace(library)
    return library, time.perf_counter() - begin


def _commands(
    compiler: HostCompiler, options: tuple[str, ...], unit: Path, made: Path
) -> list[list[str]]:
    """The commands that make a library of one source file."""
    if not compiler.is_zig:
        return [[*compiler.command, *options, str(unit), "-o", str(made)]]
    # Linked in one go, zig builds its own libc++ first: two minutes, for nothing. A kernel
    # takes of it what stands in headers.
    part = unit.with_suffix(".o")
    return [
        [*compiler.command, *options, "-c", str(unit), "-o", str(part)],
        [*compiler.command, "-shared", "-nostdlib", str(part), "-o", str(made)],
    ]
