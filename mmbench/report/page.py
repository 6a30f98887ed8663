"""The frame of the report: its style, its script, and the document around the sections.

The page asks the network for nothing, and its own policy forbids it to.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mmbench.plotting import style

# The colours of the page of `mmbench explain`, so that both look like one tool's.
LIGHT = {
    "ink": "#1b1f24", "soft": "#5c6670", "line": "#c4cad1", "paper": "#ffffff",
    "panel": "#f4f6f8", "a": "#0063a0", "bad": "#b3002d",
}  # fmt: skip
DARK = {
    "ink": "#e8ebee", "soft": "#a3adb7", "line": "#4a535c", "paper": "#14171a",
    "panel": "#1e2328", "a": "#6cbcf0", "bad": "#ff7a90",
}  # fmt: skip
# The pictures' lines where the page is dark: the same hues, bright enough for it.
_DARK_SERIES = ("#4aa3df", "#f28a4b", "#35c79c", "#e0a3c8", "#efb73e", "#8fd0f5", "#e8ebee")


def _variables(colours: dict[str, str], series: Sequence[str]) -> str:
    named = {**colours, "hollow": colours["panel"]}
    named |= {f"series-{i}": colour for i, colour in enumerate(series)}
    return " ".join(f"--{name}: {colour};" for name, colour in named.items())


_STYLE = """
:root { color-scheme: light dark; %LIGHT% }
@media screen and (prefers-color-scheme: dark) { :root { %DARK% } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
p { margin: .3rem 0; max-width: 46rem; } header p { max-width: none; } .soft { color: var(--soft); }
.bad { color: var(--bad); font-weight: 700; }
section { border-top: 2px solid var(--line); padding: 1rem 0 1.4rem; }
header { padding-bottom: 1rem; }
code, td, th { font-family: ui-monospace, Menlo, Consolas, monospace; }
code { overflow-wrap: anywhere; }
a { color: var(--a); }
.scroll { overflow-x: auto; max-width: 100%; margin: .4rem 0 1rem; }
.scroll:focus-visible, button:focus-visible, summary:focus-visible {
  outline: 3px solid var(--a); outline-offset: 2px; }
.pictures { display: flex; flex-wrap: wrap; gap: 1.2rem; align-items: flex-start; }
figure { margin: 0; flex: 1 1 31rem; min-width: 0; max-width: 38rem; }
figcaption { color: var(--soft); font-size: .9rem; max-width: 40rem; }
svg { display: block; background: var(--panel); border-radius: 6px; width: 100%;
  min-width: 31rem; height: auto; }
table { border-collapse: collapse; font-size: .88rem; }
caption { text-align: left; font-weight: 700; padding-bottom: .3rem;
  font-family: system-ui, sans-serif; font-size: 1rem; }
caption span { display: inline-block; position: sticky; left: 0; white-space: normal;
  max-width: min(100%, calc(100vw - 2rem)); }
th, td { padding: .16rem .5rem; text-align: right; white-space: nowrap; }
th { font-weight: 400; color: var(--soft); vertical-align: bottom; }
tbody th { color: var(--ink); }
th:first-child { padding-left: .4rem; text-align: left; }
th.left, td.left { text-align: left; }
td.why { white-space: normal; min-width: 16rem; max-width: 44rem; overflow-wrap: anywhere; }
thead th { border-bottom: 1px solid var(--line); }
tbody tr:nth-child(even) > * { background: var(--panel); }
tbody tr:hover > * { box-shadow: inset 0 1px var(--line), inset 0 -1px var(--line); }
tbody th { position: sticky; left: 0; background: var(--paper); text-align: left; }
.unit { display: block; font-size: .78rem; min-height: 1.5em; }
th button { font: inherit; color: inherit; background: none; border: 0; margin: 0; padding: .1rem;
  cursor: pointer; text-align: inherit; border-radius: 4px; white-space: nowrap; }
th button:hover { color: var(--a); }
th button .arrow::after { content: "\\2195"; padding-left: .25em; }
th[aria-sort="ascending"] button, th[aria-sort="descending"] button { color: var(--a);
  font-weight: 700; }
th[aria-sort="ascending"] .arrow::after { content: "\\2191"; }
th[aria-sort="descending"] .arrow::after { content: "\\2193"; }
dl { margin: .4rem 0; display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; }
dt { font-weight: 700; } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
dd > dl { margin: 0; } dd > dl dt { font-weight: 400; color: var(--soft); }
summary { cursor: pointer; color: var(--a); padding: .2rem 0; }
@media (max-width: 40rem) {
  body { padding: 1rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; }
  figure { flex-basis: 100%; }
}
@page rows { size: A4 landscape; margin: 10mm; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .scroll { overflow: visible; } figure, tr { break-inside: avoid; }
  .pictures { display: block; } figure { max-width: 165mm; margin-bottom: 6mm; }
  h2 { break-after: avoid; }
  svg { min-width: 0; --panel: #ffffff; --hollow: #ffffff; }
  section.rows { page: rows; } section.rows table { font-size: 6.5pt; }
  section.rows th, section.rows td { padding: .3mm 1.1mm; }
  tbody th { position: static; } th button .arrow { display: none; }
}
"""

_SCRIPT = """
(function () {
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0], said = document.getElementById(table.dataset.status);
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    function value(row, column, number) {
      var cell = row.cells[column];
      if (!number) return cell.textContent;
      return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
    }
    function sort(column) {
      var head = heads[column], number = head.dataset.kind === "number";
      var up = head.getAttribute("aria-sort") !== "ascending", sign = up ? 1 : -1;
      var rows = Array.prototype.slice.call(body.rows);
      rows.sort(function (left, right) {
        var a = value(left, column, number), b = value(right, column, number);
        if (a === null || b === null || a === "" || b === "") {
          return (a === null || a === "") - (b === null || b === "");  /* unknown is last */
        }
        return sign * (number ? a - b : a.localeCompare(b, "en"));
      });
      rows.forEach(function (row) { body.appendChild(row); });
      heads.forEach(function (each) { each.setAttribute("aria-sort", "none"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      said.textContent = "Sorted by " + head.dataset.name + ", " +
        (up ? "ascending." : "descending.");
    }
    heads.forEach(function (head, column) {
      var button = document.createElement("button"), arrow = document.createElement("span");
      button.type = "button";
      arrow.className = "arrow";
      arrow.setAttribute("aria-hidden", "true");
      while (head.firstChild) button.appendChild(head.firstChild);
      button.lastElementChild.appendChild(arrow);
      head.appendChild(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () { sort(column); });
    });
  });
})();
"""


def page(title: str, header: str, sections: Sequence[str]) -> str:
    """The document. ``header`` and ``sections`` are HTML; ``title`` is text."""
    css = _STYLE.replace("%LIGHT%", _variables(LIGHT, style.COLOURS))
    css = css.replace("%DARK%", _variables(DARK, _DARK_SERIES))
    body = "\n".join(sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>{css}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{body}
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""
