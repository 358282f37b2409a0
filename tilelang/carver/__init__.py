"""Recommendations of tiles by an analytic model, and facts of the machine."""

from __future__ import annotations

from tilelang.carver.roller.hint import Hint
from tilelang.carver.template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

__all__ = [
    "ConvTemplate",
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "Hint",
    "MatmulTemplate",
]
