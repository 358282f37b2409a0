"""Register layouts of the matrix instructions, against the figures of the PTX manual."""

from __future__ import annotations

import numpy as np
import pytest

from tilelang.interpret.matrices import register_layout
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.target import parse_target
from tilelang.target.atoms import ATOMS, find_atom
from tilelang.target.matrices import MmaAtom
from tilelang.target.nvidia_mma import MMA_SYNC

SM_80 = parse_target("cuda -arch=sm_80").features


@pytest.mark.parametrize("atom", MMA_SYNC, ids=lambda atom: f"{atom.shape}-{atom.a}-{atom.c}")
def test_every_register_holds_the_element_of_the_manual(atom: MmaAtom) -> None:
    """And each element is in one register."""
    slots = (atom.a_registers, atom.b_registers, atom.c_registers)
    layouts = (atom.a_layout, atom.b_layout, atom.c_layout)
    for layout, count, table in zip(layouts, slots, register_layout(atom.shape, atom.a.bits)):
        assert layout.threads == WARP
        assert layout.register_count == table.shape[1] == count
        assert np.array_equal(layout.index_table(), table)
        places = layout.owner_table()[..., 0] * count + layout.register_table()
        assert sorted(places.reshape(-1)) == list(range(WARP * count))


@pytest.mark.parametrize(
    ("a", "c", "k", "arch", "shape"),
    [
        ("float16", "float32", 32, 80, "m16n8k16"),
        ("float16", "float32", 24, 80, "m16n8k8"),
        ("float16", "float32", 32, 75, "m16n8k16"),
        ("bfloat16", "float32", 16, 80, "m16n8k16"),
        ("bfloat16", "float32", 16, 75, None),
        ("float32", "float32", 16, 80, "m16n8k8"),
        ("tfloat32", "float32", 16, 80, "m16n8k8"),
        ("float32", "float32", 4, 80, "m16n8k4"),
        ("float32", "float32", 16, 75, None),
        ("float64", "float64", 4, 80, "m8n8k4"),
        ("int8", "int32", 64, 80, "m16n8k32"),
        ("int8", "int32", 16, 86, "m16n8k16"),
        ("uint8", "int32", 64, 75, "m16n8k32"),
        ("uint8", "int32", 16, 75, None),
        ("int4", "int32", 64, 80, "m16n8k64"),
        ("uint4", "int32", 96, 80, "m16n8k32"),
        ("int8", "int64", 64, 80, None),
        ("float8_e4m3", "float32", 32, 89, "m16n8k32"),
        ("float8_e5m2", "float16", 32, 120, "m16n8k32"),
        ("float8_e4m3fn", "float32", 32, 80, None),
        ("float8_e4m3fnuz", "float32", 32, 90, None),
        ("int16", "int32", 32, 90, None),
        ("float16", "float64", 32, 90, None),
        ("float16", "float32", 12, 90, None),
    ],
)
def test_instruction_of_a_product(a: str, c: str, k: int, arch: int, shape: str | None) -> None:
    found = find_atom(
        DType(a), DType(a), DType(c), k, parse_target(f"cuda -arch=sm_{arch}").features
    )
    assert (None if found is None else found.shape) == shape


def test_sums_in_float16_only_for_results_in_float16() -> None:
    half, single = DType("float16"), DType("float32")
    for kind, wanted in (("float16", half), ("float32", single), ("bfloat16", single)):
        found = find_atom(half, half, DType(kind), 16, SM_80)
        assert found is not None
        assert found.c is wanted


def test_factors_of_two_dtypes_have_no_instruction() -> None:
    assert find_atom(DType("int8"), DType("uint8"), DType("int32"), 32, SM_80) is None


@pytest.mark.parametrize(
    "target", ["hip -arch=gfx942", "hip -arch=gfx1201", "hip", "metal", "webgpu", "cpu"]
)
def test_other_targets_have_no_instruction_of_nvidia(target: str) -> None:
    features = parse_target(target).features
    assert not [atom for atom in MMA_SYNC if atom.needs in features]
    for atom in ATOMS:
        assert find_atom(atom.a, atom.b, atom.c, atom.k, features) not in MMA_SYNC
