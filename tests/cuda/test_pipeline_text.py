"""The text of pipelined loops: counted stages, and addresses with their constants apart."""

from __future__ import annotations

import pytest
from gemm_program import gemm_program

import tilelang
from tilelang.cuda.dialect import compiler_flags
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia import ATOMS

INT = DType("int32")


PLAIN = "-DTL_PLAIN_INDICES"


@pytest.mark.parametrize(
    ("matrix", "flags"),
    [
        (64, (PLAIN, "--ptxas-options=-O2")),
        (65, (PLAIN,)),
        (0, ("-DTL_THREADS=128", "-DTL_BLOCKS=4")),
    ],
)
def test_compiler_options_depend_on_matrix_instructions_of_a_loop(
    matrix: int, flags: tuple[str, ...]
) -> None:
    registers = E.AddressOf(Buffer("here", Shape((64,)), DType("float32")), (E.const(0),), "rw")
    call = S.Eval(value=E.call(ATOMS["mma"], registers, registers, registers, dtype="void"))
    ends = {"start": E.const(0), "step": E.const(1)}
    unrolled = S.For(var=E.Var("i", INT), stop=E.const(matrix), body=call, kind="unroll", **ends)
    loop = S.For(var=E.Var("k", INT), stop=E.const(8), body=unrolled, **ends)
    launch = S.Launch(grid=(4,), block_vars=(), thread_vars=(), body=loop)
    assert compiler_flags(S.PrimFunc(name="f", params=(), body=launch)) == flags


@pytest.mark.parametrize(
    ("stages", "order"),
    [
        (2, ("&empty[", "tl_tma_load(", "wait(&full[", "tl_wgmma_commit(", "tl_wgmma_wait<0>")),
        (3, ("wait(&full[", "tl_wgmma_commit(", "&empty[", "tl_tma_load(", "tl_wgmma_wait<0>")),
    ],
)
def test_copies_are_issued_before_a_wait_or_while_a_product_runs(
    stages: int, order: tuple[str, ...]
) -> None:
    """With two stages nothing else hides the latency of a copy."""
    stated = {"stages": stages}
    kernel = gemm_program(2048, 2048, 512, (128, 128, 64), out="float16", stated=stated)
    loop = str(tilelang.lower(kernel, target="cuda -arch=sm_90a").source).split("for (int k", 1)[1]
    places = [loop.index(text) for text in order]
    assert places == sorted(places)
