"""Remainders of loop variables that are counted along: what is replaced, and that it is the same."""

from __future__ import annotations

import re

import pytest
from contexts import SM_80

from tilelang.cuda.dialect import emit_cuda
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import MBARRIER_WAIT
from tilelang.target.nvidia import ATOMS
from tilelang.transforms.cleanup.addressing import reduce_modulo

INT = DType("int32")


def program(
    start: int | E.Var, stop: int, ahead: tuple[int, ...], size: int, op: str = "cp_async",
    **more: object,
) -> S.PrimFunc:  # fmt: skip
    """A kernel with a loop with the remainders of its variable in copies."""
    var = E.Var("k", INT)
    there = Buffer("there", Shape((64,)), DType("float16"), "shared")
    here = Buffer("here", Shape((64,)), DType("float16"))
    stmts = []
    for distance in ahead:
        index = E.binary("floormod", E.binary("add", var, E.const(distance)), E.const(size))
        dst = E.AddressOf(there, (index,), "w")
        src = E.AddressOf(here, (E.const(0),), "r")
        stmts.append(S.Eval(value=E.call(ATOMS.get(op, op), dst, src, dtype="void", bytes=4)))
    ends = {"start": E.as_expr(start), "stop": E.const(stop), "step": E.const(1), **more}
    loop = S.For(var=var, body=S.seq(*stmts), **ends)
    body = S.seq(S.Alloc(buffer=there), loop)
    launch = S.Launch(grid=(), block_vars=(), thread_vars=(), body=body)
    return S.PrimFunc(name="f", params=(here,), body=launch)


@pytest.mark.parametrize("start", [0, 2, 5])
@pytest.mark.parametrize(("ahead", "size"), [((0, 1, 2), 3), ((0, 4), 5), ((2,), 6), ((3, 1), 7)])
def test_counters_are_the_remainders(start: int, ahead: tuple[int, ...], size: int) -> None:
    text = emit_cuda(
        reduce_modulo(program(start, start + 20, ahead, size), SM_80), SM_80.target
    ).source
    assert "%" not in text
    begin, _, step = next(line for line in text.splitlines() if "for (" in line).split(";")
    values = {name: int(value) for name, value in re.findall(r"(stage\w*) = (\d+)", begin)}
    assert len(values) == len(ahead)
    for k in range(start, start + 20):
        assert list(values.values()) == [(k + c) % size for c in sorted(ahead)]
        for name, value in re.findall(r"(stage\w*) = ([^,)]*)", step):
            chosen = re.fullmatch(r"(\w+) == (\d+) \? 0 : (\w+) \+ 1", value)
            if chosen is None:
                values[name] = values[value]
            else:
                values[name] = 0 if values[chosen[1]] == int(chosen[2]) else values[chosen[3]] + 1


def waiting(first: E.Expr, size: int, more: int = 0) -> S.PrimFunc:
    """A loop that waits for the phases of items from ``first`` on."""
    var = E.Var("k", INT)
    bars = Buffer("bars", Shape((size,)), DType("uint64"), "shared.barrier")
    number = E.binary("add", first, var)
    stage = E.binary("floormod", number, E.const(size))
    phase = E.binary("floormod", number // size + more, E.const(2))
    wait = E.call(MBARRIER_WAIT, E.AddressOf(bars, (stage,), "rw"), phase)
    loop = S.For(
        var=var, start=E.const(0), stop=E.const(20), step=E.const(1), body=S.Eval(value=wait)
    )
    launch = S.Launch(
        grid=(), block_vars=(), thread_vars=(), body=S.seq(S.Alloc(buffer=bars), loop)
    )
    return S.PrimFunc(name="f", params=(), body=launch)


@pytest.mark.parametrize(("more", "other"), [(0, ""), (1, " ^ 1"), (2, "")])
def test_phases_change_with_their_stage(more: int, other: str) -> None:
    done = reduce_modulo(waiting(E.const(4), 3, more), SM_80)
    text = emit_cuda(done, SM_80.target).source
    line = next(line.strip() for line in text.splitlines() if "for (" in line)
    assert line == (
        "for (int k = 0, stage = 1, phase = 1; k < 20; "
        "++k, stage = stage == 2 ? 0 : stage + 1, phase ^= stage == 0) {"
    )
    assert f"tl_mbarrier_wait(&bars[stage], phase{other});" in text
    stage, phase = 1, 1
    for k in range(20):
        assert (stage, phase) == ((4 + k) % 3, (4 + k) // 3 % 2)
        stage = 0 if stage == 2 else stage + 1
        phase ^= stage == 0


def test_the_iteration_that_a_loop_begins_with_is_part_of_the_counters() -> None:
    first = E.Var("first", INT)
    loop = next(
        stmt
        for stmt in S.walk(reduce_modulo(waiting(first, 5), SM_80).body)
        if isinstance(stmt, S.For)
    )
    assert str(loop).splitlines()[1:3] == [
        "    stage: T.int32 = (k + first) % 5",
        "    phase: T.int32 = (k + first) // 5 % 2",
    ]
    assert "%" not in "".join(str(loop).splitlines()[3:])
