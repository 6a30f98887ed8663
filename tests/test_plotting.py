"""Pictures: what is drawn is what the rows say, and nobody has to squint at it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench import plotting
from mmbench.csvfile import header_line as csv_header
from mmbench.csvfile import read_rows, row_line
from mmbench.errors import UsageError
from mmbench.plotting import placing, study, style
from mmbench.plotting.study import Study
from mmbench.results import Row

ROOT = Path(__file__).parent.parent
H200 = ROOT / "results" / "h200.csv"
ROOF, PEAK = 66908.16, 4814.304


def row(kernel: str = "alpha", n: int = 1024, tile: int | None = 16, **changes: Any) -> Row:
    """A right row of a GPU, 1000 GFLOP/s unless told otherwise; rates follow from it."""
    speed = changes.pop("gflops", 1000.0)
    flop = 2 * changes.get("m", n) * n * changes.get("k", n)
    time = flop / speed / 1e6 if speed else None
    requested = flop * 4 // (tile or 1)
    cells: dict[str, Any] = {
        "timestamp": "2026-11-30T08:00:00+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "NVIDIA Test", "device_uuid": "GPU-1", "kernel": kernel, "source_sha256": "0",
        "dtype": "float32", "m": n, "n": n, "k": n, "tile_size": tile,
        "params": "" if tile is None else f"TILE_SIZE={tile}", "status": "ok", "cache": "cold",
        "samples": 100, "time_ms_median": time, "time_ms_low": time and time * 0.9999,
        "time_ms_high": time and time * 1.0001, "spread_percent": 0.5, "flop": flop,
        "gflops": speed, "roof_percent": speed and speed / ROOF * 100,
        "requested_bytes": requested, "compulsory_bytes": 12 * n * n,
        "requested_gbs": time and requested / time / 1e6, "compulsory_gbs": 1.0,
        "arithmetic_intensity": flop / requested, "max_error": 1e-7, "driver": "580.1",
        "compiler": "nvcc 13.0",
    }  # fmt: skip
    return Row(**(cells | changes))


def bad(status: str, **changes: Any) -> Row:
    """A row that must have no mark. That it carries a rate all the same is the trap."""
    return replace(row(**changes), status=status, reason="because", kind=status)


ENVIRONMENT = {"runs": [{"device": {"uuid": "GPU-1", "dram_peak_gbs": PEAK}}]}


def one(rows: Sequence[Row], environment: dict[str, Any] = ENVIRONMENT) -> Study:
    (found,) = study.studies(rows, environment)
    return found


def sweep() -> list[Row]:
    """Two kernels, two tiles, three sizes; in one column the tiles tie."""
    return [
        row(kernel, n, tile, gflops=base * tile * (n / 256) ** 0.5)
        for kernel, base in (("alpha", 50.0), ("beta", 200.0))
        for n in (256, 512, 1024)
        for tile in (8, 16)
    ]  # fmt: skip


def libraries() -> list[Row]:
    return [
        row(
            "cublas",
            n,
            None,
            gflops=50_000.0,
            arithmetic_intensity=None,
            requested_bytes=None,
            flags="cuBLAS 13.1.0, pedantic math",
        )
        for n in (256, 512, 1024)
    ]


@pytest.fixture
def drawing() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra plot")


@pytest.fixture
def typing_out() -> None:
    pytest.importorskip("plotext", reason="plotext is not installed: the extra plot")


def lines(figure: Any, prefix: str) -> dict[str, Any]:
    """The lines whose id begins so, by the rest of their id."""
    return {
        line.get_gid().removeprefix(prefix).strip(): line
        for axes in figure.axes
        for line in axes.lines
        if (line.get_gid() or "").startswith(prefix)
    }


def texts(figure: Any) -> list[Any]:
    from matplotlib.text import Text

    # What is seen: ticks outside the limits have texts as well, and show none of them.
    figure.draw_without_rendering()
    found = []
    for text in figure.findobj(Text):
        axes = text.axes
        if text.get_text().strip() and text.get_visible() and not _is_unseen_tick(axes, text):
            found.append(text)
    return found


def _is_unseen_tick(axes: Any, text: Any) -> bool:
    if axes is None:
        return False
    for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        for tick in (*axis.majorTicks, *axis.minorTicks):
            if text in (tick.label1, tick.label2):
                low, high = sorted(limits)
                return not (tick.get_visible() and low <= tick.get_loc() <= high)
    return False


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in texts(figure)]


# ---- what belongs together ----


def test_rows_are_apart_by_device_type_and_cache_mode() -> None:
    found = study.studies(
        [
            row(), row(dtype="float64"), row(device_uuid="GPU-2", device="Other"),
            row(cache="hot"), row("beta"),
        ],
        {},
    )  # fmt: skip
    assert [(each.uuid, each.dtype, each.cache, len(each.rows)) for each in found] == [
        ("GPU-1", "float32", "cold", 2), ("GPU-1", "float32", "hot", 1),
        ("GPU-1", "float64", "cold", 1), ("GPU-2", "float32", "cold", 1),
    ]  # fmt: skip
    assert len(set(study.names(found))) == 4


def test_two_devices_of_one_name_are_told_apart() -> None:
    first, second = study.studies([row(), row(device_uuid="GPU-2")], {})
    assert first.title != second.title
    assert len(set(study.names([first, second]))) == 2


def test_a_point_measured_again_has_its_newest_rate() -> None:
    newer = row(gflops=900.0, timestamp="2026-12-01T08:00:00+00:00", seed=2)
    for rows in ([row(), newer], [newer, row()]):
        assert [each.gflops for each in one(rows).best("alpha")] == [900.0]


def test_the_title_says_device_type_mode_and_date() -> None:
    assert one([row()]).title == "NVIDIA Test, float32, cold L2, 2026-11-30"
    later = row("beta", timestamp="2026-12-02T08:00:00+00:00")
    assert one([row(), later]).title.endswith("2026-11-30 to 2026-12-02")
    assert "host times, not a GPU's" in one([row(runner="cpu")]).title


def test_roofs_come_from_the_rows_and_the_environment() -> None:
    found = one(sweep())
    assert found.roof_gflops == pytest.approx(ROOF)
    assert found.dram_peak_gbs == PEAK
    assert one(sweep(), {}).dram_peak_gbs is None
    assert one([row(roof_percent=None)], {}).roof_gflops is None
    other = {"runs": [{"device": {"uuid": "GPU-9", "dram_peak_gbs": 1.0}}]}
    assert one(sweep(), other).dram_peak_gbs is None


def test_a_library_is_no_kernel() -> None:
    found = one([*sweep(), *libraries()])
    assert found.kernels == ["alpha", "beta"]
    (library,) = found.baselines
    assert library.name == "cuBLAS 13.1.0"
    assert library.points == ((256.0, 50_000.0), (512.0, 50_000.0), (1024.0, 50_000.0))
    assert study.studies(libraries(), {}) == []


def test_percentages_tell_a_library_that_has_no_rows() -> None:
    told = "cublas (cuBLAS 13.1.0, pedantic math)"
    found = one([row(gflops=1000.0, baseline=told, baseline_percent=20.0)])
    (library,) = found.baselines
    assert library.name == "cuBLAS 13.1.0"
    assert library.points == ((1024.0, pytest.approx(5000.0)),)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("cublas (cuBLAS 13.1.0, pedantic math)", "cuBLAS 13.1.0"),
        ("cublas:default (cuBLAS 13.1.0, default math)", "cuBLAS 13.1.0, default math"),
        ("blas (scipy-openblas 0.3.30 (NumPy 2.4.6))", "scipy-openblas 0.3.30"),
        ("cublas 13.0", "cuBLAS 13.0"), ("cublas", "cuBLAS"), ("blas", "BLAS"), ("", "baseline"),
    ],
)  # fmt: skip
def test_a_librarys_name_is_as_people_write_it(told: str, name: str) -> None:
    assert study.library(row(baseline=told)) == name


def test_two_modes_of_a_library_are_two_lines() -> None:
    fast = [replace(each, kernel="cublas:default", gflops=60_000.0) for each in libraries()]
    names = [each.name for each in one([*sweep(), *libraries(), *fast]).baselines]
    assert names == ["cuBLAS 13.1.0", "cuBLAS 13.1.0, default math"]


def test_an_implausible_row_has_no_mark() -> None:
    found = one([row(n=256), row(n=512, gflops=9e4, remarks="implausible: above the roof")])
    assert [each.n for each in found.best("alpha")] == [256]


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [("float32", "GFLOP/s"), ("int32", "GOP/s"), ("int8/int32", "GOP/s"),
     ("float16/float32", "GFLOP/s")],
)  # fmt: skip
def test_the_rate_of_whole_numbers_is_no_flop(dtype: str, unit: str) -> None:
    assert one([row(dtype=dtype)]).unit == unit


# ---- GFLOP/s over N ----


@pytest.mark.usefixtures("drawing")
class TestSpeed:
    def test_a_line_for_each_kernel_at_its_best_tile(self) -> None:
        found = lines(plotting.figure(one(sweep()), "speed"), "kernel ")
        assert set(found) == {"alpha", "beta"}
        assert list(found["alpha"].get_xdata()) == [256, 512, 1024]
        assert list(found["alpha"].get_ydata()) == pytest.approx(
            [800.0, 800 * 2**0.5, 1600.0]
        )  # tile 16 everywhere

    @pytest.mark.parametrize("status", ["wrong", "failed", "skipped", "timeout"])
    def test_a_row_that_is_not_ok_gives_no_point(self, status: str) -> None:
        rows = [row(n=256), row(n=512), bad(status, n=1024, gflops=9e4), bad(status, kernel="beta")]
        found = lines(plotting.figure(one(rows), "speed"), "kernel ")
        assert set(found) == {"alpha"}
        assert list(found["alpha"].get_xdata()) == [256, 512]

    def test_the_roof_is_a_line_with_its_value(self) -> None:
        figure = plotting.figure(one(sweep()), "speed")
        (roof,) = lines(figure, "roof").values()
        assert list(roof.get_ydata()) == pytest.approx([ROOF, ROOF])
        assert "FP32 roof 66,908 GFLOP/s" in words(figure)
        without = plotting.figure(one([row(roof_percent=None)], {}), "speed")
        assert not lines(without, "roof")
        assert not any("roof" in text for text in words(without))

    def test_a_library_is_dashed_and_named(self) -> None:
        figure = plotting.figure(one([*sweep(), *libraries()]), "speed")
        library = lines(figure, "baseline ")["cuBLAS 13.1.0"]
        assert library.get_linestyle() == "--"
        kernels = lines(figure, "kernel ")
        assert "cublas" not in kernels
        assert library.get_color() not in {line.get_color() for line in kernels.values()}
        assert "cuBLAS 13.1.0" in words(figure)

    def test_kernels_differ_in_more_than_colour(self) -> None:
        found = lines(plotting.figure(one(sweep()), "speed"), "kernel ").values()
        assert len({line.get_marker() for line in found}) == 2
        assert len({str(line.get_linestyle()) for line in found}) == 2
        assert {line.get_color() for line in found} <= set(style.COLOURS)

    def test_axes_and_names_are_written_out(self) -> None:
        shown = words(plotting.figure(one(sweep()), "speed"))
        assert {"alpha", "beta", "N, edge of the matrices", "256", "512", "1024"} <= set(shown)
        assert "GFLOP/s (log scale)" in shown
        assert "NVIDIA Test, float32, cold L2, 2026-11-30" in shown

    def test_a_wide_interval_has_a_bar_of_its_size(self) -> None:
        narrow, wide = row(n=256), row(n=512, gflops=1000.0)
        assert wide.time_ms_median
        wide = replace(
            wide, time_ms_low=wide.time_ms_median / 1.25, time_ms_high=wide.time_ms_median * 1.25
        )
        axes = plotting.figure(one([narrow, wide]), "speed").axes[0]
        (bar,) = axes.containers
        (segment,) = bar.lines[2][0].get_segments()
        assert segment[:, 0].tolist() == [512, 512]
        assert segment[:, 1].tolist() == pytest.approx([800.0, 1250.0])

    def test_rectangular_products_are_not_joined_to_square_ones(self) -> None:
        other = row(n=1024, m=4096, k=8192, gflops=900.0)
        figure = plotting.figure(one([*sweep(), other]), "speed")
        found = [line for line in figure.axes[0].lines if line.get_gid() == "kernel alpha"]
        assert [list(line.get_xdata()) for line in found] == [
            [256, 512, 1024], [pytest.approx(3250.997)],
        ]  # fmt: skip
        assert any("cube root" in text for text in words(figure))


# ---- tile over N ----


def cells(figure: Any) -> dict[tuple[int, int, int], Any]:
    """Texts in the cells by map, row and column."""
    return {
        (number, int(y), int(x)): text
        for number, axes in enumerate(figure.axes)
        for text in axes.texts
        for x, y in [text.get_position()]
        if x % 1 == y % 1 == 0.5
    }


@pytest.mark.usefixtures("drawing")
class TestTiles:
    def test_every_cell_holds_its_rate(self) -> None:
        found = cells(plotting.figure(one(sweep()), "tiles"))
        assert len(found) == 2 * 2 * 3
        assert found[0, 0, 0].get_text() == "400.0"
        assert found[1, 1, 2].get_text() == "6,400"

    @pytest.mark.parametrize("status", ["wrong", "failed", "skipped", "timeout"])
    def test_a_cell_that_is_not_ok_holds_the_word_alone(self, status: str) -> None:
        rows = [row(n=256, tile=8), bad(status, n=256, tile=16, gflops=9e4)]
        found = cells(plotting.figure(one(rows), "tiles"))
        assert found[0, 0, 0].get_text() == "1,000"
        assert found[0, 1, 0].get_text() == status
        assert found[0, 1, 0].get_weight() == "normal"

    def test_what_was_not_measured_is_empty(self) -> None:
        figure = plotting.figure(one([row(n=256, tile=8), row(n=512, tile=16)]), "tiles")
        found = cells(figure)
        assert [found[0, y, x].get_text() for y in (0, 1) for x in (0, 1)] == [
            "1,000", "", "", "1,000",
        ]  # fmt: skip

    def test_the_best_tile_and_its_ties_are_bold(self) -> None:
        rows = [row(tile=8, gflops=500.0), row(tile=16, gflops=1000.0), row(tile=32, gflops=999.9)]
        found = cells(plotting.figure(one(rows), "tiles"))
        assert [found[0, y, 0].get_weight() for y in range(3)] == ["normal", "bold", "bold"]

    def test_text_can_be_read_on_every_colour(self) -> None:
        from matplotlib.colors import to_rgb

        from mmbench.plotting.tiles import text_on

        def light(colour: str) -> float:
            parts = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
                     for c in to_rgb(colour))  # fmt: skip
            return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

        for grey in range(256):
            colour = f"#{grey:02x}{grey:02x}{grey:02x}"
            high, low = sorted((light(colour), light(text_on(colour))), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, colour

    def test_other_parameters_are_named(self) -> None:
        rows = [row(tile=None, params=f"BM={bm} BN=64") for bm in (64, 128)]
        shown = words(plotting.figure(one(rows), "tiles"))
        assert {"BM BN", "64 64", "128 64"} <= set(shown)
        assert "tile" not in shown


# ---- roofline ----


@pytest.mark.usefixtures("drawing")
class TestRoofline:
    def test_each_kernel_stands_at_both_intensities(self) -> None:
        figure = plotting.figure(one(sweep()), "roofline")
        filled, hollow = lines(figure, "requested "), lines(figure, "compulsory ")
        assert set(filled) == set(hollow) == {"alpha", "beta"}
        assert list(filled["alpha"].get_xdata()) == [2.0, 4.0]  # a mark for each tile, N = 1024
        assert list(filled["alpha"].get_ydata()) == [800.0, 1600.0]
        assert list(hollow["alpha"].get_xdata()) == [pytest.approx(2 * 1024**3 / 12 / 1024**2)]
        assert list(hollow["alpha"].get_ydata()) == [1600.0]
        assert filled["alpha"].get_markerfacecolor() == filled["alpha"].get_color()
        assert hollow["alpha"].get_markerfacecolor() == style.HOLLOW
        shown = " ".join(words(figure))
        assert "requested intensity" in shown
        assert "compulsory intensity" in shown
        assert "FLOP/byte" in shown

    def test_the_roofs_meet_where_they_should(self) -> None:
        figure = plotting.figure(one(sweep()), "roofline")
        (roof,), (slope,) = lines(figure, "roof").values(), lines(figure, "dram").values()
        assert slope.get_xdata()[-1] == roof.get_xdata()[0] == pytest.approx(ROOF / PEAK)
        for x, y in zip(slope.get_xdata(), slope.get_ydata(), strict=True):
            assert y == pytest.approx(x * PEAK)
        assert "DRAM peak 4,814 GB/s" in words(figure)

    def test_what_is_unknown_is_said_and_not_drawn(self) -> None:
        figure = plotting.figure(one(sweep(), {}), "roofline")
        assert not lines(figure, "dram")
        assert "The DRAM peak is not known here." in words(figure)
        host = [replace(each, runner="cpu", roof_percent=None) for each in sweep()]
        figure = plotting.figure(one(host, {}), "roofline")
        assert not lines(figure, "roof")
        assert "The roofs are not known here." in words(figure)

    def test_a_wrong_row_has_no_mark(self) -> None:
        rows = [*sweep(), bad("wrong", n=4096, gflops=9e4), bad("wrong", kernel="gamma")]
        figure = plotting.figure(one(rows), "roofline")
        assert set(lines(figure, "requested ")) == {"alpha", "beta"}
        assert max(lines(figure, "requested ")["alpha"].get_ydata()) == 1600.0

    def test_unknown_traffic_leaves_the_hollow_mark(self) -> None:
        figure = plotting.figure(one([row(arithmetic_intensity=None)]), "roofline")
        assert not lines(figure, "requested ")
        assert set(lines(figure, "compulsory ")) == {"alpha"}


# ---- every picture can be read ----


def ladder() -> list[Row]:
    """Many kernels close to each other and to the roof, some with long names."""
    names = [f"kernel_with_a_name_{i}" for i in range(9)]
    return [
        row(name, n, None, gflops=(20_000 + 500 * i) * (n / 8192) ** 0.3,
            arithmetic_intensity=30.0 + i)
        for i, name in enumerate(names)
        for n in (512, 1024, 8192)
    ]  # fmt: skip


def awkward() -> dict[str, list[Row]]:
    host = {"runner": "cpu", "device": "A processor with a name too long for a line, of 2 cores",
            "device_uuid": "", "roof_percent": None, "cache": "hot"}  # fmt: skip
    return {
        "h200": list(read_rows(H200)),
        "sweep": sweep(),
        "one": [row()],
        "library": [*sweep(), *libraries()],
        "ladder": [*ladder(), *libraries()],
        "failures": [*sweep(), bad("timeout", n=2048), bad("skipped", n=4096, tile=32)],
        "host": [replace(each, **host) for each in sweep()],
        "rectangular": [*sweep(), row(n=1024, m=4096, k=8192)],
        "sizes": [row(n=n, gflops=40_000.0) for n in range(1000, 3100, 100)],
        "names": [
            row(f"{'long_' * 30}{i}", params=" ".join(f"PARAMETER{j}={i}{j}" for j in range(40)))
            for i in range(3)
        ],
        "signs": [row("a $x_1^2$ & <b> _c"), row("_hidden")],
    }


AWKWARD = awkward()


@pytest.fixture(params=[(name, kind) for name in AWKWARD for kind in plotting.KINDS], ids="-".join)
def picture(request: pytest.FixtureRequest, drawing: None) -> Any:
    name, kind = request.param
    return plotting.figure(one(AWKWARD[name]), kind)


def test_no_text_is_small_clipped_or_covered(picture: Any) -> None:
    shown = texts(picture)
    assert len(shown) >= 5
    assert [text.get_text() for text in shown if text.get_size() < 9] == []
    width, height = picture.get_size_inches() * picture.dpi
    boxes = [(text.get_text(), text.get_window_extent().padded(-0.5)) for text in shown]
    for text, box in boxes:
        inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= width and box.y1 <= height
        assert inside, text
    covered = [
        (text, other)
        for i, (text, box) in enumerate(boxes)
        for other, its in boxes[:i]
        if box.overlaps(its)
    ]
    assert covered == []


def test_pictures_are_as_wide_as_a_page_of_text(drawing: None) -> None:
    for kind in plotting.KINDS:
        width, height = plotting.figure(one(sweep()), kind).get_size_inches()
        assert width == pytest.approx(6.3)
        assert height < 9


def test_names_are_drawn_as_they_are(drawing: None) -> None:
    for kind in plotting.KINDS:
        shown = words(plotting.figure(one(AWKWARD["signs"]), kind))
        assert {"a $x_1^2$ & <b> _c", "_hidden"} <= set(shown), kind


# ---- files ----


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    path.write_text(csv_header() + "".join(map(row_line, rows)), encoding="utf-8")
    return path


@pytest.mark.usefixtures("drawing")
class TestFiles:
    def test_each_kind_and_format_is_a_file(self, tmp_path: Path) -> None:
        from matplotlib.image import imread

        path = write_csv(tmp_path / "first.csv", sweep())
        written = plotting.write([path], tmp_path / "new" / "folder")
        assert [each.name for each in written] == [
            "first-speed.png", "first-speed.svg", "first-tiles.png", "first-tiles.svg",
            "first-roofline.png", "first-roofline.svg",
        ]  # fmt: skip
        for each in written[::2]:
            assert imread(each).shape[1] == 1260  # 6.3 inches of 200 dots

    def test_an_svg_keeps_its_text_and_needs_no_image(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "first.csv", [*sweep(), row("a<b $x_1^2$", tile=8)])
        for written in plotting.write([path], tmp_path, formats=["svg"]):
            text = written.read_text(encoding="utf-8")
            shown = re.findall(r"<text [^>]*>([^<]*)</text>", text)
            assert {"alpha", "beta", "a&lt;b $x_1^2$"} <= set(shown), written.name
            assert "<image" not in text

    def test_the_same_rows_give_the_same_bytes(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "first.csv", sweep())
        first = [each.read_bytes() for each in plotting.write([path], tmp_path)]
        assert [each.read_bytes() for each in plotting.write([path], tmp_path)] == first

    def test_a_users_own_settings_change_nothing(self, tmp_path: Path) -> None:
        import matplotlib as mpl

        path = write_csv(tmp_path / "first.csv", sweep())
        first = [each.read_bytes() for each in plotting.write([path], tmp_path)]
        with mpl.rc_context({"font.size": 20, "lines.linewidth": 9, "axes.facecolor": "red"}):
            assert [each.read_bytes() for each in plotting.write([path], tmp_path)] == first
            assert mpl.rcParams["font.size"] == 20

    def test_files_of_one_device_are_one_picture(self, tmp_path: Path) -> None:
        a = write_csv(tmp_path / "a.csv", [row()])
        b = write_csv(tmp_path / "b.csv", [row("beta")])
        (written,) = plotting.write([a, b], tmp_path, ["speed"], ["svg"])
        assert written.name == "nvidia-test-speed.svg"
        assert {">alpha<", ">beta<"} <= set(re.findall(">alpha<|>beta<", written.read_text()))

    def test_files_of_two_devices_are_two_pictures(self, tmp_path: Path) -> None:
        a = write_csv(tmp_path / "a.csv", [row()])
        b = write_csv(tmp_path / "b.csv", [row("beta", device="Other", device_uuid="GPU-2")])
        written = plotting.write([a, b], tmp_path, ["speed"], ["svg"])
        assert [each.name for each in written] == ["a-speed.svg", "b-speed.svg"]
        assert ">beta<" not in written[0].read_text()

    def test_a_folder_that_cannot_be_is_said(self, tmp_path: Path) -> None:
        path = write_csv(tmp_path / "a.csv", [row()])
        with pytest.raises(UsageError, match=r"cannot write .*a-speed"):
            plotting.write([path], path, ["speed"], ["png"])


def test_nothing_right_is_nothing_to_draw(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "bad.csv", [bad("wrong")])
    with pytest.raises(UsageError, match="no row with status ok"):
        study.read_studies([path])


def test_a_json_of_something_else_is_said(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "a.csv", [row()])
    (tmp_path / "a.json").write_text("[1, 2")
    with pytest.raises(UsageError, match=r"a\.json is not the JSON of a\.csv"):
        study.read_studies([path])


def test_the_h200s_own_environment_is_read() -> None:
    (found,) = study.read_studies([H200])
    assert found.roof_gflops == pytest.approx(ROOF)
    assert found.dram_peak_gbs == pytest.approx(PEAK)
    assert "results" not in study.read_environment(H200)["runs"][0]


@pytest.mark.parametrize(
    ("library", "draw"),
    [
        ("matplotlib", lambda folder: plotting.write([H200], folder)),
        ("plotext", lambda folder: plotting.terminal([H200], 80, 24, False)),
    ],
)
def test_a_missing_library_is_named_with_its_cure(
    library: str, draw: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=rf"{library}.*pip install \"mmbench\[plot\]\""):
        draw(tmp_path)


# ---- in the terminal ----


@pytest.mark.usefixtures("typing_out")
class TestTerminal:
    @pytest.mark.parametrize("width", [40, 80, 120, 200])
    @pytest.mark.parametrize("name", AWKWARD)
    def test_nothing_is_wider_than_asked(self, name: str, width: int) -> None:
        from mmbench.plotting import text_picture

        shown = text_picture.draw(one(AWKWARD[name]), width, 24, False).splitlines()
        assert max(map(len, shown)) <= width
        assert max(map(len, shown)) >= width * 0.7 or name == "host"

    @pytest.mark.parametrize("width", [80, 120])
    def test_the_h200s_lines_have_marks_names_and_units(self, width: int) -> None:
        shown = plotting.terminal([H200], width, 24, False)
        assert "\x1b" not in shown
        for name, mark in zip(one(AWKWARD["h200"]).kernels, "ox+*", strict=False):
            assert re.search(rf"{re.escape(mark)} {name}$", shown, re.MULTILINE), name
        assert "roof 66,908" in shown
        assert "GFLOP/s (log scale)" in shown
        title = " ".join(shown.split("GFLOP/s (log")[0].split())
        assert "NVIDIA H200, float32, cold L2, 2026-11-30" in title
        assert re.search(r"256 +512 +1024 +2048 +4096 +8192", shown)

    def test_marks_stand_where_their_rates_are(self, tmp_path: Path) -> None:
        rows = [row(n=256, gflops=100.0), row(n=512, gflops=10_000.0),
                row("beta", n=256, gflops=10_000.0), row("beta", n=512, gflops=10_000.0),
                bad("wrong", kernel="gamma")]  # fmt: skip
        path = write_csv(tmp_path / "a.csv", rows)
        shown = plotting.terminal([path], 80, 24, False)
        inside = [
            re.split("[│┤]", line)[1] for line in shown.splitlines() if re.search("[│┤]", line)
        ]
        first = [i for i, line in enumerate(inside) if re.match(r"\s+o", line)]
        second = [i for i, line in enumerate(inside) if re.match(r"\s+x", line)]
        assert len(first) == len(second) == 1
        assert first[0] > second[0]  # lower in the picture
        assert "gamma" not in shown

    def test_colour_is_for_those_who_ask(self) -> None:
        coloured = plotting.terminal([H200], 100, 24, True)
        assert "\x1b[" in coloured
        bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
        assert [line.rstrip() for line in bare.splitlines()] == plotting.terminal(
            [H200], 100, 24, False
        ).splitlines()

    def test_a_plain_terminal_gets_plain_characters(self) -> None:
        assert plotting.terminal([H200], 80, 24, False, plain=True).isascii()

    def test_a_second_picture_is_like_the_first(self) -> None:
        """The library keeps one figure for all; nothing of the last may stay in it."""
        import plotext

        first = plotting.terminal([H200], 80, 24, False)
        plotting.terminal([H200], 120, 30, True)
        plotext.figure.draw(plotext.figure.signal([8.0, 13.0], [3.5, 4.5], marker="Z").lines())
        assert plotting.terminal([H200], 80, 24, False) == first

    def test_too_little_room_is_said(self) -> None:
        with pytest.raises(UsageError, match="needs 40 columns and 12 lines, here are 20 and 24"):
            plotting.terminal([H200], 20, 24, False)


# ---- names beside lines ----


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_names_are_apart_in_bounds_and_in_order(wanted: list[float]) -> None:
    gap = 1 / 20
    placed = placing.apart(wanted, gap, 0.0, 1.0)
    assert all(-1e-9 <= each <= 1 + 1e-9 for each in placed)
    ordered = sorted(placed)
    assert all(b - a >= gap - 1e-9 for a, b in pairwise(ordered))
    ranks = sorted(range(len(wanted)), key=lambda i: wanted[i])
    assert [placed[i] for i in ranks] == ordered


def test_names_with_room_stay_where_they_want_to_be() -> None:
    assert placing.apart([0.9, 0.1, 0.5], 0.1, 0.0, 1.0) == [0.9, 0.1, 0.5]
    assert placing.apart([0.5, 0.5], 0.2, 0.0, 1.0) == pytest.approx([0.4, 0.6])


def test_looks_repeat_late() -> None:
    looks = [style.look(i) for i in range(56)]
    assert len({(look.colour, look.mark) for look in looks}) == 56
    assert len({look.mark for look in looks[:8]}) == 8
