"""Python's own exceptions about values of a kernel, as errors at the user's line.

``n[0]``, ``len(n)``, ``f"{x:.3f}"``, ``table[i]`` of a numpy array: the exception names a class of
this package, or does not mention the kernel at all.
"""

from __future__ import annotations

import builtins
import re

from tilelang.errors import Loc, TileError, TileIndexError, TileTypeError
from tilelang.ir import expr as E
from tilelang.ir.expr import Expr

_FORMS = (
    (
        re.compile(r"'(\w+)' object is not callable"),
        "{callee} is called as a function",
        "an element is written with brackets, A[i, j]",
    ),
    (
        re.compile(r"'(\w+)' object is not subscriptable"),
        "{callee} is indexed",
        "it is one number; index the buffer, and T.match_buffer(p, shape, dtype) of a pointer",
    ),
    (
        re.compile(r"object of type '(\w+)' has no len\(\)"),
        "len() of {callee}",
        "it is one number; extents of a tile are in its `shape`",
    ),
    (
        re.compile(r"unsupported format string passed to (\w+)\.__format__"),
        "{callee} is formatted as a number",
        "it has no value while the kernel is traced; T.print(x) prints it when the kernel runs",
    ),
)
# What Python says of any operation that an object does not have.
_OPERATION = re.compile(
    r"(unsupported operand type\(s\) for|bad operand type for unary|can only concatenate) .*"
    r"|'\w+' object (is not \w+|does not support \w+ \w+|does not support .* protocol)"
    r"|cannot unpack non-iterable \w+ object|argument of type '\w+' is not iterable"
)
_NOTHING = "an operation on tiles, such as T.copy or T.gemm, is a statement and has no value"
_TABLE = "pass the table as a parameter of the kernel, or index it with a Python int"


def complaint(error: Exception, loc: Loc | None, any_kind: bool = False) -> TileError | None:
    """A better error for an exception that Python or numpy raised at a line of a kernel.

    What Python says of its own objects stays an exception of Python, unless ``any_kind``.
    """
    if isinstance(error, KeyError):
        if not (error.args and isinstance(error.args[0], Expr)):
            return None
        return TileTypeError(
            f"`{error.args[0]!r}` is looked up in a dict",
            expected="a key that is known while the kernel is traced",
            loc=loc,
            hint=_TABLE,
        )
    if isinstance(error, IndexError):
        if str(error).startswith("only integers, slices"):
            return TileTypeError(
                "an array of numpy is indexed with a value of the kernel",
                expected="an index that is known while the kernel is traced",
                loc=loc,
                hint=_TABLE,
            )
        shape = "a shape has an extent for each dimension, from 0 on"
        return TileIndexError(
            str(error), loc=loc, hint=shape if str(error).startswith("tuple") else None
        )
    for form, message, hint_of_form in _FORMS:
        match = form.fullmatch(str(error))
        callee = _callee(match[1]) if match else ""
        if callee:
            return TileTypeError(message.format(callee=callee), loc=loc, hint=hint_of_form)
    kinds = re.findall(r"'(\w+)'|iterable (\w+) object", str(error))
    ours = any_kind or any(name not in vars(builtins) for pair in kinds for name in pair if name)
    if ours and _OPERATION.fullmatch(str(error)):
        hint = _NOTHING if "NoneType" in str(error) else None
        return TileTypeError(str(error), loc=loc, hint=hint)
    return None


def _callee(name: str) -> str:
    """A user's word for an object of the class ``name``; "" for classes of other packages."""
    if name in ("Buffer", "Region"):
        return "a buffer"
    kind = getattr(E, name, None)
    return "a value of the kernel" if isinstance(kind, type) and issubclass(kind, Expr) else ""
