"""Every function of the document of ``tilelang.language.builtin`` with its signature."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, holds

import tilelang.language as T
from tilelang.errors import TileError
from tilelang.language import builtin

WGMMA = "(descriptor, start_address, layout_type_=0, leading_byte_offset=0, stride_byte_offset=0)"
TCGEN05 = (
    "(descriptor, start_address, leading_byte_offset, stride_byte_offset, base_offset=0, "
    "leading_is_absolute=False, swizzle_mode=0)"
)
MMA_SM70 = (
    "(shape, A_layout, B_layout, A_dtype, B_dtype, C_dtype, multiplicand_a, a_index, "
    "multiplicand_b, b_index, accumulator, c_index)"
)
ACCESS_PTR = "(base, access_type='r', *extents, offset=0, extent=None, ignore_last_ndim=0)"

DOCUMENTED: dict[str, str] = {
    "access_ptr": ACCESS_PTR,
    "create_tma_descriptor": "(*args)",
    "tma_load": "(*args)",
    "fence_proxy_async": "(*args)",
    "tma_store_arrive": "(*args)",
    "tma_store_wait": "(*args)",
    "set_max_nreg": "(reg_count, is_inc)",
    "inc_max_nreg": "(reg_count)",
    "dec_max_nreg": "(reg_count)",
    "annotate_producer_reg_dealloc": "(reg_count=24)",
    "annotate_consumer_reg_alloc": "(reg_count=240)",
    "no_set_max_nreg": "()",
    "disable_warp_group_reg_alloc": "()",
    "ptx_arrive_cluster_barrier": "(mbarrier, cta_id)",
    "mbarrier_wait_parity": "(mbarrier, parity)",
    "mbarrier_arrive": "(mbarrier, cta_id=None)",
    "mbarrier_expect_tx": "(mbarrier, tx)",
    "warpgroup_arrive": "()",
    "warpgroup_commit_batch": "()",
    "warpgroup_wait": "(num_mma)",
    "get_lane_idx": "(warp_size=None)",
    "get_warp_idx_sync": "(warp_size=None)",
    "get_warp_idx": "(warp_size=None)",
    "get_warp_group_idx": "(warp_size=None, warps_per_group=None)",
    "shuffle_elect": "(thread_extent)",
    "warpgroup_fence_operand": "(buffer_or_ptr, offset=0, num_regs=None, dtype=None)",
    "wait_wgmma": "(id)",
    "barrier_wait": "(mbarrier, parity)",
    "barrier_arrive": "(mbarrier)",
    "shfl_xor": "(value, offset)",
    "shfl_down": "(value, offset)",
    "shfl_up": "(value, offset)",
    "sync_threads": "(barrier_id=None, arrive_count=None)",
    "sync_warp": "(mask=None)",
    "shfl_sync": "(mask, value, srcLane, width=None)",
    "sync_global": "()",
    "sync_grid": "()",
    "initialize_wgmma_descriptor": WGMMA,
    "initialize_tcgen05_descriptor": TCGEN05,
    "increase_descriptor_offset": "(descriptor, offset)",
    "loop_break": "()",
    "cp_async_barrier_noinc": "(barrier)",
    "tcgen05_mma_arrive": "(mbar)",
    "ptx_mma_sm70": MMA_SM70,
    "ldg32": "(src, pred=None)",
    "ldg64": "(src, pred=None)",
    "ldg128": "(src, pred=None)",
    "ldg256": "(src, pred=None)",
    "stg32": "(dst, value, pred=None)",
    "stg64": "(dst, value, pred=None)",
    "stg128": "(dst, value, pred=None)",
    "stg256": "(dst, value, pred=None)",
}

# Functions whose parameters differ from the document, because today's programs spell the call
# differently and both spellings must work; how each accepts the documented one is tested below.
BOTH_SPELLINGS = {"shfl_xor", "shfl_down", "shfl_up", "shfl_sync"}


def documented(name: str) -> list[inspect.Parameter]:
    """The parameters of the document."""
    names: dict[str, Any] = {}
    exec(f"def function{DOCUMENTED[name]}: ...", names)  # noqa: S102  # text of the table above
    return list(inspect.signature(names["function"]).parameters.values())


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_function_is_there_and_in_the_language(name: str) -> None:
    assert callable(getattr(builtin, name))
    assert getattr(T, name) is getattr(builtin, name)
    assert getattr(builtin, name).__doc__


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in BOTH_SPELLINGS])
def test_every_documented_call_is_accepted(name: str) -> None:
    """The documented parameters come first, in order, with their defaults; more are optional.
    Where the document has ``*args``, the function may name the operands that there are."""
    found = list(inspect.signature(getattr(builtin, name)).parameters.values())
    expected = documented(name)
    if [p.kind for p in expected] == [inspect.Parameter.VAR_POSITIONAL]:
        named = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        assert all(p.kind in (*named, inspect.Parameter.KEYWORD_ONLY) for p in found)
        return
    assert [(p.name, p.kind) for p in found[: len(expected)]] == [
        (p.name, p.kind) for p in expected
    ]
    for ours, theirs in zip(found, expected, strict=False):
        if theirs.default is not inspect.Parameter.empty:
            assert ours.default == theirs.default
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for more in found[len(expected) :]:
        assert more.kind in variable or more.default is not inspect.Parameter.empty


def trace(body: Any) -> str:
    """Text of a kernel with ``body`` in it."""

    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            A[tx] = body(A[tx])

    return kernel.script()


@pytest.mark.parametrize("name", ["shfl_xor", "shfl_down", "shfl_up"])
def test_shuffles_take_the_documented_and_todays_spelling(name: str) -> None:
    shuffle = getattr(T, name)
    texts = {
        trace(lambda x: shuffle(x, 1)),
        trace(lambda x: shuffle(x, offset=1)),
        trace(lambda x: shuffle(x, delta=1)),
        trace(lambda x: shuffle(value=x, offset=1)),
    }
    assert len(texts) == 1


def test_shfl_sync_takes_the_mask_first_or_as_keyword() -> None:
    texts = {
        trace(lambda x: T.shfl_sync(0xFFFFFFFF, x, 3)),
        trace(lambda x: T.shfl_sync(mask=0xFFFFFFFF, value=x, srcLane=3)),
        trace(lambda x: T.shfl_sync(x, 3)),
        trace(lambda x: T.shfl_sync(x, srcLane=3)),
    }
    assert len(texts) == 1
    for mask in (0xFFFFFFFF, 0xFFFF):
        documented = trace(lambda x: T.shfl_sync(mask, x, 3, 8))
        assert documented == trace(lambda x: T.shfl_sync(x, 3, width=8, mask=mask))
        assert documented == trace(lambda x: T.shfl_sync(mask, x, srcLane=3, width=8))


def test_shuffles_among_some_lanes_give_what_the_document_says() -> None:
    @T.prim_func
    def kernel(
        M: T.Tensor((1,), "uint32"), A: T.Tensor((32,), "int32"), B: T.Tensor((5, 32), "int32")
    ):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            v = A[tx]
            if tx < 16:
                B[0, tx] = T.shfl_sync(0xFFFF, v, 4)
                B[1, tx] = T.shfl_sync(M[0], v, tx + 1, 8)
                B[2, tx] = T.shfl_xor(v, 3, mask=M[0])
                B[3, tx] = T.shfl_down(v, 2, width=8, mask=0xFFFF)
                B[4, tx] = T.shfl_up(v, 1, width=16, mask=M[0])

    a, lane = np.arange(32, dtype=np.int32) * 7 + 100, np.arange(16)
    want = np.zeros((5, 32), np.int32)
    want[0, :16] = a[4]
    want[1, :16] = a[lane // 8 * 8 + (lane + 1) % 8]
    want[2, :16] = a[lane ^ 3]
    want[3, :16] = a[np.where(lane % 8 + 2 < 8, lane + 2, lane)]
    want[4, :16] = a[np.where(lane >= 1, lane - 1, lane)]
    places = (INTERPRETER, SM_80, SM_90A)
    holds(kernel, (np.array([0xFFFF], np.uint32), a, np.zeros_like(want)), want, on=places)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda x: T.shfl_sync(1.5, x, 3),
         "the mask of T.shfl_sync is no integer\n"
         "  expected: T.shfl_sync(mask, value, srcLane, width), with a bit for each lane\n"
         "  got: `T.float32(1.5)` of dtype float32\n"),
        (lambda x: T.shfl_sync(x),
         "T.shfl_sync without srcLane\n"
         "  expected: (mask, value, srcLane, width=None), or (value, srcLane)"),
        (lambda x: T.shfl_sync(1, x, 3, 8, 9), "T.shfl_sync with too many arguments\n"),
        (lambda x: T.shfl_sync(0xF, x, 3, 5), "the width of T.shfl_sync is 5\n"),
    ],
)  # fmt: skip
def test_a_shuffle_that_the_document_does_not_have_is_refused(body: Any, text: str) -> None:
    with pytest.raises(TileError) as error:
        trace(body)
    assert str(error.value).startswith(text)
