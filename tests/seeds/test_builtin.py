"""Every function of the document of ``tilelang.language.builtin`` with its signature."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, holds
from language.vocabulary import buf, texts

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
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
def test_the_function_exists_in_the_language(name: str) -> None:
    assert callable(getattr(builtin, name))
    assert getattr(T, name) is getattr(builtin, name)
    assert getattr(builtin, name).__doc__


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if name not in BOTH_SPELLINGS])
def test_parameters_are_those_of_the_document(name: str) -> None:
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


# -- calls -----------------------------------------------------------------------------------------
X, N = buf("X", (64, 64), "float16"), buf("N", (128,), "int32")
MAP = (6, 2, X, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)


class Kit:
    """What calls are made with, inside a kernel."""

    def __init__(self) -> None:
        self.bar = T.alloc_barrier([1])[0]
        self.peers = T.alloc_cluster_barrier([1])[0]
        self.room = T.alloc_shared((64, 64), "float16")
        self.tile = T.access_ptr(self.room, "r")
        self.half = T.alloc_local((4,), "float16").data
        self.sums = T.alloc_local((8,), "float32")
        self.desc = T.alloc_wgmma_desc()
        self.umma = T.alloc_tcgen05_smem_desc()
        self.lane = T.get_thread_binding()


def put(value: Any) -> None:
    N[0] = value


@T.macro
def leave() -> None:
    for _ in T.serial(4):
        T.loop_break()


def load(bits: int) -> tuple[Any, str]:
    zero = "T.uint32(0)" if bits == 32 else f"T.Broadcast(T.uint32(0), {bits // 32})"
    found = f"T.ldg{bits}(X[0, T.Ramp(0, 1, {bits // 16})])"
    return (
        lambda k: T.evaluate(getattr(T, f"ldg{bits}")(src=X[0, 0], pred=k.lane < 3)),
        f"T.evaluate(T.if_then_else(tx < 3, {found}, {zero}))",
    )


def store(bits: int) -> tuple[Any, str]:
    def body(k: Kit) -> None:
        value = getattr(T, f"ldg{bits}")(X[1, 0])
        getattr(T, f"stg{bits}")(dst=X[0, 0], value=value, pred=k.lane < 3)

    run = f"T.Ramp(0, 1, {bits // 16})"
    return body, f"if tx < 3:\n    T.stg{bits}(X[0, {run}], T.ldg{bits}(X[1, {run}]))"


# Name -> a call with the documented parameters by name, and the statement that it is.
CALLS: dict[str, tuple[Any, str]] = {
    "access_ptr": (
        lambda k: T.evaluate(
            T.access_ptr(base=X[1, 0], access_type="w", offset=2, extent=4, ignore_last_ndim=0)
        ),
        'T.evaluate(T.access_ptr(X[1, 2], "w", 4))',
    ),
    "create_tma_descriptor": (
        lambda k: T.evaluate(T.create_tma_descriptor(*MAP)),
        "T.create_tma_descriptor(6, 2, T.address_of(X[0, 0]), 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)",
    ),
    "tma_load": (
        lambda k: T.tma_load(T.create_tma_descriptor(*MAP), k.bar, k.room, 0, 8),
        "T.tma_load(T.create_tma_descriptor(6, 2, T.address_of(X[0, 0]), 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0), T.address_of(buf[0]), T.address_of(buf_1[0, 0]), 0, 8)",
    ),
    "fence_proxy_async": (lambda k: T.fence_proxy_async(), "T.fence_proxy_async()"),
    "tma_store_arrive": (lambda k: T.tma_store_arrive(), "T.tma_store_arrive()"),
    "tma_store_wait": (lambda k: T.tma_store_wait(1), "T.tma_store_wait(1, read=True)"),
    "set_max_nreg": (lambda k: T.set_max_nreg(reg_count=40, is_inc=0), "T.set_max_nreg(40, 0)"),
    "inc_max_nreg": (lambda k: T.inc_max_nreg(reg_count=240), "T.set_max_nreg(240, 1)"),
    "dec_max_nreg": (lambda k: T.dec_max_nreg(reg_count=24), "T.set_max_nreg(24, 0)"),
    "annotate_producer_reg_dealloc": (
        lambda k: T.annotate_producer_reg_dealloc(reg_count=32),
        "T.annotate_producer_reg_dealloc(32)",
    ),
    "annotate_consumer_reg_alloc": (
        lambda k: T.annotate_consumer_reg_alloc(reg_count=232),
        "T.annotate_consumer_reg_alloc(232)",
    ),
    "no_set_max_nreg": (lambda k: T.no_set_max_nreg(), "T.no_set_max_nreg()"),
    "disable_warp_group_reg_alloc": (
        lambda k: T.disable_warp_group_reg_alloc(),
        "T.disable_warp_group_reg_alloc()",
    ),
    "ptx_arrive_cluster_barrier": (
        lambda k: T.ptx_arrive_cluster_barrier(mbarrier=k.peers, cta_id=k.lane),
        "T.mbarrier_arrive(T.address_of(buf[0]), tx)",
    ),
    "mbarrier_wait_parity": (
        lambda k: T.mbarrier_wait_parity(mbarrier=k.bar, parity=1),
        "T.mbarrier_wait(T.address_of(buf[0]), 1)",
    ),
    "mbarrier_arrive": (
        lambda k: T.mbarrier_arrive(mbarrier=k.bar),
        "T.mbarrier_arrive(T.address_of(buf[0]))",
    ),
    "mbarrier_expect_tx": (
        lambda k: T.mbarrier_expect_tx(mbarrier=k.bar, tx=64),
        "T.mbarrier_expect_tx(T.address_of(buf[0]), 64)",
    ),
    "warpgroup_arrive": (lambda k: T.warpgroup_arrive(), "T.warpgroup_arrive()"),
    "warpgroup_commit_batch": (lambda k: T.warpgroup_commit_batch(), "T.warpgroup_commit_batch()"),
    "warpgroup_wait": (lambda k: T.warpgroup_wait(num_mma=2), "T.warpgroup_wait(2)"),
    "get_lane_idx": (lambda k: put(T.get_lane_idx(warp_size=64)), "N[0] = tx % 64"),
    "get_warp_idx_sync": (lambda k: put(T.get_warp_idx_sync(warp_size=64)), "N[0] = tx // 64"),
    "get_warp_idx": (lambda k: put(T.get_warp_idx(warp_size=16)), "N[0] = tx // 16"),
    "get_warp_group_idx": (
        lambda k: put(T.get_warp_group_idx(warp_size=32, warps_per_group=6)),
        "N[0] = tx // 192",
    ),
    "shuffle_elect": (
        lambda k: put(T.shuffle_elect(thread_extent=64)),
        'N[0] = T.Cast("int32", T.shuffle_elect(64))',
    ),
    "warpgroup_fence_operand": (
        lambda k: T.warpgroup_fence_operand(
            buffer_or_ptr=k.sums, offset=2, num_regs=4, dtype="float32"
        ),
        "T.warpgroup_fence_operand(T.address_of(buf[0]), 2, 4)",
    ),
    "wait_wgmma": (lambda k: T.wait_wgmma(id=3), "T.wait_wgmma(3)"),
    "barrier_wait": (
        lambda k: T.barrier_wait(mbarrier=k.bar, parity=0),
        "T.mbarrier_wait(T.address_of(buf[0]), 0)",
    ),
    "barrier_arrive": (
        lambda k: T.barrier_arrive(mbarrier=k.bar),
        "T.mbarrier_arrive(T.address_of(buf[0]))",
    ),
    "shfl_xor": (lambda k: put(T.shfl_xor(value=k.lane, offset=1)), "N[0] = T.shfl_xor(tx, 1)"),
    "shfl_down": (lambda k: put(T.shfl_down(value=k.lane, offset=2)), "N[0] = T.shfl_down(tx, 2)"),
    "shfl_up": (lambda k: put(T.shfl_up(value=k.lane, offset=4)), "N[0] = T.shfl_up(tx, 4)"),
    "sync_threads": (
        lambda k: T.sync_threads(barrier_id=2, arrive_count=64),
        "T.sync_threads(2, 64)",
    ),
    "sync_warp": (lambda k: T.sync_warp(mask=15), "T.sync_warp(15)"),
    "shfl_sync": (
        lambda k: put(T.shfl_sync(mask=15, value=k.lane, srcLane=3, width=8)),
        "N[0] = T.shfl_sync(tx, 3, width=8, mask=T.uint32(15))",
    ),
    "sync_global": (lambda k: T.sync_global(), "T.sync_grid()"),
    "sync_grid": (lambda k: T.sync_grid(), "T.sync_grid()"),
    "initialize_wgmma_descriptor": (
        lambda k: T.initialize_wgmma_descriptor(
            descriptor=k.desc,
            start_address=k.tile,
            layout_type_=1,
            leading_byte_offset=2,
            stride_byte_offset=64,
        ),
        'T.initialize_wgmma_descriptor(T.access_ptr(buf[0], "w"), T.access_ptr(buf_1[0, 0], "r"), 1, 2, 64)',
    ),
    "initialize_tcgen05_descriptor": (
        lambda k: T.initialize_tcgen05_descriptor(
            descriptor=k.umma,
            start_address=k.tile,
            leading_byte_offset=1,
            stride_byte_offset=64,
            base_offset=0,
            leading_is_absolute=False,
            swizzle_mode=2,
        ),
        'T.initialize_tcgen05_descriptor(T.access_ptr(buf[0], "w"), T.access_ptr(buf_1[0, 0], "r"), 1, 64, 0, 0, 2)',
    ),
    "increase_descriptor_offset": (
        lambda k: T.increase_descriptor_offset(descriptor=k.desc, offset=32),
        'T.increase_descriptor_offset(T.access_ptr(buf[0], "w"), 32)',
    ),
    "cp_async_barrier_noinc": (
        lambda k: T.cp_async_barrier_noinc(barrier=k.bar),
        "T.cp_async_barrier_noinc(T.address_of(buf[0]))",
    ),
    "tcgen05_mma_arrive": (
        lambda k: T.tcgen05_mma_arrive(mbar=k.bar),
        "T.tcgen05_mma_arrive(T.address_of(buf[0]), arrive_2cta=False)",
    ),
    "ptx_mma_sm70": (
        lambda k: T.ptx_mma_sm70(
            shape="m16n16k4",
            A_layout="row",
            B_layout="col",
            A_dtype="fp16",
            B_dtype="fp16",
            C_dtype="fp32",
            multiplicand_a=k.half,
            a_index=0,
            multiplicand_b=k.half,
            b_index=0,
            accumulator=k.sums.data,
            c_index=0,
        ),
        'T.ptx_mma_sm70("m16n16k4", "row", "col", "fp16", "fp16", "fp32", buf, 0, buf, 0, buf_1, 0)',
    ),
    "loop_break": (lambda k: leave(), "for _ in range(4):\n    break"),
    **{f"ldg{bits}": load(bits) for bits in (32, 64, 128, 256)},
    **{f"stg{bits}": store(bits) for bits in (32, 64, 128, 256)},
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_documented_call_is_accepted(name: str) -> None:
    body, text = CALLS[name]

    def inside() -> None:
        kit = Kit()
        T.pdl_sync()
        body(kit)

    lines = texts(inside)
    assert "\n".join(lines[lines.index("T.pdl_sync()") + 1 :]) == text


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
         "the mask of T.shfl_sync is not an integer\n"
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


# -- instructions ----------------------------------------------------------------------------------
# Calls in the order of a program, and the PTX of each.
HOPPER: tuple[tuple[Any, str], ...] = (
    (lambda k: T.tma_store_arrive(), "cp.async.bulk.commit_group;"),
    (lambda k: T.fence_proxy_async(), "fence.proxy.async"),
    (lambda k: T.tma_store_wait(1), "cp.async.bulk.wait_group.read 1;"),
    (lambda k: T.mbarrier_expect_tx(k.bar, 64), "mbarrier.expect_tx"),
    (lambda k: T.mbarrier_arrive(k.bar), "mbarrier.arrive.shared"),
    (lambda k: T.mbarrier_wait_parity(k.bar, 1), "mbarrier.try_wait.parity"),
    (lambda k: T.barrier_arrive(k.bar), "mbarrier.arrive.shared"),
    (lambda k: T.barrier_wait(k.bar, 0), "mbarrier.try_wait.parity"),
    (lambda k: T.cp_async_barrier_noinc(k.bar), "cp.async.mbarrier.arrive.noinc"),
    (lambda k: T.ptx_arrive_cluster_barrier(k.peers, 1), "mapa.shared::cluster"),
    (lambda k: T.dec_max_nreg(40), "setmaxnreg.dec.sync.aligned.u32 40;"),
    (lambda k: T.inc_max_nreg(232), "setmaxnreg.inc.sync.aligned.u32 232;"),
    (lambda k: T.set_max_nreg(48, 0), "setmaxnreg.dec.sync.aligned.u32 48;"),
    (lambda k: T.warpgroup_arrive(), "wgmma.fence.sync.aligned;"),
    (lambda k: T.warpgroup_commit_batch(), "wgmma.commit_group.sync.aligned;"),
    (lambda k: T.wait_wgmma(3), "wgmma.wait_group.sync.aligned 3;"),
    (lambda k: T.warpgroup_wait(0), "wgmma.wait_group.sync.aligned 0;"),
    (lambda k: T.sync_threads(2, 64), "bar.sync"),
    (lambda k: T.sync_warp(), "bar.warp.sync"),
)


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
def test_intrinsics_are_single_instructions() -> None:
    @T.prim_func
    def words():
        with T.Kernel(2, threads=128, cluster_dims=(2, 1, 1)):
            kit = Kit()
            [body(kit) for body, _ in HOPPER]

    kernel = tilelang.compile(words, target="cuda -arch=sm_90a")
    text, at = kernel.adapter.result.ptx or "", 0
    at = text.index(".entry")
    for _, instruction in HOPPER:
        found = text.find(instruction, at)
        assert found >= 0, f"{instruction} is not behind\n{text[:at][-300:]}"
        at = found + len(instruction)
