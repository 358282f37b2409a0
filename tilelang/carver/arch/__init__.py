"""Facts of the machine a program runs on."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.carver.arch")
