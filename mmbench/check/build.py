"""Builds of the checked kind: the kernel, and the runtime that its callbacks call.

``-fsanitize=thread`` makes the compiler report every access by a call. They are linked
without libtsan, so that the calls reach our runtime. -O0, since the counts are those of the
source: at -O1 compilers already hoist and merge loads.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from pathlib import Path

from mmbench import cache
from mmbench.check.unsupported import cannot_be_checked
from mmbench.device import CUDA_LIMITS
from mmbench.errors import CompileError
from mmbench.runners import host_compiler
from mmbench.runners.host_compiler import HostCompiler
from mmbench.runners.host_messages import cuda_name_missing, in_users_words
from mmbench.spec import KernelSpec, Point

_SIMT = Path(host_compiler.__file__).parent / "simt"
_COMPILE_SECONDS = 300.0
_DEBUG = ("-O0", "-g", "-gdwarf-4", "-fPIC", "-w", "-ffp-contract=off", "-fno-strict-aliasing",
          "-fstack-clash-protection")  # fmt: skip
_REDZONE_BYTES = 256  # between shared arrays; a multiple of all banks' width, so banks stay


def build_kernel(point: Point, compiler: HostCompiler) -> tuple[Path, float]:
    """Build a point's kernel as a library; return it and the seconds it took, 0 if it was there.

    Raise CompileError with the user's own file and line, UnsupportedError where the shim lacks a
    device function.
    """
    spec = point.spec
    options = _kernel_options(compiler, spec)
    source = host_compiler.host_source(spec)
    text = cache.with_headers(source, spec.folders) + _runtime_text()
    library = _place("kernel", compiler, text, str(spec.path.resolve()), *options, *point.defines)
    if library.exists():
        return library, 0.0
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=cache.folder()) as scratch:
        unit, listing = Path(scratch, "unit.cpp"), Path(scratch, "unit.s")
        unit.write_text(_unit(point, source), encoding="utf-8", errors="surrogateescape")
        try:
            _run([*compiler.command, *options, "-S", str(unit), "-o", str(listing)])
        except CompileError as error:
            if (missing := cuda_name_missing(error, spec.path)) is not None:
                raise cannot_be_checked(spec.path, missing[1], missing[0]) from None
            raise in_users_words(error, spec.path) from None
        assembly = listing.read_text(encoding="utf-8", errors="surrogateescape")
        finished = with_dynamic_arrays(with_redzones(assembly))
        listing.write_text(finished, encoding="utf-8", errors="surrogateescape")
        _link(compiler, [listing], library)
    return library, time.perf_counter() - begin


def build_runtime(compiler: HostCompiler) -> Path:
    """Build the runtime, once for each compiler and processor."""
    options = (
        "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-strict-aliasing", "-w",
        *compiler.machine_flags,
    )  # fmt: skip
    library = _place("runtime", compiler, _runtime_text(), host_compiler.processor(), *options)
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(dir=cache.folder()) as scratch:
        parts = []
        for source in sorted(_SIMT.glob("checked_*.c")):
            part = Path(scratch, f"{source.stem}.o")
            _run([*compiler.command, "-x", "c", *options, "-c", str(source), "-o", str(part)])
            parts.append(part)
        _link(compiler, parts, library)
    return library


def _place(what: str, compiler: HostCompiler, *identity: str) -> Path:
    name = cache.key(*compiler.command, compiler.version, *identity)
    return cache.folder() / f"check-{what}-{name}.so"


def _runtime_text() -> str:
    paths = [*sorted(_SIMT.rglob("*.h")), *sorted(_SIMT.glob("checked_*.c"))]
    return "\0".join(path.read_text(encoding="utf-8") for path in paths)


def _kernel_options(compiler: HostCompiler, spec: KernelSpec) -> tuple[str, ...]:
    checks: tuple[str, ...]
    if compiler.is_gcc:
        checks = (
            "-fsanitize=thread,bounds", "--param", "tsan-instrument-func-entry-exit=0",
        )  # fmt: skip
    else:
        # Unless told otherwise clang leaves out the load of x += y, and traps at bad indices.
        checks = (
            "-fsanitize=thread", "-fno-sanitize=undefined", "-fsanitize=array-bounds",
            "-fno-sanitize-trap=all", "-mllvm", "-tsan-instrument-read-before-write=1",
            "-mllvm", "-tsan-instrument-func-entry-exit=0",
        )  # fmt: skip
    shim = ("-include", str(_SIMT / "cuda_shim.h"), "-I", str(_SIMT), "-I", str(_SIMT / "include"))
    beside = host_compiler.include_flags(spec)
    return ("-x", "c++", "-std=c++17", *_DEBUG, *checks, "-DSIMT_CHECKED", *shim, *beside)


def _unit(point: Point, source: str) -> str:
    """The translation unit: the user's text at its own line numbers, then how to call it."""
    spec = point.spec
    return (
        f"{host_compiler.define_lines(point.defines)}"
        f'#line 1 "{spec.path.resolve()}"\n{source}\n#line 1 "mmbench"\n'
        f'extern "C" __attribute__((no_sanitize("thread"))) void simt_entry(void **simt_arguments) '
        f"{{ simt_call(&{spec.entry}, simt_arguments); }}\n"
    )


def with_redzones(assembly: str) -> str:
    """Keep the shared arrays (thread-local variables) apart, so that one does not run into the
    next unseen.
    """
    lines = []
    in_shared = False
    for line in assembly.split("\n"):
        lines.append(line)
        if re.match(r"\s*\.(section|text|data|bss)\b", line):
            in_shared = bool(re.match(r"\s*\.section\s+\.t(bss|data)\b", line))
        elif in_shared and re.match(r"\s*\.zero\s+\d+", line):
            lines.append(f"\t.zero\t{_REDZONE_BYTES}")
    return "\n".join(lines)


_TLS_USE = re.compile(
    r"([\w$.]+)@(?:tlsgd|tlsld|gottpoff|tpoff|dtpoff|tlsdesc|tlscall)\b"
    r"|:(?:tlsdesc|gottprel|tprel|dtprel)\w*:([\w$.]+)",
    re.IGNORECASE,
)


def with_dynamic_arrays(assembly: str) -> str:
    """Define what ``extern __shared__`` only declares: all of it at one place, as on a GPU."""
    used = {name or other for name, other in _TLS_USE.findall(assembly)}
    declared = {name for name in used if not re.search(rf"^{re.escape(name)}:", assembly, re.M)}
    if not declared:
        return assembly
    size = CUDA_LIMITS.dynamic_shared_bytes
    names = sorted(declared)
    return "\n".join([
        assembly,
        '\t.section\t.tbss,"awT",%nobits',
        *(f"\t.globl\t{name}\n\t.type\t{name}, %object\n\t.size\t{name}, {size}" for name in names),
        "\t.balign\t256",
        *(f"{name}:" for name in names),
        f"\t.zero\t{size + _REDZONE_BYTES}",
        "",
    ])  # fmt: skip


def _link(compiler: HostCompiler, parts: list[Path], library: Path) -> None:
    made = parts[0].with_suffix(".so")
    # zig would build a whole libc++ first; the libraries of this process serve as well.
    bare = ("-nostdlib",) if compiler.is_zig else ()
    _run([*compiler.command, "-shared", *bare, *map(str, parts), "-o", str(made)])
    made.replace(library)


def _run(command: list[str]) -> None:
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        timeout=_COMPILE_SECONDS,
    )  # fmt: skip
    if result.returncode != 0:
        raise CompileError("the host compiler refused it", result.stdout + result.stderr)
