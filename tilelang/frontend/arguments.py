"""Objects that a function of the language cannot use: arrays, lists, strings and others.

An exception that Python or an array raises inside that function is not a bug of the function: the
error names the argument.
"""

from __future__ import annotations

import re
from inspect import isfunction
from types import FrameType, TracebackType

from tilelang.errors import Loc, TileError, TileTypeError, TileValueError
from tilelang.frontend.ir_builder import describe
from tilelang.ir.arrays import NoArray

_ARRAY = "pass it to the kernel as a parameter, or use its numbers, e.g. x.item()"
_OF_TEXTS = re.compile(r"concatenate str|string formatting|'str'")
_COMPLAINTS = (TypeError, ValueError, AttributeError, IndexError, RuntimeError, ArithmeticError)
_BETWEEN = ("tilelang.tracebacks", "tilelang.frontend.scope", "tilelang.frontend.statements")


def wrong_argument(
    error: Exception, traceback: TracebackType | None, loc: Loc | None
) -> TileError | None:
    """The error for an argument that ``error``, raised in our code, complains about."""
    frame = _called(traceback)
    if frame is None or not isinstance(error, _COMPLAINTS):
        return None
    arguments = _arguments(frame)
    if isinstance(error, ArithmeticError):
        numbers = ", ".join(f"{name}={describe(value)}" for name, value in arguments)
        return TileValueError(f"{_name(frame)} of these numbers: {error}", got=numbers, loc=loc)
    arrays = [pair for pair in arguments if _is_array(pair[1])]
    wrong = arrays or [pair for pair in arguments if _is_named(pair[1], str(error))]
    wrong = wrong or [
        pair for pair in arguments if str(error).endswith(f" not {type(pair[1]).__name__}")
    ]
    if not wrong:
        return None
    hint = _ARRAY if arrays else None
    if any(isfunction(value) for _, value in wrong):
        hint = f"calling it: {str(error).partition('() ')[2]}"
    return TileTypeError(
        f"{_name(frame)} cannot use {'an array' if arrays else 'this'} as "
        + " or ".join(f"`{name}`" for name, _ in wrong),
        got=", ".join(_described(value) for _, value in wrong),
        hint=hint,
        loc=loc,
    )


def _called(traceback: TracebackType | None) -> FrameType | None:
    """The frame of the function of ours that the program called last."""
    innermost: FrameType | None = None
    inside = False
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__") or ""
        if module.partition(".")[0] == "tilelang":
            if not inside and module not in _BETWEEN:
                innermost, inside = traceback.tb_frame, True
        elif module.partition(".")[0] not in ("numpy", "torch"):
            innermost, inside = None, False
        traceback = traceback.tb_next
    return innermost


def _arguments(frame: FrameType) -> list[tuple[str, object]]:
    code, local_values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    arguments: list[tuple[str, object]] = []
    for name in code.co_varnames[: count + 2]:
        value = local_values.get(name)
        if name in code.co_varnames[count:]:  # *args, **kwargs or a variable
            if isinstance(value, tuple):
                arguments += [
                    (f"argument {number + 1}", element) for number, element in enumerate(value)
                ]
            elif isinstance(value, dict):
                arguments += value.items()
        else:
            arguments.append((name, value))
    return arguments


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, NoArray)


def _described(value: object) -> str:
    text, kind = describe(value), type(value)
    if value is None or " of type " in text:
        return text
    owner = kind.__module__.partition(".")[0]
    type_name = kind.__name__ if owner == "builtins" else f"{owner}.{kind.__name__}"
    return f"{text}, {'an' if type_name[0] in 'aeiou' else 'a'} {type_name}"


def _is_named(value: object, complaint: str) -> bool:
    if isinstance(value, str) and (repr(str(value)) in complaint or _OF_TEXTS.search(complaint)):
        return True
    if isfunction(value) and complaint.startswith(f"{value.__qualname__}() "):
        return True  # it takes other arguments
    kind = type(value).__name__
    if f"'{kind}'" in complaint or f"concatenate {kind} " in complaint:
        return True
    if isinstance(value, type) and f"'{value.__name__}'" in complaint:
        return True
    return complaint.startswith(f"{kind} ") and not isinstance(value, NoArray)


def _name(frame: FrameType) -> str:
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if name in ("__call__", "__init__") and owner is not None:
        name = type(owner).__name__.removesuffix("Annot")
    return str(frame.f_locals.get("what") or f"T.{name}")
