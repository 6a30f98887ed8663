"""A report in SARIF 2.1.0, with which code hosts show findings at their lines.

The format: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmbench import __version__
from mmbench.check.kinds import KINDS
from mmbench.check.report import Finding, KernelReport

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "note": "note"}


def to_sarif(reports: list[KernelReport]) -> dict[str, Any]:
    """One run of mmbench with the findings of all reports; paths relative where possible."""
    found = [merged.finding for report in reports for merged in report.findings]
    used = sorted({finding.kind for finding in found})
    rules = [
        {
            "id": slug,
            "shortDescription": {"text": KINDS[slug].explanation},
            "defaultConfiguration": {"level": _LEVELS[KINDS[slug].severity]},
        }
        for slug in used
    ]
    driver = {"name": "mmbench check", "version": __version__, "rules": rules}
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(f, used) for f in found]}],
    }


def _result(finding: Finding, rules: list[str]) -> dict[str, Any]:
    text = f"{finding.message}. {finding.hint}".strip() if finding.hint else finding.message
    result: dict[str, Any] = {
        "ruleId": finding.kind,
        "ruleIndex": rules.index(finding.kind),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [_location(finding, finding.line, finding.column)],
    }
    if finding.other_line:
        other = _location(finding, finding.other_line, 0)
        other["message"] = {"text": "the other access"}
        other["id"] = 1
        result["relatedLocations"] = [other]
    return result


def _location(finding: Finding, line: int, column: int) -> dict[str, Any]:
    path = Path(finding.path)
    if path.is_absolute() and path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    region: dict[str, Any] = {"startLine": max(1, line)}
    if column:
        region["startColumn"] = column
    uri = path.as_uri() if path.is_absolute() else path.as_posix()
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
