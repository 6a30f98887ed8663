"""ncu's answer, the checked build's counts and the header's model, side by side."""

from __future__ import annotations

import pytest

from mmbench import axes, kernels, profiling
from mmbench.errors import LaunchError, MmbenchError
from mmbench.spec import Point


@pytest.fixture
def point() -> Point:
    return axes.points([kernels.get("tiled")], axes.problems([32]), [16])[0]


def answer(**changed: str) -> str:
    """A raw page as ncu prints it: remarks, names, units, one launch."""
    values = {each.counter: str(1000 * (i + 1)) for i, each in enumerate(profiling.COUNTERS)}
    values |= changed
    lines = [["ID", "Kernel Name", *values], ["", "", *("" for _ in values)]]
    lines.append(["0", "matmul_tiled(const float *, int)", *values.values()])
    rows = [",".join(f'"{cell}"' for cell in line) for line in lines]
    return "==PROF== Connected\n==PROF== Profiling\n" + "\n".join(rows) + "\n"


def test_values_are_read_by_name_with_thousands_commas() -> None:
    name = profiling.COUNTERS[0].counter
    assert profiling.read_counters(answer(**{name: "1,317,376"}))[name] == 1317376.0


def test_no_launch_is_told_with_ncus_words() -> None:
    with pytest.raises(LaunchError, match="no kernels were profiled"):
        profiling.read_counters("==ERROR== no kernels were profiled\n")


def test_a_counter_that_the_gpu_lacks_is_told() -> None:
    name = profiling.COUNTERS[0].counter
    with pytest.raises(MmbenchError, match="no value"):
        profiling.read_counters(answer(**{name: "n/a"}))


@pytest.mark.cpu
def test_counted_equals_the_closed_form_of_a_tiled_kernel(point: Point) -> None:
    counted = profiling.count(point)
    loads = 2 * 32 * 32 * (32 // 16) // 32
    assert counted["global load requests"] == loads
    assert counted["global load sectors"] == 4 * loads  # two rows of 64 bytes each
    assert counted["shared load bank conflicts"] == 0


@pytest.mark.cpu
def test_columns_keep_model_counted_and_measured_apart(
    point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiling, "measure", lambda point: profiling.read_counters(answer()))
    rows = {row.name: row for row in profiling.profile(point)}
    requests = rows["global load requests"]
    assert (requests.model, requests.counted, requests.measured) == (128.0, 128, 1000.0)
    assert rows["L2 traffic"].model is None
    assert rows["L2 traffic"].counted is None
    assert rows["DRAM read"].model == 2 * 32 * 32 * 4


def test_the_command_leaves_the_clocks_alone(point: Point, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "find_tool", lambda *names: "/somewhere/ncu")
    command = profiling.ncu_command(point)
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[-4:] == ["32", "32", "32", "TILE_SIZE=16"]
