"""The smallest program around each hardware intrinsic, for tests and ``docs/dev/coverage.md``.

A case says the lowest architecture that has the intrinsic, what its text has to contain there, and
what happens below: the intrinsic is refused, or, where it is a hint without effect on results,
left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from inspect import Parameter
from typing import Any

import tilelang.language as T
from tilelang.ir.atoms import Atom, Operand
from tilelang.target.features import features_of, lowest_with
from tilelang.target.instruction_table import ROWS

# Architectures in the order of what they have, for "one below".
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120a")


@dataclass(frozen=True)
class Case:
    """One intrinsic.

    Attributes:
        intrinsic: name in ``T``.
        body: emits the intrinsic; gets a :class:`Kit`.
        shows: text that the kernel contains.
        arch: the lowest architecture that has it.
        below: an architecture that lacks it, "" if none that is supported does.
        dropped: whether it is left out there instead of refused.
        error: what the refusal says is missing; default the intrinsic.
        needs: the architecture that it asks for; default `arch`.
    """

    intrinsic: str
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
        descriptor = T.alloc_wgmma_desc()
        T.initialize_wgmma_descriptor(descriptor, T.access_ptr(self.tile, "r"), 1, 1, 64)
        return descriptor

    def tcgen05(self) -> Any:
        descriptor = T.alloc_tcgen05_smem_desc()
        T.initialize_tcgen05_descriptor(
            descriptor, T.access_ptr(self.tile, "r"), 1, 64, 0, False, 2
        )
        return descriptor

    def example(self, operand: Operand) -> Any:
        """The smallest operand of its kind."""
        example = operand.example
        match operand.space:
            case "barrier":
                return self.bar
            case "shared":
                return self.tile
            case "global":
                return self.H
            case "registers":
                return self.registers(*(example if isinstance(example, tuple) else (32,)))
            case "tensor memory":
                return self.tensor_memory
            case "map":
                return self.image() if example == "image" else self.map()
            case "descriptor":
                return T.alloc_wgmma_desc()
            case "descriptor bits":
                return self.wgmma() if example == "wgmma" else self.tcgen05()
        if example is not None:
            return example
        return 1 if operand.default is Parameter.empty else operand.default

    def examples(self, row: Atom) -> list[Any]:
        """The operands of the smallest program around an intrinsic."""
        examples: list[Any] = []
        for operand in row.operands:
            example = self.example(operand)
            examples += example if operand.many else [example]
        return examples


# -- what follows from rows ------------------------------------------------------------------------
# Exact texts of those that a function of the back end writes.
WRITTEN = {
    "mbarrier_arrive": "tl_mbarrier_arrive(buf);",
    "ptx_ldmatrix": "tl_ldmatrix_x4(buf, buf_1);",
    "ptx_stmatrix": "tl_stmatrix_x4(buf, buf_1);",
    "ptx_mma_sm70": "tl_mma_m16n16k4_row_col_f16_f16_f32(buf_2, buf, buf_1);",
    "ptx_mma": "tl_mma_m16n8k16_f16_f16_f32(buf_2, buf, buf_1);",
    "ptx_mma_sp":
        "tl_mma_sp_m16n8k32_f16_f16_f32<1>(buf_2, buf, buf_1, *(const uint32_t*)(buf_3));",
    "create_tma_descriptor": "const __grid_constant__ tl_tensor_map H_map",
    "create_tma_im2col_descriptor": "const __grid_constant__ tl_tensor_map H_map",
    "tma_load": "tl_tma_load(buf_1, &H_map, buf, 0, 8);",
    "tma_load_multicast": "tl_tma_load_multicast(buf_1, &H_map, buf, 3, 0, 8);",
    "tma_load_im2col": "tl_tma_load_im2col(buf_1, &H_map, buf, 0, -1, 0, 0, 2, 1);",
    "tma_store": "tl_tma_store(&H_map, buf, 0, 8);",
    "ptx_cp_async_bulk": "tl_bulk_load(buf, H, 8192, buf_1);",
    "ptx_wgmma_ss":
        "tl_wgmma_m64n64k16_f16_f16_f32_ss<0, 0, 1, 1>(buf_4, buf[0], buf_2[0] + 2, 1);",
    "ptx_wgmma_rs": "tl_wgmma_m64n64k16_f16_f16_f32_rs<0, 1, 1>(buf_3, buf, buf_1[0] + 2, 1);",
    "ptx_tcgen05_mma_ss": "tl_tcgen05_mma_ss_f16(buf_4, buf[0], buf_2[0] + 2, 135267472, 1);",
    "ptx_tcgen05_mma_ts": "tl_tcgen05_mma_ts_f16(buf_3, buf, buf_1[0] + 2, 135267472, 1);",
    "tcgen05_mma_arrive": "tl_tcgen05_commit(buf);",
    "tcgen05_ld": "tl_tcgen05_ld_32x32b_x1(buf, buf_1);",
    "tcgen05_st": "tl_tcgen05_st_32x32b_x1(buf, buf_1);",
}  # fmt: skip


# Names with a case of their own below.
ELSEWHERE = ("ptx_arrive_cluster_barrier",)


def of_rows() -> list[Case]:
    """A case for each name of each row that programs write."""
    return [
        _of_row(row, name)
        for row in ROWS.values()
        if row.doc
        for name in (*(row.names or (row.name,)), *row.strict)
        if name not in ELSEWHERE
    ]


def _of_row(row: Atom, name: str) -> Case:
    def body(k: Kit) -> None:
        value = getattr(T, name)(*k.examples(row))
        if row.writer == "tensor map":
            T.prefetch_tma_descriptor(value)
        elif row.result == "handle":
            T.evaluate(T.call_extern("void", "free", value))
        elif row.result != "void":
            k.put(value)

    arch = next(arch for arch in ARCHS if has(arch, row.needs))
    below = ARCHS[: ARCHS.index(arch)][-1:]
    shows = WRITTEN.get(row.name) or re.split(r"[{(]", row.text)[0]
    error, needs = _lacking(row, *below) if below else ("", "")
    dropped = row.optional and not error.startswith("the barrier")
    return Case(name, body, shows, arch, *below or ("",), dropped, error, needs)


def _lacking(row: Atom, below: str) -> tuple[str, str]:
    """What an architecture without the feature of a row refuses first, and what has it."""
    spaces = [operand.space for operand in row.operands]
    for space, feature, named in (
        ("tensor memory", "tcgen05", "the tensor memory of `buf`"),
        ("barrier", "mbarrier", "the barrier `buf`"),
        ("descriptor bits", "descriptors", "T.initialize_wgmma_descriptor"),
    ):
        if space in spaces and not has(below, feature):
            return named, lowest_with(feature)
    shown = "prefetch_tma_descriptor" if row.writer == "tensor map" else row.name
    return f"T.{shown}", lowest_with(row.needs)


def has(arch: str, feature: str) -> bool:
    """Whether an architecture has a feature."""
    return feature in ("threads", *features_of("cuda", arch))


# -- others ----------------------------------------------------------------------------------------
def _common() -> list[Case]:
    """Intrinsics of every architecture."""
    e = Case
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
    ]  # fmt: skip


@T.macro
def _break(k: Kit) -> None:
    for i in T.serial(4):
        if i == 2:
            T.loop_break()
        k.N[i] = i


def _registers() -> list[Case]:
    """Registers of warpgroups, fences of registers, and tensor memory."""

    def hint(intrinsic: str, body: Callable[[Kit], object], shows: str) -> Case:
        return Case(intrinsic, body, shows, "sm_90a", "sm_90", True)

    return [
        Case("alloc_barrier", lambda k: k.bar, "tl_mbarrier_init(buf, 1);",
             "sm_80", "sm_75", error="the barrier `buf`"),
        Case("ptx_arrive_cluster_barrier", lambda k: T.ptx_arrive_cluster_barrier(k.bar, 0),
             "tl_mbarrier_arrive_remote(buf, 0);", "sm_90", "sm_89", error="T.mbarrier_arrive"),
        Case("alloc_tmem", lambda k: k.tensor_memory, "tl_tmem_alloc<64>(buf_slot);",
             "sm_100a", "sm_90a", error="the tensor memory of `buf`"),
        Case("deallocate_tmem", lambda k: T.deallocate_tmem(k.tensor_memory),
             "tl_tmem_free<64>(buf);", "sm_100a", "sm_90a", error="the tensor memory of `buf`"),
        hint("warpgroup_fence_operand", lambda k: T.warpgroup_fence_operand(k.registers(32)),
             "tl_wgmma_touch_f32<32>(buf);"),
        hint("set_max_nreg", lambda k: T.set_max_nreg(240, 1), "tl_setmaxnreg_inc<240>();"),
        hint("inc_max_nreg", lambda k: T.inc_max_nreg(240), "tl_setmaxnreg_inc<240>();"),
        hint("dec_max_nreg", lambda k: T.dec_max_nreg(24), "tl_setmaxnreg_dec<24>();"),
        *[hint(name, _note(name), "intrinsic_kernel") for name in _NOTES],
    ]  # fmt: skip


# Advice that has no instruction.
_NOTES = (
    "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc", "no_set_max_nreg",
    "disable_warp_group_reg_alloc",
)  # fmt: skip


def _note(name: str) -> Callable[[Kit], object]:
    return lambda k: getattr(T, name)()


@lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Every case."""
    return (*_common(), *of_rows(), *_registers())


def program(case: Case, threads: int = 128) -> Any:
    """The program around an intrinsic."""
    body = case.body

    @T.prim_func
    def intrinsic(
        A: T.Tensor((1024,), "float32"),
        H: T.Tensor((64, 64), "float16"),
        N: T.Tensor((128,), "int32"),
    ):
        with T.Kernel(2, threads=threads):
            tx = T.get_thread_binding()
            body(Kit(A, H, N, tx))

    return intrinsic
