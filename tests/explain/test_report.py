"""``explain``: what it says is what the lowered program does."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest

import tilelang.language as T
from tilelang.explain.report import explain
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target.parse import parse_target


def report(func: S.PrimFunc, arch: str = "sm_80") -> str:
    return explain(func, parse_target(f"cuda -arch={arch}"), Options())


def product(stages: int = 3, kind: str = "float16") -> Any:
    @T.prim_func
    def matmul(
        A: T.Tensor((256, 256), kind), B: T.Tensor((256, 256), kind), C: T.Tensor((256, 256), kind)
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            As = T.alloc_shared((128, 32), kind)
            Bs = T.alloc_shared((32, 128), kind)
            Cl = T.alloc_fragment((128, 128), "float32")
            T.clear(Cl)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[by * 128, k * 32], As)
                T.copy(B[k * 32, bx * 128], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * 128, bx * 128])

    return matmul


def section(text: str, source: str) -> list[str]:
    """The lines below the one that shows the source line ``source``."""
    lines = text.splitlines()
    (start,) = (i for i, line in enumerate(lines) if line.endswith(f"  {source}"))
    rest = lines[start + 1 :]
    end = next((i for i, line in enumerate(rest) if not line.startswith("  ")), len(rest))
    return [line.strip() for line in rest[:end]]


def test_a_pipelined_product_is_reported_in_full() -> None:
    text = report(product())
    lines = text.splitlines()
    assert lines[0] == "`matmul` for cuda -arch=sm_80"
    assert lines[2] == "kernel 1: 2 x 2 blocks of 128 threads, 49152 bytes of shared memory"
    assert "  As (3, 128, 32) float16 shared, rows swizzled over 64 bytes" in lines
    assert "  Bs (3, 32, 128) float16 shared, rows swizzled over 128 bytes" in lines
    assert re.search(r"why: read by mma.sync.m16n8k16.float16, line \d+", text)
    assert "  0 to 24576: As (12288,) float16" in lines
    assert "  24576 to 49152: Bs (12288,) float16" in lines
    assert section(text, "T.copy(A[by * 128, k * 32], As)") == [
        "loads A (global): 16 bytes per thread by cp.async",
        "stores As (shared): 16 bytes per thread by cp.async, no bank conflicts",
    ]
    assert section(text, "T.gemm(As, Bs, Cl)") == [
        "128 x 128 x 32: mma.sync.m16n8k16.float16 on 2 x 2 warps, each 4 x 8 tiles in 2 steps",
        "loads As (shared): 16 bytes per thread by ldmatrix.x4, no bank conflicts",
        "loads Bs (shared): 16 bytes per thread by ldmatrix.x4.trans, no bank conflicts",
    ]
    assert section(text, "for k in T.Pipelined(8, num_stages=stages):")[0] == (
        "pipeline: 3 stages: As, Bs copied ahead with cp.async, one barrier per iteration"
    )


def test_a_product_names_its_instruction_and_why_it_is_not_wgmma() -> None:
    def said(kind: str, arch: str = "sm_90a") -> str:
        return section(report(product(kind=kind), arch), "T.gemm(As, Bs, Cl)")[0]

    assert said("float16") == (
        "128 x 128 x 32: wgmma.m64n128k16.float16 on 1 x 1 warpgroups, each 2 x 1 tiles in 2 steps"
    )
    assert said("float32") == (
        "128 x 128 x 32: mma.sync.m16n8k8.tfloat32 on 2 x 2 warps, each 4 x 8 tiles in 4 steps; "
        "not by wgmma: `Bs` of float32 is not contiguous along k"
    )
    assert "wgmma" not in said("float32", "sm_90")


def test_a_product_of_warpgroups_says_what_bounds_it() -> None:
    text = report(product(), "sm_90a")
    assert section(text, "T.gemm(As, Bs, Cl)")[1] == (
        "bound: 256 cycles of the matrix unit; operands in shared memory: 16384 bytes, 64 per cycle"
    )
    assert section(text, "for k in T.Pipelined(8, num_stages=stages):")[1] == (
        "in flight: up to 65536 bytes, 16384 per stage"
    )


def test_asynchronous_units_use_whole_tiles_and_barriers_are_no_data() -> None:
    text = report(product(), "sm_90a")
    assert section(text, "T.copy(A[by * 128, k * 32], As)") == [
        "copy: TMA",
        "stores As (shared): 8192 bytes at once by tma_load_box",
    ]
    assert section(text, "T.gemm(As, Bs, Cl)")[2:4] == [
        "loads As (shared): whole by wgmma_ss", "loads Bs (shared): whole by wgmma_ss",
    ]  # fmt: skip
    assert "full (shared)" not in text and "empty (shared)" not in text
    assert "T.alloc_shared" not in text  # that is no access


def test_a_loop_without_stages_says_why() -> None:
    for stages, arch, line in (
        (3, "sm_75", "serial: the target has no asynchronous copies"),
        (1, "sm_80", "2 stages: As, Bs copied ahead with cp.async, one barrier per iteration"),
    ):
        lines = section(
            report(product(stages), arch), "for k in T.Pipelined(8, num_stages=stages):"
        )
        assert lines[0] == f"pipeline: {line}"


def test_a_pipeline_that_is_not_proved_says_why() -> None:
    why = "`As` may be overwritten while it is read"
    with mock.patch("tilelang.transforms.schedule.pipeline.refusal", lambda node: why):
        lines = section(report(product()), "for k in T.Pipelined(8, num_stages=stages):")
    assert lines[0] == f"pipeline: serial: not with cp.async: {why}"


def test_a_product_without_an_instruction_says_so() -> None:
    lines = section(report(product(kind="float32"), "sm_75"), "T.gemm(As, Bs, Cl)")
    assert lines[0] == "128 x 128 x 32: plain multiplications, no matrix instruction fits"


def test_bank_conflicts_are_counted() -> None:
    @T.prim_func
    def strided(A: T.Tensor((1024,), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32, 32), "float32")
            tx = T.get_thread_binding(0)
            for i in T.serial(32):
                tile[i, tx] = A[i * 32 + tx]
            B[tx] = tile[tx, 3]

    text = report(strided)
    assert section(text, "tile[i, tx] = A[i * 32 + tx]") == [
        "loads A (global): 4 bytes per thread",
        "stores tile (shared): 4 bytes per thread, no bank conflicts",
    ]
    assert section(text, "B[tx] = tile[tx, 3]")[0] == (
        "loads tile (shared): 4 bytes per thread, bank conflicts: 32 passes instead of 1"
    )


def test_an_address_that_depends_on_data_is_not_counted() -> None:
    @T.prim_func
    def gather(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "int32")
            tx = T.get_thread_binding(0)
            tile[tx] = A[tx]
            B[tx] = tile[A[tx]]

    lines = section(report(gather), "B[tx] = tile[A[tx]]")
    assert "loads tile (shared): 4 bytes per thread, bank conflicts depend on data" in lines


def test_conversions_are_reported_with_their_count() -> None:
    def changed(steps: Any) -> S.PrimFunc:
        @T.prim_func
        def main(n: T.int32, A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=128):
                a = T.alloc_fragment((64, 64), "float32")
                b = T.alloc_fragment((64, 64), "float32")
                rows = T.alloc_fragment((64,), "float32")
                T.copy(A, a)
                T.copy(B, rows)
                for _ in T.serial(steps if steps else n):
                    for i, j in T.Parallel(64, 64):
                        b[i, j] = a[i, j] + a[j, i]
                    for i, j in T.Parallel(64, 64):
                        a[i, j] = b[i, j]
                T.copy(a, A)

        return main

    (line,) = re.findall("conversion: .*", report(changed(5)))
    assert line.endswith("barriers, 5 times: about 1580 cycles (more than the loop itself)")
    (line,) = re.findall("conversion: .*", report(changed(None)))
    assert line.endswith("barriers, in every iteration")


def test_a_conversion_that_a_loop_does_not_change_is_done_once() -> None:
    @T.prim_func
    def turned(A: T.Tensor((64, 64), "float32"), B: T.Tensor((5, 64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 64), "float32")
            b = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            for k in T.serial(5):
                for i, j in T.Parallel(64, 64):
                    b[i, j] = a[i, j] + a[j, i]
                T.copy(b, B[k, 0, 0])

    (line,) = re.findall("conversion: .*", report(turned))
    found = re.fullmatch(
        r"conversion: `a` is in another layout than this line needs \(chosen for the memory "
        r"accesses of T.copy, line \d+\); (\d+) bytes through shared memory, 1 barrier", line,
    )  # fmt: skip
    assert found and int(found[1]) >= 2 * 64 * 64 * 4


def test_reasons_of_layouts() -> None:
    @T.prim_func
    def several(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 64), "float32")
            twin = T.alloc_fragment((64, 64), "float32")
            rows = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(64, 64):
                twin[i, j] = a[i, j] * 2.0
            T.reduce_sum(twin, rows, dim=1)
            T.copy(rows, B)

    reasons = re.findall(r"why: (.*), line \d+", report(several))
    assert reasons == [
        "chosen for the memory accesses of T.copy",
        "follows the other tiles of T.Parallel",
        "the result of reducing `twin`",
    ]


def test_the_report_is_left_out_of_the_script() -> None:
    from tilelang.compiler import lower

    seen: dict[str, S.PrimFunc] = {}
    lowered = lower(product(), parse_target("cuda -arch=sm_80"), Options(), seen.__setitem__)
    laid = seen["infer_layouts"]
    (launch,) = (node for node in S.walk(laid.body) if isinstance(node, S.Launch))
    assert launch.hints.notes and "Note(" not in laid.script()
    (launch,) = (node for node in S.walk(lowered.body) if isinstance(node, S.Launch))
    assert not launch.hints.notes  # what is printed has no use for them


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_other_architectures(arch: str) -> None:
    assert report(product(), arch).startswith(f"`matmul` for cuda -arch={arch}\n")
