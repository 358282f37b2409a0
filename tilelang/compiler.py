"""Compilation: the passes of a target in order, what is watched between them, and the artifact.

``compile(func, target, options)`` is deterministic: the same program, target and options give the
same text in every process, so the text can be cached by content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilelang.backends import backend_of
from tilelang.codegen.artifact import Artifact as Artifact
from tilelang.env import env
from tilelang.errors import SharedMemoryLimitError, internal_boundary
from tilelang.ir import stmt as S
from tilelang.ir.garbage_collection import garbage_collection_paused
from tilelang.ir.launch_schedule import MEMORY
from tilelang.ir.legal import check
from tilelang.ir.recursion import nesting, raise_recursion_limit
from tilelang.options import Options
from tilelang.pipelines import CPU, GPU, GPU_THREADS, NORMALIZE
from tilelang.target import Context, Target
from tilelang.transforms.normalize.alignment import limit_alignments
from tilelang.transforms.normalize.legalize import (
    expand_library_calls,
    one_thread_by_default,
    refuse_longer_lifetimes,
    wrap_host_statements,
)
from tilelang.transforms.step import Step
from tilelang.watch import Times, Watcher, is_profiled


def pass_list(target: Target) -> tuple[Step, ...]:
    """Every pass for ``target`` in order.

    A pass may rely on the passes above it and on nothing else.
    """
    backend_of(target)  # refuses a kind without a back end
    return (*NORMALIZE, *(CPU if Context(target).has("cores") else (*GPU, *GPU_THREADS)))


Watch = Callable[[str, S.PrimFunc], None]


def lower(
    func: S.PrimFunc, target: Target, options: Options, watch: Watch | None = None
) -> S.PrimFunc:
    """``func`` through the pass list. ``watch`` is called with the program after each pass; then no
    times are printed.

    A kernel that does not fit into shared memory takes the next schedule, which needs less of it.
    """
    stated = [node.schedule.memory for node in S.find(func.body, S.Launch) if node.schedule]
    first = max((MEMORY.index(memory) for memory in stated if memory), default=0)
    for memory in MEMORY[first:-1]:
        try:
            return _lower(func, Context(target, options, memory), watch)
        except SharedMemoryLimitError:
            continue
    return _lower(func, Context(target, options, MEMORY[-1]), watch)


def _lower(func: S.PrimFunc, context: Context, watch: Watch | None) -> S.PrimFunc:
    timed = watch is None and is_profiled(context.options)
    steps = [step for step in pass_list(context.target) if step.applies(context)]
    aliases = {name: step.name for step in steps for name in step.aliases}
    watcher = Watcher(func, [step.name for step in steps], context.options, timed, aliases)
    raise_recursion_limit(nesting(func.body))
    host_works, level = context.has("cores"), "tile"
    check(func, level, host_works, own_keys=True)
    for step in steps:
        before = func, level
        with internal_boundary(f"running the pass {step.name} on `{func.name}`", func.loc):
            func = step.run(func, context)
        level = step.level or level
        is_unchanged = func is before[0] and level == before[1]  # most passes have nothing to do
        if env.TILELANG_CHECK_PASSES and not is_unchanged:
            check(func, level, host_works, after=step.name)
        watcher.after(step.name, func)
        if watch is not None:
            watch(step.name, func)
    watcher.finish(func.name)
    check(func, "thread")
    return func


def pass_times(func: S.PrimFunc, target: Target, options: Options) -> str:
    """The milliseconds of each pass on ``func``, and the nodes that it leaves, as a table."""
    times = Times(func)
    lower(func, target, replace(options, stop_after="", dump=False, dump_after=""), times.after)
    return times.table(func.name, options.profile_threshold)


def as_run(func: S.PrimFunc, target: Target) -> S.PrimFunc:
    """``func`` with what it leaves to the target decided, still as the interpreter runs it.

    Raises:
        TileUnsupportedError: memory of a kernel is made outside of it, which no target runs.
    """
    context = Context(target)
    refuse = wrap_host_statements if context.has("cores") else refuse_longer_lifetimes
    refuse(func, context)
    func = one_thread_by_default(func, context) if context.has("cores") else func
    return expand_library_calls(func, context)


def compile(func: S.PrimFunc, target: Target, options: Options | None = None) -> Artifact:
    """Source text for ``func`` on ``target``.

    Raises:
        TileUnsupportedError: the target cannot run the program; says what it needs instead.
    """
    context = Context(target, options or Options())
    backend = backend_of(target)
    with garbage_collection_paused():
        lowered = lower(func, target, context.options)
        with internal_boundary(f"printing {backend.language} for `{func.name}`", func.loc):
            return backend.emit(lowered, context)


def for_tensors(func: S.PrimFunc, limits: Mapping[str, int], shared: bool) -> S.PrimFunc:
    """``func`` for tensors whose addresses are multiples of few bytes, parameter name -> bytes, or
    which may share memory."""
    func = limit_alignments(func, limits) if limits else func
    return func.with_attr("tir.noalias", False) if shared else func
