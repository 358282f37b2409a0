"""Whether a barrier orders anything: by the exact bytes that threads touch, not by the emulator's
own rules.

The kernel's text is compiled with its loads and stores reported to a recorder of a few lines that
is compiled with it. Between two barriers of a block lies an epoch; a copy that is in flight counts in
every epoch from its issue to the wait that covers it. Taking a barrier out joins the epochs around
it, each time it is passed. If then no byte is written in one epoch that another thread touches in
another one joined to it, the barrier orders nothing for these arguments.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

import numpy as np
from mutate_cases import target_of

from tilelang.compiler import compile as compile_source
from tilelang.emulator import build
from tilelang.emulator.compilers import KERNEL_LINK, need_cxx
from tilelang.emulator.families import family_of
from tilelang.emulator.launch import EmulatedLauncher, Settings
from tilelang.jit.emulated import from_artifact
from tilelang.options import Options
from tilelang.runtime.cache import default_cache
from tilelang.runtime.library import load_library

MOST = 6_000_000  # records
RECORD = np.dtype(
    [("block", "u4"), ("epoch", "u4"), ("thread", "u4"), ("kind", "u4"), ("address", "u8"),
     ("bytes", "u8")]
)  # fmt: skip
READ, WRITE, MARK = 0, 1, 2
# Functions of the runtime that the recorder stands in front of, in the order of its table.
REPLACED = (
    "tl_emu_sync_block", "tl_emu_copy", "tl_emu_ldmatrix", "tl_emu_stmatrix", "tl_emu_cp_async",
    "tl_emu_cp_async_commit", "tl_emu_cp_async_wait",
)  # fmt: skip
# What it does not know of.
UNKNOWN = ("tl_atomic", "tl_bar_", "tl_mbarrier", "_store_shared_", "tl_thread_allreduce", "tl_tma")

# ruff: noqa: E501  # the text below is C++
RECORDER = r"""
#define TL_QUIET __attribute__((no_sanitize("thread")))
struct tl_rec { unsigned block, epoch, thread, kind; unsigned long address, bytes; };
static tl_rec* tl_rec_data;
static unsigned long tl_rec_count, tl_rec_room;
struct tl_rec_copy { unsigned long address; unsigned bytes, group, epoch; };
struct tl_rec_thread { unsigned epoch, committed, pending; tl_rec_copy copies[128]; };
static tl_rec_thread tl_rec_threads[64 * 1024];
static void* tl_rec_real[16];
extern "C" TL_QUIET void tl_rec_begin(tl_rec* data, unsigned long room, void** real) {
    tl_rec_data = data;
    tl_rec_room = room;
    for (int k = 0; k < 7; ++k) tl_rec_real[k] = real[k];
}
extern "C" TL_QUIET unsigned long tl_rec_end() { return tl_rec_count; }
TL_QUIET static unsigned tl_rec_who() {
    const uint3 t = tl_emu_thread_index(), n = tl_emu_block_extent();
    return t.x + n.x * (t.y + n.y * t.z);
}
TL_QUIET static unsigned tl_rec_block() {
    const uint3 b = tl_emu_block_index(), n = tl_emu_grid_extent();
    return b.x + n.x * (b.y + n.y * b.z);
}
TL_QUIET static tl_rec_thread& tl_rec_self() { return tl_rec_threads[tl_rec_block() % 64 * 1024 + tl_rec_who()]; }
TL_QUIET static void tl_rec_put(unsigned epoch, unsigned thread, unsigned kind, unsigned long address, unsigned long bytes) {
    if (tl_rec_count < tl_rec_room) tl_rec_data[tl_rec_count] = {tl_rec_block(), epoch, thread, kind, address, bytes};
    ++tl_rec_count;
}
TL_QUIET static void tl_rec_touch(const void* p, unsigned long bytes, unsigned kind) {
    char here;
    if (!tl_rec_data) return;  // places of shared variables are chosen while the library is loaded
    if ((unsigned long)p - ((unsigned long)&here - 65536) < 131072) return;  // the thread's own stack
    tl_rec_put(tl_rec_self().epoch, tl_rec_who(), kind, (unsigned long)p, bytes);
}
extern "C" TL_QUIET void tl_rec_mark() { tl_rec_put(tl_rec_self().epoch, tl_rec_who(), 2, 0, 0); }
#define TL_HOOK(N) \
    extern "C" TL_QUIET void __tsan_read##N(void* p) { tl_rec_touch(p, N, 0); } \
    extern "C" TL_QUIET void __tsan_write##N(void* p) { tl_rec_touch(p, N, 1); } \
    extern "C" TL_QUIET void __tsan_unaligned_read##N(void* p) { tl_rec_touch(p, N, 0); } \
    extern "C" TL_QUIET void __tsan_unaligned_write##N(void* p) { tl_rec_touch(p, N, 1); }
TL_HOOK(1) TL_HOOK(2) TL_HOOK(4) TL_HOOK(8) TL_HOOK(16)
extern "C" TL_QUIET void __tsan_read_range(void* p, unsigned long n) { tl_rec_touch(p, n, 0); }
extern "C" TL_QUIET void __tsan_write_range(void* p, unsigned long n) { tl_rec_touch(p, n, 1); }
#define TL_REAL(NUMBER, NAME) ((decltype(&NAME))tl_rec_real[NUMBER])
extern "C" TL_QUIET void tl_emu_sync_block(int line) { ++tl_rec_self().epoch; TL_REAL(0, tl_emu_sync_block)(line); }
extern "C" TL_QUIET void tl_emu_copy(void* to, const void* from, unsigned n) {
    tl_rec_touch(from, n, 0);
    tl_rec_touch(to, n, 1);
    TL_REAL(1, tl_emu_copy)(to, from, n);
}
extern "C" TL_QUIET void tl_emu_ldmatrix(void* d, const void* row, int count, int turned) {
    if ((int)(tl_rec_who() % 32) < 8 * count)  // read by the warp, not by the lane that names the row
        tl_rec_put(tl_rec_self().epoch, 100000 + tl_rec_who() / 32, 0, (unsigned long)row, 16);
    TL_REAL(2, tl_emu_ldmatrix)(d, row, count, turned);
}
extern "C" TL_QUIET void tl_emu_stmatrix(const void* d, void* row, int count, int turned) {
    if ((int)(tl_rec_who() % 32) < 8 * count)
        tl_rec_put(tl_rec_self().epoch, 100000 + tl_rec_who() / 32, 1, (unsigned long)row, 16);
    TL_REAL(3, tl_emu_stmatrix)(d, row, count, turned);
}
extern "C" TL_QUIET void tl_emu_cp_async(void* to, const void* from, unsigned n) {
    tl_rec_thread& self = tl_rec_self();
    if (from) tl_rec_touch(from, n, 0);
    tl_rec_touch(to, n, 1);
    if (self.pending < 128) self.copies[self.pending++] = {(unsigned long)to, n, self.committed, self.epoch};
    else tl_rec_count = tl_rec_room + 1;
    TL_REAL(4, tl_emu_cp_async)(to, from, n);
}
extern "C" TL_QUIET void tl_emu_cp_async_commit(void) { ++tl_rec_self().committed; TL_REAL(5, tl_emu_cp_async_commit)(); }
extern "C" TL_QUIET void tl_emu_cp_async_wait(unsigned left) {
    tl_rec_thread& self = tl_rec_self();
    unsigned kept = 0;
    for (unsigned k = 0; k < self.pending; ++k) {
        const tl_rec_copy copy = self.copies[k];
        if (copy.group + left < self.committed) {
            for (unsigned e = copy.epoch; e <= self.epoch; ++e) tl_rec_put(e, tl_rec_who(), 1, copy.address, copy.bytes);
        } else self.copies[kept++] = copy;
    }
    self.pending = kept;
    TL_REAL(6, tl_emu_cp_async_wait)(left);
}
"""


def orders_nothing(case: Any, source: str, line: int, arch: str) -> bool:
    """Whether the ``__syncthreads`` in a line of a text orders no two accesses of these arguments."""
    if any(name in source for name in UNKNOWN):
        return False
    lines = source.splitlines()
    if lines[line - 1].strip() != "__syncthreads();":
        return False
    lines[line - 1] = "tl_rec_mark(); __syncthreads();"
    head = next(n for n, text in enumerate(lines) if "__global__" in text)
    lines.insert(head, 'extern "C" void tl_rec_mark();')
    records = _records(case, "\n".join(lines) + "\n" + RECORDER, arch)
    return records is not None and not _conflict(records)


def keeps_order(case: Any, source: str, arch: str) -> bool:
    """Whether in a text no thread touches a byte that another one writes in the same epoch."""
    if any(name in source for name in UNKNOWN):
        return False
    records = _records(case, source + RECORDER.replace("tl_rec_mark", "tl_rec_unused"), arch)
    if records is None:
        return False
    records["thread"] += 1  # so that an epoch and a thread never look alike
    for block in np.unique(records["block"]):
        mine = records[records["block"] == block]
        # Within an epoch each thread is its own "epoch", so that any two threads may meet.
        apart = mine.copy()
        apart["epoch"] = mine["thread"]
        if _meet(apart, mine["epoch"]):
            return False
    return True


def _records(case: Any, text: str, arch: str) -> np.ndarray | None:
    """What the threads of a call did, or None if that is too much."""
    target, cxx = target_of(arch), need_cxx(default_cache())
    family = family_of(target.kind)
    artifact = compile_source(case.func, target)
    settings = Settings(workers=1)
    built = from_artifact(case.func, case.out_idx, artifact, target, Options(), settings)
    assert artifact.device is not None
    assert built.machinery is not None
    kernels = artifact.device.kernels
    flags = (
        *build.folder_flags(family),
        "-O1",
        *cxx.hooks,
        *build._KERNEL_FLAGS,
        *family.macros(arch),
    )
    data = cxx.shared(
        {build.TEXT: build.kernel_text(text, kernels, family), **build.rewritten(family)}, [build.TEXT], flags,
        (*KERNEL_LINK, "-Wl,-Bsymbolic"),
    )  # fmt: skip
    library = load_library(data)
    room = np.zeros(MOST, RECORD)
    runtime = built.machinery.runtime()
    real = (ctypes.c_void_p * len(REPLACED))(
        *(ctypes.cast(getattr(runtime, name), ctypes.c_void_p).value for name in REPLACED)
    )
    library.handle.tl_rec_begin(ctypes.c_void_p(room.ctypes.data), ctypes.c_ulong(MOST), real)
    kernel = build.KernelLibrary(library, text, kernels)
    machinery = dataclasses.replace(built.machinery, library=lambda watched: kernel)
    launcher = EmulatedLauncher(built.spec, machinery, settings, lambda record: None)
    launcher(*(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in case.args))
    library.handle.tl_rec_end.restype = ctypes.c_ulong
    count = int(library.handle.tl_rec_end())
    # More blocks than the recorder tells apart would share its counters.
    if count > MOST or (count and room["block"][:count].max() >= 64):
        return None
    return room[:count]


def _conflict(records: np.ndarray) -> bool:
    """Whether joining the epochs at the marks lets a byte be written that another thread touches."""
    for block in np.unique(records["block"]):
        mine = records[records["block"] == block]
        joints = np.unique(mine["epoch"][mine["kind"] == MARK])
        last = int(mine["epoch"].max())
        joined = np.zeros(last + 2, bool)
        joined[joints + 1] = True  # epoch n belongs to the run of epoch n - 1
        run = np.cumsum(~joined[: last + 1])
        wide = np.zeros(last + 1, bool)
        wide[joints] = True
        wide[joints[joints < last] + 1] = True
        touched = mine[(mine["kind"] != MARK) & wide[mine["epoch"]]]
        if touched.size and _meet(touched, run[touched["epoch"]]):
            return True
    return False


def _meet(touched: np.ndarray, run: np.ndarray) -> bool:
    """Whether in one run of epochs a byte is written by a thread and touched by another one in
    another epoch. Inside of an epoch the text has its own order."""
    count = touched["bytes"].astype(np.int64)
    at = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    rows = np.stack(
        [
            np.repeat(run, count),
            np.repeat(touched["address"].astype(np.int64), count) + at,
            np.repeat(touched["epoch"].astype(np.int64), count),
            np.repeat(touched["thread"].astype(np.int64), count),
            np.repeat((touched["kind"] == WRITE).astype(np.int64), count),
        ],
        axis=1,
    )
    rows = rows[np.lexsort(rows.T[::-1])]
    first = np.flatnonzero(np.r_[True, (rows[1:, :2] != rows[:-1, :2]).any(axis=1)])
    spans = [
        np.maximum.reduceat(rows[:, column], first) > np.minimum.reduceat(rows[:, column], first)
        for column in (2, 3)
    ]
    written = np.maximum.reduceat(rows[:, 4], first) > 0
    ends = np.r_[first[1:], len(rows)]
    for number in np.flatnonzero(spans[0] & spans[1] & written):
        here = np.unique(rows[first[number] : ends[number], 2:], axis=0)
        for epoch, thread, _ in here[here[:, 2] == 1]:
            if ((here[:, 0] != epoch) & (here[:, 1] != thread)).any():
                return True
    return False
