"""The smallest program around each hardware word, for the tests and for ``docs/coverage.md``.

A case says the lowest architecture that has the word, what its text has to contain there, and what
happens below: the word is refused, or, where it is a hint without effect on results, left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tilelang.language as T

# Architectures in the order of what they have, for "one below".
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120a")


@dataclass(frozen=True)
class Case:
    """One word.

    Attributes:
        word: name in ``T``.
        body: emits the word; gets a :class:`Kit`.
        shows: text that the kernel contains.
        arch: the lowest architecture that has it.
        below: an architecture that lacks it, "" if none that is supported does.
        dropped: whether it is left out there instead of refused.
        error: what the refusal says is missing; default the word.
        needs: the architecture that it asks for; default `arch`.
    """

    word: str
    body: Callable[[Kit], object]
    shows: str
    arch: str = "sm_75"
    below: str = ""
    dropped: bool = False
    error: str = ""
    needs: str = ""


class Kit:
    """What bodies work with; memory is allocated when it is asked for."""

    def __init__(self, A: Any, H: Any, N: Any, thread: Any) -> None:
        self.A, self.H, self.N, self.thread = A, H, N, thread

    def put(self, value: Any) -> None:
        """Use a value."""
        self.N[self.thread] = T.cast(value, "int32")

    @property
    def tile(self) -> Any:
        return T.alloc_shared((64, 64), "float16")

    @property
    def bar(self) -> Any:
        return T.alloc_barrier([1])[0]

    @property
    def tensor_memory(self) -> Any:
        return T.alloc_tmem((128, 64), "float32")

    def registers(self, count: int, kind: str = "float32") -> Any:
        return T.alloc_local((count,), kind)

    def map(self) -> Any:
        """A tensor map of ``H`` with boxes of 64 x 64."""
        return T.create_tma_descriptor(6, 2, self.H, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)

    def image(self) -> Any:
        """An im2col map of ``H`` as 4 pixels of 4 x 4 and 64 channels."""
        return T.create_tma_im2col_descriptor(
            6, 4, self.H, 64, 4, 4, 4, 2, 128, 512, 2048, 1, 1, 1, 1, -1, -1, 0, 0, 64, 64, 0, 3,
            2, 0,
        )  # fmt: skip

    def wgmma(self) -> Any:
        made = T.alloc_wgmma_desc()
        T.initialize_wgmma_descriptor(made, T.access_ptr(self.tile, "r"), 1, 1, 64)
        return made

    def tcgen05(self) -> Any:
        made = T.alloc_tcgen05_smem_desc()
        T.initialize_tcgen05_descriptor(made, T.access_ptr(self.tile, "r"), 1, 64, 0, False, 2)
        return made


def _everywhere(word: str, body: Callable[[Kit], object], shows: str) -> Case:
    return Case(word, body, shows)


def _hint(word: str, body: Callable[[Kit], object], shows: str, arch: str, below: str) -> Case:
    return Case(word, body, shows, arch, below, dropped=True)


def _common() -> list[Case]:
    """Words of every architecture."""
    e = _everywhere
    return [
        e("access_ptr", lambda k: T.call_extern("void", "free", T.access_ptr(k.A[4], "rw")),
          "free(&A[4])"),
        e("address_of", lambda k: T.evaluate(T.call_extern("void", "free", T.address_of(k.A[4]))),
          "free(&A[4])"),
        e("tvm_access_ptr", lambda k: T.evaluate(T.call_extern("void", "free", T.tvm_access_ptr(
            T.type_annotation("float32"), k.A.data, 4, 8, 3))), "free(A + 4);"),
        e("get_lane_idx", lambda k: k.put(T.get_lane_idx()), "N[tx] = tx % 32;"),
        e("get_warp_idx_sync", lambda k: k.put(T.get_warp_idx_sync()), "N[tx] = tx / 32;"),
        e("get_warp_idx", lambda k: k.put(T.get_warp_idx()), "N[tx] = tx / 32;"),
        e("get_warp_group_idx", lambda k: k.put(T.get_warp_group_idx()), "N[tx] = 0;"),
        e("shuffle_elect", lambda k: k.put(T.shuffle_elect(64)), "% 64 == 0"),
        e("shfl_xor", lambda k: k.put(T.shfl_xor(k.thread, 1)), "tl_shfl_xor(tx, 1)"),
        e("shfl_down", lambda k: k.put(T.shfl_down(k.thread, 1)), "tl_shfl_down(tx, 1)"),
        e("shfl_up", lambda k: k.put(T.shfl_up(k.thread, 1)), "tl_shfl_up(tx, 1)"),
        e("shfl_sync", lambda k: k.put(T.shfl_sync(0xFFFFFFFF, k.thread, 3)), "tl_shfl(tx, 3)"),
        e("sync_threads", lambda k: T.sync_threads(1, 64), "tl_bar_sync(1, 64);"),
        e("named_barrier_arrive", lambda k: T.named_barrier_arrive(1, 64), "tl_bar_arrive(1, 64);"),
        e("sync_warp", lambda k: T.sync_warp(), "__syncwarp();"),
        e("sync_grid", lambda k: T.sync_grid(), "tl_sync_grid();"),
        e("sync_global", lambda k: T.sync_global(), "tl_sync_grid();"),
        e("loop_break", _break, "break;"),
        e("reinterpret", lambda k: k.put(T.reinterpret("int32", k.A[0])),
          "tl_bits<int32_t>((float)A[0])"),
        e("ldg32", lambda k: k.put(T.ldg32(k.A[k.thread])), "tl_ldg32(&A[tx])"),
        e("ldg64", lambda k: T.stg64(k.N[k.thread * 2 % 128], T.ldg64(k.A[k.thread * 2])),
          "tl_ldg64(A_vec, &A[tx * 2]);"),
        e("ldg128", lambda k: T.stg128(k.N[k.thread % 32 * 4], T.ldg128(k.A[k.thread * 4])),
          "tl_ldg128(A_vec, &A[tx * 4]);"),
        e("ldg256", lambda k: T.stg256(k.N[k.thread % 16 * 8], T.ldg256(k.A[k.thread * 8])),
          "tl_ldg128(A_vec, &A[tx * 8]);"),
        e("stg32", lambda k: T.stg32(k.A[k.thread], T.ldg32(k.A[k.thread + 64])),
          "tl_stg32(&A[tx]"),
        e("stg64", lambda k: T.stg64(k.A[k.thread * 2], T.ldg64(k.A[k.thread * 2])), "tl_stg64("),
        e("stg128", lambda k: T.stg128(k.A[k.thread * 4], T.ldg128(k.A[k.thread * 4])),
          "tl_stg128("),
        e("stg256", lambda k: T.stg256(k.A[k.thread * 8], T.ldg256(k.A[k.thread * 8])),
          "tl_stg128("),
        e("atomic_addx2", lambda k: T.atomic_addx2(k.A[0], k.A[2]), "tl_atomic_addx2_f32("),
        e("atomic_addx4", lambda k: T.atomic_addx4(k.A[0], k.A[4]), "tl_atomic_addx4_f32("),
        e("ptx_ldmatrix", lambda k: T.ptx_ldmatrix(
            "float16", False, 4, ".b16", k.registers(8, "float16"), 0, k.tile, 0),
          "tl_ldmatrix_x4(buf, buf_1)"),
        e("ptx_mma_sm70", lambda k: T.ptx_mma_sm70(
            "m16n16k4", "row", "col", "fp16", "fp16", "fp32", k.registers(4, "float16"), 0,
            k.registers(4, "float16"), 0, k.registers(8), 0),
          "tl_mma_m16n16k4_row_col_f16_f16_f32("),
    ]  # fmt: skip


@T.macro
def _break(k: Kit) -> None:
    for i in T.serial(4):
        if i == 2:
            T.loop_break()
        k.N[i] = i


def _barriers() -> list[Case]:
    """Words on barriers in shared memory, and copies that they wait for."""

    def b(
        word: str, body: Callable[[Kit], object], shows: str, arch: str = "sm_80", error: str = ""
    ) -> Case:
        below = {"sm_80": "sm_75", "sm_90": "sm_80"}[arch]
        missing = "the barrier `buf`" if arch == "sm_80" else error
        return Case(word, body, shows, arch, below, error=missing)

    return [
        b("alloc_barrier", lambda k: k.bar, "tl_mbarrier_init(buf, 1);"),
        b("barrier_arrive", lambda k: T.barrier_arrive(k.bar), "tl_mbarrier_arrive(buf);"),
        b("barrier_wait", lambda k: T.barrier_wait(k.bar, 0), "tl_mbarrier_wait(buf, 0);"),
        b("mbarrier_arrive", lambda k: T.mbarrier_arrive(k.bar), "tl_mbarrier_arrive(buf);"),
        b("mbarrier_wait_parity", lambda k: T.mbarrier_wait_parity(k.bar, 1),
          "tl_mbarrier_wait(buf, 1);"),
        b("mbarrier_try_wait", lambda k: k.put(T.mbarrier_try_wait(k.bar, 1)),
          "tl_mbarrier_try_wait(buf, 1)"),
        b("cp_async_barrier_noinc", lambda k: T.cp_async_barrier_noinc(k.bar),
          "tl_cp_async_mbarrier_arrive_noinc(buf);"),
        b("ptx_arrive_cluster_barrier", lambda k: T.ptx_arrive_cluster_barrier(k.bar, 1),
          "tl_mbarrier_arrive_remote(buf, 1);", "sm_90", "T.mbarrier_arrive"),
        b("mbarrier_expect_tx", lambda k: T.mbarrier_expect_tx(k.bar, 64),
          "tl_mbarrier_expect_tx(buf, 64);", "sm_90"),
        b("mbarrier_arrive_expect_tx", lambda k: T.mbarrier_arrive_expect_tx(k.bar, 64),
          "tl_mbarrier_arrive_expect_tx(buf, 64);", "sm_90"),
    ]  # fmt: skip


def _clusters() -> list[Case]:
    """Words of clusters, elected lanes, dependent launches."""

    def c(word: str, body: Callable[[Kit], object], shows: str) -> Case:
        return Case(word, body, shows, "sm_90", "sm_89")

    return [
        c("cluster_arrive", lambda k: T.cluster_arrive(), "tl_cluster_arrive();"),
        c("cluster_arrive_relaxed", lambda k: T.cluster_arrive_relaxed(),
          "tl_cluster_arrive_relaxed();"),
        c("cluster_wait", lambda k: T.cluster_wait(), "tl_cluster_wait();"),
        c("cluster_sync", lambda k: T.cluster_sync(), "tl_cluster_sync();"),
        c("block_rank_in_cluster", lambda k: k.put(T.block_rank_in_cluster()),
          "tl_block_rank_in_cluster()"),
        c("map_shared_rank", lambda k: T.evaluate(T.call_extern(
            "void", "free", T.map_shared_rank(k.tile[0, 0], 1))),
          "tl_map_shared(buf, 1)"),
        c("elect_one", lambda k: k.put(T.elect_one()), "tl_elect_one()"),
        c("ptx_stmatrix", lambda k: T.ptx_stmatrix(
            False, 4, k.tile, 0, k.registers(8, "float16"), 0), "tl_stmatrix_x4(buf, buf_1);"),
        _hint("fence_proxy_async", lambda k: T.fence_proxy_async(), "tl_fence_proxy_async();",
              "sm_90", "sm_89"),
        _hint("ptx_fence_barrier_init", lambda k: T.ptx_fence_barrier_init(),
              "tl_fence_barrier_init();", "sm_90", "sm_89"),
        _hint("pdl_sync", lambda k: T.pdl_sync(), "tl_pdl_sync();", "sm_90", "sm_89"),
        _hint("pdl_trigger", lambda k: T.pdl_trigger(), "tl_pdl_trigger();", "sm_90", "sm_89"),
        _hint("ptx_commit_group", lambda k: T.ptx_commit_group(), "tl_cp_async_commit();",
              "sm_80", "sm_75"),
        _hint("ptx_wait_group", lambda k: T.ptx_wait_group(1), "tl_cp_async_wait<1>();",
              "sm_80", "sm_75"),
    ]  # fmt: skip


def _tensor_copies() -> list[Case]:
    """Bulk copies by tensor maps."""

    def t(word: str, body: Callable[[Kit], object], shows: str, error: str = "") -> Case:
        return Case(word, body, shows, "sm_90", "sm_89", error=error)

    barrier = ""
    return [
        t("create_tma_descriptor", lambda k: T.prefetch_tma_descriptor(k.map()),
          "const __grid_constant__ tl_tensor_map H_map", "T.prefetch_tma_descriptor"),
        t("create_tma_im2col_descriptor", lambda k: T.prefetch_tma_descriptor(k.image()),
          "const __grid_constant__ tl_tensor_map H_map", "T.prefetch_tma_descriptor"),
        t("prefetch_tma_descriptor", lambda k: T.prefetch_tma_descriptor(k.map()),
          "tl_tma_prefetch(&H_map);"),
        t("tma_load", lambda k: T.tma_load(k.map(), k.bar, k.tile, 0, k.thread),
          "tl_tma_load(buf_1, &H_map, buf, 0, tx);", barrier),
        t("tma_load_multicast", lambda k: T.tma_load_multicast(
            k.map(), k.bar, k.tile, 3, 0, 8, eviction_policy="evict_first"),
          "tl_tma_load_multicast_hint(buf_1, &H_map, buf, 3, 0x12f0000000000000ull, 0, 8);"),
        t("tma_load_im2col", lambda k: T.tma_load_im2col(
            k.image(), k.bar, k.tile, 0, -1, 0, 0, 2, 1),
          "tl_tma_load_im2col(buf_1, &H_map, buf, 0, -1, 0, 0, 2, 1);"),
        t("tma_store", lambda k: T.tma_store(k.map(), k.tile, 0, 8, reduce="add"),
          "tl_tma_reduce_add(&H_map, buf, 0, 8);"),
        t("ptx_cp_async_bulk", lambda k: T.ptx_cp_async_bulk(k.tile, k.H, 8192, _address(k.bar)),
          "tl_bulk_load(buf, H, 8192, buf_1);"),
        _hint("tma_store_arrive", lambda k: T.tma_store_arrive(), "tl_bulk_commit();",
              "sm_90", "sm_89"),
        _hint("tma_store_wait", lambda k: T.tma_store_wait(), "tl_bulk_wait_read<0>();",
              "sm_90", "sm_89"),
    ]  # fmt: skip


def _address(element: Any) -> Any:
    return T.address_of(element)


def _warpgroups() -> list[Case]:
    """Products of warpgroups and the order and registers around them."""

    def w(word: str, body: Callable[[Kit], object], shows: str, below: str = "sm_90") -> Case:
        return Case(word, body, shows, "sm_90a", below)

    def hint(word: str, body: Callable[[Kit], object], shows: str) -> Case:
        return _hint(word, body, shows, "sm_90a", "sm_90")

    return [
        Case("initialize_wgmma_descriptor", lambda k: k.wgmma(),
             "tl_wgmma_descriptor(buf, buf_1, 1, 1, 64);", "sm_90", "sm_89"),
        Case("increase_descriptor_offset", lambda k: T.increase_descriptor_offset(k.wgmma(), 32),
             "tl_descriptor_add(buf, 32);", "sm_90", "sm_89",
             error="T.initialize_wgmma_descriptor"),
        w("ptx_wgmma_ss", lambda k: T.ptx_wgmma_ss(
            "float32", "m64n64k16", True, False, "fp16", "fp16", "fp32", k.wgmma(), 0, k.wgmma(), 2,
            k.registers(32), 0, True, 1, 1),
          "tl_wgmma_m64n64k16_f16_f16_f32_ss<0, 1, 1, 1>(buf_4, buf[0], buf_2[0] + 2, 1);"),
        w("ptx_wgmma_rs", lambda k: T.ptx_wgmma_rs(
            "float32", "m64n64k32", True, "e4m3", "e4m3", "fp32", k.registers(16, "float8_e4m3fn"),
            0, k.wgmma(), 0, k.registers(32), 0, False, 1, 1),
          "tl_wgmma_m64n64k32_e4m3_e4m3_f32_rs<0, 1, 1>(buf_3, buf, buf_1[0], 0);"),
        hint("warpgroup_arrive", lambda k: T.warpgroup_arrive(), "tl_wgmma_fence();"),
        hint("warpgroup_commit_batch", lambda k: T.warpgroup_commit_batch(), "tl_wgmma_commit();"),
        hint("warpgroup_wait", lambda k: T.warpgroup_wait(1), "tl_wgmma_wait<1>();"),
        hint("wait_wgmma", lambda k: T.wait_wgmma(0), "tl_wgmma_wait<0>();"),
        hint("warpgroup_fence_operand", lambda k: T.warpgroup_fence_operand(k.registers(32)),
             "tl_wgmma_touch_f32<32>(buf);"),
        hint("set_max_nreg", lambda k: T.set_max_nreg(240, 1), "tl_setmaxnreg_inc<240>();"),
        hint("inc_max_nreg", lambda k: T.inc_max_nreg(240), "tl_setmaxnreg_inc<240>();"),
        hint("dec_max_nreg", lambda k: T.dec_max_nreg(24), "tl_setmaxnreg_dec<24>();"),
        *[_hint(name, _note(name), "word_kernel", "sm_90a", "sm_90") for name in _NOTES],
    ]  # fmt: skip


# Advice to the compiler of the reference, which has no instruction.
_NOTES = (
    "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc", "no_set_max_nreg",
    "disable_warp_group_reg_alloc",
)  # fmt: skip


def _note(name: str) -> Callable[[Kit], object]:
    return lambda k: getattr(T, name)()


def _warps() -> list[Case]:
    """Matrix instructions of one warp."""
    half = "float16"
    return [
        Case("ptx_mma", lambda k: T.ptx_mma(
            "float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", k.registers(8, half), 0,
            k.registers(4, half), 0, k.registers(8), 4, False),
            "tl_mma_m16n8k16_f16_f16_f32(&buf_2[4], buf, buf_1);"),
        Case("ptx_mma_sp", lambda k: T.ptx_mma_sp(
            "float32", "m16n8k32", "row", "col", "fp16", "fp16", "fp32", k.registers(8, half), 0,
            k.registers(8, half), 0, k.registers(4), 0, k.registers(1, "uint32"), 0, 1, False),
            "tl_mma_sp_m16n8k32_f16_f16_f32<1>(buf_2, buf, buf_1, *(const uint32_t*)(buf_3));",
            "sm_80", "sm_75",
            error="the sparse matrix instruction m16n8k32 of f16 and f16"),
    ]  # fmt: skip


def _tensor_memory() -> list[Case]:
    """Tensor memory and its products."""

    def m(word: str, body: Callable[[Kit], object], shows: str, error: str = "") -> Case:
        return Case(word, body, shows, "sm_100a", "sm_90a", error=error)

    def work(word: str, body: Callable[[Kit], object], shows: str) -> Case:
        return Case(word, body, shows, "sm_100", "sm_90a")

    memory = "the tensor memory of `buf`"
    return [
        m("alloc_tmem", lambda k: k.tensor_memory, "tl_tmem_alloc<64>(buf_slot);", memory),
        m("deallocate_tmem", lambda k: T.deallocate_tmem(k.tensor_memory),
          "tl_tmem_free<64>(buf);", memory),
        m("initialize_tcgen05_descriptor", lambda k: k.tcgen05(),
          "tl_tcgen05_descriptor(buf, buf_1, 1, 64, 0, 0, 2);"),
        m("ptx_tcgen05_mma_ss", lambda k: T.ptx_tcgen05_mma_ss(
            "fp16", k.tcgen05(), 0, k.tcgen05(), 2, k.tensor_memory, 0, 0x8100490, True,
            0, 0, 0, 0),
          "tl_tcgen05_mma_ss_f16(buf_4, buf[0], buf_2[0] + 2, 135267472, 1, 0, 0, 0, 0);",
          memory),
        m("ptx_tcgen05_mma_ts", lambda k: T.ptx_tcgen05_mma_ts(
            "e4m3", k.tensor_memory, 16, k.tcgen05(), 0, k.tensor_memory, 0, 0x8100490, False),
          "tl_tcgen05_mma_ts_f8f6f4(buf_3, buf + 16, buf_1[0], 135267472, 0);", memory),
        m("tcgen05_mma_arrive", lambda k: T.tcgen05_mma_arrive(k.bar), "tl_tcgen05_commit(buf);"),
        m("tcgen05_ld", lambda k: T.tcgen05_ld(k.registers(8), k.tensor_memory, "32x32b", 8),
          "tl_tcgen05_ld_32x32b_x8(buf, buf_1);", memory),
        m("tcgen05_st", lambda k: T.tcgen05_st(k.tensor_memory[0, 8], k.registers(8), "16x256b", 2),
          "tl_tcgen05_st_16x256b_x2(buf + 8, buf_1);", memory),
        m("tcgen05_cp", lambda k: T.tcgen05_cp(k.tcgen05(), k.tensor_memory),
          "tl_tcgen05_cp_128x256b(buf_2, buf[0]);", memory),
        m("tcgen05_wait_ld", lambda k: T.tcgen05_wait_ld(), "tl_tcgen05_wait_ld();"),
        m("tcgen05_wait_st", lambda k: T.tcgen05_wait_st(), "tl_tcgen05_wait_st();"),
        m("tcgen05_before_thread_sync", lambda k: T.tcgen05_before_thread_sync(),
          "tl_tcgen05_fence_before();"),
        m("tcgen05_after_thread_sync", lambda k: T.tcgen05_after_thread_sync(),
          "tl_tcgen05_fence_after();"),
        work("clc_try_cancel", lambda k: T.clc_try_cancel(k.tile, k.bar),
          "tl_clc_try_cancel(buf, buf_1);"),
        m("clc_try_cancel_multicast", lambda k: T.clc_try_cancel_multicast(k.tile, k.bar),
          "tl_clc_try_cancel_multicast(buf, buf_1);"),
        work("clc_is_canceled", lambda k: k.put(T.clc_is_canceled(k.tile)),
             "tl_clc_is_canceled(buf)"),
        *[
            work(f"clc_get_first_ctaid_{axis}", _first(axis), f"tl_clc_first_ctaid_{axis}(buf)")
            for axis in "xyz"
        ],
    ]  # fmt: skip


def _first(axis: str) -> Callable[[Kit], object]:
    return lambda k: k.put(getattr(T, f"clc_get_first_ctaid_{axis}")(k.tile))


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every case."""
    return (
        *_common(), *_barriers(), *_clusters(), *_tensor_copies(), *_warps(), *_warpgroups(),
        *_tensor_memory(),
    )  # fmt: skip


def program(case: Case, threads: int = 128) -> Any:
    """The program around a word."""
    body = case.body

    @T.prim_func
    def word(
        A: T.Tensor((1024,), "float32"),
        H: T.Tensor((64, 64), "float16"),
        N: T.Tensor((128,), "int32"),
    ):
        with T.Kernel(2, threads=threads):
            tx = T.get_thread_binding()
            body(Kit(A, H, N, tx))

    return word
