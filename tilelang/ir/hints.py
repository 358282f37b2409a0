"""Hints of programs and decisions of passes on statements and buffers, which do not change their
meaning.

One frozen class for buffers and for each kind of statement; a field that is not stated has
its default. Programs state hints by name (``annotations={...}``). The frontend reads those that
mean something, once (:meth:`Hints.of`). The others stay in ``other`` until the first pass drops
them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.errors import Loc
    from tilelang.ir.buffer import Buffer

Pairs = tuple[tuple[str, object], ...]
Own = TypeVar("Own", bound="Hints")


@dataclass(frozen=True)
class Hints:
    """Base of all hints.

    Attributes:
        other: what the program says and no pass knows.
    """

    program: ClassVar[dict[str, type]] = {}  # what a program may state: field -> its type
    schedule: ClassVar[tuple[str, ...]] = ()  # fields that Thread IR has no use for
    other: Pairs = ()

    @classmethod
    def of(cls: type[Own], pairs: Collection[tuple[str, object]]) -> Own:
        """The hints of a program."""
        known = {key: hint for key, hint in pairs if isinstance(hint, cls.program.get(key, ()))}
        return cls(other=tuple(pair for pair in pairs if pair[0] not in known), **known)

    @cached_property
    def stated(self) -> Pairs:
        """Names and values of the fields that somebody has stated, those of the program alone
        last."""
        values = [(field, getattr(self, field.name)) for field in fields(self)[1:]]
        own = (pair for pair in values if not _is_plain(pair[1], pair[0].default))
        return (*((field.name, value) for field, value in own), *self.other)

    def __bool__(self) -> bool:
        return bool(self.stated)

    def has_only(self, *names: str) -> bool:
        """Whether nothing but fields of ``names`` is stated."""
        return all(name in names for name, _ in self.stated)

    def without(self: Own, *names: str) -> Own:
        """A copy without the fields of ``names``; itself where none is stated."""
        left = {name: getattr(type(self), name) for name in names}
        stated = any(not _is_plain(getattr(self, name), default) for name, default in left.items())
        return replace(self, **left) if stated else self

    def canonical(self) -> Pairs:
        """The key of the hints where programs are compared."""
        return self.stated


@dataclass(frozen=True)
class BufferHints(Hints):
    """The attributes of a buffer.

    Attributes:
        arrive_counts: arrivals at each barrier of an array.
        reducer: operator and replication.
        base_alignment: bytes that divide the address of a tensor; 0 where nothing is known.
        register_layout: how a fragment is spread over threads.
        layout: where elements of a tile are.
        is_generated: the compiler made it and generates its indices.
        interleaving: the :class:`Interleaving` of the tiles that it is interleaved with.
        converted: the fragment whose elements it exchanges.
        matrices: it holds whole matrices of a simdgroup.
        handed_over: mbarriers order its accesses.
        align: bytes that its offset is a multiple of; 0 where anything goes.
        logical: its layout, once indices are addresses.
        arena_offset: bytes from the start of shared memory.
        pointer: the parameter for it, of a tensor that others may overlap.
        rank: the dimensions of the tensor of which it is a view with longer rows; 0 for others.
    """

    arrive_counts: tuple[int, ...] = ()
    reducer: tuple[str, str] | None = None
    base_alignment: int = 0
    register_layout: Any = None
    layout: Any = None
    is_generated: bool = False
    interleaving: Any = None
    converted: str = ""
    matrices: bool = False
    handed_over: bool = False
    align: int = 0
    logical: Any = None
    arena_offset: int | None = None
    pointer: Any = None
    rank: int = 0


@dataclass(frozen=True)
class LoopHints(Hints):
    """Hints of a ``For``.

    Attributes:
        num_stages, order, stage, group: of ``T.Pipelined``.
        unroll_factor: of ``T.unroll``.
        parallel: iterations are independent: the depth of the loop in its nest.
        reduction: operator and total of each value that the loop reduces to.
        scan: operator and running total.
        asynchronous: a copy of one thread that it waits for later.
        through: "ldg" or "stg", the access that a loop over lanes is.
        threads: it is over the threads of a block; ``alive`` says which of them have returned.
        tiles: it is over tiles of a grid, which have no order.
        pipeline_note: how its pipeline was scheduled, or why it was not.
        counted: how many of the first statements of the body are remainders of the variable that
            the loop counts along instead of dividing.
        independent: no iteration accesses what another one stores in shared or global memory.
        vector: it is computed in vectors: bits of the widest value.
        idempotent: it may run an iteration twice.
        pairs: tensors that may be one; where they overlap in part, it goes in order.
    """

    program = {
        "num_stages": int, "order": tuple, "stage": tuple, "group": object, "unroll_factor": object,
    }  # fmt: skip
    schedule = ("num_stages", "order", "stage", "group", "tiles", "pipeline_note")
    num_stages: int | None = None
    order: tuple[object, ...] | None = None
    stage: tuple[object, ...] | None = None
    group: object = None
    unroll_factor: object = None
    parallel: int | None = None
    reduction: tuple[tuple[str, Buffer], ...] = ()
    scan: tuple[str, Buffer] | None = None
    asynchronous: bool = False
    through: str = ""
    threads: bool = False
    alive: Buffer | None = None
    tiles: bool = False
    pipeline_note: str | None = None
    counted: int = 0
    independent: bool = False
    vector: int = 0
    idempotent: bool = False
    pairs: tuple[tuple[Buffer, Buffer], ...] = ()


@dataclass(frozen=True)
class CopyHints(Hints):
    """Hints of copies, of atomic updates of tiles and of ``Parallel``, which they may become.

    Attributes:
        disable_tma, eviction_policy, prefer_instruction: of ``T.copy``.
        cluster_mask: blocks of the cluster that get the tile, a bit for each rank.
        emit_arrive: it arrives at its barrier, once for all of its threads.
        commit: an asynchronous copy is a group of its own.
        asynchronous: the loop is an asynchronous copy.
        signals: one thread of those that make it signals its completion.
        exchange: shuffles make it, between fragments.
        operand: it fills an operand of a product: dtype, and panels where it packs them.
        complete: TMA makes it, and it is over where it ends.
        waited_later: another statement waits for its end.
        tma_note: why TMA does not make it.
        unproved: on what threads are not proved to agree, of which one issues it for all.
        subtile: which :class:`Subtile` of it is made, or that it is one.
    """

    program = {
        "disable_tma": bool, "eviction_policy": str, "prefer_instruction": str, "cluster_mask": int,
        "emit_arrive": object,
    }  # fmt: skip
    disable_tma: bool = False
    eviction_policy: str | None = None
    prefer_instruction: str | None = None
    cluster_mask: int | None = None
    emit_arrive: object = None
    commit: bool = True
    asynchronous: bool = False
    signals: bool = False
    exchange: bool = False
    operand: Any = None
    complete: bool = False
    waited_later: bool = False
    tma_note: str | None = None
    unproved: str | None = None
    subtile: Any = None


@dataclass(frozen=True)
class GemmHints(Hints):
    """Hints of a product; ``GemmPlan`` describes the last three.

    Attributes:
        signals: one thread of those that make it signals its completion.
        panels: the shape of B in panels.
        taps: of a convolution: how many, and the distances of their rows and columns.
    """

    signals: bool = False
    panels: Any = None
    taps: tuple[Any, ...] | None = None
    k_run: int = 1
    k_slices: int = 1
    swapped: bool = False


@dataclass(frozen=True)
class LaunchHints(Hints):
    """Hints of a launch. Maps are pairs of a buffer and its value.

    Attributes:
        notes: why layouts are what they are, each a ``Note``.
        register_note: what came of its hints for registers.
        fusion_note: which loops are one and which are not, as lines.
        remarks: copies that are not loaded straight to LDS, waits that were added: (text, place).
        exchanges: global buffers through which threads of a block talk.
        barrier_ids: first thread, count and number of the barrier of each group of threads.
        shared_bytes: of shared memory.
    """

    program = {
        "cluster_dims": object, "prelude": str, "import_source": str, "cuda_source": str,
        "entry_name": str, "default_threads": bool, "layout_map": tuple, "safe_value": tuple,
        "l2_hit_ratio": tuple, "min_blocks_per_sm": int, "swizzle": tuple, "ws_schedule": object,
    }  # fmt: skip
    schedule = ("layout_map", "default_threads", "ws_schedule", "notes", "exchanges")
    cluster_dims: Any = None
    prelude: str | None = None
    import_source: str | None = None
    cuda_source: str | None = None
    entry_name: str = "main_kernel"
    default_threads: bool = False
    layout_map: tuple[tuple[Buffer, Any], ...] = ()
    safe_value: tuple[tuple[Buffer, Any], ...] = ()
    l2_hit_ratio: tuple[tuple[Buffer, float], ...] = ()
    min_blocks_per_sm: int = 1
    swizzle: tuple[Any, Any] | None = None
    ws_schedule: Any = None
    register_note: str | None = None
    notes: tuple[Any, ...] = ()
    exchanges: tuple[Any, ...] = ()
    barrier_ids: tuple[tuple[int, int, int], ...] = ()
    remarks: tuple[tuple[str, Loc | None], ...] = ()
    fusion_note: tuple[str, ...] = ()
    shared_bytes: int = 0


PLAIN_BUFFER, PLAIN_LOOP, PLAIN_COPY = BufferHints(), LoopHints(), CopyHints()
PLAIN_GEMM, PLAIN_LAUNCH = GemmHints(), LaunchHints()


def _is_plain(value: object, default: object) -> bool:
    """Whether a field has its default: the object, or an equal text, which storing gives anew, or
    tuple, of which Python 3.10 has several empty ones."""
    return value is default or (isinstance(value, (str, tuple)) and value == default)
