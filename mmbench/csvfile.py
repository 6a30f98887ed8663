"""Rows to a CSV file, one row on the disk at a time, and back.

The bytes are the same under every locale: a point, a comma, full precision, "\\n". What is
unknown is an empty cell, never 0.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
import types
import typing
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from mmbench.errors import UsageError
from mmbench.results import COLUMNS, STATUSES, Row

_NAMES = [column.name for column in COLUMNS]


def _line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow("" if c is None else c for c in cells)
    return text.getvalue()


def header_line() -> str:
    """The first line of every file, with its line end."""
    return _line(_NAMES)


def row_line(row: Row) -> str:
    """A row as one line of CSV, with its line end."""
    return _line(getattr(row, name) for name in _NAMES)


class CsvWriter:
    """A file that is valid at any moment: each row is flushed and synced as it is written."""

    def __init__(self, path: Path, append: bool = False) -> None:
        """Open before anything is measured, so that an unwritable file costs no work.

        Rows that a file to be written anew holds are put into another, ``kept``.
        """
        self.path = path
        self.kept: Path | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            made = 0 if append else os.O_CREAT
            self._file = os.fdopen(os.open(path, os.O_RDWR | made, 0o666), "r+b")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        try:
            self._lock()
            if append:
                self._drop_torn_line()
            else:
                self._keep_rows()
                self._file.truncate(0)
                self._write(header_line())
        except OSError as error:
            self.__exit__()
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        except UsageError:
            self.__exit__()
            raise

    def _lock(self) -> None:
        """Keep other writers out until this one ends, where the file system can."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another mmbench is writing {self.path}; name another file with --out"
            ) from None
        except OSError:
            pass

    def _keep_rows(self) -> None:
        data = self._file.read()
        if data.count(b"\n") > 1:
            self.kept = earlier(self.path)
            self.kept.write_bytes(data)
        self._file.seek(0)

    def _drop_torn_line(self) -> None:
        """Cut what a machine that stopped while writing left of its last line."""
        data = self._file.read()
        if data.partition(b"\n")[0] + b"\n" != header_line().encode():
            raise UsageError(
                f"{self.path} has other columns, or in another order, than this mmbench writes; "
                "start a new file with --out"
            )
        self._file.truncate(data.rfind(b"\n") + 1)
        self._file.seek(0, os.SEEK_END)

    def write(self, row: Row) -> None:
        self._write(row_line(row))

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode(errors="surrogateescape"))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:  # a full disk, say
            raise UsageError(f"cannot write {self.path}: {error.strerror}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # of a disk that is full: a row that failed has been told
            self._file.close()


def earlier(path: Path) -> Path:
    """Where what a file has held goes when it is written anew."""
    return path.with_name(f"{path.stem}.old{path.suffix}")


def _converters() -> dict[str, type]:
    """Type of each cell, from the types of Row."""
    kinds = {}
    for name, hint in typing.get_type_hints(Row).items():
        options = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
        kinds[name] = next(option for option in options if option is not types.NoneType)
    return kinds


def read_rows(path: Path) -> list[Row]:
    """Read a file of results; where a point was measured again the last row counts."""
    try:
        data = path.read_bytes()
        # What lies behind the last line end is a line that was torn while it was written.
        text = data[: data.rfind(b"\n") + 1].decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a CSV of mmbench: it is no text") from None
    lines = csv.reader(io.StringIO(text, newline=""))
    names = next(lines, [])
    if "status" not in names or set(names) - set(_NAMES):
        raise UsageError(f"{path} is not a CSV of mmbench: its first line names other columns")
    kinds = _converters()
    rows: dict[tuple[object, ...], Row] = {}
    for number, cells in enumerate(lines, start=2):
        try:
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells instead of {len(names)}")
            values: dict[str, Any] = {
                name: kinds[name](cell) if cell != "" or _is_required_text(name) else None
                for name, cell in zip(names, cells, strict=True)
            }
            if values["status"] not in STATUSES:
                raise ValueError(f'unknown status "{values["status"]}"')
            row = Row(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}:{number}: not a row of mmbench ({error})") from None
        rows[row.key] = row
    return list(rows.values())


def _is_required_text(name: str) -> bool:
    return name == "params"  # a kernel without parameters has an empty text there
