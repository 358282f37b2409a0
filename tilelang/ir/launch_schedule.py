"""The schedule of a launch, as one frozen object: how its blocks, threads and copies run.

A program states some of its fields (``T.annotate_schedule``). ``transforms/schedule`` chooses the
others by price and applies them all. Nothing else decides about them.
"""

from __future__ import annotations

from tilelang.records import dataclass

Value = bool | int | str | tuple[int, ...] | None

# Field -> its values, each with what it means, in the order in which the fields are applied.
VALUES: dict[str, dict[Value, str]] = {
    "persistent": {
        False: "a block for each tile of the grid",
        True: "a block for each multiprocessor, which loops over tiles",
    },
    "epilogue": {
        "direct": "threads store results from registers",
        "staged": "results go to a shared tile, which TMA stores",
        "subtiles": "each warp stores subtiles of its own with TMA, without a barrier",
        "overlapped": "the same, during the first products of the next tile",
    },
    "roles": {
        "one": "all threads copy and compute",
        "producer": "a warpgroup copies, the others compute",
    },
    "tile_order": {
        "grid": "blocks take tiles in the order of the grid",
        "longest_first": "tiles with the most iterations first",
    },
    "barriers": {
        "stage": "a stage arrives and is released as a whole",
        "operand": "operands that are used at different times have mbarriers of their own",
    },
    "overlap": {
        "none": "products of an iteration, then the computation that uses them",
        "rotate": "the last product of an iteration overlaps the computation of the next",
        "ping_pong": "two warpgroups alternate iterations: one multiplies while one computes",
    },
    "prefetch_tiles": {
        False: "unpipelined operands are copied when the tile begins",
        True: "a producer copies them while the previous tile ends",
    },
    "memory": {
        "ample": "shared memory is spent for speed",
        "short": "options that need more shared memory are left out",
        "shortest": "tiles of an iteration share memory, with barriers between them",
    },
}
# What is a number: field -> what it is.
NUMBERS = {
    "stages": "buffers of each pipelined tile",
    "registers": "per consumer thread, per producer thread",
}
MEMORY = tuple(map(str, VALUES["memory"]))


@dataclass(frozen=True)
class Alternative:
    """A schedule that was not chosen: the fields in which it differs, its price in cycles, and why
    it is not legal if it is cheaper."""

    fields: tuple[tuple[str, Value], ...]
    price: int
    why: str = ""


@dataclass(frozen=True)
class Schedule:
    """Fields as :data:`VALUES` and :data:`NUMBERS` describe them; None where not stated.

    Attributes:
        tiles: the grid over which a persistent block loops.
        subtiles: of a result that each warp stores, with ``epilogue="subtiles"`` or "overlapped".
        price: the cycles of a multiprocessor for a tile, by which it was chosen; None: it was not.
        others: what it was chosen from, the cheapest first.
    """

    persistent: bool | None = None
    epilogue: str | None = None
    stages: tuple[int, ...] | None = None
    roles: str | None = None
    registers: tuple[int | None, int | None] | None = None
    tile_order: str | None = None
    barriers: str | None = None
    overlap: str | None = None
    prefetch_tiles: bool | None = None
    memory: str | None = None
    tiles: str = ""
    subtiles: int = 0
    price: int | None = None
    others: tuple[Alternative, ...] = ()

    def stated(self) -> dict[str, Value]:
        """The fields that are stated."""
        names = (*VALUES, *NUMBERS)
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def text_of(fields: dict[str, Value]) -> str:
    """``fields`` as a program states them."""
    return ", ".join(f"{name}={value!r}" for name, value in fields.items())
