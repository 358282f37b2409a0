"""Limits of a block, which decide its occupancy: public figures per architecture, as a table.

Sources: CUDA C++ Programming Guide, "Compute Capabilities"; AMD CDNA and RDNA instruction set
manuals; Metal Feature Set Tables.
"""

from __future__ import annotations

from tilelang.ir.lanes import WARP
from tilelang.records import dataclass
from tilelang.target.features import HIP_ARCH, cuda_number

KIB = 1024


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one block. Sizes in bytes.

    ``shared_static`` is what needs no opt-in at launch; ``shared_block`` the most a block can
    have; ``shared_processor`` what the blocks on one multiprocessor share. ``registers`` is the
    number of 32-bit registers of a multiprocessor, ``registers_thread`` the most of one thread;
    ``processors`` how many multiprocessors the usual part has.
    0 means: there is no such limit.
    """

    threads: int = 1024
    warp: int = WARP  # lanes
    banks: int = 32  # of shared memory
    bank_bytes: int = 4  # that a bank serves at once
    shared_static: int = 48 * KIB
    shared_block: int = 48 * KIB
    shared_processor: int = 0
    threads_processor: int = 0
    blocks_processor: int = 0
    registers: int = 0
    registers_thread: int = 0
    processors: int = 0
    block: tuple[int, int, int] = (1024, 1024, 64)
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    floats: tuple[str, ...] = ()  # the dtypes of floats that it has; (): all of them

    def registers_at_start(self, threads: int) -> int:
        """The most registers that each thread of a block of ``threads`` has from its start, in
        eights. Warpgroups that ask for more than others give back wait for ever (PTX,
        "setmaxnreg")."""
        return min(self.registers // threads // 8 * 8, self.registers_thread)


def _cuda(block: int, processor: int, threads: int, blocks: int, processors: int = 0) -> Limits:
    return Limits(
        shared_block=block * KIB, shared_processor=processor * KIB, threads_processor=threads,
        blocks_processor=blocks, registers=64 * KIB, registers_thread=255, processors=processors,
    )  # fmt: skip


def _amd(warp: int, shared: int, threads: int) -> Limits:
    return Limits(
        warp=warp, shared_static=shared * KIB, shared_block=shared * KIB,
        shared_processor=shared * KIB, threads_processor=threads,
        registers_thread=512 if warp == 64 else 256, block=(1024, 1024, 1024),
        grid=(2**31 - 1, 2**31 - 1, 2**31 - 1),
    )  # fmt: skip


CUDA: dict[int, Limits] = {
    75: _cuda(64, 64, 1024, 16),
    80: _cuda(163, 164, 2048, 32),
    86: _cuda(99, 100, 1536, 16),
    87: _cuda(163, 164, 1536, 16),
    88: _cuda(99, 100, 1536, 16),
    89: _cuda(99, 100, 1536, 24),
    90: _cuda(227, 228, 2048, 32, 132),  # H100 SXM, H200, GH200
    100: _cuda(227, 228, 2048, 32),
    103: _cuda(227, 228, 2048, 32),
    110: _cuda(227, 228, 1536, 24),
    120: _cuda(99, 100, 1536, 24),
    121: _cuda(99, 100, 1536, 24),
}

HIP: dict[str, Limits] = {
    "gfx90a": _amd(64, 64, 2048),
    "gfx942": _amd(64, 64, 2048),
    "gfx950": _amd(64, 160, 2048),
    "gfx1030": _amd(32, 64, 1024),
    "gfx1100": _amd(32, 64, 1024),
    "gfx1151": _amd(32, 64, 1024),
    "gfx1201": _amd(32, 64, 1024),
    "gfx1250": _amd(32, 320, 1024),
}

METAL = Limits(
    shared_static=32 * KIB,
    shared_block=32 * KIB,
    shared_processor=32 * KIB,
    block=(1024, 1024, 1024),
    grid=(2**31 - 1, 2**31 - 1, 2**31 - 1),
    # Small ones by functions of the header; the language has no float64.
    floats=("bfloat16", "float16", "float32", "float8_e4m3", "float8_e4m3fn", "float8_e5m2"),
)
# The default limits of the WebGPU specification, which every device must offer.
WEBGPU = Limits(threads=256, shared_static=16 * KIB, shared_block=16 * KIB, grid=(65535,) * 3)
# Blocks are loops on the CPU: threads are only counted, and tiles live in ordinary memory.
CPU = Limits(shared_static=0, shared_block=0, grid=(2**63 - 1, 2**63 - 1, 2**63 - 1))


def limits_of(kind: str, arch: str) -> Limits:
    """The row of an architecture; of the nearest older one when it has no row of its own."""
    if kind == "cuda":
        number = cuda_number(arch)
        known = [version for version in CUDA if version <= number]
        return CUDA[max(known, default=min(CUDA))]
    if kind == "hip":
        name = (arch or HIP_ARCH).partition(":")[0]
        return HIP.get(name, HIP["gfx90a" if name.startswith("gfx9") else "gfx1030"])
    return {"metal": METAL, "webgpu": WEBGPU}.get(kind, CPU)
