"""What the machine code of products and attention for gfx942 is made of (bench/hip_assembly.py)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.compiler import compile as text_of
from tilelang.errors import CompileError
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

pytest.importorskip("torch", reason="the benchmarks of the GPU import torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import hip_assembly
from hip_assembly import Figures


def measured(name: str) -> Figures:
    try:
        return hip_assembly.measured(name)
    except CompileError as failure:
        pytest.skip(str(failure))


@pytest.mark.parametrize("name", ["by_hand", *hip_assembly.PROGRAMS])
def test_no_register_is_in_memory_and_results_need_no_moves(name: str) -> None:
    found = measured(name)
    assert found.scratch == 0
    assert not any(name.startswith("scratch_") for name in found.kernel)
    if name != "attention_128":  # it scales its sums, which are in accumulators, in every iteration
        assert not any(name.startswith("v_accvgpr") for name in found.loop), found.loop


def test_a_product_reads_16_bytes_and_waits_once_for_what_it_loads_ahead() -> None:
    found = measured("gemm_nt")
    assert found.loop["v_mfma_f32_32x32x8_f16"] == 2 * 2 * (32 // 8)
    reads = found.widths("ds_read")
    assert set(reads) <= {"b128", "b64"} and reads["b128"] >= 6  # 8, some in halves
    assert found.widths("global_load") == {"lds_dword": 16}
    assert found.loop["s_barrier"] == 1
    waits = {name: count for name, count in found.waits.items() if name.startswith("vmcnt")}
    assert waits == {"vmcnt(0)": 1}  # two versions: the next item is needed at its end
    assert found.share[1] == 1.0
    assert found.share[0] >= 0.8 * measured("by_hand").share[0]
    # Of a load to LDS nothing is left for the vector unit but the address in memory.
    assert found.loop["v_readfirstlane_b32"] == 2


def test_columns_of_the_right_factor_are_read_several_at_a_time() -> None:
    for name, width in (("gemm_nn", "b32"), ("attention_64", "b32"), ("attention_128", "b64")):
        reads = measured(name).widths("ds_read")
        assert set(reads) <= {"b128", width} and reads[width] > 1, (name, reads)


def test_copies_through_registers_move_16_bytes() -> None:
    found = measured("attention_128")
    assert found.widths("global_load") == {"dwordx4": 8}
    stores = {name for name in found.kernel if name.startswith("global_store")}
    assert stores == {"global_store_dwordx4"}


def blocks(count: int, rows: int) -> PrimFunc:
    @T.prim_func
    def func(A: T.Tensor((rows, 64), "float16"), C: T.Tensor((rows, rows), "float32")):
        with T.Kernel(1, threads=256):
            T.annotate_min_blocks_per_sm(count)
            a = T.alloc_shared((rows, 64), "float16")
            c = T.alloc_fragment((rows, rows), "float32")
            T.copy(A, a)
            T.clear(c)
            T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    return func


@pytest.mark.parametrize(
    ("func", "chip", "waves"),
    [
        (blocks(1, 64), "gfx942", 2),  # room for two
        (blocks(1, 256), "gfx942", 1),  # a lane has 256 registers of the result
        (blocks(3, 64), "gfx942", 3),
        (blocks(1, 64), "gfx1100", 2),
        (blocks(2, 64), "gfx1100", 4),
    ],
)
def test_wavefronts_are_requested_where_registers_suffice(func, chip: str, waves: int) -> None:
    text = text_of(func, parse_target(f"hip -mcpu={chip}")).source
    assert f"__launch_bounds__(256, {waves})" in text
