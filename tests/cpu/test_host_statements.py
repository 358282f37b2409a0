"""Programs that compute outside of ``T.Kernel``, where cores run the host code as well."""

from __future__ import annotations

from functools import partial

import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError


@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80", "hip -mcpu=gfx942", "metal"])
@pytest.mark.parametrize("memory", ["shared.dyn", "local.fragment", "local"])
def test_kernels_allocate_their_own_memory(memory: str, target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        tile = T.alloc_buffer((64,), "float32", scope=memory)
        with T.Kernel(1, threads=32):
            T.copy(tile, A)

    for made in (tilelang.lower, partial(tilelang.compile, execution_backend="interpret")):
        with pytest.raises(TileUnsupportedError) as caught:
            made(kernel, target=target)
        assert str(caught.value).split("\n -->")[0] == (
            "`tile` is allocated outside of the kernels that use it\n"
            "  expected: memory that lives as long as one kernel, or T.alloc_global\n"
            f"  got: {memory} memory made before and used in a later kernel\n"
            "  hint: allocate it in the `with T.Kernel(...)` that uses it"
        )
