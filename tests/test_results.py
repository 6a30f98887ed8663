"""Rows among themselves: the order in which they are shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mmbench.results import Row, in_order


def make_row(kernel: str, n: int, tile: int) -> Row:
    cells: dict[str, Any] = {
        "timestamp": "", "mmbench_version": "", "runner": "cuda", "device": "", "device_uuid": "",
        "source_sha256": "", "dtype": "float32", "m": n, "n": n, "k": n, "status": "ok",
    }  # fmt: skip
    return Row(**cells, kernel=kernel, tile_size=tile, params=f"TILE_SIZE={tile}")


ASKED = [make_row(kernel, n, tile) for n in (8, 16) for kernel in "ab" for tile in (1, 2)]
LIBRARY = [make_row("cublas", n, 0) for n in (8, 16)]
SHOWN = [*ASKED[:4], LIBRARY[0], *ASKED[4:], LIBRARY[1]]


@given(st.permutations(SHOWN))
def test_rows_are_shown_as_they_were_asked_for(measured: list[Row]) -> None:
    """Whatever was measured first; a library's row behind those of its problem."""
    assert in_order(measured, [row.point_key for row in ASKED]) == SHOWN


def test_a_library_without_a_point_of_its_problem_comes_last() -> None:
    alone = make_row("cublas", 4, 0)
    assert in_order([alone, *SHOWN], [row.point_key for row in ASKED]) == [*SHOWN, alone]
