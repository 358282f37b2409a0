"""The C interface of the runtime, in ctypes.

The header ``runtime/tl_emu.h`` documents the fields. This module is imported when the emulator
first runs, because it imports ctypes.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char, c_uint32, c_uint64, c_void_p

ABI = 2
NONE = 0xFFFFFFFF
ASYNC_UNIT = 0x10000

# Checks of a launch.
(
    SHARED_RACES, GLOBAL_RACES, GLOBAL_BOUNDS, SHARED_BOUNDS, ALIGNMENT, COUNTERS, EVENTS,
    LOST_WRITES, UNSET_REGISTERS, WARP_PRODUCTS,
) = (1 << bit for bit in range(10))  # fmt: skip
SCHEDULES = ("fifo", "random", "late", "early")  # in the order of their numbers
# Names of the kinds of findings, by number.
KINDS = (
    "", "race", "race", "race", "missing-wait", "missing-proxy-fence", "uninitialised-read",
    "out-of-bounds", "misaligned", "barrier-divergence", "barrier-count", "mbarrier-misuse",
    "warp-divergence", "deadlock", "step-bound", "trap", "invalid-descriptor", "launch",
    "async-unfinished", "crash", "other", "lost-write",
    "early-exit", "disagreement",
)  # fmt: skip
RACE_READ_WRITE, RACE_WRITE_READ, RACE_WRITE_WRITE = 1, 2, 3
SPACES = ("", "global", "shared", "registers")
ACCESSES = ("", "read", "write", "atomic")
EVENTS_OF = ("", "wait", "copy", "matrix")


class Buffer(ctypes.Structure):
    """Global memory that a kernel may touch."""

    _fields_ = (
        ("base", c_uint64), ("bytes", c_uint64), ("id", c_uint32), ("writable", c_uint32),
    )  # fmt: skip


class Tile(ctypes.Structure):
    """A buffer inside the dynamic shared memory."""

    _fields_ = (
        ("offset", c_uint32), ("bytes", c_uint32), ("id", c_uint32), ("reserved", c_uint32),
    )  # fmt: skip


class Launch(ctypes.Structure):
    """The kernel to run, and its launch parameters."""

    _fields_ = (
        ("abi", c_uint32), ("flags", c_uint32), ("entry", c_void_p),
        ("params", ctypes.POINTER(c_void_p)),
        ("grid", c_uint32 * 3), ("block", c_uint32 * 3), ("cluster", c_uint32 * 3),
        ("dynamic_shared", c_uint32), ("cooperative", c_uint32), ("schedule", c_uint32),
        ("seed", c_uint64), ("step_bound", c_uint64), ("workers", c_uint32),
        ("stack_bytes", c_uint32), ("buffers", ctypes.POINTER(Buffer)),
        ("tiles", ctypes.POINTER(Tile)), ("buffer_count", c_uint32), ("tile_count", c_uint32),
        ("max_shared", c_uint32), ("event_block", c_uint32),
        ("warp_size", c_uint32), ("reserved", c_uint32),
    )  # fmt: skip


class Finding(ctypes.Structure):
    """A defect that the runtime found."""

    _fields_ = (
        ("kind", c_uint32), ("space", c_uint32), ("pc", c_uint64), ("other_pc", c_uint64),
        ("thread", c_uint32), ("other_thread", c_uint32), ("block", c_uint32 * 3),
        ("other_block", c_uint32 * 3), ("address", c_uint64), ("offset", c_uint64),
        ("buffer", c_uint32), ("bytes", c_uint32), ("count", c_uint64), ("text", c_char * 256),
    )  # fmt: skip


class Site(ctypes.Structure):
    """An instruction that accesses memory, with the cost of its accesses."""

    _fields_ = (
        ("pc", c_uint64), ("space", c_uint32), ("access", c_uint32), ("bytes", c_uint32),
        ("reserved", c_uint32), ("requests", c_uint64), ("accesses", c_uint64),
        ("cost", c_uint64), ("ideal", c_uint64), ("low", c_uint64), ("high", c_uint64),
    )  # fmt: skip


class Event(ctypes.Structure):
    """A wait, copy or matrix product in the block whose timeline is recorded."""

    _fields_ = (
        ("kind", c_uint32), ("warp", c_uint32), ("begin", c_uint64), ("end", c_uint64),
        ("pc", c_uint64), ("tile", c_uint32), ("bytes", c_uint32), ("what", c_char * 24),
    )  # fmt: skip


class Report(ctypes.Structure):
    """Buffers for the findings of a launch."""

    _fields_ = (
        ("abi", c_uint32), ("reserved", c_uint32), ("findings", ctypes.POINTER(Finding)),
        ("sites", ctypes.POINTER(Site)), ("events", ctypes.POINTER(Event)),
        ("finding_capacity", c_uint32), ("site_capacity", c_uint32), ("event_capacity", c_uint32),
        ("finding_count", c_uint32), ("site_count", c_uint32), ("event_count", c_uint32),
        ("findings_dropped", c_uint64), ("sites_dropped", c_uint64), ("events_dropped", c_uint64),
        ("blocks", c_uint64), ("switches", c_uint64), ("barriers", c_uint64),
        ("warp_operations", c_uint64), ("async_operations", c_uint64), ("shared_bytes", c_uint64),
        ("accesses", c_uint64),
    )  # fmt: skip
