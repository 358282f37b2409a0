"""Predicates of programs on the kind of a target; passes test features instead."""

from __future__ import annotations

from typing import Any

from tilelang.target.parse import Target, parse_target


def target_is_cuda(target: Any) -> bool:
    """Whether ``target`` is an NVIDIA device."""
    return parse_target(target).kind == "cuda"


def target_is_hip(target: Any) -> bool:
    """Whether ``target`` is an AMD device."""
    return parse_target(target).kind == "hip"


def target_is_metal(target: Any) -> bool:
    """Whether ``target`` is an Apple device."""
    return parse_target(target).kind == "metal"


def has_fnuz(target: Target) -> bool:
    """Whether 8-bit floats of ``target`` are finite with one zero (FNUZ), as on AMD before gfx950
    and RDNA4."""
    return target.kind == "hip" and not target.arch.startswith(("gfx95", "gfx12"))
