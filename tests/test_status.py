"""Progress and faults, read from memory laid out as the C runtime lays it out."""

from __future__ import annotations

import ctypes
import re
import signal
from pathlib import Path

import pytest

from mmbench import status as module
from mmbench.status import Status

C_TYPES: dict[str, type] = {"int64_t": ctypes.c_int64, "char": ctypes.c_char}


def crashed(number: int, **fields: object) -> Status:
    status = Status(fault_signal=number, **fields)
    status.fault_block.x, status.fault_block.y, status.fault_block.z = 1, 2, 3
    status.fault_thread.x, status.fault_thread.y, status.fault_thread.z = 4, 5, 6
    return status


def c_struct(name: str) -> list[tuple[str, str, int]]:
    """Type, name and length of each field of a struct in simt.h."""
    text = (Path(module.__file__).parent / "runners" / "simt" / "simt.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    match = re.search(rf"typedef struct \{{([^}}]*)\}} {name};", text)
    assert match is not None
    found = []
    for line in filter(None, map(str.strip, match[1].split(";"))):
        ctype, names = line.split(maxsplit=1)
        for field in names.split(","):
            field_name, _, length = field.strip().rstrip("]").partition("[")
            found.append((ctype, field_name, int(length or 1)))
    return found


def test_layout_is_that_of_the_c_runtime() -> None:
    fields = c_struct("simt_status")
    assert [name for _, name, _ in fields] == [name for name, _ in Status._fields_]
    offset = 0
    for ctype, name, length in fields:
        size = 12 if ctype == "simt_uint3" else length * ctypes.sizeof(C_TYPES[ctype])
        found = getattr(Status, name)
        assert (found.offset, found.size) == (offset, size), name
        offset += size
    assert ctypes.sizeof(Status) == offset


def test_index_is_that_of_the_c_runtime() -> None:
    index = Status().fault_block
    assert c_struct("simt_uint3") == [("unsigned", axis, 1) for axis in "xyz"]
    assert ctypes.sizeof(index) == 3 * ctypes.sizeof(ctypes.c_uint)


def test_two_views_share_the_memory() -> None:
    memory = bytearray(ctypes.sizeof(Status))
    writer, reader = Status.from_buffer(memory), Status.from_buffer(memory)
    writer.total_blocks, writer.next_block = 8, 2
    assert reader.progress() == 0.25


def test_no_launch_has_no_progress() -> None:
    assert Status().progress() is None


@pytest.mark.parametrize(
    ("next_block", "share"), [(0, 0.0), (1, 0.25), (4, 1.0), (5, 1.0), (2**40, 1.0)]
)
def test_progress_is_a_share(next_block: int, share: float) -> None:
    assert Status(next_block=next_block, total_blocks=4).progress() == share


def test_huge_grids() -> None:
    assert Status(next_block=2**61, total_blocks=2**62).progress() == 0.5


def test_no_fault() -> None:
    assert Status().fault() == ""
    assert Status(total_blocks=4, next_block=4, message=b"left over").fault() == ""


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (signal.SIGSEGV, f"illegal memory access (signal {int(signal.SIGSEGV)}, SIGSEGV) at "),
        (signal.SIGBUS, f"illegal memory access (signal {int(signal.SIGBUS)}, SIGBUS) at "),
        (signal.SIGFPE, "division of a whole number by zero at "),
        (signal.SIGILL, f"the kernel crashed (signal {int(signal.SIGILL)}, SIGILL) at "),
        (signal.SIGABRT, f"the kernel crashed (signal {int(signal.SIGABRT)}, SIGABRT) at "),
    ],
)
def test_fault_says_what_and_where(number: signal.Signals, text: str) -> None:
    assert crashed(number).fault() == text + "block (1, 2, 3)"
    known = crashed(number, thread_known=1)
    assert known.fault() == text + "block (1, 2, 3), thread (4, 5, 6)"


def test_stack_overflow_is_not_an_illegal_access() -> None:
    found = crashed(signal.SIGSEGV, stack_overflow=1, thread_known=1).fault()
    assert "more local memory" in found
    assert "illegal" not in found
    assert found.endswith("at block (1, 2, 3), thread (4, 5, 6)")


def test_assert_is_quoted() -> None:
    status = crashed(signal.SIGABRT, thread_known=1, message=b"mine.cu:7: x > 0")
    assert status.fault() == (
        "device-side assert in the kernel (mine.cu:7: x > 0) at block (1, 2, 3), thread (4, 5, 6)"
    )


def test_assert_text_may_fill_its_room_or_be_cut_inside_a_letter() -> None:
    assert "x" * 512 in crashed(signal.SIGABRT, message=b"x" * 512).fault()
    assert "(caf\N{REPLACEMENT CHARACTER})" in crashed(signal.SIGABRT, message=b"caf\xc3").fault()


def test_clear_forgets_all() -> None:
    status = crashed(signal.SIGSEGV, thread_known=1, message=b"text", total_blocks=4, next_block=2)
    status.clear()
    assert status.fault() == ""
    assert status.progress() is None
    assert bytes(status) == bytes(ctypes.sizeof(Status))
