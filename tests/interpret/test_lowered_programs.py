"""The instructions that lowering makes: what they move, when, and what they refuse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from thread_programs import TX, buffer, launch, store

from tilelang import interpret
from tilelang.errors import (
    OutOfBoundsError,
    TileRuntimeError,
    TileUnsupportedError,
    UninitializedReadError,
)
from tilelang.interpret.calls import HANDLERS, MEANINGS
from tilelang.interpret.matrices import register_layout
from tilelang.interpret.observe import Access, Observer
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.target.instruction_table import ROWS


def ev(op: str, *args: Any, **attrs: Any) -> S.Stmt:
    return S.Eval(value=E.call(ROWS[op], *args, dtype="void", **attrs))


def at(base: Buffer, *index: Any) -> E.Expr:
    return E.AddressOf(base, tuple(E.as_expr(i) for i in index))


def simulate(launch: S.Stmt, arrays: dict[Buffer, Any], observer: Observer | None = None) -> None:
    func = S.PrimFunc("kernel", tuple(arrays), launch)
    interpret.run(func, tuple(arrays.values()), safe_memory=False, observer=observer)


SHARED = buffer("s", (64,), "int32", "shared")
OUT = buffer("o", (64,), "int32")


# -- rows --
def test_every_row_that_lowering_makes_has_a_meaning() -> None:
    made = {name for name, row in ROWS.items() if row.lowered}
    assert made
    # A row that gives its operand is arithmetic.
    without = {n for n in made if not (ROWS[n].semantics or ROWS[n].identity)}
    assert without == {"bulk_copy_cluster"}  # into another block, which runs before or after
    meant = {row.semantics for row in ROWS.values() if row.effect is not Effect.HINT} - {""}
    assert meant - {"keep registers"} == set(MEANINGS)  # a fence, which the interpreter has not
    assert not {name for name, row in ROWS.items() if row.semantics and name in HANDLERS}


def test_a_row_without_a_meaning_is_a_clear_error() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        simulate(launch(ev("ptx_mma")), {OUT: np.zeros(64, np.int32)})
    assert str(error.value) == (
        "T.ptx_mma needs sm_75\n"
        "  expected: an operation that is defined without GPU hardware\n"
        "  got: T.ptx_mma in the interpreter\n"
        "  hint: compile the kernel for a target that has it"
    )


# -- what they do --
def test_vector_copies_move_aligned_bytes() -> None:
    src, regs = buffer("x", (512,), "float16"), buffer("r", (8,), "float16", "local")
    dst = buffer("y", (512,), "float16")

    def body(shift: int) -> S.Launch:
        return launch(
            S.Alloc(buffer=regs),
            ev("vector_copy", at(regs, 0), at(src, TX * 8 + shift), bytes=16),
            ev("vector_copy", at(dst, TX * 8), at(regs, 0), bytes=16),
        )

    x, y = np.arange(512).astype(np.float16), np.zeros(512, np.float16)
    simulate(body(0), {src: x, dst: y})
    assert (x == y).all()
    assert refusal(TileRuntimeError, simulate, body(4), {src: x, dst: y}) == (
        "an instruction of 16 bytes addresses byte 8 of `x`, which is not a multiple of 16\n"
        "  expected: an address that is aligned to 16 bytes\n"
        "  got: byte 8 in block (0, 0, 0), thread 0"
    )
    assert refusal(OutOfBoundsError, simulate, body(8), {src: x, dst: y}) == (
        "an instruction accesses memory outside `x`\n"
        "  expected: bytes 0..1024\n"
        "  got: 16 bytes from 1024 in block (0, 0, 0), thread 63"
    )


def test_vector_copies_read_what_is_written() -> None:
    regs, dst = buffer("r", (8,), "float16", "local"), buffer("y", (512,), "float16")
    body = launch(S.Alloc(buffer=regs), ev("vector_copy", at(dst, TX * 8), at(regs, 0), bytes=16))
    assert refusal(UninitializedReadError, simulate, body, {dst: np.zeros(512, np.float16)}) == (
        "bytes of `r` are read before anything is written to them\n"
        "  expected: initialised memory in the local buffer `r`\n"
        "  got: 16 bytes from 0 in block (0, 0, 0), thread 0\n"
        "  hint: initialise the buffer first, e.g. with T.clear or T.fill"
    )


def test_vector_copies_do_not_start_inside_a_byte() -> None:
    src, dst = buffer("x", (256,), "int4"), buffer("y", (128,), "int8")
    body = launch(ev("vector_copy", at(dst, TX), at(src, TX * 2 + 1), bytes=1))
    with pytest.raises(TileRuntimeError) as error:
        simulate(body, {src: np.zeros(128, np.uint8), dst: np.zeros(128, np.int8)})
    assert str(error.value) == (
        "an address in `x` is inside a byte\n"
        "  expected: an even element of a buffer of 4-bit elements\n"
        "  got: an odd element in block (0, 0, 0)"
    )


def test_asynchronous_copies_arrive_when_waited_for() -> None:
    src, out = buffer("x", (64,), "int32"), np.zeros(64, np.int32)

    def body(*wait: S.Stmt) -> S.Launch:
        return launch(
            S.Alloc(buffer=SHARED),
            ev("cp_async", at(SHARED, TX), at(src, TX), TX < 60, bytes=4),
            ev("cp_async_commit"),
            *wait,
            store(OUT, TX, E.Load(SHARED, (TX,))),
        )

    x = np.arange(64, dtype=np.int32)
    simulate(body(ev("cp_async_wait", count=0)), {src: x, OUT: out})
    assert out.tolist() == [t if t < 60 else 0 for t in range(64)]
    with pytest.raises(Exception, match="read before anything is written"):
        simulate(body(ev("cp_async_wait", count=1)), {src: x, OUT: out})


def test_a_barrier_that_counts_copies_gets_them() -> None:
    src, out = buffer("x", (64,), "int32"), np.zeros(64, np.int32)
    bar = Buffer(
        "bar",
        Shape((1,)),
        DType("uint64"),
        "shared.barrier",
        attrs=BufferHints(arrive_counts=(64,)),
    )
    body = launch(
        S.Alloc(buffer=SHARED),
        S.Alloc(buffer=bar),
        ev("cp_async", at(SHARED, TX), at(src, TX), bytes=4),
        ev("cp_async_barrier_noinc", at(bar, 0)),
        ev("mbarrier_wait", at(bar, 0), 0),
        store(OUT, TX, E.Load(SHARED, (63 - TX,))),
    )
    simulate(body, {src: np.arange(64, dtype=np.int32), OUT: out})
    assert out.tolist() == list(range(63, -1, -1))


def test_a_part_of_a_warp_executes_no_instruction_of_matrices() -> None:
    shared, regs = buffer("s", (256,), "float16", "shared"), buffer("r", (8,), "float16", "local")
    load = ev("ldmatrix", at(regs, 0), at(shared, 0), count=4, trans=False)
    body = launch(S.Alloc(buffer=shared), S.Alloc(buffer=regs), S.If(cond=TX < 8, then=load))
    assert refusal(TileRuntimeError, simulate, body, {OUT: np.zeros(64, np.int32)}) == (
        "an instruction of a warp is executed by a part of it\n"
        "  expected: T.ldmatrix by all 32 threads of each warp\n"
        "  got: 8 threads in 1 warps in block (0, 0, 0)"
    )


def test_a_shape_that_no_figure_shows_is_refused() -> None:
    assert refusal(TileUnsupportedError, register_layout, "m16n8k16", 64) == (
        "no instruction multiplies m16n8k16 of 64 bits\n"
        "  expected: a shape of the PTX manual\n"
        "  got: m16n8k16"
    )


# -- observers --
class Diary(Observer):
    """Everything that is told, as text."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def access(self, block: Any, access: Access) -> None:
        verb = "writes" if access.write else "reads"
        lost = " lost" if access.lost else ""
        offsets = access.offsets.tolist()
        self.lines.append(f"{access.threads.size} {verb} {access.name} {offsets[0][0]}{lost}")

    def arrive(self, block: Any, barrier: Any, threads: Any) -> None:
        self.lines.append(f"{threads.size} arrive")

    def leave(self, block: Any, barrier: Any, threads: Any) -> None:
        self.lines.append(f"{threads.size} leave")

    def warp_barrier(self, block: Any, threads: Any) -> None:
        self.lines.append(f"{threads.size} meet")

    def begin(self, block: Any, copy: Any) -> None:
        self.lines.append("begin")

    def end(self, block: Any, copy: Any) -> None:
        self.lines.append("end")


def test_an_observer_sees_accesses_barriers_and_copies() -> None:
    src, diary = buffer("x", (64,), "int32"), Diary()
    body = launch(
        S.Alloc(buffer=SHARED),
        ev("cp_async", at(SHARED, TX), at(src, TX), bytes=4),
        ev("cp_async_commit"),
        ev("cp_async_wait", count=0),
        ev("sync_threads"),
        store(OUT, TX, E.Load(SHARED, (63 - TX,))),
        ev("sync_warp"),
        store(SHARED, 5, TX),
    )
    simulate(body, {src: np.arange(64, dtype=np.int32), OUT: np.zeros(64, np.int32)}, diary)
    assert diary.lines == [
        "64 writes s 0", "begin", "64 writes s 0", "end", "64 arrive", "64 leave",
        "64 reads s 252", "64 meet", "64 writes s 20 lost",
    ]  # fmt: skip


# -- asynchronous copies of tiles --
def staged(*wait: S.Stmt) -> S.PrimFunc:
    """Copies ``x`` through shared memory, in two copies that are committed one after the other."""
    src = buffer("x", (64,), "int32")
    parts: list[S.Stmt] = [
        S.Copy(
            src=Region(src, (E.const(32 * k),), (32,)),
            dst=Region(SHARED, (E.const(32 * k),), (32,)),
            mode="async",
        )
        for k in range(2)
    ]
    body = launch(S.Alloc(buffer=SHARED), *parts, *wait, store(OUT, TX, E.Load(SHARED, (TX,))))
    return S.PrimFunc("kernel", (src, OUT), body)


def test_late_copies_have_arrived_after_their_wait() -> None:
    x, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    interpret.run(staged(), (x, out))
    assert (out == x).all()  # synchronous
    out[:] = 0
    interpret.run(staged(ev("ptx_wait_group", 0)), (x, out), late_copies=True)
    assert (out == x).all()


@pytest.mark.parametrize(("left", "first"), [(2, 0), (1, 32)])
def test_late_copies_are_not_there_before(left: int, first: int) -> None:
    out, diary = np.zeros(64, np.int32), Diary()
    func = staged(ev("ptx_wait_group", left))
    with pytest.raises(UninitializedReadError) as error:
        interpret.run(func, (np.arange(64, dtype=np.int32), out), late_copies=True, observer=diary)
    assert str(error.value) == (
        f"`s[{first}]` is read before anything is written to it\n"
        "  expected: initialised memory in the shared buffer `s`\n"
        f"  got: uninitialised s[{first}] in block (0, 0, 0), thread {first}\n"
        "  hint: initialise the buffer first, e.g. with T.clear or T.fill"
    )
    assert diary.lines == ["begin", "begin"] + ["end"] * (2 - left)


def test_a_late_copy_waits_for_the_last_of_its_threads() -> None:
    arrays = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    first, second = (
        S.If(cond=cond, then=ev("ptx_wait_group", 0)) for cond in (TX < 32, TX >= E.const(32))
    )
    with pytest.raises(UninitializedReadError, match=re.escape("`s[0]` is read before")):
        interpret.run(staged(first), arrays, late_copies=True)
    interpret.run(staged(first, second), arrays, late_copies=True)
    assert (arrays[0] == arrays[1]).all()


def test_products_of_float32_use_19_bits_of_each_number() -> None:
    out = buffer("o", (32, 4), "float32")
    regs = [buffer(name, (count,), "float32", "local") for name, count in zip("abc", (2, 1, 4))]
    a, b, c = regs
    kinds = {"a": "tfloat32", "b": "tfloat32", "c": "float32"}
    body = launch(
        *(S.Alloc(buffer=item) for item in regs),
        *(store(a, k, E.const(1 + 2.0**-11, "float32")) for k in range(2)),
        store(b, 0, E.const(1 + 2.0**-10, "float32")),
        *(store(c, k, E.const(0.0, "float32")) for k in range(4)),
        ev("mma", at(c, 0), at(a, 0), at(b, 0), shape="m16n8k4", **kinds),
        ev("vector_copy", at(out, TX, 0), at(c, 0), bytes=16),
        threads=32,
    )
    found = np.zeros((32, 4), np.float32)
    simulate(body, {out: found})
    assert (found == 4 * (1 + 2.0**-10)).all()
