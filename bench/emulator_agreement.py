"""Whether the emulator's instructions are those of the hardware, bit for bit.

``python bench/emulator_agreement.py`` runs kernels of a few lines, each around one instruction or
descriptor: wgmma out of every swizzle and major (the 144 of the design notes and more), mma.sync of
every shape and type, ldmatrix and stmatrix, conversions at every rounding border, tensor copies of
every rank, swizzle and kind of edge. In the emulator they run against numpy where numpy can say the
answer; with a GPU of sm_90 the same text is compiled by NVRTC and run there too, and both have to
give the same bytes. Exit code 1 if anything differs.

    --suite NAME   one of wgmma, rounding, mma, other, convert, atomic, matrix, tma,
                   refused (launches that have to fail); may be repeated
    --no-gpu       the emulator's half alone
    --checks       with the emulator's checks, whose findings count as failures
    --schedule     fifo, random, late or early
    --json FILE    all results
    --apart N      cases in processes of their own, N at a time: a fault of the GPU is one case's
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import record
from agreement_cases import SUITES, Array, Case, Map

from tilelang.errors import TileRuntimeError

Parameters = list[bytes]


def parameters(
    case: Case, address: Callable[[int], int], encode: Callable[..., bytes]
) -> Parameters:
    """The bytes of each kernel parameter; ``address`` gives that of the array with a number."""
    values = []
    for number, arg in enumerate(case.args):
        if isinstance(arg, Map):
            values.append(encode(arg.form, address(arg.of), arg.extents, arg.strides))
        elif isinstance(arg, np.ndarray):
            values.append(struct.pack("<Q", address(number)))
        else:
            values.append(struct.pack("<i", arg))
    return values


def kernels_of(cases: Iterable[Case]) -> dict[str, tuple[str, ...]]:
    """The kernels of each text."""
    kernels: dict[str, dict[str, None]] = {}
    for case in cases:
        kernels.setdefault(case.source, {})[case.kernel] = None
    return {source: tuple(names) for source, names in kernels.items()}


def encode_tensor_map(
    runtime: Any, form: Any, address: int, extents: Sequence[int], strides: Sequence[int]
) -> bytes:
    """The bytes of a tensor map for the emulated unit."""
    room, rank = ctypes.create_string_buffer(128), form.rank
    head = (
        room, form.type, rank, ctypes.c_void_p(address), (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * max(1, rank - 1))(*strides),
    )  # fmt: skip
    steps = (ctypes.c_uint32 * rank)(*form.steps)
    tail = (form.interleave, form.swizzle, form.promotion, form.fill)
    if form.im2col:
        corners = [(ctypes.c_int * len(c))(*c) for c in (form.lower, form.upper)]
        code = runtime.tl_emu_tensor_map_im2col(
            *head, *corners, form.channels, form.pixels, steps, *tail
        )
    else:
        box = (ctypes.c_uint32 * rank)(*form.box)
        code = runtime.tl_emu_tensor_map_tiled(*head, box, steps, *tail)
    if code:
        runtime.tl_emu_tensor_map_reason.restype = ctypes.c_char_p
        raise ValueError(runtime.tl_emu_tensor_map_reason().decode())
    return room.raw


class Emulated:
    """The emulator as a machine that runs cases."""

    name = "emulator"

    def __init__(self, cases: list[Case], checks: bool, schedule: str) -> None:
        from tilelang.emulator import abi
        from tilelang.emulator.build import load_kernels, load_runtime
        from tilelang.emulator.compilers import need_cxx
        from tilelang.env import env
        from tilelang.runtime.cache import DiskCache

        compiler, cache = need_cxx(), DiskCache(Path(env.TILELANG_CACHE_DIR))
        self.runtime = load_runtime(compiler, cache)
        flags = abi.SHARED_RACES | abi.GLOBAL_BOUNDS | abi.SHARED_BOUNDS | abi.ALIGNMENT
        self.flags = flags if checks else 0
        self.schedule = abi.SCHEDULES.index(schedule)
        self.libraries = {
            source: load_kernels(source, names, "sm_90a", compiler, cache, checks)
            for source, names in kernels_of(cases).items()
        }

    def encode(self, form: Any, address: int, extents: Any, strides: Any) -> bytes:
        return encode_tensor_map(self.runtime, form, address, extents, strides)

    def run(self, case: Case) -> tuple[Array, list[str]]:
        """The result's bytes, and what went wrong."""
        from tilelang.emulator import abi

        arrays = {n: aligned(a) for n, a in enumerate(case.args) if isinstance(a, np.ndarray)}
        values = parameters(case, lambda n: arrays[n].ctypes.data, self.encode)
        held = [ctypes.create_string_buffer(value, len(value)) for value in values]
        pointers = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        buffers = (abi.Buffer * len(arrays))(
            *(abi.Buffer(a.ctypes.data, a.nbytes, n, 1) for n, a in arrays.items())
        )
        entry = self.libraries[case.source].entry(case.kernel)
        launch = abi.Launch(
            abi=abi.ABI, flags=self.flags, entry=entry, params=pointers, grid=(1, 1, 1),
            block=(case.threads, 1, 1), cluster=(1, 1, 1), dynamic_shared=case.shared, seed=1,
            schedule=self.schedule, buffers=buffers, buffer_count=len(arrays), workers=1,
        )  # fmt: skip
        findings = (abi.Finding * 16)()
        report = abi.Report(abi=abi.ABI, findings=findings, finding_capacity=16)
        code = self.runtime.tl_emu_run(ctypes.byref(launch), ctypes.byref(report))
        problems = [
            f"{abi.KINDS[f.kind]} {f.text.decode()}".strip()
            for f in findings[: report.finding_count]
        ]
        if code and not problems:
            problems.append(f"code {code}")
        return arrays[case.result].view(np.uint8).ravel(), problems


def aligned(array: Array) -> Array:
    """A copy at an address that bulk copies take."""
    space = np.zeros(array.nbytes + 256, np.uint8)
    start = -space.ctypes.data % 256
    copy = space[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Real:
    """The first GPU as a machine that runs cases."""

    name = "GPU"

    def __init__(self, cases: list[Case]) -> None:
        from tilelang.cuda.driver import driver
        from tilelang.cuda.toolchain import compile_cubin

        self.driver = driver()
        with self.driver.on(0):
            self.stream = self.driver.handle("cuStreamCreate", 1, action="making a stream")
        self.modules = {
            source: self.driver.load(0, compile_cubin(source, "sm_90a").cubin, "agreement")
            for source in kernels_of(cases)
        }

    def encode(self, form: Any, address: int, extents: Any, strides: Any) -> bytes:
        with self.driver.on(0):
            code, data = self.driver.tensor_map(form, address, extents, strides)
        if code:
            raise ValueError(f"the driver refuses the tensor map: {code}")
        return data

    def run(self, case: Case) -> tuple[Array, list[str]]:
        """The result's bytes, and what went wrong."""
        d, places = self.driver, {}
        for number, arg in enumerate(case.args):
            if isinstance(arg, np.ndarray):
                places[number] = d.allocate(0, arg.nbytes, self.stream)
                d.copy(
                    0,
                    places[number],
                    np.ascontiguousarray(arg).ctypes.data,
                    arg.nbytes,
                    self.stream,
                )
        d.synchronize(0, self.stream)
        function = d.function(0, self.modules[case.source], case.kernel, case.shared)
        code = d.launch(
            0, function, (1, 1, 1), (case.threads, 1, 1), case.shared, self.stream,
            parameters(case, lambda n: places[n], self.encode),
        )  # fmt: skip
        out = np.zeros(case.args[case.result].nbytes, np.uint8)
        d.synchronize(0, self.stream)
        d.copy(0, out.ctypes.data, places[case.result], out.nbytes, self.stream)
        d.synchronize(0, self.stream)
        for place in places.values():
            d.free(0, place, self.stream)
        return out, [f"code {code}"] if code else []


@lru_cache(maxsize=1)
def have_gpu() -> bool:
    """Whether there is a GPU that runs these kernels."""
    from tilelang.target.device import cuda_devices

    return any(str(arch).startswith("sm_90") for arch in cuda_devices())


def difference(first: Array, second: Array, case: Case) -> str:
    """How much differs, or differs by more than the bound; "" for nothing."""
    bound = case.bound
    if case.nans:
        first, second = (
            np.where(np.isnan(words), np.float32(np.nan), words).view(np.uint8)
            for words in (first.view(np.float32), second.view(np.float32))
        )
    if bound is not None:
        apart = np.abs(first.view(np.float32).astype(np.float64) - second.view(np.float32))
        worst = float(np.max(apart / bound.ravel()))
        return "" if worst <= 1 else f"differ by {worst:.3g} of the bound"
    if np.array_equal(first, second):
        return ""
    where = np.flatnonzero(first != second)
    return f"{where.size} of {first.size} bytes differ, first at {where[0]}"


def run_case(case: Case, emulated: Emulated, real: Real | None) -> dict[str, str]:
    """The problems of one case, by what was compared."""
    results, problems = emulated.run(case)
    if case.refused:
        return refusals(case, problems, real)
    result = {"emulator": "; ".join(problems)}
    if case.wanted is not None:
        wanted = np.ascontiguousarray(case.wanted).view(np.uint8).ravel()
        result["numpy"] = difference(results, wanted, case)
    if real is not None:
        try:
            there, trouble = real.run(case)
        except TileRuntimeError as fault:
            result["GPU"] = str(fault).splitlines()[0]
        else:
            result["GPU"] = "; ".join(trouble) or difference(results, there, case)
    return result


def refusals(case: Case, findings: list[str], real: Real | None) -> dict[str, str]:
    """Who let a launch pass that has to fail."""
    said = any(case.refused in finding for finding in findings)
    result = {"emulator": "" if said else f"no such finding: {'; '.join(findings)}"}
    if real is not None:
        try:
            real.run(case)
            result["GPU"] = "ran"
        except TileRuntimeError:
            result["GPU"] = ""
    return result


def run_apart(suite: str, name: str, checks: bool, schedule: str) -> dict[str, str]:
    """One case in this process, which a fault of the GPU may spoil for what follows."""
    (case,) = (case for case in SUITES[suite]() if case.name == name)
    return run_case(case, Emulated([case], checks, schedule), Real([case]))


def results(
    suite: str, cases: list[Case], options: argparse.Namespace, with_gpu: bool
) -> Iterator[dict[str, str]]:
    """The problems of each case; those that stop the GPU, and all with ``--apart``, from processes
    of their own."""
    if with_gpu and (options.apart or any(case.refused for case in cases)):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(options.apart or 4, context, max_tasks_per_child=1) as pool:
            yield from pool.map(
                run_apart, *zip(*((suite, c.name, options.checks, options.schedule) for c in cases))
            )
        return
    emulated = Emulated(cases, options.checks, options.schedule)
    real = Real(cases) if with_gpu else None
    for case in cases:
        yield run_case(case, emulated, real)


def main() -> int:
    """Run the suites; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", action="append", choices=sorted(SUITES))
    parser.add_argument("--no-gpu", action="store_true")
    parser.add_argument("--checks", action="store_true")
    parser.add_argument("--schedule", default="fifo", choices=("fifo", "random", "late", "early"))
    parser.add_argument("--json")
    parser.add_argument("--apart", type=int, default=0, metavar="PROCESSES")
    options = parser.parse_args()
    rows, bad = [], 0
    with_gpu = not options.no_gpu and have_gpu()
    for suite in options.suite or SUITES:
        cases = list(SUITES[suite]())
        began, counts = time.perf_counter(), Counter[str]()
        for case, result in zip(cases, results(suite, cases, options, with_gpu)):
            for what, problem in result.items():
                counts[f"{what}: {'differ' if problem else 'agree'}"] += 1
                if problem:
                    bad += 1
                    print(f"{case.name}: {what}: {problem}")
            rows.append({"case": case.name, "suite": suite, **result})
        said = ", ".join(f"{what} {count}" for what, count in sorted(counts.items()))
        print(f"{suite}: {len(cases)} cases in {time.perf_counter() - began:.1f} s; {said}")
    if not with_gpu:
        print("no GPU of sm_90: the emulator's half alone")
    if options.json:
        record.write(options.json, rows)
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
