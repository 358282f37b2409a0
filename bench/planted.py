"""Defects planted in small kernels: what the emulator says, and what compute-sanitizer says.

``python bench/planted.py`` runs every kernel of planted_cases.py in the emulator, with its defect
and without. On a machine with a GPU of sm_90 each runs there too, in a process of its own: alone,
for its numbers, and under each tool of compute-sanitizer where that is installed. Exit code 1 if
the emulator misses a defect that it should see, or anything is said about a kernel that is right.

    --no-gpu       the emulator's half alone
    --case NAME    this defect alone; may be repeated
    --jobs N       processes at a time on the GPU
    --seconds N    limit of one process; a kernel that takes longer hangs
    --json FILE    all results
"""

from __future__ import annotations

import argparse
import ctypes
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

import record
from emulator_agreement import aligned, encode_tensor_map, have_gpu
from planted_cases import ARCH, CASES, HEAD, VARIANTS, Array, Blank, Case, Map

from tilelang.errors import TileRuntimeError

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SCHEDULES = ("late", "random")
_SUMMARY = re.compile(
    r"=+ *(COMPUTE-SANITIZER|ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|Target application"
    r"|Error: Target application|No attachable|Saved host|Host Frame|Device Frame|.*Program hit"
    r"|$)"
)
_LINE = re.compile(r"planted\.cu:(\d+)")


@dataclass
class Row:
    """What was said about one kernel.

    Attributes:
        name, what, variant: the defect; "wrong" with it, "right" without.
        ours: findings of the emulator, each its kind and the line of the kernel.
        numbers: on the GPU: "right", "wrong", "hangs", or the error that ended it.
        tools: message of each tool of compute-sanitizer, "" for none.
        expected: whether the emulator said what it should.
    """

    name: str
    what: str
    variant: str
    ours: list[str] = field(default_factory=list)
    expected: bool = True
    numbers: str | None = None
    tools: dict[str, str] = field(default_factory=dict)

    @property
    def theirs(self) -> dict[str, str]:
        """Tools that said something about the kernel; a hang is not a finding of theirs."""
        return {tool: text for tool, text in self.tools.items() if text and text != "hangs"}


def parameters(
    args: Sequence[Any], address: Callable[[int], int], encode: Callable[..., bytes]
) -> list[bytes]:
    """The bytes of each kernel parameter; ``address`` gives that of the array with a number."""
    return [
        encode(arg.form, address(arg.of), arg.extents, arg.strides)
        if isinstance(arg, Map)
        else struct.pack("<Q", address(number))
        for number, arg in enumerate(args)
    ]


def is_right(case: Case, args: Sequence[Any], result: Array) -> bool:
    """Whether a result is that of the kernel without the defect."""
    return bool(np.array_equal(result, case.wanted(list(case.args()))))


# -- in the emulator -------------------------------------------------------------------------------
class Emulator:
    """All kernels of some cases, compiled as one text."""

    def __init__(self, cases: Sequence[Case]) -> None:
        from tilelang.codegen.gpu.module import SharedBuffer
        from tilelang.emulator.build import load_kernels, load_runtime
        from tilelang.emulator.compilers import need_cxx
        from tilelang.runtime.cache import default_cache

        compiler, cache = need_cxx(), default_cache()
        self.runtime = load_runtime(compiler, cache)
        kernels = [(case, variant) for case in cases for variant in VARIANTS]
        names = [f"{case.name}_{variant}" for case, variant in kernels]
        text = HEAD + "".join(case.kernel(variant) for case, variant in kernels)
        tiles = [
            SharedBuffer(name, tile, tile, offset, size, "int32", (size // 4,))
            for (case, _), name in zip(kernels, names)
            for tile, offset, size in case.tiles
        ]
        self.library = load_kernels(text, names, ARCH, compiler, cache, True, (), tiles)

    def findings(self, case: Case, variant: str) -> list[str]:
        """Kinds of what is found in all schedules, each with the line, and wrong numbers."""
        messages: dict[str, None] = {}
        for schedule in SCHEDULES:
            messages.update(dict.fromkeys(self._run(case, variant, schedule)))
        return list(messages)

    def _run(self, case: Case, variant: str, schedule: str) -> list[str]:
        from tilelang.emulator import abi

        args = case.arguments(variant)
        arrays = {
            number: aligned(np.zeros(arg.count, np.int32) if isinstance(arg, Blank) else arg)
            for number, arg in enumerate(args)
            if not isinstance(arg, Map)
        }

        def encode(*form: Any) -> bytes:
            return encode_tensor_map(self.runtime, *form)

        values = parameters(args, lambda number: arrays[number].ctypes.data, encode)
        held = [ctypes.create_string_buffer(value, len(value)) for value in values]
        buffers = (abi.Buffer * len(arrays))(
            *(
                abi.Buffer(a.ctypes.data, a.nbytes, n, 3 if isinstance(args[n], Blank) else 1)
                for n, a in arrays.items()
            )
        )
        tiles = (abi.Tile * len(case.tiles))(
            *(abi.Tile(at, size, number, 0) for number, (_, at, size) in enumerate(case.tiles))
        )
        flags = abi.SHARED_RACES | abi.GLOBAL_RACES | abi.GLOBAL_BOUNDS | abi.SHARED_BOUNDS
        launch = abi.Launch(
            abi=abi.ABI, flags=flags | abi.ALIGNMENT,
            entry=self.library.entry(f"{case.name}_{variant}"),
            params=(ctypes.c_void_p * len(held))(*map(ctypes.addressof, held)),
            grid=(case.grid, 1, 1), block=(case.block, 1, 1), cluster=(case.cluster, 1, 1),
            dynamic_shared=case.dynamic(variant), cooperative=int(case.cooperative), seed=1,
            schedule=abi.SCHEDULES.index(schedule), buffers=buffers, buffer_count=len(buffers),
            tiles=tiles, tile_count=len(tiles), step_bound=1_000_000,
        )  # fmt: skip
        notes = (abi.Finding * 64)()
        report = abi.Report(abi=abi.ABI, findings=notes, finding_capacity=len(notes))
        code = self.runtime.tl_emu_run(ctypes.byref(launch), ctypes.byref(report))
        findings = notes[: report.finding_count]
        if not findings and code:
            return [f"code {code}"]
        if not findings and variant == "right" and not is_right(case, args, arrays[len(args) - 1]):
            return ["wrong numbers"]
        return [f"{abi.KINDS[note.kind]}: {self._line(note.pc)}" for note in findings]

    def _line(self, pc: int) -> str:
        from tilelang.emulator.locate import generated_lines

        number = generated_lines(self.library, [pc])[pc] if pc else 0
        lines = self.library.source.splitlines()
        return lines[number - 1].split("//")[0].strip() if 0 < number <= len(lines) else "?"


def emulated(cases: Sequence[Case]) -> list[Row]:
    """What the emulator says about each kernel, with the defect and without."""
    emulator, rows = Emulator(cases), []
    for case in cases:
        for variant in VARIANTS:
            ours = emulator.findings(case, variant)
            kinds = {message.split(":")[0] for message in ours}
            expected = not ours
            if variant == "wrong" and case.kinds:
                expected = bool(kinds & set(case.kinds))
            rows.append(Row(case.name, case.what, variant, ours, expected))
    return rows


# -- on a GPU --------------------------------------------------------------------------------------
def run_here(case: Case, variant: str, cubin: Path) -> str:
    """Run a kernel on the first GPU, for its numbers; the tools watch this process."""
    from tilelang.cuda.driver import driver

    d = driver()
    with d.on(0):
        stream = d.handle("cuStreamCreate", 1, action="making a stream")
    places, args = {}, case.arguments(variant)
    for number, arg in enumerate(args):
        if isinstance(arg, Blank):
            places[number] = device_memory(4 * arg.count)
        elif not isinstance(arg, Map):
            places[number] = device_memory(arg.nbytes)
            data = np.ascontiguousarray(arg).ctypes.data
            d.copy(0, places[number], data, arg.nbytes, stream)
    d.synchronize(0, stream)

    def encode(*form: Any) -> bytes:
        with d.on(0):
            code, data = d.tensor_map(*form)
        return data if code == 0 else b""

    module = d.load(0, cubin.read_bytes(), "planted")
    shared = case.dynamic(variant)
    function = d.function(0, module, f"{case.name}_{variant}", shared, case.cluster)
    code = d.launch(
        0, function, (case.grid, 1, 1), (case.block, 1, 1), shared, stream,
        parameters(args, places.__getitem__, encode), cluster=(case.cluster, 1, 1),
        cooperative=case.cooperative,
    )  # fmt: skip
    if code:
        return f"launch: code {code}"
    d.synchronize(0, stream)
    result = np.zeros_like(args[-1])
    d.copy(0, result.ctypes.data, places[len(args) - 1], result.nbytes, stream)
    d.synchronize(0, stream)
    return "right" if is_right(case, args, result) else "wrong"


def device_memory(size: int) -> int:
    """Memory of exactly this size: what comes out of a pool, the tools see less sharply."""
    from tilelang.cuda.driver import driver

    d, address = driver(), ctypes.c_uint64(0)
    with d.on(0):
        d.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size), action="allocating")
    return address.value


@lru_cache(maxsize=4)
def tool_options(sanitizer: str, tool: str) -> tuple[str, ...]:
    """Options with which a tool looks at as much as it can."""
    done = subprocess.run([sanitizer, "--help"], capture_output=True, text=True, check=False)
    if tool == "initcheck" and "initcheck-address-space" in done.stdout:
        return ("--initcheck-address-space", "all")
    # Memory of two tensors may lie side by side, so that the end of one is not seen.
    if tool == "memcheck" and "--padding" in done.stdout:
        return ("--padding", "512")
    return ()


def message_of(output: str) -> str:
    """The first thing that a tool says about a kernel, with its line."""
    lines = output.splitlines()
    for at, line in enumerate(lines):
        if line.startswith("=====") and not _SUMMARY.match(line):
            near = _LINE.search("\n".join(lines[at : at + 3]))
            said = line.strip("= ").strip()
            return said + (f" (line {near[1]})" if near and "planted" not in said else "")
    return ""


@dataclass(frozen=True)
class Place:
    """Where kernels are compiled to and how long one may take."""

    folder: Path
    seconds: float

    def cubin(self, case: Case, variant: str) -> Path:
        """The machine code of a kernel."""
        return self.folder / f"{case.name}_{variant}.cubin"

    def compile(self, case: Case, variant: str) -> None:
        """Make it."""
        from tilelang.cuda.toolchain import compile_cubin

        text = f'#line 1 "planted.cu"\n{HEAD}{case.kernel(variant)}'
        compiled = compile_cubin(text, ARCH, ("-lineinfo",), name="planted")
        self.cubin(case, variant).write_bytes(compiled.cubin)

    def run(self, case: Case, variant: str, before: Sequence[str] = ()) -> tuple[str, str]:
        """A kernel in a process of its own: the word that it ends with, and all of its output."""
        words = [*before, sys.executable, str(Path(__file__).resolve()), "--here", case.name,
                 variant, str(self.cubin(case, variant))]  # fmt: skip
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, errors="replace", check=False,
                timeout=self.seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            return "hangs", (late.stdout or b"").decode(errors="replace")
        words = [line[8:] for line in done.stdout.splitlines() if line.startswith("planted ")]
        trouble = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return words[-1] if words else trouble[:120], done.stdout + done.stderr


def on_gpu(rows: list[Row], cases: Sequence[Case], jobs: int, seconds: float) -> None:
    """Fill in what a GPU and compute-sanitizer say."""
    sanitizer, by_name = shutil.which("compute-sanitizer"), {case.name: case for case in cases}
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(jobs) as pool:
        device = Place(Path(name), seconds)
        list(pool.map(lambda row: device.compile(by_name[row.name], row.variant), rows))

        def alone(row: Row) -> None:
            row.numbers = device.run(by_name[row.name], row.variant)[0]

        def under(work: tuple[Row, str]) -> None:
            row, tool = work
            options = tool_options(str(sanitizer), tool)
            before = (str(sanitizer), "--tool", tool, *options)
            outcome, output = device.run(by_name[row.name], row.variant, before)
            row.tools[tool] = message_of(output) or ("hangs" if outcome == "hangs" else "")

        # What may hang comes last: it takes turns with everything else on the GPU.
        calm = sorted(rows, key=lambda row: by_name[row.name].hangs and row.variant == "wrong")
        list(pool.map(alone, calm))
        if sanitizer is not None:
            list(pool.map(under, [(row, tool) for row in calm for tool in TOOLS]))


# -- reports ---------------------------------------------------------------------------------------
def table(rows: Sequence[Row]) -> str:
    """All of it as text."""
    lines = []
    for row in rows:
        if row.variant == "right" and row.expected and not row.theirs:
            continue
        mark = "" if row.expected else "   <- not as expected"
        lines.append(f"{row.name}: {row.what}" + (" (repaired)" * (row.variant == "right")) + mark)
        lines += [f"    emulator   {message}" for message in row.ours[:2] or ["nothing"]]
        lines += [
            f"    {tool:10} {row.tools[tool] or 'nothing'}" for tool in TOOLS if tool in row.tools
        ]
        if row.numbers is not None:
            lines.append(f"    numbers    {row.numbers}")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """Who found how much."""
    wrong = [row for row in rows if row.variant == "wrong"]
    noisy = [row for row in rows if row.variant == "right" and (row.ours or row.theirs)]
    seen = [row for row in wrong if row.ours]
    lines = [f"{len(wrong)} defects: the emulator finds {len(seen)}"]
    if any(row.tools for row in rows):
        theirs = [row for row in wrong if row.theirs]
        only = [row.name for row in seen if not row.theirs]
        missed = [row.name for row in theirs if not row.ours]
        lines[0] += f", compute-sanitizer {len(theirs)}"
        lines.append(f"only the emulator: {', '.join(only) or 'none'}")
        lines.append(f"only compute-sanitizer: {', '.join(missed) or 'none'}")
    if any(row.numbers for row in rows):
        shown = [row.name for row in wrong if row.numbers == "right"]
        lines.append(f"right numbers in spite of the defect: {', '.join(shown) or 'none'}")
    lines.append(f"repaired kernels about which something is said: {len(noisy)}")
    return "\n".join(lines)


def main() -> int:
    """Run it all; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-gpu", action="store_true")
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--json")
    parser.add_argument("--here", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        name, variant, cubin = options.here
        (case,) = (case for case in CASES if case.name == name)
        try:
            outcome = run_here(case, variant, Path(cubin))
        except TileRuntimeError as error:
            outcome = str(error).splitlines()[0]
        print(f"planted {outcome}", flush=True)
        return 0
    cases = [case for case in CASES if not options.case or case.name in options.case]
    began = time.perf_counter()
    rows = emulated(cases)
    with_gpu = not options.no_gpu and have_gpu()
    if with_gpu:
        on_gpu(rows, cases, options.jobs, options.seconds)
    print(table(rows))
    print(summary(rows))
    print(f"{time.perf_counter() - began:.1f} s" + ("" if with_gpu else ", without a GPU of sm_90"))
    if options.json:
        record.write(options.json, [asdict(row) for row in rows])
    noisy = any(row.variant == "right" and row.theirs for row in rows)
    return int(noisy or not all(row.expected for row in rows))


if __name__ == "__main__":
    sys.exit(main())
