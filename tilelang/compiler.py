"""Compilation: the one pass list, what is watched between passes, and the artifact.

``compile(func, target, options)`` is deterministic: the same program, target and options give the
same text in every process, so the text can be cached by content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilelang.backends import backend_of
from tilelang.codegen.artifact import Artifact as Artifact
from tilelang.cpu.loops.invariant_quotients import simplify_invariant_quotients
from tilelang.cpu.loops.vectorization import mark_vector_loops
from tilelang.env import env
from tilelang.errors import SharedMemoryLimitError, internal_boundary
from tilelang.ir import stmt as S
from tilelang.ir.garbage_collection import garbage_collection_paused
from tilelang.ir.legal import check
from tilelang.ir.recursion import nesting, raise_recursion_limit
from tilelang.options import Options
from tilelang.target import Context, Target
from tilelang.transforms.cleanup.descriptor_offsets import offset_descriptors
from tilelang.transforms.cleanup.elect_lanes import elect_lanes
from tilelang.transforms.cleanup.loop_invariant_code_motion import hoist_loop_invariants
from tilelang.transforms.cleanup.pack_f16x2 import pack_f16x2
from tilelang.transforms.cleanup.predicate_copies import predicate_copies
from tilelang.transforms.cleanup.reciprocal_division import divide_by_reciprocals
from tilelang.transforms.cleanup.reduce_modulo import reduce_modulo
from tilelang.transforms.cleanup.split_addresses import split_addresses
from tilelang.transforms.cleanup.vectorize_atomics import vectorize_atomics
from tilelang.transforms.cleanup.warp_uniform_code_motion import hoist_warp_uniform
from tilelang.transforms.layouts.deferred_reductions import defer_reductions
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.layouts.promote_operands import promote_operands
from tilelang.transforms.lower.addresses import apply_layouts
from tilelang.transforms.lower.guards import insert_guards
from tilelang.transforms.lower.pipelines import lower_pipelines
from tilelang.transforms.lower.roles import lower_roles
from tilelang.transforms.lower.tiles import lower_tiles_gpu
from tilelang.transforms.lower.vectorize import vectorize_loops
from tilelang.transforms.memory.arena import plan_shared
from tilelang.transforms.memory.interleave_buffers import interleave_buffers
from tilelang.transforms.memory.shrink_live_ranges import shrink_live_ranges
from tilelang.transforms.normalize.alignment import limit_alignments, limit_views
from tilelang.transforms.normalize.any_all import expand_any_all
from tilelang.transforms.normalize.block_rasterization import rasterize_blocks
from tilelang.transforms.normalize.default_threads import one_thread_by_default
from tilelang.transforms.normalize.elementwise import expand_elementwise
from tilelang.transforms.normalize.fold_zero_init import fold_zero_init
from tilelang.transforms.normalize.fuse_exponents import fuse_exponents
from tilelang.transforms.normalize.gemm_completion import signal_gemm_completion
from tilelang.transforms.normalize.host_statements import wrap_host_statements
from tilelang.transforms.normalize.launch_limits import check_launch_limits
from tilelang.transforms.normalize.library_calls import expand_library_calls
from tilelang.transforms.normalize.named_barriers import number_barriers
from tilelang.transforms.normalize.negative_indices import legalize_negative_indices
from tilelang.transforms.normalize.overlaps import separate_overlaps
from tilelang.transforms.normalize.register_hints import apply_register_hints
from tilelang.transforms.normalize.scalarize_vectors import scalarize_vectors
from tilelang.transforms.normalize.shifts import bound_shifts
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.normalize.strip_hints import strip_hints
from tilelang.transforms.normalize.thread_local_tiles import lower_thread_local_tiles
from tilelang.transforms.normalize.tighten_bounds import tighten_parallel_bounds
from tilelang.transforms.normalize.tile_bounds import check_tile_bounds
from tilelang.transforms.normalize.unroll_register_slices import unroll_register_slices
from tilelang.transforms.normalize.widen_indices import widen_indices
from tilelang.transforms.normalize.workspaces import hoist_workspaces
from tilelang.transforms.schedule.cross_tile_prefetch import prefetch_across_tiles
from tilelang.transforms.schedule.gemm_overlap import overlap_gemms
from tilelang.transforms.schedule.longest_tile_first import order_longest_first
from tilelang.transforms.schedule.operand_barriers import split_barriers_by_operand
from tilelang.transforms.schedule.persistent_epilogue import overlap_persistent_epilogues
from tilelang.transforms.schedule.persistent_grid import make_grids_persistent
from tilelang.transforms.schedule.ping_pong import schedule_ping_pong
from tilelang.transforms.schedule.pipeline import pipeline_loops
from tilelang.transforms.schedule.prefetch_reads import prefetch_reads
from tilelang.transforms.schedule.specialize_warps import specialize_warps
from tilelang.transforms.schedule.staged_epilogue import stage_epilogues
from tilelang.transforms.schedule.tma_legalization import legalize_tma_copies
from tilelang.transforms.step import Step, always
from tilelang.transforms.sync.allocate_scratch import allocate_scratch
from tilelang.transforms.sync.allocate_tensor_memory import allocate_tensor_memory
from tilelang.transforms.sync.barriers import insert_barriers
from tilelang.transforms.sync.elide_empty_barriers import elide_empty_barriers
from tilelang.transforms.sync.eliminate_barriers import eliminate_barriers
from tilelang.transforms.sync.initialize_barriers import initialize_barriers
from tilelang.transforms.sync.insert_wgmma_waits import insert_wgmma_waits
from tilelang.transforms.sync.predicate_uniform_stores import predicate_uniform_stores
from tilelang.transforms.sync.sink_store_waits import sink_store_waits
from tilelang.transforms.sync.user_wgmma_waits import keep_user_wgmma_waits
from tilelang.transforms.verify.bounds import verify_bounds
from tilelang.transforms.verify.views import verify_views
from tilelang.watch import Times, Watcher, is_profiled


def _on_cores(context: Context) -> bool:
    return context.has("cores")


def _on_gpu(context: Context) -> bool:
    return context.has("simt")


def _checks_bounds(context: Context) -> bool:
    return not context.options.unsafe_memory


def pass_list(target: Target) -> tuple[Step, ...]:
    """Every pass for ``target`` in order, its back end's own among them.

    A pass may rely on what stands above it and on nothing else.
    """
    return (
        *_normal_form(),
        *backend_of(target).steps(),
        *_schedule(),
        Step("promote_operands", promote_operands, _on_gpu,
             "tiles that are copied ahead have all their stages; what loops compute for products "
             "may stay in registers, which layouts have to know"),
        Step("stage_epilogues", stage_epilogues, _on_gpu,
             "no pipeline copies ahead from its tiles; which copies are the copy unit's is next"),
        Step("legalize_tma_copies", legalize_tma_copies, _on_gpu,
             "pipelines are planned, so that only the program's barriers order these copies"),
        Step("expand_elementwise", expand_elementwise, _on_gpu,
             "pipelines see whole operations; layouts see loops"),
        Step("infer_layouts", infer_layouts, _on_gpu,
             "tiles have all their stages now; everything below asks for layouts"),
        Step("defer_reductions", defer_reductions, _on_gpu,
             "layouts say which lanes hold a row; no barrier or wait depends on shuffles"),
        Step("verify_views", verify_views, always,
             "tiles have their orders in memory, and all their names are still there"),
        *_barriers(),
        Step("lower_tiles_gpu", lower_tiles_gpu, _on_gpu,
             "layouts and barriers are fixed; each operation becomes what one thread does"),
        Step("sink_store_waits", sink_store_waits, _on_gpu,
             "stores by the copy unit and meetings of threads are calls; shared memory is planned "
             "with the waits where they stand"),
        Step("interleave_buffers", interleave_buffers, _on_gpu,
             "layouts are fixed, and pipelines still say which tiles are filled together"),
        Step("lower_pipelines", lower_pipelines, _on_gpu,
             "nothing below asks what waits for what; the barriers in it are planned with",
             "thread"),
        Step("insert_guards", insert_guards, _checks_bounds,
             "all accesses are loads and stores now, and loop nests show what a guard covers"),
        Step("vectorize_atomics", vectorize_atomics, _on_gpu,
             "the lanes of a loop are still one statement, whose condition they share"),
        Step("vectorize_loops", vectorize_loops, _on_gpu,
             "conditions stand at the accesses now, so that a vector can share one"),
        Step("pack_f16x2", pack_f16x2, _on_gpu,
             "what memory does not move in vectors stands in loops over lanes now"),
        Step("apply_layouts", apply_layouts, _on_gpu,
             "vectors were found on logical indices, which layouts keep whole"),
        Step("simplify_again", simplify_func, always,
             "index arithmetic of the lowered loops is printed as it stands"),
        Step("divide_by_reciprocals", divide_by_reciprocals, _on_gpu,
             "divisors that a loop does not change are seen as such; lanes are in pairs already"),
        Step("simplify_invariant_quotients", simplify_invariant_quotients, _on_cores,
             "conditions are decided as far as they are; what is left may vary with few variables"),
        Step("mark_vector_loops", mark_vector_loops, _on_cores,
             "guards stand at the accesses, and indices are as they will be printed"),
        *_memory(),
        Step("offset_descriptors", offset_descriptors, _on_gpu,
             "indices are those of memory; the parts of a distance may get names"),
        *_printed(),
    )  # fmt: skip


def _schedule() -> tuple[Step, ...]:
    """The passes that say what runs ahead and who does it."""
    return (
        Step("prefetch_reads", prefetch_reads, _on_gpu,
             "reads of loops are seen with their indices; as copies of tiles they can be staged"),
        Step("make_grids_persistent", make_grids_persistent, _on_gpu,
             "pipelines and roles are planned with the loop over tiles", "scheduled"),
        Step("overlap_persistent_epilogues", overlap_persistent_epilogues, _on_gpu,
             "pipelines and roles are planned with the loop over tiles; results are still copied "
             "as a whole"),
        Step("pipeline_loops", pipeline_loops, _on_gpu,
             "stages are copies of whole tiles, so they are planned while copies are still whole"),
        Step("specialize_warps", specialize_warps, _on_gpu,
             "pipelines are proved; roles are seen by layouts and barriers"),
        Step("order_longest_first", order_longest_first, _on_gpu,
             "loops of roles say how long a block takes"),
        Step("split_barriers_by_operand", split_barriers_by_operand, _on_gpu,
             "only roles wait for some tiles of an item and not for others"),
        Step("schedule_ping_pong", schedule_ping_pong, _on_gpu,
             "what the first products read has barriers of its own"),
        Step("overlap_gemms", overlap_gemms, _on_gpu,
             "loops whose items both warpgroups compute are left"),
        Step("prefetch_across_tiles", prefetch_across_tiles, _on_gpu,
             "products that overlap say where a tile that is copied once is read last"),
        Step("lower_roles", lower_roles, _on_gpu,
             "layouts and barriers see who runs a branch by its condition"),
        Step("shrink_live_ranges", shrink_live_ranges, _on_gpu,
             "tiles of pipelines are known; barriers and the plan of shared memory see the loops"),
    )  # fmt: skip


def _barriers() -> tuple[Step, ...]:
    """The passes that say where threads and units wait."""
    return (
        Step("predicate_uniform_stores", predicate_uniform_stores, _on_gpu,
             "layouts say what each thread has of a fragment; barriers are for what one thread "
             "stores and others read"),
        Step("insert_barriers", insert_barriers, _on_gpu,
             "what exchanges data is decided on tile operations, where regions are exact; layouts "
             "may have added copies through shared memory"),
        Step("keep_user_wgmma_waits", keep_user_wgmma_waits, _on_gpu,
             "products have their plans, which say what the unit can leave under way"),
        Step("insert_wgmma_waits", insert_wgmma_waits, _on_gpu,
             "all barriers are there, behind which others may overwrite what products read"),
        Step("elide_empty_barriers", elide_empty_barriers, _on_gpu,
             "all barriers are there, and what products read is released behind their waits"),
    )  # fmt: skip


def _memory() -> tuple[Step, ...]:
    """The passes that allocate shared and tensor memory."""
    return (
        Step("allocate_scratch", allocate_scratch, _on_gpu,
             "the plan of shared memory counts it; reductions order what they do themselves"),
        Step("initialize_barriers", initialize_barriers, _on_gpu,
             "no pass below makes barriers; the plan of shared memory sees who meets where"),
        Step("allocate_tensor_memory", allocate_tensor_memory, _on_gpu,
             "the plan of shared memory holds the addresses"),
        Step("eliminate_barriers", eliminate_barriers, _on_gpu,
             "all barriers and workspaces are there; the plan of shared memory sees what is left"),
        Step("plan_shared", plan_shared, _on_gpu,
             "no pass below makes shared buffers, and the barriers between uses are known"),
    )  # fmt: skip


def _printed() -> tuple[Step, ...]:
    """The passes over indices and copies as they will be printed."""
    return (
        Step("hoist_loop_invariants", hoist_loop_invariants, _on_gpu,
             "indices are as they will be printed"),
        Step("hoist_warp_uniform", hoist_warp_uniform, _on_gpu,
             "indices are as they will be printed"),
        Step("elect_lanes", elect_lanes, _on_gpu,
             "indices are as they will be printed; no pass below asks who takes a branch alone"),
        Step("reduce_modulo", reduce_modulo, _on_gpu,
             "indices are as they will be printed, and their unchanging parts have names"),
        Step("predicate_copies", predicate_copies, _on_gpu,
             "copies are single instructions, and nothing below looks for conditions around them"),
        Step("split_addresses", split_addresses, _on_gpu,
             "what loops do not change has names, and no pass below rebuilds a sum"),
        Step("verify_bounds", verify_bounds, _on_gpu,
             "this is what is printed; whatever made an index, it is looked at here"),
    )  # fmt: skip


def _normal_form() -> tuple[Step, ...]:
    """The passes before those that know how a machine runs a block."""
    return (
        Step("strip_hints", strip_hints, always,
             "from here on every key is one that a pass knows"),
        Step("wrap_host_statements", wrap_host_statements, _on_cores,
             "later passes look for work in kernels only"),
        Step("one_thread_by_default", one_thread_by_default, _on_cores,
             "every later pass sees the number of threads of a block"),
        Step("hoist_workspaces", hoist_workspaces, _on_gpu,
             "the host allocates what the kernels of a launch share"),
        Step("expand_library_calls", expand_library_calls, always,
             "functions that are known by name are ordinary operations to every pass below"),
        Step("widen_indices", widen_indices, always,
             "an index is an exact integer; every pass below takes its dtype at its word"),
        Step("limit_views", limit_views, _on_gpu,
             "addresses are still elements of tensors; every pass below asks how they are aligned"),
        Step("apply_register_hints", apply_register_hints, _on_gpu,
             "hints speak of the instructions of the program; nothing has copied any yet"),
        Step("simplify", simplify_func, always,
             "constant extents and folded conditions make every later pass see plain shapes"),
        Step("check_tile_bounds", check_tile_bounds, always,
             "constant extents show which accesses certainly leave a tile; nothing is lowered yet, "
             "so the error speaks of the program"),
        Step("number_barriers", number_barriers, always,
             "constants are folded; whoever takes barriers of its own later sees which are free"),
        Step("bound_shifts", bound_shifts, always,
             "constant counts and extents are plain numbers, conditions still stand around what "
             "they speak of; an index may hold a shift"),
        Step("legalize_negative_indices", legalize_negative_indices, always,
             "an element of a tile operation is named by its lowering and never counts from the "
             "end, so this has to be done before"),
        Step("rasterize_blocks", rasterize_blocks, _on_gpu,
             "operations are whole, so that what blocks write is seen; grids are constant"),
        Step("tighten_parallel_bounds", tighten_parallel_bounds, _on_gpu,
             "conditions are simple and constant; the indices that no iteration has are checked"),
        Step("unroll_register_slices", unroll_register_slices, _on_gpu,
             "bounds of loops are constants; every pass below sees constant slices of registers"),
        Step("check_launch_limits", check_launch_limits, _on_gpu,
             "constant grids are plain numbers now; no pass below changes a launch"),
        Step("separate_overlaps", separate_overlaps, always,
             "operations are whole: below, loops and threads take them apart"),
        Step("fold_zero_init", fold_zero_init, always,
             "a product that overwrites needs no cleared accumulator; loop bounds are constants "
             "now"),
        Step("fuse_exponents", fuse_exponents, _on_gpu,
             "scales are constants now; loops over elements are whole"),
        Step("lower_thread_local_tiles", lower_thread_local_tiles, always,
             "what a thread does with arrays of its own is not shared out like other tiles"),
        Step("expand_any_all", expand_any_all, always,
             "regions that are asked about are loops over scalars, which may hold lanes"),
        Step("signal_gemm_completion", signal_gemm_completion, always,
             "every pass below sees an arrival where the program asks a product for one"),
        Step("scalarize_vectors", scalarize_vectors, always,
             "vectors are found again in loops, so the later passes need only scalars"),
    )  # fmt: skip


Watch = Callable[[str, S.PrimFunc], None]


def lower(
    func: S.PrimFunc, target: Target, options: Options, watch: Watch | None = None
) -> S.PrimFunc:
    """``func`` through the pass list. ``watch`` is called with the program after each pass; then no
    times are printed.

    A kernel that does not fit into shared memory goes through it once more, sparingly, and where
    that is not enough with tiles that take turns.
    """
    context = Context(target, options)
    try:
        return _lower(func, context, watch)
    except SharedMemoryLimitError:
        context = replace(context, sparing=True)
    try:
        return _lower(func, context, watch)
    except SharedMemoryLimitError:
        return _lower(func, replace(context, turns=True), watch)


def _lower(func: S.PrimFunc, context: Context, watch: Watch | None) -> S.PrimFunc:
    timed = watch is None and is_profiled(context.options)
    steps = [step for step in pass_list(context.target) if step.when(context)]
    watcher = Watcher(func, [step.name for step in steps], context.options, timed)
    raise_recursion_limit(nesting(func.body))
    host_works, level = context.has("cores"), "tile"
    check(func, level, host_works, own_keys=True)
    for step in steps:
        before = func, level
        with internal_boundary(f"running the pass {step.name} on `{func.name}`", func.loc):
            func = step.run(func, context)
        level = step.level or level
        same = func is before[0] and level == before[1]  # most passes have nothing to do
        if env.TILELANG_CHECK_PASSES and not same:
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
    """``func`` with what it leaves to the target decided, still as the interpreter runs it."""
    context = Context(target)
    func = one_thread_by_default(func, context) if _on_cores(context) else func
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
