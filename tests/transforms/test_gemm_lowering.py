"""Products in Thread IR, interpreted for every layout, dtype and way to divide the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from contexts import SM_80
from gemm_case import Case, Without, check, lowered, results
from hypothesis import given, settings, strategies as st
from refusals import refusal

from tilelang.errors import InternalError, Loc, TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
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
from tilelang.transforms.lower.context import Group, Lowering
from tilelang.transforms.lower.gemm_mma import lower_gemm

CONTEXT = Lowering(SM_80, Group(E.Var("tx", DType("int32")), 128), Bounds())
BOTH = [(a, b) for a in (False, True) for b in (False, True)]
# Factors, result, architecture, k of the product and of the instruction.
KINDS = [
    ("float16", "float32", 80, 48, 16), ("float16", "float16", 80, 48, 16),
    ("float16", "float32", 75, 48, 16), ("bfloat16", "float32", 80, 48, 16),
    ("float32", "float32", 80, 24, 8), ("tfloat32", "float32", 80, 24, 8),
    ("float64", "float64", 80, 12, 4), ("int8", "int32", 80, 96, 32), ("uint8", "int32", 80, 96, 32),
    ("int8", "int32", 75, 96, 32), ("int4", "int32", 80, 192, 64), ("uint4", "int32", 80, 192, 64),
    ("float8_e4m3", "float32", 89, 96, 32), ("float8_e5m2", "float32", 89, 96, 32),
    # Short instructions where the long one does not divide k.
    ("float16", "float32", 80, 8, 8), ("bfloat16", "float32", 80, 24, 8),
    ("float32", "float32", 80, 12, 4), ("int8", "int32", 80, 48, 16), ("uint4", "int32", 80, 96, 32),
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
@pytest.mark.share(4)
@pytest.mark.parametrize(("trans_a", "trans_b"), BOTH)
@pytest.mark.parametrize(("dtype", "out", "arch", "k", "step"), KINDS)
def test_every_dtype_in_every_orientation(
    dtype: str, out: str, arch: int, k: int, step: int, trans_a: bool, trans_b: bool
) -> None:
    plan = check(Case(32, 48, k, dtype, out, trans_a, trans_b, threads=64, arch=arch))
    assert plan.atom is not None and plan.atom.k == step


SPECIAL = [
    # Factors in fragments.
    *(Case(64, 32, k, dtype, out, *turned, scopes=scopes)
      for dtype, out, k in (("float16", "float32", 32), ("int8", "int32", 32),
                            ("float32", "float32", 40), ("float64", "float64", 8))
      for turned in BOTH for scopes in ("rs", "sr", "rr")),
    # Steps along k.
    *(Case(32, 16, 16 * steps, scopes=scopes, threads=64)
      for steps in (1, 2, 3, 6) for scopes in ("ss", "rs")),
    # Results.
    *(Case(32, 32, 16, out=out, clear=clear, trans_b=True, threads=64)
      for out in ("float32", "float16", "bfloat16") for clear in ("no", "yes", "expression")),
    *(Case(16, 16, 32, "int8", out, threads=64) for out in ("int8", "int16", "uint32")),
    Case(32, 32, 16, out="float16", c_scope="shared", threads=64),
    # Regions of larger tiles and stages, and a group of the threads.
    *(Case(32, 32, 64, dtype, out, trans, trans, stages=3, margin=margin, threads=64)
      for dtype, out in (("float16", "float32"), ("int8", "int32"))
      for trans in (False, True) for margin in ((8, 16), (2, 3))),
    Case(32, 32, 32, trans_b=True, threads=64, lo=64),
]  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("case", SPECIAL, ids=str)
def test_factors_and_results_of_every_kind(case: Case) -> None:
    assert check(case).atom is not None


@pytest.mark.parametrize("policy", [0, 1, 2])
@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [(64, 64, 128), (96, 96, 96), (160, 32, 64), (16, 256, 256), (128, 64, 256), (80, 16, 32)],
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


@pytest.mark.parametrize("c_scope", ["fragment", "shared"])
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
    assert check(Case(m, n, k, threads=threads, c_scope=c_scope)).copies == copies


@pytest.mark.parametrize(("case", "held"), [
    (Case(64, 128, 16, threads=32), 8),
    (Case(64, 128, 48, trans_a=True, trans_b=True, threads=32), 8),
    (Case(64, 128, 32, threads=32, scopes="rs"), 8),
    (Case(64, 128, 8, "float64", "float64", threads=32), 2),
    (Case(64, 128, 32, "int8", "int32", threads=32), 16),
])  # fmt: skip
def test_columns_in_groups_where_registers_are_scarce(case: Case, held: int) -> None:
    check(case)
    sizes = {s.buffer.name: s.buffer.shape[0] for s in S.walk(lowered(case)[0].body)
             if isinstance(s, S.Alloc) and s.buffer.storage == "local"}  # fmt: skip
    assert sizes["b0"] == sizes["b1"] == held  # two of sixteen tiles


@pytest.mark.parametrize(
    ("case", "by_matrix"),
    [
        (Case(32, 32, 32), 2),
        (Case(32, 32, 32, "int8", "int32"), 1),  # B is contiguous along n
        (Case(32, 32, 32, "int8", "int32", trans_b=True), 2),
        (Case(32, 32, 32, "float32", trans_a=True), 0),
        (Case(32, 32, 32, "float64", "float64", trans_b=True), 0),
        (Case(32, 32, 32, margin=(0, 4)), 0),  # rows do not start at 16 bytes
    ],
)
def test_ldmatrix_where_rows_of_16_bytes_are_whole(case: Case, by_matrix: int) -> None:
    case = replace(case, threads=32)
    check(case)
    calls = calls_of(lowered(case)[0].body, "ldmatrix")
    sources = {call.args[1].buffer.name for call in calls}  # type: ignore[attr-defined]  # an address
    assert len(sources) == by_matrix


# -- without ------------------------------------------------------------------------------------
@pytest.mark.parametrize("case", [
    Case(64, 64, 16, "float32", trans_a=True, arch=75),
    Case(10, 6, 5, trans_b=True, threads=40),
    Case(1, 1, 1, out="float16", threads=32),
    Case(32, 32, 16, out="float64", clear="expression", threads=64),
    Case(20, 32, 3, clear="yes", c_scope="shared", threads=64, lo=64),
    Case(17, 9, 7, "bfloat16", "bfloat16", True, True, threads=96),
    Case(16, 8, 16, trans_a=True, threads=1),
    Case(12, 20, 8, "int16", "int32", threads=64, arch=90),
    Case(16, 16, 32, "int8", "int64", threads=32),
    Case(16, 16, 32, "float8_e4m3", trans_b=True, threads=64),
])  # fmt: skip
def test_plain_multiplications_for_everything_else(case: Case) -> None:
    plan = check(case)
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
@settings(max_examples=12)
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
    assert refusal(TileUnsupportedError, plan_gemm, stmt, (0, 128), SM_80) == (
        "T.gemm of a tile whose size is only known at run time\n"
        "  expected: constant extents\n"
        "  got: `c[0:rows, 0:64]`\n"
        "  hint: multiply whole tiles, with zeros where they reach beyond the matrix\n"
        " --> kernel.py:7:5"
    )


def test_a_product_without_a_plan_is_a_defect() -> None:
    c = tile("c", (64, 64), "float32", "local.fragment")
    stmt = gemm(tile("a", (64, 32)), tile("b", (32, 64)), c)
    with pytest.raises(InternalError, match="the product into `c` has no plan"):
        lower_gemm(stmt, CONTEXT)


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
def test_an_operand_that_is_not_as_planned_is_an_internal_error(scope: str) -> None:
    c = tile("c", (64, 64), "float32", "local.fragment")
    stmt = gemm(tile("a", (64, 32), scope=scope), tile("b", (32, 64)), c)
    plan = plan_gemm(stmt, (0, 128), SM_80)
    assert isinstance(plan.c, Registers)
    held = replace(c, attrs=BufferHints(register_layout=plan.c.spread))
    if scope == "shared":
        text, wrong = "shared memory", replace(stmt.a.buffer, storage="local.fragment")
    else:
        other = BufferHints(register_layout=RegisterLayout.fully_replicated((64, 32), 128))
        text, wrong = "the layout of the product", replace(stmt.a.buffer, attrs=other)
    with pytest.raises(InternalError, match=f"`a` is not in {text}"):
        lower_gemm(replace(stmt, a=wrong.whole(), c=held.whole(), plan=plan), CONTEXT)


# -- the test kernel itself -----------------------------------------------------------------------
def test_a_missing_barrier_would_be_found() -> None:
    case = Case(32, 32, 32, threads=64)
    func = lowered(case)[0]
    with pytest.raises(AssertionError, match="no barrier between|nothing has written"):
        results(case, replace(func, body=Without("sync_threads").rewrite(func.body)))
