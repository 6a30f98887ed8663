"""The bar counts what has been measured, in whatever order, and never goes back."""

from __future__ import annotations

import io

from rich.console import Console

from mmbench import kernels
from mmbench.product import Problem
from mmbench.progress import ProgressView
from mmbench.spec import Point

NAIVE = kernels.get("naive")


def group(n: int) -> list[Point]:
    return [Point(NAIVE, Problem(n, n, n), {"TILE_SIZE": 16})]


def share(view: ProgressView) -> float:
    bar, task = view._bar
    return bar.tasks[task].percentage


def test_groups_may_end_in_any_order() -> None:
    groups = [group(2048), group(256), group(512)]
    with ProgressView(lambda: Console(file=io.StringIO()), groups) as view:
        shares = []
        for text, done in (
            ("N=256 naive: first launch", groups[1]),
            ("N=2048 naive: first launch", groups[0]),
            ("N=512 naive: first launch", groups[2]),
        ):
            view.update(text, 0.5)
            shares.append(share(view))
            view.advance(done)
            shares.append(share(view))
    assert shares == sorted(shares)
    assert shares[-1] == 100.0
    assert 90 < shares[3] < 100  # the largest is done, a small one is left
