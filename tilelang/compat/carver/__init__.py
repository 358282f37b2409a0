"""Recommendations of tiles by an analytic model, and facts of the machine."""

from __future__ import annotations

from tilelang.compat.carver.roller.hint import Hint
from tilelang.compat.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

__all__ = [
    "ConvTemplate", "ElementwiseTemplate", "FlashAttentionTemplate", "GEMVTemplate",
    "GeneralReductionTemplate", "Hint", "MatmulTemplate",
]  # fmt: skip
