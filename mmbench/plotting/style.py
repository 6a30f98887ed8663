"""How pictures look: sizes, colours, marks, text measured and wrapped. Knows no results.

Colours of lines are Okabe and Ito's (jfly.uni-koeln.de/color), which people with any kind of
colour vision can tell apart; marks and line styles differ too, so grey print loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mmbench.errors import UsageError
from mmbench.plotting.placing import apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.3  # inches: the text of an A4 page with margins of 25 mm
TEXT = 9.0  # points: the smallest text of a picture at that width
TITLE = 11.0
NAME = 2.2  # inches: the longest name beside a picture
INK, SOFT, LINE, PAPER = "#1b1f24", "#5c6670", "#c4cad1", "#ffffff"
HOLLOW = "#fefefe"  # inside a hollow mark: white, but another name than the paper's
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "p")
_DASHES: tuple[Any, ...] = (
    "-",
    (0, (1, 1.2)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
)
BASELINE_DASHES: Any = (0, (5, 2.5))  # of libraries alone
_MARGIN = 0.12  # inches around everything

# Also the names by which a page that holds the picture may change a colour.
VARIABLES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    PAPER: "panel",
    HOLLOW: "hollow",
    **{colour: f"series-{i}" for i, colour in enumerate(COLOURS)},
}


@dataclass(frozen=True)
class Look:
    """How one kernel is drawn in every picture of a study."""

    colour: str
    mark: str
    dashes: Any


def look(position: int) -> Look:
    """The look of the kernel at this position; colour and mark together repeat after 56."""
    return Look(
        COLOURS[position % len(COLOURS)],
        _MARKS[position % len(_MARKS)],
        _DASHES[position % len(_DASHES)],
    )


def require() -> None:
    """Fail in a sentence where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError(
            'pictures need matplotlib, which is not installed; pip install "mmbench[plot]"'
        ) from None


@contextmanager
def settings() -> Iterator[None]:
    """Settings under which every picture is made and saved, whatever a user's own are."""
    require()
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "text.parse_math": False,  # a kernel's name may hold a dollar
                "font.size": TEXT,
                "svg.fonttype": "none",  # text stays text
                "svg.hashsalt": "mmbench",  # the same picture has the same bytes
                "axes.edgecolor": SOFT,
                "axes.labelcolor": INK,
                "axes.linewidth": 0.8,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "text.color": INK,
                "xtick.color": SOFT,
                "ytick.color": SOFT,
                "xtick.labelcolor": INK,
                "ytick.labelcolor": INK,
                "grid.color": LINE,
                "grid.linewidth": 0.5,
                "lines.solid_capstyle": "round",
            }
        )
        yield


def text_width(text: str, size: float = TEXT, bold: bool = False) -> float:
    """Width of a line of text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) / 72


def wrapped(text: str, width: float, size: float = TEXT) -> list[str]:
    """The text as lines, none wider than ``width`` inches unless a single word is."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def fitting(text: str, width: float = NAME, bold: bool = False) -> str:
    """The text, without its middle where it is wider than ``width`` inches."""
    if text_width(text, TEXT, bold) <= width:
        return text
    for kept in range(len(text) - 1, 1, -1):
        head, tail = (kept + 1) // 2, kept // 2
        shorter = f"{text[:head]}\u2026{text[-tail:]}"
        if text_width(shorter, TEXT, bold) <= width:
            return shorter
    return "\u2026"


LEADING = 1.35 * TEXT / 72  # inches from one line of text to the next


class Sheet:
    """A figure whose parts are placed in inches: title above, axes, notes below."""

    def __init__(
        self, title: str, subtitle: str, notes: list[str], body: float, width: float = WIDTH
    ) -> None:
        """``body`` is the height in inches of everything between the title and the notes."""
        from matplotlib.figure import Figure

        self.width = width
        inner = width - 2 * _MARGIN
        above = wrapped(subtitle, inner)
        below = [line for note in notes for line in wrapped(note, inner)]
        self.top = _MARGIN + 1.5 * TITLE / 72 + len(above) * LEADING + 0.14
        self.bottom = _MARGIN + len(below) * LEADING + (0.1 if below else 0.0)
        self.height = self.top + body + self.bottom
        self.figure: Figure = Figure(figsize=(width, self.height), facecolor=PAPER)
        y = self.height - _MARGIN
        self._text(title, y, size=TITLE, weight="bold", color=INK)
        y -= 1.5 * TITLE / 72
        for line in above:
            self._text(line, y, size=TEXT, color=SOFT)
            y -= LEADING
        y = self.bottom - 0.1
        for line in below:
            self._text(line, y, size=TEXT, color=SOFT)
            y -= LEADING

    def _text(self, text: str, y: float, **look: Any) -> None:
        self.figure.text(_MARGIN / self.width, y / self.height, text, va="top", ha="left", **look)

    def axes(self, left: float, bottom: float, width: float, height: float) -> Axes:
        """Axes by inches from the left edge and from the upper edge of the notes."""
        return self.figure.add_axes(
            (
                left / self.width,
                (self.bottom + bottom) / self.height,
                width / self.width,
                height / self.height,
            )
        )


def name_y_axis(axes: Axes, text: str) -> None:
    """Write what an axis shows above it, where it is read without turning the head."""
    axes.annotate(
        text, (0, 1), (-4, 6), xycoords="axes fraction", textcoords="offset points",
        annotation_clip=False,
    )  # fmt: skip


def name_roof(axes: Axes, text: str, height: float) -> None:
    """Write a roof's name and value above its line, at its right end."""
    axes.annotate(
        text, (1, height), (0, 3), xycoords=("axes fraction", "data"), ha="right", va="bottom",
        textcoords="offset points", annotation_clip=False,
    )  # fmt: skip


def label_ends(axes: Axes, ends: Sequence[tuple[str, float, float, str, str]]) -> None:
    """Write names beside the ends of lines, moved apart where two would overlap.

    An end is its name, x, y, colour, and mark (empty for none).
    """
    inches = axes.get_window_extent().height / axes.figure.dpi
    inverse = axes.transAxes.inverted()
    heights = [inverse.transform(axes.transData.transform((x, y)))[1] for _, x, y, _, _ in ends]
    gap = LEADING / inches
    for (name, x, y, colour, mark), height in zip(ends, apart(heights, gap, 0.0, 1.0), strict=True):
        axes.annotate(
            "", (x, y), (1.05, height), xycoords="data", textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": SOFT, "linewidth": 0.6,
                        "shrinkA": 5, "shrinkB": 5}, annotation_clip=False,
        )  # fmt: skip
        if mark:
            axes.plot(
                [1.05], [height], marker=mark, color=colour, markersize=5, clip_on=False,
                transform=axes.transAxes, linestyle="",
            )  # fmt: skip
        axes.annotate(
            name, (1.05, height), (6 if mark else 2, 0), xycoords="axes fraction",
            textcoords="offset points", va="center", annotation_clip=False,
        )  # fmt: skip
