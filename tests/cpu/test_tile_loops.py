"""Tile operations become loops over exactly the elements that their definitions name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.loops.tiles import lower_tile_op, lower_tiles, lower_tiles_except
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func


def lowered(operation: Callable[..., None]) -> str:
    """Loops of ``operation(A, a, b, r, c, s)``: a tensor (4, 1, 8), tiles (4, 8), (8, 4), (4,),
    (8,) of float16, and an int32 tile (4, 8)."""

    @T.prim_func
    def kernel(A: T.Tensor((4, 1, 8), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((4, 8), "float16")
            b = T.alloc_shared((8, 4), "float16")
            r = T.alloc_fragment((4,), "float16")
            c = T.alloc_fragment((8,), "float16")
            s = T.alloc_shared((4, 8), "int32")
            operation(A, a, b, r, c, s)

    lines = body_of(
        lower_tiles(serialize_threads(simplify_func(kernel, CPU), CPU), CPU)
    ).splitlines()
    return "\n".join(lines[5:])


def test_copy_casts_and_leaves_out_unit_dimensions() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.copy(a, A[:, 0, :])) == text("""
        for i in T.serial(4, parallel=0):
            for j in T.serial(8, parallel=1):
                A[i, 0, j] = T.Cast("float32", a[i, j])
        """)


def test_copy_of_a_part_starts_at_both_offsets() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.copy(A[2, 0, 0:4], a[1, 4:8])) == text("""
        for i in T.serial(4, parallel=0):
            a[1, 4 + i] = T.Cast("float16", A[2, 0, i])
        """)


def test_fill_casts_its_value_and_touches_only_its_region() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.fill(a[1:3, :], 2)) == text("""
        for i in T.serial(2, parallel=0):
            for j in T.serial(8, parallel=1):
                a[1 + i, j] = T.float16(2.0)
        """)


def test_transpose_swaps_the_indices_of_the_source() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.transpose(a, b)) == text("""
        for i in T.serial(8, parallel=0):
            for j in T.serial(4, parallel=1):
                b[i, j] = a[j, i]
        """)


def test_a_sum_along_the_last_dimension_is_kept_in_float32_and_rounded_once() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.reduce_sum(a, r, dim=1)) == text("""
        for i in T.serial(4, parallel=0):
            total = T.alloc_buffer((1,), "float32", scope="local.var")
            total[0] = T.float32(0.0)
            for k in T.serial(8, reduction=(("add", total),)):
                total[0] = total[0] + T.Cast("float32", a[i, k])
            r[i] = T.Cast("float16", total[0])
        """)


def test_a_reduction_without_clear_joins_the_old_value() -> None:
    shown = lowered(lambda A, a, b, r, c, s: T.reduce_max(a, r, dim=1, clear=False))
    assert shown.endswith('r[i] = T.max(r[i], T.Cast("float16", total[0]))')


def test_a_reduction_along_another_dimension_runs_row_after_row() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.reduce_absmax(a, c, dim=0)) == text("""
        for i in T.serial(8, parallel=0):
            c[i] = T.float16(0.0)
        for k in range(4):
            for i in T.serial(8, parallel=0):
                c[i] = T.max(c[i], T.abs(a[k, i]))
        """)


def test_a_scan_carries_its_total_along_the_dimension() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.cumsum(s, s, dim=1)) == text("""
        for i in T.serial(4, parallel=0):
            total = T.alloc_buffer((1,), "int32", scope="local.var")
            total[0] = 0
            for k in T.serial(8, scan=("add", total)):
                total[0] = total[0] + s[i, k]
                s[i, k] = total[0]
        """)


def test_a_reverse_scan_starts_at_the_end() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.cumsum(s, s, dim=1, reverse=True)) == text("""
        for i in T.serial(4, parallel=0):
            total = T.alloc_buffer((1,), "int32", scope="local.var")
            total[0] = 0
            for k in range(8):
                total[0] = total[0] + s[i, 7 - k]
                s[i, 7 - k] = total[0]
        """)


def test_a_scan_across_rows_adds_the_row_before() -> None:
    assert lowered(lambda A, a, b, r, c, s: T.cumsum(s, s, dim=0, reverse=True)) == text("""
        for i in T.serial(8, parallel=0):
            s[3, i] = s[3, i]
        for k in T.serial(1, 4):
            for i in T.serial(8, parallel=0):
                s[3 - k, i] = s[3 - (k - 1), i] + s[3 - k, i]
        """)


def product(clear: bool, left: bool, right: bool) -> str:
    """Loops of a 4 x 4 product whose operands are transposed as told."""

    def operation(A: object, a: object, b: object, r: object, c: object, s: object) -> None:
        T.gemm(
            b if left else a,
            a if right else b,
            T.alloc_fragment((4, 4), "float16"),
            transpose_A=left,
            transpose_B=right,
            clear_accum=clear,
        )

    return lowered(operation).split("\n", 1)[1]


@pytest.mark.parametrize("clear", [False, True])
def test_a_product_sums_in_its_accumulator_and_rounds_once(clear: bool) -> None:
    first = "T.float32(0.0)" if clear else 'T.Cast("float32", buf[i, j])'
    assert product(clear, False, False) == text(f"""
        for i in range(4):
            for j in range(4):
                total = T.alloc_buffer((1,), "float32", scope="local.var")
                total[0] = {first}
                for k in T.serial(8, reduction=(("add", total),)):
                    total[0] = total[0] + T.Cast("float32", a[i, k]) * T.Cast("float32", b[k, j])
                buf[i, j] = T.Cast("float16", total[0])
        """)


@pytest.mark.parametrize(
    ("left", "right", "factors"),
    [(True, False, "b[k, i] b[k, j]"), (False, True, "a[i, k] a[j, k]"),
     (True, True, "b[k, i] a[j, k]")],
)  # fmt: skip
def test_a_transposed_operand_swaps_its_own_indices(left: bool, right: bool, factors: str) -> None:
    a, b = factors.replace("] ", "]|").split("|")
    assert f'T.Cast("float32", {a}) * T.Cast("float32", {b})\n' in product(False, left, right)


def test_an_atomic_tile_is_one_atomic_per_element_in_order() -> None:
    shown = lowered(lambda A, a, b, r, c, s: T.atomic_add(A[:, 0, :], a))
    assert shown.splitlines()[:2] == ["for i in range(4):", "    for j in range(8):"]
    assert 'T.atomic_add(T.address_of(A[i, 0, j]), T.Cast("float32", a[i, j])' in shown


def test_print_shows_elements_in_row_major_order() -> None:
    shown = lowered(lambda A, a, b, r, c, s: T.print(b))
    assert "T.print(b[i, j], i * 4 + j, " in shown


def test_a_product_that_the_back_end_has_a_kernel_for_is_left() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float32")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c)

    kept = lower_tiles_except(kernel, lambda gemm: gemm.c.buffer.name == "c")
    assert [type(n).__name__ for n in S.walk(kept.body) if isinstance(n, S.TileOp)] == ["Gemm"]
    assert not [n for n in S.walk(lower_tiles(kernel, CPU).body) if isinstance(n, S.TileOp)]


def test_a_statement_that_is_no_tile_operation_is_itself() -> None:
    stmt = S.Break()
    assert lower_tile_op(stmt) is stmt


def test_an_operation_of_gpu_hardware_is_refused_by_what_it_needs() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        lower_tile_op(S.HardwareOp(name="wgmma_gemm", needs="wgmma"))
    assert str(caught.value) == text("""
        T.wgmma_gemm needs sm_90a
          expected: a target with sm_90a
          got: a target that runs blocks on CPU cores
          hint: write the operation with T.copy and T.gemm, or choose another target
        """)
