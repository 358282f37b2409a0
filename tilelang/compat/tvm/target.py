"""Targets by the constructor that programs call."""

from __future__ import annotations

from typing import Any

from tilelang.target import Target as _Target, parse_target

__all__ = ["Target"]


class _Kind(type):
    """Instances are the targets of this package."""

    def __call__(cls, target: Any = "auto", host: Any = None) -> _Target:
        """The target that ``target`` names; see :func:`tilelang.target.parse_target`. ``host`` is
        accepted: host code is C on the CPU."""
        return parse_target(target)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _Target)


class Target(metaclass=_Kind):
    """``Target("cuda -arch=sm_90a")`` gives a :class:`tilelang.target.Target`, which is a context
    manager, too."""

    current = staticmethod(_Target.current)
