"""Host statements as steps over slots: programs, assertions, loops, workspaces, launches."""

from __future__ import annotations

from dataclasses import asdict

import tilelang.language as T
from tilelang.codegen.gpu.module import (
    AssertStep,
    CudaModule,
    KernelArg,
    LaunchPlan,
    LetStep,
    WorkspaceStep,
)
from tilelang.cuda.dialect import emit_cuda
from tilelang.errors import Site
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import evaluate
from tilelang.target import Target

SM80 = Target("cuda", "sm_80")


def test_grids_follow_symbols_and_arguments_are_pointers_first() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def func(k: T.int32, A: T.Tensor((n, 8), "float16"), s: T.float64):
        with T.Kernel(T.ceildiv(n, 16), k + 1, threads=(8, 2)) as (bx, by):
            if bx * 16 < n:
                A[bx * 16, by] = s

    module = emit_cuda(func, SM80)
    (plan,) = module.steps
    assert isinstance(plan, LaunchPlan)
    slots = [3, 1000, 0, 50]  # k, A, s, n
    assert [evaluate(extent, slots) for extent in plan.grid] == [4, 4, 1]
    assert plan.threads == (8, 2, 1)
    assert plan.args == (
        KernelArg(1, "pointer", "float16"),
        KernelArg(2, "float", "float64"),
        KernelArg(3, "int", "int32"),
    )
    assert module.slots == 4


def test_host_values_get_slots_and_assertions_get_messages() -> None:
    n, half = E.Var("n", DType("int32")), E.Var("half", DType("int32"))
    A = Buffer("A", Shape((64,)), DType("int32"))
    store = S.Store(buffer=A, indices=(E.const(0),), value=half)
    body = S.seq(
        S.Let(var=half, value=E.as_expr(n // 2)),
        S.Assert(cond=half > 0, message="n is too small"),
        S.Launch(grid=(half,), block_vars=(), thread_vars=(), body=store),
    )
    module = emit_cuda(S.PrimFunc("f", (A, n), body), SM80)
    let, check, plan = module.steps
    assert isinstance(let, LetStep) and isinstance(check, AssertStep)
    assert (let.slot, let.dtype, evaluate(let.value, [0, 9])) == (2, "int32", 4)
    assert module.messages[check.message] == "Assert failed: n is too small"
    assert module.sites[check.message] == Site("half > 0", in_kernel=False)
    assert [evaluate(check.condition, [0, 0, value]) for value in (0, 4)] == [0, 1]
    assert plan.args == (KernelArg(0, "pointer", "int32"), KernelArg(2, "int", "int32"))
    assert module.slots == 3


def test_float_values_of_the_host_are_computed_in_the_kernel() -> None:
    s, x = E.Var("s", DType("float32")), E.Var("x", DType("float32"))
    A = Buffer("A", Shape((4,)), DType("float32"))
    store = S.Store(buffer=A, indices=(E.const(0),), value=x)
    body = S.seq(
        S.Let(var=x, value=E.as_expr(s * 2.0)),
        S.Launch(grid=(E.const(1),), block_vars=(), thread_vars=(), body=store),
    )
    module = emit_cuda(S.PrimFunc("f", (A, s), body), SM80)
    assert "    const float x = s * 2.0f;\n" in module.source
    assert module.steps[0].args[1] == KernelArg(1, "float", "float32")


def test_narrow_scalars_arrive_as_float_and_are_rounded() -> None:
    @T.prim_func
    def func(A: T.Tensor((4,), "float16"), s: T.float16):
        with T.Kernel(1, threads=1):
            A[0] = s

    module = emit_cuda(func, SM80)
    assert "__restrict__ A, float s_raw) {" in module.source
    assert "const float s = tl_round_f16(s_raw);" in module.source
    assert module.steps[0].args[1] == KernelArg(1, "float", "float32")


def test_workspaces_are_allocated_per_call() -> None:
    n = E.Var("n", DType("int32"))
    A = Buffer("A", Shape((4,)), DType("float32"))
    space = Buffer("space", Shape((n, 8)), DType("float16"))
    store = S.Store(buffer=space, indices=(E.const(0), E.const(1)), value=E.const(1, "float16"))
    launch = S.Launch(grid=(n,), block_vars=(), thread_vars=(), body=store)
    module = emit_cuda(S.PrimFunc("f", (A, n), S.seq(S.Alloc(buffer=space), launch)), SM80)
    step, plan = module.steps
    assert isinstance(step, WorkspaceStep)
    assert evaluate(step.bytes, [0, 5]) == 5 * 8 * 2
    assert plan.args == (KernelArg(step.slot, "pointer", "float16"),)


def test_several_kernels_and_branches() -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), "float32"), n: T.int32):
        if n > 3:
            with T.Kernel(n, threads=32) as bx:
                A[bx] = 1.0
        with T.Kernel(1, threads=32):
            A[0] = 2.0

    module = emit_cuda(func, SM80)
    branch, second = module.steps
    assert evaluate(branch.condition, [0, 4]) == 1
    assert branch.then[0].kernel == "func_kernel"
    assert (branch.orelse, second.kernel) == ((), "func_kernel_2")
    assert module.kernels == ("func_kernel", "func_kernel_2")


def test_modules_are_plain_data() -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    module = emit_cuda(func, SM80)
    import json

    assert json.loads(json.dumps(asdict(module)))["kernels"] == ["func_kernel"]
    assert isinstance(eval(repr(module)), CudaModule)  # noqa: S307  # our own text
