"""Names outside of a function: a call runs what was made for the values that they have."""

from __future__ import annotations

import enum
import os
import random
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import TileValueError
from tilelang.jit.captured import Captured
from tilelang.jit.fingerprint import Fingerprint

BLOCK = 16
ADDED: Any = 1.0
SIZES: Any = {"block": 16, "shape": [4, 4]}
TABLE = list(range(1000))
OTHER = object()


@T.macro
def moved(x):  # type: ignore[no-untyped-def]  # the tracer gives them
    return x + ADDED


def factor() -> float:
    return float(SIZES["block"])


@tilelang.jit(target="cpu")
def eager(A):  # type: ignore[no-untyped-def]  # the tracer gives them
    n = T.const("n")
    A: T.Tensor[[n], T.float32]  # type: ignore[no-redef]  # a parameter gets its annotation
    B = T.empty((n,), "float32")
    with T.Kernel(T.ceildiv(n, BLOCK), threads=32) as bx:
        for i in T.Parallel(BLOCK):
            B[bx * BLOCK + i] = moved(A[bx * BLOCK + i]) * factor()
    return B


@tilelang.jit(out_idx=[-1], target="cpu")
def factory(n):  # type: ignore[no-untyped-def]  # gives a traced function
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] + ADDED

    return kernel


ZERO = np.zeros(16, np.float32)


def test_a_number_that_a_macro_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eager(ZERO)[0] == 16
    before = eager._kernels
    monkeypatch.setitem(globals(), "ADDED", 2.0)
    assert eager(ZERO)[0] == 32
    monkeypatch.setitem(globals(), "ADDED", 1.0)
    assert eager(ZERO)[0] == 16
    assert eager._kernels is before  # the first kernel is found again


def test_a_factory(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = factory(16)
    assert factory(16) is kernel
    monkeypatch.setitem(globals(), "ADDED", 7.0)
    assert factory(16) is not kernel and factory(16)(ZERO)[0] == 7


def test_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads() -> Any:  # T's names are a library's
        return BLOCK, SIZES, np.float32, T.int32, tilelang.compile

    captured = Captured(cast(FunctionType, reads))
    assert captured.values == (
        (int, 16),
        (dict, (((str, "block"), (int, 16)), ((str, "shape"), (list, ((int, 4), (int, 4)))))),
    )
    assert not captured.has_changed()
    others: tuple[Any, ...] = (True, [[]], [bytearray()], 16.0)
    for value in others:
        monkeypatch.setitem(globals(), "BLOCK", value)
        assert captured.has_changed()
        captured.read()
        assert not captured.has_changed()
    assert Captured(cast(FunctionType, lambda: None)).values == ()


@dataclass
class Config:
    block: int = 16
    inner: Any = None


class Kind(enum.Enum):
    A = 1
    B = 2


def _values(rng: random.Random, depth: int = 0) -> Any:
    """A value that a name outside may hold, and another one that is not equal to it."""
    number = rng.randrange(1, 9)
    kinds: list[Any] = [
        lambda: (number, number + 1),
        lambda: (float(number), float(number) + 0.5),
        lambda: (np.float32(number), np.float32(number + 1)),
        lambda: (np.int64(number), np.int64(number + 1)),
        lambda: (Kind.A, Kind.B),
        lambda: (np.arange(number), np.arange(number) + 1),
        lambda: (Fraction(number, 3), Fraction(number + 1, 3)),
        lambda: (tuple(range(100)), (*range(99), number + 200)),
        lambda: (partial(max, number), partial(max, number + 1)),
    ]
    if depth < 3:
        old, new = _values(rng, depth + 1) if rng.random() < 0.9 else (1, 2)
        kinds += [
            lambda: ([0, old], [0, new]),
            lambda: ({"a": old}, {"a": new}),
            lambda: (Config(4, old), Config(4, new)),
            lambda: (SimpleNamespace(x=old, y=1), SimpleNamespace(x=new, y=1)),
            lambda: ((lambda: old), (lambda: new)),
        ]
    found: tuple[Any, Any] = rng.choice(kinds)()
    return found


SHAPES = {
    "a global": "def read(): return OUTSIDE",
    "an attribute": "def read(): return HOLDER.inner",
    "an attribute of a module": "def read(): return MODULE.OUTSIDE",
    "a called function": "def helper(): return OUTSIDE\ndef read(): return helper()",
    "a variable of the enclosing function": "def around():\n  x = OUTSIDE\n"
    "  def inner(): return x\n  return inner\nread = around()",
    "a default": "def helper(x=OUTSIDE): return x\ndef read(): return helper()",
    "a class attribute": "class C: x = OUTSIDE\ndef read(): return C.x",
    "an object": "def read(): c = HOLDER; return c.inner",
    "a method": "class C:\n  def f(self): return OUTSIDE\nc = C()\ndef read(): return c.f()",
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_change_of_anything_that_is_read_is_seen(shape: str) -> None:
    """Random values, read in each way: equal ones keep the kernel, others do not."""
    for seed in range(int(os.environ.get("TILELANG_FUZZ_CAPTURED", "25"))):
        old, new = _values(random.Random(f"{shape} {seed}"))
        again, _ = _values(random.Random(f"{shape} {seed}"))
        keys = []
        for value in (old, new):
            space: dict[str, Any] = {
                "__name__": "program", "OUTSIDE": value, "HOLDER": Config(1, value),
                "MODULE": ModuleType("program_values"),
            }  # fmt: skip
            space["MODULE"].OUTSIDE = value
            exec(SHAPES[shape], space)
            captured = Captured(space["read"])
            keys.append(captured.values)
            assert not captured.has_changed()
        assert keys[0] != keys[1], f"{old!r} and {new!r} are one kernel"
        if not callable(again):
            assert Fingerprint(old, lambda _: ()).key == Fingerprint(again, lambda _: ()).key


def test_a_value_that_is_changed_in_place_is_seen() -> None:
    config = Config(4, [1, 2])
    array = np.zeros(3)

    def read() -> Any:
        return config.block, config.inner, array

    captured = Captured(cast(FunctionType, read))
    for change in (
        lambda: setattr(config, "block", 8),
        lambda: config.inner.append(3),
        lambda: array.__setitem__(1, 5.0),
    ):
        assert not captured.has_changed()
        change()
        assert captured.has_changed()
        captured.read()


def test_an_object_that_cannot_be_pickled_is_compared_by_its_attributes() -> None:
    holder = SimpleNamespace(lock=threading.Lock(), block=4)

    def read() -> Any:
        return holder

    captured = Captured(cast(FunctionType, read))
    assert not captured.has_changed()
    holder.block = 8
    assert captured.has_changed()


def test_a_value_too_large_to_be_compared_is_an_error() -> None:
    large = SimpleNamespace(block=4, parts=[[number] for number in range(250_000)])

    def read() -> Any:
        return large

    assert refusal(TileValueError, Captured, cast(FunctionType, read)) == (
        "a value from outside of the kernel is too large to be compared at every call\n"
        "  expected: at most 200000 parts\n"
        "  got: more, the last of them a list\n"
        "  hint: pass it as a tensor, or read the numbers that the kernel needs into names"
    )

    def by_name() -> Any:
        return large.block

    captured = Captured(cast(FunctionType, by_name))
    large.block = 8
    assert captured.has_changed()


class Scaled:
    """An object whose methods are kernels; a call hashes it by its identity."""

    def __init__(self, factor: float) -> None:
        self.factor, self.rows = factor, 1
        self.weights = np.zeros(3)

    def doubled(self) -> float:
        return self.factor * 2

    @tilelang.jit(out_idx=[-1], target="cpu")
    def attribute(self, n):  # type: ignore[no-untyped-def]  # gives a traced function
        @T.prim_func
        def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(n):
                    B[i] = A[i] * self.factor

        return kernel


@tilelang.jit(out_idx=[-1], target="cpu")
def in_a_tuple(configs, n):  # type: ignore[no-untyped-def]  # gives a traced function
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * configs[0].factor

    return kernel


@tilelang.jit(target="cpu")
def rows_of(A, config):  # type: ignore[no-untyped-def]  # the tracer gives them
    n = T.const("n")
    A: T.Tensor[[n], T.float32]  # type: ignore[no-redef]  # a parameter gets its annotation
    B = T.empty((n * config.rows,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n * config.rows):
            B[i] = A[i % n] * config.factor
    return B


OF_ARGUMENTS = {
    "an attribute in a method": lambda config, a: config.attribute(4)(a),
    "in a tuple": lambda config, a: in_a_tuple((config,), 4)(a),
    "a function that reads it": lambda config, a: applied(config.doubled, 4)(a) / 2,
    "eager": lambda config, a: rows_of(a, config),
    "eager, by name": lambda config, a: rows_of(a, config=config),
}


@tilelang.jit(out_idx=[-1], target="cpu")
def applied(get, n):  # type: ignore[no-untyped-def]  # gives a traced function
    factor = get()

    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor

    return kernel


@pytest.mark.parametrize("form", OF_ARGUMENTS)
def test_an_argument_that_changed_in_place_is_another_value(form: str) -> None:
    call, a, first, second = (
        OF_ARGUMENTS[form],
        np.arange(4, dtype=np.float32),
        *map(Scaled, (2, 3)),
    )
    np.testing.assert_array_equal(call(first, a), 2 * a)
    np.testing.assert_array_equal(call(second, a), 3 * a)
    first.factor = 5
    np.testing.assert_array_equal(call(first, a), 5 * a)
    np.testing.assert_array_equal(call(second, a), 3 * a)
    if form.startswith("eager"):
        first.rows = 2
        np.testing.assert_array_equal(call(first, a), 5 * np.tile(a, 2))
        first.rows = 1
        np.testing.assert_array_equal(call(first, a), 5 * a)


def test_arrays_of_an_argument_are_no_part_of_a_kernel() -> None:
    config = Scaled(2)
    kernel = config.attribute(4)
    config.weights[:] = 1
    assert config.attribute(4) is kernel
