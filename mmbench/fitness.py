"""Whether a kernel supports a point and a device has room for it, asked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mmbench import cache
from mmbench.device import Device
from mmbench.expressions import ExpressionError
from mmbench.gpu_only import needs_gpu
from mmbench.metrics import compulsory_bytes
from mmbench.spec import KernelSpec, Launch, Point

# Device copies, host copies for the checks, and a float64 slice of each.
_HOST_COPIES = 3


def unfit_reason(point: Point, device: Device) -> str | None:
    """Why this point cannot run here, as a phrase for a skipped row; None if it can."""
    return next(_reasons(point, device), None)


def gpu_need(spec: KernelSpec) -> str:
    """The first construct of a kernel that needs a GPU, in words; "" where there is none."""
    return needs_gpu(spec.source, cache.local_headers(spec.source, spec.folders))


def _reasons(point: Point, device: Device) -> Iterator[str]:
    spec, problem, names = point.spec, point.problem, point.names
    if device.runner not in spec.runners:
        need = gpu_need(spec)
        yield f"needs a GPU: {need}" if need else f"runs on {' and '.join(spec.runners)} only"
    if not problem.square and not spec.rectangular:
        yield "the kernel takes square matrices only (M = N = K)"
    yield from _memory_reasons(point, device)
    have = device.compute_capability
    if have is not None and have < spec.compute_capability:
        need = "{}.{}".format(*spec.compute_capability)
        yield f"needs compute capability {need}, this device has {have[0]}.{have[1]}"
    try:
        for condition, reason in spec.requires:
            if not condition.value(names):
                yield f"{reason} ({condition})"
        shared = spec.static_shared.value(names) if spec.static_shared else 0
        yield from _launch_reasons(point.launch(), shared, device)
        point.traffic()
    except ExpressionError as error:
        yield f"the header's {error}"


def _launch_reasons(launch: Launch, static_shared: int, device: Device) -> Iterator[str]:
    limits = device.limits
    x, y, z = launch.block
    if min(*launch.block, *launch.grid) < 1:
        yield f"the launch shape is empty: grid {launch.grid}, block {launch.block}"
    if launch.threads > limits.threads:
        yield (
            f"block {x}x{y}{f'x{z}' if z > 1 else ''} = {launch.threads} threads, "
            f"the limit is {limits.threads}"
        )
    for what, dims, most in (
        ("block", launch.block, limits.block),
        ("grid", launch.grid, limits.grid),
    ):
        for axis, size, limit in zip("xyz", dims, most, strict=True):
            if size > limit:
                yield f"{what} {dims} is over the limit of {limit} in {axis}"
    if reason := limits.static_shared_reason(static_shared):
        yield reason
    if launch.dynamic_shared_bytes > limits.dynamic_shared_bytes:
        yield (
            f"needs {launch.dynamic_shared_bytes} bytes of dynamic shared memory per block, "
            f"the limit is {limits.dynamic_shared_bytes}"
        )


def _memory_reasons(point: Point, device: Device) -> Iterator[str]:
    need = compulsory_bytes(point.problem, replace(point.spec.product, beta=0))
    if need > device.memory_bytes:
        where = f"the device has {_gigabytes(device.memory_bytes)}"
    elif need * _HOST_COPIES > device.host_memory_bytes:
        need *= _HOST_COPIES
        where = f"the host, which checks the result, has {_gigabytes(device.host_memory_bytes)}"
    else:
        return
    yield f"needs {_gigabytes(need)} of memory for A, B and C, {where}"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
