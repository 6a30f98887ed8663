"""Where names stand beside lines, so that none covers another."""

from __future__ import annotations

from collections.abc import Sequence


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions as near as can be to the wanted ones, ``gap`` apart, between low and high.

    Neighbours that are too close form a cluster around the mean of what they want, as in the
    pool-adjacent-violators method for isotonic regression.
    """
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    clusters: list[list[int]] = []
    centres: list[float] = []

    def centre(members: list[int]) -> float:
        half = gap * (len(members) - 1) / 2
        middle = sum(wanted[i] for i in members) / len(members)
        return min(max(middle, low + half), high - half)

    for i in order:
        clusters.append([i])
        centres.append(centre([i]))
        while len(clusters) > 1:
            reach = gap * (len(clusters[-2]) + len(clusters[-1])) / 2
            if centres[-1] - centres[-2] >= reach - 1e-9:
                break
            members = clusters[-2] + clusters[-1]
            clusters[-2:] = [members]
            centres[-2:] = [centre(members)]
    placed = [0.0] * len(wanted)
    for members, middle in zip(clusters, centres, strict=True):
        for place, i in enumerate(members):
            placed[i] = middle + gap * (place - (len(members) - 1) / 2)
    return placed
