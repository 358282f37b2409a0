"""The passes of every target, in order: four tuples, to be read from top to bottom.

Each entry says what its pass does, in the field's terms, and why it is at its position (``after``:
what holds there, and what later passes need). Without the feature ``needs`` a target skips it.
:mod:`tilelang.compiler` runs the passes that a target needs.
"""

from __future__ import annotations

from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.block_coarsening import coarsen_blocks
from tilelang.cpu.loops.cache_padding import pad_rows
from tilelang.cpu.loops.copy_forwarding import forward_copies
from tilelang.cpu.loops.fragments import lower_fragments_to_arrays
from tilelang.cpu.loops.gemm_forwarding import forward_gemm_copies
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.cpu.loops.loop_interchange import interchange_loops
from tilelang.cpu.loops.loop_splitting import split_loops
from tilelang.cpu.loops.register_tiling import tile_registers
from tilelang.cpu.loops.scalar_replacement import replace_tiles_by_scalars
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.loops.unroll_and_jam import unroll_and_jam
from tilelang.cpu.loops.unroll_stencils import unroll_stencils
from tilelang.cpu.loops.vectorization import mark_vector_loops
from tilelang.cpu.operands import choose_operands
from tilelang.cpu.tiles import lower_tiles_without_kernel
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
from tilelang.transforms.normalize.alignment import limit_views
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
from tilelang.transforms.schedule.apply import schedule_launches
from tilelang.transforms.step import Step
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

# Every target. A pass may rely on the passes above it and on nothing else.
NORMALIZE: tuple[Step, ...] = (
    Step("strip_hints", strip_hints,
         does="drop annotations that no pass reads, and prefetch hints where one core runs a "
              "block",
         after="every later pass knows every annotation key"),
    Step("wrap_host_statements", wrap_host_statements,
         does="wrap statements outside every kernel in a kernel of one block and one thread",
         after="later passes look at statements inside kernels only",
         needs="cores"),
    Step("one_thread_by_default", one_thread_by_default,
         does="give a kernel without a number of threads one thread per block, unless it uses the "
              "thread index",
         after="every later pass knows the number of threads of a block",
         needs="cores"),
    Step("hoist_workspaces", hoist_workspaces,
         does="move global workspaces of a kernel to its launch",
         after="the host allocates memory that the kernels of a launch share",
         needs="simt"),
    Step("expand_library_calls", expand_library_calls,
         does="replace calls of known library functions by equivalent operations",
         after="later passes see ordinary operations instead of function names"),
    Step("widen_indices", widen_indices,
         does="compute indices in 64 bits where 32 may overflow",
         after="index arithmetic is exact; every later pass relies on the dtypes of indices"),
    Step("limit_views", limit_views,
         does="limit vector widths to the alignment of views",
         after="addresses are still elements of tensors, and later passes use their alignment",
         needs="simt"),
    Step("apply_register_hints", apply_register_hints,
         does="attach register counts to the branches of the warpgroups that they are for",
         after="the hints refer to instructions of the program, and no pass has duplicated one "
               "yet",
         needs="simt"),
    Step("simplify", simplify_func,
         does="fold constants and simplify expressions by the bounds of variables",
         after="every later pass sees constant extents and folded conditions"),
    Step("check_tile_bounds", check_tile_bounds,
         does="reject accesses that are certainly outside a tile",
         after="constant extents show which accesses are out of bounds; nothing is lowered yet, "
               "so the error can quote the program"),
    Step("number_barriers", number_barriers,
         does="map the program's named barriers to the numbers that the hardware has",
         after="constants are folded; later passes that add named barriers see which numbers are "
               "free"),
    Step("bound_shifts", bound_shifts,
         does="legalize shifts whose count may be the width or more",
         after="counts and extents are constants, and conditions still enclose what they guard; "
               "an index may contain a shift"),
    Step("rasterize_blocks", rasterize_blocks,
         does="order the blocks of a grid so that neighbours write to neighbouring memory",
         after="tile operations show what each block writes, and grids are constant",
         needs="page_locality"),
    Step("tighten_parallel_bounds", tighten_parallel_bounds,
         does="shrink parallel loops to the iterations for which their guard holds",
         after="conditions are simplified; the indices of the removed iterations have been "
               "checked",
         needs="simt"),
    Step("unroll_register_slices", unroll_register_slices,
         does="interchange or unroll loops over slices of fragments, as registers have no "
              "addresses",
         after="loop bounds are constants; every later pass sees constant slices of fragments",
         needs="simt"),
    Step("check_launch_limits", check_launch_limits,
         does="reject grids and blocks that exceed the limits of the target",
         after="constant grids are plain integers; no later pass changes a launch",
         needs="simt"),
    Step("separate_overlaps", separate_overlaps,
         does="copy an operand that an operation overwrites while it reads it",
         after="operations are still whole; later passes split them into loops and threads"),
    Step("fold_zero_init", fold_zero_init,
         does="let the first product of a loop overwrite its accumulator",
         after="loop bounds are constants; an accumulator that is overwritten needs no clear"),
    Step("fuse_exponents", fuse_exponents,
         does="turn exponents of scaled differences into one fused multiply-add each",
         after="scales are constants, and element loops are whole",
         needs="simt"),
    Step("lower_thread_local_tiles", lower_thread_local_tiles,
         does="lower tile operations on thread-private arrays to loops",
         after="operations on thread-private arrays are not distributed over threads"),
    Step("expand_any_all", expand_any_all,
         does="lower T.any_of and T.all_of to loops",
         after="the loops read single elements, which may still be vectors"),
    Step("signal_gemm_completion", signal_gemm_completion,
         does="let one thread arrive at the mbarrier of a GEMM",
         after="every later pass sees the arrival that the program requests from a product"),
    Step("scalarize_vectors", scalarize_vectors,
         does="split vector values into lanes",
         after="vectorization forms vectors from loops again, so later passes see scalars only"),
)  # fmt: skip

# A core that runs a whole block: loops, then the order of memory, then vectors.
CPU: tuple[Step, ...] = (
    Step("forward_gemm_copies", forward_gemm_copies,
         does="copy forwarding: products read operands and store results in global memory; k-loop "
              "coalescing and implicit im2col",
         after="a product that uses an element a few times reads it in place; copies are whole, "
               "and the remaining tiles get their layouts later",
         level="scheduled"),
    Step("choose_operands", choose_operands,
         does="choose packed layouts of GEMM operands for the GEMM kernel of the CPU",
         after="copies are still whole, so a copy can pack its tile"),
    Step("serialize_threads", serialize_threads,
         does="turn the threads of a block into loops",
         after="tile operations show which statements run once and which per thread; their loops "
               "would hide it"),
    Step("lower_tiles", lower_tiles_without_kernel,
         does="lower tile operations to loop nests; copies into operands pack them",
         after="the remaining tile operations become loops over elements"),
    Step("lower_fragments_to_arrays", lower_fragments_to_arrays,
         does="turn fragments into arrays of the block",
         after="no tile operation is left; lowering one depends on the memory scope of its tiles",
         level="thread"),
    Step("unroll_stencils", unroll_stencils,
         does="interchange and unroll the window of a stencil",
         after="loops over taps and elements form a nest, which no fusion has changed yet"),
    Step("fuse_loops", fuse_loops,
         does="loop fusion",
         after="operations are loops over elements, and no guard separates them yet"),
    Step("replace_tiles_by_scalars", replace_tiles_by_scalars,
         does="scalar replacement: tiles whose elements live in one iteration become variables",
         after="fused loops write and read such an element in one iteration"),
    Step("contract_arrays", contract_arrays,
         does="array contraction: a tile of which each iteration uses one row becomes that row",
         after="the remaining tiles are in memory, and loops over their rows are fused"),
    Step("interchange_loops", interchange_loops,
         does="loop interchange: finish a row before the next one",
         after="loops over rows are whole, and values of one iteration are no longer tiles"),
    Step("forward_copies", forward_copies,
         does="copy forwarding: read a copied tile from its source tensor",
         after="no more loops are fused; a loop that only copies can be forwarded"),
    Step("coarsen_blocks", coarsen_blocks,
         does="block coarsening: merge neighbouring blocks into one block with longer rows",
         after="blocks allocate only the tiles that they need; no guard depends on block indices "
               "yet"),
    Step("unroll_and_jam", unroll_and_jam,
         does="unroll-and-jam: combine several rows that add to the same elements",
         after="rows have their final length; guards are inserted at each access of a row later"),
    Step("tile_registers", tile_registers,
         does="register tiling: combine several iterations that load the same vectors",
         after="blocks have their final extents, and no guard separates accesses yet"),
    Step("pad_rows", pad_rows,
         does="pad rows of sums to avoid conflicts of cache sets",
         after="no later pass requires that the rows of a tile are contiguous"),
    Step("verify_views", verify_views,
         does="check every view of a tile against its layout",
         after="tiles have their final layouts, and all their views still exist"),
    Step("split_loops", split_loops,
         does="loop splitting: rows of a flat loop, and pieces between borders",
         after="the loops that become vectors are known; no guard separates accesses yet"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may be outside a tensor",
         after="all accesses are loads and stores, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("simplify_again", simplify_func,
         does="simplify the indices of lowered loops",
         after="lowered loops have new index arithmetic, which no later pass simplifies"),
    Step("mark_vector_loops", mark_vector_loops,
         does="choose the loops that become vectors, and their width",
         after="guards are at their accesses, and indices have their final form"),
)  # fmt: skip

# GPUs, on tile operations: the schedule, layouts, and barriers.
GPU: tuple[Step, ...] = (
    Step("schedule_launches", schedule_launches,
         does="choose the schedule of each launch by estimated cycles, and apply it: persistent "
              "blocks, software pipelines, roles of warpgroups, overlap of products, epilogues; "
              "decide which copies use TMA",
         after="copies and products are still whole; layouts and barriers depend on the schedule",
         level="scheduled"),
    Step("lower_roles", lower_roles,
         does="lower roles to branches on the thread index",
         after="layouts and barriers depend on which threads run a branch, which its condition "
               "shows"),
    Step("shrink_live_ranges", shrink_live_ranges,
         does="allocate a tile in the loop whose iterations overwrite it",
         after="pipelines have their tiles; barriers and the shared-memory plan depend on live "
               "ranges"),
    Step("promote_operands", promote_operands,
         does="keep GEMM operands that loops compute in registers",
         after="pipelined tiles have all their stages; layouts depend on which operands are in "
               "registers"),
    Step("expand_elementwise", expand_elementwise,
         does="lower transposes, im2col and tile atomics to loops over elements",
         after="pipelining needs whole operations; layout inference needs loops"),
    Step("infer_layouts", infer_layouts,
         does="infer layouts of fragments, shared tiles and parallel loops by cost",
         after="tiles have all their stages; every later pass depends on layouts"),
    Step("defer_reductions", defer_reductions,
         does="reduce across lanes once, after the loop",
         after="layouts show which lanes hold a row; barriers and waits do not depend on shuffles",
         needs="async_products"),
    Step("verify_views", verify_views,
         does="check every view of a tile against its layout",
         after="tiles have their final layouts, and all their views still exist"),
    Step("predicate_uniform_stores", predicate_uniform_stores,
         does="let one thread make a store that is the same in all threads",
         after="layouts show which values all threads hold; barriers order the store with other "
               "threads' reads"),
    Step("insert_barriers", insert_barriers,
         does="insert barriers between accesses that conflict",
         after="tile operations have exact regions; layout conversions may have added copies "
               "through shared memory"),
    Step("keep_user_wgmma_waits", keep_user_wgmma_waits,
         does="leave wgmma groups in flight if the program waits for them itself",
         after="GEMM plans show which products can stay in flight",
         needs="wgmma"),
    Step("insert_wgmma_waits", insert_wgmma_waits,
         does="wait for wgmma groups as late as possible",
         after="all barriers exist; after a barrier, other threads may overwrite operands",
         needs="wgmma"),
    Step("elide_empty_barriers", elide_empty_barriers,
         does="remove mbarriers that a block barrier makes redundant",
         after="all barriers exist, and operands are released after the waits for their products",
         needs="bulk_copy"),
)  # fmt: skip

# GPUs, on what each thread does: lowering, shared memory, and the form that is printed.
GPU_THREADS: tuple[Step, ...] = (
    Step("lower_tiles_gpu", lower_tiles_gpu,
         does="lower tile operations to the code of each thread",
         after="layouts and barriers are fixed"),
    Step("sink_store_waits", sink_store_waits,
         does="wait for TMA stores at the next barrier instead of at once",
         after="TMA stores and barriers are calls; the shared-memory plan depends on the waits",
         needs="tma"),
    Step("interleave_buffers", interleave_buffers,
         does="place the buffers of a pipeline stage next to each other",
         after="layouts are fixed, and pipelines still show which tiles are filled together",
         needs="tma"),
    Step("lower_pipelines", lower_pipelines,
         does="lower pipelines to cp.async groups or mbarrier phases",
         after="no later pass needs the stages of a pipeline; the shared-memory plan includes its "
               "mbarriers",
         level="thread"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may be outside a tensor",
         after="all accesses are loads and stores, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("vectorize_atomics", vectorize_atomics,
         does="combine atomic updates of neighbouring elements",
         after="the lanes of a loop are still one statement with one condition",
         needs="vector_red"),
    Step("vectorize_loops", vectorize_loops,
         does="vectorize lane loops",
         after="conditions are at their accesses, so a vector can share one"),
    Step("pack_f16x2", pack_f16x2,
         does="pack 16-bit float arithmetic in pairs",
         after="what is left of element loops after vectorization are loops over lanes"),
    Step("apply_layouts", apply_layouts,
         does="replace logical indices by addresses in the layout",
         after="vectors are formed from logical indices; layouts keep each vector contiguous"),
    Step("simplify_again", simplify_func,
         does="simplify the indices of lowered loops",
         after="lowered loops have new index arithmetic, which no later pass simplifies"),
    Step("divide_by_reciprocals", divide_by_reciprocals,
         does="replace divisions by a loop invariant by one reciprocal, with the same results",
         after="loop-invariant divisors are visible, and lanes are packed in pairs already"),
    Step("allocate_scratch", allocate_scratch,
         does="allocate workspaces of reductions",
         after="the shared-memory plan includes them; reductions synchronize their own accesses"),
    Step("initialize_barriers", initialize_barriers,
         does="initialize mbarriers before their first use",
         after="no later pass adds mbarriers; the shared-memory plan sees the barrier after the "
               "initialization"),
    Step("allocate_tensor_memory", allocate_tensor_memory,
         does="allocate and free tensor memory",
         after="the shared-memory plan includes the words that receive the addresses"),
    Step("eliminate_barriers", eliminate_barriers,
         does="eliminate barriers that others make redundant",
         after="all barriers and workspaces exist; the shared-memory plan sees the remaining "
               "barriers"),
    Step("plan_shared", plan_shared,
         does="place shared buffers in one arena by their live ranges",
         after="no later pass adds shared buffers, and the barriers between uses are known"),
    Step("offset_descriptors", offset_descriptors,
         does="strength reduction of wgmma descriptors to offsets",
         after="indices are those of memory; loop-invariant parts of an offset can be hoisted "
               "next",
         needs="wgmma"),
    Step("hoist_loop_invariants", hoist_loop_invariants,
         does="loop-invariant code motion of indices",
         after="indices have their final form"),
    Step("hoist_warp_uniform", hoist_warp_uniform,
         does="loop-invariant code motion of warp-uniform values",
         after="indices have their final form",
         needs="wgmma"),
    Step("elect_lanes", elect_lanes,
         does="elect one lane for TMA and mbarrier operations",
         after="indices have their final form; no later pass analyses which thread takes a branch"),
    Step("reduce_modulo", reduce_modulo,
         does="strength reduction: remainders of a loop variable become counters",
         after="indices have their final form, and their loop-invariant parts have names"),
    Step("predicate_copies", predicate_copies,
         does="predicate cp.async instructions of prologues",
         after="copies are single instructions; no later pass looks for conditions around them",
         needs="cp_async"),
    Step("split_addresses", split_addresses,
         does="split addresses into a register and an immediate offset",
         after="loop invariants have names, and no later pass rebuilds a sum"),
    Step("verify_bounds", verify_bounds,
         does="prove every access of on-chip memory in bounds",
         after="the program has the form that is printed, so a bug of any earlier pass is found"),
)  # fmt: skip
