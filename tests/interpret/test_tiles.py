"""Tile operations."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, zeros

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import stmts
from tilelang.ir import floats, stmt as S

INT = np.int32
rng = np.random.default_rng(7)


def rand(*shape: int) -> np.ndarray:  # type: ignore[type-arg]  # float32
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("kind", "empty"), [("bitand", -1), ("bitor", 0), ("bitxor", 0)])
def test_bit_reductions(kind: str, empty: int) -> None:
    with Kernel() as k:
        a, out = k.tensor("A", (5, 4, 3), "int32"), k.tensor("O", (5, 1, 3), "int32")
        f = k.fragment("f", (5, 1, 3), "int32")
        k.reduce(a, f, kind, 1)
        k.copy(f, out)
    a_, o = rng.integers(0, 99, (5, 4, 3)).astype(INT), zeros(5, 1, 3, dtype=INT)
    k.run(a_, o)
    ufunc = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[kind]
    assert (o == ufunc.reduce(a_, axis=1, keepdims=True)).all()


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


def test_strided_and_reversed_arguments_are_used_in_place() -> None:
    with Kernel() as k:
        a, out = k.tensor("A", (4, 6)), k.tensor("O", (4, 6))
        k.copy(a, out)
    base, o = rand(12, 8), zeros(6, 4).T
    view = base[::-3, 1:7]
    k.run(view, o)
    assert (o == view).all()


def test_packed_arguments_are_indexed_in_logical_elements() -> None:
    with Kernel(threads=32) as k:
        a, b = k.tensor("A", (4, 16), "int4"), k.tensor("B", (4, 16), "float4_e2m1fn")
        out = k.tensor("O", (4, 16), "int4")
        f = k.fragment("f", (4, 16))
        s = k.shared("s", (4, 16), "int4")
        k.copy(a, s)
        with k.parallel(4, 16) as (i, j):
            f[i, j] = s[i, j] + b[i, j].astype("int32")
        with k.parallel(4, 16) as (i, j):
            out[i, j] = f[i, j]
    ints, fp = rng.integers(-8, 8, (4, 16)), rng.choice([0, 1, -2, 3], (4, 16))
    a_, b_ = floats.to_storage(ints, "int4"), floats.to_storage(fp, "float4_e2m1fn")
    o = np.zeros((4, 8), np.int8)
    k.run(a_, b_, o)
    want = np.clip(ints + fp, -8, 7)
    assert (floats.from_storage(o, "int4") == want).all()


def test_symbols_are_solved_from_linear_shapes() -> None:
    """Rule 17: None for a tensor that is not used, symbols from linear expressions."""
    from tilelang.ir.dtypes import dtype as DType
    from tilelang.ir.expr import Var

    m = Var("m", DType("int32"))
    with Kernel(grid=(m,), threads=1) as k:
        k.tensor("U", (m,))
        k.tensor("A", (m * 4 + 1,))
        out = k.tensor("O", (8,), "int32")
        out[k.bx] = m
    o = zeros(8, dtype=INT)
    k.run(None, zeros(13), o)
    assert o.tolist() == [3, 3, 3, 0, 0, 0, 0, 0]


def test_hardware_operations_say_what_they_need() -> None:
    with Kernel() as k:
        k.emit(S.HardwareOp(name="tcgen05_gemm", needs="tcgen05"))
    with pytest.raises(TileUnsupportedError) as error:
        k.run()
    assert str(error.value) == (
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
