"""Hand-written kernels on the emulator's runtime, through the compiler and ctypes alone."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang.emulator
from tests.emulator import remote
from tilelang.emulator.build import load_libraries, load_runtime
from tilelang.emulator.compilers import KERNEL_LINK, CxxCompiler, find_cxx
from tilelang.emulator.declarations import rewrite_shared
from tilelang.emulator.families import HIP
from tilelang.runtime.cache import default_cache

ROOT = Path(tilelang.emulator.__file__).resolve().parent
RACES, GLOBAL_RACES, GLOBAL_BOUNDS, SHARED_BOUNDS, ALIGNMENT, COUNTERS, EVENTS = (
    1 << bit for bit in range(7)
)
ALL = RACES | GLOBAL_RACES | GLOBAL_BOUNDS | SHARED_BOUNDS | ALIGNMENT
FIFO, RANDOM, LATE, EARLY = range(4)
KINDS = (
    "none read-write write-read write-write missing-wait missing-fence uninitialised bounds"
    " misaligned divergence barrier-count mbarrier warp-divergence deadlock step-bound trap"
    " descriptor launch unfinished crash other"
).split()


def _fields(text: str) -> list[tuple[str, Any]]:
    kinds = {"u": ctypes.c_uint32, "q": ctypes.c_uint64, "p": ctypes.c_void_p}
    fields: list[tuple[str, Any]] = []
    for word in text.split():
        name, kind = word.split(":")
        base = kinds[kind[0]]
        fields.append((name, base * int(kind[1:]) if len(kind) > 1 else base))
    return fields


class Buffer(ctypes.Structure):
    _fields_ = _fields("base:q bytes:q id:u writable:u")


class Tile(ctypes.Structure):
    _fields_ = _fields("offset:u bytes:u id:u reserved:u")


class Launch(ctypes.Structure):
    _fields_ = _fields(
        "abi:u flags:u entry:p params:p grid:u3 block:u3 cluster:u3 dynamic_shared:u cooperative:u"
        " schedule:u seed:q step_bound:q workers:u stack_bytes:u buffers:p tiles:p buffer_count:u"
        " tile_count:u max_shared:u event_block:u warp_size:u reserved:u"
    )


class Finding(ctypes.Structure):
    _fields_ = [
        *_fields(
            "kind:u space:u pc:q other_pc:q thread:u other_thread:u block:u3 other_block:u3"
            " address:q offset:q buffer:u bytes:u count:q"
        ),
        ("text", ctypes.c_char * 256),
    ]


class Site(ctypes.Structure):
    _fields_ = _fields(
        "pc:q space:u access:u bytes:u reserved:u requests:q accesses:q cost:q ideal:q low:q high:q"
    )


class Event(ctypes.Structure):
    _fields_ = [
        *_fields("kind:u warp:u begin:q end:q pc:q tile:u bytes:u"),
        ("what", ctypes.c_char * 24),
    ]


class Report(ctypes.Structure):
    _fields_ = _fields(
        "abi:u reserved:u findings:p sites:p events:p finding_capacity:u site_capacity:u"
        " event_capacity:u finding_count:u site_count:u event_count:u findings_dropped:q"
        " sites_dropped:q events_dropped:q blocks:q switches:q barriers:q warp_operations:q"
        " async_operations:q shared_bytes:q accesses:q"
    )


@dataclass
class Result:
    """What a run gave: its code, findings, sites, events and totals."""

    code: int
    findings: list[Finding]
    sites: list[Site]
    events: list[Event]
    totals: Report

    @property
    def kinds(self) -> set[str]:
        return {KINDS[each.kind] for each in self.findings}

    def texts(self) -> list[str]:
        return [f"{KINDS[each.kind]}: {each.text.decode()}" for each in self.findings]


@lru_cache(maxsize=1)
def compiler() -> CxxCompiler:
    """The C++ compiler of these tests, which programs use too."""
    found = find_cxx(default_cache())
    return found if found is not None else pytest.skip("needs a C++ compiler")


@lru_cache(maxsize=1)
def runtime() -> Any:
    """The runtime: the same library that programs use, since names of two would mix."""
    return load_runtime(compiler(), default_cache())


_FLAGS = ("-w", "-fwrapv", "-fsigned-char", "-fno-strict-aliasing")


@cache
def compiled(source: str, names: tuple[str, ...], checked: bool, arch: int | str) -> bytes:
    """Kernels compiled as a library; for an AMD GPU when the architecture has a name."""
    text = '#line 1 "kernel.cu"\n' + rewrite_shared(source)
    text += "".join(f"\nTL_EMU_ENTRY({name})" for name in names) + "\n"
    cxx = compiler()
    level = ("-O1", "-g", *cxx.hooks) if checked else ("-O2",)
    if isinstance(arch, str):
        own = HIP.gcc if cxx.family == "gcc" else ()
        chip = (*HIP.macros(arch), *own, *(f"-I{ROOT.parent / name}" for name in HIP.folders))
    else:
        chip = (f"-DTL_EMU_ARCH={arch}", f"-I{ROOT / 'include'}")
    flags = (*level, *cxx.probes, *_FLAGS, *chip)
    return cxx.shared({"kernel.cpp": text}, ["kernel.cpp"], flags, KERNEL_LINK)


@cache
def library(source: str, names: tuple[str, ...], checked: bool, arch: int | str) -> ctypes.CDLL:
    """Kernels compiled for this machine and loaded."""
    runtime()
    data = compiled(source, names, checked, arch)
    load_libraries(data, compiler(), default_cache())
    with tempfile.NamedTemporaryFile(suffix=".so") as made:
        made.write(data)
        made.flush()
        return ctypes.CDLL(made.name)


def _entry(code: ctypes.CDLL, name: str) -> int | None:
    return ctypes.cast(getattr(code, f"tl_emu_entry_{name}"), ctypes.c_void_p).value


def launch(
    source: str, name: str, args: Sequence[Any], *, grid: Sequence[int] = (1,),
    block: Sequence[int] = (32,), cluster: Sequence[int] = (1,), shared: int = 0, checks: int = ALL,
    schedule: int = FIFO, seed: int = 1, arch: int | str = 900, read_only: Sequence[int] = (),
    tiles: Sequence[tuple[int, int]] = (), **options: int,
) -> Result:  # fmt: skip
    """Run one kernel; numpy arrays are its buffers, other arguments ctypes values."""
    values, buffers = [], []
    for number, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            buffers.append(Buffer(arg.ctypes.data, arg.nbytes, number, number not in read_only))
            values.append(ctypes.c_void_p(arg.ctypes.data))
        else:
            values.append(arg)
    away = bool(remote.runner())
    entry = 0 if away else _entry(library(source, (name,), bool(checks), arch), name)
    params = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
    ranges = (Buffer * max(1, len(buffers)))(*buffers)
    places = (Tile * max(1, len(tiles)))(
        *(Tile(offset, size, number, 0) for number, (offset, size) in enumerate(tiles))
    )
    findings, sites, events = (Finding * 256)(), (Site * 256)(), (Event * 4096)()
    request = Launch(
        abi=2, flags=checks, params=ctypes.addressof(params), dynamic_shared=shared, seed=seed,
        entry=entry, schedule=schedule, buffers=ctypes.addressof(ranges), buffer_count=len(buffers),
        tiles=ctypes.addressof(places), tile_count=len(tiles),
    )  # fmt: skip
    for field, extents in (("grid", grid), ("block", block), ("cluster", cluster)):
        setattr(request, field, (ctypes.c_uint32 * 3)(*extents, *(1,) * (3 - len(extents))))
    for key, value in options.items():
        setattr(request, key, value)
    if away:
        kernels = compiled(source, (name,), bool(checks), arch)
        types, rooms = (Report, Finding, Site, Event), (len(findings), len(sites), len(events))
        code, totals, notes = remote.run(
            compiler(), kernels, f"tl_emu_entry_{name}", request, args, read_only,
            bytes(places)[: len(tiles) * ctypes.sizeof(Tile)], types, rooms,
        )  # fmt: skip
        return Result(code, *notes, totals)
    report = Report(
        abi=2, findings=ctypes.addressof(findings), sites=ctypes.addressof(sites),
        events=ctypes.addressof(events), finding_capacity=len(findings),
        site_capacity=len(sites), event_capacity=len(events),
    )  # fmt: skip
    status = runtime().tl_emu_run(ctypes.byref(request), ctypes.byref(report))
    return Result(
        status, list(findings[: report.finding_count]), list(sites[: report.site_count]),
        list(events[: report.event_count]), report,
    )  # fmt: skip
