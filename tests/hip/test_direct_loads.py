"""Copies of pipelined loops that go straight to LDS, and waits that count them."""

from __future__ import annotations

import numpy as np
import pytest
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
    columns = k or 32 * steps

    @T.prim_func
    def func(A: T.Tensor((m, columns), kind), B: T.Tensor((64, columns), kind), C: F32[m, 64]):
        with T.Kernel(1, threads=threads):
            left = T.alloc_shared((64, 32), "float16")
            right = T.alloc_shared((64, 32), "float16")
            held = T.alloc_fragment((64, 64), "float32")
            T.clear(held)
            for i in T.Pipelined(steps, num_stages=stages):
                T.copy(A[0, i * 32], left)
                T.copy(B[0, i * 32], right)
                T.gemm(left, right, held, transpose_B=True)
            T.copy(held, C[0, 0])

    return func


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


@SKIPPED
@pytest.mark.parametrize("chip", CHIPS)
def test_a_wait_for_fewer_loads_is_found(chip: str) -> None:
    kernel = tilelang.compile(chained(3), target=f"hip -mcpu={chip}", execution_backend="emulator")
    a, left = small_numbers((64, 160), "float16", 1)
    b, right = small_numbers((64, 160), "float16", 2)
    zeros = np.zeros((64, 64), np.float32)
    report = tilelang.sanitize(kernel, a, b, zeros, schedule="late")
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[2], left @ right.T)
    text = kernel.get_kernel_source()
    loads = 4 if chip == "gfx950" else 16
    assert f"tl_loads_wait<{loads}, 1>(3 - i);" in text
    weaker = text.replace(
        f"tl_loads_wait<{loads}, 1>(3 - i);", f"tl_loads_wait<{loads + 1}, 1>(3 - i);"
    )
    report = tilelang.sanitize(kernel, a, b, zeros, schedule="late", source=weaker)
    assert "missing-wait" in {found.kind for found in report.findings}


@SKIPPED
def test_items_of_which_some_are_copied_by_threads_are_all_waited_for() -> None:
    kernel = tilelang.compile(
        chained(3, k=152), target="hip -mcpu=gfx950", execution_backend="emulator"
    )
    assert "tl_loads_wait<4, 0>(0);" in kernel.get_kernel_source()
    a, left = small_numbers((64, 152), "float16", 1)
    b, right = small_numbers((64, 152), "float16", 2)
    report = tilelang.sanitize(kernel, a, b, np.zeros((64, 64), np.float32), schedule="late")
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[2], left @ right.T)


@SKIPPED
@pytest.mark.parametrize("chip", CHIPS)
def test_items_that_a_condition_leaves_out_are_not_counted_as_loaded(chip: str) -> None:
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

    kernel = tilelang.compile(func, target=f"hip -mcpu={chip}", execution_backend="emulator")
    assert CHIPS[chip] in kernel.get_kernel_source()
    a, left = small_numbers((64, 224), "float16", 1)
    b, right = small_numbers((64, 224), "float16", 2)
    used = np.array([1, 0, 1, 1, 0, 0, 1], np.int32)
    zeros = np.zeros((64, 64), np.float32)
    report = tilelang.sanitize(kernel, a, b, used, zeros, schedule="late")
    assert report.ok, str(report)
    columns = np.repeat(used, 32) != 0
    np.testing.assert_array_equal(report.arguments[3], left[:, columns] @ right[:, columns].T)


@SKIPPED
def test_noncontiguous_lanes_are_found() -> None:
    kernel = tilelang.compile(chained(2), target="hip -mcpu=gfx950", execution_backend="emulator")
    text = kernel.get_kernel_source()
    assert text.count("&left[left_at]") == 1
    turned = text.replace("&left[left_at]", "&left[left_at ^ 8]")
    a, b = (small_numbers((64, 160), "float16", seed)[0] for seed in (1, 2))
    report = tilelang.sanitize(kernel, a, b, np.zeros((64, 64), np.float32), source=turned)
    assert "one address for all lanes of the wave" in str(report)


@T.prim_func
def doubles(A: F64[64, 160], B: F64[64, 160]):
    with T.Kernel(1, threads=128):
        left = T.alloc_shared((64, 32), "float64")
        for i in T.Pipelined(5, num_stages=2):
            T.copy(A[0, i * 32], left)
            T.copy(left, B[0, i * 32])


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
    assert f"`left` is copied by threads: {why}" in report


@pytest.mark.parametrize("chip", CHIPS)
def test_numbers_wider_than_the_load_of_a_lane_are_copied_by_threads(chip: str) -> None:
    @T.prim_func
    def func(A: F64[128, 64], B: F64[32, 64]):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float64")
            total = T.alloc_fragment((32, 64), "float64")
            T.clear(total)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 32, 0], tile)
                for i, j in T.Parallel(32, 64):
                    total[i, j] += tile[i, j]
            T.copy(total, B)

    target = parse_target(f"hip -mcpu={chip}")
    made = lower(func, target, Options())
    a = np.arange(128 * 64, dtype=np.float64).reshape(128, 64)
    b = np.zeros((32, 64))
    interpret.run(made, [a, b], late_copies=True)
    np.testing.assert_array_equal(b, a.reshape(4, 32, 64).sum(0))
    report = explain(func, target, Options())
    words = "`tile` is copied by threads: float64 is wider than a load of 4 bytes"
    assert (words in report) == (chip == "gfx942")
    assert ("tl_load_lds_16(" in source(func, chip)) == (chip == "gfx950")


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
    assert "tl_load_lds_4(left" in source(func, "gfx942").replace("&", "")
    for narrow, loads in ((2, 0), (4, 1)):
        made = text_of(for_tensors(func, {"A": narrow}, False), parse_target("hip -mcpu=gfx942"))
        assert ("tl_load_lds_4(&left" in made.source) == bool(loads)
        assert dict(made.alignments or ()).get("A", 1) <= narrow
