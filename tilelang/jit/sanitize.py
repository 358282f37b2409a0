"""``tilelang.sanitize``: a kernel's GPU code run and checked on the CPU cores."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilelang.backends import is_emulated
from tilelang.compiler import compile as compile_source
from tilelang.emulator.explain import explain
from tilelang.emulator.launch import VECTOR, EmulatedLauncher, Record, Settings, checks_of, copy_of
from tilelang.emulator.report import Report, merge
from tilelang.errors import TileRuntimeError, TileTypeError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.ir.visitor import map_stmts
from tilelang.jit.core import JITImpl
from tilelang.jit.emulated import EmulatedExecutable, from_artifact
from tilelang.jit.kernel import JITKernel, normalize_out_idx
from tilelang.options import Options
from tilelang.runtime.pylauncher import Limits
from tilelang.runtime.tensors import describe, is_torch, memory_of, span
from tilelang.target import Target, parse_target
from tilelang.tracebacks import border


@border
def sanitize(
    kernel: Any, *args: Any, checks: Any = None, schedule: str | None = None, seed: int = 0,
    seeds: int = 1, source: str | None = None, target: Any = None, workers: int = 0, steps: int = 0,
    block: int = 0,
) -> Report:  # fmt: skip
    """Run a kernel in the emulator with every load and store checked.

    Args:
        kernel: what ``tilelang.compile`` or a factory gives, a ``@T.prim_func``, or a function
            decorated with ``@tilelang.jit`` that is itself the kernel.
        args: the inputs, in host memory: numpy arrays, torch tensors, DLPack objects, numbers.
            The call copies numpy arrays and torch tensors and does not change them.
        checks: names out of "races", "bounds", "alignment", "counters", "registers", "timeline"
            "lost-writes" and "warps"; "all" but the last two; the first five by default.
        schedule: "fifo", "random", "late" or "early". By default one run is "late", in which
            asynchronous work ends at the last legal moment, and the others are "random".
        seed: of the first random run; the next ones count up.
        seeds: how many random runs, or runs of ``schedule``.
        source: generated source to check instead of the kernel's own, for example an edited one.
        target: of a GPU that is emulated (CUDA, HIP); the kernel's own by default, sm_80 if it
            has none.
        workers: threads that run blocks; 0 means one per core.
        steps: switches between threads after which a block counts as one that never ends.
        block: linear number of the block that ``report.timeline()`` draws.

    Returns:
        The report: ``report.ok``, ``report.findings``, ``str(report)``, ``report.json()``.

    Raises:
        TileError: the program cannot be compiled or the arguments do not fit.
        TileValueError: ``seeds`` is below 1.
    """
    program, values = _program(kernel, args, target, source)
    chosen = checks_of(checks)
    if seeds < 1:
        raise TileValueError("sanitize runs at least once", expected="seeds=1", got=str(seeds))
    runs = [(schedule or "random", seed + number) for number in range(seeds)]
    if schedule is None:
        runs.insert(0, ("late", seed))
    reports = []
    for name, number in runs:
        reports.append(_run(program, Settings(chosen, name, number, workers, steps, block), values))
    return merge(reports)


def _run(program: EmulatedExecutable, settings: Settings, values: Sequence[Any]) -> Report:
    """One run on copies of the arguments."""
    records: list[Record] = []
    used = program

    def launcher_of(ran: EmulatedExecutable) -> EmulatedLauncher:
        nonlocal used
        used = ran
        assert ran.machinery is not None
        narrow = None if ran.narrowed is None else narrower
        return EmulatedLauncher(ran.spec, ran.machinery, settings, records.append, narrow)

    def narrower(limits: Limits, shared: bool) -> EmulatedLauncher:
        assert program.narrowed is not None
        return launcher_of(program.narrowed(limits, shared))

    launcher = launcher_of(program)
    outputs: Any = None
    copies = _copies(values)
    try:
        outputs = launcher(*copies)
    except TileRuntimeError:
        if not any(record.has_findings for record in records):
            raise
    if not records:  # the grid was empty
        report = Report(program.func.name, runs=[(settings.schedule, settings.seed)])
    else:
        assert used.machinery is not None
        report = explain(records[0], used.machinery.module, program.func.name, used.files)
    report.outputs, report.arguments = outputs, copies
    return report


def _copies(values: Sequence[Any]) -> tuple[Any, ...]:
    """Copies of the arguments, in which the same memory is shared as in the arguments."""
    views, overlaps = [memory_of(value) for value in values], np.may_share_memory
    copies = list(map(_copy, values))
    free = set(range(len(values)))
    while free:
        group = {min(free)}
        while more := {i for i in free - group if any(overlaps(views[i], views[j]) for j in group)}:
            group |= more
        free -= group
        if len(group) > 1:
            _shared_copy(group, values, [span(views[i]) for i in group], copies)
    return tuple(copies)


def _shared_copy(
    group: set[int], values: Sequence[Any], spans: Sequence[tuple[int, int]], copies: list[Any]
) -> None:
    """One copy of all memory of a group of arguments, and each of them as a view of it."""
    start = min(first for first, _ in spans)
    size = max(end for _, end in spans) - start
    data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(start))
    memory = copy_of(data)
    for i in group:
        at = describe(values[i]).pointer - start
        if is_torch(values[i]):
            import torch

            unit = values[i].element_size()
            raw = memory[at % unit :]
            cells = torch.from_numpy(raw[: raw.size // unit * unit]).view(values[i].dtype)
            copies[i] = cells.as_strided(values[i].shape, values[i].stride(), at // unit)
        else:
            array = np.asarray(values[i])
            copies[i] = np.ndarray(array.shape, array.dtype, memory, at, array.strides)


def _copy(value: Any) -> Any:
    """A copy with the same strides, so that it is an argument of the same form."""
    if isinstance(value, np.ndarray):
        return copy_of(value)
    if is_torch(value):
        import torch

        # Placed as the tensor itself, which decides how wide accesses may be.
        first = value.data_ptr() % VECTOR // value.element_size()
        last = sum((n - 1) * step for n, step in zip(value.shape, value.stride()))
        room = torch.empty(first + max(last, 0) + 1, dtype=value.dtype)
        return room.as_strided(value.shape, value.stride(), first).copy_(value.detach())
    return value


def _program(
    kernel: Any, args: Sequence[Any], target: Any, source: str | None
) -> tuple[EmulatedExecutable, Sequence[Any]]:
    """The program to run, and the arguments of a call."""
    values = args
    out_idx: tuple[int, ...] = ()
    options = Options()
    own: Target | None = None
    if isinstance(kernel, JITImpl):
        if kernel.get_tir(*args) and kernel.template is None:
            raise TileTypeError(
                f"`{kernel.pyfunc.__name__}` is a kernel factory, not a kernel",
                expected="the kernel that calling it gives",
                hint=f"tilelang.sanitize({kernel.pyfunc.__name__}(...), ...)",
            )
        template = kernel.template
        assert template is not None
        func = template.specialise(*args)
        values = template.kernel_args(*args)
        out_idx = normalize_out_idx(func, kernel.settings.get("out_idx"))
        if str(kernel.settings.get("target") or "auto") != "auto":
            own = parse_target(kernel.settings["target"])
    elif isinstance(kernel, JITKernel):
        func, out_idx, options = kernel.prim_func, tuple(kernel.out_idx), kernel.options
        own = kernel.target
    elif isinstance(kernel, PrimFunc):
        func, out_idx = kernel, normalize_out_idx(kernel, None)
    else:
        raise TileTypeError(
            "tilelang.sanitize takes a kernel",
            expected="a compiled kernel, a @T.prim_func, or a @tilelang.jit function",
            got=type(kernel).__name__,
        )
    chosen = parse_target(target) if target is not None else own
    if chosen is None or not is_emulated(chosen):
        chosen = parse_target("cuda -arch=sm_80")
    chosen = chosen.concrete()
    if source is None:
        func = replace(func, body=map_stmts(func.body, S.Launch, _checked))
    artifact = compile_source(func, chosen, options)
    if source is not None:
        artifact = replace(artifact, source=source, device=replace(artifact.module, source=source))
    executable = from_artifact(func, out_idx, artifact, chosen, options, Settings(("races",)))
    if source is not None:  # of which there are no others
        executable = replace(executable, narrowed=None)
    return executable, values


def _checked(launch: S.Launch) -> S.Stmt:
    """``launch`` with its assumptions checked, too."""

    def check(stmt: S.Assert) -> S.Assert:
        return replace(stmt, message=stmt.kernel_text, assumed=False)

    return map_stmts(launch, S.Assert, check)
