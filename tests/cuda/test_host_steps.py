"""Host statements as steps over slots: programs, assertions, loops, workspaces, launches."""

from __future__ import annotations

from dataclasses import asdict

import tilelang.language as T
from tilelang.codegen.gpu import module as steps
from tilelang.codegen.gpu.module import (
    AssertStep,
    GpuModule,
    KernelArg,
    LetStep,
)
from tilelang.cuda.dialect import emit_cuda
from tilelang.errors import Site
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import evaluate
from tilelang.target import Target

SM80 = Target("cuda", "sm_80")


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


def test_modules_are_plain_data() -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    module = emit_cuda(func, SM80)
    import json

    assert json.loads(json.dumps(asdict(module)))["kernels"] == ["func_kernel"]
    assert isinstance(eval(repr(module), vars(steps)), GpuModule)  # noqa: S307  # our own text
