"""One recommendation for the tiles of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilelang.autotuner.model import Estimate
from tilelang.compat.carver.roller.rasterization import NoRasterization


@dataclass(frozen=True)
class Hint:
    """Tiles of a kernel.

    Attributes:
        block: the tile of a block, along the axes of the result.
        warp: the tile of a warp, for matrix products.
        rstep: steps along the axes that are summed over.
        thread: threads along the axes of ``block``.
        reduce_thread: threads that share one sum.
        step: vectors of a thread.
        pipeline_stage: stages of the loop over ``rstep``.
        use_async: whether copies run ahead of it.
        use_tc: whether matrix units multiply.
        rasterization_plan: the order of blocks; the class :class:`NoRasterization` for rows.
        vectorize: elements of one access, by name of the tensor.
        threads: of a block.
        estimate: of the cost model.
    """

    block: list[int] = field(default_factory=list)
    warp: list[int] = field(default_factory=list)
    rstep: list[int] = field(default_factory=list)
    thread: list[int] = field(default_factory=list)
    reduce_thread: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    pipeline_stage: int = 1
    use_async: bool = False
    use_tc: bool = False
    rasterization_plan: Any = NoRasterization
    vectorize: dict[str, int] = field(default_factory=dict)
    threads: int = 128
    estimate: Estimate = Estimate(0.0, "")

    def to_dict(self) -> dict[str, Any]:
        """The fields with a value."""
        return {
            name: value for name, value in self.__dict__.items() if value and name != "estimate"
        }
