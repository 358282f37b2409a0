"""The text of pipelined loops: counted stages, and addresses with their constants apart."""

from __future__ import annotations

import re

import pytest
from gemm_program import gemm_program

import tilelang
from tilelang.cuda.dialect import compiler_flags
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia import ATOMS

INT = DType("int32")


def product(stages: int, depth: int = 32, trips: int = 8, size: int = 64) -> str:
    """CUDA text of a product."""
    kernel = gemm_program(size, size, depth * trips, (size, size, depth), stages, out="float16")
    return str(tilelang.lower(kernel, target="cuda -arch=sm_80").source)


def test_stages_go_around_with_the_loop() -> None:
    text = product(3)
    head = (
        "for (int k = 0, stage = 0, stage_1 = 1, stage_2 = 2; k < 8; ++k, stage = stage_1, "
        "stage_1 = stage_2, stage_2 = stage_2 == 2 ? 0 : stage_2 + 1) {"
    )
    assert head in text
    assert "% 3 " not in text


@pytest.mark.parametrize("stages", [2, 4])
def test_powers_of_two_stay_remainders(stages: int) -> None:
    text = product(stages)
    assert f"k % {stages}" in text
    assert "stage" not in text


def test_constants_of_addresses_are_immediate_offsets() -> None:
    text = product(2, 64, 4)
    rows = [line.strip() for line in text.splitlines() if "tl_ldmatrix_x4(" in line]
    assert rows[0] == "tl_ldmatrix_x4(&a0[q * 8], &a[a_at_1] + q * 1024);"
    columns = re.findall(r"tl_ldmatrix_x4_trans\(&b\d\[\w+ \* 8\], &b\[.*\](.*)\);", text)
    assert columns == ["", " + 1024", " + 2048", " + 3072", ""]
    copies = re.findall(r"tl_cp_async_16(?:_if)?\((&[ab]\[[^;]*?), (&[AB]\[.*)\);", text)
    assert len(copies) == 4
    assert all(re.fullmatch(r"&\w+\[\w+\] \+ s\w* \* 1024", place) for place, _ in copies)
    assert all(re.search(r"\] \+ s\w* \* \d+(, more)?$", source) for _, source in copies)


def test_copies_ahead_have_a_condition_each() -> None:
    text = product(2, 32, 4, size=128)  # 64 matrix instructions in an iteration
    assert "const bool more = k < 3;" in text
    assert len(re.findall(r"tl_cp_async_16_if\(.*, more\);", text)) == 2
    assert "if (k" not in text


PLAIN = "-DTL_PLAIN_INDICES"


@pytest.mark.parametrize(
    ("matrix", "flags"),
    [
        (64, (PLAIN, "--ptxas-options=-O2")),
        (65, (PLAIN,)),
        (0, ("-DTL_THREADS=128", "-DTL_BLOCKS=4")),
    ],
)
def test_options_of_the_compiler_go_by_the_matrix_instructions_of_a_loop(
    matrix: int, flags: tuple[str, ...]
) -> None:
    registers = E.AddressOf(Buffer("here", Shape((64,)), DType("float32")), (E.const(0),), "rw")
    call = S.Eval(value=E.call(ATOMS["mma"], registers, registers, registers, dtype="void"))
    ends = {"start": E.const(0), "step": E.const(1)}
    unrolled = S.For(var=E.Var("i", INT), stop=E.const(matrix), body=call, kind="unroll", **ends)
    loop = S.For(var=E.Var("k", INT), stop=E.const(8), body=unrolled, **ends)
    launch = S.Launch(grid=(4,), block_vars=(), thread_vars=(), body=loop)
    assert compiler_flags(S.PrimFunc(name="f", params=(), body=launch)) == flags


def test_copies_stay_under_one_condition_where_little_hides_them() -> None:
    text = product(2, 64, 4)
    assert "if (k < 3) {" in text and "_if(" not in text


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
    kernel = gemm_program(2048, 2048, 512, (128, 128, 64), stages, out="float16")
    loop = str(tilelang.lower(kernel, target="cuda -arch=sm_90a").source).split("for (int k", 1)[1]
    places = [loop.index(text) for text in order]
    assert places == sorted(places)
