"""What a terminal shows, to the letter, at two widths."""

from __future__ import annotations

import dataclasses
import io
import textwrap
from typing import Any

import pytest
from rich.console import Console, RenderableType

from mmbench import kernels, table
from mmbench.best import Best
from mmbench.compare import Comparison, FileComparison, Ratio
from mmbench.device import CUDA_LIMITS, Device
from mmbench.results import Row

DEVICE = Device(
    runner="cuda", index=0, name="Card", uuid="GPU-1", limits=CUDA_LIMITS, memory_bytes=8 * 10**9,
    host_memory_bytes=8 * 10**9, fp32_roof_gflops=20_000.0, dram_peak_gbs=1000.0,
)  # fmt: skip


def make_row(**cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "naive",
        "source_sha256": "0123456789abcdef", "dtype": "float32", "m": 4096, "n": 4096, "k": 4096,
        "tile_size": 32, "params": "TILE_SIZE=32", "status": "ok", "cache": "cold",
    }  # fmt: skip
    return Row(**(known | cells))


NAIVE = make_row(
    samples=12, time_ms_median=23.05, time_ms_low=23.0, time_ms_high=23.1, spread_percent=0.3,
    gflops=5961.9, roof_percent=29.8, requested_bytes=549822922752, requested_gbs=23853.7,
    compulsory_gbs=8.73, arithmetic_intensity=0.24997, max_error=2.34e-7,
)  # fmt: skip
TILED = make_row(
    kernel="tiled", samples=12, time_ms_median=15.64, time_ms_low=15.6, time_ms_high=15.7,
    spread_percent=12.34, gflops=8787.6, roof_percent=43.94, requested_bytes=17246978048,
    requested_gbs=1102.7, compulsory_gbs=12.87, arithmetic_intensity=7.9689, max_error=1.234e-7,
)  # fmt: skip
FLAT = make_row(
    kernel="tiled", m=100, n=200, k=7, tile_size=8, samples=3, time_ms_median=0.0123456,
    gflops=22.68, roof_percent=0.1134, requested_bytes=230000, requested_gbs=18.63,
    compulsory_gbs=7.193, arithmetic_intensity=1.2174, max_error=0.0,
)  # fmt: skip
BAD = make_row(
    kernel="bad", tile_size=16, status="wrong",
    reason="1 of 16777216 elements differ; first C[0][0] = 1, should be 2",
)  # fmt: skip
UNFIT = make_row(
    kernel="tutorial", m=100, n=100, k=100, tile_size=16, status="skipped",
    reason="the kernel has no edge guard, so N must be a multiple of TILE_SIZE",
)  # fmt: skip
ENDLESS = make_row(
    kernel="free", tile_size=None, status="timeout", kind="timeout",
    reason="no result after 60 s (free: first launch); the process was ended",
)  # fmt: skip
ROWS = [NAIVE, TILED, FLAT, BAD, UNFIT, ENDLESS]


def shown(what: RenderableType, width: int = 80) -> str:
    """As printed, without colours and without blanks at the ends of lines."""
    console = Console(file=io.StringIO(), width=width, highlight=False, color_system=None)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    return "\n".join(line.rstrip() for line in lines)


def text(block: str) -> str:
    return textwrap.dedent(block).strip("\n")


def test_results_at_80_columns() -> None:
    assert shown(table.results(ROWS, DEVICE, "GPU", 80), 80) == text("""
        Card, float32, GPU times, cold L2
        kernel        MxNxK  tile  status      time  spread    speed  of roof
                                             median       %  GFLOP/s        %
        naive          4096    32  ok       23.1 ms     0.3    5,962     29.8
        tiled          4096    32  ok       15.6 ms    12.3    8,788     43.9
        tiled     100x200x7     8  ok       12.3 us            22.68      0.1
        bad            4096    16  wrong
        tutorial        100    16  skipped
        free           4096        timeout

        memory traffic and error
        kernel      MxNxK  tile  requested  requested  compulsory  intensity    error
                                        GB       GB/s        GB/s     FLOP/B      max
        naive        4096    32        550     23,854       8.730      0.250  2.3e-07
        tiled        4096    32       17.2      1,103       12.87       7.97  1.2e-07
        tiled   100x200x7     8   0.000230      18.63       7.193       1.22  0.0e+00
        bad N=4096 tile=16: wrong: 1 of 16777216 elements differ; first C[0][0] = 1,
        should be 2
        tutorial N=100 tile=16: skipped: the kernel has no edge guard, so N must be a
        multiple of TILE_SIZE
        free N=4096: timeout: no result after 60 s (free: first launch); the process was
        ended
        mmbench check KERNEL tells why a kernel is wrong, with the line.
        Requested GB/s above the DRAM peak of 1,000 GB/s is served by caches.
        Fewer than 6 samples: no confidence interval.
    """)


def test_a_dumb_terminal_cuts_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rich takes a console for 80 columns wide unless it is given a height as well."""
    wide = shown(table.results(ROWS, DEVICE, "GPU", 80), 80)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, whatever the tests write to
    assert shown(table.results(ROWS, DEVICE, "GPU", 80), 80) == wide


def test_the_processes_that_were_measured_are_said() -> None:
    apart = [
        dataclasses.replace(NAIVE, processes=5, process_spread_percent=0.456),
        dataclasses.replace(TILED, processes=5, process_spread_percent=1.2),
        BAD,
    ]
    said = shown(table.results(apart, DEVICE, "GPU", 100), 100)
    note = "Times are means of the medians of 5 processes, which lie up to 1.20 % apart."
    assert note in said
    assert "processes" not in shown(table.results(ROWS, DEVICE, "GPU", 100), 100)


def test_results_at_130_columns() -> None:
    # fmt: off
    assert shown(table.results(ROWS, DEVICE, "GPU", 130), 130) == text("""
        Card, float32, GPU times, cold L2
        kernel        MxNxK  tile  status      time  spread    speed  of roof  requested  requested  compulsory  intensity    error
                                             median       %  GFLOP/s        %         GB       GB/s        GB/s     FLOP/B      max
        naive          4096    32  ok       23.1 ms     0.3    5,962     29.8        550     23,854       8.730      0.250  2.3e-07
        tiled          4096    32  ok       15.6 ms    12.3    8,788     43.9       17.2      1,103       12.87       7.97  1.2e-07
        tiled     100x200x7     8  ok       12.3 us            22.68      0.1   0.000230      18.63       7.193       1.22  0.0e+00
        bad            4096    16  wrong
        tutorial        100    16  skipped
        free           4096        timeout
        bad N=4096 tile=16: wrong: 1 of 16777216 elements differ; first C[0][0] = 1, should be 2
        tutorial N=100 tile=16: skipped: the kernel has no edge guard, so N must be a multiple of TILE_SIZE
        free N=4096: timeout: no result after 60 s (free: first launch); the process was ended
        mmbench check KERNEL tells why a kernel is wrong, with the line.
        Requested GB/s above the DRAM peak of 1,000 GB/s is served by caches.
        Fewer than 6 samples: no confidence interval.
    """)  # noqa: E501
    # fmt: on


def test_square_products_at_80_columns() -> None:
    assert shown(table.results([NAIVE, TILED], DEVICE, "GPU", 80), 80) == text("""
        Card, float32, GPU times, cold L2
        kernel     N  tile  status     time  spread    speed  of roof
                                     median       %  GFLOP/s        %
        naive   4096    32  ok      23.1 ms     0.3    5,962     29.8
        tiled   4096    32  ok      15.6 ms    12.3    8,788     43.9

        memory traffic and error
        kernel     N  tile  requested  requested  compulsory  intensity    error
                                   GB       GB/s        GB/s     FLOP/B      max
        naive   4096    32        550     23,854       8.730      0.250  2.3e-07
        tiled   4096    32       17.2      1,103       12.87       7.97  1.2e-07
        Requested GB/s above the DRAM peak of 1,000 GB/s is served by caches.
    """)


def test_what_no_row_knows_has_no_column() -> None:
    host = [make_row(runner="cpu", cache="hot", samples=9, time_ms_median=1.0, gflops=2.0)]
    out = shown(table.results(host, DEVICE, "host", 130), 130)
    assert "of roof" not in out
    assert "spread" not in out
    assert out.splitlines()[-1].split() == ["naive", "4096", "32", "ok", "1.00", "ms", "2.000"]


def test_host_times_are_called_so() -> None:
    out = shown(table.results([NAIVE], DEVICE, "host", 130), 130)
    assert out.splitlines()[0] == "Card, float32, host times, not a GPU's"


def test_both_modes_of_the_cache_are_named() -> None:
    hot = make_row(cache="hot", samples=9, time_ms_median=1.0)
    out = shown(table.results([NAIVE, hot], DEVICE, "GPU", 130), 130)
    assert out.startswith("Card, float32, GPU times, cold and hot L2\n")


def test_a_row_that_is_not_ok_shows_no_rate() -> None:
    wrong = make_row(status="wrong", reason="no", max_error=0.5)
    out = shown(table.results([wrong], DEVICE, "GPU", 130), 130)
    assert "GFLOP/s" not in out
    assert "GB" not in out


def test_a_reason_is_shown_as_it_is() -> None:
    """Brackets in a compiler's sentence are no markup."""
    row = make_row(status="failed", reason="mine.cu:3: error: [bold]no[/bold] A[i] :smile:")
    assert "error: [bold]no[/bold] A[i] :smile:" in shown(table.results([row], DEVICE, "GPU", 130))


@pytest.mark.parametrize("name", [*kernels.names(), "my_kernel_with_a_long_name"])
def test_no_number_is_cut(name: str) -> None:
    row = make_row(
        kernel=name, samples=12, time_ms_median=123.4, spread_percent=10.25, gflops=5961.9,
        roof_percent=29.8, requested_bytes=549822922752, requested_gbs=23853.5,
        compulsory_gbs=0.00873, arithmetic_intensity=0.24997, max_error=2.34e-7,
    )  # fmt: skip
    cells = ["4096", "32", "123 ms", "10.2", "5,962", "29.8", "550", "23,854", "0.008730", "0.250",
             "2.3e-07"]  # fmt: skip
    cells += [name] if name in kernels.names() else []
    cut = {}
    for width in range(80, 141):
        out = shown(table.results([row], DEVICE, "GPU", width), width)
        if missing := [cell for cell in cells if cell not in out]:
            cut[width] = missing
    assert not cut


@pytest.mark.parametrize("width", [80, 120, 130])
def test_no_number_of_a_rectangular_product_is_cut(width: int) -> None:
    row = make_row(
        kernel="tiled", m=16384, n=16384, k=16384 - 1, samples=12, time_ms_median=1234.0,
        spread_percent=10.25, gflops=5961.9, roof_percent=29.8, requested_bytes=549822922752,
        requested_gbs=23853.5, compulsory_gbs=8.73, arithmetic_intensity=0.25, max_error=2.34e-7,
    )  # fmt: skip
    out = shown(table.results([row], DEVICE, "GPU", width), width)
    for cell in ("16384x16384x16383", "5,962", "29.8", "550", "23,854", "8.730", "2.3e-07"):
        assert cell in out, cell


def test_best_tiles() -> None:
    found = [Best(NAIVE, (make_row(tile_size=16),)), Best(TILED, ()), Best(FLAT, ())]
    assert shown(table.best_tiles(found)) == text("""
        best tile
                N  kernel     tile       GFLOP/s
             4096  naive   16 = 32  tie    5,962
             4096  tiled        32         8,788
        100x200x7  tiled         8         22.68
    """)


def test_comparisons() -> None:
    found = [
        Comparison(NAIVE, TILED, Ratio(1.474, 1.47, 1.478), "tiled requests 1/31.9 of the bytes"),
        Comparison(NAIVE, FLAT, Ratio(1234.6), ""),
        Comparison(NAIVE, BAD, None, ""),
    ]
    assert shown(table.comparisons(found), 130) == text("""
        N=4096 tile=32: tiled is 1.47 times as fast as naive (95 % interval 1.470 to 1.478: faster)
          tiled requests 1/31.9 of the bytes
        M=100 N=200 K=7 tile=8: tiled is 1,235 times as fast as naive (too few samples for an interval)
        N=4096 tile=16: no comparison: naive is ok and bad is wrong
    """)  # noqa: E501


def test_file_comparison() -> None:
    found = FileComparison(
        comparisons=(
            Comparison(NAIVE, TILED, Ratio(1.474, 1.47, 1.478), ""),
            Comparison(TILED, NAIVE, Ratio(0.5), ""),
            Comparison(NAIVE, BAD, None, "it broke"),
        ),
        geometric_mean=0.8585,
        only_old=(NAIVE,),
        only_new=(NAIVE, TILED),
        devices=("Card", "Other card"),
    )
    assert shown(table.file_comparison(found, ("old.csv", "new.csv"))) == text("""
        old.csv -> new.csv
        kernel     N  tile      old      new  new/old speed  verdict
        tiled   4096    32  23.1 ms  15.6 ms          1.474  faster
        naive   4096    32  15.6 ms  23.1 ms          0.500  unclear
        bad     4096    16  23.1 ms                          ok -> wrong
        geometric mean of new/old speed: 0.859
        1 point only in the old file
        2 points only in the new file
        The devices differ: Card and Other card.
    """)


def test_file_comparison_of_one_device_without_ratios() -> None:
    found = FileComparison((Comparison(NAIVE, BAD, None, ""),), None, (), (), ("Card", "Card"))
    out = shown(table.file_comparison(found, ("old.csv", "new.csv")))
    assert "geometric" not in out
    assert "only in" not in out
    assert "devices differ" not in out


@pytest.mark.parametrize(
    ("value", "three", "four"),
    [
        (None, "", ""),
        (0, "0", "0"),
        (0.0, "0", "0"),
        (0.00012345, "0.000123", "0.0001234"),
        (0.0123456, "0.0123", "0.01235"),
        (0.1, "0.100", "0.1000"),
        (0.9996, "1.00", "0.9996"),
        (1, "1.00", "1.000"),
        (1.2349, "1.23", "1.235"),
        (9.999, "10.0", "9.999"),
        (12.3456, "12.3", "12.35"),
        (99.96, "100", "99.96"),
        (123.456, "123", "123.5"),
        (999.96, "1,000", "1,000"),
        (1234.6, "1,235", "1,235"),
        (50632.4, "50,632", "50,632"),
        (1e9, "1,000,000,000", "1,000,000,000"),
        (-3.14159, "-3.14", "-3.142"),
    ],
)
def test_number(value: float | None, three: str, four: str) -> None:
    assert table.number(value) == three
    assert table.number(value, 4) == four


@pytest.mark.parametrize("exponent", range(-12, 12))
def test_number_is_within_half_a_digit(exponent: int) -> None:
    for mantissa in (1.0, 1.2345, 4.4449, 9.9949, 9.9951):
        value = mantissa * 10.0**exponent
        assert float(table.number(value).replace(",", "")) == pytest.approx(value, rel=5.1e-3)
        assert float(table.number(value, 4).replace(",", "")) == pytest.approx(value, rel=5.1e-4)


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (None, ""),
        (0.0089, "8.90 us"),
        (0.0123456, "12.3 us"),
        (0.5, "500 us"),
        (0.999, "999 us"),
        (1.0, "1.00 ms"),
        (15.64, "15.6 ms"),
        (999.0, "999 ms"),
        (1000.0, "1.00 s"),
        (61234.0, "61.2 s"),
    ],
)
def test_duration(milliseconds: float | None, expected: str) -> None:
    assert table.duration(milliseconds) == expected
