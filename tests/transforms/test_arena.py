"""Places of shared buffers: aligned, apart while both are in use, shared when they never are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import SM_80, SM_90
from hypothesis import given, settings, strategies as st
from refusals import refusal

from tilelang.errors import SharedMemoryLimitError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import BARRIER, Operand, mbarrier
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.legal import check
from tilelang.layout.layout import Layout
from tilelang.target.nvidia import ATOMS, lowered
from tilelang.transforms.memory.arena import plan_shared
from tilelang.transforms.memory.liveness import find_live_ranges

INT32 = DType("int32")
FILL = lowered(
    "fill_tile", 2, 2, "sm_90", Operand("destination", "shared", "w"), BARRIER,
    completes=mbarrier(),
)  # fmt: skip
ZERO, ONE = E.const(0), E.const(1)


class Program:
    """Thread IR built by hand."""

    def __init__(self) -> None:
        self.names = tuple(E.Var(name, INT32) for name in "tx ty tz bx by bz".split())
        self.n = E.Var("n", INT32)
        self.out = Buffer("out", Shape((8,)), INT32)

    def tile(self, name: str, *shape: int, dtype: str = "float32", **attrs: Any) -> Buffer:
        scope = attrs.pop("scope", "shared.dyn")
        return Buffer(name, Shape(shape), DType(dtype), scope, attrs=BufferHints(**attrs))

    def alloc(self, *buffers: Buffer) -> S.Stmt:
        return S.seq(*(S.Alloc(buffer=buffer) for buffer in buffers))

    def use(self, buffer: Buffer) -> S.Stmt:
        where = (ZERO,) * buffer.ndim
        value = E.Load(buffer, where)
        return S.Store(buffer=buffer, indices=where, value=value)

    def sync(self, *args: int) -> S.Stmt:
        return S.Eval(value=E.call("sync_threads", *args))

    def loop(self, *body: S.Stmt) -> S.Stmt:
        var = E.Var("k", INT32)
        return S.For(var=var, start=ZERO, stop=self.n, step=ONE, body=S.seq(*body))

    def when(self, *body: S.Stmt, orelse: S.Stmt | None = None) -> S.Stmt:
        return S.If(cond=E.as_expr(self.n > 1), then=S.seq(*body), orelse=orelse)

    def func(self, *body: S.Stmt) -> S.PrimFunc:
        launch = S.Launch(
            grid=(ONE, ONE, ONE),
            block_vars=self.names[3:],
            thread_vars=self.names[:3],
            threads=(128, 1, 1),
            body=S.seq(*body),
        )
        return S.PrimFunc("kernel", (self.out, self.n), launch)


P = Program()


def launch_of(func: S.PrimFunc) -> S.Launch:
    return next(node for node in S.walk(func.body) if isinstance(node, S.Launch))


def planned(*body: S.Stmt, reuse: bool = True) -> tuple[dict[str, int], int]:
    """Offset by name, and the total; every use names the buffer that was placed."""
    func = plan_shared(P.func(*body), SM_80, reuse)
    check(func, "thread")
    found: dict[str, int] = {}
    for node in S.walk(func.body):
        for buffer in node.parts("buffer"):
            place = buffer.attrs.arena_offset
            assert found.setdefault(buffer.name, place) == place
        for expr in node.exprs():
            for part in E.walk(expr):
                if isinstance(part, E.Load):
                    assert found[part.buffer.name] == part.buffer.attrs.arena_offset
    return found, launch_of(func).hints.shared_bytes


def tiles(count: int = 2) -> list[Buffer]:
    return [P.tile(name, 32, 8) for name in "abcdef"[:count]]  # 1024 bytes each


def copied(tile: Buffer) -> S.Stmt:
    """An asynchronous copy to ``tile``."""
    places = E.AddressOf(tile, (ZERO, ZERO), "w"), E.AddressOf(P.out, (ZERO,), "r")
    return S.Eval(value=E.call(ATOMS["cp_async"], *places, bytes=16))


WAIT = S.Eval(value=E.call(ATOMS["cp_async_wait"], count=0))
WARP = S.Eval(value=E.call("sync_warp"))
# What is done with two tiles, and whether the second one has the memory of the first one.
USES: dict[str, tuple[Callable[[Buffer, Buffer], tuple[S.Stmt, ...]], bool]] = {
    "a barrier": (lambda a, b: (P.use(a), P.sync(), P.use(b)), True),
    "used again": (lambda a, b: (P.use(a), P.sync(), P.use(b), P.sync(), P.use(a)), False),
    "no barrier": (lambda a, b: (P.use(a), P.use(b)), False),
    "a barrier of some threads": (lambda a, b: (P.use(a), P.sync(1, 64), P.use(b)), False),
    "perhaps a barrier": (lambda a, b: (P.use(a), P.when(P.sync()), P.use(b)), False),
    "a barrier in a loop": (lambda a, b: (P.use(a), P.loop(P.sync()), P.use(b)), False),
    "a barrier of a warp": (lambda a, b: (P.use(a), WARP, P.use(b)), False),
    "two sides of a branch": (lambda a, b: (P.when(P.use(a), P.sync(), orelse=P.use(b)),), True),
    "the condition of a loop": (lambda a, b: (
        S.While(cond=E.as_expr(E.Load(a, (ZERO, ZERO)) > 0),
                body=S.seq(P.sync(), P.use(b), P.sync())),), False),
    "a copy in flight": (lambda a, b: (copied(a), P.sync(), P.use(b), WAIT), False),
    "a copy that has arrived": (lambda a, b: (copied(a), WAIT, P.sync(), P.use(b)), True),
    "another name": (lambda a, b: (
        S.Let(var=E.Var("p", DType("handle")), value=E.AddressOf(a, (ZERO, ZERO))),
        P.use(a), P.sync(), P.use(b)), False),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_a_tile_reuses_the_memory_of_one_that_all_threads_have_left(name: str) -> None:
    (a, b), (uses, is_shared) = tiles(), USES[name]
    apart = {"a": 0, "b": 1024}, 2048
    assert planned(P.alloc(a, b), *uses(a, b)) == (({"a": 0, "b": 0}, 1024) if is_shared else apart)
    assert planned(P.alloc(a, b), *uses(a, b), reuse=False) == apart


@pytest.mark.parametrize("is_shared", [False, True])
def test_tiles_of_a_loop_live_through_all_of_it(is_shared: bool) -> None:
    """Unless they are allocated there, and a barrier ends each iteration."""
    a, b, c = tiles(3)
    both = P.use(a), P.sync(), P.use(b)
    loop = P.loop(P.alloc(a, b), *both, P.sync()) if is_shared else P.loop(*both, P.sync())
    alloc = P.alloc(c) if is_shared else P.alloc(a, b, c)
    places, total = planned(alloc, loop, P.sync(), P.use(c))
    assert (places["c"], total) == (0, 1024 if is_shared else 2048)
    assert (places["a"] == places["b"]) == is_shared
    a, b = tiles()
    assert planned(P.loop(P.alloc(a, b), P.use(a), P.sync(), P.use(b)))[1] == 2048


def test_views_follow_their_storage() -> None:
    a, b = tiles()
    view = Buffer("view", Shape((256,)), DType("float32"), a.storage, data=a.data)
    body = P.alloc(b, a), S.View(buffer=view), P.use(b), P.use(view), P.sync(), P.use(b)
    places, _ = planned(*body)
    assert places["view"] == places["a"] != places["b"]


def test_alignment_and_order() -> None:
    small = P.tile("small", 1)
    bar = P.tile("bar", 2, dtype="uint64", scope="shared.barrier")
    row = P.tile("row", 9)
    swizzle = P.tile("swizzle", 2, 8, 32, layout=Layout((8, 32), lambda i, j: i * 32 + (j ^ i)))
    padded = P.tile("padded", 8, 32, layout=Layout((8, 32), lambda i, j: i * 40 + j))
    own = P.tile("own", 100, align=256)
    nibbles = P.tile("nibbles", 3, dtype="int4")
    buffers = (small, bar, row, swizzle, padded, own, nibbles)
    uses = [P.use(buffer) for buffer in buffers]
    places, total = planned(P.alloc(*buffers), *uses, *uses)
    assert places == {
        "swizzle": 0, "padded": 2048, "small": 3296, "nibbles": 3312, "own": 3328, "row": 3728,
        "bar": 3776,
    }  # fmt: skip
    assert total == 3792


def test_barriers_that_a_plan_needs_are_added_and_no_others() -> None:
    a, b, c = P.tile("a", 1, 256, 128), P.tile("b", 1, 64, 128), P.tile("c", 1, 64, 128)
    body = [P.alloc(a, b, c), P.use(a), P.use(b), P.use(c), P.use(b)]
    made = plan_shared(P.func(*body), SM_80)
    assert launch_of(made).hints.shared_bytes <= SM_80.limits.shared_block
    lines = [line.strip() for line in made.script().splitlines()]
    meets = [k for k, line in enumerate(lines) if line == "T.sync_threads()"]
    assert len(meets) == 1
    assert lines[meets[0] - 1].startswith("b[") and lines[meets[0] + 1].startswith("c[")


def test_too_much_is_an_error_that_adds_up() -> None:
    a = P.tile("a", 4, 128, 128, dtype="float16")
    b = P.tile("b", 4, 64, 128, dtype="float16")
    assert refusal(TileUnsupportedError, planned, P.alloc(a, b), P.use(a), P.use(b), P.use(a)) == (
        "the kernel needs 196608 bytes of shared memory, 29696 more than a block of "
        "cuda -arch=sm_80 can have\n"
        "  expected: at most 166912 bytes\n"
        "  got: a (4, 128, 128) float16: 131072 bytes at 0; b (4, 64, 128) float16: 65536 bytes "
        "at 131072; total 196608 bytes\n"
        "  hint: use fewer stages (num_stages of T.Pipelined) or smaller tiles"
    )


def test_sizes_must_be_constants() -> None:
    a = Buffer("a", Shape((P.n, 4)), DType("float32"), "shared.dyn")
    assert refusal(TileUnsupportedError, plan_shared, P.func(P.alloc(a)), SM_80) == (
        "the size of the shared buffer `a` is not a constant\n"
        "  expected: extents known when the kernel is compiled\n"
        "  got: a: (n, 4) float32\n"
        "  hint: allocate the largest tile and use a part of it"
    )


# -- branches of whole warps --
def warps(*body: S.Stmt, orelse: S.Stmt | None = None) -> S.Stmt:
    """``body`` by the first 64 threads."""
    return S.If(cond=P.names[0] < 64, then=S.seq(*body), orelse=orelse)


def filled(tile: Buffer, bank: Buffer) -> S.Stmt:
    """A TMA fills ``tile`` and counts its bytes on ``bank``."""
    call = E.call(
        FILL, E.AddressOf(tile, (ZERO,) * tile.ndim, "w"),
        E.AddressOf(bank, (ZERO,), "rw"), dtype="void",
    )  # fmt: skip
    return S.Eval(value=call)


def bank(**attrs: Any) -> Buffer:
    return P.tile("bank", 1, dtype="uint64", scope="shared.barrier", **attrs)


def shares(*body: S.Stmt) -> bool:
    """Whether the tiles a and b have one place."""
    places, _ = planned(*body)
    return places["a"] == places["b"]


def test_threads_of_a_branch_share_private_tiles_under_their_barrier() -> None:
    a, b = tiles()
    alloc, own = P.alloc(a, b), (P.use(a), P.sync(1, 64), P.use(b))
    assert shares(alloc, warps(*own))
    assert shares(warps(P.loop(alloc, *own, P.sync(1, 64))))
    assert not shares(warps(P.loop(alloc, *own)))
    assert not shares(alloc, warps(P.use(a), P.sync(1, 32), P.use(b)))
    assert not shares(alloc, warps(P.use(a), P.use(b)), P.sync(1, 64))
    assert not shares(alloc, warps(*own), P.use(a))
    assert not shares(alloc, warps(P.use(a), P.sync(1, 64), orelse=P.use(b)))
    assert not shares(alloc, P.when(*own))


def test_tiles_that_another_branch_fills_belong_to_the_one_that_uses_them() -> None:
    a, b = tiles()
    full = bank(is_generated=True)
    alloc, used = P.alloc(a, b, full), (P.use(a), P.sync(1, 64), P.use(b))
    assert shares(alloc, warps(*used, orelse=filled(a, full)))
    assert not shares(alloc, warps(*used, orelse=S.seq(filled(a, full), P.use(a))))
    assert not shares(alloc, warps(*used, orelse=filled(b, full)))
    again = warps(*used, P.sync(1, 64), orelse=filled(a, full)), P.sync()
    assert not shares(P.loop(alloc, *again))
    assert shares(P.loop(alloc, warps(*used, P.sync(1, 64)), P.sync()))
    own = bank()
    assert not shares(P.alloc(a, b, own), warps(*used, orelse=filled(a, own)))


def test_what_a_thread_itself_fills_is_in_use_from_there_on() -> None:
    a, b = tiles()
    full = bank(is_generated=True)
    alloc = P.alloc(a, b, full)
    assert shares(alloc, filled(a, full), P.use(a), P.sync(), P.use(b))
    assert not shares(alloc, filled(a, full), P.sync(), P.use(b), P.sync(), P.use(a))
    assert not shares(alloc, P.use(b), P.sync(), filled(a, full), P.use(a))
    assert not shares(alloc, P.loop(filled(a, full)), P.use(b))


def test_barriers_of_a_branch_are_added_where_it_has_one() -> None:
    a, b, c = P.tile("a", 1, 256, 128), P.tile("b", 1, 64, 128), P.tile("c", 1, 64, 128)
    body = [P.alloc(a, b, c), warps(P.use(a), P.use(b), P.sync(3, 64), P.use(b), P.use(c))]
    made = plan_shared(P.func(*body), SM_80)
    assert launch_of(made).hints.shared_bytes <= SM_80.limits.shared_block
    assert made.script().count("T.sync_threads(3, 64)") == 1
    inner = S.seq(P.use(a), warps(P.use(b), P.sync(3, 64), P.use(b), P.use(c)))
    nested = S.If(cond=P.names[0] >= 64, then=P.use(a), orelse=inner)
    text = plan_shared(P.func(P.alloc(a, b, c), P.sync(), nested), SM_80).script()
    assert text.count("T.sync_threads(3, 64)") == 2
    more = [P.alloc(a, b, c), warps(P.use(a), P.use(b), P.use(c), P.use(b), P.sync(3, 64))]
    assert plan_shared(P.func(*more), SM_80).script().count("T.sync_threads(3, 64)") == 2
    with pytest.raises(SharedMemoryLimitError):
        plan_shared(P.func(P.alloc(a, b, c), warps(P.use(a), P.use(b), P.use(c), P.use(b))), SM_80)


def test_barriers_after_tma_tiles_are_added_if_occupancy_grows() -> None:
    a, b, full = P.tile("a", 256, 64), P.tile("b", 256, 64), bank(is_generated=True)
    body = [P.alloc(a, b, full), filled(a, full), P.use(a), P.use(b)]
    made = plan_shared(P.func(*body), SM_90)
    assert made.script().count("T.sync_threads()") == 1
    assert launch_of(made).hints.shared_bytes == 65536 + 16
    plain = plan_shared(P.func(P.alloc(a, b), P.use(a), P.use(b)), SM_90)
    assert "T.sync_threads()" not in plain.script()
    c, d = tiles()
    few = plan_shared(P.func(P.alloc(c, d, full), filled(c, full), P.use(c), P.use(d)), SM_90)
    assert "T.sync_threads()" not in few.script()


# -- random programs: places against traces --
def _bodies() -> st.SearchStrategy[list[Any]]:
    simple = st.one_of(st.tuples(st.just("use"), st.integers(0, 3)), st.just(("sync", 0)))

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        block = st.lists(inner, min_size=1, max_size=5)
        return st.tuples(st.sampled_from(("loop", "when")), block)

    return st.lists(st.recursive(simple, nested, max_leaves=10), min_size=1, max_size=8)


def _made(items: list[Any], buffers: list[Buffer]) -> S.Stmt:
    stmts = [
        P.use(buffers[item[1]])
        if item[0] == "use"
        else P.sync()
        if item[0] == "sync"
        else (P.loop if item[0] == "loop" else P.when)(_made(item[1], buffers))
        for item in items
    ]
    return S.seq(*stmts)


def _traces(items: list[Any]) -> list[list[Any]]:
    """Event lists of some executions: each branch taken or not, loops zero to two times."""
    found: list[list[Any]] = [[]]
    for item in items:
        if item[0] in ("use", "sync"):
            found = [[*trace, item] for trace in found]
            continue
        inner = _traces(item[1])
        once = [[*trace, *more] for trace in found for more in inner[:3]]
        twice = [[*t, *more, *inner[0]] for t in found for more in inner[:2]]
        found = [*found, *once, *(twice if item[0] == "loop" else [])][:40]
    return found


@settings(max_examples=80, deadline=None)
@given(_bodies())
def test_live_tiles_never_overlap(items: list[Any]) -> None:
    buffers = tiles(4)
    func = P.func(P.alloc(*buffers), _made(items, buffers))
    table = find_live_ranges(launch_of(func), 32)
    can_overlap = {
        (x.buffer.name, y.buffer.name): table.can_overlap(x, y)
        for x in table.ranges
        for y in table.ranges
        if x is not y
    }
    for trace in _traces(items):
        epoch = 0
        used: list[tuple[str, int]] = []
        for kind, which in trace:
            epoch += kind == "sync"
            if kind == "use":
                used.append((buffers[which].name, epoch))
        for first, a in enumerate(used):
            for second, b in enumerate(used[first + 1 :], first + 1):
                if a[0] != b[0] and can_overlap[a[0], b[0]]:
                    assert a[1] < b[1], "no barrier in between"
                    assert a[0] not in [c[0] for c in used[second:]], "overwritten"
