"""Tensors whose addresses are aligned less than vectors get the kernels that a GPU would get."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileError

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@T.prim_func
def double(A: T.Tensor((1024,), "float16"), B: T.Tensor((1024,), "float16")):
    with T.Kernel(2, threads=64) as bx:
        tile = T.alloc_shared((512,), "float16")
        T.copy(A[bx * 512], tile)
        for i in T.Parallel(512):
            B[bx * 512 + i] = tile[i] * T.float16(2)


def compiled(arch: str):
    return tilelang.compile(
        double, out_idx=-1, target=f"cuda -arch={arch}", execution_backend="emulator"
    )


@pytest.mark.parametrize(("arch", "first"), [("sm_80", 1), ("sm_80", 4), ("sm_90a", 2)])
def test_slices_of_numpy_arrays(arch: str, first: int) -> None:
    kernel, whole = compiled(arch), np.arange(1032, dtype=np.float16)
    part = whole[first : first + 1024]
    np.testing.assert_array_equal(kernel(part), part * 2)
    report = tilelang.sanitize(kernel, part)
    assert report.ok, report
    np.testing.assert_array_equal(report.outputs, part * 2)
    # What the accesses cost is that of the narrow kernel.
    reads = [cost for cost in report.costs if cost.buffer == "A" and cost.access == "read"]
    assert sum(cost.accesses for cost in reads) == 1024 // first


def test_slices_of_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="the arguments are tensors of torch")
    kernel, whole = compiled("sm_80"), torch.arange(1032, dtype=torch.float16)
    part = whole[1:1025]
    assert torch.equal(kernel(part), part * 2)
    report = tilelang.sanitize(kernel, part)
    assert report.ok, report
    assert torch.equal(report.outputs, part * 2)
    assert sum(cost.accesses for cost in report.costs if cost.buffer == "A") == 1024


def test_an_edited_text_has_no_narrow_form() -> None:
    kernel, whole = compiled("sm_80"), np.arange(1032, dtype=np.float16)
    with pytest.raises(TileError, match="aligned"):
        tilelang.sanitize(kernel, whole[1:1025], source=kernel.get_kernel_source())
