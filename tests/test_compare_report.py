"""What CI is told of a comparison: verdicts at a margin, exit codes, Markdown and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mmbench.cli import cli
from mmbench.compare import Comparison, Ratio, geometric_mean
from mmbench.compare_report import to_json, to_markdown
from mmbench.csvfile import CsvWriter
from mmbench.results import Row


def row(milliseconds: float | None, half: float = 0.001, **cells: Any) -> Row:
    known: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00", "mmbench_version": "0.1.0", "runner": "cuda",
        "device": "Card", "device_uuid": "GPU-1", "kernel": "mine", "source_sha256": "",
        "dtype": "float32", "m": 64, "n": 32, "k": 16, "tile_size": 16, "params": "TILE_SIZE=16",
        "cache": "cold", "driver": "580", "compiler": "nvcc 13.0", "sm_clock_mhz": 1980,
        "status": "ok" if milliseconds else "wrong", "time_ms_median": milliseconds,
    }  # fmt: skip
    if milliseconds:
        known |= {"time_ms_low": milliseconds - half, "time_ms_high": milliseconds + half}
    return Row(**(known | cells))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.03, 1.05, "faster"),
        (1.01, 1.03, "unclear"),
        (0.99, 1.01, "same"),
        (1.001, 1.002, "same"),  # surely faster, but by less than counts
        (0.97, 1.03, "unclear"),
        (0.95, 0.97, "slower"),
        (0.97, 0.99, "unclear"),
    ],
)
def test_a_verdict_needs_all_of_the_interval(low: float, high: float, verdict: str) -> None:
    assert Ratio(1.0, low, high, 0.02).verdict == verdict


@given(st.floats(0.5, 2), st.floats(1, 1.2), st.floats(0, 0.2))
def test_swapping_the_two_swaps_the_verdict(value: float, width: float, margin: float) -> None:
    there = Ratio(value, value / width, value * width, margin).verdict
    back = Ratio(1 / value, 1 / (value * width), width / value, margin).verdict
    assert back == {"faster": "slower", "slower": "faster"}.get(there, there)


def test_without_an_interval_it_is_unclear() -> None:
    assert Ratio(2.0).verdict == "unclear"


def files(folder: Path, old: Row, new: Row) -> list[str]:
    paths = []
    for name, each in (("old.csv", old), ("new.csv", new)):
        with CsvWriter(folder / name, append=False) as writer:
            writer.write(each)
        paths.append(str(folder / name))
    return paths


@pytest.mark.parametrize(
    ("new", "options", "code"),
    [
        (row(1.10), [], 0),
        (row(1.10), ["--fail-on", "slower"], 3),
        (row(1.10), ["--fail-on", "slower", "--margin", "20%"], 0),
        (row(1.10), ["--fail-on", "slower", "--margin", "0.2"], 0),
        (row(0.90), ["--fail-on", "slower"], 0),
        (row(1.00), ["--fail-on", "slower"], 0),
        (row(1.00, half=0.2), ["--fail-on", "slower"], 4),
        (row(1.00, remarks="implausible: x"), ["--fail-on", "slower"], 4),
        (row(None), ["--fail-on", "slower"], 1),
    ],
)
def test_exit_codes(tmp_path: Path, new: Row, options: list[str], code: int) -> None:
    paths = files(tmp_path, row(1.0), new)
    answer = CliRunner().invoke(cli, ["compare", *paths, *options], standalone_mode=False)
    assert answer.return_value == code, answer.output


@pytest.mark.parametrize("margin", ["two", "-1%", "100%", "%"])
def test_a_margin_that_is_no_share_is_refused(tmp_path: Path, margin: str) -> None:
    paths = files(tmp_path, row(1.0), row(1.0))
    answer = CliRunner().invoke(cli, ["compare", *paths, "--margin", margin])
    assert answer.exit_code == 2
    assert "write 2% or 0.02" in answer.output


FOUND = [
    Comparison(row(2.0, kernel="naive"), row(1.0), Ratio(2.0, 1.99, 2.01), "shared memory"),
    Comparison(row(1.0), row(None), None, "wrong"),
]


def test_the_markdown_is_one_table_with_its_surroundings() -> None:
    text = to_markdown(FOUND, geometric_mean(FOUND))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert len({line.count("|") for line in lines}) == 1
    assert "2.000 (1.990 to 2.010)" in lines[2]
    assert "faster" in lines[2]
    assert "64 x 32 x 16" in lines[2]
    assert "ok → wrong" in lines[3]
    assert "faster" not in lines[3]
    for word in ("Card", "driver 580", "nvcc 13.0", "cold L2", "1,980 MHz", "**2.000**", "1 %"):
        assert word in text


def test_the_markdown_of_the_host_says_so() -> None:
    mine = row(1.0, runner="cpu", driver=None, sm_clock_mhz=None)
    assert "not a GPU's" in to_markdown([Comparison(mine, mine, Ratio(1.0), "")], 1.0)


def test_the_json_holds_both_rows_and_the_verdict() -> None:
    value = json.loads(json.dumps(to_json(FOUND, 2.0), allow_nan=False))
    first, second = value["comparisons"]
    assert value["geometric_mean"] == 2.0
    assert (first["speedup"], first["low"], first["verdict"]) == (2.0, 1.99, "faster")
    assert first["baseline"]["kernel"] == "naive"
    assert second["speedup"] is second["verdict"] is None
    assert second["other"]["status"] == "wrong"


@pytest.mark.parametrize(("form", "word"), [("markdown", "| kernel |"), ("json", '"speedup"')])
def test_the_command_prints_them(tmp_path: Path, form: str, word: str) -> None:
    paths = files(tmp_path, row(1.0), row(1.1))
    answer = CliRunner().invoke(cli, ["compare", *paths, "--format", form])
    assert word in answer.output


def test_what_only_one_file_has_is_told_in_every_form(tmp_path: Path) -> None:
    """A kernel that has vanished must not go unseen in a pull request."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    for path, other in ((old, "gone"), (new, "come")):
        with CsvWriter(path) as writer:
            for params in ("BM=32 TILE_SIZE=16", "BM=64 TILE_SIZE=16"):
                writer.write(row(1.0, params=params))
            writer.write(row(1.0, kernel=other))

    def said(*form: str) -> str:
        answer = CliRunner().invoke(cli, ["compare", str(old), str(new), *form])
        assert answer.exit_code == 0
        return answer.output

    table = said()
    assert "BM=32" in table
    assert "BM=64" in table
    assert "1 point only in the old file" in table
    markdown = said("--format", "markdown")
    assert "Only in the old file: `gone` 64 x 32 x 16 TILE_SIZE=16." in markdown
    assert "Only in the new file: `come` 64 x 32 x 16 TILE_SIZE=16." in markdown
    found = json.loads(said("--format", "json"))
    assert [each["kernel"] for each in found["only_old"]] == ["gone"]
    assert [each["kernel"] for each in found["only_new"]] == ["come"]
