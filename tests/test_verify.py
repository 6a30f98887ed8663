"""A right product passes; each defect that a kernel can have is found, and named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench import verify
from mmbench.inputs import Inputs, guard_elements, make_inputs, marker, padded
from mmbench.product import MANTISSA_BITS, Problem, Product
from mmbench.runners import Array
from mmbench.verify import Checker, error_bound

# Writes C, and what else it likes, of (A, B, C with its guard zones, C).
Kernel = Callable[[Array, Array, Array, Array], None]

EDGE = 96
MARKER = marker("float32")
AROUND_INPUTS = -23456
UNCOMPARED = 70  # a row that is not among those compared beyond the full check, see test_rows


@pytest.fixture(params=["full", "sampled"])
def limit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compare all of C, or behave as beyond the limit where that takes too long."""
    if request.param == "sampled":
        monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    return str(request.param)


def plain(dtype: str) -> Product:
    """The product A * B of one element type."""
    return Product(dtype, dtype)


def checker(problem: Problem | None = None, dtype: str = "float32", seed: int = 1) -> Checker:
    return Checker(problem or Problem(EDGE, EDGE, EDGE), plain(dtype), seed)


def run(kernel: Kernel, inputs: Inputs, check: Checker) -> Array:
    whole, c = padded(check.problem, inputs.product, "C")
    kernel(inputs.a, inputs.b, whole, c)
    return whole


def complaint(kernel: Kernel, check: Checker) -> str:
    """What the checks find, in the order in which the worker makes them; "" for a right one."""
    wrong = check.check_whole(run(kernel, check.whole, check))
    return wrong or check.check_real(run(kernel, check.real, check))[0]


def right(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a @ b


def term_by_term(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = 0
    for k in range(a.shape[1]):
        c += a[:, k : k + 1] * b[k : k + 1]


def backwards(a: Array, b: Array, whole: Array, c: Array) -> None:
    term_by_term(a[:, ::-1], b[::-1], whole, c)


def rounded(array: Array, bits: int) -> Array:
    """Float32 values rounded to a shorter mantissa: 8 bits are bfloat16's, 11 are TF32's."""
    unit = 1 << (24 - bits)
    whole = array.astype(np.float32).view(np.uint32).astype(np.int64)
    return ((whole + unit // 2) // unit * unit).astype(np.uint32).view(np.float32)


def after(change: Callable[[Array], None]) -> Kernel:
    """A right kernel whose C is changed after it."""

    def kernel(a: Array, b: Array, whole: Array, c: Array) -> None:
        c[...] = a @ b
        change(c)

    return kernel


def put(row: int, column: int, value: float) -> Callable[[Array], None]:
    def change(c: Array) -> None:
        c[row, column] = value

    return change


def add(row: int, column: int, value: float) -> Callable[[Array], None]:
    def change(c: Array) -> None:
        c[row, column] += value

    return change


def swap_rows(c: Array) -> None:
    c[[UNCOMPARED, UNCOMPARED + 1]] = c[[UNCOMPARED + 1, UNCOMPARED]]


def swap_columns(c: Array) -> None:
    c[:, [0, 1]] = c[:, [1, 0]]


def swap_columns_of_a_row(c: Array) -> None:
    c[UNCOMPARED, [3, 4]] = c[UNCOMPARED, [4, 3]]


def transpose(c: Array) -> None:
    c[...] = c.T.copy()


def marker_row(row: int) -> Callable[[Array], None]:
    def change(c: Array) -> None:
        c[row] = MARKER

    return change


def marker_columns(c: Array) -> None:
    c[:, EDGE - 1] = MARKER


def bfloat16(c: Array) -> None:
    c[...] = rounded(c, 8)


def half(c: Array) -> None:
    c[...] = c.astype(np.float16)


def nothing(a: Array, b: Array, whole: Array, c: Array) -> None:
    pass


def zeros(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = 0


def accumulates(a: Array, b: Array, whole: Array, c: Array) -> None:
    c += a @ b


def drops_last_term(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a[:, :-1] @ b[:-1]


def drops_last_term_in_last_column(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a @ b
    c[:, -1] = a[:, :-1] @ b[:-1, -1]


def counts_a_term_twice(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a @ b + np.outer(a[:, 0], b[0])


def takes_b_transposed(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a @ b.T


def takes_b_times_a(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = b @ a


def a_row_late(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = np.roll(a, 1, axis=0) @ b


def rounds_inputs(bits: int) -> Kernel:
    def kernel(a: Array, b: Array, whole: Array, c: Array) -> None:
        c[...] = rounded(a, bits) @ rounded(b, bits)

    return kernel


@pytest.mark.parametrize("kernel", [right, term_by_term, backwards])
@pytest.mark.parametrize("k", [1, 2, 3, 64, 4096])
@pytest.mark.usefixtures("limit")
def test_right_float32_product_passes(kernel: Kernel, k: int) -> None:
    assert complaint(kernel, checker(Problem(7, 5, k))) == ""


@pytest.mark.parametrize("problem", [Problem(1, 1, 1), Problem(1, 33, 9), Problem(33, 1, 9)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("limit")
def test_right_product_of_any_shape_passes(problem: Problem, dtype: str) -> None:
    for seed in range(3):
        assert complaint(right, checker(problem, dtype, seed)) == ""


@pytest.mark.parametrize("kernel", [right, term_by_term, backwards])
@pytest.mark.usefixtures("limit")
def test_right_float64_product_passes(kernel: Kernel) -> None:
    check = checker(dtype="float64")
    assert complaint(kernel, check) == ""
    _, error = check.check_real(run(kernel, check.real, check))
    assert 0 <= error <= check.bound


@pytest.mark.parametrize(
    "kernel",
    [
        after(transpose),
        after(put(UNCOMPARED, 50, np.nan)),
        after(put(0, 0, np.nan)),
        after(put(EDGE - 1, EDGE - 1, np.inf)),
        after(put(UNCOMPARED, 50, -np.inf)),
        after(add(UNCOMPARED, 50, 1)),
        after(add(UNCOMPARED, EDGE - 1, -1)),
        after(add(0, 0, 1)),
        after(add(EDGE - 1, EDGE - 1, 1)),
        after(swap_rows),
        after(swap_columns),
        after(swap_columns_of_a_row),
        after(marker_row(EDGE - 1)),
        after(marker_row(UNCOMPARED)),
        after(marker_columns),
        nothing,
        zeros,
        accumulates,
        drops_last_term,
        drops_last_term_in_last_column,
        counts_a_term_twice,
        takes_b_transposed,
        takes_b_times_a,
        a_row_late,
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.usefixtures("limit")
def test_wrong_product_is_found_by_whole_numbers(kernel: Kernel, dtype: str) -> None:
    check = checker(dtype=dtype)
    assert check.check_whole(run(kernel, check.whole, check)) != ""


@pytest.mark.parametrize("kernel", [after(bfloat16), after(half), *map(rounds_inputs, (8, 11))])
@pytest.mark.parametrize("k", [1, 16, 96, 1024, 4096])
@pytest.mark.usefixtures("limit")
def test_short_mantissa_is_found(kernel: Kernel, k: int) -> None:
    assert complaint(kernel, checker(Problem(16, 16, k))) != ""


def in_float32(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a.astype(np.float32) @ b.astype(np.float32)


def stores_float32(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = (a @ b).astype(np.float32)


def loads_float32(a: Array, b: Array, whole: Array, c: Array) -> None:
    c[...] = a.astype(np.float32).astype(np.float64) @ b.astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("kernel", [in_float32, stores_float32, loads_float32])
@pytest.mark.parametrize("k", [1, 64, 4096])
@pytest.mark.usefixtures("limit")
def test_float32_in_a_float64_kernel_is_found(kernel: Kernel, k: int) -> None:
    assert "with real inputs" in complaint(kernel, checker(Problem(7, 5, k), "float64"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.usefixtures("limit")
def test_nan_and_infinity_fail_with_real_inputs(value: float) -> None:
    check = checker()
    wrong, error = check.check_real(run(after(put(EDGE - 1, 3, value)), check.real, check))
    assert "max error" in wrong
    assert not error <= check.bound


@pytest.mark.usefixtures("limit")
def test_error_beyond_the_bound_fails_with_real_inputs() -> None:
    check = checker()
    scale = np.abs(check.real.a[-1].astype(float)) @ np.abs(check.real.b[:, 3].astype(float))
    for share, found in ((0.5, False), (3, True)):
        kernel = after(add(EDGE - 1, 3, share * check.bound * scale))
        wrong, error = check.check_real(run(kernel, check.real, check))
        assert bool(wrong) is found
        assert error == pytest.approx(share * check.bound, rel=0.2)
    assert f"the bound for float32 at K={EDGE} is {check.bound:.1e}" in wrong


@pytest.mark.parametrize(
    "place",
    ["first before", "last before", "first behind", "last behind"],
)
@pytest.mark.parametrize("value", [0.0, np.nan, 1.0])
@pytest.mark.parametrize("m", [EDGE, 5])
@pytest.mark.usefixtures("limit")
def test_one_element_outside_c_is_found(place: str, value: float, m: int) -> None:
    check = checker(Problem(m, EDGE, EDGE))
    guard = guard_elements(check.problem, check.product)
    index = {
        "first before": 0,
        "last before": guard - 1,
        "first behind": guard + m * EDGE,
        "last behind": guard + m * EDGE + guard - 1,
    }[place]

    def kernel(a: Array, b: Array, whole: Array, c: Array) -> None:
        c[...] = a @ b
        whole[index] = value

    assert complaint(kernel, check) == "the kernel wrote 1 element outside C"


@pytest.mark.usefixtures("limit")
def test_wrong_inside_and_outside_are_both_named() -> None:
    def kernel(a: Array, b: Array, whole: Array, c: Array) -> None:
        c[...] = a @ b
        c[0, 0] += 1
        whole[:2] = whole[-2:] = 0

    found = complaint(kernel, checker())
    assert "1 of " in found
    assert found.endswith("; the kernel also wrote 4 elements outside C")


@pytest.mark.usefixtures("limit")
def test_a_tile_past_the_last_row_falls_into_the_guard_zone() -> None:
    problem = Problem(33, 70, 20)

    def kernel(a: Array, b: Array, whole: Array, c: Array) -> None:
        c[...] = a @ b
        start = guard_elements(problem, Product()) + problem.m * problem.n
        whole[start : start + 128 * problem.n] = 0

    assert complaint(kernel, checker(problem)).endswith(f"wrote {128 * 70} elements outside C")


def test_first_difference_is_named() -> None:
    check = checker()
    expected = float(check.whole.a[5].astype(float) @ check.whole.b[:, 6].astype(float))
    found = complaint(after(add(5, 6, 1)), check)
    assert found == (
        f"1 of {EDGE * EDGE} elements differ; "
        f"first C[5][6] = {expected + 1:g}, should be {expected:g}"
    )


def test_differences_are_counted() -> None:
    found = complaint(after(marker_row(EDGE - 1)), checker())
    assert found.startswith(f"{EDGE} of {EDGE * EDGE} elements differ; first C[{EDGE - 1}][0] = ")
    assert found.endswith(f"; {EDGE} never written")


@pytest.mark.usefixtures("limit")
def test_what_was_never_written_is_named() -> None:
    check = checker()
    compared = len(check.rows) * EDGE
    assert f"{compared} of {compared} elements differ" in complaint(nothing, check)
    assert f"{compared} never written" in complaint(nothing, check)
    assert "never written" not in complaint(zeros, check)


@pytest.mark.usefixtures("limit")
def test_adding_to_c_is_named() -> None:
    hint = "the result is A*B plus the old C; if that is intended, use --beta 1"
    assert hint in complaint(accumulates, checker())
    assert "--beta" not in complaint(nothing, checker())


@pytest.mark.usefixtures("limit")
def test_nans_are_counted() -> None:
    assert "; 1 is NaN" in complaint(after(put(0, 7, np.nan)), checker())

    def two(c: Array) -> None:
        c[0, 7] = c[EDGE - 1, 8] = np.nan

    assert "; 2 are NaN" in complaint(after(two), checker())
    assert "NaN" not in complaint(zeros, checker())


def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    full = checker()
    assert list(full.rows) == list(range(EDGE))
    assert full.method == "every element compared"
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", EDGE**3 - 1)
    sampled = checker()
    assert {0, EDGE // 2, EDGE - 1} <= set(sampled.rows)
    assert {UNCOMPARED, UNCOMPARED + 1}.isdisjoint(sampled.rows)
    assert len(sampled.rows) == len(set(sampled.rows)) <= 19
    assert sampled.method == f"{len(sampled.rows)} rows compared, all of C by 3 Freivalds vectors"
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", EDGE**3)
    assert checker().full


def test_rows_that_are_not_compared_are_found_by_freivalds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    found = complaint(after(add(UNCOMPARED, 0, 1)), checker())
    assert found == f"1 of {EDGE} rows are wrong (rows {UNCOMPARED}; Freivalds' test)"
    found = complaint(after(swap_rows), checker())
    assert found == (
        f"2 of {EDGE} rows are wrong (rows {UNCOMPARED}, {UNCOMPARED + 1}; Freivalds' test)"
    )


def test_one_of_the_vectors_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    check = checker()
    x = check.vectors[:, 0]

    def change(c: Array) -> None:
        # Two differences that cancel in C x for the first vector alone.
        c[UNCOMPARED, 3] += x[4]
        c[UNCOMPARED, 4] -= x[3]

    assert f"(rows {UNCOMPARED}; Freivalds' test)" in complaint(after(change), check)


def test_many_wrong_rows_are_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    check = checker()
    others = np.setdiff1d(np.arange(EDGE), check.rows)

    def change(c: Array) -> None:
        c[others] += 1

    first = ", ".join(map(str, others[:3]))
    assert f"(rows {first}, ...; Freivalds' test)" in complaint(after(change), check)


def test_freivalds_covers_rows_beyond_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    monkeypatch.setattr(verify, "_CHUNK_ROWS", 10)
    check = checker()
    assert complaint(right, check) == ""
    for row in (0, 9, 10, UNCOMPARED, 90, EDGE - 1):
        assert complaint(after(add(row, 5, 1)), check) != ""


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("kind", ["whole", "real"])
def test_changed_input_is_found(name: str, kind: str) -> None:
    check = checker(Problem(4, 5, 6))
    inputs = check.whole if kind == "whole" else check.real
    guard = guard_elements(check.problem, check.product)
    assert check.changed_input(inputs, inputs.a_padded.copy(), inputs.b_padded.copy()) == ""
    for index, value in ((guard, np.nan), (guard + 3, 77), (0, 0), (-1, 0)):
        a, b = inputs.a_padded.copy(), inputs.b_padded.copy()
        (a if name == "A" else b)[index] = value
        found = check.changed_input(inputs, a, b)
        assert found == f"the kernel wrote into {name}, which it must only read; check --args"


def test_error_bound() -> None:
    assert error_bound(1, "float32") == 4 * 2.0**-24
    assert error_bound(4096, "float32") == 2.0**-16
    assert error_bound(64, "float64") == 32 * 2.0**-53


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inputs(dtype: str) -> None:
    problem = Problem(30, 40, 50)
    for kind, largest in (("whole", 4), ("real", 1)):
        inputs = make_inputs(problem, plain(dtype), 1, kind)
        assert (inputs.a.shape, inputs.b.shape) == ((30, 50), (50, 40))
        assert inputs.kind == kind
        for matrix, whole in ((inputs.a, inputs.a_padded), (inputs.b, inputs.b_padded)):
            assert matrix.dtype == whole.dtype == dtype
            assert np.shares_memory(matrix, whole)
            assert np.count_nonzero(whole == AROUND_INPUTS) == 2 * guard_elements(
                problem, Product()
            )
            assert -largest <= matrix.min() < 0 < matrix.max() <= largest
            assert bool((matrix == np.round(matrix)).all()) is (kind == "whole")
    assert set(np.unique(make_inputs(problem, plain(dtype), 1, "whole").a)) == set(range(-4, 5))


def test_inputs_follow_the_seed() -> None:
    problem = Problem(6, 7, 8)
    for kind in ("whole", "real"):
        one, same, other = (make_inputs(problem, Product(), seed, kind) for seed in (1, 1, 2))
        assert np.array_equal(one.a_padded, same.a_padded)
        assert np.array_equal(one.b_padded, same.b_padded)
        assert not np.array_equal(one.a, other.a)
        assert not np.array_equal(one.b, other.b)


def test_whole_numbers_stay_exact_for_any_k(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if float32 had 10 bits: sums of 63 terms of 4 * 4 stay below 2^10, those of 64 do not.
    monkeypatch.setitem(MANTISSA_BITS, "float32", 10)
    for k, largest in ((63, 4), (64, 1), (500, 1)):
        inputs = make_inputs(Problem(20, 20, k), Product(), 1, "whole")
        assert inputs.a.max() == -inputs.a.min() == inputs.b.max() == largest


sizes = st.integers(1, 300)


@settings(deadline=None, max_examples=30)
@given(sizes, sizes, sizes)
def test_guard_zones_hold_a_tile_past_each_edge(m: int, n: int, k: int) -> None:
    problem = Problem(m, n, k)
    guard = guard_elements(problem, Product())
    assert guard >= 128 * max(n, k) + 4096
    assert guard % 64 == 0
    for name, (rows, columns) in {"C": (m, n), "A": (m, k), "B": (k, n)}.items():
        whole, matrix = padded(problem, Product(), name)
        assert matrix.shape == (rows, columns)
        assert whole.size == 2 * guard + rows * columns
        blank = MARKER if name == "C" else AROUND_INPUTS
        assert (whole == blank).all()
        matrix[...] = 1
        assert whole[guard] == whole[-guard - 1] == 1
        assert whole[guard - 1] == whole[-guard] == blank
