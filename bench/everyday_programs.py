"""Everyday kernels of other shapes, dtypes and spellings than those that any pass was tried on.

Each is written as users write it, with names that PyPI's tilelang has too. ``bench/everyday.py``
measures them; the tests run the small one of each family in the interpreter and the emulator.
"""

import everyday_attention
import everyday_elements
import everyday_fused
import everyday_heads
import everyday_layers
import everyday_library
import everyday_loops
import everyday_models
import everyday_moves
import everyday_operators
import everyday_precisions
import everyday_products
import everyday_rows
import everyday_small
from everyday_family import PROGRAMS, SMALL, Program

__all__ = ["PROGRAMS", "SMALL", "FAMILIES", "Program"]
FAMILIES = (
    everyday_rows, everyday_elements, everyday_library, everyday_layers, everyday_loops,
    everyday_products, everyday_attention, everyday_operators, everyday_models,
    everyday_fused, everyday_moves, everyday_small, everyday_precisions, everyday_heads,
)  # fmt: skip
