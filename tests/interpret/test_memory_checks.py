"""What the interpreter finds: accesses outside, reads of nothing, failed assertions, prints."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, call, region, zeros

from tilelang.errors import (
    ArgumentCountError,
    ArgumentTypeError,
    DeviceAssertError,
    KernelArgumentError,
    Loc,
    OutOfBoundsError,
    TileRuntimeError,
    TileValueError,
    TileWarning,
    UninitializedReadError,
)
from tilelang.ir import stmt as S
from tilelang.ir.expr import const, select

INT = np.int32


def text(kernel: Kernel, kind: type[Exception], *args: object, **options: object) -> str:
    with pytest.raises(kind) as error:
        kernel.run(*args, **options)
    return str(error.value)


def test_an_index_outside_shared_memory() -> None:
    with Kernel(threads=8) as k:
        s = k.shared("s", (4, 6))
        s[k.tx // 2, k.tx] = 1.0
    assert text(k, OutOfBoundsError) == (
        "`s[3, 6]` is outside the shared.dyn buffer `s`\n"
        "  expected: indices within the shape (4, 6)\n"
        "  got: s[3, 6] in block (0, 0, 0), thread 6\n"
        "  hint: only global memory has a bounds rule; guard the access with `if` or "
        "T.if_then_else"
    )


def test_a_tile_outside_a_fragment() -> None:
    with Kernel(grid=(3,), threads=8) as k:
        a, f = k.tensor("A", (4,)), k.fragment("f", (6,))
        k.copy(a, region(f, (k.bx * 2,), (4,)))
    assert text(k, OutOfBoundsError, zeros(4)) == (
        "`f[6]` is outside the local.fragment buffer `f`\n"
        "  expected: indices within the shape (6,)\n"
        "  got: f[6] in block (2, 0, 0)\n"
        "  hint: only global memory has a bounds rule; guard the access with `if` or "
        "T.if_then_else"
    )


def test_global_memory_is_checked_when_the_rule_is_off() -> None:
    with Kernel(threads=8) as k:
        a = k.tensor("A", (4,))
        a[k.tx] = 1.0
    k.run(zeros(4))
    assert text(k, OutOfBoundsError, zeros(4), safe_memory=False).startswith(
        "`A[4]` is outside the global buffer `A`\n"
    )


@pytest.mark.parametrize("scope", ["shared.dyn", "local.fragment", "local"])
def test_reading_what_was_never_written(scope: str) -> None:
    with Kernel(threads=8) as k:
        out = k.tensor("O", (8,))
        b = k.alloc_buffer("b", (8,), "float32", scope)
        with k.loop(7) as i:
            b[i] = 1.0
        with k.loop(8) as i:
            out[i] = b[i]
    assert text(k, UninitializedReadError, zeros(8)) == (
        "`b[7]` is read before anything is written to it\n"
        f"  expected: initialised memory in the {scope} buffer `b`\n"
        "  got: uninitialised b[7] in block (0, 0, 0)\n"
        "  hint: initialise the buffer first, e.g. with T.clear or T.fill"
    )


def test_a_copy_does_not_read_outside_its_tensor() -> None:
    """The last row of the tile has no value, and the tensor no element for it."""
    with Kernel(threads=8) as k:
        a, out, s = k.tensor("A", (2, 5)), k.tensor("O", (5, 5)), k.shared("s", (3, 5))
        with k.parallel(2, 5) as (i, j):
            s[i, j] = a[i, j]
        k.copy(s, out[3:6, 0:5])
    given, result = np.arange(10, dtype=np.float32).reshape(2, 5), zeros(5, 5)
    k.run(given, result)
    np.testing.assert_array_equal(result[3:], given)
    with Kernel(threads=8) as k:
        out, s = k.tensor("O", (5, 5)), k.shared("s", (3, 5))
        with k.parallel(1, 5) as (i, j):
            s[i, j] = 1.0
        k.copy(s, out[3:6, 0:5])
    assert text(k, UninitializedReadError, zeros(5, 5)).startswith("`s[1, 0]` is read before")


def test_a_local_array_is_initialised_per_thread() -> None:
    with Kernel(threads=8) as k:
        out, mine = k.tensor("O", (8,)), k.local("mine", (1,))
        with k.when(k.tx != 5):
            mine[0] = 1.0
        out[k.tx] = mine[0]
    assert "uninitialised mine[0] in block (0, 0, 0), thread 5" in text(
        k, UninitializedReadError, zeros(8)
    )


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(("taken", "fails"), [(4, False), (5, True)])
def test_what_a_select_does_not_take_is_not_read(
    named: bool, lazy: bool, taken: int, fails: bool
) -> None:
    with Kernel(threads=8) as k:
        out, mine = k.tensor("O", (8,)), k.local("mine", (1,))
        with k.when(k.tx < 4):
            mine[0] = 1.0
        value = k.let(mine[0]) if named else mine[0]
        out[k.tx] = select(k.tx < taken, value, const(2.0, "float32"), lazy=lazy)
    if fails:
        assert "uninitialised mine[0] in block (0, 0, 0), thread 4" in text(
            k, UninitializedReadError, zeros(8)
        )
        return
    result = zeros(8)
    k.run(result)
    np.testing.assert_array_equal(result, [1] * 4 + [2] * 4)


def test_gemm_onto_an_accumulator_that_was_not_cleared() -> None:
    """Rule 10."""
    with Kernel() as k:
        a, f = k.tensor("A", (8, 8)), k.fragment("f", (8, 8))
        k.gemm(a, a, f)
    assert text(k, UninitializedReadError, zeros(8, 8)).startswith("`f[0, 0]` is read before")


def test_outputs_start_uninitialised_and_inputs_do_not() -> None:
    """Rule 16."""
    with Kernel(threads=1) as k:
        a, out = k.tensor("A", (2,)), k.output("O", (2,))
        out[0] = a[1]
        a[0] = out[0] + out[1]
    assert text(k, UninitializedReadError, zeros(2), zeros(2)).startswith("`O[1]` is read before")


def test_errors_carry_the_line_of_the_statement() -> None:
    with Kernel(threads=1) as k:
        s = k.shared("s", (4,))
        n = k.scalar("n")
        k.emit(S.Store(buffer=s, indices=(n,), value=const(0.0), loc=Loc("kernel.py", 12)))
    assert text(k, OutOfBoundsError, 9).endswith(" --> kernel.py:12")


def test_device_asserts() -> None:
    with Kernel(grid=(2,), threads=8) as k:
        k.do("device_assert", k.tx + k.bx < 8, message="too many")
    with pytest.raises(DeviceAssertError) as error:
        k.run()
    assert error.value.message == "Device assert failed: too many"
    assert error.value.got == "false in block (1, 0, 0), thread 7"
    k.run(checks=False)


def test_host_assumptions_are_checked() -> None:
    """Rule 22."""
    with Kernel() as k:
        n = k.scalar("n")
        k.host.append(S.Assert(cond=(n % 8).equal(0), message="n is a multiple of 8", assumed=True))
    k.run(16)
    assert text(k, KernelArgumentError, 12) == "Assume: n is a multiple of 8"


def test_argument_errors() -> None:
    with Kernel() as k:
        k.tensor("A", (4, 3))
        k.scalar("n")
    assert text(k, ArgumentCountError, zeros(4, 3)) == (
        "`main` is called with the wrong number of arguments\n  expected: 2\n  got: 1"
    )
    assert text(k, KernelArgumentError, zeros(4, 4), 1) == (
        "the argument `A` has the wrong shape\n  expected: (4, 3)\n  got: (4, 4)"
    )
    assert text(k, KernelArgumentError, zeros(4), 1) == (
        "the argument `A` has the wrong number of dimensions\n"
        "  expected: 2 (shape (4, 3))\n  got: 1 (shape (4,))"
    )
    assert text(k, ArgumentTypeError, np.zeros((4, 3)), 1) == (
        "the argument `A` has the wrong dtype\n  expected: float32, held in float32\n  got: float64"
    )
    assert text(k, ArgumentTypeError, zeros(4, 3), 1.5) == (
        "the argument `n` is a float\n  expected: int32\n  got: 1.5"
    )


def test_none_is_an_error_only_when_used() -> None:
    """Rule 17."""
    with Kernel(threads=1) as k:
        a, out = k.tensor("A", (4,)), k.tensor("O", (1,))
        n = k.scalar("n")
        with k.when(n > 0):
            out[0] = a[0]
    k.run(None, zeros(1), 0)
    assert text(k, TileRuntimeError, None, zeros(1), 1) == (
        "the kernel uses `A`, but None was passed for it\n"
        "  expected: an array of shape (4,) and dtype float32\n  got: None"
    )


def test_a_read_only_result_is_refused() -> None:
    with Kernel(threads=1) as k:
        out = k.tensor("O", (1,))
        out[0] = 1.0
    o = zeros(1)
    o.flags.writeable = False
    assert text(k, TileRuntimeError, o).startswith(
        "the kernel writes `O`, but the array passed for it is read-only"
    )


def test_print_formats() -> None:
    with Kernel(grid=(1, 2), threads=(2, 1)) as k:
        s = k.fragment("s", (2,), "float16")
        k.fill(s, 1.0)
        with k.when((k.by + k.tx).equal(1)):
            k.do("print", k.tx + 3, message="three")
        with k.when(k.by.equal(1)):
            k.emit(S.PrintTile(src=s.whole()))
            k.do("print", k.tx < 1, message="flag")
    k.run()
    tile = "msg='buffer<s, float16>' BlockIdx=(0, 1, 0), ThreadIdx=(0, 0, 0): buffer=s, "
    assert k.printed.splitlines() == [
        "msg='three' BlockIdx=(0, 0, 0), ThreadIdx=(1, 0, 0): dtype=int value=4",
        "msg='three' BlockIdx=(0, 1, 0), ThreadIdx=(0, 0, 0): dtype=int value=3",
        tile + "index=0, dtype=half_t value=1.000000",
        tile + "index=1, dtype=half_t value=1.000000",
        "msg='flag' BlockIdx=(0, 1, 0), ThreadIdx=(0, 0, 0): dtype=bool value=true",
        "msg='flag' BlockIdx=(0, 1, 0), ThreadIdx=(1, 0, 0): dtype=bool value=false",
    ]


def test_an_unknown_function_with_a_string_operand_is_named() -> None:
    from tilelang.errors import TileUnsupportedError
    from tilelang.ir.expr import StringImm

    with Kernel(threads=1) as k:
        out = k.tensor("O", (2,))
        out[0] = call("call_extern", StringImm("%d"), 3, dtype="float32", name="printf")
    with pytest.raises(TileUnsupportedError) as error:
        k.run(zeros(2))
    assert error.value.message == "the external function `printf` is not known to the interpreter"


# -- reads of what nothing has written, by choice --------------------------------------------------
def uncleared() -> Kernel:
    with Kernel(threads=8) as k:
        a, f, s = k.tensor("A", (8,)), k.fragment("f", (8,)), k.shared("s", (8,))
        k.copy(f, a)
        s[k.tx] = s[k.tx] + 1.0
        k.copy(s, a)
    return k


def test_unwritten_memory_may_be_warned_of_once_per_line() -> None:
    array = np.full(8, 7, np.float32)
    with pytest.warns(TileWarning) as found:
        uncleared().run(array, uninitialized="warn")
    np.testing.assert_array_equal(array, 1)
    assert [str(item.message).splitlines()[0] for item in found] == [
        "`f[0]` is read before anything is written to it",
        "`s[0]` is read before anything is written to it",
    ]
    assert "hint: it reads as 0 here; initialise the buffer first" in str(found[0].message)


def test_there_is_no_other_rule_for_unwritten_memory() -> None:
    assert text(uncleared(), TileValueError, zeros(8), uninitialized="ignore") == (
        "unknown rule for uninitialised reads\n  expected: error, warn, zero\n  got: 'ignore'"
    )


# -- indices that are negative at run time, by choice ----------------------------------------------
def scattered() -> Kernel:
    with Kernel(threads=4) as k:
        slots, a, b = k.tensor("S", (4,), "int32"), k.tensor("A", (8, 2)), k.tensor("B", (8, 2))
        a[slots[k.tx], 1] = 2.0
        b[k.tx, 0] = a[slots[k.tx] - 1, 1]
    return k


def arguments() -> tuple[np.ndarray, ...]:
    return np.array([3, -1, 0, -9], np.int32), zeros(8, 2), zeros(8, 2)


def test_negative_indices_are_outside() -> None:
    slots, a, b = arguments()
    scattered().run(slots, a, b)
    assert np.argwhere(a).tolist() == [[0, 1], [3, 1]]
    assert not b.any()


def test_negative_indices_may_be_warned_of_once_per_line() -> None:
    with pytest.warns(TileWarning) as found:
        scattered().run(*arguments(), negative_indices="warn")
    assert [str(item.message).splitlines()[0] for item in found] == [
        "`A[-1, 1]` has an index that is negative at run time: it is outside"
    ]


def test_negative_indices_may_be_errors() -> None:
    assert text(scattered(), OutOfBoundsError, *arguments(), negative_indices="error") == (
        "`A[-1, 1]` has an index that is negative at run time: it is outside\n"
        "  expected: indices of `A` from 0 on\n"
        "  got: A[-1, 1] in block (0, 0, 0), thread 1\n"
        "  hint: only an index that is known to be negative counts from the end; write `index % n` "
        "to count from the end at run time"
    )


def test_what_a_condition_keeps_from_being_negative_is_not_reported() -> None:
    with Kernel(threads=4) as k:
        a, b = k.tensor("A", (4,)), k.tensor("B", (4,))
        b[k.tx] = select(k.tx >= 2, a[k.tx - 2], 0.0)
    k.run(zeros(4), zeros(4), negative_indices="error")


def test_there_is_no_other_rule_for_negative_indices() -> None:
    assert text(scattered(), TileValueError, *arguments(), negative_indices="wrap") == (
        "unknown rule for negative indices\n  expected: outside, warn, error\n  got: 'wrap'"
    )
