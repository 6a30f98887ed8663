"""Kernels, devices and checks of the environment to what a terminal shows."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from mmbench.device import Device
from mmbench.doctor import Check
from mmbench.probes import Roofs, TimerReport
from mmbench.spec import KernelSpec


def kernel_list(specs: Sequence[KernelSpec]) -> Table:
    """The ladder: each kernel below the one it improves on."""
    table = Table(box=None, pad_edge=False)
    for title in ("kernel", "improves on", "takes", "idea"):
        table.add_column(title, no_wrap=title != "idea")
    for spec in specs:
        table.add_row(
            spec.name,
            spec.after or "",
            "M, N, K" if spec.rectangular else "N",
            spec.summary,
        )
    return table


def kernel_page(spec: KernelSpec) -> RenderableType:
    """A kernel's header in words, then its source."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for label, text in _facts(spec):
        table.add_row(label, text)
    text = spec.source.rstrip()
    source = Syntax(text, "cuda", line_numbers=True, theme="ansi_dark", word_wrap=True)
    return Group(Text(f"{spec.name}: {spec.summary}", "bold"), table, Text(), source)


def _facts(spec: KernelSpec) -> list[tuple[str, str]]:
    arguments = ", ".join(map(str, spec.arguments))
    facts = [
        ("file", str(spec.path)),
        ("entry point", f"{spec.entry}({arguments})"),
        ("element type", spec.product.types),
        ("improves on", spec.after or "nothing: it is the first"),
        ("shapes", "any M, N, K" if spec.rectangular else "square, M = N = K"),
    ]
    facts += [(name, f"swept over {', '.join(map(str, v))}") for name, v in spec.params.items()]
    facts += [
        ("block", " x ".join(map(str, spec.block))),
        ("grid", " x ".join(map(str, spec.grid))),
    ]
    if spec.static_shared:
        facts.append(("shared memory", f"{spec.static_shared} bytes a block"))
    if spec.dynamic_shared:
        facts.append(("dynamic shared", f"{spec.dynamic_shared} bytes a block"))
    facts += [("needs", f"{condition}: {reason}") for condition, reason in spec.requires]
    facts += [
        ("global reads", f"{spec.reads} elements"),
        ("global writes", f"{spec.writes} elements"),
        ("runs on", " and ".join(spec.runners)),
    ]
    return facts


def device_page(device: Device, roofs: Roofs | None = None) -> RenderableType:
    """All that is known of a device, and the roofs that were measured on it."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for label, text in (*_device_facts(device), *_roof_facts(device, roofs)):
        table.add_row(label, text)
    return Group(Text(f"{device.runner}:{device.index}  {device.name}", "bold"), table)


def _device_facts(device: Device) -> list[tuple[str, str]]:
    limits = device.limits
    facts = [("memory", f"{device.memory_bytes / 1e9:,.1f} GB")]
    if device.compute_capability:
        facts.append(("compute capability", "{}.{}".format(*device.compute_capability)))
    if device.multiprocessors:
        facts.append(("multiprocessors", str(device.multiprocessors)))
    if device.fp32_roof_gflops:
        facts.append(("FP32 roof", f"{device.fp32_roof_gflops:,.0f} GFLOP/s at the highest clock"))
    if device.dram_peak_gbs:
        facts.append(("DRAM peak", f"{device.dram_peak_gbs:,.0f} GB/s at the highest clock"))
    if device.l2_bytes:
        facts.append(("L2 cache", f"{device.l2_bytes / 2**20:,.0f} MiB"))
    facts.append(("threads a block", f"at most {limits.threads}"))
    facts.append(("shared memory", f"{limits.static_shared_bytes} bytes a block, dynamic "
                  f"{limits.dynamic_shared_bytes}"))  # fmt: skip
    if device.driver:
        facts.append(("driver", device.driver))
    facts.append(("compiler", device.compiler))
    return facts


def _roof_facts(device: Device, roofs: Roofs | None) -> list[tuple[str, str]]:
    if roofs is None:
        return []
    clock = f" at {roofs.fp32_clock_mhz:,.0f} MHz" if roofs.fp32_clock_mhz else ""
    return [
        ("FP32 measured", f"{roofs.fp32_gflops:,.0f} GFLOP/s{clock}"
                          f"{_share(roofs.fp32_gflops, device.fp32_roof_gflops)}"),
        ("copy measured", f"{roofs.copy_gbs:,.0f} GB/s, read and written"
                          f"{_share(roofs.copy_gbs, device.dram_peak_gbs)}"),
        ("measured on", roofs.date),
    ]  # fmt: skip


def _share(measured: float, peak: float | None) -> str:
    return f", {100 * measured / peak:.0f} % of it" if peak else ""


def timer_page(device: Device, report: TimerReport) -> RenderableType:
    """What the timer adds to a launch, and how it agrees with the card's own clocks."""
    floors = Table(box=None, pad_edge=False)
    floors.add_column("an empty kernel")
    floors.add_column("median us", justify="right")
    for name, microseconds in report.floors_us.items():
        floors.add_row(name, f"{microseconds:.2f}")
    spins = Table(box=None, pad_edge=False)
    for title in ("cycles", "timer us", "less floor", "card's timer us", "difference us"):
        spins.add_column(title, justify="right")
    for spin in report.spins:
        net = spin.timer_us - report.floors_us["cold"]
        spins.add_row(
            f"{spin.cycles:,}", f"{spin.timer_us:.2f}", f"{net:.2f}", f"{spin.inside_us:.2f}",
            f"{net - spin.inside_us:+.2f}",
        )  # fmt: skip
    nvml = f", NVML says {report.nvml_clock_mhz:,.0f}" if report.nvml_clock_mhz else ""
    return Group(
        Text(f"{device.name}, driver {device.driver}", "bold"),
        floors,
        Text(),
        spins,
        Text(
            f"\nfloor {report.floors_us['cold']:.2f} us cold, bias at most {report.bias_us:.2f} us "
            f"beyond it; the spins imply an SM clock of {report.clock_mhz:,.0f} MHz{nvml}."
        ),
    )


def checks(found: Sequence[Check]) -> RenderableType:
    """The doctor's findings: what is there, and below each gap what mends it."""
    parts: list[RenderableType] = []
    for check in found:
        mark, style = ("ok  ", "green") if check.ok else ("miss", "yellow")
        line = Text(mark, style).append(f"  {check.name}: ", "bold").append(check.found, "default")
        parts.append(line)
        if not check.ok and check.mend:
            parts.append(Padding(Text(check.mend, "cyan"), (0, 0, 0, 6)))
    return Group(*parts)
