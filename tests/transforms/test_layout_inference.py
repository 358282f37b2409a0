"""What inference decides: layouts of fragments, loops and shared tiles, and what it refuses."""

from __future__ import annotations

import pytest
from contexts import SM_80

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.normalize.simplify import simplify_func


def buffers(func: S.PrimFunc) -> dict[str, Buffer]:
    """The allocated buffers after inference, by name."""
    found = infer_layouts(simplify_func(func, SM_80), SM_80)
    return {node.buffer.name: node.buffer for node in S.walk(found.body)
            if isinstance(node, S.Alloc)}  # fmt: skip


def refusal(func: S.PrimFunc) -> str:
    with pytest.raises(TileUnsupportedError) as caught:
        infer_layouts(simplify_func(func, SM_80), SM_80)
    return str(caught.value).split("\n --> ")[0]


def test_a_tile_operation_of_threads_that_data_decides_is_refused() -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 8), "float16")
            tx = T.get_thread_binding()
            if A[0, tx % 8] > 0:
                T.copy(A, tile)

    assert refusal(main) == (
        "a tile operation is in a branch that only some threads of a warp execute\n"
        "  expected: a condition that is the same for all threads, or that whole warps share "
        "(such as `tx < 128`)\n"
        "  got: a condition that differs between the threads of a warp\n"
        "  hint: move the operation out of the branch, or write it with plain loads and stores"
    )


@pytest.mark.parametrize("kind", ["threads 3 to 6", "some threads that are not consecutive"])
def test_a_fragment_of_part_of_a_warp_is_refused(kind: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, 8), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((8, 8), "float16")
            tx = T.get_thread_binding()
            if (tx >= 3 and tx < 7) if kind.startswith("threads") else tx % 3 == 1:
                T.copy(A, tile)

    assert refusal(main) == (
        "a tile operation is in a branch that only some threads of a warp execute\n"
        "  expected: a condition that is the same for all threads, or that whole warps share "
        "(such as `tx < 128`); other threads may copy, fill, reduce and scan shared and global "
        "memory, and one thread alone may use fragments of its own\n"
        f"  got: {kind} with the fragment `tile`, of which others hold parts\n"
        "  hint: move the operation out of the branch, or write it with plain loads and stores"
    )


def halves(apart: bool) -> S.PrimFunc:
    """Two warps multiply a half each: in one branch for both, or in a branch of each."""

    @T.prim_func
    def main(A: T.Tensor((32, 16), "float16"), B: T.Tensor((16, 8), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 8), "float16")
            c = T.alloc_fragment((16, 8), "float32")
            tx = T.get_thread_binding()
            half = tx // 32
            T.copy(A, a)
            T.copy(B, b)
            if apart:
                if tx < 32:
                    T.gemm(a[half * 16 : half * 16 + 16, :], b, c, clear_accum=True)
            else:
                T.gemm(a[half * 16 : half * 16 + 16, :], b, c, clear_accum=True)

    return main


def test_threads_that_share_a_product_name_one_operand() -> None:
    assert refusal(halves(False)) == (
        "the gemm operand `a` differs between the threads that compute the product\n"
        "  expected: one address for all of them: they compute the product together\n"
        "  got: an index computed from the thread index, for threads 0 to 63\n"
        "  hint: name the operands of all these threads, or write a branch for each warpgroup "
        "(`if tx < 128:`) with a product of its own"
    )
    infer_layouts(simplify_func(halves(True), SM_80), SM_80)


def flat(outer: int, inner: int) -> S.PrimFunc:
    """A fragment of one dimension in a loop over two, which write its index in mixed radix."""
    count = outer * inner

    @T.prim_func
    def main(A: T.Tensor((count,), "float16"), B: T.Tensor((count,), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((count,), "float16")
            b = T.alloc_fragment((count,), "float16")
            T.copy(A, a)
            for i, j in T.Parallel(outer, inner):
                b[i * inner + j] = a[i * inner + j] + T.float16(1)
            T.copy(b, B)

    return main


@pytest.mark.parametrize(("outer", "inner"), [(32, 16), (8, 128), (512, 1)])
def test_two_loop_variables_may_write_one_index(outer: int, inner: int) -> None:
    found = buffers(flat(outer, inner))
    assert set(found) == {"a", "b"}  # nothing goes through shared memory
    assert found["a"].attrs.register_layout.is_equivalent(found["b"].attrs.register_layout)
