"""The search for parameters: what is tried, who wins, and what is kept."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmbench import axes, kernels, tuned, tuning
from mmbench.bench import Measured
from mmbench.errors import UsageError
from mmbench.product import Problem
from mmbench.results import Row
from mmbench.spec import KernelSpec, Point

N = Problem(64, 64, 64)
VALUES = (1, 2, 4, 8, 16, 32, 64)
SPEC = replace(kernels.get("tiled"), params={"BM": VALUES, "BN": VALUES, "TILE_SIZE": (8, 16)})


def measured(point: Point, milliseconds: float, **cells: Any) -> Measured:
    known: dict[str, Any] = {
        "timestamp": "", "mmbench_version": "", "runner": "cuda", "device": "", "device_uuid": "",
        "kernel": "k", "source_sha256": "", "dtype": "float32", "m": 8, "n": 8, "k": 8,
        "tile_size": 8, "params": str(dict(point.params)), "status": "ok",
        "time_ms_median": milliseconds,
    }  # fmt: skip
    generator = random.Random(0)
    samples = tuple(milliseconds / 1e3 * generator.uniform(0.999, 1.001) for _ in range(20))
    return Measured(point, Row(**(known | cells)), (samples,))


def bowl(point: Point) -> float:
    """A space with one lowest place, at BM = 16 and BN = 4."""
    return 1 + abs(VALUES.index(point.params["BM"]) - 4) + abs(VALUES.index(point.params["BN"]) - 2)


class Bowl:
    def __init__(self) -> None:
        self.points: list[Point] = []

    def __call__(self, points: Sequence[Point]) -> list[Measured]:
        self.points += points
        return [measured(point, bowl(point)) for point in points]


def space() -> list[Point]:
    return tuning.space(SPEC, N, {"TILE_SIZE": (16,)}, lambda point: True)


def test_the_space_is_all_that_fits() -> None:
    assert len(space()) == 49
    small = tuning.space(SPEC, N, {}, lambda point: point.params["BM"] < 4)
    assert {point.params["BM"] for point in small} == {1, 2}
    assert len(small) == 2 * 7 * 2


def test_a_small_space_is_tried_whole() -> None:
    bowl_of = Bowl()
    assert len(tuning.explore(space(), 49, 0, bowl_of)) == 49


@given(st.integers(0, 1000))
def test_a_large_space_is_searched_downhill_and_within_the_budget(seed: int) -> None:
    bowl_of = Bowl()
    found = tuning.explore(space(), 30, seed, bowl_of)
    assert len(found) <= 30
    tried = [tuple(sorted(point.params.items())) for point in bowl_of.points]
    assert len(set(tried)) == len(tried)  # none twice
    best = tuning.fastest(found)[0].point
    assert bowl(best) <= 2  # at the lowest place, or a step from it


def test_wrong_and_implausible_ones_cannot_win() -> None:
    a, b, c = space()[:3]
    found = [
        measured(a, 1.0, status="wrong"),
        measured(b, 2.0, remarks="implausible: too fast"),
        measured(c, 3.0),
    ]
    assert [each.point for each in tuning.fastest(found)] == [c]
    won = tuning.winner(found, found, 0.01)
    assert won is not None
    assert (won.measured.point, won.wrong, won.tried) == (c, 1, 3)
    assert tuning.winner([found[0]], found, 0.01) is None


def test_the_final_is_among_the_close_ones_and_shows_ties() -> None:
    a, b, c = space()[:3]
    found = [measured(a, 1.0), measured(b, 1.004), measured(c, 1.2)]
    assert tuning.finalists(found) == [a, b]
    won = tuning.winner([measured(a, 1.0), measured(b, 1.004)], found, 0.01)
    assert won is not None
    assert won.measured.point == a
    assert [tie.point for tie in won.ties] == [b]
    won = tuning.winner([measured(a, 1.0), measured(b, 1.04)], found, 0.01)
    assert won is not None
    assert won.ties == ()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MMBENCH_CONFIG", str(tmp_path / "config"))
    return tmp_path / "config" / "tuned.json"


def test_a_winner_is_kept_for_its_device_kernel_and_problem(config: Path) -> None:
    tiled = kernels.get("tiled")
    assert tuned.find("Card", tiled, N) is None
    tuned.save("Card", tiled, N, {"TILE_SIZE": 8})
    tuned.save("Card", tiled, Problem(4096, 4096, 4096), {"TILE_SIZE": 32})
    tuned.save("Card", tiled, N, {"TILE_SIZE": 16})  # replaces the first
    assert config.read_text().count("TILE_SIZE") == 2
    assert tuned.find("Card", tiled, N) == {"TILE_SIZE": 16}
    assert tuned.find("Card", tiled, Problem(100, 100, 100)) == {"TILE_SIZE": 16}  # the nearest
    assert tuned.find("Card", tiled, Problem(2000, 2000, 2000)) == {"TILE_SIZE": 32}
    assert tuned.find("Other", tiled, N) is None
    assert tuned.find("Card", kernels.get("naive"), N) is None


def test_an_edited_kernel_has_no_winner(config: Path) -> None:
    tiled = kernels.get("tiled")
    tuned.save("Card", tiled, N, {"TILE_SIZE": 8})
    assert tuned.find("Card", replace(tiled, source=tiled.source + "// edited\n"), N) is None


def test_a_broken_file_counts_as_empty(config: Path) -> None:
    config.parent.mkdir()
    config.write_text("{")
    assert tuned.find("Card", kernels.get("tiled"), N) is None
    tuned.save("Card", kernels.get("tiled"), N, {"TILE_SIZE": 8})
    assert tuned.find("Card", kernels.get("tiled"), N) == {"TILE_SIZE": 8}


@pytest.mark.parametrize("text", ["5", "[5]", '{"a": 1}', '[{"m": 64}]', '[{"params": 5}]'])
def test_a_file_of_another_shape_counts_as_empty(config: Path, text: str) -> None:
    config.parent.mkdir()
    config.write_text(text)
    assert tuned.find("Card", kernels.get("tiled"), N) is None
    tuned.save("Card", kernels.get("tiled"), N, {"TILE_SIZE": 8})
    assert tuned.find("Card", kernels.get("tiled"), N) == {"TILE_SIZE": 8}


@pytest.mark.parametrize("each", [{"params": {"TILE_SIZE": 8}}, {"m": 0, "params": {}}, {"m": "x"}])
def test_a_winner_that_lacks_something_is_none(config: Path, each: dict[str, Any]) -> None:
    tuned.save("Card", kernels.get("tiled"), N, {"TILE_SIZE": 8})
    (kept,) = json.loads(config.read_text())
    del kept["m"]
    config.write_text(json.dumps([kept | each]))
    assert tuned.find("Card", kernels.get("tiled"), N) is None


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("MMBENCH_CONFIG", str(blocked / "config"))
    with pytest.raises(UsageError, match="cannot be written"):
        tuned.save("Card", kernels.get("tiled"), N, {"TILE_SIZE": 8})


def chosen(spec: KernelSpec, **options: Any) -> list[dict[str, int]]:
    return [dict(point.params) for point in axes.points([spec], [N], **options)]


def test_what_decides_a_parameter() -> None:
    """The command line before the tuning, the tuning before the header."""
    first = {"BM": 1, "BN": 1}
    assert chosen(SPEC) == [{**first, "TILE_SIZE": 8}, {**first, "TILE_SIZE": 16}]
    winner = {"BM": 4, "TILE_SIZE": 16}
    assert chosen(SPEC, tuned=lambda spec, problem: winner) == [{**winner, "BN": 1}]
    found = chosen(SPEC, params={"BM": (2, 8)}, tiles=(8,), tuned=lambda spec, problem: winner)
    assert found == [{"BM": 2, "BN": 1, "TILE_SIZE": 8}, {"BM": 8, "BN": 1, "TILE_SIZE": 8}]


def test_what_is_given_is_not_looked_up() -> None:
    """Nor said to be "as tuned" then."""

    def fail(spec: KernelSpec, problem: Problem) -> dict[str, int]:
        raise AssertionError("looked up")

    chosen(SPEC, params={"BM": (2,), "BN": (1,)}, tiles=(8,), tuned=fail)


def test_an_unknown_parameter_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="none of the kernels has a parameter BK; known: BM, BN"):
        chosen(SPEC, params={"BK": (8,)})
