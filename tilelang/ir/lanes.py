"""The one width of warps that programs see."""

from __future__ import annotations

# Lanes of a warp in the language: ``T.shfl_sync`` and the other warp functions speak of 32 lanes,
# wherever a program runs, as the warps of NVIDIA's GPUs have. What the hardware of a target has is
# in its limits.
WARP = 32
