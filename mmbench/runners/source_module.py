"""PyCUDA's SourceModule: compiled in one process, loaded in another from PyCUDA's own cache."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmbench import cache
from mmbench.errors import CompileError
from mmbench.runners import Program, nvcc
from mmbench.spec import Point

_OWN_KERNELS = Path(__file__).with_name("cuda_session.cu")
_INCLUDE = re.compile(r"^([ \t]*#)include\b", re.MULTILINE)


@dataclass(frozen=True)
class _Built:
    """A module in PyCUDA's cache, and the seconds that took; None where it was there."""

    folder: Path
    cubin: bytes
    seconds: float | None


class SourceModules:
    """Compiles and loads for one architecture, such as ``sm_90``."""

    def __init__(self, compiler: nvcc.Nvcc, arch: str) -> None:
        import pycuda.compiler

        self.compiler = compiler
        self.arch = arch
        # It remembers the answer; else all compiles that begin at the same time would ask.
        pycuda.compiler.get_nvcc_version(compiler.path)

    def compile(self, point: Point) -> Program:
        """Callable from several threads; raise CompileError at the user's line."""
        import pycuda.driver

        identity = cache.with_headers(point.spec.source, point.spec.folders)
        try:
            built = self._build(source(point), options(point), identity)
        except pycuda.driver.CompileError as error:
            log = _as_text(error.stdout) + _as_text(error.stderr)
            raise nvcc.in_users_words(log, point.spec.path) from None
        return Program(
            path=str(built.folder),
            symbol=_symbol(built.cubin, point),
            compile_seconds=built.seconds,
        )

    def load(self, point: Point, program: Program) -> Any:
        """Load what was compiled into the present context."""
        return self._module(source(point), options(point), program.path)

    def compile_own(self) -> Path:
        """Compile the kernels that a session itself launches; return their folder."""
        return self._build(_OWN_KERNELS.read_text(), ()).folder

    def load_own(self) -> Any:
        return self._module(_OWN_KERNELS.read_text(), (), str(self.compile_own()))

    def _build(self, text: str, flags: Sequence[str], identity: str = "") -> _Built:
        """Compile into a folder that no two sources share.

        PyCUDA keys its cache on the text alone; the folder is keyed on the headers, the
        ``identity``, as well.
        """
        import pycuda.compiler

        name = cache.key(text, identity, *flags, self.arch, self.compiler.version)
        folder = cache.folder() / f"cuda-{name}"
        begin = time.perf_counter()
        cached = folder.is_dir()
        with tempfile.TemporaryDirectory(dir=cache.folder()) as scratch:
            made = Path(scratch) / "new"
            made.mkdir()
            cubin = pycuda.compiler.compile(
                text, self.compiler.path, list(flags), no_extern_c=True, arch=self.arch,
                cache_dir=str(folder if cached else made),
            )  # fmt: skip
            if not cached:
                try:
                    made.rename(folder)
                except OSError:  # another mmbench was faster
                    assert folder.is_dir()
        return _Built(folder, cubin, None if cached else time.perf_counter() - begin)

    def _module(self, text: str, flags: Sequence[str], folder: str) -> Any:
        from pycuda.compiler import SourceModule

        return SourceModule(
            text, self.compiler.path, list(flags), no_extern_c=True, arch=self.arch,
            cache_dir=folder,
        )  # fmt: skip


def options(point: Point) -> tuple[str, ...]:
    # nvcc runs in a folder of its own. Built-in kernels include nothing.
    folders = [str(folder.resolve()) for folder in point.spec.folders]
    own = str(Path(__file__).parents[1] / "kernels")
    include = (f"-I{folder}" for folder in folders if folder != own)
    # -lineinfo changes no instruction; it lets profilers and checkers name source lines.
    return ("-std=c++17", "-w", "-lineinfo", *include, *point.defines)


def source(point: Point) -> str:
    """The user's text at its own lines. PyCUDA writes it in the locale's encoding: ASCII only.

    It also runs the preprocessor over a text with "#include" in it, each time it is loaded, for
    the key of its cache. The folder's key knows the headers, so a blank spares that.
    """
    spaced = _INCLUDE.sub(r"\1 include", point.spec.source)
    text = f'#line 1 "{point.spec.path.name}"\n{spaced}'
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


def _as_text(said: str | bytes | None) -> str:
    """What nvcc said: PyCUDA gives text, or bytes where it was preprocessing."""
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""
