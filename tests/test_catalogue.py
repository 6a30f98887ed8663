"""Every kernel of the catalogue keeps the contract, a new one by existing."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from mmbench import kernels
from mmbench.errors import HeaderError, UsageError
from mmbench.product import Problem
from mmbench.spec import KernelSpec, Point

EVERY = pytest.mark.parametrize("name", kernels.names())
BARRIER = re.compile(r"__sync(threads|warp)\w*\s*\(")


def points(spec: KernelSpec, *problems: Problem) -> list[Point]:
    """The points of a kernel's own parameters at these problems, where its conditions hold."""
    found = [
        Point(spec, problem, dict(zip(spec.params, values, strict=True)))
        for problem in problems
        for values in product(*spec.params.values())
        if problem.square or spec.rectangular
    ]
    return [
        point
        for point in found
        if all(condition.value(point.names) for condition, _ in spec.requires)
    ]


def without_comments(source: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)


def test_there_are_kernels() -> None:
    assert {"naive", "tiled"} <= set(kernels.names())
    files = Path(kernels.__file__).parent.glob("*.cu")
    assert kernels.names() == sorted(path.stem for path in files)


@EVERY
def test_header_is_read(name: str) -> None:
    spec = kernels.get(name)
    assert spec.name == name
    assert spec.summary.endswith(".")
    assert len(spec.summary) <= 90


@EVERY
def test_entry_is_a_kernel_of_the_file(name: str) -> None:
    spec = kernels.get(name)
    code = without_comments(spec.source)
    assert re.search(rf"__global__\b[^;{{}}]*\b{spec.entry}\s*\(", code)


@EVERY
def test_launch_fits_at_each_declared_tile(name: str) -> None:
    found = points(kernels.get(name), Problem(1024, 1024, 1024), Problem(100, 1000, 17))
    assert found, "no declared point meets the kernel's own conditions at N=1024"
    for point in found:
        launch = point.launch()
        assert 1 <= launch.threads <= 1024, str(point)
        assert min(launch.grid) >= 1, str(point)


@EVERY
def test_declared_traffic_is_possible(name: str) -> None:
    for point in points(kernels.get(name), Problem(1024, 1024, 1024), Problem(100, 1000, 17)):
        m, n, k = point.problem.m, point.problem.n, point.problem.k
        assert point.traffic().reads >= m * k + k * n, str(point)
        assert point.traffic().writes >= m * n, str(point)


@EVERY
def test_after_names_another_kernel(name: str) -> None:
    after = kernels.get(name).after
    assert after is None or (after in kernels.names() and after != name)


@EVERY
def test_lines_are_short(name: str) -> None:
    lines = kernels.get(name).source.split("\n")
    assert [(i, line) for i, line in enumerate(lines, 1) if len(line) > 100] == []
    assert [i for i, line in enumerate(lines, 1) if line != line.rstrip() or "\t" in line] == []


@EVERY
def test_each_barrier_says_why(name: str) -> None:
    lines = kernels.get(name).source.split("\n")
    silent = [
        i + 1
        for i, line in enumerate(lines)
        if BARRIER.search(line.split("//")[0])
        and "//" not in line
        and not lines[i - 1].strip().startswith("//")
    ]
    assert silent == [], f"{name}.cu: a barrier without a comment"


def test_ladder_holds_each_kernel_behind_the_one_it_improves_on() -> None:
    order = [spec.name for spec in kernels.ladder()]
    assert sorted(order) == kernels.names()
    for spec in kernels.ladder():
        if spec.after is not None:
            assert order.index(spec.after) < order.index(spec.name)


def test_none_named_selects_the_default_ones() -> None:
    chosen = kernels.select([])
    assert {"naive", "tiled"} <= {spec.name for spec in chosen}
    assert chosen == [spec for spec in kernels.ladder() if spec.default]


def test_those_named_are_selected_once_in_order() -> None:
    chosen = kernels.select(["tiled", "naive", "tiled"])
    assert [spec.name for spec in chosen] == ["tiled", "naive"]


@pytest.mark.parametrize(
    ("name", "near"), [("tield", "tiled"), ("Naive", "naive"), ("uncoalesce", "uncoalesced")]
)
def test_unknown_name_suggests_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError) as caught:
        kernels.get(name)
    assert caught.value.message == f'no kernel is called "{name}"; did you mean "{near}"?'


def test_unknown_name_without_a_near_one_lists_all() -> None:
    with pytest.raises(UsageError) as caught:
        kernels.get("zzzzzz")
    assert f"known: {', '.join(kernels.names())}" in caught.value.message


def test_path_reads_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = kernels.get("naive").source.replace("matmul_naive", "matmul_mine")
    for name in ("mine.cu", "mine.cuh"):
        Path(name).write_text(text)
        for path in (name, f"./{name}", str(tmp_path / name)):
            assert kernels.get(path).entry == "matmul_mine"


def test_file_in_this_folder_does_not_hide_a_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("naive").write_text("not a kernel")
    assert kernels.get("naive").path.parent == Path(kernels.__file__).parent


def test_path_that_is_missing() -> None:
    with pytest.raises(HeaderError, match=r"^absent\.cu: no such file$"):
        kernels.get("absent.cu")


def catalogue(folder: Path, monkeypatch: pytest.MonkeyPatch, **after: str | None) -> None:
    """Replace the catalogue by kernels with these ``after`` lines."""
    source = kernels.get("naive").source.replace('// after     = "uncoalesced"\n', "")
    for name, other in after.items():
        text = source.replace("matmul_naive", f"matmul_{name}")
        line = "" if other is None else f'// after = "{other}"\n'
        text = text.replace("// /// kernel\n", f"// /// kernel\n{line}")
        (folder / f"{name}.cu").write_text(text)
    monkeypatch.setattr(kernels, "_FOLDER", folder)


def test_a_file_is_all_a_kernel_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue(tmp_path, monkeypatch, z=None, a="m", m="z", b="z", c=None)
    (tmp_path / "notes.txt").write_text("no kernel")
    assert kernels.names() == ["a", "b", "c", "m", "z"]
    assert [spec.name for spec in kernels.ladder()] == ["c", "z", "b", "m", "a"]


def test_after_that_names_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue(tmp_path, monkeypatch, a=None, b="absent")
    with pytest.raises(HeaderError) as caught:
        kernels.ladder()
    path = tmp_path / "b.cu"
    assert re.match(rf'{re.escape(str(path))}(:\d+)?: after = "absent"', caught.value.message)


def test_after_lines_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalogue(tmp_path, monkeypatch, a=None, b="d", c="b", d="c")
    with pytest.raises(HeaderError, match="the after lines of b, c, d form a circle"):
        kernels.ladder()
