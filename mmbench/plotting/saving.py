"""Figures to PNG and SVG bytes, and to SVG that stands inside a page."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from mmbench.plotting import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 200


def data(figure: Figure, form: str) -> bytes:
    """The figure as a ``png`` or ``svg`` file; the same figure gives the same bytes."""
    file = io.BytesIO()
    with style.settings():
        if form == "svg":
            figure.savefig(file, format="svg", metadata={"Date": None})
        else:
            figure.savefig(file, format="png", dpi=_DPI)
    if form != "svg":
        return file.getvalue()
    # Widths were measured with DejaVu Sans; Verdana, its sibling, is on most other machines.
    text = file.getvalue().decode("utf-8").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana")
    return text.encode("utf-8")


def inline(figure: Figure, name: str, label: str) -> str:
    """The figure as an <svg> for a page: ids begin with ``name``, colours are CSS variables.

    ``label`` is what a screen reader says. The page defines the variables of style.VARIABLES.
    """
    text = data(figure, "svg").decode("utf-8")
    text = text[text.index("<svg ") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'href="#', f'href="#{name}-', text)
    text = re.sub(r"url\(#", f"url(#{name}-", text)
    text = re.sub(
        r"#[0-9a-f]{6}\b",
        lambda found: (
            f"var(--{style.VARIABLES[found[0]]})" if found[0] in style.VARIABLES else found[0]
        ),
        text,
    )
    opening, rest = text.split(">", 1)
    # Namespaces are for files; in a page they would be addresses that nothing asks for.
    opening = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", opening)
    rest = rest.replace("xlink:href=", "href=")
    return f'{opening} role="img" aria-label="{escape(label)}">{rest}'
