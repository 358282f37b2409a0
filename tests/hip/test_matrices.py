"""Products by the matrix instructions of AMD's GPUs, lowered and run in the interpreter, whose
register layouts are written from the manuals."""

from __future__ import annotations

import re
from itertools import product as pairs

import numpy as np
import pytest
from hip.programs import CHIPS, PRODUCTS, product, small_numbers
from tensor_types import F16, F32

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.explain.report import explain
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target
from tilelang.target.atoms import ATOMS, find_atom

KINDS = [(kinds, chip) for kinds, chips in PRODUCTS.items() for chip in chips]


def holds(kinds, chip, m=32, n=64, k=64, threads=128, turn=(False, False)) -> str:
    """The lowered program computes the product of whole numbers exactly; gives its text."""
    func = product(*kinds, m, n, k, threads, turn)
    made = lower(func, parse_target(f"hip -mcpu={chip}"), Options())
    a, left = small_numbers((k, m) if turn[0] else (m, k), kinds[0], 1)
    b, right = small_numbers((n, k) if turn[1] else (k, n), kinds[1], 2)
    c = np.zeros((m, n), kinds[2])
    interpret.run(made, [a, b, c])
    want = (left.T if turn[0] else left) @ (right.T if turn[1] else right)
    np.testing.assert_array_equal(c, want.astype(kinds[2]))
    return made.script()


@pytest.mark.share(3)
@pytest.mark.parametrize(("kinds", "chip"), KINDS, ids=lambda item: str(item))
def test_products_use_the_instructions_of_the_chip(kinds, chip) -> None:
    name = "mfma" if chip.startswith("gfx9") else f"wmma_{chip[:5]}"
    assert f"T.{name}(" in holds(kinds, chip)


@pytest.mark.share(4)
@pytest.mark.parametrize("chip", ("gfx942", "gfx1100", "gfx1201"))
@pytest.mark.parametrize("turn", list(pairs((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize("kind", ("float16", "int8"))
def test_operands_may_be_transposed(kind, turn, chip) -> None:
    holds((kind, kind, "float32" if kind == "float16" else "int32"), chip, 64, 32, 32, 64, turn)


@pytest.mark.parametrize("chip", CHIPS)
def test_an_instruction_of_another_vendor_is_never_chosen(chip) -> None:
    target = parse_target(f"hip -mcpu={chip}")
    kinds = {str(kind) for atom in ATOMS for kind in (atom.a, atom.b)}
    for a, b, c in pairs(kinds, kinds, ("float16", "float32", "float64", "int32")):
        atom = find_atom(DType(a), DType(b), DType(c), 128, target.features)
        assert atom is None or atom.row in ("mfma", "wmma_gfx11", "wmma_gfx12")
        assert atom is None or atom.width == target.limits.warp


def test_a_program_without_an_instruction_is_multiplied_by_threads() -> None:
    text = holds(("float32", "float32", "float32"), "gfx1100")
    assert not re.search("mfma|wmma|mma", text)


def test_every_row_and_column_of_the_tables_is_in_one_register() -> None:
    """Written out from the manuals once more: element -> (lane, register)."""
    for atom in ATOMS:
        if not atom.row.startswith(("mfma", "wmma")):
            continue
        side = atom.m
        for lane in range(atom.width):
            line, part = lane % side, lane // side
            for register in range(atom.c_registers):
                column = atom.c_registers * part + register
                if atom.c is DType("float64"):
                    column = 4 * register + part
                elif atom.row == "wmma_gfx11":
                    column = 2 * register + part
                elif side == 32:  # groups of four columns, in turn with the other half of the lanes
                    column = 8 * (register // 4) + 4 * part + register % 4
                assert tuple(map(int, atom.c_layout.index_of(lane, register))) == (line, column)
            runs = atom.a_registers if atom.row != "mfma" else atom.k_run
            for register in range(atom.a_registers):
                k = (0 if atom.row == "wmma_gfx11" else part) * runs + register
                if runs < atom.a_registers:  # the order of the columns of a result
                    k = runs * (register // runs * (64 // side) + part) + register % runs
                assert tuple(map(int, atom.a_layout.index_of(lane, register))) == (line, k)
                assert tuple(map(int, atom.b_layout.index_of(lane, register))) == (k, line)


@pytest.mark.parametrize(
    ("chip", "sizes", "want"),
    [
        ("gfx942", (64, 64, 64, 64), "m32n32k16"),
        ("gfx942", (64, 64, 64, 256), "m32n32k16"),
        ("gfx942", (32, 64, 64, 128), "m32n32k16"),
        ("gfx942", (32, 64, 64, 256), "m16n16k32"),  # the tile of a wavefront is 16 x 32
        ("gfx942", (48, 64, 16, 64), "m16n16k16"),
        ("gfx950", (64, 64, 64, 64), "m32n32k16"),
    ],
)
def test_the_larger_instruction_is_used_where_it_divides_the_tile_of_a_wavefront(
    chip, sizes, want
) -> None:
    m, n, k, threads = sizes
    text = holds(("float16", "float16", "float32"), chip, m, n, k, threads, (False, True))
    assert f"shape='{want}'" in text.replace('"', "'"), text[-2000:]


@pytest.mark.parametrize(
    ("chip", "sizes", "want"),
    [
        ("gfx1100", (16, 16, 32, 128), "1 x 1 warps, each 1 x 1 tiles in 2 steps, 4 times over"),
        ("gfx1100", (32, 16, 32, 128), "2 x 1 warps, each 1 x 1 tiles in 2 steps, 2 times over"),
        ("gfx1100", (48, 32, 32, 128), "1 x 2 warps, each 3 x 1 tiles in 2 steps, 2 times over"),
        ("gfx1201", (48, 16, 16, 96), "3 x 1 warps, each 1 x 1 tiles in 1 step"),
        ("gfx1201", (16, 64, 16, 256), "1 x 4 warps, each 1 x 1 tiles in 1 step, 2 times over"),
        ("gfx942", (16, 16, 32, 256), "1 x 1 warps, each 1 x 1 tiles in 1 step, 4 times over"),
        ("gfx942", (32, 32, 32, 192), "1 x 1 warps, each 1 x 1 tiles in 2 steps, 3 times over"),
    ],
)
def test_warps_without_a_part_of_the_result_compute_that_of_another(chip, sizes, want) -> None:
    kinds, (m, n, k, threads) = ("float16", "float16", "float32"), sizes
    holds(kinds, chip, m, n, k, threads)
    func = product(*kinds, m, n, k, threads)
    lines = explain(func, parse_target(f"hip -mcpu={chip}"), Options()).splitlines()
    assert any(line.endswith(want) for line in lines), lines


@pytest.mark.parametrize(
    ("chip", "kind", "sizes", "width"),
    [
        ("gfx942", "float16", (64, 256, 32, 128), 8),  # the tiles of a wavefront: 2 x 4
        ("gfx942", "float16", (64, 64, 32, 64), 4),  # 2 x 2
        ("gfx942", "float16", (64, 96, 32, 64), 2),  # 2 x 3, one column at a time
        ("gfx942", "float32", (64, 128, 32, 64), 8),
        ("gfx942", "int8", (64, 256, 64, 64), 8),
        ("gfx1100", "float16", (64, 128, 32, 64), 8),
        ("gfx1201", "bfloat16", (64, 128, 32, 64), 8),
    ],
)
def test_columns_of_a_factor_whose_rows_are_contiguous_are_read_together(
    chip, kind, sizes, width
) -> None:
    m, n, k, threads = sizes
    total = "int32" if kind == "int8" else "float32"
    text = holds((kind, kind, total), chip, m, n, k, threads)
    reads = re.findall(r"T.vector_copy\(.*columns.*bytes=(\d+)", text)
    assert set(map(int, reads)) == ({width} if width > 2 else set()), text[-3000:]


@pytest.mark.parametrize("chip", ("gfx942", "gfx1100"))
def test_products_that_are_added_to_one_tile_agree_on_its_columns(chip) -> None:
    @T.prim_func
    def func(A: F16[64, 32], B: F16[32, 128], D: F16[128, 32], C: F32[64, 128]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 32), "float16")
            b, d = T.alloc_shared((32, 128), "float16"), T.alloc_shared((128, 32), "float16")
            c = T.alloc_fragment((64, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.clear(c)
            T.gemm(a, b, c)
            T.gemm(a, d, c, transpose_B=True)
            T.copy(c, C)

    made = lower(func, parse_target(f"hip -mcpu={chip}"), Options())
    (a, left), (b, right), (d, other) = (
        small_numbers(shape, "float16", seed)
        for seed, shape in enumerate(((64, 32), (32, 128), (128, 32)))
    )
    c = np.zeros((64, 128), np.float32)
    interpret.run(made, [a, b, d, c])
    np.testing.assert_array_equal(c, left @ right + left @ other.T)
    assert made.script().count('scope="shared') <= 3


def attention(rows: int, columns: int, dim: int) -> PrimFunc:
    """(Q K^T) V without a softmax; what is between the products stays in registers."""

    @T.prim_func
    def func(Q: F16[rows, dim], K: F16[columns, dim], V: F16[columns, dim], O: F32[rows, dim]):
        with T.Kernel(1, threads=128):
            q, k = T.alloc_shared((rows, dim), "float16"), T.alloc_shared((columns, dim), "float16")
            v = T.alloc_shared((columns, dim), "float16")
            s = T.alloc_fragment((rows, columns), "float32")
            p = T.alloc_fragment((rows, columns), "float16")
            o = T.alloc_fragment((rows, dim), "float32")
            T.copy(Q, q)
            T.copy(K, k)
            T.copy(V, v)
            T.clear(s)
            T.clear(o)
            T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
            T.copy(s, p)
            T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(o, O)

    return func


@pytest.mark.parametrize("chip", ("gfx942", "gfx950"))
@pytest.mark.parametrize("sizes", [(64, 64, 64), (64, 32, 48), (32, 64, 32), (64, 32, 32)], ids=str)
def test_a_result_is_the_factor_of_the_next_product_in_its_registers(sizes, chip) -> None:
    rows, columns, dim = sizes
    made = lower(attention(*sizes), parse_target(f"hip -mcpu={chip}"), Options())
    q, left = small_numbers((rows, dim), "float16", 1)
    k, right = small_numbers((columns, dim), "float16", 2)
    v, last = small_numbers((columns, dim), "float16", 3)
    o = np.zeros((rows, dim), np.float32)
    interpret.run(made, [q, k, v, o])
    np.testing.assert_array_equal(o, left @ right.T @ last)
    text = made.script()
    assert len(set(re.findall(r"m\d+n\d+", text))) == 1
    assert text.count('scope="shared') <= 3 and "shfl" not in text
