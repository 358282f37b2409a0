"""The adapter of another implementation: no kernel has it, which is what programs ask."""

from __future__ import annotations

__all__ = ["TVMFFIKernelAdapter"]


class TVMFFIKernelAdapter:
    """Class of nothing here, for ``isinstance``."""
