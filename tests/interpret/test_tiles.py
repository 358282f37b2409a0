"""Tile operations."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, region, zeros

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import stmts
from tilelang.ir import floats, stmt as S
from tilelang.ir.expr import const
from tilelang.ir.hints import LaunchHints

INT = np.int32
rng = np.random.default_rng(7)


def rand(*shape: int) -> np.ndarray:  # type: ignore[type-arg]  # float32
    return rng.standard_normal(shape).astype(np.float32)


def test_copy_outside_a_tensor_reads_zero_and_drops_writes() -> None:
    """Rules 4 and 5: the tensor's shape clips, the region does not."""
    with Kernel(grid=(2, 3), threads=32) as k:
        a, out = k.tensor("A", (70, 40)), k.tensor("O", (70, 40))
        seen = k.tensor("S", (2, 3, 32, 32))
        s = k.shared("s", (32, 32))
        k.copy(region(a, (k.by * 32, k.bx * 32), (32, 32)), s)
        k.copy(s, region(out, (k.by * 32, k.bx * 32), (32, 32)))
        k.copy(s, region(seen, (k.bx, k.by, 0, 0), (1, 1, 32, 32)))
    a_, o, seen_ = rand(70, 40), zeros(70, 40), np.ones((2, 3, 32, 32), np.float32)
    k.run(a_, o, seen_)
    assert (o == a_).all()
    assert (seen_[1, 2, 6:] == 0).all() and (seen_[1, 2, :6, 8:] == 0).all()
    assert (seen_[1, 2, :6, :8] == a_[64:, 32:]).all()


def test_safe_values_and_scalar_guards() -> None:
    """Rule 5: guarded loads give the annotated value, in scalar code too."""
    with Kernel(threads=32) as k:
        a, out, tile = k.tensor("A", (10,)), k.tensor("O", (32,)), k.tensor("P", (16,))
        k.hints = LaunchHints(safe_value=((a, const(-5.0)),))
        f = k.fragment("f", (16,))
        out[k.tx] = a[k.tx]
        a[k.tx + 9] = 1.0
        k.copy(region(a, (0,), (16,)), f)
        k.copy(f, tile)
    a_, o, t = np.arange(10, dtype=np.float32), zeros(32), zeros(16)
    k.run(a_, o, t)
    assert o.tolist() == [*range(9), 9.0, *[-5.0] * 22]
    assert t.tolist() == [*range(9), 1.0, *[-5.0] * 6]


def test_an_index_that_is_negative_at_run_time_is_outside() -> None:
    """Rule 5."""
    with Kernel(threads=4) as k:
        a, out = k.tensor("A", (4,)), k.tensor("O", (4,))
        out[k.tx] = a[k.tx - 2]
    o = zeros(4)
    k.run(np.array([1, 2, 3, 4], np.float32), o)
    assert o.tolist() == [0, 0, 1, 2]


def test_copy_squeezes_unit_dimensions_and_converts() -> None:
    """Rules 4 and 6: a store casts to the destination type."""
    with Kernel() as k:
        a, out = k.tensor("A", (2, 8, 3, 16)), k.tensor("O", (8, 16), "int8")
        f = k.fragment("f", (8, 16))
        k.copy(region(a, (1, 0, 2, 0), (1, 8, 1, 16)), f)
        k.copy(f, out)
    a_, o = rand(2, 8, 3, 16) * 10, zeros(8, 16, dtype=np.int8)
    k.run(a_, o)
    assert (o == np.trunc(a_[1, :, 2]).astype(np.int8)).all()


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("clear", [False, True])
def test_gemm(trans_a: bool, trans_b: bool, clear: bool) -> None:
    """Rule 10: accumulates by default; transpose_B means [N, K]; leading unit dimensions."""
    with Kernel() as k:
        sa, sb = (24, 16) if trans_a else (16, 24), (40, 24) if trans_b else (24, 40)
        a, b, c = k.tensor("A", sa), k.tensor("B", sb), k.tensor("C", (16, 40))
        s = k.shared("s", (2, *sa))
        t = k.shared("t", sb)
        f = k.fragment("f", (16, 40))
        k.copy(a, region(s, (1, 0, 0), (1, *sa)))
        k.copy(b, t)
        k.fill(f, 3.0)
        k.gemm(region(s, (1, 0, 0), (1, *sa)), t, f, clear, trans_a=trans_a, trans_b=trans_b)
        k.copy(f, c)
    a_, b_, c_ = rand(*sa), rand(*sb), zeros(16, 40)
    k.run(a_, b_, c_)
    product = (a_.T if trans_a else a_) @ (b_.T if trans_b else b_)
    np.testing.assert_allclose(c_, product + (0 if clear else 3), rtol=1e-5, atol=1e-5)


def test_gemm_clear_may_be_an_expression() -> None:
    with Kernel() as k:
        a, c = k.tensor("A", (8, 8)), k.tensor("C", (8, 8))
        f, s = k.fragment("f", (8, 8)), k.shared("s", (8, 8))
        k.copy(a, s)
        with k.loop(3) as i:
            k.gemm(s, s, f, i.equal(0))
        k.copy(f, c)
    a_, c_ = rand(8, 8), zeros(8, 8)
    k.run(a_, c_)
    np.testing.assert_allclose(c_, 3 * (a_ @ a_), rtol=1e-5, atol=1e-5)


def test_gemm_of_small_integers_is_exact_and_half_accumulators_round_once() -> None:
    with Kernel() as k:
        a, b, c = k.tensor("A", (16, 64), "int8"), k.tensor("B", (64, 8), "int8"), None
        c = k.tensor("C", (16, 8), "int32")
        x, y, z = (
            k.tensor("X", (16, 64), "float16"),
            k.tensor("Y", (64, 8), "float16"),
            k.tensor("Z", (16, 8), "float16"),
        )
        k.gemm(a, b, c)
        k.gemm(x, y, z)
    a_, b_ = (
        rng.integers(-128, 128, (16, 64)).astype(np.int8),
        rng.integers(-128, 128, (64, 8)).astype(np.int8),
    )
    c_ = np.full((16, 8), 5, INT)
    x_, y_ = rand(16, 64).astype(np.float16), rand(64, 8).astype(np.float16)
    z_ = np.ones((16, 8), np.float16)
    k.run(a_, b_, c_, x_, y_, z_)
    assert (c_ == a_.astype(INT) @ b_.astype(INT) + 5).all()
    full = 1 + x_.astype(np.float32) @ y_.astype(np.float32)
    assert (z_ == full.astype(np.float16)).all()


KINDS = {
    "sum": lambda x: x.sum(1),
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1),
    "absmax": lambda x: np.abs(x).max(1),
    "abssum": lambda x: np.abs(x).sum(1),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("clear", [True, False])
def test_reductions_combine_with_the_old_value(kind: str, clear: bool) -> None:
    """Rule 9."""
    old = 2.5
    with Kernel() as k:
        a, out = k.tensor("A", (6, 37)), k.tensor("O", (6,))
        s, f = k.shared("s", (6, 37)), k.fragment("f", (6,))
        k.copy(a, s)
        k.fill(f, old)
        k.reduce(s, f, kind, -1, clear=clear)
        k.copy(f, out)
    a_, o = rand(6, 37), zeros(6)
    k.run(a_, o)
    want = KINDS[kind](a_)
    if not clear:
        want = (
            want + old
            if "sum" in kind
            else (np.minimum if kind == "min" else np.maximum)(want, old)
        )
    np.testing.assert_allclose(o, want, rtol=1e-5)


def test_reduction_accumulates_in_the_type_of_the_result() -> None:
    """Rule 9: int8 sums in int32 do not wrap, in float16 they round."""
    with Kernel() as k:
        a, out, half = (
            k.tensor("A", (2, 100), "int8"),
            k.tensor("O", (2,), "int32"),
            k.tensor("H", (2,), "float16"),
        )
        k.reduce(a, out, "sum")
        k.reduce(a, half, "sum")
    a_, o, h = np.full((2, 100), 101, np.int8), zeros(2, dtype=INT), zeros(2, dtype=np.float16)
    k.run(a_, o, h)
    assert o.tolist() == [10100, 10100]
    assert abs(float(h[0]) - 10100) <= 8 * 8


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


def test_reductions_ignore_nan_unless_it_propagates() -> None:
    with Kernel() as k:
        a = k.tensor("A", (2, 3))
        outs = [k.tensor(name, (2,)) for name in "PQRS"]
        k.reduce(a, outs[0], "max")
        k.reduce(a, outs[1], "min")
        k.reduce(a, outs[2], "max", nan_propagate=True)
        k.reduce(a, outs[3], "absmax")
    nan = np.nan
    a_ = np.array([[1, nan, -4], [nan, nan, nan]], np.float32)
    o = [zeros(2) for _ in range(4)]
    k.run(a_, *o)
    assert o[0].tolist() == [1, -np.inf] and o[1].tolist() == [-4, np.inf]
    assert np.isnan(o[2]).all() and o[3].tolist() == [4, 0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_scans(kind: str, dim: int, reverse: bool) -> None:
    with Kernel() as k:
        a, out = k.tensor("A", (4, 9), "int32"), k.tensor("O", (4, 9), "int32")
        s = k.shared("s", (4, 9), "int32")
        k.copy(a, s)
        k.emit(S.Scan(src=s.whole(), dst=s.whole(), kind=kind, dim=dim, reverse=reverse))
        k.copy(s, out)
    a_, o = rng.integers(-9, 9, (4, 9)).astype(INT), zeros(4, 9, dtype=INT)
    k.run(a_, o)
    x = np.flip(a_, dim) if reverse else a_
    want = (np.add if kind == "sum" else np.maximum).accumulate(x, axis=dim)
    assert (o == (np.flip(want, dim) if reverse else want)).all()


def test_reducers_count_the_initial_value_once() -> None:
    with Kernel(threads=32) as k:
        a, out = k.tensor("A", (4, 50)), k.tensor("O", (4,))
        r = k.alloc_buffer("r", (4,), "float32", "local.fragment", reducer=("sum", "all"))
        f = k.fragment("f", (4,))
        k.emit(S.ReducerInit(reducer=r.whole(), init=const(10.0)))
        with k.parallel(4, 50) as (i, j):
            k.emit(S.ReducerUpdate(buffer=r, indices=(i,), value=a[i, j], op="sum"))
        k.emit(S.ReducerFinalize(reducer=r.whole(), dst=f.whole(), op="sum"))
        k.copy(f, out)
    a_, o = rng.integers(0, 9, (4, 50)).astype(np.float32), zeros(4)
    k.run(a_, o)
    assert (o == 10 + a_.sum(1)).all()


def test_tile_atomics_add_each_element_once_and_skip_outside() -> None:
    with Kernel(grid=(3,), threads=32) as k:
        out = k.tensor("O", (10, 6))
        f = k.fragment("f", (8, 4), "float16")
        with k.parallel(8, 4) as (i, j):
            f[i, j] = i + j
        k.emit(S.AtomicTile(src=f.whole(), dst=region(out, (4, 4), (8, 4)), op="add"))
    o = zeros(10, 6)
    k.run(o)
    want = np.zeros((10, 6), np.float32)
    want[4:, 4:] = 3 * np.add.outer(np.arange(6), np.arange(2))
    assert (o == want).all()


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


def test_im2col_and_gemm_make_a_convolution() -> None:
    n, h, w, c, f, kernel, stride, dilation, pad = 2, 7, 6, 4, 8, 3, 2, 1, 1
    oh, ow = (h + 2 * pad - kernel) // stride + 1, (w + 2 * pad - kernel) // stride + 1
    bm, bk = 16, 12
    with Kernel(grid=(-(-n * oh * ow // bm),)) as k:
        img, weight = k.tensor("I", (n, h, w, c)), k.tensor("W", (kernel * kernel * c, f))
        out = k.tensor("O", (n * oh * ow, f))
        col, ws = k.shared("col", (bm, bk)), k.shared("ws", (bk, f))
        acc = k.fragment("acc", (bm, f))
        k.fill(acc, 0.0)
        with k.loop(kernel * kernel * c // bk) as step:
            k.emit(
                S.Im2col(
                    src=img.whole(),
                    dst=col.whole(),
                    nhw_step=k.bx,
                    c_step=step,
                    kernel=kernel,
                    stride=stride,
                    dilation=dilation,
                    pad=pad,
                )
            )
            k.copy(region(weight, (step * bk, 0), (bk, f)), ws)
            k.gemm(col, ws, acc)
        k.copy(acc, region(out, (k.bx * bm, 0), (bm, f)))
    i_, w_, o = rand(n, h, w, c), rand(kernel * kernel * c, f), zeros(n * oh * ow, f)
    k.run(i_, w_, o)
    padded = np.pad(i_, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    want = np.zeros((n, oh, ow, f), np.float32)
    for y in range(oh):
        for x in range(ow):
            patch = padded[:, y * stride : y * stride + 3, x * stride : x * stride + 3]
            want[:, y, x] = patch.reshape(n, -1) @ w_
    np.testing.assert_allclose(o, want.reshape(-1, f), rtol=1e-4, atol=1e-4)


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


def test_views_share_the_bits() -> None:
    with Kernel(threads=32) as k:
        a, out = k.tensor("A", (8,)), k.tensor("O", (2, 4), "int32")
        from tilelang.ir.buffer import Buffer, Shape

        s = k.shared("s", (8,))
        bits = Buffer("bits", Shape((2, 4)), out.dtype, "shared.dyn", data=s.data)
        k.emit(S.View(buffer=bits))
        k.copy(a, s)
        with k.parallel(2, 4) as (i, j):
            bits[i, j] = bits[i, j] + 1
        k.copy(bits, out)
    a_, o = rand(8), zeros(2, 4, dtype=INT)
    k.run(a_, o)
    assert (o.reshape(-1) == a_.view(INT) + 1).all()


def test_pointers_and_tables_of_addresses() -> None:
    from tilelang.ir.buffer import Buffer, Shape
    from tilelang.ir.dtypes import dtype as DType

    with Kernel(grid=(2,), threads=32) as k:
        p = k.scalar("p", "handle")
        table, out = k.tensor("T", (2,), "int64"), k.tensor("O", (2, 4))
        from_ptr = Buffer("F", Shape((4,)), DType("float32"))
        k.emit(S.View(buffer=from_ptr, source=p))
        from_table = Buffer("G", Shape((4,)), DType("float32"))
        k.emit(S.View(buffer=from_table, source=table[k.bx]))
        with k.parallel(4) as (i,):
            out[k.bx, i] = from_ptr[i] * 100.0 + from_table[i]
    x, y, z, o = rand(4), rand(4), rand(4), zeros(2, 4)
    k.run(x, np.array([y.ctypes.data, z.ctypes.data], np.int64), o)
    assert (o == np.stack((x * 100 + y, x * 100 + z))).all()


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
