"""Compares C with the exact product, and says who stored the first element that is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mmbench import readings
from mmbench.check.findings import FindingMaker
from mmbench.check.launch import RawRun
from mmbench.check.places import Places
from mmbench.check.report import Finding
from mmbench.inputs import Inputs, in_memory

_STOPPING = {"misaligned-access", "null-pointer", "wild-address", "crash", "assert-failed"}
Mask = npt.NDArray[np.bool_]


class Comparison:
    """C of one run against A * B, both whole numbers, so without a tolerance."""

    def __init__(self, raw: RawRun, inputs: Inputs, maker: FindingMaker) -> None:
        self.raw = raw
        self.maker = maker
        self.places: Places = maker.places
        self.inputs = inputs
        self.expected = inputs.result()
        self.wrong: Mask = ~(raw.c == self.expected)
        self.stored: Mask = raw.stores["stored"] != 0
        self.never: Mask = ~self.stored & (raw.c == inputs.c)

    @property
    def adds_what_c_held(self) -> bool:
        """Whether C is off by just what it held before the launch."""
        return bool(((self.raw.c == self.expected + self.inputs.c) & self.stored).any())

    @property
    def message(self) -> str:
        """What is wrong with C, as a sentence, or ""."""
        count = int(np.count_nonzero(self.wrong))
        if not count:
            return ""
        row, column = (int(i) for i in np.argwhere(self.wrong)[0])
        parts = [
            f"{count} of {self.wrong.size} elements of C differ",
            f"first C[{row}][{column}] = {self.raw.c[row, column]:g}, "
            f"should be {self.expected[row, column]:g}",
        ]
        if nans := int(np.count_nonzero(np.isnan(self.raw.c))):
            parts.append(f"{nans} {'is' if nans == 1 else 'are'} NaN")
        c = in_memory(self.raw.c, self.inputs.product, "C")
        if hint := readings.hint(self.places.point.problem, self.inputs, c):
            parts.append(f"hint: {hint}")
        return "; ".join(parts)

    def findings(self, others: list[Finding]) -> Iterator[Finding]:
        """Findings about C itself, given those that the runtime made."""
        kinds = {finding.kind for finding in others}
        stopped = bool(kinds & _STOPPING)
        if self.never.any() and not stopped:
            yield self._never_written()
        unseen = ~self.stored & ~self.never
        if unseen.any():
            count = int(np.count_nonzero(unseen))
            yield self.maker.make("unseen-store", self.places.entry(), {"count": count})
        yield from self._unseen_inputs(kinds)
        if stopped or "uninitialised-shared" in kinds:
            return
        nan: Mask = np.isnan(self.raw.c) & self.stored
        if nan.any():
            yield self._stored("nan-result", nan)
        elif not _errors(others) and (self.wrong & self.stored).any():
            yield self._stored("wrong-result", self.wrong & self.stored)

    def _never_written(self) -> Finding:
        row, column = (int(i) for i in np.argwhere(self.never)[0])
        count, variable = int(np.count_nonzero(self.never)), self._variable(row, column)
        values = {"count": count, "total": self.never.size, "variable": f"C[{row}][{column}]"}
        site = self.places.entry()
        return self.maker.make("c-not-written", site, values, variable=variable, count=count)

    def _variable(self, row: int, column: int) -> str:
        return f"C[{row * self.raw.c.shape[1] + column}]"

    def _unseen_inputs(self, kinds: set[str]) -> Iterator[Finding]:
        if "input-written" in kinds:
            return
        for name in self.raw.changed_inputs:
            values: dict[str, object] = {"thread": "?", "block": "?", "variable": name}
            yield self.maker.make("input-written", self.places.entry(), values, variable=name)

    def _stored(self, kind: str, where: Mask) -> Finding:
        """A finding about the first such element, at the line that stored it last."""
        row, column = (int(i) for i in np.argwhere(where)[0])
        store = self.raw.stores[row, column]
        thread = self.places.thread(int(store["thread"]))
        block = self.places.block(int(store["block"]))
        values: dict[str, Any] = {
            "thread": self.maker.thread(thread),
            "block": self.maker.block(block),
            "variable": f"C[{row}][{column}]",
            "stored": f"{self.raw.c[row, column]:g}",
            "expected": f"{self.expected[row, column]:g}",
        }
        return self.maker.make(
            kind, self.places.site(int(store["site"])), values,
            variable=self._variable(row, column), thread=thread, block=block,
            count=int(np.count_nonzero(where)),
        )  # fmt: skip


def _errors(findings: list[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)
