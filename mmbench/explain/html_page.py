"""The frame of the page: its style, its script, and the document around the steps."""

from __future__ import annotations

from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #5c6670; --line: #c4cad1;
  --paper: #ffffff; --panel: #f4f6f8; --a: #0063a0; --b: #b34a00; --c: #007a59; --bad: #b3002d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --soft: #a3adb7; --line: #4a535c;
  --paper: #14171a; --panel: #1e2328; --a: #6cbcf0; --b: #f0a040; --c: #3fd0a4; --bad: #ff7a90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 72rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .nowrap { white-space: nowrap; }
.bad { color: var(--bad); font-weight: 700; }
code, td, th, text { font-family: ui-monospace, Menlo, Consolas, monospace; }
section.step { border-top: 2px solid var(--line); padding: 1rem 0; }
.js section.step[hidden] { display: none; }
.both { display: flex; flex-wrap: wrap; gap: 1rem 2.2rem; align-items: flex-start; }
.both > .words { flex: 1 1 24rem; min-width: 0; }
figure { margin: 0; } figcaption { color: var(--soft); font-size: .85rem; }
.scroll { overflow-x: auto; max-width: 100%; }
svg { display: block; background: var(--panel); border-radius: 6px; max-width: 100%;
  height: auto; }
dl { margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1rem; }
dt { font-weight: 700; } dd { margin: 0; }
table { border-collapse: collapse; } caption { text-align: left; font-weight: 700; }
caption.A { color: var(--a); } caption.B { color: var(--b); }
th { color: var(--soft); font-weight: 400; } td, th { padding: .1rem .45rem; text-align: right; }
table.tile td { border: 1px solid var(--line); min-width: 2.6em; }
table.large td, table.large th { font-size: .7rem; padding: 0 .15rem; min-width: 2em; }
table.A td.read { box-shadow: inset 0 -3px var(--a); font-weight: 700; }
table.B td.read { box-shadow: inset 0 -3px var(--b); font-weight: 700; }
table.A td.own { outline: 3px solid var(--a); outline-offset: -2px; }
table.B td.own { outline: 3px solid var(--b); outline-offset: -2px; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem 2rem; margin: .8rem 0; }
nav { display: none; position: sticky; top: 0; background: var(--paper); padding: .6rem 0;
  gap: .8rem; align-items: center; z-index: 1; }
.js nav { display: flex; }
button { font: inherit; padding: .3rem .9rem; border: 1px solid var(--soft); border-radius: 6px;
  background: var(--panel); color: var(--ink); cursor: pointer; }
button:disabled { opacity: .4; cursor: default; }
.A { --m: var(--a); } .B { --m: var(--b); } .C { --m: var(--c); }
text { fill: var(--ink); } text.name { fill: var(--m); font-weight: 700; }
text.quiet { fill: var(--soft); }
.sheet { fill: none; stroke: var(--soft); } .grid { fill: none; stroke: var(--line); }
.cut { fill: none; stroke: var(--soft); stroke-width: 1.4; }
.band { fill: var(--m); opacity: .12; } .current { stroke: var(--m); stroke-width: 3; }
.hatch { stroke: var(--m); stroke-width: 1.2; opacity: .35; }
.load { fill: none; stroke: var(--ink); stroke-width: 2.5; } .dot { fill: var(--m); }
.mine { fill: var(--m); fill-opacity: .35; stroke: var(--ink); stroke-width: 2; }
@media print { nav { display: none !important; }
  .js section.step[hidden] { display: block; } }
"""

_SCRIPT = """
(function () {
  var steps = Array.prototype.slice.call(document.querySelectorAll("section.step"));
  var back = document.getElementById("back"), next = document.getElementById("next");
  var count = document.getElementById("count"), now = 0;
  function asked() {
    var found = /step=(\\d+)/.exec(location.hash);
    return found ? Number(found[1]) : 0;
  }
  function show(to) {
    now = Math.max(0, Math.min(steps.length - 1, to));
    steps.forEach(function (step, i) { step.hidden = i !== now; });
    back.disabled = now === 0;
    next.disabled = now === steps.length - 1;
    count.textContent = now + 1 + " of " + steps.length;
  }
  function go(to) {
    show(to);
    try { history.replaceState(null, "", "#step=" + now); } catch (error) { /* a sandbox */ }
  }
  back.addEventListener("click", function () { go(now - 1); });
  next.addEventListener("click", function () { go(now + 1); });
  window.addEventListener("hashchange", function () { show(asked()); });
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    var to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    go(to);
  });
  document.documentElement.classList.add("js");
  show(asked());
})();
"""


def page(title: str, summary: str, symbols: str, steps: list[str]) -> str:
    """The document. Without a script all steps stand below each other."""
    sections = "\n".join(
        f'<section class="step" id="frame-{number}">\n{step}\n</section>'
        for number, step in enumerate(steps)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
<p class="soft">{escape(summary)}</p>
</header>
{symbols}
<nav aria-label="Steps">
<button id="back" type="button">&larr; back</button>
<button id="next" type="button">next &rarr;</button>
<span id="count" class="soft" aria-live="polite"></span>
<span class="soft">or the arrow keys</span>
</nav>
<main>
{sections}
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""
