"""SARIF as code hosts read it: rules, levels, and a place for each finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmbench import axes, kernels
from mmbench.check.report import Finding, KernelFinding, KernelReport
from mmbench.check.sarif import to_sarif


def report(*findings: Finding) -> KernelReport:
    spec = kernels.get("tiled")
    point = axes.points([spec], axes.problems([8]), [8])[0]
    return KernelReport(spec, (), tuple(KernelFinding(f, point, 1) for f in findings))


RACE = Finding(
    kind="shared-race", message="sA[0][1] is written here", line=12, column=9,
    path="/somewhere/mine.cu", other_line=15, hint="Put a barrier.",
)  # fmt: skip
NOTE = Finding(kind="stale-shared", message="old", line=3, path="/somewhere/mine.cu")


def test_a_finding_has_its_rule_level_message_and_place() -> None:
    (run,) = to_sarif([report(RACE)])["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "shared-race"
    assert result["level"] == "error"
    assert "sA[0][1]" in result["message"]["text"]
    assert "Put a barrier." in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 12, "startColumn": 9}
    assert place["artifactLocation"]["uri"] == "file:///somewhere/mine.cu"
    related = result["relatedLocations"][0]["physicalLocation"]
    assert related["region"] == {"startLine": 15}


def test_a_note_is_a_note_and_rules_are_listed_once() -> None:
    (run,) = to_sarif([report(RACE, NOTE, RACE)])["runs"]
    assert [result["level"] for result in run["results"]] == ["error", "note", "error"]
    assert len(run["tool"]["driver"]["rules"]) == 2


def test_paths_below_the_working_folder_are_relative(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir("/")
    (run,) = to_sarif([report(RACE)])["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "somewhere/mine.cu"


def test_no_finding_is_still_a_run() -> None:
    value = to_sarif([report()])
    assert json.loads(json.dumps(value))["version"] == "2.1.0"
    assert value["runs"][0]["results"] == []


def test_a_finding_without_a_line_points_at_the_first() -> None:
    missing = Finding(kind="stale-shared", message="x", path=str(Path("mine.cu")))
    (run,) = to_sarif([report(missing)])["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 1
    assert place["artifactLocation"]["uri"] == "mine.cu"
