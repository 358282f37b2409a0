"""Tracing: runs rewritten code; the boundary where errors get the user's location.

* An error of ours without a location gets the location in the user's program that caused it.
* An unexpected exception out of our own code becomes an ``InternalError``.
* Exceptions of the user's Python code pass through unchanged, except that an unknown name in a
  kernel is a ``TileNameError`` with its location, and Python's errors about an index past the end
  of a sequence and about values of the kernel are converted too (``complaints``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from tilelang import errors
from tilelang.absent import WORDS
from tilelang.frontend.ir_builder import Builder, attach, is_class_of_python, locate_error
from tilelang.frontend.texts import name_the_text, name_the_zero, text_for_number
from tilelang.ir.arrays import INSTEAD, NoArray
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Expr
from tilelang.ir.garbage_collection import garbage_collection_paused
from tilelang.tracebacks import is_raised_here

_WRONG_CALL = re.compile(r"[\w.<>]+\(\) (got an?|got multiple|missing|takes) ")


def trace_root(
    builder: Builder,
    fn: FunctionType | Callable[..., object],
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> object:
    """``fn(*args, **kwargs)``, a rewritten function, with ``builder`` active."""
    from tilelang.ir.trace_context import activate

    try:
        with activate(builder), garbage_collection_paused():
            return fn(*args, **(kwargs or {}))
    except errors.TileError as error:
        attach(error, error.__traceback__)
        name_the_text(error, error.__traceback__)
        if error.message.startswith("division by zero"):
            raise name_the_zero(error, error.__traceback__, error.loc) from None
        raise
    except NameError as error:
        if not _is_raised_by_kernel(error.__traceback__):
            raise
        raise _unknown_name(error) from None
    except (AttributeError, TypeError) as error:
        better = _misused_word(error)
        if better is None:
            _report(builder, error)
            raise
        raise better from None
    except (IndexError, KeyError) as error:
        better = _complained(error)
        if better is None:
            _report(builder, error)
            raise
        raise better from None
    except RecursionError as error:
        raise errors.TileSyntaxError(
            "the kernel's macros call each other without end",
            expected="a recursion that a condition known at trace time ends",
            loc=locate_error(error.__traceback__),
        ) from None
    except Warning:  # the user asked that warnings be errors
        raise
    except Exception as error:
        # Everything else is either the user's own exception or a bug of ours; the innermost
        # frame that is not library code says which.
        _report(builder, error)
        raise


def _report(builder: Builder, error: Exception) -> None:
    """Raise for an exception that our own code raised: about an argument, or as a bug."""
    loc = locate_error(error.__traceback__)
    innermost = _frames(error.__traceback__)[-1].tb_frame
    where = innermost.f_globals.get("__name__")
    if is_class_of_python(innermost):
        kind = errors.TileValueError if isinstance(error, ValueError) else errors.TileTypeError
        raise kind(str(error), loc=loc) from None
    if not is_raised_here(error.__traceback__):
        if isinstance(error, ZeroDivisionError) and _is_raised_by_kernel(error.__traceback__):
            raise name_the_zero(error, error.__traceback__, loc) from None
        return
    from tilelang.frontend.arguments import wrong_argument
    from tilelang.frontend.complaints import complaint

    wrong: errors.TileError | None = None
    if where in ("tilelang.frontend.scope", "tilelang.frontend.statements"):
        wrong = complaint(error, loc, any_kind=True)
    wrong = wrong or wrong_argument(error, error.__traceback__, loc)
    if wrong is not None:
        raise wrong from None
    raise errors.InternalError(
        f"internal error while tracing `{builder.name}`: {type(error).__name__}: {error}",
        loc=loc,
        hint="this is a bug of tilelang; please report it with the kernel and the traceback",
    ) from error


def _misused_word(error: AttributeError | TypeError) -> errors.TileError | None:
    """A better error for an unknown name of the language, or one called with wrong arguments."""
    frames = _frames(error.__traceback__)
    while frames and _is_between(frames[-1].tb_frame):
        frames.pop()
    frames = _without_lambdas(frames)
    loc = locate_error(error.__traceback__)
    if isinstance(error, TypeError):
        better = text_for_number(error, error.__traceback__, loc)
        if better is not None:
            return better
    if not frames or not _is_kernel_code(frames[-1]):
        return None
    if isinstance(error, TypeError):
        from tilelang.frontend.complaints import complaint

        wrong_call = _WRONG_CALL.match(str(error)) is not None
        return errors.TileTypeError(str(error), loc=loc) if wrong_call else complaint(error, loc)
    owner: Any = getattr(error, "obj", None)
    home = getattr(owner, "__name__", "") if isinstance(owner, ModuleType) else ""
    if not (home or type(owner).__module__).startswith("tilelang."):
        return None
    home = home.replace("tilelang.compat.", "tilelang.")  # as programs import it
    home_name = "T" if home == "tilelang.language" else home or _kind_of(owner)
    word = error.name or ""
    instead = WORDS if home_name == "T" else INSTEAD if isinstance(owner, NoArray) else {}
    if word in instead:
        hint = f"use {instead[word]}"
        return errors.TileNameError(f"{home_name} has no `{word}`", loc=loc, hint=hint)
    return errors.TileNameError(
        f"{home_name} has no `{error.name}`",
        loc=loc,
        hint=errors.near(word, [name for name in dir(owner) if name[0] != "_"]),
    )


def _is_between(frame: FrameType) -> bool:
    border = frame.f_globals.get("__name__") == "tilelang.tracebacks"
    return border or frame.f_code.co_name == "__getattr__"


def _complained(error: Exception) -> errors.TileError | None:
    if not _is_raised_by_kernel(error.__traceback__):
        return None
    from tilelang.frontend.complaints import complaint

    return complaint(error, locate_error(error.__traceback__))


def _kind_of(owner: object) -> str:
    if isinstance(owner, Expr):
        return f"the value `{owner!r}`"
    if isinstance(owner, (Buffer, Region)):
        return f"the {type(owner).__name__.lower()} `{owner!r}`"
    return f"a {type(owner).__name__}"


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _is_kernel_code(frame: TracebackType) -> bool:
    code = frame.tb_frame.f_code
    return "__tl" in code.co_varnames + code.co_cellvars + code.co_freevars


def _is_raised_by_kernel(traceback: TracebackType | None) -> bool:
    """Whether the innermost frame is rewritten code, or a comprehension or lambda in it."""
    return _is_kernel_code(_without_lambdas(_frames(traceback))[-1])


def _without_lambdas(frames: list[TracebackType]) -> list[TracebackType]:
    """``frames`` up to rewritten code, where comprehensions and lambdas in it are the innermost."""
    code = frames[-1].tb_frame.f_code if frames else None
    if code is None or not code.co_name.startswith("<") or _is_kernel_code(frames[-1]):
        return frames
    for end in range(len(frames), 0, -1):
        frame = frames[end - 1]
        if frame.tb_frame.f_code.co_filename == code.co_filename and _is_kernel_code(frame):
            return frames[:end]
    return frames


def _unknown_name(error: NameError) -> errors.TileNameError:
    name = getattr(error, "name", None) or str(error).split("'")[1]
    if isinstance(error, UnboundLocalError) or "free variable" in str(error):
        message = f"`{name}` has no value here"
        hint: str | None = (
            f"bind `{name}` on every path; a branch that is not taken at trace time binds nothing"
        )
    else:
        message = f"the name `{name}` is not defined"
        hint = _suggest(name, error.__traceback__)
    return errors.TileNameError(message, loc=locate_error(error.__traceback__), hint=hint)


def _suggest(name: str, traceback: TracebackType | None) -> str | None:
    frame = _frames(traceback)[-1].tb_frame
    for alias, value in frame.f_globals.items():
        if isinstance(value, ModuleType) and name in getattr(value, "__all__", ()):
            return f"did you mean `{alias}.{name}`?"
    known = [
        identifier
        for identifier in (*frame.f_locals, *frame.f_globals)
        if not identifier.startswith("__")
    ]
    return errors.near(name, known)
