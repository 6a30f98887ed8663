"""What a walk looks like: in a terminal, and as a page in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from mmbench.explain import html_view, text_view
from mmbench.explain.model import Walk
from mmbench.explain.walk import walk
from mmbench.spec import Point
from test_explain_simulator import direct, inputs, point, staged

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def walk_at(at: Point) -> Walk:
    recording = staged(at) if at.spec.name == "tiled" else direct(at)
    return walk(at, (3, 1, 0), recording, *inputs(at))


@pytest.fixture(scope="module")
def tiles() -> Walk:
    return walk_at(point("tiled", 4, 8))


@pytest.fixture(scope="module")
def no_tiles() -> Walk:
    return walk_at(point("naive", 4, 8, 12, 20))


class Ascii(StringIO):
    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "ascii"


def text(found: Walk, width: int, ascii_only: bool = False) -> str:
    stream = Ascii() if ascii_only else StringIO()
    console = Console(file=stream, width=width, highlight=False, color_system=None)
    console.print(text_view.render(found, width))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


PICTURE = """\
                   B               sA = A[4..7][0..3]     sB = B[0..3][4..7]
                  ┌───┬───┐          0   1   2   3          0   1   2   3
                0 │   │ sB│      0   1   2   3  -3      0  -1  -1   0 •-3
                  ├───┼───┤      1 • 4 • 2 • 2 [-1]     1  -3   2  -3 [-1]
                4 │   │░░░│      2   0   4  -2  -3      2   4  -1   3 • 3
                  └───┴───┘      3   3  -3   2   1      3   1  -1   0 •-4
    A              C
   ┌───┬───┐      ┌───┬───┐
 0 │   │   │    0 │   │   │
   ├───┼───┤      ├───┼───┤
 4 │ sA│░░░│    4 │   │ C │
   └───┴───┘      └───┴───┘
"""


def squeezed(shown: str) -> str:
    return re.sub(r" +", " ", shown)


def test_a_step_as_in_a_textbook(tiles: Walk) -> None:
    shown = text(tiles, 80)
    for line in squeezed(PICTURE).splitlines():
        assert line.strip() in squeezed(shown), line
    for sentence in (
        "tiled, N=8, TILE_SIZE=4: block (1, 1), thread (3, 1)",
        "load     A[5][3] = -1 -> sA[1][3]",
        "compute  4*(-3) + 2*(-1) + 2*3 + (-1)*(-4) = -4",
        "sum so far: -4 + 6 = 2",
        "store    C[5][7] = 2",
        "Each element of A is read 2 times instead of N = 8 times.",
    ):
        assert sentence in shown


def test_the_drawing_shows_the_matrices(tiles: Walk) -> None:
    shown = text(tiles, 80)
    assert "[5]│ 4  2  2 -1 │-2  0 -2  0 │" in shown  # the thread's row of A, with its values
    assert "[5]│ ·  ·  ·  · │░░ ░░ ░░ ██ │" in shown  # its element of C, in the block's part


@pytest.mark.parametrize("width", [80, 100, 120, 160])
@pytest.mark.parametrize(
    "at",
    [
        point("tiled", 4, 8), point("tiled", 8, 16), point("tiled", 4, 32), point("tiled", 16, 40),
        point("tiled", 4, 7, 30, 9), point("tiled", 4, 8, 8, 100), point("naive", 8, 20, 24, 100),
        point("naive", 4, 200, 8, 5),
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_wider_than_the_terminal(at: Point, width: int) -> None:
    shown = text(walk_at(at), width)
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("┐") >= 3  # no matrix was cut at its right edge
    assert all(line.count("┌") == line.count("┐") for line in shown.splitlines())


def test_a_narrow_terminal_shows_whole_lines(tiles: Walk) -> None:
    for line in text(tiles, 80).splitlines():
        assert line.count("┌") == line.count("┐")
        assert line.count("[") == line.count("]")


def test_a_long_walk_shows_its_first_and_last_steps() -> None:
    shown = text(walk_at(point("tiled", 4, 8, 8, 64)), 80)
    assert re.findall(r"Step t = (\d+)", shown) == ["0", "1", "15"]
    assert "9 more steps alike" not in shown
    assert re.findall(r"^   t = (\d+)", shown, re.MULTILINE) == ["2", "3", "4", "5", "14"]
    assert "8 more steps alike" in shown


def test_a_walk_without_tiles_shows_first_and_last_products(no_tiles: Walk) -> None:
    shown = text(no_tiles, 80)
    assert "no tiles, no barriers" in shown
    assert re.findall(r"^ *(\d+) +A\[5\]", shown, re.MULTILINE) == ["0", "1", "2", "3", "18", "19"]
    assert "14 more" in shown


def test_a_plain_terminal_gets_plain_characters(tiles: Walk) -> None:
    shown = text(tiles, 80, ascii_only=True)
    assert shown.isascii()
    assert "+---+---+" in shown
    assert "*-3" in shown


def test_a_wrong_result_is_said_without_colour() -> None:
    at = point("tiled", 4, 8)
    found = walk(at, (3, 1, 0), staged(at, swapped=True), *inputs(at))
    assert "check    WRONG: row 5 of A" in text(found, 80)
    assert 'class="bad">WRONG: row 5 of A' in html_view.render(found)


# ---- the page ----


class Balanced(HTMLParser):
    """Fails where a tag is not closed, and collects ids and references."""

    void = frozenset({"meta", "br", "rect", "path", "use", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.void:
            self.open.append(tag)
        self._attributes(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._attributes(attrs)

    def _attributes(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.references.add(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_network(tiles: Walk, no_tiles: Walk) -> None:
    for found in (tiles, no_tiles):
        shown = html_view.render(found)
        assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", shown)
        parser = Balanced()
        parser.feed(shown)
        assert parser.open == []
        assert len(parser.ids) == len(set(parser.ids))
        assert parser.references == {"#sheet"}


def test_the_page_tells_the_same_walk(tiles: Walk) -> None:
    shown = html_view.render(tiles)
    assert shown.count('<section class="step"') == 4  # who, two steps, the result
    for sentence in (
        "4*(-3) + 2*(-1) + 2*3 + (-1)*(-4) = -4", "written by threads (0..3, 1)", "C[5][7] = 2",
        "Each element of A is read 2 times instead of N = 8 times.",
    ):  # fmt: skip
        assert sentence in shown
    assert shown.count('class="own read"') == 4  # its own element of sA and of sB, in two steps
    assert "A[4][0], stored by thread (0, 0)" in shown


def test_what_a_user_writes_is_escaped(tiles: Walk) -> None:
    shown = html_view.render(replace(tiles, kernel="<b>", summary="a < b & c"))
    assert "<b>" not in shown
    assert "a &lt; b &amp; c" in shown


def browse(page: Path, fragment: str) -> str:
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
               f"--user-data-dir={page.parent / 'profile'}", "--dump-dom",
               f"{page.as_uri()}{fragment}"]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def visible(dom: str) -> list[int]:
    sections = re.findall(r'<section class="step" id="frame-(\d+)"( hidden="")?', dom)
    return [int(number) for number, hidden in sections if not hidden]


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
class TestInABrowser:
    @pytest.mark.parametrize(("fragment", "shown"), [("", 0), ("#step=2", 2), ("#step=99", 3)])
    def test_a_step_is_shown_alone(
        self, tiles: Walk, tmp_path: Path, fragment: str, shown: int
    ) -> None:
        page = tmp_path / "walk.html"
        page.write_text(html_view.render(tiles), encoding="utf-8")
        dom = browse(page, fragment)
        assert '<html lang="en" class="js">' in dom
        assert visible(dom) == [shown]
        assert f"{shown + 1} of 4" in dom

    def test_keys_and_buttons_turn_the_pages(self, tiles: Walk, tmp_path: Path) -> None:
        """A script presses them; what it saw is in the page's title."""
        press = """<script>
        var seen = [];
        function look() {
          seen.push(document.querySelector("section.step:not([hidden])").id.slice(6)); }
        function key(name) {
          document.dispatchEvent(new KeyboardEvent("keydown", { key: name, cancelable: true }));
          look(); }
        key("ArrowRight"); key("ArrowRight"); key("ArrowLeft"); key("End"); key("ArrowRight");
        document.getElementById("back").click(); look();
        key("Home");
        document.getElementById("next").click(); look();
        document.title = "seen " + seen.join(" ") + " at " + location.hash;
        </script></body>"""
        page = tmp_path / "walk.html"
        page.write_text(html_view.render(tiles).replace("</body>", press), encoding="utf-8")
        title = re.search(r"<title>(seen.*?)</title>", browse(page, ""))
        assert title
        assert title[1] == "seen 1 2 1 3 3 2 0 1 at #step=1"

    def test_without_its_script_all_steps_stand_below_each_other(
        self, tiles: Walk, tmp_path: Path
    ) -> None:
        ban = """<head><meta http-equiv="Content-Security-Policy" content="script-src 'none'">"""
        page = tmp_path / "walk.html"
        page.write_text(html_view.render(tiles).replace("<head>", ban), encoding="utf-8")
        dom = browse(page, "#step=2")
        assert visible(dom) == [0, 1, 2, 3]
        assert 'class="js"' not in dom
