"""One walk applies the rows of a table; each row changes a program by itself."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable

from contexts import SM_80
from gemm_program import gemm_program
from refusals import refusal
from tensor_types import F16, F32
from test_allocate_scratch import sums
from test_allocate_tensor_memory import held
from test_block_rasterization import transpose
from test_early_loads import computed, turned
from test_gemm_completion import product as signalled
from test_join_digits import a_serial_loop
from test_launch_versions import product as versioned
from test_persistent_epilogue import product as warp_specialized
from test_reciprocal_division import softmax
from test_unroll_loads import columns
from test_unroll_register_slices import halves

import tilelang.language as T
from tilelang.compiler import lower, pass_list
from tilelang.errors import TileError, TileValueError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.rules import Phase, rule

HOPPER, AMPERE, CPU = "cuda -arch=sm_90a", "cuda -arch=sm_80", "cpu"


@T.prim_func
def plain(A: F32[64], B: F32[64]):
    with T.Kernel(1, threads=64):
        for i in T.serial(2):
            A[i] = B[i] + 1.0
        B[0] = 2.0


def log(kind: type, name: str, seen: list[str]) -> Callable:
    def make(node, place):
        seen.append(f"{name} {type(node).__name__}")
        return node

    return rule(kind)(make)


# -- the walk -----------------------------------------------------------------------------------
def test_parts_come_before_what_they_are_in_and_rows_in_their_order() -> None:
    seen: list[str] = []
    table = Phase(log(S.For, "a", seen), log(S.Store, "b", seen), log(S.For, "c", seen),
                  log(S.PrimFunc, "d", seen), log(S.Launch, "e", seen))  # fmt: skip
    assert table(plain, SM_80) is plain
    assert seen == ["b Store", "a For", "c For", "b Store", "e Launch", "d PrimFunc"]


def test_a_row_sees_what_the_rows_above_it_made() -> None:
    @rule(S.Store)
    def twice(store, place):
        return [store, S.Store(buffer=store.buffer, indices=store.indices, value=store.value)]

    @rule(S.Store)
    def drop_second(store, place):
        return None if store is not place.around[-1] else store

    assert len(S.find(twice(plain, SM_80).body, S.Store)) == 4
    assert Phase(twice, drop_second)(plain, SM_80) is plain
    assert not S.find(Phase(drop_second, twice, drop_second, rule(S.Store)(lambda *_: None))(
        plain, SM_80).body, S.Store)  # fmt: skip


def test_an_expression_is_rewritten_once_and_buffers_everywhere() -> None:
    seen: list[str] = []
    both = Phase(log(E.Load, "load", seen), log(E.Binary, "sum", seen))
    assert both(plain, SM_80) is plain and seen == ["load Load", "sum Binary"]

    @rule(Buffer, where=lambda func, context: context is SM_80)
    def named(buffer, place):
        return place.of(lambda func: func.buffers[0], place.func) if buffer.name == "B" else buffer

    assert "B[" not in named(plain, SM_80).script()
    assert named(plain, Context(parse_target(CPU))) is plain


def test_a_statement_has_its_kernel_its_loops_and_the_names_of_its_block() -> None:
    seen = []

    @rule(S.Store)
    def look(store, place):
        kinds = [type(node).__name__ for node in place.around if not isinstance(node, S.Seq)]
        place.names[store.value] = None
        seen.append((kinds, place.kernel is place.launch, len(place.names)))
        return store

    look(plain, SM_80)
    assert seen == [(["Launch", "For", "Store"], True, 1), (["Launch", "Store"], True, 1)]


def test_an_error_of_an_expression_names_the_line() -> None:
    @rule(E.Load)
    def refuse(load, place):
        raise TileValueError("no loads", expected="none", got="one")

    assert "A[i] = B[i] + 1.0" in refusal(TileError, refuse, plain, SM_80)


# -- the rows -------------------------------------------------------------------------------------
@T.prim_func
def hints(A: F32[64], H: F16[64]):
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        T.no_set_max_nreg()
        work = T.alloc_global((64,), "float32")
        tail = T.make_tensor(T.address_of(A[3]), (32,), "float32")
        for i in T.serial(8, annotations={"own": 2}):
            work[i] = tail[i]
            H[i] = T.call_extern("float16", "__float2half_rz", A[i])
        T.sync_threads(20, 256)
        if tx < 128:
            T.dec_max_nreg(40)
        else:
            A[tx - 128] = 2.0


@T.prim_func
def alone(A: F32[64]):
    A[0] = 1.0
    with T.Kernel(1):
        A[1] = 2.0


@T.prim_func
def operations(A: F32[64, 64], B: F32[64], O: F32[64, 64]):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((8, 64), "float32")
        own = T.alloc_local((4,), "float32")
        T.copy(A[0:8, :], s)
        T.copy(s[0:7, :], s[1:8, :])
        T.copy(B[0:4], own)
        if T.any_of(s[0, :]):
            O[0, 0] = own[0]
        for i, j in T.Parallel(64, 64):
            O[i, j] = T.exp2((A[i, j] - B[i]) * 0.5)
        for i, j in T.Parallel(64, 64):
            T.atomic_add(O[i, j], A[i, j])


def product(stages: int = 3) -> S.PrimFunc:
    return gemm_program(256, 256, 512, (128, 128, 32), stages)


@T.prim_func
def vectors(A: T.Tensor((8,), "float16x2")):
    with T.Kernel(1, threads=1):
        A[0] = A[1]


@T.prim_func
def large(A: F16[1 << 33, 32], C: F16[32, 32]):
    with T.Kernel(4, threads=32) as bx:
        a = T.alloc_shared((32, 32), "float16")
        c = T.alloc_shared((32, 32), "float16")
        T.copy(A[bx * (1 << 30), 0], a)
        T.transpose(a, c)
        T.copy(c, C)


@T.prim_func
def checked(A: F16[T.dynamic("n")]):
    T.assume(A.shape[0] % 8 == 0)
    with T.Kernel(4, threads=32) as bx:
        A[bx] = A[bx + 4]


@T.prim_func
def rows(A: T.Tensor((32, 8), "float32"), B: T.Tensor((32,), "float32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        tile, sums = T.alloc_shared((32, 8), "float32"), T.alloc_shared((32,), "float32")
        T.copy(A, tile)
        T.reduce_sum(tile[tx, 0:8], sums[tx : tx + 1], dim=1)
        T.copy(sums, B)


@T.prim_func
def counted(B: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=1):
        left = T.alloc_var("int32")
        left = 4
        for i in T.serial(left):
            left = left - 1
            B[i] = left


@T.prim_func
def positive(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            if A[i] < 0:
                continue
            B[i] = A[i]


PROGRAMS = [
    (rows, AMPERE), (counted, CPU), (checked.with_attr("tir.noalias", False), HOPPER), (hints, HOPPER), (alone, CPU), (operations, HOPPER), (halves(guarded=True), HOPPER),
    (transpose(256, 512), HOPPER), (signalled(), AMPERE), (product(), AMPERE), (warp_specialized(), HOPPER), (large, AMPERE),
    (sums, AMPERE), (held, "cuda -arch=sm_100a"), (vectors, CPU), (columns(), HOPPER), (turned(), HOPPER),
    (versioned(), HOPPER), (positive, AMPERE), (a_serial_loop, CPU),
]  # fmt: skip
CHECKS = {"check_tile_bounds", "check_launch_limits", "check_floats", "refuse_longer_lifetimes"}


def rows_that_change(func: S.PrimFunc, target: str, fast_math: bool = True) -> set[str]:
    """The rows that by themselves change what the pass that they are in gets."""
    options = Options(fast_math=fast_math)
    context = Context(parse_target(target), options)
    steps = {step.name: step for step in pass_list(context.target)}
    made = [("traced", func)]
    lower(func, context.target, options, lambda name, after: made.append((name, after)))
    return {
        row.name
        for (_, before), (name, _) in zip(made, made[1:])
        for row in steps[name].rows
        if row(before, context) is not before
    }


def test_each_row_changes_a_program() -> None:
    rows = {row.name for t in (CPU, HOPPER) for step in pass_list(parse_target(t))
            for row in step.rows}  # fmt: skip
    changed = set().union(*(rows_that_change(*item) for item in PROGRAMS))
    for func in (softmax(), computed("division")):
        changed |= rows_that_change(func, HOPPER, fast_math=False)
    assert rows - changed == CHECKS
    assert not changed & CHECKS
