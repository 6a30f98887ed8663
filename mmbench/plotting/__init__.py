"""Pictures of results: GFLOP/s over N, tile over N, roofline; as files or in the terminal.

Files need matplotlib and the terminal plotext, both of the extra ``plot`` and loaded late.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmbench.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mmbench.plotting.study import Study

KINDS = ("speed", "tiles", "roofline")
FORMATS = ("png", "svg")


def figure(study: Study, kind: str) -> Figure:
    """One picture, ``kind`` of KINDS. UsageError where matplotlib is missing."""
    from mmbench.plotting import roofline, speed, style, tiles

    style.require()
    draw = {"speed": speed.figure, "tiles": tiles.figure, "roofline": roofline.figure}[kind]
    return draw(study)


def available() -> bool:
    """Whether pictures can be drawn here."""
    from mmbench.plotting import style

    try:
        style.require()
    except UsageError:
        return False
    return True


def write(
    paths: Sequence[Path], out: Path, kinds: Sequence[str] = KINDS, formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Draw files of results into the folder ``out``; returns the paths written.

    Files of the same device are put together. Each device, element type and cache mode has its
    own pictures, named ``<file or device>-<kind>.<format>``; existing ones are replaced.
    """
    from mmbench.plotting import saving, study, style

    style.require()
    found = study.read_studies(paths)
    written = []
    for each, name in zip(found, study.names(found), strict=True):
        for kind in kinds:
            drawn = figure(each, kind)
            for form in formats:
                path = out / f"{name}-{kind}.{form}"
                _write(path, saving.data(drawn, form))
                written.append(path)
    return written


def _write(path: Path, data: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def terminal(
    paths: Sequence[Path], width: int, height: int, colour: bool, plain: bool = False
) -> str:
    """GFLOP/s over N as text: each device's picture, at most ``width`` columns wide.

    ``height`` lines a picture, its title aside. ``plain`` keeps to ASCII.
    """
    from mmbench.plotting import study, text_picture

    found = study.read_studies(paths)
    return "\n\n".join(text_picture.draw(each, width, height, colour, plain) for each in found)
