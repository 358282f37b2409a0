"""Products by the matrix instructions of AMD's GPUs, lowered and run in the interpreter, whose
register layouts are written from the manuals."""

from __future__ import annotations

import re
from itertools import product as pairs

import numpy as np
import pytest
from hip.programs import CHIPS, PRODUCTS, product, small_numbers

from tilelang import interpret
from tilelang.compiler import lower
from tilelang.ir.dtypes import dtype as DType
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


@pytest.mark.parametrize(("kinds", "chip"), KINDS, ids=lambda item: str(item))
def test_products_use_the_instructions_of_the_chip(kinds, chip) -> None:
    name = "mfma" if chip.startswith("gfx9") else f"wmma_{chip[:5]}"
    assert f"T.{name}(" in holds(kinds, chip)


@pytest.mark.parametrize("chip", ("gfx942", "gfx1100", "gfx1201"))
@pytest.mark.parametrize("turn", list(pairs((False, True), repeat=2)), ids=str)
@pytest.mark.parametrize("kind", ("float16", "int8"))
def test_factors_may_lie_transposed(kind, turn, chip) -> None:
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


def test_every_row_and_column_of_the_tables_is_held_once() -> None:
    """Written out from the manuals once more: element -> (lane, register)."""
    for atom in ATOMS:
        if not atom.row.startswith(("mfma", "wmma")):
            continue
        lanes = np.arange(atom.width)
        for lane in lanes.tolist():
            for register in range(atom.c_registers):
                row, column = (int(x) for x in atom.c_layout.index_of(lane, register))
                part = lane // 16
                if atom.c is DType("float64"):
                    want = (lane % 16, 4 * register + part)
                elif atom.row == "wmma_gfx11":
                    want = (lane % 16, 2 * register + part)
                else:
                    want = (lane % 16, atom.c_registers * part + register)
                assert (row, column) == want
            for register in range(atom.a_registers):
                row, k = (int(x) for x in atom.a_layout.index_of(lane, register))
                part = 0 if atom.row == "wmma_gfx11" else lane // 16
                assert (row, k) == (lane % 16, atom.a_registers * part + register)
                assert tuple(int(x) for x in atom.b_layout.index_of(lane, register)) == (k, row)
