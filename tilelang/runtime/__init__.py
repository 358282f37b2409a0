"""Calling compiled kernels: the launch contract, argument checks, launchers and the disk cache."""

from __future__ import annotations
