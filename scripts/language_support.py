"""Which functions of the language run where: the table behind ``docs/dev/coverage.md``.

Most of it follows from the rows of instructions: an intrinsic or tile operation that needs an
architecture runs only there, one that needs threads runs in the interpreter but not on the CPU.
"""

from __future__ import annotations

from tilelang import language
from tilelang.ir.atoms import Effect
from tilelang.ir.tables import MBARRIER_ARRIVE, RNG_INIT, UNKNOWN_POINTER
from tilelang.records import dataclass
from tilelang.target.features import lowest_with
from tilelang.target.instruction_table import ROWS
from tilelang.target.nvidia import HARDWARE_TILES


@dataclass(frozen=True)
class Support:
    """Whether a function runs in the interpreter and on the CPU; ``note`` says what is special."""

    interpreter: bool
    cpu: bool
    note: str = ""


# Functions whose intrinsic or tile operation has another name.
_OPERATION = {
    **{name: row.name for row in ROWS.values() for name in (*row.names, *row.strict)},
    **dict.fromkeys(
        (
            "alloc_barrier",
            "alloc_cluster_barrier",
            "create_barriers",
            "create_list_of_mbarrier",
            "get_mbarrier",
            "tma_copy",
        ),
        MBARRIER_ARRIVE.name,
    ),
    "comm_reducer": "thread_allreduce",
    "CommReducer": "thread_allreduce",
    "tvm_warp_activemask": "activemask",
    "tvm_warp_shuffle": "shfl_sync",
    "tvm_warp_shuffle_down": "shfl_down",
    "tvm_warp_shuffle_up": "shfl_up",
    "sync_global": "sync_grid",
    "alloc_tmem": "tcgen05_gemm",
    "alloc_descriptor": "initialize_wgmma_descriptor",
    "alloc_wgmma_desc": "initialize_wgmma_descriptor",
    "alloc_tcgen05_instr_desc": "initialize_tcgen05_descriptor",
    "alloc_tcgen05_instruction_desc": "initialize_tcgen05_descriptor",
    "alloc_tcgen05_smem_desc": "initialize_tcgen05_descriptor",
    "gemm_sp_v2": "gemm_sp",
    "tcgen05_mma": "tcgen05_gemm",
    "tcgen05_mma_blockscaled": "tcgen05_gemm_blockscaled",
}

# What the tables do not say.
_SPECIAL = {
    "ptx_arrive_cluster_barrier": Support(False, False, "needs sm_90"),
    "ClusterKernel": Support(True, True, "clusters are not formed; cluster operations need sm_90"),
    "CUDASourceCodeKernel": Support(False, False, "CUDA source needs a CUDA target"),
    "alloc_cluster_barrier": Support(True, False, "visible to the own block only"),
    "call_extern": Support(True, True, "mathematical functions of C and CUDA"),
    "call_pure_extern": Support(True, True, "mathematical functions of C and CUDA"),
    "call_intrin": Support(True, True, "mathematical functions of C and CUDA"),
    "copy_cluster": Support(True, True, "each block loads for itself; to other blocks needs sm_90"),
    "import_source": Support(True, True, "kept; device source needs a CUDA target"),
    "sync_grid": Support(True, True, "every block has a thread of the system"),
    "sync_global": Support(True, True, "every block has a thread of the system"),
    "tma_copy": Support(True, True, "complete at once but on sm_90 and later"),
    "ptx_cp_async": Support(
        True, True, "asynchronous where the program waits for it, else complete at once"
    ),
    "async_copy": Support(True, True, "a copy that is complete at once"),
    "wgmma_gemm": Support(True, True, "complete at once but on sm_90a"),
    "wgmma_mma": Support(True, True, "complete at once but on sm_90a"),
    "gemm": Support(True, True, "float32 operands are exact; in tensor memory sm_100"),
    "cast": Support(True, True, "round='rs' needs sm_100"),
    "Cast": Support(True, True, "round='rs' needs sm_100"),
    RNG_INIT.name: Support(True, True, "Philox, XORWOW, MRG32k3a"),
}

# Names of the reference that this implementation does not have.
_ABSENT = {
    "tir": "TVM's module",
    "target": "TVM's targets; give target= to tilelang.jit",
    "intrinsics": "emitters that print CUDA instructions",
    "__tilelang_dialect__": "marker of the reference",
}


def _derived(name: str) -> Support:
    operation = _OPERATION.get(name, name.strip("_"))
    needs = HARDWARE_TILES.get(operation, "")
    row = ROWS.get(operation)
    if row is not None:
        needs = "" if row.optional else row.needs
    if not needs:
        return Support(True, True)
    if needs == "threads" or (row is not None and row.emulated):
        if row is UNKNOWN_POINTER:
            return Support(False, False, "a pointer without a buffer needs a GPU")
        if row is not None and row.effect is Effect.SYNC:
            return Support(True, True, "waiting for threads that run later is an error")
        return Support(True, True)
    return Support(False, False, f"needs {lowest_with(needs)}")


def _table() -> dict[str, Support]:
    table = {name: _SPECIAL.get(name) or _derived(name) for name in language.__all__}
    for name, note in _ABSENT.items():
        table[name] = Support(False, False, f"not there: {note}")
    return dict(sorted(table.items()))


# Every exported function, and the known ones that are missing -> where it runs.
SUPPORT = _table()
