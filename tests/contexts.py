"""Contexts of compilations that tests hand to single passes."""

from __future__ import annotations

from tilelang.options import Options
from tilelang.target import Context, parse_target

CPU = Context(parse_target("cpu"))
SM_75 = Context(parse_target("cuda -arch=sm_75"))
SM_80 = Context(parse_target("cuda -arch=sm_80"))
SM_90 = Context(parse_target("cuda -arch=sm_90"))
OWN_BARRIERS = Context(SM_80.target, Options(no_auto_sync=True))
