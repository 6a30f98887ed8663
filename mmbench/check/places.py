"""Turns the numbers of the runtime into the names of the source: lines, threads, elements."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mmbench.check.debuginfo import DebugInfo, SharedArray, Site
from mmbench.check.launch import buffer_names
from mmbench.check.report import Space, unflatten
from mmbench.gpu_only import without_comments
from mmbench.spec import Dim3, Launch, Point

SHARED_BUFFER = 16  # as in simt/checked_state.h: matrices have lower numbers


@dataclass(frozen=True)
class Places:
    """The names of one run of one point."""

    point: Point
    launch: Launch
    info: DebugInfo

    def site(self, address: int) -> Site:
        """The user's line; the kernel's file is called what the user called it."""
        site = self.info.site(address)
        if site.path == str(self.point.spec.path.resolve()):
            return Site(str(self.point.spec.path), site.line, site.column)
        return site

    def entry(self) -> Site:
        """Where the kernel begins, for what has no line of its own."""
        spec = self.point.spec
        text = without_comments(spec.source)
        found = re.search(rf"\b{re.escape(spec.entry)}\s*\(", text)
        start = found.start() if found else 0
        line_start = text.rfind("\n", 0, start) + 1
        return Site(str(spec.path), text.count("\n", 0, start) + 1, start - line_start + 1)

    def thread(self, number: int) -> Dim3:
        return unflatten(number, self.launch.block)

    def block(self, number: int) -> Dim3:
        return unflatten(number, self.launch.grid)

    def array(self, buffer: int) -> SharedArray:
        return self.info.arrays[buffer - SHARED_BUFFER]

    def space(self, buffer: int) -> Space:
        return "shared" if buffer >= SHARED_BUFFER else "global"

    def name(self, buffer: int) -> str:
        if buffer < 0:
            return ""
        if buffer >= SHARED_BUFFER:
            return self.array(buffer).name
        return buffer_names(self.point)[buffer]

    def element(self, buffer: int, offset: int) -> str:
        """Name of the element at an offset: ``C[70]`` or ``sA[1][3]``."""
        if buffer < 0:
            return ""
        if buffer >= SHARED_BUFFER:
            return self.array(buffer).element(offset)
        return f"{self.name(buffer)}[{offset // self._element_bytes(buffer)}]"

    def _element_bytes(self, buffer: int) -> int:
        return self.point.spec.product.bytes_of(self.name(buffer))

    def shape(self, name: str) -> tuple[int, int]:
        return self.point.problem.shape(name)

    def row_and_column(self, buffer: int, offset: int) -> str:
        """Where an element of a matrix lies, in words, or "" outside it."""
        if not 0 <= buffer < SHARED_BUFFER:
            return ""
        name = self.name(buffer)
        rows, columns = self.shape(name)
        index = offset // self._element_bytes(buffer)
        if name in self.point.spec.product.column_major:
            column, row = divmod(index, rows)
            inside = 0 <= column < columns
            return f" (row {row}, column {column})" if inside else ""
        row, column = divmod(index, columns)
        return f" (row {row}, column {column})" if 0 <= row < rows else ""

    def beyond(self, buffer: int, offset: int) -> str:
        """By how much an element lies outside its matrix, in words."""
        if not 0 <= buffer < SHARED_BUFFER:
            return ""
        name = self.name(buffer)
        rows, columns = self.shape(name)
        index = offset // self._element_bytes(buffer)
        if index < 0:
            return f"{-index} {_elements(-index)} before the beginning of {name}"
        past = index - rows * columns + 1
        return (
            f"{past} {_elements(past)} past the end of {name}, "
            f"which has {rows} x {columns} = {rows * columns}"
        )

    def source_line(self, site: Site) -> str:
        if not site.line:
            return ""
        own = site.path == str(self.point.spec.path)
        lines = _lines_of(self.point.spec.source) if own else _read_lines(site.path)
        return lines[site.line - 1].strip() if site.line <= len(lines) else ""

    def indexed_name(self, site: Site) -> str:
        """The array that is indexed at a site: g++ points at the closing bracket of the index,
        clang at the array's name.
        """
        own = site.path == str(self.point.spec.path)
        lines = _lines_of(self.point.spec.source) if own else _read_lines(site.path)
        line = lines[site.line - 1] if 0 < site.line <= len(lines) else ""
        return _array_at(line, max(site.column - 1, 0))


def _elements(count: int) -> str:
    return "element" if count == 1 else "elements"


@lru_cache(maxsize=32)
def _lines_of(source: str) -> list[str]:
    return source.split("\n")


@lru_cache(maxsize=32)
def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return []


def _array_at(line: str, column: int) -> str:
    """Name of the array whose index stands at a column: at its name, or at a bracket behind it."""
    if named := re.match(r"([A-Za-z_]\w*)\s*\[", line[column:]):
        return named.group(1)
    depth = 0
    for i in range(min(column, len(line) - 1), -1, -1):
        if line[i] == "]":
            depth += 1
        elif line[i] == "[":
            depth -= 1
            name = re.search(r"([A-Za-z_]\w*)\s*$", line[:i])
            if depth <= 0 and name:
                return name.group(1)
    return ""
