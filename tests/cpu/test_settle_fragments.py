"""On one core a fragment is an array of the block once tile operations are gone."""

from __future__ import annotations

from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.cpu.loops.fragments import lower_fragments_to_arrays


def test_fragments_become_arrays_under_all_their_names() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_fragment((8,), "int32")
            b = T.view(a, (2, 4))
            for i in T.serial(8):
                a[i] = A[i]
            A[0] = b[1, 3]

    assert body_of(kernel).count('scope="local.fragment"') == 2
    settled = lower_fragments_to_arrays(kernel, CPU)
    assert body_of(settled) == text("""
        a = T.alloc_buffer((8,), "int32", scope="local")
        b = T.Buffer((2, 4), "int32", data=a.data, scope="local")
        for i in range(8):
            a[i] = A[i]
        A[0] = b[1, 3]
        """)
    assert lower_fragments_to_arrays(settled, CPU) is settled
