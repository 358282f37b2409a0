"""Products by warpgroups: what is planned, and Thread IR interpreted against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from executors import agrees
from gemm_case import Case, Without, check, lowered, results

import tilelang
import tilelang.language as T
from tilelang.errors import UninitializedReadError
from tilelang.interpret.warpgroup import GROUP
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import GemmHints
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import make_padded_layout, swizzled
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.layouts.descriptors import Descriptor
from tilelang.transforms.layouts.gemm_plan import GemmPlan, Registers, plan_gemm

SM_90A = Context(parse_target("cuda -arch=sm_90a"))
HOPPER = Case(64, 64, 64, arch=90)
WIDE = [("float32", "float32", 8), ("int8", "int32", 32), ("uint8", "int32", 32),
        ("float8_e4m3", "float32", 32), ("float8_e5m2", "float16", 32)]  # fmt: skip


def planned(case: Case) -> GemmPlan:
    """The plan of a case that is multiplied by warpgroups as numpy does."""
    plan = check(case)
    assert plan.uses_wgmma, plan.why
    return plan


def tile(
    name: str, shape: tuple[int, ...], dtype: str = "float16", scope: str = "shared"
) -> Buffer:
    return Buffer(name, Shape(shape), DType(dtype), scope)


def gemm(a: Buffer | Region, b: Buffer | Region, c: Buffer, **fields: object) -> S.Gemm:
    regions = [item if isinstance(item, Region) else item.whole() for item in (a, b, c)]
    return S.Gemm(a=regions[0], b=regions[1], c=regions[2], clear=E.const(False), **fields)  # type: ignore[arg-type]  # fields of a product


# -- results -------------------------------------------------------------------------------------
@pytest.mark.share(4)
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize(
    ("dtype", "out"), [("float16", "float32"), ("float16", "float16"), ("bfloat16", "float32")]
)
@pytest.mark.parametrize("scopes", ["ss", "rs"])
def test_types_of_16_bits_in_every_orientation(
    scopes: str, dtype: str, out: str, trans_a: bool, trans_b: bool
) -> None:
    case = replace(HOPPER, n=96, k=48, dtype=dtype, out=out, scopes=scopes,
                   trans_a=trans_a, trans_b=trans_b)  # fmt: skip
    assert isinstance(planned(case).a, Registers if scopes == "rs" else Descriptor)


@pytest.mark.share(3)
@pytest.mark.parametrize("case", [
    *(replace(HOPPER, n=48, k=3 * k, dtype=dtype, out=out, scopes=scopes, trans_b=True)
      for dtype, out, k in WIDE for scopes in ("ss", "rs")),
    *(replace(HOPPER, dtype="bfloat16", out=out, clear=clear, c_scope=c_scope)
      for clear in ("no", "yes", "expression")
      for c_scope, out in (("fragment", "float32"), ("fragment", "bfloat16"), ("shared", "float32"))),
    *(replace(HOPPER, k=32, stages=3, lo=GROUP, scopes=scopes) for scopes in ("ss", "rs")),
    replace(HOPPER, trans_b=True, margin=(8, 64)), replace(HOPPER, trans_a=True, margin=(16, 128)),
    replace(HOPPER, k=32, trans_b=True, margin=(0, 32)),
], ids=str)  # fmt: skip
def test_types_accumulators_and_parts_of_tiles(case: Case) -> None:
    planned(case)


@pytest.mark.parametrize(("dtype", "out", "k"), WIDE[:2])
def test_other_types_across_k_are_multiplied_by_warps(dtype: str, out: str, k: int) -> None:
    plan = plan_gemm(
        gemm(tile("a", (64, 64), dtype), tile("b", (64, 64), dtype), tile("c", (64, 64), out)),
        (0, 128), SM_90A,
    )  # fmt: skip
    assert plan.why == f"`b` of {dtype} is not contiguous along k"


@pytest.mark.parametrize(
    ("case", "tiles", "columns"),
    [
        *((replace(HOPPER, n=n, k=32, trans_b=True), (1, 1, 2), n) for n in (24, 80, 256)),
        *((replace(HOPPER, n=n, k=32), (1, 1, 2), n) for n in (16, 192)),
        (replace(HOPPER, n=320, k=16, trans_b=True), (1, 2, 1), 160),
        (replace(HOPPER, n=320, k=16), (1, 5, 1), 64),  # none ends inside a panel of 64 columns
        # Each of two warpgroups starts inside a swizzle panel: 96 columns in panels of 32.
        (Case(64, 48, 32, threads=256, arch=90), (1, 3, 2), 8),
        (Case(64, 96, 32, threads=256, arch=90, scopes="rs"), (1, 3, 2), 16),
        (Case(64, 256, 32, threads=256, arch=90), (1, 1, 2), 128),
    ],
)
def test_instructions_of_every_width(case: Case, tiles: tuple[int, ...], columns: int) -> None:
    plan = planned(case)
    assert plan.atom is not None and (plan.tiles, plan.atom.n) == (tiles, columns)


@pytest.mark.parametrize("k", [16, 32, 96, 128])
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, True), (True, False)])
def test_every_swizzle(k: int, trans_a: bool, trans_b: bool) -> None:
    plan = planned(replace(HOPPER, k=k, n=k, trans_a=trans_a, trans_b=trans_b))
    assert isinstance(plan.b, Descriptor)
    assert plan.b.span == {16: 32, 32: 64, 96: 64, 128: 128}[k]


def test_rows_of_16_bytes_have_no_swizzle() -> None:
    plan = planned(replace(HOPPER, n=8, k=64))
    assert isinstance(plan.b, Descriptor)
    assert (plan.b.span, plan.b.swizzle) == (16, 0)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "threads", "policy", "warps"),
    [(192, 32, 384, 0, (3, 1)), (64, 64, 256, 0, (1, 2)), (128, 64, 256, 2, (1, 2)),
     (128, 64, 512, 0, (2, 2)), (128, 64, 256, 1, (2, 1))],
)  # fmt: skip
def test_warpgroups_share_rows_first(
    m: int, n: int, threads: int, policy: int, warps: tuple[int, int], trans: bool
) -> None:
    case = Case(m, n, 32, threads=threads, policy=policy, arch=90, trans_a=trans, trans_b=trans)
    assert planned(replace(case, scopes="rs" if trans else "ss")).warps == warps


def test_a_long_product_keeps_its_loop() -> None:
    case = replace(HOPPER, k=640)
    assert planned(case).tiles == (1, 1, 40)
    kinds = [node.kind for node in S.walk(lowered(case)[0].body) if isinstance(node, S.For)]
    assert "serial" in kinds


# -- what is missed where a statement is missing -------------------------------------------------
@pytest.mark.parametrize("name", ["warpgroup_wait", "warpgroup_commit_batch"])
def test_sums_arrive_where_they_are_waited_for(name: str) -> None:
    case = replace(HOPPER, clear="yes")
    func = lowered(case)[0]
    with pytest.raises(UninitializedReadError):
        results(case, replace(func, body=Without(name).rewrite(func.body)))


# -- plans ---------------------------------------------------------------------------------------
A, B, C = tile("a", (64, 64)), tile("b", (64, 64)), tile("c", (64, 64), "float32", "local.fragment")


def part(buffer: Buffer, mins: tuple[int | E.Expr, ...], extents: tuple[int, ...]) -> Region:
    return Region(buffer, tuple(map(E.as_expr, mins)), extents)


I = E.Var("i", DType("int32"))


@pytest.mark.parametrize(
    ("stmt", "group", "why"),
    [
        (gemm(A, B, C), (0, 64), "threads 0 to 63 are not whole warpgroups"),
        (gemm(tile("a", (64, 8)), tile("b", (8, 64)), C), (0, 128), "k = 8 is not a multiple of 16"),
        (gemm(tile("a", (32, 64)), B, tile("c", (32, 64), "float32")), (0, 128),
         "a 32 x 64 result is not a multiple of 64 x 8 per warpgroup"),
        (gemm(A, tile("b", (64, 64), scope="local.fragment"), C), (0, 128), "`b` is in registers"),
        (gemm(A, tile("b", (64, 40)), tile("c", (64, 40), "float32")), (0, 128),
         "no swizzle divides the rows of `b`"),
        (gemm(tile("a", (64, 64), "float64"), tile("b", (64, 64), "float64"),
              tile("c", (64, 64), "float64")), (0, 128),
         "no wgmma multiplies float64 and float64 into float64"),
        (gemm(A, B, C, hints=GemmHints(k_run=2)), (0, 128),
         "its operand is in registers in a permuted order of k"),
        (gemm(part(tile("a", (64, 128), scope="local.fragment"), (0, 64), (64, 64)), B, C),
         (0, 128), "only a part of the fragment `a` is multiplied"),
        (gemm(A, part(tile("b", (72, 64)), (4, 0), (64, 64)), C), (0, 128),
         "the part of `b` starts inside the pattern of its layout"),
        (gemm(A, part(tile("b", (128, 64)), (I, 0), (64, 64)), C), (0, 128),
         "the part of `b` starts inside the pattern of its layout"),
        (gemm(part(tile("a", (64, 128)), (0, 32), (64, 64)), B, C), (0, 128),
         "the part of `a` along k ends inside a panel of 128 bytes"),
        (gemm(A, part(tile("b", (64, 192)), (0, 32), (64, 128)), tile("c", (64, 128), "float32")),
         (0, 128), "columns of `b` end inside a panel of 128 bytes"),
        (gemm(A, replace(B, strides=(72, 1)), C), (0, 128), "`b` is a part of another tile"),
    ],
)  # fmt: skip
def test_a_plan_says_why_it_is_not_by_warpgroups(
    stmt: S.Gemm, group: tuple[int, int], why: str
) -> None:
    plan = plan_gemm(stmt, group, SM_90A)
    assert plan.why == why
    assert not plan.uses_wgmma


def test_part_of_fragment_with_whole_c() -> None:
    whole = gemm(tile("a", (64, 64), scope="local.fragment"), B, C)
    assert plan_gemm(whole, (0, 128), SM_90A).uses_wgmma


def test_other_targets_have_nothing_to_say() -> None:
    for arch in ("sm_80", "sm_90", "sm_120a"):
        plan = plan_gemm(gemm(A, B, C), (0, 128), Context(parse_target(f"cuda -arch={arch}")))
        assert (plan.uses_wgmma, plan.why) == (False, "")
    off = Context(SM_90A.target, Options(no_wgmma=True))
    assert not plan_gemm(gemm(A, B, C), (0, 128), off).uses_wgmma


def test_a_known_layout_stays() -> None:
    narrow, padded = swizzled((64, 64), 16, 64), make_padded_layout(B)

    def known(layout: Layout) -> GemmPlan:
        return plan_gemm(
            gemm(A, B, C), (0, 128), SM_90A, lambda buffer, want: layout if buffer is B else want
        )

    plan = known(narrow)
    assert isinstance(plan.b, Descriptor)
    assert plan.b.span == 64
    assert known(padded).why == "no wgmma descriptor fits the layout of `b`"
    assert known(swizzled((64, 64), 16, 32)).uses_wgmma


def test_results_of_one_product_are_operands_of_another() -> None:
    """The accumulator of S = Q K^T, rounded to 16 bits, is A of P V: the same registers."""
    for m, threads in ((64, 128), (128, 128), (192, 384)):
        s = tile("s", (m, 64), "float32", "local.fragment")
        p = tile("p", (m, 64), scope="local.fragment")
        first = plan_gemm(gemm(tile("q", (m, 64)), B, s), (0, threads), SM_90A)
        second = plan_gemm(
            gemm(p, B, tile("o", (m, 64), "float32", "local.fragment")), (0, threads), SM_90A
        )
        assert isinstance(first.c, Registers)
        assert isinstance(second.a, Registers)
        assert first.c.spread.is_equivalent(second.a.spread)


@pytest.mark.parametrize("turned", [False, True])
def test_a_tile_is_multiplied_by_itself(turned: bool) -> None:
    @T.prim_func
    def squared(A: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 128), "float16")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c, transpose_B=turned)
            T.copy(c, C)

    text = tilelang.lower(squared, target="cuda -arch=sm_90a").source
    assert "tl_wgmma_m64" in text and "mma_m16" not in text
    a = np.random.default_rng(0).integers(-3, 4, (128, 128)).astype(np.float16)
    agrees(squared, (a, np.zeros((128, 128), np.float32)), on=("sm_90a",))
