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
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.loops.vectorization import mark_vector_loops
from tilelang.cpu.operands import choose_operands
from tilelang.cpu.tiles import lower_tiles_without_kernel
from tilelang.transforms.cleanup.addressing import select_addressing
from tilelang.transforms.cleanup.loop_invariants import hoist_invariants
from tilelang.transforms.layouts.deferred_reductions import defer_reductions
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.layouts.promote_operands import promote_operands
from tilelang.transforms.lower.addresses import apply_layouts
from tilelang.transforms.lower.guards import insert_guards
from tilelang.transforms.lower.pipelines import lower_pipelines
from tilelang.transforms.lower.roles import lower_scheduled
from tilelang.transforms.lower.tiles import lower_tiles_gpu
from tilelang.transforms.lower.vectorize import vectorize_loops
from tilelang.transforms.memory.arena import plan_shared
from tilelang.transforms.normalize.checks import check_program
from tilelang.transforms.normalize.legalize import legalize
from tilelang.transforms.normalize.loops import normalize_loops
from tilelang.transforms.normalize.operations import normalize_operations
from tilelang.transforms.normalize.simplify import simplify_and_bound_shifts, simplify_lowered
from tilelang.transforms.schedule.apply import schedule_launches
from tilelang.transforms.step import Step
from tilelang.transforms.sync.allocate_tensor_memory import allocate_resources
from tilelang.transforms.sync.barriers import insert_barriers
from tilelang.transforms.sync.predicate_uniform_stores import predicate_uniform_stores
from tilelang.transforms.sync.waits import insert_waits
from tilelang.transforms.verify.bounds import verify_bounds
from tilelang.transforms.verify.views import verify_views

# Every target. A pass may rely on the passes above it and on nothing else.
NORMALIZE: tuple[Step, ...] = (
    Step("legalize", legalize,
         does="legalization: replace what depends on the target by forms that all passes "
              "understand; indices in 64 bits where 32 may overflow",
         after="every later pass knows every annotation key, sees ordinary operations instead of "
               "function names, looks at kernels with a number of threads only, and relies on the "
               "dtypes of indices"),
    Step("simplify", simplify_and_bound_shifts,
         does="fold constants and simplify expressions by the bounds of variables; legalize shifts "
              "by the width and more",
         after="every later pass sees constant extents and folded conditions"),
    Step("check_program", check_program,
         does="reject accesses that are certainly outside a tile, launches that exceed the limits "
              "of the target, and floats that it lacks",
         after="constant extents show which accesses are out of bounds; nothing is lowered yet, "
               "so the error can quote the program"),
    Step("normalize_loops", normalize_loops,
         does="canonical loops and grids: bounds, slices of registers, the order of blocks",
         after="conditions are simplified, and tile operations show what each block writes; the "
               "indices of the removed iterations have been checked",
         needs="simt"),
    Step("normalize_operations", normalize_operations,
         does="canonical tile operations and calls; vector values as lanes",
         after="loop bounds and scales are constants, and so are slices of fragments; "
               "vectorization forms vectors from loops again, so later passes see scalars only"),
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
    Step("fuse_loops", fuse_loops,
         does="loop fusion; interchange and unroll the window of a stencil",
         after="operations are loops over elements, and no guard separates them yet"),
    Step("contract_arrays", contract_arrays,
         does="array contraction: a tile of which each iteration uses one element becomes a "
              "variable, one of which it uses one row becomes that row",
         after="fused loops write and read such elements and rows in one iteration"),
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
    Step("tile_registers", tile_registers,
         does="register tiling: combine several rows that add to the same elements "
              "(unroll-and-jam), and several iterations that load the same vectors",
         after="rows and blocks have their final extents; guards are inserted at each access of a "
               "row later"),
    Step("pad_rows", pad_rows,
         does="pad rows of sums to avoid conflicts of cache sets",
         after="no later pass requires that the rows of a tile are contiguous"),
    Step("verify_views", verify_views,
         does="check every view of a tile against its layout",
         after="tiles have their final layouts, and all their views still exist"),
    Step("split_loops", split_loops,
         does="loops with plain updates instead of atomics where one core accesses the memory; "
              "loop splitting: rows of a flat loop, and pieces between borders",
         after="the loops that become vectors are known; no guard separates accesses yet"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may be outside a tensor",
         after="all accesses are loads and stores, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("simplify_again", simplify_lowered,
         does="simplify the indices of lowered loops; a loop of one iteration becomes its body",
         after="lowered loops have new index arithmetic, which no later pass simplifies"),
    Step("mark_vector_loops", mark_vector_loops,
         does="choose the loops that become vectors, and their width",
         after="guards are at their accesses, and indices have their final form"),
)  # fmt: skip

# GPUs, on tile operations: the schedule, layouts, and barriers.
GPU: tuple[Step, ...] = (
    Step("schedule_launches", schedule_launches,
         does="choose the schedule of each launch by estimated cycles, and apply it: persistent "
              "blocks, software pipelines, roles of warpgroups, overlap of products, epilogues, "
              "live ranges where memory is short; decide which copies use TMA",
         after="copies and products are still whole; layouts and barriers depend on the schedule",
         level="scheduled"),
    Step("lower_scheduled", lower_scheduled,
         does="lower roles to branches on the thread index, and transposes, im2col and tile "
              "atomics to loops over elements",
         after="pipelining needs whole operations; layouts and barriers depend on loops and on "
               "which threads run a branch, which its condition shows"),
    Step("promote_operands", promote_operands,
         does="register promotion: keep operands of GEMMs that loops compute, and tiles that only "
              "convert, in registers",
         after="pipelined tiles have all their stages; layouts depend on which tiles are in "
               "registers"),
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
    Step("insert_waits", insert_waits,
         does="wait for groups of wgmma and TMA as late as possible, and remove mbarriers that a "
              "block barrier makes redundant",
         after="all barriers exist; after a barrier, other threads may overwrite operands",
         needs="bulk_copy"),
)  # fmt: skip

# GPUs, on what each thread does: lowering, shared memory, and the form that is printed.
GPU_THREADS: tuple[Step, ...] = (
    Step("lower_tiles_gpu", lower_tiles_gpu,
         does="lower tile operations to the code of each thread",
         after="layouts and barriers are fixed"),
    Step("lower_pipelines", lower_pipelines,
         does="lower pipelines to cp.async groups or mbarrier phases; place the buffers of a stage "
              "that TMA fills next to each other",
         after="layouts are fixed, and no later pass needs the stages of a pipeline; the "
               "shared-memory plan includes its mbarriers",
         level="thread"),
    Step("insert_guards", insert_guards,
         does="predicate accesses that may be outside a tensor",
         after="all accesses are loads and stores, and loop nests show what a guard covers",
         unless="unsafe_memory"),
    Step("vectorize_loops", vectorize_loops,
         does="vectorize lane loops; combine atomic updates of neighbouring elements; pack 16-bit "
              "float arithmetic in pairs",
         after="conditions are at their accesses, so a vector can share one"),
    Step("apply_layouts", apply_layouts,
         does="replace logical indices by addresses in the layout",
         after="vectors are formed from logical indices; layouts keep each vector contiguous"),
    Step("simplify_again", simplify_lowered,
         does="simplify the indices of lowered loops; a loop of one iteration becomes its body",
         after="lowered loops have new index arithmetic, which no later pass simplifies"),
    Step("allocate_resources", allocate_resources,
         does="allocate workspaces of reductions and tensor memory; initialize mbarriers",
         after="no later pass adds mbarriers; the shared-memory plan includes workspaces and the "
               "words for addresses, and sees the barriers behind initializations"),
    Step("plan_shared", plan_shared,
         does="place shared buffers in one arena by their live ranges",
         after="no later pass adds shared buffers, and the barriers between uses are known"),
    Step("hoist_invariants", hoist_invariants,
         does="loop-invariant code motion of indices, of values that a warp shares and of the "
              "reciprocals of divisors; strength reduction of wgmma descriptors",
         after="indices have their final form; loop-invariant parts of an offset can be hoisted"),
    Step("select_addressing", select_addressing,
         does="addressing modes: base and offset, counters for remainders, predicates and elected "
              "lanes of copies",
         after="loop invariants have names, and no later pass rebuilds a sum or analyses which "
               "thread takes a branch; copies are single instructions"),
    Step("verify_bounds", verify_bounds,
         does="prove every access of on-chip memory in bounds",
         after="the program has the form that is printed, so a bug of any earlier pass is found"),
)  # fmt: skip
