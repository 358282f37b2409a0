"""``do_bench`` and ``Profiler``: how long a kernel takes and whether it is right."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import floats
from tilelang.profiler import Profiler, TensorSupplyType, clocks, do_bench
from tilelang.profiler.bench import suppress_stdout_stderr


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="inputs are torch tensors where it is imported")


@pytest.fixture(autouse=True)
def without_torch(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Inputs are numpy arrays, whatever other tests have imported."""
    if "torch" not in request.fixturenames:
        monkeypatch.delitem(sys.modules, "torch", raising=False)


class Clock:
    """Time that passes only in the measured function: ``costs`` milliseconds, then the last."""

    def __init__(self, *costs: float) -> None:
        self.now = 0.0
        self.costs = list(costs)
        self.calls = 0

    def perf_counter(self) -> float:
        return self.now

    def work(self) -> None:
        cost = self.costs.pop(0) if len(self.costs) > 1 else self.costs[0]
        self.now += cost / 1e3
        self.calls += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Clock]:
    def make(*costs: float) -> Clock:
        made = Clock(*costs)
        monkeypatch.setattr(clocks, "time", made)
        return made

    return make


# -- do_bench -------------------------------------------------------------------------------------
def test_warmup_and_rep_are_milliseconds_to_spend(clock: Callable[..., Clock]) -> None:
    made = clock(5.0)
    do_bench(made.work, warmup=25, rep=100)
    assert made.calls == 1 + 1 + 5 + 20  # first call, estimate, warm up, measure


def test_slow_functions_are_measured_three_times(clock: Callable[..., Clock]) -> None:
    made = clock(1e4)
    do_bench(made.work)
    assert made.calls == 1 + 1 + 1 + 3


def test_numbers_of_calls_precede_times(clock: Callable[..., Clock]) -> None:
    made = clock(5.0)
    do_bench(made.work, warmup=1000, rep=1000, _n_warmup=2, _n_repeat=4)
    assert made.calls == 1 + 1 + 2 + 4


def test_first_calls_do_not_count(clock: Callable[..., Clock]) -> None:
    made = clock(1000.0, 10.0, 500.0, 500.0, 1.0)
    assert do_bench(made.work, _n_warmup=2, _n_repeat=5) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("mode", "expected"), [("mean", 4.0), ("median", 3.0), ("min", 1.0), ("max", 10.0)]
)
def test_return_mode(mode: str, expected: float, clock: Callable[..., Clock]) -> None:
    made = clock(1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 5.0, 10.0)
    assert do_bench(made.work, _n_warmup=1, _n_repeat=5, return_mode=mode) == pytest.approx(
        expected
    )


def test_quantiles_are_given_instead(clock: Callable[..., Clock]) -> None:
    made = clock(1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0)
    found = do_bench(made.work, _n_warmup=1, _n_repeat=5, quantiles=[0.5, 0.0, 1.0])
    assert found == pytest.approx([3.0, 1.0, 5.0])
    assert do_bench(clock(2.0).work, quantiles=(0.5,)) == pytest.approx(2.0)


def test_function_that_takes_no_time_at_all(clock: Callable[..., Clock]) -> None:
    assert do_bench(clock(0.0).work, _n_warmup=1, _n_repeat=3) == 0.0


# -- output ---------------------------------------------------------------------------------------
def test_output_is_hidden_and_restored(capfd: pytest.CaptureFixture[str]) -> None:
    with suppress_stdout_stderr():
        print("python")
        print("python", file=sys.stderr)
        os.write(1, b"descriptor\n")
        os.write(2, b"descriptor\n")
    os.write(1, b"after\n")
    assert capfd.readouterr() == ("after\n", "")


# -- Profiler -------------------------------------------------------------------------------------
def add_kernel(
    n: int = 40, dtype: str = "float32", error: float = 0.0, out_idx: Any = -1
) -> tilelang.JITKernel:
    """A + B, the first element too large by ``error``."""

    @T.prim_func
    def add(A: T.Tensor((n,), dtype), B: T.Tensor((n,), dtype), C: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] + B[i]
            if error != 0.0:
                C[0] = A[0] + B[0] + T.cast(error, dtype)

    return tilelang.compile(add, out_idx=out_idx, target="cpu")


def test_inputs_are_made_for_what_a_call_passes() -> None:
    profiler = add_kernel().get_profiler()
    inputs = profiler.inputs()
    assert [(item.shape, str(item.dtype)) for item in inputs] == [((40,), "float32")] * 2
    assert len(add_kernel(out_idx=None).get_profiler().inputs()) == 3
    mine = (np.ones(40, np.float32), np.ones(40, np.float32))
    assert profiler.inputs(mine) == list(mine)


def test_right_kernel_passes() -> None:
    add_kernel().get_profiler().assert_allclose(lambda a, b: a + b)
    add_kernel().get_profiler().assert_allclose(lambda a, b: [a + b], atol=0, rtol=0)


def test_wrong_kernel_fails_and_says_where() -> None:
    profiler = add_kernel(error=0.5).get_profiler(TensorSupplyType.One)
    assert refusal(AssertionError, profiler.assert_allclose, lambda a, b: a + b) == (
        "1 of 40 elements differ (2.50 %, allowed 1.00 %); largest at (0,): 2.5 instead of 2.0"
    )


def test_share_of_wrong_elements_may_be_allowed() -> None:
    profiler = add_kernel(error=0.5).get_profiler()
    profiler.assert_allclose(lambda a, b: a + b, max_mismatched_ratio=0.03)
    profiler.assert_allclose(lambda a, b: a + b, atol=0.6)


def test_given_inputs_are_used_by_both() -> None:
    seen: list[Any] = []

    def reference(a: Any, b: Any) -> Any:
        seen.extend((a, b))
        return a + b

    mine = [np.full(40, value, np.float32) for value in (3.0, 4.0)]
    add_kernel().get_profiler().assert_allclose(reference, input_tensors=mine)
    assert [float(item[0]) for item in seen] == [3.0, 4.0]


def test_reference_cannot_change_the_inputs_of_the_kernel() -> None:
    def reference(a: Any, b: Any) -> Any:
        a += b
        return a

    add_kernel().get_profiler().assert_allclose(reference)


def test_kernel_without_results_is_checked_by_its_arguments() -> None:
    def reference(a: Any, b: Any, c: Any) -> None:
        c[:] = a + b

    add_kernel(out_idx=None).get_profiler().assert_allclose(reference)
    with pytest.raises(AssertionError, match="1 of 40 elements differ"):
        add_kernel(out_idx=None, error=3.0).get_profiler().assert_allclose(reference)


def test_scalar_arguments_are_made_and_compared() -> None:
    @T.prim_func
    def scale(a: T.float32, n: T.int32, X: F32[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                X[i] = X[i] * a + T.cast(n, "float32")

    def reference(a: float, n: int, x: Any) -> None:
        x[:] = x * a + n

    tilelang.compile(scale, target="cpu").get_profiler().assert_allclose(reference)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (lambda a, b: (a + b, a),
         "the reference gives another number of results than the kernel\n  expected: 1\n  got: 2"),
        (lambda a, b: None,
         "the reference gives another number of results than the kernel\n  expected: 1\n  got: 0"),
        (lambda a, b: (a + b)[:4], "shapes differ: (40,) and (4,)"),
        (lambda a, b: "x", "the reference gives no numbers\n  expected: tensors of real numbers, in a "
         "list if there are several\n  got: 'x'"),
        (len, "a reference is called with the inputs of the kernel\n  expected: a function of 2 "
         "arguments\n  got: <built-in function len>"),
    ],
)  # fmt: skip
def test_wrong_references_are_explained(reference: Any, text: str) -> None:
    assert refusal(AssertionError, add_kernel().get_profiler().assert_allclose, reference) == text


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_values_are_compared_where_numpy_has_only_codes(dtype: str) -> None:
    def codes(a: Any, b: Any) -> Any:
        return floats.encode(numbers(a, b), dtype)

    def numbers(a: Any, b: Any) -> Any:
        return floats.decode(a, dtype) + floats.decode(b, dtype)

    good = add_kernel(dtype=dtype).get_profiler(TensorSupplyType.Integer)
    good.assert_allclose(codes)
    good.assert_allclose(numbers)
    # Not far as a code, too far as a value.
    bad = add_kernel(dtype=dtype, error=1.0).get_profiler(TensorSupplyType.One)
    for reference in (codes, numbers):
        with pytest.raises(AssertionError, match=r"largest at \(0,\): 3.0 instead of 2.0"):
            bad.assert_allclose(reference)


def test_packed_values_are_compared_one_by_one() -> None:
    @T.prim_func
    def copy(A: T.Tensor((8,), "int4"), B: T.Tensor((8,), "int4")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i]

    profiler = tilelang.compile(copy, out_idx=-1, target="cpu").get_profiler()
    assert profiler.inputs()[0].shape == (4,)  # two per byte
    profiler.assert_allclose(lambda a: a, atol=0, rtol=0)
    profiler.assert_allclose(lambda a: floats.unpack(a, "int4"), atol=0, rtol=0)
    with pytest.raises(AssertionError, match="elements differ"):
        profiler.assert_allclose(lambda a: floats.unpack(a, "int4") + 1, atol=0, rtol=0)


def test_torch_reference(torch: Any) -> None:
    for dtype in ("float32", "bfloat16", "int32"):
        profiler = add_kernel(dtype=dtype).get_profiler()
        assert isinstance(profiler.inputs()[0], torch.Tensor)
        profiler.assert_allclose(lambda a, b: a + b)


def test_same_results_in_every_run_pass() -> None:
    add_kernel().get_profiler().assert_consistent(repeat=3)


def test_different_results_are_noticed() -> None:
    class Drifting:
        """A mock of a kernel whose results depend on the run."""

        def __init__(self) -> None:
            kernel = add_kernel()
            self.params, self.out_idx, self.target = kernel.params, kernel.out_idx, kernel.target
            self.adapter, self.runs = kernel.adapter, 0

        def __call__(self, a: Any, b: Any) -> Any:
            self.runs += 1
            return a + b + (self.runs > 4)

    kernel: Any = Drifting()
    Profiler(kernel).assert_consistent(repeat=2)
    with pytest.raises(AssertionError) as error:
        Profiler(kernel).assert_consistent(repeat=2)
    assert str(error.value) == "two calls with the same inputs differ"


def symbolic_kernel(mode: str = "interpret") -> tilelang.JITKernel:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def add(A: F32[m * 2, n], k: T.int32, B: F32[m * 2, n], C: F32[m * 2, n]):
        with T.Kernel(T.ceildiv(m * 2, 4), threads=32) as bx:
            for i, j in T.Parallel(4, n):
                if bx * 4 + i < m * 2:
                    C[bx * 4 + i, j] = A[bx * 4 + i, j] + B[bx * 4 + i, j] * k

    return tilelang.compile(add, out_idx=-1, target="cpu", execution_backend=mode)


SYMBOLS = {"m": 3, "n": 5, "k": 4}


@pytest.mark.parametrize("mode", ["interpret", "auto"])
def test_values_of_symbols_make_inputs(mode: str) -> None:
    profiler = symbolic_kernel(mode).get_profiler()
    shapes = [getattr(item, "shape", item) for item in profiler.inputs(None, SYMBOLS)]
    assert shapes == [(6, 5), 4, (6, 5)]
    profiler.assert_allclose(
        lambda a, k, b: a + k * b, dynamic_symbolic_constraints=SYMBOLS, rtol=1e-5, atol=1e-5,
        max_mismatched_ratio=0,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="elements differ"):
        profiler.assert_allclose(lambda a, k, b: a + b, dynamic_symbolic_constraints=SYMBOLS)
    profiler.assert_consistent(2, dynamic_symbolic_constraints=SYMBOLS)
    assert profiler.run_once(dynamic_symbolic_constraints=SYMBOLS).shape == (6, 5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"m": 3},
         "cannot make an input for the symbolic shape (m * 2, n)\n"
         "  expected: a value for each symbol\n"
         "  hint: pass input_tensors=..., or dynamic_symbolic_constraints={'n': 128}"),
        ({"m": 3, "n": 5, "q": 1},
         "the kernel add has no symbol 'q'\n  expected: k, m, n\n  got: q"),
        ({"m": -3, "n": 5},
         "cannot make an input with the extent -6\n"
         "  expected: extents that are not negative\n  got: m = -3, n = 5"),
    ],
)  # fmt: skip
def test_symbols_without_a_value_are_an_error(given: dict[str, int], text: str) -> None:
    assert refusal(TileValueError, symbolic_kernel().get_profiler().inputs, None, given) == text


def test_a_program_of_the_user_compares() -> None:
    seen: list[Any] = []
    profiler = add_kernel().get_profiler(TensorSupplyType.One)
    profiler.manual_assert_close(
        lambda a, b: a + b, manual_check_prog=lambda got, want: seen.append((got, want))
    )
    ((got, want),) = seen
    np.testing.assert_array_equal(got[0], want[0])
    with pytest.raises(TileTypeError, match="manual_check_prog takes two lists"):
        profiler.manual_assert_close(lambda a, b: a + b)
    with pytest.raises(AssertionError, match="manual_check_prog returns False"):
        profiler.manual_assert_close(lambda a, b: a, manual_check_prog=lambda got, want: False)


def test_profiler_measures_the_kernel_or_another_function(clock: Callable[..., Clock]) -> None:
    made = clock(2.0)
    seen: list[Any] = []

    def reference(*inputs: Any) -> None:
        seen.append([item.shape for item in inputs])
        made.work()

    profiler = add_kernel().get_profiler()
    assert profiler.do_bench(reference, n_warmup=1, n_repeat=3) == pytest.approx(2.0)
    assert seen == [[(40,), (40,)]] * 6
    assert profiler.do_bench(n_warmup=1, n_repeat=3) == 0.0  # the kernel does not move this clock
    found = profiler.do_bench(reference, n_warmup=1, n_repeat=3, quantiles=[0.2, 0.8])
    assert found == pytest.approx([2.0, 2.0])
    assert profiler.do_bench(reference, n_repeat=3, return_mode="min") == pytest.approx(2.0)


def test_without_a_gpu_inputs_for_one_cannot_be_made(torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    kernel = tilelang.compile(copied, target="cuda -arch=sm_80")
    assert refusal(TileValueError, kernel.get_profiler().do_bench) == (
        "cannot make an input on the GPU\n"
        "  expected: a GPU that torch can use\n"
        f"  got: torch {torch.__version__} without one\n"
        '  hint: execution_backend="emulator" runs the kernel without a GPU'
    )


@T.prim_func
def copied(A: F32[128], B: F32[128]) -> None:
    with T.Kernel(1, threads=128):
        T.copy(A, B)
