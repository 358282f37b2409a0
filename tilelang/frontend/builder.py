"""The builder and the decorators, by the path that programs know."""

from __future__ import annotations

from tilelang.frontend.entry import const, prim_func
from tilelang.frontend.ir_builder import Block, Builder, builder
from tilelang.frontend.macro import inline, macro

__all__ = ["Block", "Builder", "builder", "const", "inline", "macro", "prim_func"]
