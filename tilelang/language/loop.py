"""Import path of :mod:`tilelang.language.v2.loop`, which programs know."""

from __future__ import annotations

from tilelang.language.v2.loop import *
