"""Tile operations."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, zeros
from refusals import refusal

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import stmts
from tilelang.ir import stmt as S

INT = np.int32
rng = np.random.default_rng(7)


def rand(*shape: int) -> np.ndarray:  # type: ignore[type-arg]  # float32
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("own", [True, False], ids=["its own meaning", "its loop"])
def test_transpose(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    if not own:
        monkeypatch.setattr(stmts, "OWN_MEANING", ())
    with Kernel() as k:
        a, out = k.tensor("A", (5, 8)), k.tensor("O", (8, 5), "float16")
        s = k.shared("s", (8, 5), "float16")
        k.emit(S.Transpose(src=a.whole(), dst=s.whole()))
        k.copy(s, out)
    a_, o = rand(5, 8), zeros(8, 5, dtype=np.float16)
    k.run(a_, o)
    assert (o == a_.T.astype(np.float16)).all()


def test_hardware_operations_say_what_they_need() -> None:
    with Kernel() as k:
        k.emit(S.HardwareOp(name="tcgen05_gemm", needs="tcgen05"))
    assert refusal(TileUnsupportedError, k.run) == (
        "T.tcgen05_gemm needs sm_100a\n"
        "  expected: an operation that is defined without GPU hardware\n"
        "  got: T.tcgen05_gemm in the interpreter\n"
        "  hint: compile the kernel for a target that has sm_100a"
    )


def test_the_older_reducer_protocol_adds_up_every_thread() -> None:
    """A reducer updated in plain thread code takes one contribution per thread."""
    with Kernel(threads=32) as k:
        a, out = k.tensor("A", (96,)), k.tensor("O", (1,))
        r = k.alloc_buffer("r", (1,), "float32", "local.fragment", reducer=("sum", "all"))
        k.fill(r, 0.0)
        with k.loop(3) as i:
            r[0] = r[0] + a[i * 32 + k.tx]
        k.emit(S.ReducerFinalize(reducer=r.whole(), op="sum"))
        k.copy(r, out)
    a_, o = rng.integers(0, 9, 96).astype(np.float32), zeros(1)
    k.run(a_, o)
    assert o[0] == a_.sum()


def test_scans_of_nan_alone_are_what_reductions_of_it_are() -> None:
    with Kernel() as k:
        a, out = k.tensor("A", (6,)), k.tensor("O", (6,))
        s = k.shared("s", (6,))
        k.copy(a, s)
        k.emit(S.Scan(src=s.whole(), dst=s.whole(), kind="max", dim=0, reverse=False))
        k.copy(s, out)
    a_, o = np.array([np.nan, np.nan, 1, -np.inf, np.nan, 2], np.float32), zeros(6)
    k.run(a_, o)
    assert o.tolist() == [-np.inf, -np.inf, 1, 1, 1, 2]
