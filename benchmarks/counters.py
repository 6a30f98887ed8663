"""The checked build's counts against the GPU's counters, kernel by kernel.

    python benchmarks/counters.py [--n 128] [--out results/h200-counters.json] KERNEL[@TILE]...

Each kernel is run once under ncu at N x N x N, with this TILE_SIZE or its header's last, and
through the checked build on the host. docs/counters.md is made from the file that this writes.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from pathlib import Path

from mmbench import axes, kernels
from mmbench.profiling import profile
from mmbench.runners import open_runner


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = open_runner("cuda")[0].device
    found = []
    for text in options.kernels:
        name, _, tile = text.partition("@")
        tiles = [int(tile)] if tile else None
        *_, point = axes.points([kernels.get(name)], axes.problems([options.n]), tiles)
        rows = profile(point)
        print(point)
        for row in rows:
            print(f"  {row.name:28} counted {row.counted} measured {row.measured}")
        found.append(
            {
                "kernel": point.spec.name,
                "summary": point.spec.summary,
                "params": dict(point.params),
                "rows": [dataclasses.asdict(row) for row in rows],
            }
        )
    if options.out:
        value = {
            "date": datetime.date.today().isoformat(),
            "device": device.name,
            "driver": device.driver,
            "compiler": device.compiler,
            "n": options.n,
            "kernels": found,
        }
        options.out.write_text(json.dumps(value, indent=1) + "\n")


if __name__ == "__main__":
    main()
