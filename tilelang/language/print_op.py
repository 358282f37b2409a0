"""Printing and assertions in kernels."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region

__all__ = ["device_assert", "print"]


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Print an expression (every thread), a buffer (element by element) or only ``msg``.

    Fragments and shared tiles print in the thread ``128 * warp_group_id + 32 * warp_id``.

    Raises:
        TileValueError: neither an object nor a message.
    """
    target = emitter("T.print")
    if obj is None:
        if not msg:
            raise TileValueError("T.print has nothing to print", expected="an object or a message")
        target.emit(S.Eval(value=E.call("print", dtype="void", message=msg)))
        return
    if isinstance(obj, (Buffer, Region)) and not (isinstance(obj, Buffer) and obj.is_var):
        region = obj.region() if isinstance(obj, Buffer) else obj
        text = msg or f"buffer<{region.buffer.name}, {region.dtype}>"
        thread = 128 * warp_group_id + 32 * warp_id
        target.emit(S.PrintTile(src=region, message=text, thread=thread))
        return
    value = E.as_expr(obj)
    text = msg or f"expr<{value!r}>"
    target.emit(S.Eval(value=E.call("print", value, dtype="void", message=text)))


def device_assert(condition: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with ``msg`` unless the condition holds."""
    cond = E.as_expr(condition)
    if not cond.dtype.is_bool:
        cond = cond != 0
    emitter("T.device_assert").emit(
        S.Eval(value=E.call("device_assert", cond, dtype="void", message=msg))
    )
