"""What the options say comes before the header, and what they cannot mean is said in a sentence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteKernel
from mmbench import kernels
from mmbench.errors import HeaderError, UsageError
from mmbench.expressions import Expression
from mmbench.overrides import Overrides, as_argument, parse_defines, split_axes
from mmbench.product import MATRICES, Problem, Product
from mmbench.spec import Argument, KernelSpec, Point

SPEC = KernelSpec(
    name="mine", path=Path("mine.cu"), source="", entry="f", summary="",
    block=(Expression("TILE_SIZE"), Expression("TILE_SIZE")), grid=(Expression("N"),),
    reads=Expression("1"), writes=Expression("1"),
    arguments=(Argument("C"), Argument("A"), Argument("B"), Argument("K", "size_t")),
    params={"TILE_SIZE": (8, 16), "DEPTH": (4,)},
)  # fmt: skip
BLAS = replace(
    SPEC, arguments=(*SPEC.arguments, Argument("alpha", "float"), Argument("beta", "float"))
)


def applied(spec: KernelSpec = SPEC, **options: Any) -> KernelSpec:
    return Overrides(**options).apply(spec)


def complaint(_spec: KernelSpec = SPEC, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        applied(_spec, **options)
    assert "\n" not in caught.value.message
    return caught.value.message


def texts(axes: tuple[Expression, ...]) -> list[str]:
    return [axis.text for axis in axes]


def test_no_options_change_nothing() -> None:
    assert applied() == SPEC
    rich = replace(BLAS, product=Product("float64", "float64", frozenset("B"), 2, 3),
                   defines={"X": "1"}, includes=(Path("a"),), dynamic_shared=Expression("8"),
                   alternatives=(SPEC,))  # fmt: skip
    assert applied(rich) == rich


# --args


PARAMETERS = ("out", "x", "w", "n")


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("C,A,B,N", {"out": "C", "x": "A", "w": "B", "n": "N"}),
        (" C , A,B , N ", {"out": "C", "x": "A", "w": "B", "n": "N"}),
        ("out=C", {"out": "C"}),
        ("n = K * 2 , out=C", {"out": "C", "n": "K * 2"}),
        ("w=null,x=A", {"x": "A", "w": "null"}),
    ],
)
def test_roles(args: str, found: dict[str, str]) -> None:
    assert Overrides(args=args).roles(PARAMETERS) == found
    assert Overrides().roles(PARAMETERS) == {}


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ("A,B,C", "--args has 3 names, the kernel has 4 parameters (out, x, w, n); name one for "),
        ("C,A,B,N,K", "--args has 5 names, the kernel has 4 parameters"),
        ("bias=null", '--args: "bias=null" names no parameter of the kernel; write NAME=ROLE with'),
        ("out=C,A", '--args: "A" names no parameter'),
        ("out=C,", '--args: "" names no parameter'),
        ("", "--args has 1 names"),
    ],
)
def test_roles_that_do_not_fit(args: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        Overrides(args=args).roles(PARAMETERS)
    assert reason in caught.value.message


def test_args_replace_those_of_a_header() -> None:
    assert applied(args="A,C,B,N").arguments == (
        Argument("A"), Argument("C"), Argument("B"), Argument("N", "size_t"),
    )  # fmt: skip
    assert applied(args="K=N * T").arguments[3] == Argument("N * TILE_SIZE", "size_t")
    assert applied(args="B=null,K=int 7").arguments[2:] == (Argument("null"), Argument("7", "int"))
    (other,) = applied(replace(SPEC, alternatives=(SPEC,)), args="K=N").alternatives
    assert other.arguments[3] == Argument("N", "size_t")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ("K=A", '--args: "A" does not fit its parameter, which takes a size, alpha, beta or a n'),
        ("C=N", '--args: "N" does not fit its parameter, which takes A, B, C or null'),
        ("K=width", '--args: "width": width is neither A, B, C, null, alpha, beta nor a size'),
        ("K=N +", '--args: "N +" is not an arithmetic expression'),
    ],
)
def test_args_that_mean_nothing(args: str, reason: str) -> None:
    assert complaint(args=args).startswith(reason)


def test_an_argument_for_a_parameter() -> None:
    assert as_argument("null", "", pointer=True) == Argument("null")
    assert as_argument("alpha", "double", pointer=False) == Argument("alpha", "double")
    assert as_argument("1.5", "float", pointer=False) == Argument("1.5", "float")
    with pytest.raises(UsageError, match="neither alpha, beta nor a number"):
        as_argument("N", "float", pointer=False)


# --block, --grid and --shared


def test_launch() -> None:
    found = applied(block="T, T/2", grid="ceil(N/T),M", shared="2*T*T*4 + DEPTH")
    assert texts(found.block) == ["TILE_SIZE", "TILE_SIZE/2"]
    assert texts(found.grid) == ["ceil(N/TILE_SIZE)", "M"]
    assert str(found.dynamic_shared) == "2*TILE_SIZE*TILE_SIZE*4 + DEPTH"
    launch = Point(found, Problem(3, 40, 5), {"TILE_SIZE": 16, "DEPTH": 4}).launch()
    assert launch.block == (16, 8, 1)
    assert launch.grid == (3, 3, 1)
    assert launch.dynamic_shared_bytes == 2052


def test_one_of_block_and_grid_leaves_the_other() -> None:
    assert texts(applied(block="256").grid) == ["N"]
    assert texts(applied(grid="1,2,3").block) == ["TILE_SIZE", "TILE_SIZE"]


def test_axes_are_split_outside_of_brackets() -> None:
    assert split_axes("ceil_div(N, 64),max(M, 2)") == ("ceil_div(N, 64)", "max(M, 2)")
    assert split_axes(" 1 , 2,3") == ("1", "2", "3")
    assert split_axes("T") == ("TILE_SIZE",)
    assert split_axes("TOTAL, OUT") == ("TOTAL", "OUT")
    assert split_axes(None) == ()


@pytest.mark.parametrize(
    ("option", "text", "reason"),
    [
        ("block", "1,2,3,4", '--block: "1,2,3,4" has 4 axes; write x or x,y or x,y,z'),
        ("grid", "N +", '--grid: "N +" is not an arithmetic expression'),
        ("grid", "M,", '--grid: "" is not an arithmetic expression'),
        ("block", "WIDTH", '--block: "WIDTH" uses WIDTH; known: DEPTH, K, M, N, TILE_SIZE'),
        ("shared", "lda", '--shared: "lda" uses lda'),
        ("shared", "sizeof(float)", '--shared: "sizeof(float)" is not allowed here'),
        ("grid", "N << 2", '--grid: "N << 2" is not allowed here'),
    ],
)
def test_launch_that_means_nothing(option: str, text: str, reason: str) -> None:
    assert complaint(SPEC, **{option: text}).startswith(reason)


# --define and --include


def test_defines() -> None:
    found = applied(replace(SPEC, defines={"A": "1", "B": "2"}),
                    defines={"B": "3", "ROWS": "M * T", "REAL": "double"})  # fmt: skip
    assert found.defines == {
        "A": "1", "B": Expression("3"), "ROWS": Expression("M * TILE_SIZE"), "REAL": "double",
    }  # fmt: skip
    point = Point(found, Problem(3, 4, 5), {"TILE_SIZE": 16})
    assert point.defines == ("-DA=1", "-DB=3", "-DREAL=double", "-DROWS=48", "-DTILE_SIZE=16")


def test_a_defined_parameter_is_swept_no_more() -> None:
    found = applied(defines={"DEPTH": "8"})
    assert found.params == {"TILE_SIZE": (8, 16)}
    assert Point(found, Problem(1, 1, 1), {"TILE_SIZE": 8}).defines == (
        "-DDEPTH=8",
        "-DTILE_SIZE=8",
    )


def test_definitions_of_the_command_line() -> None:
    assert parse_defines(["N=64", "FAST", "T=", "X=a=b"]) == {
        "N": "64", "FAST": "1", "T": "1", "X": "a=b",
    }  # fmt: skip
    for text in ("=3", "2N=3", "a b=1", "-x", ""):
        with pytest.raises(UsageError, match="is not NAME=VALUE"):
            parse_defines([text])


def test_includes_follow_the_files_own() -> None:
    found = applied(replace(SPEC, includes=(Path("a"),)), includes=(Path("b"), Path("c")))
    assert found.includes == (Path("a"), Path("b"), Path("c"))
    assert found.folders == (Path(), Path("a"), Path("b"), Path("c"))


# --layout, --trans-a, --trans-b, --alpha and --beta


@pytest.mark.parametrize(
    ("layout", "transposed", "down"),
    [
        (None, "", "B"),
        ("row", "", ""),
        ("col", "", "ABC"),
        ("B=row", "", ""),
        ("A=col", "", "AB"),
        ("A=col,B=row, C=col", "", "AC"),
        (None, "A", "AB"),
        (None, "B", ""),
        ("row", "B", "B"),
        ("col", "B", "AC"),
        ("col", "AB", "C"),
    ],
)
def test_storage(layout: str | None, transposed: str, down: str) -> None:
    spec = replace(SPEC, product=Product(column_major=frozenset("B")))
    found = applied(spec, layout=layout, transposed=frozenset(transposed))
    assert found.product.column_major == frozenset(down)


@pytest.mark.parametrize("text", ["column", "", "A", "A=down", "D=col", "A=col,", "row,col"])
def test_layout_that_means_nothing(text: str) -> None:
    assert complaint(layout=text) == (
        f'--layout: "{text}" is not row, col, or a list such as B=col,C=row'
    )


def test_factors() -> None:
    spec = replace(SPEC, product=Product(alpha=2, beta=3))
    assert applied(spec).product == spec.product
    assert applied(spec, alpha=-1.0).product == Product(alpha=-1, beta=3)
    assert applied(spec, beta=0.0).product == Product(alpha=2, beta=0)


def test_a_fraction_is_for_a_kernel_that_takes_it() -> None:
    assert applied(BLAS, alpha=0.5, beta=0.25).product == Product(alpha=0.5, beta=0.25)
    assert complaint(alpha=0.5) == (
        "--alpha 0.5: f takes no alpha, and only whole numbers can be checked exactly without; "
        "give a whole number"
    )
    assert complaint(beta=0.25).startswith("--beta 0.25: f takes no beta")
    assert complaint(BLAS, args="beta=float 1", beta=0.5).startswith("--beta 0.5: f takes no beta")


# Through the catalogue, for files with a header


BODY = "__global__ void matmul(const float *A, const float *B, float *C, int N) {}\n"


def test_a_file_with_a_header(write_kernel: WriteKernel) -> None:
    path = str(write_kernel("mine", BODY))
    found = kernels.get(path, Overrides(layout="col", block="32,4", defines={"FAST": "1"}))
    assert found.product.column_major == frozenset(MATRICES)
    assert texts(found.block) == ["32", "4"]
    assert found.defines == {"FAST": Expression("1")}
    assert kernels.get(path).product == Product()
    assert kernels.get(path, Overrides(args="A,B,C,K")).arguments[3] == Argument("K")
    with pytest.raises(UsageError, match="the header names the entry point matmul, not other"):
        kernels.get(path, Overrides(entry="other"))
    assert kernels.get(path, Overrides(entry="matmul")).entry == "matmul"


def test_a_built_in_kernel() -> None:
    found = kernels.get("naive", Overrides(beta=1, grid="ceil(N/T),ceil(M/T)"))
    assert found.product.beta == 1
    assert texts(found.grid) == ["ceil(N/TILE_SIZE)", "ceil(M/TILE_SIZE)"]


def test_what_a_header_may_say_of_them(write_kernel: WriteKernel) -> None:
    extra = """\
// dtype = "int8"
// c_dtype = "int32"
// column_major = ["B", "C"]
// alpha = 2
// beta = 0.5
// tile = "BM"
// include = ["../headers"]
//
// [defines]
// ROWS = "M / TILE_SIZE"
// MODE = 3
"""
    arguments = '["B", "A", "null", "C", "size_t ldb", "float beta", "float 1.5"]'
    path = write_kernel("mine", BODY, arguments=arguments, extra=extra)
    found = kernels.get(str(path))
    assert found.product == Product("int8", "int32", frozenset("BC"), 2, 0.5)
    assert found.tile_name == "BM"
    assert found.includes == (path.parent / "../headers",)
    assert found.defines == {"ROWS": Expression("M / TILE_SIZE"), "MODE": Expression("3")}
    assert [str(a) for a in found.arguments] == [
        "B", "A", "null", "C", "size_t ldb", "float beta", "float 1.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('c_dtype = "int16"', '"c_dtype" must be one of float16'),
        ('column_major = ["D"]', '"column_major" must be a list of A, B and C'),
        ('column_major = "col"', '"column_major" must be a list of texts'),
        ('alpha = "2"', '"alpha" must be a number'),
        ("beta = true", '"beta" must be a number'),
        ('tile = "16"', '"tile" must be the name of a constant'),
        ("include = [3]", '"include" must be a list of texts'),
        ("defines = 3", "[defines] must be a table"),
        ("[defines]\n// MODE = 1.5", "MODE must be a whole number or an expression"),
    ],
)
def test_a_mistake_in_them_has_its_line(write_kernel: WriteKernel, line: str, reason: str) -> None:
    path = write_kernel("mine", BODY, extra=f"// {line}\n")
    with pytest.raises(HeaderError) as caught:
        kernels.get(str(path))
    assert reason in caught.value.message
    place = path.read_text().split("\n").index(f"// {line}".split("\n")[-1]) + 1
    assert caught.value.message.startswith(f"{path}:{place}: ")


def test_a_header_without_traffic_declares_none(write_kernel: WriteKernel) -> None:
    path = write_kernel("mine", BODY)
    assert kernels.get(str(path)).declares_traffic
    text = path.read_text()
    start, end = text.index("// [traffic]"), text.index("// ///\n", text.index("// [traffic]"))
    path.write_text(text[:start] + text[end:])
    found = kernels.get(str(path))
    assert not found.declares_traffic
    assert (found.reads.text, found.writes.text) == ("M * K + K * N", "M * N")
