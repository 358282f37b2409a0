"""Which parts of addresses stand apart as constants of the instruction."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import SM_80

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.indices import displaced, parted
from tilelang.ir.intervals import Interval
from tilelang.layout.evaluate import evaluate
from tilelang.target.nvidia import ATOMS
from tilelang.transforms.cleanup.addressing import split_addresses

INT, HALF = DType("int32"), DType("float16")
N = E.Var("n", INT)
HERE = Buffer("here", Shape((64, 64)), HALF)
WIDE = Buffer("wide", Shape((64, N)), HALF)
THERE = Buffer("there", Shape((4096,)), HALF, "shared")
BITS = Buffer("bits", Shape((4096,)), DType("float4_e2m1fn"), "shared")
FLAGS = Buffer("flags", Shape((64,)), INT)
I, J, T = (E.Var(name, INT) for name in "ijt")


def loop(var: E.Var, body: S.Stmt, kind: str = "unroll", **notes: object) -> S.For:
    ends = {"start": E.const(0), "stop": E.const(8), "step": E.const(1)}
    return S.For(var=var, body=body, kind=kind, hints=LoopHints(**notes), **ends)


def split(place: E.AddressOf, kind: str = "unroll", row: str = "cp_async", **notes: object):
    """``place`` in an unrolled loop over i, in a plain one over j, in a kernel of threads t."""
    copy = S.Eval(value=E.call(ATOMS[row], place, place, dtype="void", bytes=4))
    nest = loop(J, loop(I, copy, kind, **notes), "serial")
    launch = S.Launch(grid=(), block_vars=(), thread_vars=(T,), threads=(128,), body=nest)
    func = S.PrimFunc(name="f", params=(HERE, WIDE, FLAGS), body=launch)
    found = split_addresses(func, SM_80)
    assert split_addresses(found, SM_80).script() == found.script()
    (call,) = (stmt.value for stmt in S.walk(found.body) if isinstance(stmt, S.Eval))
    assert isinstance(call, E.Call) and call.args[0] is call.args[1]
    assert (found is func) is (call.args[0] is place)
    made = call.args[0]
    assert isinstance(made, E.AddressOf) and made.buffer is place.buffer
    return [tuple(str(part) for part in parted(index)) for index in made.indices]


def at(buffer: Buffer, *indices: object) -> E.AddressOf:
    return E.AddressOf(buffer, tuple(E.as_expr(index) for index in indices), "r")


def test_an_unrolled_loop_adds_constants_to_a_shared_address() -> None:
    assert split(at(THERE, T * 8 + I * 64)) == [("t * 8", "i * 64")]
    assert split(at(THERE, T * 8 + I * 64 + 3)) == [("t * 8", "i * 64 + 3")]
    assert split(at(THERE, T * 8 + 3)) == [("t * 8", "3")]


def test_what_loops_or_threads_change_stays() -> None:
    assert split(at(THERE, T * 8 + J * 64)) == [("t * 8 + j * 64", "None")]
    assert split(at(THERE, T * 8 + (I ^ T))) == [("t * 8 + (i ^ t)", "None")]


def test_a_constant_address_needs_no_register() -> None:
    assert split(at(THERE, 5)) == [("5", "None")]


def test_terms_of_an_index_of_a_tensor() -> None:
    found = split(at(HERE, I * 8 + T + 2, T + I))
    assert found == [("t + 2", "i * 8"), ("t", "i")]
    assert split(at(HERE, I + 2, I + T)) == [("2", "i"), ("t", "i")]
    assert split(at(HERE, I, T)) == [("0", "i"), ("t", "None")]


def test_a_stride_that_is_no_constant() -> None:
    assert split(at(WIDE, I + T, I + T)) == [("i + t", "None"), ("t", "i")]


def test_values_are_not_split() -> None:
    """Their sums wrap, those of an address and a constant do not."""
    loaded = E.Load(FLAGS, (T,))
    assert split(at(HERE, loaded + I, T)) == [("flags[t] + i", "None"), ("t", "None")]


@pytest.mark.parametrize("kind, notes", [("serial", {}), ("unroll", {"unroll_factor": 2})])
def test_loops_that_are_not_copied_out(kind: str, notes: dict[str, object]) -> None:
    assert split(at(THERE, T * 8 + I * 64), kind, **notes) == [("t * 8 + i * 64", "None")]


def test_two_elements_of_a_byte_have_one_address() -> None:
    assert split(at(BITS, T * 8 + I * 64)) == [("t * 8 + i * 64", "None")]


def test_instructions_without_that_addressing_mode() -> None:
    assert not ATOMS["ptx_ldmatrix"].displaces and not ATOMS["mma"].displaces
    assert all(ATOMS[name].displaces for name in ("ldmatrix", "stmatrix", "cp_async"))


def test_a_displaced_index_is_the_sum() -> None:
    index = displaced(T * 8, I * 64)
    known = Bounds({T: Interval(0, 3), I: Interval(0, 7)})
    assert interval(index, known) == interval(T * 8 + I * 64, known)
    values = {T: np.arange(4)[:, None], I: np.arange(8)}
    assert (evaluate(index, values) == evaluate(T * 8 + I * 64, values)).all()
