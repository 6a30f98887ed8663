"""Turns what the runtime reported into findings in the words of a CUDA programmer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mmbench.check.debuginfo import Site
from mmbench.check.kinds import KINDS
from mmbench.check.launch import RawRun
from mmbench.check.places import Places
from mmbench.check.report import OPS, AccessCount, Finding
from mmbench.spec import Dim3

_PASSIVE = {"load": "read", "store": "written", "atomic": "changed atomically"}
_ACTIVE = {"load": "reads", "store": "writes", "atomic": "changes"}
_SIGNALS = {
    4: "executes an illegal instruction",
    7: "accesses memory that is not there",
    8: "divides by zero",
    11: "accesses memory that is not there",
}


def make_counts(raw: RawRun, places: Places) -> tuple[AccessCount, ...]:
    """The counts by line, column, variable and kind; instances of a template are added up."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in raw.counts:
        site = places.site(row["site"])
        buffer = row["buffer"]
        key = (
            places.space(buffer), places.name(buffer), row["op"], site.path, site.line,
            site.column, row["bytes_each"],
        )  # fmt: skip
        if key not in merged:
            merged[key] = dict(row)
            continue
        for field in (
            "accesses", "requests", "sectors", "ideal_sectors", "wavefronts", "ideal_wavefronts"
        ):  # fmt: skip
            merged[key][field] += row[field]
        worst = max(merged[key]["worst_conflict"], row["worst_conflict"])
        merged[key]["worst_conflict"] = worst
    counts = [
        AccessCount(
            space=space, variable=variable, op=op, line=line, column=column, bytes_each=size,
            accesses=row["accesses"], requests=row["requests"], sectors=row["sectors"],
            ideal_sectors=row["ideal_sectors"], wavefronts=row["wavefronts"],
            ideal_wavefronts=row["ideal_wavefronts"], worst_conflict=row["worst_conflict"],
        )
        for (space, variable, op, _, line, column, size), row in merged.items()
    ]  # fmt: skip
    return tuple(sorted(counts, key=lambda c: (c.line, c.column, c.space, c.variable, c.op)))


class FindingMaker:
    """Makes findings of one run."""

    def __init__(self, raw: RawRun, places: Places) -> None:
        self.places = places
        self.ops = {row["site"]: row["op"] for row in raw.counts}
        self.flat = raw.launch.block[2] == 1, raw.launch.grid[2] == 1

    def from_runtime(self, rows: Iterable[dict[str, Any]]) -> Iterator[Finding]:
        for row in rows:
            finding = self._from_row(row)
            if finding.kind == "barrier-divergence" and finding.line == finding.other_line:
                continue  # one barrier that was compiled twice
            yield finding

    def _from_row(self, row: dict[str, Any]) -> Finding:
        site = self._site(row)
        other = self.places.site(row["other_site"]) if row["other_site"] else Site()
        kind, variable = row["kind"], self.places.element(row["buffer"], row["offset"])
        values = self._values(row, site, other, variable)
        if kind == "index-out-of-bounds":
            name = self.places.indexed_name(site)
            shared = {array.name for array in self.places.info.arrays}
            kind = "shared-out-of-bounds" if name in shared else "local-out-of-bounds"
            values["variable"] = variable = f"{name}[{row['extra']}]"
        if kind in ("shared-race", "warp-race") and self._is_one_store(row, site, other):
            kind = "shared-store-race"
        return self.make(
            kind, site, values,
            other_line=other.line, variable=variable, count=row["count"],
            thread=self.places.thread(row["thread"]), block=self.places.block(row["block"]),
            other_thread=self.places.thread(row["other_thread"]),
            other_block=self.places.block(row["other_block"]),
        )  # fmt: skip

    def _is_one_store(self, row: dict[str, Any], site: Site, other: Site) -> bool:
        ops = {self.ops.get(row["site"]), self.ops.get(row["other_site"])}
        return ops == {"store"} and (site.path, site.line) == (other.path, other.line)

    def make(self, kind: str, site: Site, values: dict[str, object], **fields: Any) -> Finding:
        """A finding of a kind at a site; ``values`` fill in the kind's sentence."""
        return Finding(
            kind=kind,
            message=KINDS[kind].sentence.format(**values),
            hint=KINDS[kind].hint.format(**values) if "{" in KINDS[kind].hint else KINDS[kind].hint,
            path=site.path,
            line=site.line,
            column=site.column,
            source_line=self.places.source_line(site),
            **fields,
        )

    def thread(self, index: Dim3) -> str:
        return _index(index, self.flat[0])

    def block(self, index: Dim3) -> str:
        return _index(index, self.flat[1])

    def _site(self, row: dict[str, Any]) -> Site:
        site = self.places.site(row["site"]) if row["site"] else Site()
        if not row["line"]:
            return site
        return Site(site.path, row["line"], row["column"])

    def _values(
        self, row: dict[str, Any], site: Site, other: Site, variable: str
    ) -> dict[str, object]:
        """Everything that a sentence may mention."""
        buffer, offset = row["buffer"], row["offset"]
        places = self.places
        where = places.row_and_column(buffer, offset)
        others = row["bytes"] - 1
        op = self.ops.get(row["site"], "load")
        return {
            "variable": variable + where,
            "thread": self.thread(places.thread(row["thread"])),
            "other_thread": self.thread(places.thread(row["other_thread"])),
            "block": self.block(places.block(row["block"])),
            "other_block": self.block(places.block(row["other_block"])),
            "other_line": other.line,
            "verb": _PASSIVE[op],
            "other_verb": _PASSIVE[self.ops.get(row["other_site"], "load")],
            "verb_now": _ACTIVE[OPS[row["extra"]]] if 0 <= row["extra"] < 3 else "accesses",
            "gap": _gap(site.line, other.line),
            "beyond": places.beyond(buffer, offset),
            "declared": self._declared(row),
            "address": f"0x{offset & (2**64 - 1):x}",
            "extra": row["extra"],
            "extra_bytes": row["bytes"],
            "and_others": f" (and {others} more)" if others > 0 else "",
            "passed": _passed(row["extra"]),
            "elsewhere": f" (it waits in line {other.line})" if other.line else "",
            "mask": f"0x{row['extra'] & 0xFFFFFFFF:08x}",
            "text": row["text"],
            "crash": _crash(row),
        }

    def _declared(self, row: dict[str, Any]) -> str:
        if row["text"]:
            return "as declared, " + str(row["text"]).strip("'")
        if row["buffer"] < 16:
            return ""
        array = self.places.array(row["buffer"])
        extents = "".join(f"[{extent}]" for extent in array.shape)
        return f"{array.name}{extents} of {array.bytes} bytes"


def _index(index: Dim3, flat: bool) -> str:
    return f"({','.join(str(i) for i in index[: 2 if flat else 3])})"


def _gap(line: int, other_line: int) -> str:
    if line < other_line:
        return f"between lines {line} and {other_line}"
    if line > other_line:
        return f"after line {line}, before line {other_line} runs again"
    return f"in line {line}, between one access and the next"


def _passed(barriers: int) -> str:
    if barriers <= 0:
        return ""
    return f" after {barriers} barrier{'' if barriers == 1 else 's'}"


def _crash(row: dict[str, Any]) -> str:
    if row["offset"]:
        return "needs more stack than there is: a recursion, or a very large local array"
    return _SIGNALS.get(row["extra"], f"raises signal {row['extra']}")
