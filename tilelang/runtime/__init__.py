"""Calling compiled kernels: the launch signature, argument checks, launchers and the disk cache."""

from __future__ import annotations
