"""The passes of every target, in order: four tuples, to be read from top to bottom.

Each entry says what its pass does, in the field's terms, and why it stands where it stands
(``after``). ``needs`` is the feature of a target without which the pass has nothing to do.
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

# Every target. A pass may rely on what stands above it and on nothing else.
NORMALIZE: tuple[Step, ...] = (
    Step("strip_hints", strip_hints,
         does="drop annotations that no pass reads, and prefetch hints where a core runs the "
              "block",
         after="from here on every key is one that a pass knows"),
    Step("wrap_host_statements", wrap_host_statements,
         does="make work outside every kernel a kernel of one block and one thread",
         after="later passes look for work in kernels only",
         needs="cores"),
    Step("one_thread_by_default", one_thread_by_default,
         does="give a block one thread where the program does not ask for its thread",
         after="every later pass sees the number of threads of a block",
         needs="cores"),
    Step("hoist_workspaces", hoist_workspaces,
         does="move global workspaces of a kernel to its launch",
         after="the host allocates what the kernels of a launch share",
         needs="simt"),
    Step("expand_library_calls", expand_library_calls,
         does="replace calls of known library functions by the operations they stand for",
         after="functions that are known by name are ordinary operations to every pass below"),
    Step("widen_indices", widen_indices,
         does="compute indices in 64 bits where 32 may overflow",
         after="an index is an exact integer; every pass below takes its dtype at its word"),
    Step("limit_views", limit_views,
         does="limit vector widths to the alignment of views",
         after="addresses are still elements of tensors; every pass below asks how they are "
               "aligned",
         needs="simt"),
    Step("apply_register_hints", apply_register_hints,
         does="attach register counts of warpgroups to the branches they speak of",
         after="hints speak of the instructions of the program; nothing has copied any yet",
         needs="simt"),
    Step("simplify", simplify_func,
         does="fold constants and simplify expressions by the bounds of variables",
         after="constant extents and folded conditions make every later pass see plain shapes"),
    Step("check_tile_bounds", check_tile_bounds,
         does="refuse accesses that certainly leave a tile",
         after="constant extents show which accesses certainly leave a tile; nothing is "
               "lowered yet, so the error speaks of the program"),
    Step("number_barriers", number_barriers,
         does="map the program's named barriers to the numbers the hardware has",
         after="constants are folded; whoever takes barriers of its own later sees which are "
               "free"),
    Step("bound_shifts", bound_shifts,
         does="legalize shifts by the width and more",
         after="constant counts and extents are plain numbers, conditions still stand around "
               "what they speak of; an index may hold a shift"),
    Step("rasterize_blocks", rasterize_blocks,
         does="order the blocks of a grid so that neighbours write to neighbouring memory",
         after="operations are whole, so that what blocks write is seen; grids are constant",
         needs="page_locality"),
    Step("tighten_parallel_bounds", tighten_parallel_bounds,
         does="shrink parallel loops to the iterations their guard lets through",
         after="conditions are simple and constant; the indices that no iteration has are "
               "checked",
         needs="simt"),
    Step("unroll_register_slices", unroll_register_slices,
         does="interchange or unroll loops over slices of fragments: registers have no "
              "addresses",
         after="bounds of loops are constants; every pass below sees constant slices of "
               "registers",
         needs="simt"),
    Step("check_launch_limits", check_launch_limits,
         does="refuse grids and blocks that the target cannot hold",
         after="constant grids are plain numbers now; no pass below changes a launch",
         needs="simt"),
    Step("separate_overlaps", separate_overlaps,
         does="copy an operand that an operation overwrites while it reads it",
         after="operations are whole: below, loops and threads take them apart"),
    Step("fold_zero_init", fold_zero_init,
         does="let the first product of a loop overwrite its accumulator",
         after="a product that overwrites needs no cleared accumulator; loop bounds are "
               "constants now"),
    Step("fuse_exponents", fuse_exponents,
         does="turn exponents of scaled differences into one fused multiply-add each",
         after="scales are constants now; loops over elements are whole",
         needs="simt"),
    Step("lower_thread_local_tiles", lower_thread_local_tiles,
         does="lower tile operations on arrays of a thread to loops",
         after="what a thread does with arrays of its own is not shared out like other tiles"),
    Step("expand_any_all", expand_any_all,
         does="lower T.any_of and T.all_of to loops",
         after="regions that are asked about are loops over scalars, which may hold lanes"),
    Step("signal_gemm_completion", signal_gemm_completion,
         does="let one thread arrive at the barrier of a GEMM",
         after="every pass below sees an arrival where the program asks a product for one"),
    Step("scalarize_vectors", scalarize_vectors,
         does="split vector values into lanes",
         after="vectors are found again in loops, so the later passes need only scalars"),
)  # fmt: skip

# A core that runs a whole block: loops, then the order of memory, then vectors.
CPU: tuple[Step, ...] = (
    Step("forward_gemm_copies", forward_gemm_copies,
         does="copy forwarding: products read operands and store results in global memory; k-loop "
              "coalescing and implicit im2col",
         after="products that use an element a few times read it where it lies; copies are "
               "whole, and tiles that are left get their layouts behind this",
         level="scheduled"),
    Step("choose_operands", choose_operands,
         does="choose packed layouts of GEMM operands for the kernel of the core",
         after="kernels choose the layouts of their operands while copies are still whole, so "
               "that a copy can pack"),
    Step("serialize_threads", serialize_threads,
         does="turn the threads of a block into loops",
         after="which statements run once or per thread is decided on tile operations, before "
               "their loops hide them"),
    Step("lower_tiles", lower_tiles_without_kernel,
         does="lower tile operations to loop nests; copies into operands pack them",
         after="what is left of tile operations becomes loops over elements"),
    Step("lower_fragments_to_arrays", lower_fragments_to_arrays,
         does="turn fragments into arrays of the block",
         after="tile operations are gone, whose lowering asks where a tile lives",
         level="thread"),
    Step("unroll_stencils", unroll_stencils,
         does="interchange and unroll the window of a stencil",
         after="loops over taps and elements are a nest, which nothing has joined yet"),
    Step("fuse_loops", fuse_loops,
         does="loop fusion",
         after="operations are loops over elements, and no guard stands between them yet"),
    Step("replace_tiles_by_scalars", replace_tiles_by_scalars,
         does="scalar replacement: tiles that live in one iteration become variables",
         after="iterations that hand elements to each other are one now"),
    Step("contract_arrays", contract_arrays,
         does="array contraction: tiles of which an iteration uses one row become that row",
         after="tiles that are left are memory, and loops over their rows are joined"),
    Step("interchange_loops", interchange_loops,
         does="loop interchange: finish a row before the next one",
         after="loops over rows are whole, and what lives in an iteration only is no tile"),
    Step("forward_copies", forward_copies,
         does="copy forwarding: read a copied tile where the tensor has it",
         after="loops that only copy are those that no loop has taken in"),
    Step("coarsen_blocks", coarsen_blocks,
         does="block coarsening: neighbouring blocks become one with longer rows",
         after="what is left of tiles is what a block needs; no guard asks for its indices yet"),
    Step("unroll_and_jam", unroll_and_jam,
         does="unroll-and-jam: several rows that add to the same elements",
         after="rows have their final length; conditions go to each access of a row"),
    Step("tile_registers", tile_registers,
         does="register tiling: several iterations that load the same vectors",
         after="blocks have their final extents, and no guard stands between accesses yet"),
    Step("pad_rows", pad_rows,
         does="pad rows of sums against conflicts of cache sets",
         after="no pass below asks whether the rows of a tile are one piece"),
    Step("verify_views", verify_views,
         does="check every view of a tile against its layout",
         after="tiles have their orders in memory, and all their names are still there"),
    Step("split_loops", split_loops,
         does="loop splitting: rows of a flat loop, and pieces between borders",
         after="loops over elements are those that become vectors; no guard stands between them"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may leave a tensor",
         after="all accesses are loads and stores now, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("simplify_again", simplify_func,
         does="simplify the indices of lowered loops",
         after="index arithmetic of the lowered loops is printed as it stands"),
    Step("mark_vector_loops", mark_vector_loops,
         does="choose the loops that become vectors, and their width",
         after="guards stand at the accesses, and indices are as they will be printed"),
)  # fmt: skip

# GPUs, on tile operations: the schedule, layouts, and barriers.
GPU: tuple[Step, ...] = (
    Step("schedule_launches", schedule_launches,
         does="choose the schedule of each launch by price, and apply it: persistent blocks, "
              "software pipelines, roles of warpgroups, overlap of products, epilogues; decide "
              "which copies the TMA makes",
         after="copies and results are still whole tiles; layouts and barriers see what is written",
         level="scheduled"),
    Step("lower_roles", lower_roles,
         does="lower roles to branches on the thread number",
         after="layouts and barriers see who runs a branch by its condition"),
    Step("shrink_live_ranges", shrink_live_ranges,
         does="allocate tiles in the loop that fills them anew",
         after="tiles of pipelines are known; barriers and the plan of shared memory see the "
               "loops"),
    Step("promote_operands", promote_operands,
         does="keep GEMM operands that loops compute in registers",
         after="tiles that are copied ahead have all their stages; what loops compute for "
               "products may stay in registers, which layouts have to know"),
    Step("expand_elementwise", expand_elementwise,
         does="lower transposes, im2col and tile atomics to loops over elements",
         after="pipelines see whole operations; layouts see loops"),
    Step("infer_layouts", infer_layouts,
         does="infer layouts of fragments, shared tiles and parallel loops by cost",
         after="tiles have all their stages now; everything below asks for layouts"),
    Step("defer_reductions", defer_reductions,
         does="reduce across lanes once, after the loop",
         after="layouts say which lanes hold a row; no barrier or wait depends on shuffles",
         needs="async_products"),
    Step("verify_views", verify_views,
         does="check every view of a tile against its layout",
         after="tiles have their orders in memory, and all their names are still there"),
    Step("predicate_uniform_stores", predicate_uniform_stores,
         does="let one thread make stores that all would make alike",
         after="layouts say what each thread has of a fragment; barriers are for what one "
               "thread stores and others read"),
    Step("insert_barriers", insert_barriers,
         does="insert barriers between accesses that conflict",
         after="what exchanges data is decided on tile operations, where regions are exact; "
               "layouts may have added copies through shared memory"),
    Step("keep_user_wgmma_waits", keep_user_wgmma_waits,
         does="leave wgmma groups in flight that the program waits for itself",
         after="products have their plans, which say what the unit can leave in flight",
         needs="wgmma"),
    Step("insert_wgmma_waits", insert_wgmma_waits,
         does="wait for wgmma groups as late as possible",
         after="all barriers are there, behind which others may overwrite what products read",
         needs="wgmma"),
    Step("elide_empty_barriers", elide_empty_barriers,
         does="drop mbarriers that a block barrier makes redundant",
         after="all barriers are there, and what products read is released behind their waits",
         needs="bulk_copy"),
)  # fmt: skip

# GPUs, on what each thread does: lowering, shared memory, and the form that is printed.
GPU_THREADS: tuple[Step, ...] = (
    Step("lower_tiles_gpu", lower_tiles_gpu,
         does="lower tile operations to what each thread does",
         after="layouts and barriers are fixed; each operation becomes what one thread does"),
    Step("sink_store_waits", sink_store_waits,
         does="wait for TMA stores at the next barrier instead of at once",
         after="stores by TMA and meetings of threads are calls; shared memory is "
               "planned with the waits where they stand",
         needs="tma"),
    Step("interleave_buffers", interleave_buffers,
         does="place the buffers of a pipeline stage next to each other",
         after="layouts are fixed, and pipelines still say which tiles are filled together",
         needs="tma"),
    Step("lower_pipelines", lower_pipelines,
         does="lower pipelines to cp.async groups or mbarrier phases",
         after="nothing below asks what waits for what; the barriers in it are planned with",
         level="thread"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may leave a tensor",
         after="all accesses are loads and stores now, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("vectorize_atomics", vectorize_atomics,
         does="join atomic updates of neighbouring elements",
         after="the lanes of a loop are still one statement, whose condition they share",
         needs="vector_red"),
    Step("vectorize_loops", vectorize_loops,
         does="vectorize lane loops",
         after="conditions stand at the accesses now, so that a vector can share one"),
    Step("pack_f16x2", pack_f16x2,
         does="pack 16-bit float arithmetic in pairs",
         after="what memory does not move in vectors stands in loops over lanes now"),
    Step("apply_layouts", apply_layouts,
         does="replace logical indices by addresses in the layout",
         after="vectors were found on logical indices, which layouts keep whole"),
    Step("simplify_again", simplify_func,
         does="simplify the indices of lowered loops",
         after="index arithmetic of the lowered loops is printed as it stands"),
    Step("divide_by_reciprocals", divide_by_reciprocals,
         does="replace divisions by a loop invariant by one reciprocal, with the same results",
         after="divisors that a loop does not change are seen as such; lanes are in pairs "
               "already"),
    Step("allocate_scratch", allocate_scratch,
         does="allocate workspaces of reductions",
         after="the plan of shared memory counts it; reductions order what they do themselves"),
    Step("initialize_barriers", initialize_barriers,
         does="initialize mbarriers before their first use",
         after="no pass below makes barriers; the plan of shared memory sees who meets where"),
    Step("allocate_tensor_memory", allocate_tensor_memory,
         does="allocate and free tensor memory",
         after="the plan of shared memory holds the addresses"),
    Step("eliminate_barriers", eliminate_barriers,
         does="eliminate barriers that others make redundant",
         after="all barriers and workspaces are there; the plan of shared memory sees what is "
               "left"),
    Step("plan_shared", plan_shared,
         does="place shared buffers in one arena by their live ranges",
         after="no pass below makes shared buffers, and the barriers between uses are known"),
    Step("offset_descriptors", offset_descriptors,
         does="strength reduction of wgmma descriptors to offsets",
         after="indices are those of memory; the parts of a distance may get names",
         needs="wgmma"),
    Step("hoist_loop_invariants", hoist_loop_invariants,
         does="loop-invariant code motion of indices",
         after="indices are as they will be printed"),
    Step("hoist_warp_uniform", hoist_warp_uniform,
         does="loop-invariant code motion of values that a warp shares",
         after="indices are as they will be printed",
         needs="wgmma"),
    Step("elect_lanes", elect_lanes,
         does="elect one lane for TMA and mbarrier operations",
         after="indices are as they will be printed; no pass below asks who takes a branch "
               "alone"),
    Step("reduce_modulo", reduce_modulo,
         does="strength reduction: remainders of a loop variable become counters",
         after="indices are as they will be printed, and their unchanging parts have names"),
    Step("predicate_copies", predicate_copies,
         does="predicate cp.async instructions of prologues",
         after="copies are single instructions, and nothing below looks for conditions around "
               "them",
         needs="cp_async"),
    Step("split_addresses", split_addresses,
         does="split addresses into a register and an immediate offset",
         after="what loops do not change has names, and no pass below rebuilds a sum"),
    Step("verify_bounds", verify_bounds,
         does="prove every access of on-chip memory in bounds",
         after="this is what is printed; whatever made an index, it is looked at here"),
)  # fmt: skip
