"""A report: one page of HTML that holds everything and asks the network for nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmbench.results import Row


def render(rows: Sequence[Row], environment: Mapping[str, Any]) -> str:
    """The page of these rows. ``environment`` is what ``plotting.study.read_environment`` returns.

    Works without matplotlib too: the page says then that its pictures are left out.
    """
    from mmbench.plotting.study import studies
    from mmbench.report import page, sections

    found = studies(rows, environment)
    parts = (
        sections.summary(found),
        sections.reading(rows),
        sections.pictures(found),
        sections.all_rows(rows),
        sections.failures(rows),
        sections.surroundings(environment),
    )
    return page.page(sections.title(rows), sections.header(rows), [part for part in parts if part])


def of_file(path: Path) -> str:
    """The page of a CSV of results and the JSON beside it. UsageError where it cannot be read."""
    from mmbench.csvfile import read_rows
    from mmbench.errors import UsageError
    from mmbench.plotting.study import read_environment

    rows = read_rows(path)
    if not rows:
        raise UsageError(f"{path} has no rows, so there is nothing to report; measure first")
    return render(rows, read_environment(path))
