"""Functions print as Python text in the language itself, exactly and deterministically."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.print_expr import expr_text, region_text
from tilelang.ir.printer import func_text, stmt_text
from tilelang.records import dataclass

I32, F16, F32 = DType("int32"), DType("float16"), DType("float32")


def buffer(
    name: str, shape: tuple[object, ...], kind: DType = F32, scope: str = "global"
) -> Buffer:
    return Buffer(name, Shape(shape), kind, scope)


def launch(body: S.Stmt, grid: tuple[object, ...], names: str, threads: int = 128) -> S.Launch:
    return S.Launch(
        grid=tuple(E.as_expr(extent) for extent in grid),
        block_vars=tuple(E.Var(name, I32) for name in names.split()),
        thread_vars=tuple(E.Var(name, I32) for name in ("tx", "ty", "tz")),
        threads=(threads, 1, 1),
        body=body,
    )


GEMM = """\
# import tilelang.language as T

@T.prim_func
def gemm(A_handle: T.handle, B_handle: T.handle, C_handle: T.handle):
    T.func_attr({"outputs": (2,)})
    K = T.int32()
    A = T.match_buffer(A_handle, (256, K), "float16", strides=(K, 1))
    B = T.match_buffer(B_handle, (K, 256), "float16", strides=(256, 1))
    C = T.match_buffer(C_handle, (256, 256), strides=(256, 1))
    # with T.block("root"):
    bx = T.launch_thread("blockIdx.x", 2)
    by = T.launch_thread("blockIdx.y", 2)
    tx = T.launch_thread("threadIdx.x", 128)
    ty = T.launch_thread("threadIdx.y", 1)
    tz = T.launch_thread("threadIdx.z", 1)
    with T.block("tilelang_root"):
        T.reads(A[bx * 128:bx * 128 + 128, 0:(K + 31) // 32 * 32], \
B[0:(K + 31) // 32 * 32, by * 128:by * 128 + 128])
        T.writes(C[bx * 128:bx * 128 + 128, by * 128:by * 128 + 128])
        A_shared = T.alloc_buffer((128, 32), "float16", scope="shared.dyn")
        B_shared = T.alloc_buffer((32, 128), "float16", scope="shared.dyn")
        acc = T.alloc_buffer((128, 128), "float32", scope="local.fragment")
        T.annotate_safe_value({A: T.float16(0.5)})
        T.use_swizzle(10, order="row")
        T.fill(acc, T.float32(0.0))
        for k in T.Pipelined((K + 31) // 32, num_stages=3):
            T.copy(A[bx * 128:bx * 128 + 128, k * 32:k * 32 + 32], A_shared)
            T.copy(B[k * 32:k * 32 + 32, by * 128:by * 128 + 128], B_shared)
            T.gemm(A_shared, B_shared, acc)
        for i, j in T.Parallel(128, 128):
            acc[i, j] = T.max(acc[i, j], T.float32(0.0))
        T.copy(acc, C[bx * 128:bx * 128 + 128, by * 128:by * 128 + 128])"""


@T.prim_func
def gemm(A: T.Tensor((256, T.dyn["K"]), "float16"), B: T.Tensor((T.dyn["K"], 256), "float16")):
    C = T.empty((256, 256), "float32")
    with T.Kernel(2, 2, threads=128) as (bx, by):
        A_shared = T.alloc_shared((128, 32), "float16")
        B_shared = T.alloc_shared((32, 128), "float16")
        acc = T.alloc_fragment((128, 128), "float32")
        T.annotate_safe_value({A: 0.5})
        T.use_swizzle(10)
        T.clear(acc)
        for k in T.Pipelined(T.ceildiv(A.shape[1], 32), num_stages=3):
            T.copy(A[bx * 128, k * 32], A_shared)
            T.copy(B[k * 32, by * 128], B_shared)
            T.gemm(A_shared, B_shared, acc)
        for i, j in T.Parallel(128, 128):
            acc[i, j] = T.max(acc[i, j], 0.0)
        T.copy(acc, C[bx * 128, by * 128])
    return C


def test_a_tiled_gemm_prints_readably() -> None:
    assert repr(gemm) == gemm.script() == func_text(gemm) == GEMM


# -- names ---------------------------------------------------------------------------------------
def test_names_that_clash_get_suffixes() -> None:
    first, second = E.Var("x", I32), E.Var("x", I32)
    assert expr_text(first + second * first) == "x + x_1 * x"


def test_names_of_ended_loops_are_free_again() -> None:
    x = buffer("x", (8,), I32)

    def loop() -> S.Stmt:
        i = E.Var("i", I32)
        body = S.Store(buffer=x, indices=(i,), value=i)
        return S.For(var=i, start=E.const(0), stop=E.const(8), step=E.const(1), body=body)

    one = "for i in range(8):\n    x[i] = i"
    assert stmt_text(S.seq(loop(), loop())) == f"{one}\n{one}"


def test_keywords_and_the_language_are_not_used_as_names() -> None:
    assert expr_text(E.Var("T", I32) + E.Var("lambda", I32)) == "T_1 + lambda_1"


# -- expressions ---------------------------------------------------------------------------------
A, B, C = (E.Var(name, I32) for name in "abc")
X, Y = E.Var("x", F32), E.Var("y", F16)
P, Q = E.Var("p", DType("bool")), E.Var("q", DType("bool"))
BUF = buffer("buf", (4, 8))

EXPRESSIONS = [
    (A + B * C, "a + b * c"),
    ((A + B) * C, "(a + b) * c"),
    (A - (B - C), "a - (b - c)"),
    (A - B - C, "a - b - c"),
    (A // B % C, "a // b % c"),
    (A // (B % C), "a // (b % c)"),
    (-(A + B), "-(a + b)"),
    (-A * B, "-a * b"),
    (~A & B | C, "~a & b | c"),
    (A << (B + 1), "a << b + 1"),
    (E.binary("lt", A, B).equal(P), "(a < b) == p"),
    (E.binary("land", P, E.binary("lor", Q, P)), "p and (q or p)"),
    (E.unary("lnot", E.binary("land", P, Q)), "not (p and q)"),
    (E.unary("lnot", A < B), "not a < b"),
    (E.binary("min", A, B) + 1, "T.min(a, b) + 1"),
    (E.binary("truncdiv", A, B), "T.truncdiv(a, b)"),
    (X + 1.5, "x + T.float32(1.5)"),
    (Y + 1, "y + T.float16(1.0)"),
    (Y + 1.5, 'T.Cast("float32", y) + T.float32(1.5)'),
    (E.const(float("-inf")), 'T.float32("-inf")'),
    (E.const(float("nan"), "float16"), 'T.float16("nan")'),
    (E.const(-0.0), "T.float32(-0.0)"),
    (E.const(2**40), "T.int64(1099511627776)"),
    (E.const(-3) + A, "-3 + a"),
    (E.const(True), "T.bool(True)"),
    (E.select(P, A, B), "T.if_then_else(p, a, b)"),
    (E.select(P, A, B, lazy=False), "T.Select(p, a, b)"),
    (E.Load(BUF, (A, B + 1)), "buf[a, b + 1]"),
    (E.AddressOf(BUF, (A, B)), "T.address_of(buf[a, b])"),
    (E.AddressOf(BUF, (A, B), "r"), 'T.access_ptr(buf[a, b], "r")'),
    (E.call("exp", X), "T.exp(x)"),
    (E.StringImm("a\"b'c"), '"a\\"b\'c"'),
    (E.call("reinterpret", A, dtype="float32"), 'T.reinterpret(a, dtype="float32")'),
    (
        E.call("atomic_add", E.AddressOf(BUF, (A, B)), X, dtype="float32", return_prev=True),
        'T.atomic_add(T.address_of(buf[a, b]), x, dtype="float32", return_prev=True)',
    ),
    (E.Cast(X, F16, "rs", True, A), 'T.cast(x, "float16", round="rs", rbits=a)'),
    (E.Ramp(A, E.const(1), 4), "T.Ramp(a, 1, 4)"),
    (E.Broadcast(X, 4), "T.Broadcast(x, 4)"),
    (E.Vector((X, X)), "T.float32x2(x, x)"),
    (E.Lane(E.Vector((X, X)), E.const(1)), "T.float32x2(x, x)[1]"),
]


@pytest.mark.parametrize(("expr", "text"), EXPRESSIONS, ids=[text for _, text in EXPRESSIONS])
def test_expressions_print_with_the_parentheses_python_needs(expr: E.Expr, text: str) -> None:
    assert expr_text(expr) == repr(expr) == text


def test_very_deep_expressions_print() -> None:
    deep: E.Expr = A
    for _ in range(5000):
        deep = E.Binary("add", deep, B)
    assert expr_text(deep) == "a" + " + b" * 5000


def test_regions_print_whole_buffers_by_name_and_unit_extents_as_an_index() -> None:
    assert region_text(BUF.whole()) == "buf"
    assert region_text(Region(BUF, (A, E.const(0)), (1, 8))) == "buf[a, 0:8]"
    assert region_text(Region(BUF, (A, B), (1, 1))) == "buf[a:a + 1, b:b + 1]"
    assert region_text(Region(BUF, (A, B), (1, 1), anchored=True)) == "buf[a, b]"


# -- statements ----------------------------------------------------------------------------------
SRC, DST = buffer("src", (4, 8), F32, "shared"), buffer("dst", (4, 8), F32, "shared")
ROW = buffer("row", (4,), F32, "local.fragment")
S_, D_, R_ = SRC.whole(), DST.whole(), ROW.whole()
NOTHING = S.Seq(stmts=())


def loop(kind: str, start: object, stop: object, step: object, notes: S.Pairs = ()) -> S.For:
    ends = [E.as_expr(item) for item in (start, stop, step)]
    return S.For(
        var=E.Var("i", I32), start=ends[0], stop=ends[1], step=ends[2], kind=kind,
        body=S.Break(), hints=LoopHints.of(notes),
    )  # fmt: skip


STATEMENTS = [
    (loop("serial", 0, 4, 1), "for i in range(4):\n    break"),
    (loop("serial", 2, 9, 3), "for i in T.serial(2, 9, 3):\n    break"),
    (loop("unroll", 0, 4, 1, (("factor", 2),)), "for i in T.unroll(4, factor=2):\n    break"),
    (loop("serial", 0, 4, 1, (("a.b", "c"),)),
     'for i in T.serial(4, annotations={"a.b": "c"}):\n    break'),
    (S.While(cond=P, body=S.Continue()), "while p:\n    continue"),
    (S.If(cond=P, then=S.ThreadReturn(), orelse=NOTHING),
     "if p:\n    T.thread_return()\nelse:\n    T.evaluate(0)"),
    (S.Assert(cond=P, message="no"), 'assert p, "no"'),
    (S.Assert(cond=P, assumed=True), "T.assume(p)"),
    (S.Attr(key="scope", node="default", value=1, body=S.Break()),
     'with T.attr("default", "scope", 1):\n    break'),
    (S.ReducerInit(reducer=R_), "T.init_reducer(row)"),
    (S.ReducerUpdate(buffer=ROW, indices=(A,), value=X, op="sum"),
     'T.reducer_update(row[a], x, "sum")'),
    (S.ReducerFinalize(reducer=R_, op="sum"), 'T.finalize_reducer(row, op="sum")'),
    (S.HardwareOp(name="tcgen05_cp", needs="tcgen05", reads=(S_,), options=(("shape", "x"),)),
     'T.tcgen05_cp(src, needs="tcgen05", shape="x")'),
]  # fmt: skip


@pytest.mark.parametrize(("stmt", "text"), STATEMENTS, ids=[text for _, text in STATEMENTS])
def test_statements_print_as_calls_of_the_language(stmt: S.Stmt, text: str) -> None:
    assert stmt_text(stmt) == repr(stmt) == text


def test_two_kernels_in_one_function_keep_their_own_names() -> None:
    func = S.PrimFunc("two", (), S.seq(launch(NOTHING, (1,), "bx"), launch(NOTHING, (2,), "bx")))
    kernel = [
        'bx = T.launch_thread("blockIdx.x", {})', 'tx = T.launch_thread("threadIdx.x", 128)',
        'ty = T.launch_thread("threadIdx.y", 1)', 'tz = T.launch_thread("threadIdx.z", 1)',
        'with T.block("tilelang_root"):', "    T.reads()", "    T.writes()", "    T.evaluate(0)",
    ]  # fmt: skip
    first = [f"        {line}".format(1) for line in kernel]
    second = [f"    {line}".format(2) for line in kernel]
    assert func_text(func).splitlines()[5:] == ["    with T.kernel():", *first, *second]


def test_a_node_the_printer_does_not_know_is_named() -> None:
    @dataclass(frozen=True, eq=False, kw_only=True, repr=False)
    class Strange(S.TileOp):
        pass

    with pytest.raises(InternalError) as caught:
        stmt_text(Strange())
    assert str(caught.value) == "the printer does not know the tile operation Strange"
