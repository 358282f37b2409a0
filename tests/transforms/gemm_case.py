"""Products of every kind as programs, lowered and run with a watch over shared memory, against numpy."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from thread_races import Watch

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.interpret import values
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import Rewriter
from tilelang.options import Options
from tilelang.target import parse_target
from tilelang.transforms.layouts.gemm_plan import GemmPlan


class Without(Rewriter):
    """A program without the calls of one name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        call = stmt.value if isinstance(stmt, S.Eval) else None
        return None if isinstance(call, E.Call) and call.op == self.name else stmt


@dataclass(frozen=True)
class Case:
    """A product and how it is run."""

    m: int
    n: int
    k: int
    dtype: str = "float16"
    out: str = "float32"
    trans_a: bool = False
    trans_b: bool = False
    policy: int = 0
    threads: int = 128
    scopes: str = "ss"  # of A and B: s(hared) or r(egisters)
    c_scope: str = "fragment"
    clear: str = "no"  # no, yes, expression
    arch: int = 80
    stages: int = 0  # leading dimension of shared factors
    lo: int = 0  # first thread of the group
    margin: tuple[int, int] = (0, 0)  # rows and columns before the region of shared factors


def encode(array: Any, dtype: str) -> Any:
    """Storage elements of small integers."""
    kind = DType(dtype)
    codes = values.encode(np.asarray(array).astype(values.compute_dtype(kind)), kind)
    if kind.packing > 1:
        codes = (codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))).astype(np.uint8)
    return np.ascontiguousarray(codes)


def program(case: Case) -> S.PrimFunc:
    """The product of two matrices that one block copies to where the case wants them."""
    alloc = {"s": T.alloc_shared, "r": T.alloc_fragment}
    alloc_c = getattr(T, f"alloc_{case.c_scope}")
    a_shape = (case.k, case.m) if case.trans_a else (case.m, case.k)
    b_shape = (case.n, case.k) if case.trans_b else (case.k, case.n)
    lead = (case.stages,) if case.stages else ()

    def around(shape: tuple[int, int], scope: str) -> tuple[int, ...]:
        more = case.margin if scope == "s" else (0, 0)
        return (*(lead if scope == "s" else ()), shape[0] + more[0], shape[1] + more[1])

    def part(tile: Any, shape: tuple[int, int]) -> Any:
        if tuple(map(int, tile.shape)) == shape:
            return tile
        last, (row, column) = tuple(extent - 1 for extent in lead), case.margin
        return tile[(*last, slice(row, row + shape[0]), slice(column, column + shape[1]))]

    @T.prim_func
    def product(
        A: T.Tensor(a_shape, case.dtype), B: T.Tensor(b_shape, case.dtype), flag: T.int32,
        C: T.Tensor((case.m, case.n), case.out),
    ):  # fmt: skip
        with T.Kernel(1, threads=case.lo + case.threads):
            if not case.lo or T.get_thread_binding() >= case.lo:
                a = alloc[case.scopes[0]](around(a_shape, case.scopes[0]), case.dtype)
                b = alloc[case.scopes[1]](around(b_shape, case.scopes[1]), case.dtype)
                c = alloc_c((case.m, case.n), case.out)
                T.copy(A, part(a, a_shape))
                T.copy(B, part(b, b_shape))
                if case.clear == "no":
                    T.copy(C, c)
                T.gemm(
                    part(a, a_shape), part(b, b_shape), c,
                    transpose_A=case.trans_a, transpose_B=case.trans_b, policy=case.policy,
                    clear_accum={"no": False, "yes": True, "expression": flag == 1}[case.clear],
                )  # fmt: skip
                T.copy(c, C)

    return product


def lowered(case: Case) -> tuple[S.PrimFunc, GemmPlan]:
    """The program of a case as Thread IR, and how it multiplies."""
    found: dict[str, S.PrimFunc] = {}
    target = parse_target(f"cuda -arch=sm_{case.arch}{'a' if case.arch == 90 else ''}")
    func = lower(program(case), target, Options(no_tma=True, no_roles=True), found.__setitem__)
    (gemm,) = S.find(found["infer_layouts"].body, S.Gemm)
    return func, gemm.plan


def results(case: Case, func: S.PrimFunc) -> tuple[Any, Any]:
    """What ``func`` computes, and what numpy does."""
    rng = np.random.default_rng(case.m * 7 + case.n * 3 + case.k)
    low, high = (0, 4) if DType(case.dtype).is_uint else (-3, 4)
    a, b = (rng.integers(low, high, shape) for shape in ((case.m, case.k), (case.k, case.n)))
    c = rng.integers(0, 4, (case.m, case.n))
    A, B = (
        encode(x.T if turned else x, case.dtype)
        for x, turned in ((a, case.trans_a), (b, case.trans_b))
    )
    C = encode(c, case.out)
    interpret.run(func, (A, B, 1, C), observer=Watch())
    wanted, out = a @ b + (c if case.clear == "no" else 0), DType(case.out)
    if out.is_int or out.is_uint:
        wanted = wanted.astype(out.as_numpy())  # it wraps around
    return np.asarray(values.decode(C, out)), wanted


def check(case: Case) -> GemmPlan:
    """Run ``case`` and compare with numpy; the plan is returned."""
    func, plan = lowered(case)
    found, wanted = results(case, func)
    assert (found == wanted).all(), f"{case}: {np.argwhere(found != wanted)[:5]}"
    return plan
