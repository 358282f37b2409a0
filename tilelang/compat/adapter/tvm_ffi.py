"""The adapter class of another implementation, for ``isinstance`` checks that are always false."""

from __future__ import annotations

__all__ = ["TVMFFIKernelAdapter"]


class TVMFFIKernelAdapter:
    """A class without instances, for ``isinstance``."""
