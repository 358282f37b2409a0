"""Entries of the pass list."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.rules import Phase, Rule

Pass = Callable[[PrimFunc, Context], PrimFunc]

# Pass -> passes of earlier versions that have its name now or are a part of it.
FORMER_NAMES = {
    "legalize": ("drop_hints", "follow_register_hints", "write_out_functions"),
    "normalize_loops": ("narrow_parallel", "order_blocks", "unroll_slices"),
    "normalize_operations": ("fold_clear", "lower_own_tiles", "signal_products", "split_lanes"),
    "forward_gemm_copies": ("coalesce_k_loops", "convolve", "forward_operands", "forward_results"),
    "contract_arrays": ("replace_tiles_by_scalars",),
    "tile_registers": ("unroll_and_jam",),
    "schedule_launches": ("persist_tiles", "pipeline_loops", "specialize_warps", "stage_epilogues"),
    "promote_operands": ("hold_operands",),
    "defer_reductions": ("defer_sums",),
    "predicate_uniform_stores": ("elect_stores", "store_once"),
    "insert_waits": ("elide_empty_barriers", "insert_wgmma_waits", "wait_products"),
    "vectorize_loops": ("join_sums", "pack_halves"),
    "hoist_invariants": ("hoist_indices", "hoist_uniform", "share_reciprocals"),
    "mark_vector_loops": ("mark_vectors",),
    "verify_bounds": ("verify_places",),
}


@dataclass(frozen=True)
class Step:
    """One entry of a pipeline of passes.

    Args:
        name: the pass, as reports and dumps name it.
        run: the pass itself.
        does: what it does, in the field's terms.
        after: the reason of its position: what holds there.
        needs: the feature of a target without which it has nothing to do.
        unless: the option of a compilation that leaves it out.
        level: the level of its result (see :mod:`tilelang.ir.levels`), if it differs from that of
            its input.
    """

    name: str
    run: Pass
    does: str
    after: str
    needs: str = ""
    unless: str = ""
    level: str | None = None

    @property
    def rows(self) -> tuple[Rule, ...]:
        """The rules that it applies, where it is a table of them."""
        return self.run.rules if isinstance(self.run, Phase) else ()

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names: those of its rules, and those of earlier versions."""
        return (*(row.name for row in self.rows), *FORMER_NAMES.get(self.name, ()))

    def applies(self, context: Context) -> bool:
        """Whether it runs in this compilation."""
        left_out = self.unless and getattr(context.options, self.unless)
        return not left_out and (not self.needs or context.has(self.needs))
