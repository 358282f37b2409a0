"""Register promotion of shared tiles: operands of GEMMs that loops compute, and converted tiles.

A shared tile that a loop computes (unpacked weights, scaled activations) and only products read
needs no shared memory: the loop can leave each element in the thread that multiplies it. Such a
tile becomes a fragment. The result of the instruction does not depend on which k a register holds
as long as both operands agree. So each thread holds contiguous elements along k ("k_run" steps of
them), which it reads by wide loads of packed numbers, and the other operand is loaded in the same
order (:mod:`tilelang.transforms.lower.gemm_k_permuted`). Fragments of the program that only loops
access get this order, too.

With ``wgmma`` the left operand is in registers in the instruction's own order of k, since the
tensor core reads the other one itself. For a computed right operand the transposed product is used.
So there is no barrier between the loop that computes an operand and the product, and one warpgroup
computes its rows while another one multiplies.

A shared tile that converts elements on their way from global memory to fragments becomes a
fragment, too. TMA and cp.async cannot convert, so threads make such copies in any case; without
the tile, two barriers and the round trip through shared memory are saved.

Runs after software pipelining: tiles of pipelines have several versions and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import gcd, prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.elementwise import loop_of
from tilelang.ir.hints import GemmHints
from tilelang.ir.memo import memoized
from tilelang.ir.visitor import map_stmts, replace_buffers, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.groups import ThreadGroups, thread_groups
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts.access import accesses, writes
from tilelang.transforms.layouts.gemm_plan import GemmPlan, plan_gemm
from tilelang.transforms.layouts.intra_cta_split_k import (
    reduction_region,
    split_k_partials,
    with_sums,
)

MAX_REGISTERS = 256  # elements of 16 bits of an operand that a thread may hold
MAX_ROWS = 32  # rows of a result that may be computed transposed
RUNS = (4, 2)  # steps of the instruction in which a thread's k are neighbours, best first


def promote_operands(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with computed operands and converted tiles in fragments, and the order of k that
    suits their GEMMs."""
    return rewrite_launches(func, lambda launch: _Promoter(launch, context).run())


@dataclass
class _Uses:
    """Every statement that touches one buffer, except its allocation."""

    loops: list[S.Stmt] = field(default_factory=list)  # copies, fills and parallel loops
    products: list[S.Gemm] = field(default_factory=list)
    others: bool = False


class _Promoter:
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.launch = launch
        self.context = context
        self.uses: dict[Buffer, _Uses] = {}
        self.blocks: dict[S.Stmt, tuple[int, int]] = {}  # statement -> its block, its place there

    def run(self) -> S.Launch:
        """The launch with the promoted tiles."""
        products = S.find(self.launch.body, S.Gemm)
        self.collect(self.launch.body)
        mapping = {
            tile: replace(tile, storage=FRAGMENT) for tile in self.uses if self.is_conversion(tile)
        }
        runs: dict[Buffer, int] = {}
        swapped: set[Buffer] = set()
        for product in products:
            for region in (product.a, product.b):
                buffer = region.buffer
                if buffer not in mapping and self.suits(buffer):
                    if self.feeds_warpgroups(buffer):
                        mapping[buffer] = replace(buffer, storage=FRAGMENT)
                        swapped |= {buffer} if product.b.buffer is buffer else set()
                        continue
                    run = self.run_of(buffer)
                    if run:
                        runs[buffer] = run
                        mapping[buffer] = replace(buffer, storage=FRAGMENT)
        if not mapping:
            return self.launch
        swapped |= {buffer for buffer in runs if self.should_swap(buffer, mapping)}
        orders: dict[S.Gemm, GemmHints] = {}
        sums: dict[S.Stmt, tuple[Buffer, Buffer]] = {}
        for product in products:
            a, b = product.a.buffer, product.b.buffer
            run = max(runs.get(a, 1), runs.get(b, 1))
            slices = self.k_slices(product) if b in swapped and run > 1 else 1
            if slices > 1:
                after = reduction_region(self.launch.body, product)
                assert after is not None
                sums[after] = split_k_partials(product.c.buffer, slices), product.c.buffer
            orders[product] = replace(
                product.hints, k_run=run, k_slices=slices, swapped=b in swapped
            )
        tiles = {tile: slices for slices, tile in sums.values()}
        body = _permute_k(with_sums(self.launch.body, sums), orders, tiles)
        return replace(self.launch, body=replace_buffers(body, mapping))

    # -- queries -------------------------------------------------------------------------
    @cached_property
    def groups(self) -> ThreadGroups:
        """The threads that execute each statement."""
        return thread_groups(self.launch, self.context.limits.warp)

    def collect(self, stmt: S.Stmt) -> None:
        """Uses of every buffer, and the positions of statements."""
        if isinstance(stmt, S.Seq):
            for position, child in enumerate(stmt.stmts):
                self.blocks[child] = (id(stmt), position)
        is_loop = loop_of(stmt) is not None
        for buffer in _buffers_of(stmt):
            uses = self.uses.setdefault(buffer, _Uses())
            if is_loop:
                uses.loops.append(stmt)
            elif isinstance(stmt, S.Gemm):
                uses.products.append(stmt)
            else:
                uses.others = True
        if not is_loop:
            for block in stmt.blocks():
                self.collect(block)

    @memoized
    def plan(self, product: S.Gemm) -> GemmPlan:
        """The plan of a product with both operands as they are."""
        return plan_gemm(product, self.groups.of(product), self.context)

    # -- questions -------------------------------------------------------------------------------
    def is_conversion(self, tile: Buffer) -> bool:
        """Whether the shared ``tile`` only converts what threads copy from global memory on to
        fragments, which products do not read in layouts of their own."""
        uses = self.uses[tile]
        copies = [stmt for stmt in uses.loops if isinstance(stmt, S.Copy) and stmt.mode == "copy"]
        if not tile.storage.startswith("shared") or uses.products or not self.is_own(tile):
            return False
        fills = [copy for copy in copies if copy.dst.buffer is tile]
        if len(fills) != 1 or not 1 < len(copies) == len(uses.loops):
            return False
        source, threads = fills[0].src, self.groups.of(fills[0])
        return source.buffer.storage == "global" and source.dtype is not tile.dtype and all(
            copy.src.is_whole and copy.dst.is_whole and copy.dst.buffer.storage == FRAGMENT
            and copy.dst.dtype is tile.dtype and not self.uses[copy.dst.buffer].products
            and self.groups.of(copy) == threads
            for copy in copies if copy not in fills
        )  # fmt: skip

    def is_own(self, buffer: Buffer) -> bool:
        """Whether only loops and products use ``buffer``, by one name, in no stated layout."""
        annotated = dict(self.launch.hints.layout_map)
        views = [other for other in self.uses if other.data is buffer.data]
        return buffer not in annotated and len(views) == 1 and not self.uses[buffer].others

    def suits(self, buffer: Buffer) -> bool:
        """Whether loops alone write ``buffer`` and products alone need its layout."""
        uses = self.uses[buffer]
        if not self.is_own(buffer) or buffer.ndim != 2:
            return False
        if buffer.storage == FRAGMENT:
            return self.is_free(buffer, ()) and self.are_sources_free(uses.loops, (buffer,))
        if not buffer.storage.startswith("shared") or len(uses.loops) != 1:
            return False
        writer = uses.loops[0]
        return (
            _is_whole_fill(writer, buffer)
            and self.is_computed(writer)
            and self.are_sources_free(uses.loops, (buffer,))
            and all(self.follows(product, writer) for product in uses.products)
        )

    def is_free(self, buffer: Buffer, seen: tuple[Buffer, ...]) -> bool:
        """Whether only loops, and products as an operand, touch the fragment ``buffer``, so that
        its layout may be anything."""
        uses = self.uses[buffer]
        if uses.others or buffer in dict(self.launch.hints.layout_map):
            return False
        if any(product.c.buffer is buffer for product in uses.products):
            return False
        if uses.products and buffer not in seen and seen:
            return False  # another product decides about it
        return any(writes(stmt, buffer) for stmt in uses.loops)

    def are_sources_free(self, loops: Iterable[S.Stmt], seen: tuple[Buffer, ...]) -> bool:
        """Whether the fragments that loops use may have any layout, and theirs."""
        for stmt in loops:
            for buffer in _buffers_of(stmt):
                if buffer.storage != FRAGMENT or buffer in seen:
                    continue
                if not self.is_free(buffer, seen):
                    return False
                if not self.are_sources_free(self.uses[buffer].loops, (*seen, buffer)):
                    return False
        return True

    def is_computed(self, writer: S.Stmt) -> bool:
        """Whether a tile is more than a copy of memory: copies go by hardware."""
        if isinstance(writer, S.Copy):
            return writer.mode == "copy" and writer.src.buffer.storage == FRAGMENT
        loop = loop_of(writer)
        assert loop is not None
        stores = S.find(loop.body, S.Store)
        if len(stores) != 1 or isinstance(stores[0].value, (E.Load, E.Const)):
            return False
        storages = (a.buffer.storage for a in accesses(loop) if a.kind == "read")
        return any(storage == FRAGMENT or storage.startswith("shared") for storage in storages)

    def follows(self, product: S.Gemm, writer: S.Stmt) -> bool:
        """Whether ``product`` follows ``writer`` in the same block, for the same threads."""
        after, before = self.blocks.get(product), self.blocks.get(writer)
        if after is None or before is None or after[0] != before[0] or after[1] <= before[1]:
            return False
        return self.groups.of(product) == self.groups.of(writer)

    def feeds_warpgroups(self, buffer: Buffer) -> bool:
        """Whether warpgroups multiply ``buffer`` as well from registers, each its own rows."""
        fragment = replace(buffer, storage=FRAGMENT)
        for product in self.uses[buffer].products:
            is_a = product.a.buffer is buffer
            operand, other = (product.a, product.b) if is_a else (product.b, product.a)
            if other.buffer is buffer or not other.buffer.storage.startswith("shared"):
                return False
            if not operand.is_whole or self.suits(other.buffer) or self.plan(product).m <= MAX_ROWS:
                return False
            if product.trans_a if is_a else not product.trans_b:
                return False  # neighbours in a register would not be those of its source
            if not is_a and not self.can_swap_operands(product, buffer):
                return False
            order = GemmHints(swapped=not is_a)
            trial = replace_buffers(replace(product, hints=order), {buffer: fragment})
            assert isinstance(trial, S.Gemm)
            group = self.groups.of(product)
            plan = plan_gemm(trial, group, self.context)
            size = plan.m * plan.k
            if not plan.uses_wgmma or plan.warps[1] > 1 or size > MAX_REGISTERS // 4 * group[1]:
                return False
        return True

    def can_swap_operands(self, product: S.Gemm, buffer: Buffer) -> bool:
        """Whether the result of ``product`` may be transposed in registers: all that is added to it
        is a product with ``buffer``."""
        c, annotated = product.c, dict(self.launch.hints.layout_map)
        if c.buffer.storage != FRAGMENT or not c.is_whole or c.buffer in annotated:
            return False
        possible = c.dtype == "float32" and not product.hints
        return possible and all(other.b.buffer is buffer for other in self.uses[c.buffer].products)

    def run_of(self, buffer: Buffer) -> int:
        """The order of k for ``buffer``: as all its products can have it; 0 for none."""
        allowed: set[int] = set(RUNS)
        shares = set()  # of the rows by the warps, on either side
        for product in self.uses[buffer].products:
            allowed &= self.runs(product, buffer)
            is_a = product.a.buffer is buffer
            shares.add((is_a, self.plan(product).warps, self.groups.of(product)))
        return max(allowed, default=0) if len(shares) == 1 else 0

    def runs(self, product: S.Gemm, buffer: Buffer) -> set[int]:
        """Orders of k that ``product`` allows with ``buffer`` in registers."""
        is_a = product.a.buffer is buffer
        operand, other = (product.a, product.b) if is_a else (product.b, product.a)
        plan = self.plan(product)
        atom = plan.atom
        if atom is None or atom.shape != "m16n8k16" or atom.a.bits != 16:
            return set()
        if other.buffer is buffer or not other.buffer.storage.startswith("shared"):
            return set()
        inner = not product.trans_a if is_a else product.trans_b
        other_inner = product.trans_b if is_a else not product.trans_a
        if not operand.is_whole or not inner or not other_inner or self.suits(other.buffer):
            return set()
        copies = plan.warps[1] if is_a else plan.warps[0]
        rows = plan.m if is_a else plan.n
        threads = self.groups.of(product)[1]
        shared = buffer.storage != FRAGMENT
        limit = min(MAX_REGISTERS * threads, self.context.limits.registers)
        if shared and (copies > 1 or rows * plan.k > limit):
            return set()
        if not shared and not is_a and not self.is_swapped(product):
            return set()  # operand A would lose ldmatrix, for little gain
        steps = plan.tiles[2] // (1 if is_a else max(1, self.k_slices(product)))
        return {run for run in RUNS if steps % run == 0}

    def should_swap(self, buffer: Buffer, fragments: Mapping[Buffer, Buffer]) -> bool:
        """Whether the products of operand B are better computed transposed.

        The registers of a row of 16 bytes are neighbours in operand B, so that what comes
        from memory is where the instruction wants it; as operand A it has to be moved about.
        Results of few rows only: they are stored to memory across.
        """
        return all(
            product.b.buffer is buffer
            and self.is_swapped(product)
            and all(other.b.buffer in fragments for other in self.uses[product.c.buffer].products)
            for product in self.uses[buffer].products
        )

    def is_swapped(self, product: S.Gemm) -> bool:
        """Whether ``product`` may be computed transposed, each of its right rows by one warp."""
        plan, c = self.plan(product), product.c
        if plan.atom is None or c.dtype is not plan.atom.c or not c.is_whole:
            return False
        if c.buffer.storage != FRAGMENT or c.buffer in dict(self.launch.hints.layout_map):
            return False
        return plan.m <= MAX_ROWS and plan.warps[0] == 1 and self.k_slices(product) > 0

    def k_slices(self, product: S.Gemm) -> int:
        """Groups of warps that split k of ``product``, computed transposed, where there are
        more warps than tiles of right rows; 0 if that cannot be."""
        plan, (first, threads) = self.plan(product), self.groups.of(product)
        if plan.atom is None or plan.n % plan.atom.m:
            return 0
        warps = threads // plan.atom.width
        slices = warps // gcd(plan.n // plan.atom.m, warps)
        if slices == 1:
            return 1
        alone = (first, threads) == (0, prod(self.launch.threads))
        c = self.uses[product.c.buffer]
        able = alone and c.products == [product] and plan.tiles[2] % (slices * RUNS[0]) == 0
        return slices if able and reduction_region(self.launch.body, product) is not None else 0


def _permute_k(
    body: S.Stmt, orders: Mapping[S.Gemm, GemmHints], sums: Mapping[Buffer, Buffer]
) -> S.Stmt:
    """``body`` with the permutation of k at the products that have one, and with partial sums where
    k is split."""

    def product(stmt: S.Gemm) -> S.Stmt:
        hints = orders.get(stmt, stmt.hints)
        if hints == stmt.hints:
            return stmt
        partials = sums.get(stmt.c.buffer)
        return replace(stmt, c=stmt.c if partials is None else partials.whole(), hints=hints)

    return map_stmts(body, S.Gemm, product)


def _buffers_of(stmt: S.Stmt) -> set[Buffer]:
    """Buffers that a statement itself uses; those of its blocks only if it is a loop over
    elements."""
    return {
        access.buffer
        for access in effects.accesses(stmt, nested=isinstance(stmt, S.Parallel))
        if not isinstance(access.by, S.Alloc)
    }


def _is_whole_fill(stmt: S.Stmt, buffer: Buffer) -> bool:
    """Whether a loop writes every element of ``buffer`` once, unconditionally, at its own index,
    and reads none."""
    loop = loop_of(stmt)
    assert loop is not None
    extents = static_extents(loop)
    body = loop.body
    while isinstance(body, S.Seq) and body.stmts:
        if not all(isinstance(child, S.Let) for child in body.stmts[:-1]):
            return False
        body = body.stmts[-1]
    if not isinstance(body, S.Store) or body.buffer is not buffer or extents is None:
        return False
    uses = [access for access in accesses(loop) if access.buffer is buffer]
    if len(uses) != 1 or tuple(buffer.shape) != extents:
        return False
    return E.are_same_exprs(body.indices, loop.vars)
