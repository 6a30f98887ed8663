"""The worker's checks against kernels written in NumPy: right ones pass, each defect is named.

A session of the tests holds the matrices in the host's memory; a kernel gets the addresses and
numbers that a launch passes, and reads and writes what it likes.
"""

from __future__ import annotations

import ctypes
import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmbench import verify
from mmbench.expressions import Expression
from mmbench.inputs import from_memory, in_memory
from mmbench.measure import StopRule
from mmbench.product import MATRICES, Problem, Product
from mmbench.runners import Array, Program, Resources
from mmbench.spec import Argument, KernelSpec, Launch, Point
from mmbench.verify import Verdict
from mmbench.worker import Entry, Outcome, Task, _Bench

ONE = (Expression("1"),)
SMALL = Problem(12, 9, 17)


@dataclass
class Memory:
    """What a kernel sees: its matrices as flat arrays, and the numbers passed to it."""

    problem: Problem
    product: Product  # types and storage as the kernel takes them
    addresses: dict[str, int]
    alpha: float
    beta: float

    def flat(self, name: str, before: int = 0, behind: int = 0) -> Array:
        """The elements of a matrix, with some of those around it."""
        dtype = np.dtype(self.product.dtype_of(name))
        rows, columns = self.problem.shape(name)
        count = before + rows * columns + behind
        start = self.addresses[name] - before * dtype.itemsize
        data: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(start)
        return np.frombuffer(data, dtype)

    def matrix(self, name: str) -> Array:
        return from_memory(self.flat(name), self.problem, self.product, name)

    def store(self, c: Array) -> None:
        self.flat("C")[...] = in_memory(c, self.product, "C").astype(self.product.c_dtype)


Kernel = Callable[[Memory], None]


def right(it: Memory) -> None:
    it.store(combined(it, exact_product(it)))


def exact_product(it: Memory) -> Array:
    wide = np.int64 if it.product.whole_numbers else np.float64
    a: Array = it.matrix("A").astype(wide)
    product: Array = np.matmul(a, it.matrix("B").astype(wide))
    return product


def combined(it: Memory, product: Array) -> Array:
    """As BLAS has it: C is read even where beta is 0."""
    wide = product.dtype
    return wide.type(it.alpha) * product + wide.type(it.beta) * it.matrix("C").astype(wide)


def summed_in(dtype: str) -> Kernel:
    """Multiplies and adds in this type, one term after the other, and rounds to C's type."""

    def kernel(it: Memory) -> None:
        a, b = it.matrix("A").astype(dtype), it.matrix("B").astype(dtype)
        total = np.zeros((it.problem.m, it.problem.n), dtype)
        with np.errstate(over="ignore"):
            for k in range(it.problem.k):
                total += a[:, k : k + 1] * b[k : k + 1]
        it.store(total)

    return kernel


@dataclass
class _Loaded:
    """A kernel of the tests as a runner's."""

    kernel: Kernel
    spec: KernelSpec
    problem: Problem
    storage: frozenset[str]
    resources: Resources = Resources(0)  # noqa: RUF009

    def launch(self, arguments: Sequence[Any]) -> float:
        passed = dict(zip([a.name for a in self.spec.arguments], arguments, strict=True))
        product = self.spec.product
        seen = Product(product.dtype, product.c_dtype, self.storage)
        alpha, beta = passed.get("alpha", product.alpha), passed.get("beta", product.beta)
        self.kernel(Memory(self.problem, seen, {n: passed[n] for n in MATRICES}, alpha, beta))
        return 1e-3

    def sample(self, arguments: Sequence[Any], launches: int, cold: bool) -> float:
        return self.launch(arguments)


@dataclass
class _Buffer:
    data: Array

    @property
    def address(self) -> int:
        return int(self.data.ctypes.data)

    @property
    def bytes(self) -> int:
        return self.data.nbytes


@dataclass
class _Session:
    """A device that is the host's own memory, or behaves as if it were not."""

    kernel: Kernel
    storage: frozenset[str] | None = None
    own_memory: bool = False
    free: int = 2**40
    buffers: list[_Buffer] = field(default_factory=list)
    fetched: int = 0

    def free_bytes(self) -> int:
        return self.free

    def allocate(self, size: int) -> _Buffer:
        self.free -= size
        self.buffers.append(_Buffer(np.zeros(size, np.uint8)))
        return self.buffers[-1]

    def write(self, buffer: _Buffer, data: Array) -> None:
        buffer.data[...] = np.ascontiguousarray(data).view(np.uint8)

    def read(self, buffer: _Buffer, data: Array) -> None:
        self.fetched += 1
        data[...] = buffer.data.view(data.dtype)

    def copy(self, target: _Buffer, source: _Buffer) -> None:
        target.data[...] = source.data

    def same(self, pairs: Sequence[tuple[_Buffer, _Buffer]]) -> bool:
        return all(np.array_equal(one.data, other.data) for one, other in pairs)

    def timer_floor(self, cold: bool) -> None:
        return None

    def load(self, program: Program, point: Point, launch: Launch) -> _Loaded:
        told = point.spec.product.column_major
        storage = told if self.storage is None else self.storage
        return _Loaded(self.kernel, point.spec, point.problem, storage)

    def telemetry(self) -> None:
        return None


def entry_of(product: Product, problem: Problem = SMALL, takes: Sequence[str] = ()) -> Entry:
    """A kernel that ``takes`` factors."""
    spec = KernelSpec(
        name="simulated", path=Path("simulated.cu"), source="", entry="f", summary="", block=ONE,
        grid=ONE, reads=ONE[0], writes=ONE[0], product=product,
        arguments=(*map(Argument, MATRICES), *(Argument(name, "float") for name in takes)),
    )  # fmt: skip
    return Entry(Point(spec, problem, {}), Program("", "f", None))


def run(
    bench: _Bench,
    entry: Entry,
    rule: StopRule | None = None,
    ahead: tuple[Point, ...] = (),
    cold: bool = True,
) -> Outcome:
    (outcome,) = bench.run(Task((entry,), rule, cold, 7, ahead), lambda text: None)
    return outcome


def judged(
    kernel: Kernel,
    product: Product | None = None,
    problem: Problem = SMALL,
    takes: Sequence[str] = (),
    storage: frozenset[str] | None = None,
) -> Verdict:
    """The verdict on a kernel that ``takes`` factors and reads its matrices as ``storage``.

    It has to be the same where memory of the device's own holds copies of what a right kernel
    was given and made.
    """
    entry = entry_of(product or Product(), problem, takes)
    session: Any = _Session(kernel, storage)
    verdict = run(_Bench(session), entry).verdict
    apart: Any = _Session(right, own_memory=True)
    bench = _Bench(apart)
    run(bench, entry)
    apart.kernel, apart.storage = kernel, storage
    assert repr(run(bench, entry).verdict) == repr(verdict)
    assert verdict is not None
    return verdict


def complaint(*arguments: Any, **options: Any) -> str:
    verdict = judged(*arguments, **options)
    assert verdict.ok is (not verdict.message)
    return verdict.message


sizes = st.integers(1, 20)
TYPES = (
    ("float16", "float16"), ("float16", "float32"), ("float32", "float32"),
    ("float64", "float64"), ("int8", "int32"), ("int32", "int32"), ("int64", "int64"),
)  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(
    st.builds(Problem, sizes, sizes, sizes),
    st.sampled_from(TYPES),
    st.sets(st.sampled_from(MATRICES)).map(frozenset),
    st.integers(-3, 3),
    st.integers(-3, 3),
    st.sets(st.sampled_from(["alpha", "beta"])).map(sorted),
)
def test_a_right_kernel_passes_in_any_layout(
    problem: Problem,
    types: tuple[str, str],
    down: frozenset[str],
    alpha: int,
    beta: int,
    takes: list[str],
) -> None:
    product = Product(*types, down, alpha, beta)
    assert complaint(right, product, problem, takes) == ""


@pytest.mark.parametrize("factor", [0.5, -1.25, 0.1])
def test_fractions_are_for_kernels_that_take_them(factor: float) -> None:
    product = Product(alpha=factor, beta=factor)
    assert complaint(right, product, takes=("alpha", "beta")) == ""

    def rounds(it: Memory) -> None:
        it.alpha = float(np.trunc(it.alpha * 2))
        right(it)

    assert complaint(rounds, product, takes=("alpha", "beta")) != ""


HINTS = {
    "ABC": "the result matches column-major storage: use --layout col",
    "B": "the result is A*B^T: B is read as stored transposed, use --trans-b",
    "A": "the result is A^T*B: A is read as stored transposed, use --trans-a",
    "AB": "the result is A^T*B^T: use --trans-a --trans-b",
    "C": "C is stored transposed: use --layout C=col",
    "AC": "B alone is read row-major: use --layout A=col,C=col",
    "BC": "A alone is read row-major: use --layout B=col,C=col",
}


@pytest.mark.parametrize("letters", HINTS)
@pytest.mark.parametrize("problem", [SMALL, Problem(16, 16, 16), Problem(3, 20, 5)])
def test_another_layout_is_recognised(letters: str, problem: Problem) -> None:
    found = complaint(right, problem=problem, storage=frozenset(letters))
    assert found.endswith(f"; hint: {HINTS[letters]}")
    assert complaint(right, Product(column_major=frozenset(letters)), problem) == ""


@pytest.mark.parametrize("problem", [SMALL, Problem(16, 16, 16)])
def test_a_row_major_kernel_called_column_major(problem: Problem) -> None:
    product = Product(column_major=frozenset("ABC"))
    found = complaint(right, product, problem, storage=frozenset())
    assert found.endswith("; hint: the result matches row-major storage: use --layout row")


def test_a_layout_is_recognised_with_factors_too() -> None:
    product = Product(alpha=2, beta=3)
    found = complaint(right, product, takes=("alpha", "beta"), storage=frozenset("ABC"))
    assert found.endswith("use --layout col")


@settings(deadline=None, max_examples=60)
@given(
    st.builds(Problem, st.integers(4, 12), st.integers(4, 12), st.integers(2, 40)),
    st.sampled_from(TYPES),
    st.sampled_from([frozenset(), frozenset("ABC"), frozenset("B")]),
    st.sampled_from([(), ("alpha",), ("alpha", "beta")]),
    st.data(),
)
def test_a_sum_over_other_terms_is_recognised(
    problem: Problem,
    types: tuple[str, str],
    down: frozenset[str],
    takes: tuple[str, ...],
    data: st.DataObject,
) -> None:
    cut = data.draw(st.integers(1, problem.k - 1), "cut")
    late = data.draw(st.booleans(), "late")
    terms = slice(cut, None) if late else slice(0, cut)

    def kernel(it: Memory) -> None:
        wide = np.int64 if it.product.whole_numbers else np.float64
        a, b = it.matrix("A").astype(wide), it.matrix("B").astype(wide)
        it.store(combined(it, a[:, terms] @ b[terms]))

    found = complaint(kernel, Product(*types, down), problem, takes)
    hint = (
        f"hint: C is the sum over k >= {cut} alone: the loop over k begins too late"
        if late
        else f"hint: C is the sum over k < {cut} alone, K is {problem.k}: the loop ends too early"
    )
    assert found.endswith(hint)


@pytest.mark.parametrize(
    ("combine", "hint"),
    [
        (np.multiply, "C is A and B multiplied element by element, not their matrix product"),
        (np.add, "C is A and B added element by element, not their matrix product"),
        (lambda a, b: 0 * a, "all of C is 0: nothing is summed up"),
    ],
)
def test_what_is_no_product_is_recognised(combine: Callable[..., Array], hint: str) -> None:
    def kernel(it: Memory) -> None:
        it.store(combine(it.matrix("A"), it.matrix("B")))

    assert complaint(kernel, problem=Problem(9, 9, 9)).endswith(f"; hint: {hint}")


def test_few_elements_tell_nothing() -> None:
    def kernel(it: Memory) -> None:
        it.store(it.matrix("A")[:, :3] @ it.matrix("B")[:3])

    assert "hint" not in complaint(kernel, problem=Problem(3, 5, 20))


def test_what_is_wrong_in_every_layout_has_no_hint() -> None:
    def late(it: Memory) -> None:
        it.store(np.roll(exact_product(it), 1, axis=0))

    assert "elements differ" in complaint(late)
    assert "hint" not in complaint(late)


def test_a_factor_that_is_not_used_is_found() -> None:
    def without(name: str) -> Kernel:
        def kernel(it: Memory) -> None:
            setattr(it, name, {"alpha": 1, "beta": 0}[name])
            right(it)

        return kernel

    both = ("alpha", "beta")
    assert complaint(right, takes=both) == ""
    for name in both:
        found = complaint(without(name), takes=both)
        assert found.startswith("with alpha=2 beta=3: ")
        assert "elements differ" in found
        alone = complaint(without(name), takes=(name,))
        assert alone.startswith(
            "with alpha=2 beta=0: " if name == "alpha" else "with alpha=1 beta=3"
        )


def test_beta_that_the_options_promise() -> None:
    def plain(it: Memory) -> None:
        it.store(exact_product(it))

    def adds(it: Memory) -> None:
        it.store(exact_product(it) + it.matrix("C"))

    assert complaint(adds, Product(beta=1)) == ""
    assert complaint(plain) == ""
    assert "elements differ" in complaint(plain, Product(beta=1))
    assert "use --beta 1" in complaint(adds)
    said = complaint(adds, takes=("alpha", "beta"))  # has been told that beta is 0
    assert "the result is A*B plus the old C" in said
    assert "use --beta 1" not in said
    assert "--beta" not in complaint(plain, Product(beta=1))
    assert "--beta" not in complaint(adds, Product(beta=2))

    def adds_twice(it: Memory) -> None:
        it.store(exact_product(it) + 2 * it.matrix("C"))

    assert "elements differ" in complaint(adds_twice, Product(beta=1))
    assert "--beta" not in complaint(adds_twice, Product(beta=1))


@pytest.mark.parametrize("beta", [1000, -1e5])
def test_a_large_c_counts_in_the_bound(beta: float) -> None:
    assert complaint(right, Product(beta=beta), Problem(30, 30, 1)) == ""


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, 0), (1, 3), (-2, 1)])
def test_factors_beyond_the_full_check(
    monkeypatch: pytest.MonkeyPatch, alpha: float, beta: float
) -> None:
    monkeypatch.setattr(verify, "_FULL_CHECK_PRODUCTS", 1)
    problem, product = Problem(90, 11, 13), Product(alpha=alpha, beta=beta)
    assert complaint(right, product, problem) == ""

    def spoils(it: Memory) -> None:
        right(it)
        it.matrix("C")[57, 3] += 1

    assert complaint(spoils, product, problem) != ""


@pytest.mark.parametrize("k", [2100, 4096])
def test_a_half_sum_that_stops_growing(k: int) -> None:
    problem, product = Problem(3, 2, k), Product("float16", "float16")
    found = complaint(summed_in("float16"), product, problem)
    assert found == (
        f"the sum of {k} equal products is 2048, should be {k}: it saturates, so the "
        "accumulator may be half"
    )
    assert complaint(summed_in("float32"), product, problem) == ""
    assert complaint(summed_in("float16"), product, Problem(3, 2, 64)) == ""


@pytest.mark.parametrize("takes", [(), ("alpha", "beta")])
def test_a_half_kernel_with_factors(takes: tuple[str, ...]) -> None:
    """Those of the options count whether the kernel takes them or has them in its text."""
    for alpha, beta in ((2, 0), (1, 1), (-3, 2)):
        product = Product("float16", "float16", alpha=alpha, beta=beta)
        for k in (5, 4096):
            assert complaint(right, product, Problem(3, 2, k), takes) == ""


def test_a_half_sum_in_a_float_c_is_found() -> None:
    product = Product("float16", "float32")
    assert complaint(summed_in("float32"), product, Problem(4, 4, 256)) == ""
    assert "max error" in complaint(summed_in("float16"), product, Problem(4, 4, 256))


def test_a_float_sum_in_a_double_c_is_named() -> None:
    product = Product("float64", "float64")
    found = complaint(summed_in("float32"), product)
    assert "the bound for float64" in found
    assert found.endswith("; the accumulator may be float")
    assert complaint(summed_in("float64"), product) == ""
    assert "may be" not in complaint(summed_in("float16"), product)


@pytest.mark.parametrize(
    ("types", "accumulator", "k"),
    [
        (("int8", "int32"), "int8", 64),
        (("int8", "int32"), "int16", 64),
        (("int32", "int32"), "int16", 64),
        (("int64", "int64"), "int32", 64),
    ],
)
def test_a_narrower_whole_number_overflows(
    types: tuple[str, str], accumulator: str, k: int
) -> None:
    problem, product = Problem(10, 11, k), Product(*types)
    assert complaint(summed_in(types[1]), product, problem) == ""
    assert complaint(summed_in(accumulator), product, problem) != ""


def test_an_overflow_is_named() -> None:
    found = complaint(summed_in("int16"), Product("int32", "int32"), Problem(10, 11, 64))
    assert found == "wrong with larger whole numbers: an overflow, or a narrower accumulator"


def test_what_was_never_written() -> None:
    def half_of_it(it: Memory) -> None:
        c = it.flat("C")
        count = len(c) // 2
        c[:count] = in_memory(exact_product(it), it.product, "C")[:count]

    assert "54 of 108 elements differ" in complaint(half_of_it)
    assert "54 never written" in complaint(half_of_it)
    everything = Product(column_major=frozenset("ABC"))
    assert "54 never written" in complaint(half_of_it, everything)


@pytest.mark.parametrize("down", [frozenset(), frozenset("ABC")])
@pytest.mark.parametrize(("before", "behind"), [(1, 0), (0, 1), (300, 40)])
def test_a_write_outside_c(down: frozenset[str], before: int, behind: int) -> None:
    def strays(it: Memory) -> None:
        right(it)
        around = it.flat("C", before, behind)
        around[:before] = 0
        around[len(around) - behind :] = 0

    found = complaint(strays, Product(column_major=down))
    count = before + behind
    assert found == f"the kernel wrote {count} element{'s' * (count > 1)} outside C"


@pytest.mark.parametrize("name", ["A", "B"])
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_a_write_into_an_input(name: str, place: str) -> None:
    def spoils(it: Memory) -> None:
        right(it)
        it.flat(name, 1)[1 if place == "inside" else 0] += 1

    found = complaint(spoils)
    assert found == f"the kernel wrote into {name}, which it must only read; check --args"


def test_an_input_that_changes_only_with_other_factors() -> None:
    def spoils(it: Memory) -> None:
        right(it)
        if it.alpha == 2:
            it.flat("A")[0] += 1

    assert "wrote into A" in complaint(spoils, takes=("alpha",))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_value_that_is_no_number(value: float) -> None:
    def spoils(it: Memory) -> None:
        right(it)
        it.matrix("C")[3, 4] = value

    found = complaint(spoils)
    assert found.startswith("1 of 108 elements differ; first C[3][4] = ")
    assert ("1 is NaN" in found) is bool(np.isnan(value))


TIMED = StopRule(samples=3, min_time=0, precision=9, warm_up=0)


def at_launches(wrong: range, spoil: Kernel) -> Kernel:
    """A right kernel that does something else at these launches."""
    count = iter(range(1000))

    def kernel(it: Memory) -> None:
        right(it)
        if next(count) in wrong:
            spoil(it)

    return kernel


def test_a_kernel_that_is_right_once_or_twice() -> None:
    def verdict_where(wrong: range) -> Verdict:
        session: Any = _Session(at_launches(wrong, misses_one))
        verdict = run(_Bench(session), entry_of(Product())).verdict
        assert verdict is not None
        return verdict

    assert verdict_where(range(1)).message == (
        "1 of 108 elements differ with 12-bit numbers: a lower precision, or a result that "
        "changes from launch to launch"
    )
    assert verdict_where(range(2)).message.startswith("1 of 108 elements differ; first C[3][4] = ")
    assert "real inputs" in verdict_where(range(1, 2)).message
    assert verdict_where(range(2, 9)).ok


def misses_one(it: Memory) -> None:
    it.matrix("C")[3, 4] += 1


WITH_OTHERS = "right with other inputs, wrong when it was timed: "
BEFORE = "right before it was timed, wrong after: "


@pytest.mark.parametrize("own_memory", [False, True])
@pytest.mark.parametrize(
    ("product", "takes", "cold", "checks", "message"),
    [
        (Product(), (), True, 1, WITH_OTHERS),
        (Product(), (), False, 2, BEFORE),
        (Product(), ("alpha",), True, 2, WITH_OTHERS),
        (Product(), ("alpha",), False, 3, BEFORE),
        (Product(beta=1), (), True, 2, BEFORE),
        (Product("float16", "float16"), (), True, 2, WITH_OTHERS),
        (Product("float64", "float64"), (), True, 1, WITH_OTHERS),
    ],
)
def test_the_launches_that_were_timed_are_checked(
    own_memory: bool,
    product: Product,
    takes: tuple[str, ...],
    cold: bool,
    checks: int,
    message: str,
) -> None:
    """With so many launches ``checks`` before them."""

    def measured(kernel: Kernel) -> Outcome:
        session: Any = _Session(kernel, own_memory=own_memory)
        return run(_Bench(session), entry_of(product, takes=takes), TIMED, cold=cold)

    fine = measured(right)
    assert fine.verdict is not None
    assert fine.verdict.ok
    assert fine.verdict.max_error is not None
    assert fine.timing is not None
    assert len(fine.timing.samples) >= 3
    late = measured(at_launches(range(checks, 1000), misses_one))
    assert late.timing is None
    assert late.verdict is not None
    assert late.verdict.message.startswith(message)
    early = measured(at_launches(range(checks - 1, 1000), misses_one))
    assert early.verdict is not None
    assert not early.verdict.ok
    assert "timed" not in early.verdict.message


@pytest.mark.parametrize("wrong", range(3))
def test_of_a_slow_kernel_the_checked_launches_are_the_samples(wrong: int) -> None:
    rule = dataclasses.replace(TIMED, slow=1e-3)
    session: Any = _Session(at_launches(range(wrong, wrong + 1), misses_one))
    outcome = run(_Bench(session), entry_of(Product()), rule)
    assert outcome.verdict is not None
    assert outcome.verdict.ok is (wrong == 2)
    assert (outcome.timing is not None) is outcome.verdict.ok
    if outcome.timing:
        assert outcome.timing.samples == (1e-3, 1e-3)


def test_a_kernel_that_stops_writing_is_found() -> None:
    """C is filled again before the timed launches: it does not hold the checked one's result."""
    count = iter(range(1000))

    def kernel(it: Memory) -> None:
        if next(count) < 1:
            right(it)

    session: Any = _Session(kernel, own_memory=True)
    verdict = run(_Bench(session), entry_of(Product()), TIMED).verdict
    assert verdict is not None
    assert verdict.message.startswith(WITH_OTHERS)


def test_a_stray_write_into_another_problem_is_not_blamed_on_its_next_kernel() -> None:
    session: Any = _Session(right, own_memory=True)
    bench, entry = _Bench(session), entry_of(Product())
    run(bench, entry, TIMED)
    (held,) = bench.operands.values()

    def strays(it: Memory) -> None:
        right(it)
        for place in held.places:
            for buffer in place.buffers.values():
                buffer.data[::5] ^= 1  # type: ignore[attr-defined]

    session.kernel = strays
    run(bench, entry_of(Product(), Problem(64, 64, 64)), TIMED)
    session.kernel = right
    verdict = run(bench, entry, TIMED).verdict
    assert verdict is not None
    assert verdict.message == ""
    assert held in bench.operands.values()


def test_what_the_device_holds_is_not_fetched_again() -> None:
    session: Any = _Session(right, own_memory=True)
    bench, entry = _Bench(session), entry_of(Product())
    first = run(bench, entry, TIMED)
    before, session.fetched = session.fetched, 0
    again = run(bench, entry, TIMED)
    assert first.verdict == again.verdict
    assert (before, session.fetched) == (2, 0)


@pytest.mark.parametrize("launch", range(8))
def test_a_stray_write_is_not_blamed_on_the_next_kernel(launch: int) -> None:
    """It hits the copies, from which the next kernel would get its inputs."""
    session: Any = _Session(right, own_memory=True)
    bench, entry = _Bench(session), entry_of(Product())
    run(bench, entry)

    def strays(it: Memory) -> None:
        for buffer in session.buffers[3:]:
            buffer.data[::5] ^= 1

    session.kernel = at_launches(range(launch, launch + 1), strays)
    run(bench, entry, TIMED)
    session.kernel = right
    verdict = run(bench, entry, TIMED).verdict
    assert verdict is not None
    assert verdict.message == ""


@pytest.mark.parametrize("share", [1.0, 2.0, 3.0, 6.0])
def test_copies_leave_half_of_the_memory(share: float) -> None:
    probe: Any = _Session(right)
    run(_Bench(probe), entry_of(Product()))
    need = sum(buffer.bytes for buffer in probe.buffers)
    session: Any = _Session(right, own_memory=True, free=int(share * need))
    bench, entry = _Bench(session), entry_of(Product())
    spare = session.free - need
    for kernel, ok in ((right, True), (misses_one, False), (right, True)):
        session.kernel = kernel
        verdict = run(bench, entry, TIMED).verdict
        assert verdict is not None
        assert verdict.ok is ok
    assert session.free >= spare / 4
    assert (len(session.buffers) > 3) is (share > 1)


@pytest.mark.parametrize("own_memory", [True, False])
@pytest.mark.parametrize("then", [Problem(7, 8, 9), Problem(2**14, 2**14, 1), SMALL])
def test_the_next_problem_is_made_meanwhile(
    own_memory: bool, then: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the device's own memory alone, where the host is free, and if the host can hold both."""
    made: list[tuple[Problem, bool]] = []
    begin = verify.Checker.__init__

    def counted(self: verify.Checker, problem: Problem, product: Product, seed: int) -> None:
        made.append((problem, threading.current_thread() is threading.main_thread()))
        begin(self, problem, product, seed)

    monkeypatch.setattr(verify.Checker, "__init__", counted)
    session: Any = _Session(right, own_memory=own_memory)
    bench, following = _Bench(session), entry_of(Product(), then)
    run(bench, entry_of(Product()), ahead=(following.point,))
    ahead = own_memory and then == Problem(7, 8, 9)
    bench.pool.shutdown()
    assert made == [(SMALL, True), (then, False)][: 1 + ahead]
    if ahead:
        verdict = run(bench, following).verdict
        assert verdict is not None
        assert verdict.ok
        assert len(made) == 2


def test_small_problems_are_made_before_they_are_asked_for() -> None:
    """While the first kernel is compiled. A large one is made when nothing else waits."""
    sizes = [Problem(7, 8, 9), Problem(9, 8, 7), Problem(2**12, 2**12, 2**11), Problem(5, 5, 5)]
    points = [entry_of(Product(), problem).point for problem in sizes]
    bench = _Bench(_Session(right, own_memory=True))  # type: ignore[arg-type]
    bench.look_ahead(points, 7)
    assert [key[0] for key in bench.ahead] == [sizes[0], sizes[1], sizes[3]]
    made = dict(bench.ahead)
    assert run(bench, entry_of(Product(), sizes[0]), ahead=(points[1],)).verdict is not None
    assert {key[0]: future for key, future in bench.ahead.items()} == {
        sizes[1]: made[points[1].problem, points[1].spec.product, 7]
    }


@pytest.mark.parametrize(
    ("own_memory", "free", "kept"), [(True, 2**40, True), (True, 2**21, False), (False, 0, False)]
)
def test_small_operands_stay_for_the_next_point_of_their_problem(
    own_memory: bool, free: int, kept: bool
) -> None:
    """A sweep may come back to a problem. On the host there is nothing that it would save."""
    session: Any = _Session(right, own_memory=own_memory, free=free or 2**40)
    bench, other = _Bench(session), entry_of(Product(), Problem(64, 64, 64))
    run(bench, entry_of(Product()))
    (first,) = bench.operands.values()
    run(bench, other)
    assert (first in bench.operands.values()) is kept
    verdict = run(bench, entry_of(Product())).verdict
    assert verdict is not None
    assert verdict.ok
    assert (first in bench.operands.values()) is kept


@pytest.mark.parametrize("samples", [1, 3, 16, 40])
@pytest.mark.parametrize(("own_memory", "cold"), [(True, True), (True, False), (False, True)])
def test_cold_samples_are_taken_in_several_places(
    own_memory: bool, cold: bool, samples: int
) -> None:
    seen: list[int] = []

    def kernel(it: Memory) -> None:
        seen.append(it.addresses["C"])
        right(it)

    session: Any = _Session(kernel, own_memory=own_memory)
    rule = dataclasses.replace(TIMED, samples=samples)
    outcome = run(_Bench(session), entry_of(Product()), rule, cold=cold)
    assert outcome.timing is not None
    timed = seen[1 if cold else 2 :]
    assert len(timed) == len(outcome.timing.samples)
    places = min(16, len(timed)) if own_memory and cold else 1
    assert len(set(timed)) == places
    assert timed[places:] == timed[: len(timed) - places]


@pytest.mark.parametrize("place", range(3))
def test_what_is_wrong_in_one_place_is_found(place: int) -> None:
    kernel = at_launches(range(1 + place, 2 + place), misses_one)
    session: Any = _Session(kernel, own_memory=True)
    verdict = run(_Bench(session), entry_of(Product()), TIMED).verdict  # six samples
    assert verdict is not None
    assert verdict.message.startswith(WITH_OTHERS)


def test_large_matrices_stay_where_they_are() -> None:
    problem = Problem(1500, 1500, 50)
    session: Any = _Session(right, own_memory=True)
    bench = _Bench(session)
    run(bench, entry_of(Product(), problem), TIMED)
    (operands,) = bench.operands.values()
    assert 1 < len(operands.places) == 2**27 // operands.bytes < 16
