"""What a library's symbols and DWARF say: the line of each address, and its shared arrays."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from mmbench.device import CUDA_LIMITS

_GUARDS = ("_ZGV", "__tls_guard")  # whether a thread-local has been constructed
_SHIM = Path(__file__).parents[1] / "runners" / "simt"


@dataclass(frozen=True)
class Site:
    """A place in a source file. Line 0 where it is unknown."""

    path: str = ""
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class SharedArray:
    """A shared array: its place in the thread-local segment, and its declared shape."""

    name: str
    offset: int
    bytes: int
    dynamic: bool
    shape: tuple[int, ...] = ()
    element_bytes: int = 4
    whole: bool = False  # whole numbers, not floating point

    def element(self, offset: int) -> str:
        """Name of the element at an offset in the segment: sA[1][3]."""
        index = (offset - self.offset) // self.element_bytes
        if not self.shape and not self.dynamic and index == 0:
            return self.name  # a single variable
        names = []
        for extent in reversed(self.shape[1:]):
            names.append(index % extent)
            index //= extent
        return self.name + "".join(f"[{i}]" for i in [index, *reversed(names)])


class DebugInfo:
    """One library, read as far as it is asked for."""

    def __init__(self, library: Path) -> None:
        with library.open("rb") as file:
            elf: Any = ELFFile(file)
            self._dwarf = elf.get_dwarf_info()
            self._rows = self._line_rows()
            self._addresses = [row[0] for row in self._rows]
            symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            self.has_small_accesses = any(
                re.fullmatch(r"__tsan_(unaligned_)?(read|write)[12]", symbol.name)
                for symbol in symbols
            )
            self.guards = [
                (symbol["st_value"], symbol["st_size"])
                for symbol in _thread_local(symbols)
                if symbol.name.startswith(_GUARDS)
            ]
            self.arrays = _with_shapes(_shared_symbols(symbols), self._array_types())
        del self._dwarf

    @property
    def static_shared_bytes(self) -> int:
        return sum(array.bytes for array in self.arrays if not array.dynamic)

    def site(self, address: int) -> Site:
        """The user's line at an address, or the last one before it."""
        i = bisect.bisect_right(self._addresses, address) - 1
        while i >= 0 and not self._rows[i][1].line:
            i -= 1
        return self._rows[i][1] if i >= 0 else Site()

    def _line_rows(self) -> list[tuple[int, Site]]:
        rows: list[tuple[int, Site]] = []
        for unit in self._dwarf.iter_CUs():
            program = self._dwarf.line_program_for_CU(unit)
            paths = _paths(program.header)
            for entry in program.get_entries():
                state = entry.state
                if state is None:
                    continue
                path = paths.get(state.file, "")
                site = Site(path, state.line, state.column) if path else Site()
                rows.append((state.address, Site() if state.end_sequence else site))
        rows.sort(key=lambda row: row[0])
        return rows

    def _array_types(self) -> dict[tuple[str, int], tuple[tuple[int, ...], int, bool]]:
        """Shape, element size and kind of the arrays, by name and size in bytes."""
        types = {}
        for unit in self._dwarf.iter_CUs():
            for die in unit.iter_DIEs():
                if die.tag != "DW_TAG_variable" or "DW_AT_type" not in die.attributes:
                    continue
                if "DW_AT_name" not in die.attributes:
                    continue
                array = _array_type(die.get_DIE_from_attribute("DW_AT_type"))
                name = die.attributes["DW_AT_name"].value.decode()
                if array is not None:
                    shape, element_bytes, _ = array
                    size = element_bytes
                    for extent in shape:
                        size *= extent
                    types[name, size] = array
        return types


@lru_cache(maxsize=16)
def read_debug_info(library: Path) -> DebugInfo:
    return DebugInfo(library)


def _paths(header: Any) -> dict[int, str]:
    """Full names of the user's files by their number; ours and the system's are left out."""
    first = 0 if header["version"] >= 5 else 1  # DWARF 5 counts from 0; clang's assembler writes it
    folders = [""] * first + [folder.decode() for folder in header["include_directory"]]
    paths = {}
    for number, entry in enumerate(header["file_entry"], first):
        path = str(Path(folders[entry.dir_index]) / entry.name.decode())
        if path.startswith("/usr/") or path.startswith(f"{_SHIM}/") or path.endswith("mmbench"):
            continue
        paths[number] = path
    return paths


def _thread_local(symbols: list[Any]) -> list[Any]:
    return [
        symbol
        for symbol in symbols
        if symbol["st_info"]["type"] == "STT_TLS"
        and symbol["st_shndx"] != "SHN_UNDEF"
        and symbol["st_size"]
    ]


def _shared_symbols(symbols: list[Any]) -> list[SharedArray]:
    """The thread-local variables, in order of their place."""
    found = [
        SharedArray(
            _plain_name(symbol.name), symbol["st_value"], symbol["st_size"],
            symbol["st_size"] == CUDA_LIMITS.dynamic_shared_bytes
            and symbol["st_info"]["bind"] == "STB_GLOBAL",
        )
        for symbol in _thread_local(symbols)
        if not symbol.name.startswith(_GUARDS)
    ]  # fmt: skip
    return sorted(found, key=lambda array: (array.offset, array.name))


def _plain_name(symbol: str) -> str:
    """The variable's name as written: _ZZ5tiledPKfE2sA_0 is sA."""
    for match in re.finditer(r"(?=(?<!\d)(\d+)([A-Za-z_]\w*)$)", symbol):
        length, rest = int(match.group(1)), match.group(2)
        if re.fullmatch(r"(_\d*_?|E)?", rest[length:]) and len(rest) >= length:
            return rest[:length]
    return symbol


def _array_type(die: Any) -> tuple[tuple[int, ...], int, bool] | None:
    if die.tag != "DW_TAG_array_type":
        return None
    shape = []
    for child in die.iter_children():
        if child.tag != "DW_TAG_subrange_type":
            continue
        if "DW_AT_count" in child.attributes:
            extent = child.attributes["DW_AT_count"].value
        elif "DW_AT_upper_bound" in child.attributes:
            extent = child.attributes["DW_AT_upper_bound"].value + 1
        else:
            extent = 1  # extern __shared__ T name[]: as long as the launch makes it
        shape.append(extent if isinstance(extent, int) else 1)
    element = die.get_DIE_from_attribute("DW_AT_type")
    while element.tag in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
        element = element.get_DIE_from_attribute("DW_AT_type")
    size = element.attributes["DW_AT_byte_size"].value
    if element.tag != "DW_TAG_base_type":
        part = _first_number(element)
        return (*shape, size // part), part, False
    return tuple(shape), size, element.attributes["DW_AT_encoding"].value != 4


def _first_number(die: Any) -> int:
    """Bytes of the first member of a struct such as float4, which all others are taken to have."""
    for child in die.iter_children():
        if child.tag == "DW_TAG_member":
            member = child.get_DIE_from_attribute("DW_AT_type")
            if member.tag == "DW_TAG_base_type":
                return int(member.attributes["DW_AT_byte_size"].value)
    return 4


def _with_shapes(
    arrays: list[SharedArray], types: dict[tuple[str, int], tuple[tuple[int, ...], int, bool]]
) -> tuple[SharedArray, ...]:
    shaped = []
    for array in arrays:
        found = types.get((array.name, array.bytes))
        if array.dynamic:
            found = next((t for (name, _), t in types.items() if name == array.name), None)
        if found is None:
            shaped.append(array)
            continue
        shape, size, whole = found
        shape = () if array.dynamic else shape
        shaped.append(
            SharedArray(array.name, array.offset, array.bytes, array.dynamic, shape, size, whole)
        )
    return tuple(shaped)
