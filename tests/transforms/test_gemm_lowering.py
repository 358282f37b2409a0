"""Products in Thread IR, interpreted for every layout, dtype and way to divide the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contexts import SM_80
from gemm_case import Build, Case, check
from hypothesis import given, settings, strategies as st
from thread_races import simulate

from tilelang.errors import InternalError, Loc, TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.layouts.gemm_plan import (
    Registers,
    SharedLoad,
    SharedRuns,
    plan_gemm,
)
from tilelang.transforms.lower.gemm_mma import lower_gemm

BOTH = [(a, b) for a in (False, True) for b in (False, True)]
# Factors, result, least architecture, k of the instruction.
KINDS = [
    ("float16", "float32", 80, 16), ("float16", "float16", 80, 16), ("float16", "float32", 75, 16),
    ("bfloat16", "float32", 80, 16), ("float32", "float32", 80, 8), ("tfloat32", "float32", 80, 8),
    ("float64", "float64", 80, 4), ("int8", "int32", 80, 32), ("uint8", "int32", 80, 32),
    ("int8", "int32", 75, 32), ("int4", "int32", 80, 64), ("uint4", "int32", 80, 64),
    ("float8_e4m3", "float32", 89, 32), ("float8_e5m2", "float32", 89, 32),
]  # fmt: skip


def calls_of(launch: S.Stmt, name: str) -> list[E.Call]:
    return [
        node
        for stmt in S.walk(launch)
        for expr in stmt.exprs()
        for node in E.walk(expr)
        if isinstance(node, E.Call) and node.op == name
    ]


# -- with matrix instructions ------------------------------------------------------------------
@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize(("dtype", "out", "arch", "k"), KINDS)
def test_every_dtype_in_every_orientation(
    dtype: str, out: str, arch: int, k: int, trans_a: bool, trans_b: bool
) -> None:
    case = Case(32, 48, 3 * k, dtype, out, trans_a, trans_b, threads=64, arch=arch)
    plan = check(case)
    assert plan.atom is not None
    assert plan.atom.k == k


@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize(
    ("dtype", "out", "k"),
    [
        ("float16", "float32", 8),
        ("bfloat16", "float32", 24),
        ("float32", "float32", 12),
        ("int8", "int32", 48),
        ("uint8", "int32", 16),
        ("int4", "int32", 32),
        ("uint4", "int32", 96),
    ],
)
def test_short_instructions_where_the_long_one_does_not_divide_k(
    dtype: str, out: str, k: int, trans_a: bool, trans_b: bool
) -> None:
    plan = check(Case(48, 40, k, dtype, out, trans_a, trans_b, threads=32))
    assert plan.atom is not None
    assert plan.atom.k in (4, 8, 16, 32)


@pytest.mark.parametrize("scopes", ["rs", "sr", "rr"])
@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize(("dtype", "out", "k"), [("float16", "float32", 32), ("int8", "int32", 32),
                                                 ("float32", "float32", 40),
                                                 ("float64", "float64", 8)])  # fmt: skip
def test_factors_in_fragments(
    dtype: str, out: str, k: int, trans_a: bool, trans_b: bool, scopes: str
) -> None:
    check(Case(64, 32, k, dtype, out, trans_a, trans_b, scopes=scopes))


@pytest.mark.parametrize("policy", [0, 1, 2])
@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [
        (64, 64, 128),
        (96, 160, 128),
        (96, 96, 96),
        (160, 32, 64),
        (16, 8, 32),
        (16, 256, 256),
        (128, 64, 256),
        (48, 40, 32),
        (16, 24, 96),
        (80, 16, 32),
    ],
)
def test_every_policy_and_shape(m: int, n: int, threads: int, policy: int) -> None:
    valid = {
        (rows, threads // 32 // rows)
        for rows in range(1, 9)
        if threads // 32 % rows == 0
        and m % (16 * rows) == 0
        and n % (8 * (threads // 32 // rows)) == 0
    }
    plan = check(Case(m, n, 32, policy=policy, threads=threads, trans_b=True))
    assert plan.warps in valid
    if policy == 1:
        assert plan.warps == max(valid)
    if policy == 2:
        assert plan.warps == min(valid)


@pytest.mark.parametrize("c_scope", ["local.fragment", "shared"])
@pytest.mark.parametrize(
    ("m", "n", "k", "threads", "copies"),
    [
        (16, 24, 32, 128, 4),  # four warps divide neither its rows nor its columns
        (16, 8, 16, 64, 2),
        (48, 24, 32, 256, 8),
        (32, 40, 32, 192, 3),
        (64, 64, 32, 96, 3),
        (16, 8, 5, 256, 1),  # no instruction: threads without elements of their own
    ],
)
def test_warps_without_a_part_of_the_result_compute_that_of_another(
    m: int, n: int, k: int, threads: int, copies: int, c_scope: str
) -> None:
    """In memory they add nothing twice: `simulate` looks for races."""
    plan = check(Case(m, n, k, threads=threads, c_scope=c_scope))
    assert plan.copies == copies


@pytest.mark.parametrize("steps", range(1, 11))
@pytest.mark.parametrize("scopes", ["ss", "rs"])
def test_any_number_of_steps_along_k(steps: int, scopes: str) -> None:
    check(Case(32, 16, 16 * steps, scopes=scopes, threads=64))


@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_columns_in_groups_where_registers_are_scarce(
    steps: int, trans_a: bool, trans_b: bool
) -> None:
    case = Case(32, 64, 16 * steps, trans_a=trans_a, trans_b=trans_b, threads=32, fragments=250)
    check(case)
    build = Build(case)
    sizes = {s.buffer.name: s.buffer.shape[0] for s in S.walk(build.launch)
             if isinstance(s, S.Alloc) and s.buffer.storage == "local"}  # fmt: skip
    assert sizes["b0"] == sizes["b1"] == 4 * 4  # of eight tiles


def test_columns_in_groups_element_by_element() -> None:
    check(Case(16, 128, 8, "float64", "float64", threads=32, fragments=250))
    check(Case(64, 64, 16, "float32", trans_a=True, threads=32, fragments=250))
    check(Case(32, 64, 64, "int8", "int32", threads=32, fragments=250))
    check(Case(32, 64, 32, threads=32, scopes="rs", fragments=250))


@pytest.mark.parametrize(
    ("case", "by_matrix"),
    [
        (Case(32, 32, 32), 2),
        (Case(32, 32, 32, "int8", "int32"), 1),  # B is contiguous along n
        (Case(32, 32, 32, "int8", "int32", trans_b=True), 2),
        (Case(32, 32, 32, "float32", trans_a=True), 0),
        (Case(32, 32, 32, "float64", "float64", trans_b=True), 0),
        (Case(32, 32, 32, margin=(0, 4)), 0),  # rows do not start at 16 bytes
        (Case(32, 32, 32, margin=(4, 8), layouts=False), 2),
        (Case(32, 32, 32, margin=(3, 4), layouts=False), 0),
    ],
)
def test_ldmatrix_where_rows_of_16_bytes_are_whole(case: Case, by_matrix: int) -> None:
    check(replace(case, threads=32))
    launch = Build(replace(case, threads=32)).launch
    sources = {call.args[1].buffer.name for call in calls_of(launch, "ldmatrix")}  # type: ignore[attr-defined]  # an address
    assert len(sources) == by_matrix


@pytest.mark.parametrize("clear", ["no", "yes", "expression"])
@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16", "float64"])
def test_clear_and_results_of_other_dtypes(out: str, clear: str) -> None:
    case = Case(32, 32, 16, out=out, clear=clear, trans_b=True, threads=64)
    plan = check(case)
    assert (plan.atom is None) == (out == "float64")


@pytest.mark.parametrize("out", ["int8", "int16", "uint32", "int32"])
def test_integer_results(out: str) -> None:
    build = Build(Case(16, 16, 32, "int8", out, threads=64))
    found = build.run()
    wanted = build.expected().astype(np.int64).astype(DType(out).as_numpy())
    assert (found == wanted).all()
    assert build.plan.atom is not None


@pytest.mark.parametrize("out", ["float32", "float16"])
@pytest.mark.parametrize("clear", ["no", "yes"])
@pytest.mark.parametrize("m", [32, 20])
def test_result_in_shared_memory(m: int, out: str, clear: str) -> None:
    check(Case(m, 32, 16, out=out, clear=clear, c_scope="shared", threads=64))


@pytest.mark.parametrize("margin", [(0, 0), (8, 16), (16, 8), (1, 0), (2, 3)])
@pytest.mark.parametrize("trans", [False, True])
def test_regions_of_larger_tiles_and_stages(margin: tuple[int, int], trans: bool) -> None:
    for dtype, out in (("float16", "float32"), ("int8", "int32")):
        check(Case(32, 32, 64, dtype, out, trans, trans, stages=3, margin=margin, threads=64))


@pytest.mark.parametrize(("m", "k"), [(32, 32), (20, 3)])
def test_a_group_of_the_threads(m: int, k: int) -> None:
    check(Case(m, 32, k, trans_b=True, threads=64, lo=64))


def test_factors_without_a_layout() -> None:
    for trans_a, trans_b in BOTH:
        check(Case(32, 32, 64, "int8", "int32", trans_a, trans_b, layouts=False, threads=64))


# -- without ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "out", "threads", "arch"),
    [
        (64, 64, 16, "float32", "float32", 128, 75),
        (10, 6, 5, "float16", "float32", 40, 80),
        (1, 1, 1, "float16", "float16", 32, 80),
        (17, 9, 7, "bfloat16", "bfloat16", 96, 80),
        (8, 64, 32, "float16", "float32", 128, 80),
        (16, 8, 16, "float16", "float32", 1, 80),
        (12, 20, 8, "int16", "int32", 64, 90),
        (16, 16, 32, "int8", "int64", 32, 80),
        (16, 16, 32, "float8_e4m3", "float32", 64, 80),
    ],
)
def test_plain_multiplications_for_everything_else(
    m: int, n: int, k: int, dtype: str, out: str, threads: int, arch: int, trans_a: bool,
    trans_b: bool,
) -> None:  # fmt: skip
    plan = check(Case(m, n, k, dtype, out, trans_a, trans_b, threads=threads, arch=arch))
    assert plan.atom is None
    assert plan.instruction == "fma"


@given(
    m=st.integers(1, 40),
    n=st.integers(1, 40),
    k=st.integers(1, 20),
    threads=st.sampled_from([1, 7, 32, 48, 64]),
    trans=st.sampled_from(BOTH),
    clear=st.sampled_from(["no", "yes", "expression"]),
)
@settings(max_examples=30)
def test_any_size_and_any_number_of_threads(
    m: int, n: int, k: int, threads: int, trans: tuple[bool, bool], clear: str
) -> None:
    check(Case(m, n, k, "float16", "float32", *trans, threads=threads, clear=clear))


# -- plans ----------------------------------------------------------------------------------------
def gemm(
    a: Buffer, b: Buffer, c: Buffer, trans_b: bool = False, policy: int = 0, **regions: Region
) -> S.Gemm:
    return S.Gemm(
        a=regions.get("a_region", a.whole()),
        b=regions.get("b_region", b.whole()),
        c=regions.get("c_region", c.whole()),
        trans_b=trans_b,
        clear=E.const(False),
        policy=policy,
        loc=Loc("kernel.py", 7, 4),
    )


def tile(
    name: str, shape: tuple[Any, ...], dtype: str = "float16", scope: str = "shared"
) -> Buffer:
    return Buffer(name, Shape(shape), DType(dtype), scope)


def test_parts_of_fragments_are_wanted_in_shared_memory() -> None:
    a = tile("a", (128, 32), scope="local.fragment")
    b = tile("b", (32, 64))
    c = tile("c", (2, 64, 64), "float32", "local.fragment")
    zero = (E.const(0),)
    stmt = gemm(
        a, b, c,
        a_region=Region(a, zero * 2, (64, 32)), c_region=Region(c, zero * 3, (1, 64, 64)),
    )  # fmt: skip
    plan = plan_gemm(stmt, (0, 128), SM_80)
    assert plan.a == plan.c == SharedLoad()
    assert isinstance(plan.sum, RegisterLayout)


def test_leading_dimensions_of_whole_fragments() -> None:
    c = tile("c", (1, 64, 64), "float32", "local.fragment")
    plan = plan_gemm(gemm(tile("a", (64, 32)), tile("b", (32, 64)), c), (0, 128), SM_80)
    assert isinstance(plan.c, Registers)
    assert plan.c.spread.shape == (1, 64, 64)
    assert np.array_equal(plan.c.spread.owner_table()[0], plan.sum.owner_table())


# -- errors ---------------------------------------------------------------------------------------
def test_private_arrays_are_an_error() -> None:
    c = tile("c", (64, 64), "float32", "local")
    with pytest.raises(TileTypeError) as caught:
        plan_gemm(gemm(tile("a", (64, 32)), tile("b", (32, 64)), c), (0, 128), SM_80)
    assert str(caught.value) == (
        "C of T.gemm is in local memory\n"
        "  expected: a tile made by T.alloc_shared or T.alloc_fragment\n"
        "  got: `c` in local memory\n"
        "  hint: allocate it with T.alloc_fragment, or copy it into a fragment first\n"
        " --> kernel.py:7:5"
    )


def test_sizes_known_at_run_time_are_an_error() -> None:
    a, b = tile("a", (64, 32)), tile("b", (32, 64))
    c = tile("c", (64, 64), "float32", "local.fragment")
    rows = E.Var("rows", DType("int32"))
    stmt = gemm(a, b, c, c_region=Region(c, (E.const(0),) * 2, (rows, 64)))
    with pytest.raises(TileUnsupportedError) as caught:
        plan_gemm(stmt, (0, 128), SM_80)
    assert str(caught.value) == (
        "T.gemm of a tile whose size is only known at run time\n"
        "  expected: constant extents\n"
        "  got: `c[0:rows, 0:64]`\n"
        "  hint: multiply whole tiles, with zeros where they reach beyond the matrix\n"
        " --> kernel.py:7:5"
    )


def test_a_product_without_a_plan_is_a_defect() -> None:
    build = Build(Case(64, 64, 32))
    c = tile("c", (64, 64), "float32", "local.fragment")
    stmt = gemm(tile("a", (64, 32)), tile("b", (32, 64)), c)
    with pytest.raises(InternalError, match="the product into `c` has no plan"):
        lower_gemm(stmt, build.ctx)


def test_operands_that_are_moved_to_shared_memory_are_loaded_from_there() -> None:
    a = tile("a", (64, 32), scope="local.fragment")
    b = tile("b", (32, 64))
    c = tile("c", (64, 64), "float32", "local.fragment")
    stmt = gemm(a, b, c)
    plan = plan_gemm(stmt, (0, 128), SM_80)
    assert isinstance(plan.a, Registers)
    assert plan.placed(stmt) is plan
    moved = replace(stmt, a=replace(a, storage="shared").whole())
    assert plan.placed(moved) == replace(plan, a=SharedLoad())
    runs = replace(plan, run=2)
    assert runs.placed(moved) == replace(runs, a=SharedRuns())


@pytest.mark.parametrize("scope", ["shared", "local.fragment"])
def test_an_operand_in_an_unplanned_scope_is_an_internal_error(scope: str) -> None:
    build = Build(Case(64, 64, 32, scopes="rs" if scope == "shared" else "ss"))
    stmt = build.stmt
    wrong = replace(stmt.a.buffer, storage=scope, attrs=BufferHints())
    if scope == "local.fragment":
        text = "`a` is not in shared memory"
    else:
        text = "`a` is not in the layout of the product"
        other = RegisterLayout.fully_replicated((64, 32), 128)
        wrong = replace(stmt.a.buffer, attrs=BufferHints(register_layout=other))
    with pytest.raises(InternalError, match=text):
        lower_gemm(replace(stmt, a=wrong.whole()), build.ctx)


# -- the test kernel itself -----------------------------------------------------------------------
def test_a_missing_barrier_would_be_found() -> None:
    build = Build(Case(32, 32, 32, threads=64))

    def without(stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Seq):
            kept = [s for s in stmt.stmts if not (isinstance(s, S.Eval) and is_barrier(s))]
            return replace(stmt, stmts=tuple(kept))
        return stmt

    def is_barrier(stmt: S.Eval) -> bool:
        return isinstance(stmt.value, E.Call) and stmt.value.op == "sync_threads"

    broken = replace(build.launch, body=without(build.launch.body))
    with pytest.raises(AssertionError, match="no barrier between|nothing has written"):
        simulate(broken, build.arrays, {build.flag: 1})
