"""Copies of pipelined loops that go straight to LDS, and waits that count them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from hip.programs import small_numbers
from tensor_types import F16, F32, F64, I32

import tilelang
import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import compile as text_of, for_tensors, lower
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import CompileError
from tilelang.explain.report import explain
from tilelang.hip.toolchain import assembly
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

CHIPS = {"gfx942": "tl_load_lds_4(", "gfx950": "tl_load_lds_16("}
SKIPPED = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def chained(
    stages: int, steps: int = 5, kind: str = "float16", m: int = 64, k: int = 0, threads: int = 128
) -> PrimFunc:
    """C = A B^T in steps of 32 along k; ``k``: columns of the tensors where they are fewer."""
    return gemm_program(m, 64, k or 32 * steps, (64, 64, 32), stages, threads, kind, trans_b=True)


def source(func: PrimFunc, chip: str) -> str:
    return text_of(func, parse_target(f"hip -mcpu={chip}")).source


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_lowered_program_waits_for_what_it_uses(stages: int, chip: str) -> None:
    func = chained(stages)
    made = lower(func, parse_target(f"hip -mcpu={chip}"), Options())
    a, left = small_numbers((64, 160), "float16", 1)
    b, right = small_numbers((64, 160), "float16", 2)
    c = np.zeros((64, 64), np.float32)
    interpret.run(made, [a, b, c], late_copies=True)
    np.testing.assert_array_equal(c, left @ right.T)
    assert CHIPS[chip] in source(func, chip)


def emulated(func: PrimFunc, chip: str) -> Any:
    return tilelang.compile(func, target=f"hip -mcpu={chip}", execution_backend="emulator")


def judged(kernel: Any, k: int, *more: Any, columns: Any = slice(None), **options: Any) -> Any:
    """What the emulator finds in a product of ``k`` columns; exact where it finds nothing."""
    a, left = small_numbers((64, k), "float16", 1)
    b, right = small_numbers((64, k), "float16", 2)
    zeros = np.zeros((64, 64), np.float32)
    report = tilelang.sanitize(kernel, a, b, *more, zeros, **options)
    if "source" not in options:
        assert report.ok, str(report)
        np.testing.assert_array_equal(report.arguments[-1], left[:, columns] @ right[:, columns].T)
    return report


@SKIPPED
@pytest.mark.parametrize("chip", CHIPS)
def test_a_wait_for_fewer_loads_is_found(chip: str) -> None:
    kernel = emulated(chained(3), chip)
    judged(kernel, 160, schedule="late")
    text = kernel.get_kernel_source()
    loads = 4 if chip == "gfx950" else 16
    assert f"tl_loads_wait<{loads}, 1>(3 - k);" in text
    weaker = text.replace(
        f"tl_loads_wait<{loads}, 1>(3 - k);", f"tl_loads_wait<{loads + 1}, 1>(3 - k);"
    )
    report = judged(kernel, 160, schedule="late", source=weaker)
    assert "missing-wait" in {found.kind for found in report.findings}


@SKIPPED
def test_a_stage_that_threads_also_copy_to_is_waited_for() -> None:
    kernel = emulated(chained(3, k=152), "gfx950")
    assert "tl_loads_wait<4, 0>(0);" in kernel.get_kernel_source()
    judged(kernel, 152, schedule="late")


@SKIPPED
@pytest.mark.parametrize("chip", CHIPS)
def test_iterations_that_a_condition_skips_are_not_counted_as_loaded(chip: str) -> None:
    """The wait for an item behind which others load nothing waits for it all the same."""

    @T.prim_func
    def func(A: F16[64, 224], B: F16[64, 224], used: I32[7], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((64, 32), "float16")
            right = T.alloc_shared((64, 32), "float16")
            held = T.alloc_fragment((64, 64), "float32")
            T.clear(held)
            for i in T.Pipelined(7, num_stages=3):
                if used[i] != 0:
                    T.copy(A[0, i * 32], left)
                    T.copy(B[0, i * 32], right)
                    T.gemm(left, right, held, transpose_B=True)
            T.copy(held, C[0, 0])

    kernel = emulated(func, chip)
    assert CHIPS[chip] in kernel.get_kernel_source()
    used = np.array([1, 0, 1, 1, 0, 0, 1], np.int32)
    judged(kernel, 224, used, columns=np.repeat(used, 32) != 0, schedule="late")


@SKIPPED
def test_noncontiguous_lanes_are_found() -> None:
    kernel = emulated(chained(2), "gfx950")
    text = kernel.get_kernel_source()
    assert text.count("&a[a_at]") == 1
    turned = text.replace("&a[a_at]", "&a[a_at ^ 8]")
    assert "one address for all lanes of the wave" in str(judged(kernel, 160, source=turned))


@T.prim_func
def doubles(A: F64[64, 160], B: F64[64, 160]):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float64")
        for i in T.Pipelined(5, num_stages=2):
            T.copy(A[0, i * 32], a)
            T.copy(a, B[0, i * 32])


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (chained(2, m=48), "`A` may end within the tile"),
        (chained(2, k=152), "`A` may end within the tile"),
        (chained(2, k=161), "rows of `A` are not aligned to 4 bytes"),
        (doubles, "float64 is wider than a load of 4 bytes"),
    ],
    ids=["rows", "columns", "alignment", "doubles"],
)
def test_other_copies_are_made_by_threads_and_the_report_says_why(func: PrimFunc, why: str) -> None:
    report = explain(func, parse_target("hip -mcpu=gfx942"), Options())
    assert f"`a` is copied by threads: {why}" in report


@pytest.mark.parametrize("chip", CHIPS)
def test_the_chip_waits_for_as_many_loads_as_the_schedule_needs(chip: str) -> None:
    try:
        text = assembly(source(chained(3), chip), chip)
    except CompileError as failure:
        pytest.skip(str(failure))
    assert "scratch_" not in text
    name = {"gfx942": "global_load_lds_dword ", "gfx950": "global_load_lds_dwordx4 "}[chip]
    assert name in text
    body = text[text.index("; %bb.0") if "; %bb.0" in text else 0 :]
    assert f"vmcnt({4 if chip == 'gfx950' else 16})" in body


def test_tensors_at_odd_addresses_are_copied_by_threads() -> None:
    func = chained(3)
    assert "tl_load_lds_4(a" in source(func, "gfx942").replace("&", "")
    for narrow, loads in ((2, 0), (4, 1)):
        made = text_of(for_tensors(func, {"A": narrow}, False), parse_target("hip -mcpu=gfx942"))
        assert ("tl_load_lds_4(&a" in made.source) == bool(loads)
        assert dict(made.alignments or ()).get("A", 1) <= narrow
