"""Every function of the document of ``tilelang.language.builtin`` by its documented parameters."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, holds
from language.vocabulary import buf, texts
from refusals import refusal
from tensor_types import I32, U32

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import TileError
from tilelang.language import builtin

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


def load(bits: int) -> tuple[str, Any, str]:
    zero = "T.uint32(0)" if bits == 32 else f"T.Broadcast(T.uint32(0), {bits // 32})"
    found = f"T.ldg{bits}(X[0, T.Ramp(0, 1, {bits // 16})])"
    return (
        f"ldg{bits}",
        lambda k: T.evaluate(getattr(T, f"ldg{bits}")(src=X[0, 0], pred=k.lane < 3)),
        f"T.evaluate(T.if_then_else(tx < 3, {found}, {zero}))",
    )


def store(bits: int) -> tuple[str, Any, str]:
    def body(k: Kit) -> None:
        value = getattr(T, f"ldg{bits}")(X[1, 0])
        getattr(T, f"stg{bits}")(dst=X[0, 0], value=value, pred=k.lane < 3)

    run = f"T.Ramp(0, 1, {bits // 16})"
    return f"stg{bits}", body, f"if tx < 3:\n    T.stg{bits}(X[0, {run}], T.ldg{bits}(X[1, {run}]))"


def call(name: str, text: str, /, **documented: Any) -> tuple[str, Any, str]:
    """A call by the documented names of parameters; what is made by the kit is a part of it."""

    def body(kit: Kit) -> Any:
        return getattr(T, name)(**{key: of(kit, value) for key, value in documented.items()})

    return name, body, text


def value(name: str, text: str, /, **documented: Any) -> tuple[str, Any, str]:
    """A call whose value is stored."""
    _, body, _ = call(name, text, **documented)
    return name, lambda kit: put(body(kit)), "N[0] = " + text


def of(kit: Kit, value: Any) -> Any:
    return value(kit) if isinstance(value, attrgetter) else value


BAR, LANE = attrgetter("bar"), attrgetter("lane")
DESC, TILE, HALF = attrgetter("desc"), attrgetter("tile"), attrgetter("half")
MAP_TEXT = (
    "T.create_tma_descriptor(6, 2, T.address_of(X[0, 0]), 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)"
)
FILLED = '(T.access_ptr(buf[0], "w"), T.access_ptr(buf_1[0, 0], "r"), '

# Name, a call with the documented parameters, and the statement that it is.
CALLS: tuple[tuple[str, Any, str], ...] = (
    ("access_ptr",
     lambda k: T.evaluate(
         T.access_ptr(base=X[1, 0], access_type="w", offset=2, extent=4, ignore_last_ndim=0)),
     'T.evaluate(T.access_ptr(X[1, 2], "w", 4))'),
    ("create_tma_descriptor", lambda k: T.evaluate(T.create_tma_descriptor(*MAP)), MAP_TEXT),
    ("tma_load", lambda k: T.tma_load(T.create_tma_descriptor(*MAP), k.bar, k.room, 0, 8),
     f"T.tma_load({MAP_TEXT}, T.address_of(buf[0]), T.address_of(buf_1[0, 0]), 0, 8)"),
    call("fence_proxy_async", "T.fence_proxy_async()"),
    call("tma_store_arrive", "T.tma_store_arrive()"),
    ("tma_store_wait", lambda k: T.tma_store_wait(1), "T.tma_store_wait(1, read=True)"),
    call("set_max_nreg", "T.set_max_nreg(40, 0)", reg_count=40, is_inc=0),
    call("inc_max_nreg", "T.set_max_nreg(240, 1)", reg_count=240),
    call("dec_max_nreg", "T.set_max_nreg(24, 0)", reg_count=24),
    call("annotate_producer_reg_dealloc", "T.annotate_producer_reg_dealloc(32)", reg_count=32),
    call("annotate_consumer_reg_alloc", "T.annotate_consumer_reg_alloc(232)", reg_count=232),
    call("no_set_max_nreg", "T.no_set_max_nreg()"),
    call("disable_warp_group_reg_alloc", "T.disable_warp_group_reg_alloc()"),
    call("ptx_arrive_cluster_barrier", "T.mbarrier_arrive(T.address_of(buf[0]), tx)",
         mbarrier=attrgetter("peers"), cta_id=LANE),
    call("mbarrier_wait_parity", "T.mbarrier_wait(T.address_of(buf[0]), 1)",
         mbarrier=BAR, parity=1),
    call("mbarrier_arrive", "T.mbarrier_arrive(T.address_of(buf[0]))", mbarrier=BAR),
    call("mbarrier_expect_tx", "T.mbarrier_expect_tx(T.address_of(buf[0]), 64)",
         mbarrier=BAR, tx=64),
    call("warpgroup_arrive", "T.warpgroup_arrive()"),
    call("warpgroup_commit_batch", "T.warpgroup_commit_batch()"),
    call("warpgroup_wait", "T.warpgroup_wait(2)", num_mma=2),
    value("get_lane_idx", "tx % 64", warp_size=64),
    value("get_warp_idx_sync", "tx // 64", warp_size=64),
    value("get_warp_idx", "tx // 16", warp_size=16),
    value("get_warp_group_idx", "tx // 192", warp_size=32, warps_per_group=6),
    value("shuffle_elect", 'T.Cast("int32", T.shuffle_elect(64))', thread_extent=64),
    call("warpgroup_fence_operand", "T.warpgroup_fence_operand(T.address_of(buf[0]), 2, 4)",
         buffer_or_ptr=attrgetter("sums"), offset=2, num_regs=4, dtype="float32"),
    call("wait_wgmma", "T.wait_wgmma(3)", id=3),
    call("barrier_wait", "T.mbarrier_wait(T.address_of(buf[0]), 0)", mbarrier=BAR, parity=0),
    call("barrier_arrive", "T.mbarrier_arrive(T.address_of(buf[0]))", mbarrier=BAR),
    value("shfl_xor", "T.shfl_xor(tx, 1)", value=LANE, offset=1),
    value("shfl_down", "T.shfl_down(tx, 2)", value=LANE, offset=2),
    value("shfl_up", "T.shfl_up(tx, 4)", value=LANE, offset=4),
    call("sync_threads", "T.sync_threads(2, 64)", barrier_id=2, arrive_count=64),
    call("sync_warp", "T.sync_warp(15)", mask=15),
    value("shfl_sync", "T.shfl_sync(tx, 3, width=8, mask=T.uint32(15))",
          mask=15, value=LANE, srcLane=3, width=8),
    call("sync_global", "T.sync_grid()"),
    call("sync_grid", "T.sync_grid()"),
    call("initialize_wgmma_descriptor", f"T.initialize_wgmma_descriptor{FILLED}1, 2, 64)",
         descriptor=DESC, start_address=TILE, layout_type_=1, leading_byte_offset=2,
         stride_byte_offset=64),
    call("initialize_tcgen05_descriptor",
         f"T.initialize_tcgen05_descriptor{FILLED}1, 64, 0, 0, 2)",
         descriptor=attrgetter("umma"), start_address=TILE, leading_byte_offset=1,
         stride_byte_offset=64, base_offset=0, leading_is_absolute=False, swizzle_mode=2),
    call("increase_descriptor_offset",
         'T.increase_descriptor_offset(T.access_ptr(buf[0], "w"), 32)', descriptor=DESC, offset=32),
    call("cp_async_barrier_noinc", "T.cp_async_barrier_noinc(T.address_of(buf[0]))", barrier=BAR),
    call("tcgen05_mma_arrive", "T.tcgen05_mma_arrive(T.address_of(buf[0]), arrive_2cta=False)",
         mbar=BAR),
    call("ptx_mma_sm70",
         'T.ptx_mma_sm70("m16n16k4", "row", "col", "fp16", "fp16", "fp32", buf, 0, buf, 0, '
         "buf_1, 0)",
         shape="m16n16k4", A_layout="row", B_layout="col", A_dtype="fp16", B_dtype="fp16",
         C_dtype="fp32", multiplicand_a=HALF, a_index=0, multiplicand_b=HALF, b_index=0,
         accumulator=attrgetter("sums.data"), c_index=0),
    ("loop_break", lambda k: leave(), "for _ in range(4):\n    break"),
    *(load(bits) for bits in (32, 64, 128, 256)),
    *(store(bits) for bits in (32, 64, 128, 256)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "body", "text"), CALLS, ids=[name for name, _, _ in CALLS])
def test_every_documented_call_is_accepted(name: str, body: Any, text: str) -> None:
    assert getattr(T, name) is getattr(builtin, name)

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
    def kernel(M: U32[1], A: I32[32], B: I32[5, 32]):
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
    assert refusal(TileError, trace, body).startswith(text)


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
