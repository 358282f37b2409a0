"""IR levels: tables of what may stand at each of the three.

*Tile IR* is what tracing makes: tile operations and parallel loops over logical tiles. *Scheduled
IR* also says in what order threads and copies go on, and where tiles live: pipelines, roles and
fences, layouts. *Thread IR* is what text is printed from: loops, loads, stores and calls only; a
fragment is an array of registers, or of the block where one core runs it.

Statements, loops and buffers carry keys that passes read: hints of the program, decisions of
earlier passes. A key that stands in no row means nothing to any pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import SCOPES
from tilelang.records import dataclass

_PLAIN: frozenset[type[S.Stmt]] = frozenset(
    (
        S.Seq, S.Let, S.Alloc, S.View, S.Store, S.For, S.While, S.If, S.Eval, S.Assert, S.Break,
        S.Continue, S.ThreadReturn, S.Launch,
    )
)  # fmt: skip
_TILE: frozenset[type[S.Stmt]] = frozenset(
    (*S.TileOp.__subclasses__(), *S.ElementOp.__subclasses__(), S.ReducerUpdate, S.Parallel, S.Attr)
) - {S.ElementOp}
_SCHEDULE: frozenset[type[S.Stmt]] = frozenset(
    (
        H.Pipeline, H.Run, H.Acquire, H.Commit, H.Wait, H.Release, H.Roles, H.Role, H.Fence,
        H.WaitProducts,
    )
)  # fmt: skip
# What the host executes before, between and around kernels.
HOST: frozenset[type[S.Stmt]] = frozenset(
    (S.Seq, S.Let, S.Assert, S.If, S.For, S.While, S.Attr, S.View, S.Alloc, S.Launch)
)
# Holders of keys that programs name as they like.
OPEN = frozenset(("For", "Parallel", "Attr"))

Keys = Mapping[str, frozenset[str]]  # holder (class of statements, "Buffer", "Attr") -> its keys


def _keys(**rows: str) -> Keys:
    return {holder: frozenset(names.split()) for holder, names in rows.items()}


def _also(keys: Keys, **rows: str) -> Keys:
    more = _keys(**rows)
    return {
        name: keys.get(name, frozenset()) | more.get(name, frozenset()) for name in {*keys, *more}
    }


_TILE_KEYS = _keys(
    Launch=(
        "cluster_dims prelude import_source cuda_source entry_name is_cpu default_threads "
        "layout_map safe_value l2_hit_ratio restrict_buffers min_blocks_per_sm swizzle "
        "ws_schedule register_note"
    ),
    Parallel="coalesced_width prefer_async",
    Copy=(
        "coalesced_width disable_tma eviction_policy prefer_instruction cluster_mask "
        "leader_scope_threads dst_block annotations"
    ),
    Gemm="use_2cta annotations signals",
    Im2col="eviction_policy",
    Buffer="arrive_counts reducer descriptor base_alignment annotations",
)
_SCHEDULED_KEYS = _also(
    _TILE_KEYS,
    Launch="notes exchanges barrier_ids direct_notes wait_notes",
    Parallel="commit async signals tma_note subtile",
    Copy="commit signals exchange operand complete announce tma_note unproved subtile",
    AtomicTile="complete tma_note unproved",
    Im2col="complete tma_note eviction_policy commit",
    Gather="commit",
    Gemm="panels taps k_run swapped k_slices",
    Buffer="register_layout layout extra made joined converted matrices handed_over",
)
_THREAD_KEYS = _keys(
    Launch=(
        "cluster_dims prelude import_source cuda_source entry_name is_cpu safe_value l2_hit_ratio "
        "restrict_buffers min_blocks_per_sm swizzle register_note fusion_note "
        "direct_notes wait_notes shared_bytes barrier_ids"
    ),
    Gemm="panels taps",
    Buffer=(
        "arrive_counts reducer descriptor base_alignment annotations layout extra made align "
        "logical joined arena_offset handed_over converted matrices"
    ),
)


@dataclass(frozen=True)
class Level:
    """One row: what may appear.

    Attributes:
        lowered: accesses are of elements: no call has a region as its operand, and constant
            indices of on-chip memory lie inside it.
        planned: a product may say how threads compute it.
    """

    name: str
    statements: frozenset[type[S.Stmt]]
    loop_kinds: frozenset[str]
    scopes: frozenset[str]
    keys: Keys
    lowered: bool = False
    planned: bool = False


_ORDERLY = frozenset(("serial", "unroll", "vectorized"))
LEVELS: dict[str, Level] = {
    "tile": Level(
        "Tile IR",
        _PLAIN | _TILE,
        _ORDERLY | {"pipelined"},
        frozenset(SCOPES),
        _TILE_KEYS,
    ),
    "scheduled": Level(
        "Scheduled IR",
        _PLAIN | _TILE | _SCHEDULE,
        _ORDERLY | {"pipelined"},
        frozenset(SCOPES),
        _SCHEDULED_KEYS,
        planned=True,
    ),
    # Back ends with matrix kernels of their own print a Gemm as a call.
    "thread": Level(
        "Thread IR",
        _PLAIN | {S.Gemm},
        _ORDERLY,
        frozenset(SCOPES) - {"local.fragment"},
        _THREAD_KEYS,
        lowered=True,
    ),
}


def with_known_keys(stmt: S.Stmt, level: str) -> S.Stmt:
    """``stmt`` itself without those of its annotations that mean nothing at ``level``."""
    if isinstance(stmt, S.For):
        left_out = stmt.hints.schedule if level == "thread" else ()
        hints = stmt.hints.without("other", *left_out)
        return stmt if hints is stmt.hints else replace(stmt, hints=hints)
    keyed = (S.Launch, S.Parallel, S.Copy, S.AtomicTile, S.Im2col, S.Gather, S.Gemm)
    if not isinstance(stmt, keyed) or not stmt.annotations:
        return stmt
    known = LEVELS[level].keys.get(type(stmt).__name__, frozenset())
    pairs = tuple(pair for pair in stmt.annotations if pair[0] in known)
    return stmt if len(pairs) == len(stmt.annotations) else replace(stmt, annotations=pairs)
