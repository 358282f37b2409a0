"""Values: rounding, wrapping, conversions, operators and elementwise functions of every type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from kernel_builder import Kernel, call, zeros

from tilelang.interpret import philox, values
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import (
    Binary,
    Broadcast,
    Cast,
    Expr,
    Lane,
    Ramp,
    Vector,
    as_expr,
    binary,
    const,
)
from tilelang.target.features import FEATURES
from tilelang.target.instruction_table import ROWS

INT = np.int32


def compute(build: Any, inputs: list[tuple[Any, str]], out: str) -> np.ndarray[Any, Any]:
    """The storage array of ``build(*elements)`` computed per element by one kernel."""
    count = len(inputs[0][0])
    with Kernel(threads=32) as k:
        names = [k.tensor(f"A{n}", (count,), kind) for n, (_, kind) in enumerate(inputs)]
        result = k.tensor("O", (count,), out)
        with k.parallel(count) as (i,):
            result[i] = build(*(name[i] for name in names))
    arrays = [floats.to_storage(np.asarray(x), kind) for x, kind in inputs]
    o = np.zeros(count, DType(out).as_numpy())
    k.run(*arrays, o)
    return o


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_narrow_floats_round_after_every_operation(kind: str, op: str) -> None:
    """Rule 6: an operation on fp16, bf16 or fp8 gives that type again."""
    rng = np.random.default_rng(3)
    x = floats.round_to(rng.uniform(0.5, 4, 500), kind)
    y = floats.round_to(rng.uniform(0.5, 4, 500), kind)
    z = floats.round_to(rng.uniform(0.5, 4, 500), kind)

    def build(a: Expr, b: Expr, c: Expr) -> Expr:
        return Binary("mul", Binary(op, a, b), c)

    o = compute(build, [(x, kind), (y, kind), (z, kind)], kind)
    np_op = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    first = floats.round_to(np_op(x, y), kind)
    want = floats.round_to(first * z, kind)
    assert (floats.from_storage(o, kind) == want).all()


def test_half_plus_a_float_literal_is_float32() -> None:
    """Rules 6 and 7: literals widen, integers do not; fp16 with bf16 is fp16."""
    x = [1.0, 3.0]
    wide = compute(lambda a: (a + 0.0001).astype("float32"), [(x, "float16")], "float32")
    assert (wide == np.float32([1, 3]) + np.float32(0.0001)).all()
    narrow = compute(lambda a: (a + 2048).astype("float32"), [(x, "float16")], "float32")
    assert narrow.tolist() == [2048.0, 2052.0]  # ties to even in float16
    mixed = compute(lambda a, b: a * b, [([1.5], "float16"), ([3.0], "bfloat16")], "float16")
    assert mixed.tolist() == [4.5]


@pytest.mark.parametrize(
    ("op", "x", "y", "want"),
    [
        ("floordiv", [7, -7, 7, -7], [2, 2, -2, -2], [3, -4, -4, 3]),
        ("floormod", [7, -7, 7, -7], [3, 3, -3, -3], [1, 2, -2, -1]),
        ("truncdiv", [7, -7, 0, -1], [0, 0, 0, 0], [0, 0, 0, 0]),
        ("shl", [1, -1, 3, 1], [31, 1, 30, 0], [-(2**31), -2, -(2**30), 1]),
        ("mul", [65536, 3, -1, 2**30], [65536, 3, -1, 4], [0, 9, 1, 0]),
    ],
)
def test_integer_operators(op: str, x: list[int], y: list[int], want: list[int]) -> None:
    """Rule 7: // and % floor, shifts are arithmetic, results wrap."""
    o = compute(lambda a, b: Binary(op, a, b), [(x, "int32"), (y, "int32")], "int32")
    assert o.tolist() == want


@pytest.mark.parametrize(
    ("source", "target", "x", "want"),
    [
        ("float32", "int32", [2.9, -2.9, math.nan, 1e20, -1e20], [2, -2, 0, 2**31 - 1, -(2**31)]),
        ("float32", "uint8", [255.9, -1.0, 300.0, 7.5, math.inf], [255, 0, 255, 7, 255]),
        ("float32", "bool", [0.0, -0.0, 0.5, math.nan, 1], [0, 0, 1, 1, 1]),
        ("int32", "int8", [127, 128, -129, 256, 1], [127, -128, 127, 0, 1]),
        ("int32", "uint32", [-1, 0, 1, 2, 3], [2**32 - 1, 0, 1, 2, 3]),
        ("float32", "float16", [65504, 65520, 1 / 3, 1e-8, 2049], None),
        ("float32", "float8_e4m3fn", [448, 1000, -1e9, 0.3, 17], None),
        ("float64", "float32", [1 / 3, 1e40, 1, 2, 3], None),
        ("int64", "float32", [2**24 + 1, 2**62 + 1, -3, 0, 5], None),
    ],
)
def test_conversions(source: str, target: str, x: list[Any], want: list[Any] | None) -> None:
    """Stores convert as CUDA does: truncation, saturation of floats, wrapping of integers."""
    kind = DType(target)
    o = compute(lambda a: Cast(a, kind), [(x, source)], target)
    expected = floats.to_storage(np.array(x), target) if want is None else np.array(want)
    assert (o.astype(expected.dtype) == expected).all()


def test_min_and_max_ignore_nan() -> None:
    nan = math.nan
    pairs: list[tuple[Any, str]] = [([nan, 1, nan, 2], "float32"), ([3, nan, nan, 1], "float32")]
    assert compute(lambda a, b: binary("max", a, b), pairs, "float32")[:2].tolist() == [3, 1]
    o = compute(lambda a, b: binary("min", a, b), pairs, "float32")
    assert np.isnan(o[2]) and o[3] == 1
    assert np.isnan(
        compute(lambda a, b: call("fmax_nan", a, b, dtype="float32"), pairs, "float32")[:3]
    ).all()


def test_bit_functions() -> None:
    x = [0, 1, -1, 0x00F0]
    for name, want in {
        "popcount": [0, 1, 32, 4],
        "clz": [32, 31, 0, 24],
        "ffs": [0, 1, 1, 5],
    }.items():
        o = compute(lambda a, n=name: call(n, a, dtype="int32"), [(x, "int32")], "int32")
        assert o.tolist() == want, name
    o = compute(lambda a: call("fns", a, 0, 3, dtype="int32"), [(x, "int32")], "int32")
    assert o.tolist() == [-1, -1, 2, 6]


def test_powers() -> None:
    o = compute(
        lambda a, b: call("pow", a, b, dtype="int32"),
        [([3, 2, -1, 2, 7], "int32"), ([4, 31, 5, -1, 0], "int32")],
        "int32",
    )
    assert o.tolist() == [81, -(2**31), -1, 0, 1]
    o = compute(
        lambda a, b: call("pow", a, b, dtype="float32"),
        [([2.0, 9.0], "float32"), ([0.5, -1.0], "float32")],
        "float32",
    )
    np.testing.assert_allclose(o, [math.sqrt(2), 1 / 9], rtol=1e-6)


def test_directed_rounding() -> None:
    third = np.float32(1) / np.float32(3)
    for mode in ("rn", "rz", "rd", "ru"):
        o = compute(
            lambda a, b, m=mode: call("ieee_fdiv", a, b, dtype="float32", rounding=m),
            [([1.0, -1.0], "float32"), ([3.0, 3.0], "float32")],
            "float32",
        )
        exact = np.array([1, -1]) / np.longdouble(3)
        low = np.nextafter(third, np.float32(0))
        want = {"rn": [third, -third], "rz": [low, -low], "rd": [low, -third], "ru": [third, -low]}[
            mode
        ]
        assert o.tolist() == want, (mode, exact)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("float32", "int32"),
        ("bfloat16", "uint16"),
        ("float8_e4m3fn", "uint8"),
        ("int8", "uint8"),
        ("bool", "uint8"),
    ],
)
def test_reinterpret_keeps_the_bits(old: str, new: str) -> None:
    x = [0, 1, 2, 1] if old == "bool" else [0, 1, 2, 3]
    there = compute(lambda a: call("reinterpret", a, dtype=new), [(x, old)], new)
    assert (there == floats.to_storage(np.array(x), old).view(there.dtype)).all()
    back = values.reinterpret(values.decode(there, DType(new)), DType(new), DType(old))
    assert (back == floats.from_storage(floats.to_storage(np.array(x), old), old)).all()


def test_reinterpret_of_vectors_and_nibbles() -> None:
    word = values.reinterpret(
        np.array([[1, -1, 7, -8, 0, 2, 3, 4]], np.int8), DType("int4x8"), DType("uint32")
    )
    assert word.tolist() == [0x432087F1]
    pair = values.reinterpret(
        np.array([0x3C004000], np.uint32), DType("uint32"), DType("float16x2")
    )
    assert pair.tolist() == [[2.0, 1.0]]


def test_vectorization() -> None:
    with Kernel(threads=4) as k:
        a, out = k.tensor("A", (4, 4)), k.tensor("O", (4, 4))
        total = k.tensor("T", (4,))
        four = Ramp(const(0), const(1), 4)
        v = k.let(a[k.tx, four] * Broadcast(const(2.0), 4))
        out[k.tx, four] = v
        total[k.tx] = Lane(v, const(1)) + Lane(v, k.tx)
        w = Vector((a[k.tx, 0], a[k.tx, 1]))
        total[k.tx] = total[k.tx] + Lane(call("add2", w, w, dtype="float32x2"), const(1))
    a_, o, t = np.arange(16, dtype=np.float32).reshape(4, 4), zeros(4, 4), zeros(4)
    k.run(a_, o, t)
    assert (o == 2 * a_).all()
    assert (t == 2 * a_[:, 1] + 2 * np.diag(a_) + 2 * a_[:, 1]).all()


def test_buffers_of_vectors() -> None:
    with Kernel(threads=4) as k:
        a, out = k.tensor("A", (4,), "float16x2"), k.tensor("O", (4, 2), "float16")
        s = k.shared("s", (4,), "float16x2")
        k.copy(a, s)
        pair = k.let(s[k.tx])
        for lane in range(2):
            out[k.tx, lane] = Lane(call("mul2", pair, pair, dtype="float16x2"), const(lane))
    a_ = np.arange(8, dtype=np.float16).reshape(4, 2)
    o = zeros(4, 2, dtype=np.float16)
    k.run(a_, o)
    assert (o == a_ * a_).all()


def test_philox_matches_the_published_vectors() -> None:
    """Known answers of Philox4x32-10 (Salmon et al., the Random123 distribution)."""
    cases = [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ]
    for counter, key, want in cases:
        found = philox.philox(
            np.array(counter, np.uint64)[:, None], np.array(key, np.uint64)[:, None]
        )
        assert found[:, 0].tolist() == want


def test_random_numbers_are_a_stream_per_thread() -> None:
    with Kernel(threads=32) as k:
        out, u = k.tensor("O", (32, 6), "uint32"), k.tensor("U", (32, 3))
        k.do("rng_init", 42, k.tx, 1)
        for n in range(6):
            out[k.tx, n] = call("rng_rand", dtype="uint32")
        u[k.tx, 0] = call("rng_rand_float", dtype="float32")
        u[k.tx, 1] = call("rng_rand_float", dtype="float32", dist="normal")
        u[k.tx, 2] = call("rng_rand_float", dtype="float32", dist="normal")
    o, u_ = zeros(32, 6, dtype=np.uint32), zeros(32, 3)
    k.run(o, u_)

    def word(thread: int, n: int) -> int:
        counter = np.array([n // 4, 0, thread, 0], np.uint64)[:, None]
        key = np.array([42, 0], np.uint64)[:, None]
        return int(philox.philox(counter, key)[n % 4, 0])

    assert o[5].tolist() == [word(5, 1 + n) for n in range(6)]
    assert u_[5, 0] == np.float32(word(5, 7)) * np.float32(2.3283064e-10) + np.float32(
        2.3283064e-10
    ) / np.float32(2)
    assert ((u_[:, 0] > 0) & (u_[:, 0] <= 1)).all() and abs(u_[:, 1:].mean()) < 0.5


def test_every_intrinsic_has_a_meaning_here() -> None:
    """An operation of the table is computed, a barrier, a hint, or one GPU's instruction.

    A pointer without a buffer is the one thing that has no meaning here.
    """
    from tilelang.interpret.calls import HANDLERS, MEANINGS
    from tilelang.interpret.elementwise import ELEMENTWISE

    missing = [
        name
        for name, info in ROWS.items()
        if name not in ELEMENTWISE
        and name not in HANDLERS
        and info.semantics not in MEANINGS
        and not info.is_sync
        and not info.optional
        and not info.lowered
        and not info.moves
        and info.needs not in FEATURES
    ]
    assert missing == ["tvm_access_ptr"]


def test_a_literal_of_every_type_is_representable() -> None:
    for name in ("int4", "uint4", "int8", "uint64", "float16", "bfloat16", "float8_e5m2", "bool"):
        held = values.constant(1, DType(name))
        assert held == 1 and held.dtype == values.compute_dtype(DType(name))
    assert values.constant(-1, DType("int64")) == -1
    assert as_expr(2**40).dtype == "int64"
