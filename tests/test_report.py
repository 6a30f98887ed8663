"""The report: it says what the rows say, in one page that a real browser opens and sorts."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mmbench import report
from mmbench.errors import UsageError
from mmbench.explain import html_page
from mmbench.report import page
from mmbench.results import COLUMNS, Row
from test_plotting import ENVIRONMENT, H200, bad, libraries, row, sweep, write_csv

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<script>alert('x')</script>"


class Parsed(HTMLParser):
    """Fails where a tag is not closed; collects ids, references and the cells of tables."""

    void = frozenset({"meta", "br", "path", "use", "rect", "image"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.void:
            self.open.append(tag)
        self.handle_startendtag(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if "id" in found:
            self.ids.append(found["id"] or "")
        for name, value in attrs:
            if name in ("href", "src", "xlink:href", "aria-labelledby", "data-status"):
                self.references.add((value or "").removeprefix("#"))
            self.references |= set(re.findall(r"url\(#([^)]*)\)", value or ""))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.tables[-1][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tables(text: str) -> list[list[list[str]]]:
    return Parsed(text).tables


def failing() -> list[Row]:
    return [*sweep(), bad("wrong", kernel="gamma", n=512, gflops=9e4), bad("skipped", n=2048)]


@pytest.fixture(scope="module")
def h200() -> str:
    return report.of_file(H200)


# ---- the page as a whole ----


def test_the_page_is_whole_and_needs_no_network(h200: str) -> None:
    for text in (h200, report.render(failing(), ENVIRONMENT)):
        assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)|<link|<img|<iframe", text)
        found = Parsed(text)
        assert len(found.ids) == len(set(found.ids))
        assert found.references <= set(found.ids)
        assert "default-src 'none'" in text


def test_every_table_has_a_caption_and_heads_with_a_scope(h200: str) -> None:
    found = Parsed(h200)
    kinds = [tag for tag, _ in found.tags]
    assert kinds.count("table") == kinds.count("caption") == len(found.tables) == 3
    heads = [attributes for tag, attributes in found.tags if tag == "th"]
    assert {attributes.get("scope") for attributes in heads} == {"col", "row"}


def test_the_heading_says_what_all_depends_on(h200: str) -> None:
    head = h200.split("<main>")[0]
    for fact in ("NVIDIA H200", "float32", "cold L2", "2026-11-30", "580.159.04", "nvcc 13.0.88"):
        assert fact in head
    assert "108 ok" in head
    assert "host times" not in head
    host = report.render([row(runner="cpu", roof_percent=None)], {})
    assert "host times, not a GPU's" in host.split("<main>")[0].replace("&#x27;", "'")


def test_it_looks_like_the_page_of_explain() -> None:
    """Both pages are one tool's: their colours have the same names and values."""
    frame = html_page.page("", "", "", [])
    blocks = re.findall(r":root \{(.*?)\}", frame, re.DOTALL)
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", block)) for block in blocks)
    assert page.LIGHT.items() <= light.items()
    assert page.DARK.items() <= dark.items()


def light_of(colour: str) -> float:
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    parts_ = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), parts_, strict=True))


@pytest.mark.parametrize("colours", [page.LIGHT, page.DARK], ids=["light", "dark"])
def test_text_has_contrast_enough(colours: dict[str, str]) -> None:
    for text in ("ink", "soft", "a", "bad"):
        for ground in ("paper", "panel"):
            high, low = sorted(map(light_of, (colours[text], colours[ground])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)


def test_what_files_say_is_escaped() -> None:
    rows = [
        row(EVIL, n=512, device=EVIL, compiler=EVIL, driver=EVIL, dtype=EVIL, params=f"A={EVIL}"),
        bad("failed", kernel=EVIL, n=256, device=EVIL, dtype=EVIL),
    ]
    rows[1] = replace(rows[1], reason=EVIL, kind=EVIL)
    environment = {
        "runs": [{"command": [EVIL], EVIL: EVIL, "device": {"uuid": EVIL, EVIL: [EVIL]}}]
    }
    text = report.render(rows, environment)
    assert "alert" in text
    assert "<script>alert" not in text
    assert not re.search(r'"[^"]*<script', text.split("</style>")[1].split("<script>")[0])
    Parsed(text)


# ---- what it says ----


def test_the_fastest_at_each_n() -> None:
    fastest = tables(report.render(sweep(), ENVIRONMENT))[0]
    assert fastest[0] == ["N", "kernel", "tile", "time", "GFLOP/s", "% of roof"]
    assert [line[:3] for line in fastest[1:]] == [
        [n, "beta", "16"] for n in ("256", "512", "1024")
    ]  # fmt: skip
    assert fastest[3][4:] == ["6,400", "9.6"]


def test_ties_are_shown_as_ties() -> None:
    rows = [row("alpha", gflops=1000.0), row("beta", gflops=999.95), row("gamma", gflops=900.0)]
    fastest = tables(report.render(rows, ENVIRONMENT))[0]
    assert fastest[0][-1] == "as fast, within the intervals"
    assert fastest[1][1] == "alpha"
    assert fastest[1][-1] == "beta (16)"
    tiles = [row(tile=8, gflops=999.95), row(tile=16, gflops=1000.0)]
    each = tables(report.render(tiles, ENVIRONMENT))[1]
    assert each[1] == ["alpha", "1,000 (16 = 8)"]


def test_a_share_of_the_library_is_shown_where_it_was_measured() -> None:
    told = [
        row(gflops=1000.0, baseline="cublas (cuBLAS 13.1.0, pedantic math)", baseline_percent=40.0)
    ]
    fastest = tables(report.render(told, ENVIRONMENT))[0]
    assert fastest[0][-1] == "% of cuBLAS"
    assert fastest[1][-1] == "40.0"
    measured = tables(report.render([*sweep(), *libraries()], ENVIRONMENT))
    assert measured[0][0][-1] == "% of cuBLAS"
    assert measured[0][3][1] == "beta"  # a library is never the fastest kernel
    assert measured[0][3][-1] == "12.8"
    assert measured[1][-1] == ["cuBLAS 13.1.0", "50,000", "50,000", "50,000"]
    assert "%" not in "".join(tables(report.render([row(roof_percent=None)], {}))[0][0])


def test_every_row_is_in_the_table_with_its_numbers() -> None:
    text = report.render(failing(), ENVIRONMENT)
    _, _, rows, without = tables(text)
    names = [re.sub(r"(GFLOP/s|GB/s|FLOP/byte|bytes|ms|%)$", "", head) for head in rows[0]]
    assert names[:7] == ["kernel", "N", "tile", "status", "time", "spread", "speed"]
    assert len(rows) == 1 + len(failing())
    last = dict(zip(names, rows[12], strict=True))
    assert (last["kernel"], last["N"], last["tile"], last["speed"]) == (
        "beta",
        "1024",
        "16",
        "6,400",
    )
    assert "data-value=" in text
    assert [line[0] for line in without[1:]] == ["gamma", "alpha"]
    assert without[1][3:] == ["wrong", "because"]


def test_an_implausible_row_is_shown_and_never_the_best() -> None:
    odd = row("beta", gflops=9e4, remarks="implausible: above the roof")
    text = report.render([row(), odd], ENVIRONMENT)
    fastest, _, rows, without = tables(text)
    assert fastest[1][1] == "alpha"
    assert rows[2][-1] == "implausible: above the roof"
    assert without[1] == ["beta", "1024", "16", "implausible", "implausible: above the roof"]


def test_columns_that_say_nothing_are_left_out() -> None:
    head = tables(report.render([row()], ENVIRONMENT))[2][0]
    assert not any(name.startswith(("registers", "power", "device", "parameters")) for name in head)
    two = [row(), row(device="Other", device_uuid="GPU-2")]
    assert "device" in tables(report.render(two, {}))[4][0]


def test_meanings_come_from_the_list_of_columns(h200: str) -> None:
    meanings = {column.name: column.meaning for column in COLUMNS}
    shown = re.sub(r"</?code>", "`", h200)
    for name in ("gflops", "roof_percent", "requested_gbs", "arithmetic_intensity", "status"):
        assert meanings[name].replace("'", "&#x27;") in shown, name


def test_the_environment_is_there_and_folded(h200: str) -> None:
    part = h200[h200.index('<section id="environment"') :]
    assert "<details><summary>" in part
    assert "<details open" not in h200
    for fact in ("mmbench sweep uncoalesced naive", "4,814.304", "GPU-", "multiprocessors"):
        assert fact in part
    assert "No JSON file" in report.render([row()], {})


def test_a_file_without_a_right_row_has_its_reasons(tmp_path: Path) -> None:
    text = report.of_file(write_csv(tmp_path / "a.csv", [bad("wrong")]))
    assert "No row has a rate" in text
    assert "because" in text
    assert "<svg" not in text


def test_a_file_without_rows_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no rows"):
        report.of_file(write_csv(tmp_path / "a.csv", []))


# ---- the pictures in it ----


def test_pictures_stand_in_the_page_as_text(h200: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra plot")
    svgs = re.findall(r"<svg .*?</svg>", h200, re.DOTALL)
    assert len(svgs) == 3
    for svg in svgs:
        assert 'role="img"' in svg
        assert "NVIDIA H200" in re.search(r'aria-label="([^"]*)"', svg)[1]  # type: ignore[index]
        assert ">tiled</text>" in svg
        assert "<image" not in svg
        # Ink and paper follow the page's colours, light or dark.
        assert "var(--ink)" in svg
        assert not re.search("#1b1f24|#ffffff", svg)
    defined = set(re.findall(r"--([\w-]+):", h200))
    assert set(re.findall(r"var\(--([\w-]+)\)", h200)) <= defined


def test_without_matplotlib_it_says_so_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = report.render(failing(), ENVIRONMENT)
    assert "<svg" not in text
    assert "matplotlib is not installed" in text
    assert "pip install &quot;mmbench[plot]&quot;" in text
    assert len(tables(text)) == 4


# ---- in a real browser ----


def browse(text: str, folder: Path, script: str) -> tuple[dict[str, object], str]:
    """Open the page with a script at its end; what that leaves in ``seen``, and the console."""
    assert CHROMIUM
    watch = """<head><script>
    var seen = { errors: [] };
    window.addEventListener("error", function (event) { seen.errors.push(event.message); });
    document.addEventListener("securitypolicyviolation", function (event) {
      seen.errors.push("blocked: " + event.blockedURI + event.violatedDirective); });
    </script>"""
    ask = f"""<script>
    {script}
    seen.requests = performance.getEntriesByType("resource").map(function (e) {{ return e.name; }});
    window.addEventListener("load", function () {{ setTimeout(function () {{
      document.title = JSON.stringify(seen); }}, 50); }});
    </script></body>"""
    assert text.count("<head>") == text.count("</body>") == 1
    file = folder / "report.html"
    file.write_text(
        text.replace("<head>", watch).replace("</body>", ask), encoding="utf-8"
    )  # fmt: skip
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--no-first-run", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=2000", "--dump-dom",
        file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stderr
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return json.loads(html.unescape(title[1])), console


SORT = """
var table = document.querySelector("table.sortable");
function column(name) {
  return Array.prototype.findIndex.call(table.tHead.rows[0].cells, function (cell) {
    return cell.dataset.name.split(",")[0] === name; }); }
function texts(name) {
  var i = column(name);
  return Array.prototype.map.call(table.tBodies[0].rows, function (row) {
    return row.cells[i].textContent; }); }
function press(name) {
  var button = table.tHead.rows[0].cells[column(name)].querySelector("button");
  button.focus();
  seen.focus = document.activeElement === button;
  button.click(); }
function state(name) { return table.tHead.rows[0].cells[column(name)].getAttribute("aria-sort"); }
seen.before = texts("N");
press("N"); seen.up = texts("N"); seen.upState = state("N");
seen.said = document.getElementById("sorted").textContent;
press("N"); seen.down = texts("N"); seen.downState = state("N");
press("speed"); seen.speed = texts("speed"); seen.left = state("N");
press("speed"); seen.speedDown = texts("speed");
press("kernel"); seen.kernel = texts("kernel");
seen.wide = document.documentElement.scrollWidth <= document.documentElement.clientWidth;
"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
class TestInABrowser:
    def test_it_opens_in_silence_and_sorts_numbers_as_numbers(self, tmp_path: Path) -> None:
        rows: Sequence[Row] = [
            row(EVIL, n=1024, gflops=9.5), row(n=256, gflops=10_000.0), row(n=8192, gflops=800.0),
            bad("wrong", n=512, kernel="beta"),
        ]  # fmt: skip
        rows = [*rows[:3], replace(rows[3], gflops=None, roof_percent=None, time_ms_median=None)]
        seen, console = browse(report.render(rows, ENVIRONMENT), tmp_path, SORT)
        assert console == ""
        assert seen["errors"] == []
        assert seen["requests"] == []
        assert seen["before"] == ["1024", "256", "8192", "512"]
        assert seen["up"] == ["256", "512", "1024", "8192"]
        assert seen["down"] == ["8192", "1024", "512", "256"]
        assert (seen["upState"], seen["downState"]) == ("ascending", "descending")
        assert seen["said"] == "Sorted by N, ascending."
        assert seen["left"] == "none"
        assert seen["focus"] is True
        # What is unknown is last, whichever way.
        assert seen["speed"] == ["9.500", "800.0", "10,000", ""]
        assert seen["speedDown"] == ["10,000", "800.0", "9.500", ""]
        assert seen["kernel"] == [EVIL, "alpha", "alpha", "beta"]
        assert seen["wide"] is True

    def test_a_request_would_be_seen(self, tmp_path: Path) -> None:
        """The test above can fail: a planted picture is blocked by the page's own policy."""
        text = report.render([row()], ENVIRONMENT)
        text = text.replace("<main>", '<main><img src="nothing.png" alt="">')
        seen, console = browse(text, tmp_path, "")
        assert "blocked" in str(seen["errors"])
        assert "nothing.png" in console

    def test_without_its_script_all_rows_are_there(self, tmp_path: Path) -> None:
        text = report.render(sweep(), ENVIRONMENT)
        script = text[text.rindex("<script>") : text.rindex("</script>")]
        seen, _ = browse(
            text.replace(script, "<script>"), tmp_path,
            "seen.rows = document.querySelectorAll('table.sortable tbody tr').length;"
            "seen.buttons = document.querySelectorAll('th button').length;",
        )  # fmt: skip
        assert (seen["rows"], seen["buttons"]) == (12, 0)
