"""``T.print`` in compiled kernels says the same as in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T


@T.prim_func
def prints(A: T.Tensor((2,), "int32")):
    with T.Kernel(2, threads=(2, 2)):
        T.print(T.get_thread_binding() * 10 + T.get_thread_binding(1), msg="both")
        tile = T.alloc_fragment((2,), "int32")
        T.copy(A, tile)
        T.print(tile)
        T.print(A[0])
        T.print(msg="here")


def test_lines_of_all_blocks_and_threads_are_those_of_the_interpreter(
    capfd: pytest.CaptureFixture[str],
) -> None:
    values = np.array([3, 4], np.int32)
    tilelang.compile(prints, execution_backend="interpret")(values)
    expected = sorted(capfd.readouterr().out.splitlines())
    kernel = tilelang.compile(prints, target="cpu")
    if kernel.execution_backend == "interpret":
        pytest.skip("no C compiler")
    kernel(values)
    # Blocks run on several cores: the order of their lines is open.
    _flush()
    assert sorted(capfd.readouterr().out.splitlines()) == expected
    assert len(expected) == 2 * (4 + 2 + 4 + 4)


def _flush() -> None:
    """Write out what the C library has buffered."""
    import ctypes

    ctypes.CDLL(None).fflush(None)
