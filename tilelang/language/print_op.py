"""Print a tile or a value, ``T.print``, and check a condition, ``T.device_assert``."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.frontend.regions import check_options, check_plain, constant_int, emit_call, scalar
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Expr, binary, const
from tilelang.ir.stmt import PrintTile
from tilelang.tracebacks import borders

__all__ = ["device_assert", "print"]


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Print while the kernel runs.

    Args:
        obj: a scalar, a buffer, a region, or None for ``msg`` only. One thread prints fragments and
            shared tiles; every executing thread prints all others.
        msg: text in front; by default the expression or the buffer's name and dtype.
        warp_group_id, warp_id: the warp whose first thread prints fragments and shared tiles.

    Raises:
        TileValueError: neither a value nor a message.
    """
    op_name = "T.print"
    if isinstance(obj, str) and not msg:
        obj, msg = None, obj
    check_options(msg=msg)
    if obj is None:
        if not msg:
            raise TileValueError(
                "T.print without anything to print",
                expected="a value or a message",
                got="no value and no message",
            )
        emit_call(op_name, "print", message=msg)
        return
    if isinstance(obj, Region) or (isinstance(obj, Buffer) and not obj.is_var):
        tile = obj if isinstance(obj, Region) else obj.whole()
        check_plain(tile, op_name, "tile")
        group = constant_int(warp_group_id, op_name, "warpgroup")
        warp = constant_int(warp_id, op_name, "warp")
        emitter(op_name).emit(PrintTile(src=tile, message=msg, thread=128 * group + 32 * warp))
        return
    emit_call(op_name, "print", scalar(obj, op_name, "value"), message=msg)


def device_assert(cond: object, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with ``msg`` where ``cond`` does not hold.

    Args:
        cond: a bool or a number, which holds unless it is 0.
        msg: a constant string.
        no_stack_info: accepted, without effect.
    """
    op_name = "T.device_assert"
    check_options(msg=msg)
    if cond is True:
        emitter(op_name)
        return
    plain = isinstance(cond, (bool, int))
    test: Expr = const(bool(cond)) if plain else scalar(cond, op_name, "condition")
    if not test.dtype.is_bool:
        test = binary("ne", test, 0)
    emit_call(op_name, "device_assert", test, message=msg)


borders(globals(), __all__)
