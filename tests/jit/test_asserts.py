"""Assertions of compiled kernels: what fails is told with its place, as by the interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from columns import as_known
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import (
    DeviceAssertError,
    KernelArgumentError,
    TileError,
    TileRuntimeError,
    TileUnsupportedError,
)

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


@T.macro
def positive(x):
    T.device_assert(x > 0, "it is positive")


@T.prim_func
def careful(A: T.Tensor((64,), "int32"), n: T.int32):
    T.assume(n < 10)
    assert n != 7, "n is not seven"
    assert n != 8
    with T.Kernel(2, threads=32) as bx:
        s = T.alloc_shared((32,), "int32")
        T.copy(A[bx * 32], s)
        T.device_assert(n < 5, "n is small")
        T.device_assert(n != 3)
        for i in T.Parallel(32):
            assert s[i] < 50, "below fifty"
            A[bx * 32 + i] = 1 + s[i]
        positive(n)


SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()


def place(text: str) -> str:
    """How an error shows the place ``text`` of this file."""
    number = next(n for n, line in enumerate(SOURCE, 1) if line.strip() == text)
    line = SOURCE[number - 1]
    column = len(line) - len(text)
    return as_known(
        f"{__file__}:{number}:{column + 1}\n"
        f"{number:5d} | {line}\n"
        f"      | {' ' * column}{'^' * len(text)}"
    )


def failure(value: int, n: int, backend: str = "auto") -> TileError:
    kernel = tilelang.compile(careful, target="cpu", execution_backend=backend)
    with pytest.raises((TileRuntimeError, KernelArgumentError)) as error:
        kernel(np.full(64, value, np.int32), n)
    return error.value


FAILURES = [
    (60, 1, "Device assert failed: below fifty\n  expected: `s[i] < 50` to hold\n --> ",
     'assert s[i] < 50, "below fifty"'),
    (1, 6, "Device assert failed: n is small\n  expected: `n < 5` to hold\n --> ",
     'T.device_assert(n < 5, "n is small")'),
    (1, 3, "Device assert failed\n  expected: `n != 3` to hold\n --> ", "T.device_assert(n != 3)"),
    (1, 0, "Device assert failed: it is positive\n  expected: `n > 0` to hold\n --> ",
     'T.device_assert(x > 0, "it is positive")'),
    (1, 20, "Assume: n < 10\n --> ", "T.assume(n < 10)"),
    (1, 7, "Assert failed: n is not seven\n --> ", 'assert n != 7, "n is not seven"'),
    (1, 8, "Assert failed: n != 8\n --> ", "assert n != 8"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "n", "text", "at"), FAILURES)
@pytest.mark.parametrize("backend", ["auto", "python", "interpret"])
def test_a_failing_assertion_shows_its_line(
    value: int, n: int, text: str, at: str, backend: str
) -> None:
    error = failure(value, n, backend)
    kinds = {"Device": DeviceAssertError, "Assume:": KernelArgumentError}
    assert type(error) is kinds.get(text.split()[0], TileRuntimeError)
    macro = f"\n  in expansion of macro `positive` called at {place('positive(n)')}"
    shown = re.sub("  got: false.*\n", "", str(error))  # the interpreter knows the iteration
    assert shown == text + place(at) + macro * ("positive" in text)


@T.prim_func
def assuming(
    A: T.Tensor((T.dynamic("m"), T.dynamic("n")), "float32"),
    B: T.Tensor((T.dynamic("n"),), "float32"), k: T.int32, big: T.int64, flag: T.bool,
):  # fmt: skip
    m, n = A.shape
    T.assume(m % 4 == 0)
    T.assume(n >= m + k)
    T.assume(n >= m + k)
    T.assume(k > 0 or flag)
    T.assume(big // 2 == k - T.if_then_else(flag, 1, 0))
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[0, i] + k


LAUNCHERS = [
    pytest.param({"target": "cpu"}, id="c"),
    pytest.param({"target": "cpu", "execution_backend": "python"}, id="python"),
    pytest.param({"target": "cpu", "execution_backend": "interpret"}, id="interpreter"),
    pytest.param(
        {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
        id="emulator",
        marks=pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler"),
    ),
]
BROKEN = [
    ({"m": 3}, "m % 4 == 0", "T.assume(m % 4 == 0)"),
    ({"n": 5}, "n >= m + k", "T.assume(n >= m + k)"),
    ({"k": -1}, "k > 0 or flag", "T.assume(k > 0 or flag)"),
    ({"big": 2**33}, 'big // T.int64(2) == T.Cast("int64", k - T.if_then_else(flag, 1, 0))',
     "T.assume(big // 2 == k - T.if_then_else(flag, 1, 0))"),
]  # fmt: skip


@pytest.mark.parametrize("settings", LAUNCHERS[:3])
def test_assumptions_about_symbols_and_scalars_are_arguments_that_do_not_fit(
    settings: dict[str, Any],
) -> None:
    kernel = tilelang.compile(assuming, **settings)

    def call(m: int = 4, n: int = 8, k: int = 2, big: int = 5, flag: bool = False) -> Any:
        out = np.zeros(n, np.float32)
        kernel(np.ones((m, n), np.float32), out, k, big, flag)
        return out

    np.testing.assert_array_equal(call(), np.full(8, 3, np.float32))
    np.testing.assert_array_equal(call(k=0, big=-1, flag=True), np.ones(8, np.float32))
    for wrong, condition, line in BROKEN:
        with pytest.raises(KernelArgumentError) as error:
            call(**wrong)
        assert type(error.value) is KernelArgumentError
        assert str(error.value) == f"Assume: {condition}\n --> " + place(line)


@T.prim_func
def limited_floats(B: T.Tensor((4,), "float32"), s: T.float32, d: T.float64):
    T.assume(s < 0.1)
    T.assume(d >= 0.1)
    T.assume(s != 0.0)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(4):
            B[i] = s


@pytest.mark.parametrize("settings", LAUNCHERS)
def test_float_assumptions_compare_converted_arguments(settings: dict[str, Any]) -> None:
    kernel = tilelang.compile(limited_floats, **settings)
    low = float(np.nextafter(np.float32(0.1), np.float32(0)))
    cases = [
        (low, 0.1, None),
        (-3.5, np.inf, None),
        (0.09999999999, 1.0, "s < T.float32(0.10000000149011612)"),  # 0.1 as a float32
        (np.nan, 1.0, "s < T.float32(0.10000000149011612)"),
        (-1.0, 0.09999999999, "d >= T.float64(0.1)"),
        (-1.0, np.nan, "d >= T.float64(0.1)"),
        (-0.0, 1.0, "s != T.float32(0.0)"),
        (1e-60, 1.0, "s != T.float32(0.0)"),  # 0 as a float32
    ]
    for s, d, broken in cases:
        out = np.zeros(4, np.float32)
        if broken is None:
            kernel(out, s, d)
            np.testing.assert_array_equal(out, np.full(4, s, np.float32))
            continue
        with pytest.raises(KernelArgumentError) as error:
            kernel(out, s, d)
        assert str(error.value).startswith(f"Assume: {broken}\n --> ")
        assert not out.any()


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
def test_host_source_of_assumptions_about_floats_is_refused() -> None:
    kernel = tilelang.compile(
        limited_floats, target="cuda -arch=sm_80", execution_backend="emulator"
    )
    assert refusal(TileUnsupportedError, kernel.get_host_source) == (
        "the host source of a program that compares floats before its kernels\n"
        "  expected: integer arithmetic on sizes, symbols and scalar parameters\n"
        "  hint: the kernel itself runs and checks them"
    )


def test_the_same_message_at_two_lines_is_distinguished() -> None:
    @T.prim_func
    def twice(A: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] == 0, "zero")
            T.device_assert(A[1] == 0, "zero")

    kernel = tilelang.compile(twice, target="cpu")
    lines = []
    for values in ([1, 0], [0, 1]):
        with pytest.raises(DeviceAssertError) as error:
            kernel(np.array(values, np.int32))
        assert error.value.loc is not None
        lines.append(error.value.loc.line)
    assert lines[1] == lines[0] + 1
    kernel(np.zeros(2, np.int32))


def test_cached_kernels_report_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    first = failure(1, 6)
    assert list(tmp_path.rglob("*.tl.so"))
    assert str(failure(1, 6)) == str(first)


@T.prim_func
def relying(A: T.Tensor((T.dynamic("n"),), "int32"), low: T.int32):
    with T.Kernel(2, threads=32) as bx:
        n = A.shape[0]
        T.assume(n % 4 == 0)
        for i in T.Parallel(32):
            T.assume(low + i < 40)
            if bx * 32 + i < n:
                A[bx * 32 + i] += low


UNTRUE = [
    (63, 0, "n % 4 == 0", "for n = 63, in block (0, 0, 0)", "T.assume(n % 4 == 0)"),
    (64, 9, "low + i < 40", "for i = 31, for low = 9, in block (0, 0, 0), iteration 31",
     "T.assume(low + i < 40)"),
]  # fmt: skip


@pytest.mark.skipif(find_cxx() is None, reason="no C++ compiler")
@pytest.mark.parametrize(("n", "low", "condition", "got", "at"), UNTRUE)
def test_a_broken_assumption_of_a_kernel_is_found_by_interpreter_and_sanitizer(
    n: int, low: int, condition: str, got: str, at: str
) -> None:
    with pytest.raises(DeviceAssertError) as failed:
        tilelang.compile(relying, execution_backend="interpret")(np.zeros(n, np.int32), low)
    assert str(failed.value) == (
        "Device assert failed: T.assume does not hold\n"
        f"  expected: `{condition}` to hold\n  got: false {got}\n --> {place(at)}"
    )
    (found,) = tilelang.sanitize(relying, np.zeros(n, np.int32), low).findings
    assert found.kind == "trap"
    assert at in str(found) and "T.assume does not hold" in str(found)
    assert tilelang.sanitize(relying, np.zeros(64, np.int32), 8).ok
