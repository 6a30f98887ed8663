"""Rows to a CSV and back: the same values, valid at any moment, never a wrong reading."""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench.csvfile import CsvWriter, header_line, read_rows, row_line
from mmbench.errors import UsageError
from mmbench.results import COLUMNS, Row

NAMES = [column.name for column in COLUMNS]


def make_row(**cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "plain",
        "source_sha256": "0123456789abcdef", "dtype": "float32", "m": 64, "n": 64, "k": 64,
        "tile_size": 16, "params": "TILE_SIZE=16", "status": "ok", "cache": "cold",
    }  # fmt: skip
    return Row(**(known | cells))


FULL = make_row(
    block="16,16,1", grid="4,4,1", kind="none", reason="no reason", checked="rows", processes=5,
    samples=12, process_spread_percent=0.25,
    time_ms_median=0.1 + 0.2, time_ms_low=1e-9, time_ms_high=123456.789, time_ms_min=5e-324,
    spread_percent=1 / 3, flop=2**62, gflops=1.7976931348623157e308, roof_percent=0.0,
    baseline="cublas (13.0)", baseline_percent=99.5, outliers=0, timer_floor_ms=0.003,
    gflops_per_watt=70.5, joules=0.1, remarks="noisy: spread 14 %",
    requested_bytes=10**15, requested_gbs=2.5, compulsory_bytes=3, compulsory_gbs=4.5,
    arithmetic_intensity=0.25, max_error=1.5e-7, error_bound=2e-6, precision="FP32",
    registers=40, shared_bytes=2048, local_bytes=0, occupancy_percent=75.0, compile_s=0.5,
    sm_clock_mhz=1980, power_w=700.5,
    temperature_c=60, throttle="power cap", seed=0, flags="-O3 -DTILE_SIZE=16", driver="580.1",
    compiler="nvcc 13.0",
)  # fmt: skip


def write(path: Path, *rows: Row) -> None:
    with CsvWriter(path) as writer:
        for row in rows:
            writer.write(row)


def test_every_cell_comes_back_as_it_was(tmp_path: Path) -> None:
    assert None not in dataclasses.astuple(FULL)
    write(tmp_path / "a.csv", FULL)
    assert read_rows(tmp_path / "a.csv") == [FULL]


def test_unknown_is_an_empty_cell_and_never_zero(tmp_path: Path) -> None:
    row = make_row(tile_size=None, params="", cache=None, status="skipped", local_bytes=0)
    cells = dict(zip(NAMES, next(csv.reader([row_line(row)])), strict=True))
    assert cells["tile_size"] == cells["gflops"] == cells["registers"] == ""
    assert cells["local_bytes"] == "0"
    assert "None" not in row_line(row)
    write(tmp_path / "a.csv", row)
    assert read_rows(tmp_path / "a.csv") == [row]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(reason=texts, kernel=texts, median=st.floats(min_value=0, allow_infinity=False))
def test_any_text_and_any_number_survive(
    tmp_path_factory: pytest.TempPathFactory, reason: str, kernel: str, median: float
) -> None:
    row = make_row(reason=reason, kernel=kernel, time_ms_median=median)
    path = tmp_path_factory.getbasetemp() / "any.csv"
    write(path, row)
    assert read_rows(path) == [row]


@pytest.mark.parametrize("reason", ["a, b", 'say "no"', "two\nlines", "ünïcode €", "'quoted'", ";"])
def test_marks_of_the_format_inside_a_cell(tmp_path: Path, reason: str) -> None:
    rows = [make_row(reason=reason), make_row(n=128)]
    write(tmp_path / "a.csv", *rows)
    assert read_rows(tmp_path / "a.csv") == rows
    assert pd.read_csv(tmp_path / "a.csv")["reason"][0] == reason


def test_the_bytes(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", make_row(gflops=1234567.125))
    data = (tmp_path / "a.csv").read_bytes()
    assert data == (header_line() + row_line(make_row(gflops=1234567.125))).encode()
    assert data.count(b"\n") == 2
    assert b"\r" not in data
    assert b"1234567.125" in data
    assert data.startswith(b"timestamp,mmbench_version,runner,device,")
    assert header_line() == ",".join(NAMES) + "\n"


def test_each_row_is_on_the_disk_when_it_has_been_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "folder" / "a.csv"
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    with CsvWriter(path) as writer:
        assert read_rows(path) == []
        for n in (1, 2):
            writer.write(make_row(n=n))
            assert [row.n for row in read_rows(path)] == list(range(1, n + 1))
            assert sizes[-1] == path.stat().st_size
    assert len(sizes) == 3


def test_append_adds_behind_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, make_row(n=1))
    with CsvWriter(path, append=True) as writer:
        writer.write(make_row(n=2))
    assert [row.n for row in read_rows(path)] == [1, 2]
    assert path.read_text().count("timestamp") == 1


# Without the line end of the last row nothing tells whether a cell was cut short.
@pytest.mark.parametrize("cut", range(1, len(row_line(make_row(kernel="ünïcode")).encode()) + 1, 7))
def test_a_torn_last_line_is_as_if_never_written(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv"
    first, second = make_row(n=1), make_row(kernel="ünïcode")
    write(path, first, second)
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_rows(path) == [first]
    with CsvWriter(path, append=True) as writer:
        writer.write(second)
    assert read_rows(path) == [first, second]


def test_a_letter_torn_apart_is_a_torn_line_too(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, make_row(n=1), make_row(kernel="ü"))
    data = path.read_bytes()
    path.write_bytes(data[: data.index("ü".encode()) + 1])
    assert read_rows(path) == [make_row(n=1)]


def test_the_last_row_of_a_point_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, make_row(status="failed"), make_row(n=128), make_row(gflops=2.0))
    assert set(read_rows(path)) == {make_row(gflops=2.0), make_row(n=128)}


@pytest.mark.parametrize("cell", ["source_sha256", "flags", "device_uuid", "cache", "seed"])
def test_rows_of_other_conditions_are_other_rows(tmp_path: Path, cell: str) -> None:
    other = make_row(**{cell: 1 if cell == "seed" else "other"})
    write(tmp_path / "a.csv", make_row(), other)
    assert read_rows(tmp_path / "a.csv") == [make_row(), other]


def test_what_a_spreadsheet_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, FULL, make_row())
    text = path.read_text().replace("\n", "\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_rows(path) == [FULL, make_row()]


def test_columns_in_another_order_are_read_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, FULL)
    frame = pd.read_csv(path, dtype=str)
    frame[[*reversed(frame.columns)]].to_csv(path, index=False)
    assert read_rows(path) == [FULL]


@pytest.mark.parametrize(
    "columns", [NAMES[:-1], [*reversed(NAMES)]], ids=["a column less", "another order"]
)
def test_append_never_mixes_two_orders_of_columns(tmp_path: Path, columns: list[str]) -> None:
    path = tmp_path / "a.csv"
    write(path, FULL)
    pd.read_csv(path, dtype=str)[columns].to_csv(path, index=False)
    before = path.read_bytes()
    try:
        with CsvWriter(path, append=True) as writer:
            writer.write(make_row(n=128))
    except UsageError:
        assert path.read_bytes() == before
    else:
        assert [row.n for row in read_rows(path)] == [64, 128]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is not a CSV of mmbench"),
        (b"\n", "is not a CSV of mmbench"),
        (b"a,b\n1,2\n", "is not a CSV of mmbench"),
        (b"status,price\nok,1\n", "is not a CSV of mmbench"),
        (header_line().encode("utf-16"), "is not a CSV of mmbench"),
        (b"\x89PNG\r\n\x1a\n\xff\n", "is not a CSV of mmbench"),
        (b"status,kernel\nok,naive\n", "a.csv:2: not a row of mmbench"),
        ((header_line() + "1,2,3\n").encode(), "a.csv:2: not a row of mmbench (3 cells instead"),
        ((header_line() + row_line(make_row()) + "\n").encode(), "a.csv:3: not a row of mmbench"),
        (
            (header_line() + row_line(make_row()).replace(",64,64,64,", ",64,many,64,")).encode(),
            "a.csv:2: not a row of mmbench",
        ),
    ],
)
def test_what_is_no_file_of_results_is_told(tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(UsageError) as told:
        read_rows(path)
    assert sentence in told.value.message
    assert str(path) in told.value.message
    assert "\n" not in told.value.message


def test_a_status_that_is_none_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, make_row(status="splendid"))
    with pytest.raises(UsageError, match=r"a\.csv:2: .*splendid"):
        read_rows(path)


@pytest.mark.parametrize("name", ["missing.csv", "folder", "file/below.csv"])
def test_what_cannot_be_opened_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("kept")
    with pytest.raises(UsageError, match="cannot read"):
        read_rows(tmp_path / name)
    if name != "missing.csv":
        with pytest.raises(UsageError, match="cannot write"):
            CsvWriter(tmp_path / name)
    with pytest.raises(UsageError, match="cannot write"):
        CsvWriter(tmp_path / name, append=True)
    assert (tmp_path / "file").read_text() == "kept"


def test_pandas_reads_the_same_numbers() -> None:
    frame = pd.read_csv(io.StringIO(header_line() + row_line(FULL)))
    assert frame["time_ms_median"][0] == pytest.approx(0.3, rel=1e-15)
    assert frame["requested_bytes"][0] == 10**15
    assert frame["grid"][0] == "4,4,1"


def test_every_column_has_a_meaning() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(column.meaning.endswith(".") for column in COLUMNS if column.meaning)
    assert all(column.meaning for column in COLUMNS)


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with CsvWriter(path) as writer:
        writer.write(FULL)
        for append in (False, True):
            with pytest.raises(UsageError, match="another mmbench is writing"):
                CsvWriter(path, append)
    assert read_rows(path) == [FULL]
    with CsvWriter(path, append=True) as writer:
        writer.write(FULL)


def test_a_disk_that_is_full_is_one_error(tmp_path: Path) -> None:
    """Closing the file would fail once more, and hide it."""
    writer = CsvWriter(tmp_path / "rows.csv")
    limit = (tmp_path / "rows.csv").stat().st_size + 10
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(UsageError, match=r"cannot write .*: File too large"):
            writer.write(FULL)
        writer.__exit__()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_rows(tmp_path / "rows.csv") == []


def test_rows_of_an_earlier_run_are_kept(tmp_path: Path) -> None:
    """An --out that should have been a --resume must not cost a night's work."""
    path = tmp_path / "rows.csv"
    for _ in range(2):
        with CsvWriter(path) as writer:
            assert writer.kept is None  # nothing there, or a header alone
    with CsvWriter(path) as writer:
        writer.write(FULL)
    with CsvWriter(path) as writer:
        assert writer.kept == tmp_path / "rows.old.csv"
    assert read_rows(tmp_path / "rows.old.csv") == [FULL]
    assert read_rows(path) == []
