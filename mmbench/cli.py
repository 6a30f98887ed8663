"""The command line: the only module that parses options, prints and exits.

Nothing heavy is imported here at the top: --help and --version answer at once.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mmbench import __version__
from mmbench.errors import MmbenchError, UsageError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from mmbench.bench import Bench, Measured
    from mmbench.compare import Comparison, FileComparison
    from mmbench.overrides import Overrides
    from mmbench.product import Problem
    from mmbench.results import Row
    from mmbench.runners import Runner
    from mmbench.spec import KernelSpec, Point

Command = TypeVar("Command", bound=Callable[..., Any])

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_SLOWER, EXIT_UNCLEAR, EXIT_INTERRUPTED = 0, 1, 2, 3, 4, 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)  # of what stdout goes to
KERNEL_FAILURES = ("launch", "crash", "timeout")  # the kernel's fault, not the command's
DEFAULT_RUN_N = 1024
DEFAULT_SWEEP_N = {"cuda": "256:8192:*2", "cpu": "128:1024:*2"}
DEFAULT_LADDER_N = {"cuda": 4096, "cpu": 512}


class Axis(click.ParamType[tuple[int, ...]]):
    """Values of an axis: 256,512 or 256:4096:*2 or 1000:3000:500."""

    name = "values"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        from mmbench.axes import parse_axis

        try:
            return parse_axis(str(value))
        except UsageError as error:
            self.fail(error.message, param, ctx)


class Parameter(click.ParamType[tuple[str, tuple[int, ...]]]):
    """Values of a kernel's parameter: BM=64,128."""

    name = "name=values"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        from mmbench.axes import parse_axis

        name, equals, values = str(value).partition("=")
        if not equals or not name.isidentifier():
            self.fail(f'"{value}" is not NAME=VALUES, such as BM=64,128', param, ctx)
        try:
            return name, parse_axis(values)
        except UsageError as error:
            self.fail(error.message, param, ctx)


class Percent(click.ParamType[float]):
    """A share: 2% or 0.02."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value)
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            self.fail(f'"{value}" is no share; write 2% or 0.02', param, ctx)
        return share


class Index(click.ParamType[tuple[int, int, int]]):
    """The index of a block or thread: x or x,y or x,y,z."""

    name = "x,y"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        import re

        if not re.fullmatch(r"\d+(,\d+){0,2}", str(value)):
            self.fail(f'"{value}" is no index; write x,y, such as 1,0', param, ctx)
        x, y, z = (*map(int, str(value).split(",")), 0, 0)[:3]
        return x, y, z


def main() -> None:
    """Entry point of the console script: run a command and turn errors into exit codes."""
    from mmbench import stopping

    with stopping.as_interrupts() as signals:
        code = _run()
    sys.exit(128 + signals[0] if signals else code)


def _run() -> int:
    """The exit code of the command."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else EXIT_OK
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except MmbenchError as error:
        click.echo(f"mmbench: {error.message}", err=True)
        return EXIT_FAILED if error.kind in KERNEL_FAILURES else EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("mmbench: interrupted", err=True)
        return EXIT_INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click and rich make the first into the second
        _discard_output()  # "| head": nobody is left to be told
        return EXIT_OK
    except OSError as error:
        if error.errno not in _FULL:
            raise
        _discard_output()
        click.echo(f"mmbench: the output cannot be written: {error.strerror}", err=True)
        return EXIT_USAGE


def _discard_output() -> None:
    """Keep the interpreter's last flush from failing once more."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="mmbench")
def cli() -> None:
    """Benchmark CUDA matrix multiplication: is it right, how fast, how far from the roof, why?

    \b
    mmbench run --n 4096 --tile 32        verify and time the default kernels
    mmbench run --kernel mine.cu          the same for your own file
    mmbench check mine.cu                 why it is wrong, with the line
    mmbench compare mine.cu tiled cublas  in turns, with a confidence interval
    mmbench sweep --n 256:4096:*2         sweep N and TILE_SIZE into results/*.csv
    mmbench ladder                        from the first kernel past cuBLAS

    Rates count 2*M*N*K FLOP a product; GFLOP/s and GB/s are 10^9. Without a GPU the same
    kernels run on the host's cores (runner cpu), and every table says so.
    """


def _options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


_runner_options = _options(
    click.option(
        "--runner",
        type=click.Choice(["auto", "cuda", "cpu"]),
        default="auto",
        show_default=True,
        help="cuda: an NVIDIA GPU. cpu: this machine's cores. auto: cuda where a GPU answers.",
    ),
    click.option("--device", default=0, show_default=True, help="Index of the CUDA device."),
)
_shape_options = _options(
    click.option("-m", "--m", "m", type=click.IntRange(min=1), help="Rows of C, if not N."),
    click.option("-k", "--k", "k", type=click.IntRange(min=1), help="Inner size, if not N."),
)
_reading_options = _options(
    click.option("--entry", help="Which __global__ function of a .cu file without a header."),
    click.option(
        "--args",
        metavar="ROLES",
        help="What is passed for each parameter: A, B, C, null, M, N, K, lda, ldb, ldc, alpha, "
        'beta or a number, e.g. "C,A,B,K,N" or "out=C, bias=null".',
    ),
    click.option("--shared", metavar="BYTES", help='Dynamic shared memory, e.g. "2*T*T*4".'),
    click.option(
        "-D",
        "--define",
        "defines",
        metavar="NAME=VALUE",
        multiple=True,
        help="Set a macro or constant of the file; VALUE may use M, N, K and T.",
    ),
    click.option(
        "-I",
        "--include",
        "includes",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="A folder with headers, besides that of the file.",
    ),
    click.option(
        "--layout",
        metavar="ORDER",
        help="Storage of A, B and C: row, col, or e.g. B=col.  [default: row]",
    ),
    click.option("--trans-a", is_flag=True, help="A is stored transposed (K x M)."),
    click.option("--trans-b", is_flag=True, help="B is stored transposed (N x K)."),
    click.option("--alpha", type=float, help="C = alpha*A*B + beta*C.  [default: 1]"),
    click.option("--beta", type=float, help="1: the kernel adds to C.  [default: 0]"),
)
_launch_options = _options(
    click.option("--block", metavar="X,Y", help='Block of the launch, e.g. "T,T" or 256.'),
    click.option("--grid", metavar="X,Y", help='Its grid, e.g. "ceil(N/64),ceil(M/64)".'),
)
_kernel_options = _options(_reading_options, _launch_options)
_tile_option = _options(
    click.option(
        "-t",
        "--tile",
        "tiles",
        type=Axis(),
        help="TILE_SIZE, e.g. 8,16,32.  [default: the kernel's]",
    ),
    click.option(
        "-p",
        "--param",
        "params",
        type=Parameter(),
        multiple=True,
        help="Another parameter of the kernel, e.g. BM=64,128.  [default: as tuned, or the first]",
    ),
)
_baseline_option = click.option(
    "--baseline",
    type=click.Choice(["auto", "none", "cublas", "cublas:default", "blas"]),
    help="Library to measure each point beside, in turns.  "
    "[default: auto, cublas on a GPU and blas on the host; none for sweep]",
)
_measure_options = _options(
    click.option(
        "--cache",
        type=click.Choice(["cold", "hot"]),
        help="cold: overwrite the L2 before each launch. hot: launch in a row.  "
        "[default: cold on a GPU, hot on the host]",
    ),
    click.option("--seed", default=0, show_default=True, help="Seed of the random inputs."),
    click.option(
        "--samples",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Fewest samples of a point.",
    ),
    click.option(
        "--min-time",
        type=click.FloatRange(min=0),
        help="Shortest time to sample a point, in seconds.  [default: 0.5, or --max-time]",
    ),
    click.option(
        "--max-time",
        type=click.FloatRange(min=0),
        default=5.0,
        show_default=True,
        help="Longest time to sample a point, in seconds.",
    ),
    click.option(
        "--interval",
        type=Percent(),
        default="0.5%",
        show_default=True,
        help="Widest confidence interval of the median, plus or minus; 99% takes any.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Take all samples in so many processes anew: medians differ between processes.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        help="Seconds after which a launch is given up.  [default: 60, more for large N on a CPU]",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Show the compiler's whole text."),
)


@cli.command(short_help="Verify and time kernels.")
@click.option("--kernel", "names", multiple=True, help="Name or .cu file; repeat for several.")
@_kernel_options
@click.option("-n", "--n", "n", type=Axis(),
              help="Edge of the matrices, or columns of C with --m and --k.  "
              f"[default: {DEFAULT_RUN_N}]")  # fmt: skip
@_tile_option
@_shape_options
@_runner_options
@_measure_options
@_baseline_option
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table",
              show_default=True, help="What is printed.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write the rows to this .csv (with a .json beside it).")  # fmt: skip
def run(
    names: tuple[str, ...],
    n: tuple[int, ...] | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    device: int,
    form: str,
    out: Path | None,
    verbose: bool,
    **measure: Any,
) -> int:
    """Verify and time kernels, and print a row for each."""
    bench = _open_bench(runner, device, measure)
    from mmbench import axes, csvfile, sidecar

    specs, baseline = _apart(_select(names, measure, bench.runner), measure["baseline"] or "auto")
    problems = _problems(specs, n, m, k, (DEFAULT_RUN_N,))
    points = axes.points(specs, problems, tiles, dict(params), _tuned(bench))
    _overrides(measure).refuse_empty(points)
    with (
        _Output(out, bench, specs, append=False) as output,
        closing(_measure(bench, points, verbose, bench.baseline(baseline))) as measuring,
    ):
        measured = list(output.keep(measuring))
    if form == "csv":
        lines = [csvfile.header_line(), *(csvfile.row_line(each.row) for each in measured)]
        click.echo("".join(lines), nl=False)
    elif form == "json":
        import json

        environment = sidecar.environment(bench.runner.device, specs)
        value = sidecar.as_json(measured, environment)
        click.echo(json.dumps(value, indent=1, allow_nan=False))
    else:
        _print_results([each.row for each in measured], bench)
    return _exit_code(each.row for each in measured)


@cli.command(short_help="Sweep N and TILE_SIZE into a CSV.")
@click.argument("names", metavar="[KERNEL]...", nargs=-1)
@_kernel_options
@click.option("-n", "--n", "n", type=Axis(),
              help="Values of N.  [default: 256:8192:*2 on a GPU, 128:1024:*2 on the host]"
              )  # fmt: skip
@_tile_option
@_shape_options
@_runner_options
@_measure_options
@_baseline_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="The CSV.  [default: results/<UTC>-<device>.csv]")  # fmt: skip
@click.option("--resume", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="Go on with this CSV: measure what it lacks and add to it.")  # fmt: skip
def sweep(
    names: tuple[str, ...],
    n: tuple[int, ...] | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    device: int,
    out: Path | None,
    resume: Path | None,
    verbose: bool,
    **measure: Any,
) -> int:
    """Sweep N and TILE_SIZE into a CSV, a row on the disk as soon as it is measured.

    Beside the CSV a JSON file keeps the environment and every sample. KERNEL is a name or a
    .cu file; without one the default kernels are swept. On a GPU, what is compiled first is
    measured first, while the rest is compiled; the table is in order.
    """
    if out and resume:
        raise click.UsageError("--resume already names the file; leave --out away")
    bench = _open_bench(runner, device, measure)
    from mmbench import axes, baselines, csvfile
    from mmbench.results import in_order, latest

    specs, baseline = _apart(_select(names, measure, bench.runner), measure["baseline"] or "none")
    usual = axes.parse_axis(DEFAULT_SWEEP_N[bench.runner.device.runner])
    swept = _tuned(bench)
    points = axes.points(
        specs, _problems(specs, n, m, k, usual), tiles, dict(params),
        lambda spec, problem: None if "TILE_SIZE" in spec.params else swept(spec, problem),
    )  # fmt: skip
    _overrides(measure).refuse_empty(points)
    path = resume or out or _default_csv(bench)
    left = bench.remaining(points, csvfile.read_rows(resume)) if resume else points
    if resume:
        _say(f"{len(points) - len(left)} of {len(points)} points are in {resume} already")
    with _Output(path, bench, specs, append=resume is not None) as output:
        try:
            library = bench.baseline(baseline)
            with closing(_measure(bench, left, verbose, library, in_order=False)) as measuring:
                for _ in output.keep(measuring):
                    pass
        except KeyboardInterrupt:
            _say(
                f"interrupted: {output.written} of {len(left)} points were measured and are in "
                f"{path}; go on with: mmbench {_resume_command(path)}"
            )
            return EXIT_INTERRUPTED
    asked = [bench.point_key(point) for point in points]
    written = latest(csvfile.read_rows(path))
    wanted = {*asked}
    rows = [row for row in written if row.point_key in wanted or row.kernel in baselines.NAMES]
    rows = in_order(rows, asked)
    _print_results(rows, bench)
    from mmbench import best, table  # late, as they load rich

    if found := best.best_tiles(rows):
        _console().print()
        _console().print(table.best_tiles(found))
    _say(f"wrote {path} and {path.with_suffix('.json').name}")
    return _exit_code(rows)


@cli.command(short_help="Compare kernels in turns, or two CSV files.")
@click.argument("names", metavar="KERNEL KERNEL... | OLD.csv NEW.csv", nargs=-1)
@_kernel_options
@click.option("-n", "--n", "n", type=Axis(),
              help=f"Values of N.  [default: {DEFAULT_RUN_N}]")  # fmt: skip
@_tile_option
@_shape_options
@_runner_options
@_measure_options
@click.option("--margin", type=Percent(), default="1%", show_default=True,
              help="Differences below this count as the same.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["slower"]),
              help="Exit 3 if a kernel is slower than the first, 4 if that stays unclear."
              )  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "markdown", "json"]),
              default="table", show_default=True, help="What is printed.")  # fmt: skip
def compare(
    names: tuple[str, ...],
    n: tuple[int, ...] | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    device: int,
    verbose: bool,
    margin: float,
    fail_on: str | None,
    form: str,
    **measure: Any,
) -> int:
    """Compare kernels, measured in turns in one run, or two CSV files.

    The first kernel is the baseline. A speed-up is the ratio of the median times; its
    95 % interval comes from a bootstrap over the rounds, or lies over the processes.
    """
    if len(names) < 2:
        raise click.UsageError("name at least two kernels, or two CSV files")
    files = [name for name in names if name.endswith(".csv")]
    if files:
        if len(files) != len(names) or len(names) != 2:
            raise click.UsageError("compare either kernels or exactly two CSV files")
        return _compare_files(Path(names[0]), Path(names[1]), margin, fail_on, form)
    bench = _open_bench(runner, device, measure)
    from mmbench import axes, table
    from mmbench import compare as comparing

    specs = _select(names, measure, bench.runner)
    problems = _problems(specs, n, m, k, (DEFAULT_RUN_N,))
    if len(specs) < 2:
        raise click.UsageError("name two different kernels")
    points = axes.points(specs, problems, tiles, dict(params), _tuned(bench))
    _overrides(measure).refuse_empty(points)
    groups = comparing.group_points(points)
    rows: list[Row] = []
    found: list[comparing.Comparison] = []
    with closing(_measure_groups(bench, groups, verbose)) as measuring:
        for measured in measuring:
            rows += [each.row for each in measured]
            found += comparing.compare_measured(measured, margin)
    if form == "table":
        _print_results(rows, bench)
        _console().print()
        _console().print(table.comparisons(found))
    else:
        _print_comparisons(found, form)
    return _exit_code(rows) or _verdict_code(found, fail_on)


def _compare_files(old: Path, new: Path, margin: float, fail_on: str | None, form: str) -> int:
    from mmbench import compare as comparing
    from mmbench import table

    found = comparing.compare_files(old, new, margin)
    if form == "table":
        _console().print(table.file_comparison(found, (old.name, new.name)))
    else:
        _print_comparisons(found.comparisons, form, found)
    rows = [each.other for each in found.comparisons]
    return _exit_code(rows) or _verdict_code(found.comparisons, fail_on)


def _print_comparisons(
    found: Sequence[Comparison], form: str, files: FileComparison | None = None
) -> None:
    import json

    from mmbench import compare as comparing
    from mmbench import compare_report

    mean = comparing.geometric_mean(found)
    if form == "markdown":
        click.echo(compare_report.to_markdown(found, mean, files))
    else:
        click.echo(
            json.dumps(compare_report.to_json(found, mean, files), indent=1, allow_nan=False)
        )


def _verdict_code(found: Sequence[Comparison], fail_on: str | None) -> int:
    """What CI is told of the comparisons, where it has asked for that."""
    if fail_on is None:
        return EXIT_OK
    verdicts = {each.ratio.verdict if each.ratio else "unclear" for each in found}
    if fail_on in verdicts:
        return EXIT_SLOWER
    return EXIT_UNCLEAR if "unclear" in verdicts else EXIT_OK


@cli.command(short_help="Find out why a kernel is wrong, with the line.")
@click.argument("name", metavar="KERNEL")
@_kernel_options
@click.option("-n", "--n", "n", type=Axis(),
              help="Sizes to check at.  [default: small ones that expose faults]"
              )  # fmt: skip
@_tile_option
@_shape_options
@click.option("--runner", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True,
              help="cpu: the checked build, no GPU needed. cuda: compute-sanitizer on the GPU."
              )  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "json", "sarif"]), default="table",
              show_default=True, help="What is printed.")  # fmt: skip
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0,
              show_default=True, help="Seconds for one point.")  # fmt: skip
def check(
    name: str,
    n: tuple[int, ...] | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    form: str,
    timeout: float,
    **reading: Any,
) -> int:
    """Find out why a kernel is wrong: races, stray accesses, missing barriers, with the line.

    The checked build runs the kernel on the host, counts every access and says what a warp
    makes of it. No GPU is needed. Exits 1 if something was found.
    """
    from mmbench import axes, check_view
    from mmbench import check as checking
    from mmbench.fitness import gpu_need

    spec = _get(name, reading, runner)
    if runner not in spec.runners:
        need, where = gpu_need(spec), f"runs on {' and '.join(spec.runners)} only"
        why = f"uses {need}, so it {where}" if need and runner == "cpu" else where
        raise UsageError(
            f"{spec.path}: {spec.entry} {why}; check it with --runner {spec.runners[0]}"
        )
    given = axes.given_params([spec], tiles, dict(params))
    if n or m or k:
        sizes = n or dict.fromkeys(each.problem.n for each in checking.choose_points(spec, given))
        points = axes.points([spec], axes.problems(tuple(sizes), m, k), tiles, dict(params))
    else:
        points = checking.choose_points(spec, given)
    points = _fit(points, runner)
    if runner == "cuda":
        from mmbench.check import sanitizer

        found = sanitizer.check_kernel_on_gpu(spec, points, timeout)
    else:
        found = checking.check_kernel(spec, points, timeout=timeout)
    if form == "table":
        _console().print(check_view.report(found, runner))
    else:
        import json

        from mmbench.check.sarif import to_sarif

        value = to_sarif([found]) if form == "sarif" else check_view.as_json(found)
        click.echo(json.dumps(value, indent=1, allow_nan=False))
    return EXIT_OK if found.ok else EXIT_FAILED


def _fit(points: Sequence[Point], runner: str) -> list[Point]:
    """The points that can run; the reasons of the others on stderr. None left is an error."""
    from mmbench.fitness import unfit_reason
    from mmbench.runners import open_runner

    device = open_runner(runner)[0].device
    reasons = {str(point): unfit_reason(point, device) for point in points}
    for point, reason in reasons.items():
        if reason:
            _say(f"{point} skipped: {reason}")
    left = [point for point in points if not reasons[str(point)]]
    if not left:
        raise UsageError("none of the points asked for can run here")
    return left


@cli.command(short_help="Read the GPU's counters for one launch.")
@click.argument("name", metavar="KERNEL")
@_kernel_options
@click.option("-n", "--n", "n", type=click.IntRange(min=1), default=256, show_default=True,
              help="Edge of the matrices.")  # fmt: skip
@click.option("-t", "--tile", "tiles", type=Axis(),
              help="TILE_SIZE.  [default: the kernel's last]")  # fmt: skip
@_shape_options
def profile(
    name: str,
    n: int,
    tiles: tuple[int, ...] | None,
    m: int | None,
    k: int | None,
    **reading: Any,
) -> int:
    """Read the GPU's counters for one launch: model, counted and measured side by side.

    Needs ncu (Nsight Compute). The card's clocks are left alone. The counts are those of the
    checked build on the host, which takes some seconds from N = 256 on.
    """
    from mmbench import axes, check_view, profiling

    spec = _get(name, reading, "cuda")
    points = axes.points([spec], axes.problems([n], m, k), tiles)
    (point,) = _fit(points[-1:], "cuda")
    _console().print(check_view.profile(point, profiling.profile(point)))
    return EXIT_OK


@cli.command(short_help="Walk with one thread through a kernel.")
@click.argument("name", metavar="KERNEL")
@_reading_options
@click.option("-n", "--n", "n", type=click.IntRange(min=1), default=8, show_default=True,
              help="Edge of the matrices, or columns of C with --m and --k.")  # fmt: skip
@_shape_options
@click.option("-t", "--tile", type=click.IntRange(min=1), default=4, show_default=True,
              help="TILE_SIZE.")  # fmt: skip
@click.option("--block", type=Index(), default="0,0", show_default=True, help="Which block.")
@click.option("--thread", type=Index(), default="0,0", show_default=True,
              help="Which of its threads.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the inputs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path),
              help="Write the walk to this page instead.")  # fmt: skip
def explain(
    name: str,
    n: int,
    m: int | None,
    k: int | None,
    tile: int,
    block: tuple[int, int, int],
    thread: tuple[int, int, int],
    seed: int,
    html: Path | None,
    **reading: Any,
) -> int:
    """Walk with one thread through a kernel: what it loads, waits for, reads, adds and stores.

    Everything shown is what the kernel did in the checked build on the host. No GPU is needed.
    Exits 1 if the element that the thread stores is wrong.
    """
    from mmbench import axes
    from mmbench import explain as explaining
    from mmbench.explain import words

    points = axes.points([_get(name, reading, "cpu")], axes.problems([n], m, k), [tile])
    point = _fit(points[:1], "cpu")[0]
    found = explaining.explain(point, block, thread, seed=seed)
    if html is None:
        from mmbench.explain import text_view

        console = _console()
        console.print(text_view.render(found, console.width))
    else:
        from mmbench.explain import html_view

        try:
            html.write_text(html_view.render(found), encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise UsageError(f"{html}: {error.strerror}") from None
        _say(f"wrote {html}")
    return EXIT_OK if words.check(found)[0] else EXIT_FAILED


@cli.command(short_help="Climb the kernels: what does each idea gain?")
@click.option("-n", "--n", "n", type=click.IntRange(min=1), help="Edge of the matrices.  "
              f"[default: {DEFAULT_LADDER_N['cuda']} on a GPU, {DEFAULT_LADDER_N['cpu']} on the "
              "host]")  # fmt: skip
@_tile_option
@_shape_options
@_runner_options
@_measure_options
@_baseline_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path),
              help="Also write the rows to this .csv (with a .json beside it).")  # fmt: skip
def ladder(
    n: int | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    device: int,
    out: Path | None,
    verbose: bool,
    **measure: Any,
) -> int:
    """Climb from the first built-in kernel to the last: what does each idea gain, and why?

    Every kernel is measured beside the library, with its tuned parameters or all values of
    TILE_SIZE, of which the fastest counts.
    """
    bench = _open_bench(runner, device, measure)
    from mmbench import axes, kernels, rungs, table

    specs = [spec for spec in kernels.ladder() if bench.runner.device.runner in spec.runners]
    size = n or DEFAULT_LADDER_N[bench.runner.device.runner]
    points = axes.points(specs, axes.problems([size], m, k), tiles, dict(params), _tuned(bench))
    library = bench.baseline(measure["baseline"] or "auto")
    with (
        _Output(out, bench, specs, append=False) as output,
        closing(_measure(bench, points, verbose, library)) as measuring,
    ):
        rows = [each.row for each in output.keep(measuring)]
    found = rungs.climb(specs, rows)
    libraries = [row for row in rows if _is_library(row)]
    device_of, times = bench.runner.device, bench.runner.times
    _console().print(table.ladder(found, libraries, device_of, times, _console().width))
    return _exit_code(row for row in rows if row.status != "skipped")


@cli.command(short_help="Find a kernel's best parameters.")
@click.argument("name", metavar="KERNEL")
@_kernel_options
@click.option("-n", "--n", "n", type=Axis(),
              help=f"Values of N, each tuned for itself.  [default: {DEFAULT_RUN_N}]")  # fmt: skip
@_tile_option
@_shape_options
@_runner_options
@_measure_options
@click.option("--most", type=click.IntRange(min=2), default=200, show_default=True,
              help="Most configurations to try for each N.")  # fmt: skip
@click.option("--margin", type=Percent(), default="1%", show_default=True,
              help="Differences below this are ties.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Do not keep the winners.")
def tune(
    name: str,
    n: tuple[int, ...] | None,
    tiles: tuple[int, ...] | None,
    params: tuple[tuple[str, tuple[int, ...]], ...],
    m: int | None,
    k: int | None,
    runner: str,
    device: int,
    most: int,
    margin: float,
    dry_run: bool,
    verbose: bool,
    **measure: Any,
) -> int:
    """Find a kernel's best parameters: every configuration is verified, the best are timed again.

    Small spaces are tried whole; of larger ones a random half of --most, then the neighbours of
    the fastest. The winners are kept for this device, and run, compare and ladder take them.
    """
    bench = _open_bench(runner, device, measure)
    from mmbench import table, tuned, tuning
    from mmbench.fitness import unfit_reason

    (spec,) = _select([name], measure, bench.runner)
    if not spec.params:
        raise UsageError(
            f"{spec.name} has no parameters to tune; [params] in its header names them"
        )
    values = dict(params) | ({"TILE_SIZE": tiles} if tiles else {})
    here = bench.runner.device
    quick = bench.quick()
    code = EXIT_OK
    for problem in _problems([spec], n, m, k, (DEFAULT_RUN_N,)):
        points = tuning.space(spec, problem, values, lambda point: not unfit_reason(point, here))
        if not points:
            raise UsageError(f"no configuration of {spec.name} fits at {problem} on this device")

        def measured(chosen: Sequence[Point]) -> list[Measured]:
            with closing(_measure(quick, chosen, verbose)) as measuring:
                return list(measuring)

        found = tuning.explore(points, most, measure["seed"], measured)
        final = tuning.finalists(found)
        again: list[Measured] = []
        if final:
            with closing(_measure_groups(bench, [final], verbose)) as measuring:
                again = [each for group in measuring for each in group]
        won = tuning.winner(again, found, margin)
        _console().print(table.tuning(spec, problem, won, len(points)))
        if won is None:
            code = EXIT_FAILED
        elif not dry_run:
            tuned.save(here.name, spec, problem, won.measured.point.params)
    if code == EXIT_OK and not dry_run:
        _say(f"kept in {tuned.path()}")
    return code


@cli.command(short_help="Draw results as pictures or in the terminal.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=click.Path(dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="pictures",
              show_default=True, help="Folder for the pictures.")  # fmt: skip
@click.option("--kind", "kinds", multiple=True, type=click.Choice(["speed", "tiles", "roofline"]),
              help="Which pictures; repeat for several.  [default: all]")  # fmt: skip
@click.option("--format", "forms", multiple=True, type=click.Choice(["png", "svg"]),
              help="File formats; repeat for both.  [default: both]")  # fmt: skip
@click.option("--terminal", is_flag=True, help="Draw GFLOP/s over N here instead.")
def plot(
    files: tuple[Path, ...],
    out: Path,
    kinds: tuple[str, ...],
    forms: tuple[str, ...],
    terminal: bool,
) -> None:
    """Draw results: GFLOP/s over N, tile over N, roofline. Files of one device go together."""
    from mmbench import plotting

    if terminal:
        console = _console()
        height = max(12, min(console.height - 4, 30))
        colour, plain = console.color_system is not None, not console.encoding.startswith("utf")
        click.echo(plotting.terminal(files, console.width, height, colour, plain=plain))
        return
    for path in plotting.write(files, out, kinds or plotting.KINDS, forms or plotting.FORMATS):
        _say(f"wrote {path}")


@cli.command(short_help="Write one page of a CSV.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path),
              default="report.html", show_default=True, help="The page to write.")  # fmt: skip
def report(file: Path, out: Path) -> None:
    """Write one page of a CSV: tables, pictures, environment, and how to read them."""
    from mmbench import report as reporting

    page = reporting.of_file(file)
    try:
        out.write_text(page, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}") from None
    _say(f"wrote {out}")


@cli.command(name="list")
def list_kernels() -> None:
    """List the built-in kernels, each below the one it improves on."""
    from mmbench import catalogue_view, kernels

    _console().print(catalogue_view.kernel_list(kernels.ladder()))


@cli.command()
@click.argument("name", metavar="KERNEL")
@_kernel_options
def show(name: str, **reading: Any) -> None:
    """Show a kernel: its header in words and its source."""
    from mmbench import catalogue_view

    _console().print(catalogue_view.kernel_page(_get(name, reading)))


@cli.command(short_help="Write what was read of a .cu file into its top.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_kernel_options
@click.option("--stdout", is_flag=True, help="Print the header instead of writing it.")
def init(file: Path, stdout: bool, **reading: Any) -> None:
    """Write a header into the top of a .cu file: what mmbench has read from it, to be edited.

    The options say what cannot be read. From then on the file needs none of them.
    """
    from mmbench import header
    from mmbench.infer import header_text, write_on_top

    if header.has_header(header.read_source(file)):
        raise UsageError(f"{file} has a header already; edit that one (mmbench show {file})")
    text = header_text(_get(str(file), reading, "auto"))
    if stdout:
        click.echo(text, nl=False)
    else:
        write_on_top(file, text)
        _say(f"wrote {len(text.splitlines())} lines into the top of {file}")


@cli.command()
@click.option("--roofs", is_flag=True,
              help="Measure what a GPU reaches: FP32 FMAs, and a copy in DRAM.")  # fmt: skip
@click.option("--again", is_flag=True, help="Measure the roofs anew.")
def devices(roofs: bool, again: bool) -> None:
    """List what kernels can run on."""
    from mmbench import catalogue_view
    from mmbench.errors import RunnerUnavailableError
    from mmbench.runners import open_runner

    found, reasons, index = [], [], 0
    while True:
        try:
            found.append(open_runner("cuda", index)[0].device)
            index += 1
        except RunnerUnavailableError as error:
            if index == 0:
                reasons.append(f"no CUDA device: {error.message}")
            break
    try:
        found.append(open_runner("cpu")[0].device)
    except RunnerUnavailableError as error:
        reasons.append(f"no cpu runner: {error.message}")
    for device in found:
        measured = None
        if roofs and device.runner == "cuda":
            from mmbench import lock, probes

            with lock.held(device.uuid, _say):
                measured = probes.measured_roofs(device, again)
        _console().print(catalogue_view.device_page(device, measured))
        _console().print()
    for reason in reasons:
        _say(reason)


@cli.command(short_help="Check what is installed, and what is missing.")
@click.option("--timer", is_flag=True,
              help="Time an empty kernel and kernels of known length on the GPU.")  # fmt: skip
@click.option("--device", default=0, show_default=True, help="Index of the CUDA device.")
def doctor(timer: bool, device: int) -> int:
    """Check what is installed for each runner, and say how to mend what is missing.

    Exits 0 if at least one runner works.
    """
    from mmbench import catalogue_view

    if timer:
        from mmbench import lock, probes
        from mmbench.runners import open_runner

        opened = open_runner("cuda", device)[0].device
        with lock.held(opened.uuid, _say):
            report = probes.timer_report(device)
        _console().print(catalogue_view.timer_page(opened, report))
        return EXIT_OK
    from mmbench import doctor as examining

    checks = examining.examine()
    _console().print(catalogue_view.checks(checks))
    works = [name for name in ("cuda", "cpu") if examining.usable(checks, name)]
    _console().print(f"\nrunners that work here: {', '.join(works) or 'none'}")
    return EXIT_OK if works else EXIT_USAGE


def _select(
    names: Sequence[str], options: dict[str, Any], runner: Runner | None = None
) -> list[KernelSpec]:
    """The kernels named, as the options say; what was inferred of a file goes to stderr.

    Where a file can be read in several ways, the runner finds the one that is right.
    """
    from mmbench import kernels, trial

    found = []
    for spec in kernels.select(names, _overrides(options)):
        for note in spec.notes:
            _say(f"{spec.path.name}: {note}")
        found.append(spec if runner is None else trial.settle(spec, runner, _say))
    return found


def _apart(specs: Sequence[KernelSpec], baseline: str) -> tuple[list[KernelSpec], str]:
    """The kernels, and the library to measure them beside: one named among them comes first.

    Libraries alone, or several, are measured as kernels.
    """
    found = [spec for spec in specs if not spec.library]
    libraries = [spec.name for spec in specs if spec.library]
    if not found or len(libraries) > 1:
        return list(specs), "none"
    return found, libraries[0] if libraries else baseline


def _overrides(options: dict[str, Any]) -> Overrides:
    from mmbench.overrides import Overrides, parse_defines

    turned = (name for name in "AB" if options[f"trans_{name.lower()}"])
    return Overrides(
        entry=options["entry"],
        args=options["args"],
        block=options.get("block"),
        grid=options.get("grid"),
        shared=options["shared"],
        defines=parse_defines(options["defines"]),
        includes=options["includes"],
        layout=options["layout"],
        transposed=frozenset(turned),
        alpha=options["alpha"],
        beta=options["beta"],
    )


def _get(name: str, options: dict[str, Any], runner: str | None = None) -> KernelSpec:
    """One kernel; ``runner`` settles its readings where there are several."""
    from mmbench import kernels, trial
    from mmbench.runners import open_runner

    spec = kernels.get(name, _overrides(options))
    for note in spec.notes:
        _say(f"{spec.path.name}: {note}")
    if runner is None or not spec.alternatives:
        return spec
    return trial.settle(spec, open_runner(runner)[0], _say)


def _problems(
    specs: Sequence[KernelSpec],
    n: Sequence[int] | None,
    m: int | None,
    k: int | None,
    usual: Sequence[int],
) -> tuple[Problem, ...]:
    from mmbench import axes

    if n or m or k:
        return axes.problems(n or usual, m, k)
    return axes.default_problems(specs, usual)


def _tuned(bench: Bench) -> Callable[[KernelSpec, Problem], dict[str, int] | None]:
    """The winners of earlier tunings on this device; each is named once when it is taken."""
    from mmbench import tuned

    device = bench.runner.device.name
    said: set[str] = set()

    def find(spec: KernelSpec, problem: Problem) -> dict[str, int] | None:
        params = None if spec.library or not spec.params else tuned.find(device, spec, problem)
        if params:
            values = " ".join(f"{name}={value}" for name, value in params.items())
            text = f"{spec.name}: {values}, as tuned on this device"
            if text not in said:
                said.add(text)
                _say(text)
        return params

    return find


def _open_bench(runner: str, device: int, measure: dict[str, Any]) -> Bench:
    """Open the runner and check what the options ask of it.

    A command calls it before it imports what it needs later: on a GPU a worker starts meanwhile.
    """
    from mmbench import driver, worker_process

    if runner != "cpu" and driver.is_there():
        driver.begin()
        worker_process.start_early("cuda", device)
    from mmbench.bench import Bench, Settings
    from mmbench.measure import StopRule
    from mmbench.runners import open_runner

    opened, reason = open_runner(runner, device)
    if reason:
        _say(f"{reason.partition(';')[0]}; using the cpu runner: host times, not a GPU's")
    cache = measure["cache"] or opened.modes[0]
    if cache not in opened.modes:
        raise click.UsageError(
            f"--cache {cache} is not for the {opened.device.runner} runner; "
            f"it measures {' and '.join(opened.modes)}"
        )
    shortest, longest = measure["min_time"], measure["max_time"]
    if shortest is None:
        shortest = min(StopRule.min_time, longest)
    if longest < shortest:
        raise click.UsageError(f"--max-time {longest:g} is below --min-time {shortest:g}")
    rule = StopRule(
        samples=measure["samples"],
        min_time=shortest,
        precision=measure["interval"],
        budget=longest,
        warm_up=min(StopRule.warm_up, longest),
    )
    settings = Settings(rule, cache, measure["seed"], measure["timeout"], measure["processes"])
    return Bench(opened, settings)


def _measure(
    bench: Bench,
    points: Sequence[Point],
    verbose: bool,
    baseline: str = "",
    in_order: bool = True,
) -> Generator[Measured]:
    """Measure points, each beside the baseline, whose own row comes once for each problem."""
    from collections import Counter

    groups = bench.pairs(points, baseline)
    left = Counter(group[0].problem for group in groups)
    held: dict[tuple[object, ...], Measured] = {}
    with closing(_measure_groups(bench, groups, verbose, in_order)) as measuring:
        for group in measuring:
            yield group[0]
            for library in group[1:]:
                held.setdefault(library.row.point_key, library)
            problem = group[0].point.problem
            left[problem] -= 1
            if not left[problem]:
                for key in [key for key, each in held.items() if each.point.problem == problem]:
                    yield held.pop(key)


def _measure_groups(
    bench: Bench, groups: Sequence[Sequence[Point]], verbose: bool, in_order: bool = True
) -> Generator[list[Measured]]:
    """Measure with a progress bar on stderr; with -v also what a compiler said."""
    from contextlib import nullcontext

    from mmbench import lock
    from mmbench.progress import ProgressView

    device = bench.runner.device
    with (
        lock.held(device.uuid, _say) if device.runner == "cuda" else nullcontext(),
        ProgressView(lambda: _console(stderr=True), groups, bench.settings.processes) as view,
        closing(bench.run_groups(groups, view.update, in_order)) as measuring,
    ):
        for group in measuring:
            view.advance([each.point for each in group])
            for each in group:
                if verbose and each.details:
                    _say(each.details)
            yield group


class _Output:
    """The CSV and JSON files of a command, or nothing where none was asked for."""

    def __init__(
        self, path: Path | None, bench: Bench, specs: Sequence[KernelSpec], append: bool
    ) -> None:
        from mmbench import csvfile, sidecar

        self.written = 0
        self._csv: csvfile.CsvWriter | None = None
        if path is None:
            return
        if path.suffix != ".csv":
            raise UsageError(f"{path}: results are written as .csv; name a file that ends so")
        surroundings = sidecar.environment(bench.runner.device, specs)
        self._csv = csvfile.CsvWriter(path, append)
        try:
            self._sidecar = sidecar.Sidecar(path, surroundings, append, self._csv.kept)
        except MmbenchError:
            self._csv.__exit__()
            raise
        if self._csv.kept is not None:
            _say(f"{path} held rows of an earlier run; they are in {self._csv.kept.name} now")

    def keep(self, measured: Iterable[Measured]) -> Iterator[Measured]:
        """Write each as it comes, and pass it on."""
        from mmbench import stopping

        for each in measured:
            if self._csv is not None:
                with stopping.held_back():  # both files have the row, or neither
                    self._csv.write(each.row)
                    self._sidecar.write(each)
                    self.written += 1
            yield each

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._csv is None:
            return
        self._csv.__exit__()
        if kind is not None and self.written:
            rows = "1 row is" if self.written == 1 else f"{self.written} rows are"
            _say(f"{rows} in {self._csv.path}")


def _default_csv(bench: Bench) -> Path:
    import datetime
    import re

    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    device = re.sub(r"[^a-z0-9]+", "-", bench.runner.device.name.lower()).strip("-")
    return Path("results") / f"{now}-{device}.csv"


def _resume_command(path: Path) -> str:
    """This command again, resuming: what Ctrl-C tells people to type."""
    import shlex

    words = iter(sys.argv[1:])
    kept: list[str] = []
    for word in words:
        if word in ("--out", "--resume"):
            next(words, None)
        elif not word.startswith(("--out=", "--resume=")):
            kept.append(word)
    return shlex.join([*kept, "--resume", str(path)])


def _print_results(rows: Sequence[Row], bench: Bench) -> None:
    from mmbench import table

    console = _console()
    device = bench.runner.device
    console.print(table.results(rows, device, bench.runner.times, console.width))


def _exit_code(rows: Iterable[Row]) -> int:
    """1 for a kernel that failed; 2 where nothing could be compiled or run at all."""
    rows = list(rows)
    if rows and all(row.kind in ("compile", "runner") for row in rows if not _is_library(row)):
        return EXIT_USAGE
    fine = all(row.status in ("ok", "skipped") for row in rows)
    return EXIT_OK if fine else EXIT_FAILED


def _is_library(row: Row) -> bool:
    from mmbench import baselines

    return row.kernel in baselines.NAMES


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    # A file's name may hold what rich takes for markup.
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def _say(text: RenderableType) -> None:
    """A remark on stderr: stdout is for results."""
    click.echo(f"mmbench: {text}", err=True)
