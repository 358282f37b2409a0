"""``tile == 3`` in a program, which means the elements.

The compiler compares buffers by identity, as keys of tables and in lists, so that ``==`` can mean
nothing else. Where a program says it, Python's False would be silent: the branch behind the
condition were just not there.
"""

from __future__ import annotations

import sys
from opcode import opmap
from typing import TYPE_CHECKING, Any, NoReturn

from tilelang.errors import TileTypeError, shown
from tilelang.ir.arrays import NoArray

if TYPE_CHECKING:
    from types import FrameType

# Functions of ours that compare for a program, and those between it and this module.
_FOR_PROGRAMS = ("compare", "__array_ufunc__")
# From Python 3.12 on, those of lists, sets and dicts are part of the code around them.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_BETWEEN = (*_FOR_PROGRAMS, "_elementwise", "__eq__", "__ne__", "identical", "refuse_written")


def refuse_written(a: object, b: object, sign: str) -> None:
    """Refuse ``a == b`` of a whole tile where a line of the program that is traced says it.

    Raises:
        TileTypeError: it does.
    """
    if _has_elements(a) and _has_elements(b):
        tiles = not (_is_number(a) or _is_number(b))
        if _is_written(sys._getframe(1), tiles):
            refuse(a, b, sign)


def refuse(a: object, b: object, sign: str) -> NoReturn:
    """Say how elements are compared instead of ``a`` and ``b``.

    Raises:
        TileTypeError: always.
    """
    sides = [_element(side) for side in (a, b)]
    hint = f"compare elements in a loop of T.Parallel, `{sides[0]} {sign} {sides[1]}`"
    if isinstance(a, NoArray) and isinstance(b, NoArray) and not (_is_number(a) or _is_number(b)):
        hint += "; `is` tells whether two names are one tile"
    elif not all(isinstance(side, NoArray) or _is_number(side) for side in (a, b)):
        hint = "pass the numbers as a tensor, and compare elements in a loop of T.Parallel"
    raise TileTypeError(
        f"a whole tile is compared with `{sign}`",
        expected="an element on each side",
        got=f"`{shown(a)} {sign} {shown(b)}`",
        hint=hint,
    )


def _element(side: object) -> str:
    buffer: Any = getattr(side, "buffer", side)
    ndim = 0 if _is_number(side) or not isinstance(side, NoArray) else buffer.ndim
    if not ndim:
        return shown(side)
    return f"{buffer.name}[{', '.join('ijklmn'[:ndim])}]"


def _is_number(value: object) -> bool:
    from tilelang.ir.expr import Expr

    return isinstance(value, (int, float, Expr)) or getattr(value, "ndim", None) == 0


def _has_elements(value: object) -> bool:
    """Whether comparing means numbers. A text or None only tells a tile from something else."""
    return isinstance(value, (NoArray, list, tuple)) or _is_number(value) or hasattr(value, "ndim")


def _is_written(frame: FrameType | None, in_kernel: bool) -> bool:
    """Whether a program has the comparison; ``in_kernel`` where helpers may ask for identity."""
    asked = False
    while frame is not None:
        code = frame.f_code
        ours = (frame.f_globals.get("__name__") or "").partition(".")[0] == "tilelang"
        if not ours:
            # Lists and dicts compare, too, where they look for an item.
            written = asked or code.co_code[frame.f_lasti] == opmap["COMPARE_OP"]
            if code.co_name in _COMPREHENSIONS:
                asked, frame = written, frame.f_back
                continue
            names = code.co_varnames + code.co_cellvars + code.co_freevars
            return written and (not in_kernel or "__tl" in names)
        if code.co_name not in _BETWEEN:
            return False
        asked = asked or code.co_name in _FOR_PROGRAMS
        frame = frame.f_back
    return False
