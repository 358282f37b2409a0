"""Every exception that a user can see, with its location in the user's program.

    Exception
    └── TileError                       message, loc, expected, got, hint
        ├── TileSyntaxError             Python syntax that a kernel cannot use
        ├── TileTypeError               (TypeError, ValueError, AssertionError) operand of the
        │                               wrong kind or dtype
        ├── TileValueError              (ValueError, AssertionError) value outside what is allowed
        ├── TileIndexError              (IndexError, RuntimeError) wrong number or range of indices
        ├── TileNameError               (NameError, RuntimeError) name outside its defining region
        ├── TileUnsupportedError        (NotImplementedError) legal, but not on this target
        │   └── SharedMemoryLimitError  a block does not fit into the shared memory of the target
        ├── CompilationStopped          a compilation that was told to stop after a pass
        ├── JITNoBuilderError           (RuntimeError, ValueError) kernel function outside a kernel
        ├── KernelArgumentError         (RuntimeError, ValueError, AssertionError) a call's ndim,
        │   │                           dtype, shape, stride, device, ...
        │   ├── ArgumentCountError      wrong number of arguments
        │   └── ArgumentTypeError       (TypeError) dtype differs from a declared annotation
        ├── CompileError                (RuntimeError) a C/CUDA/... toolchain failed
        ├── TileRuntimeError            (RuntimeError) a running kernel did something wrong
        │   ├── OutOfBoundsError        (IndexError) access outside an on-chip buffer
        │   ├── UninitializedReadError  read of memory nothing has written
        │   ├── DeadlockError           threads wait forever
        │   ├── DeviceAssertError       (AssertionError) T.device_assert failed
        │   └── SanitizerError          a checked kernel has races, missing waits, ...
        └── InternalError               (RuntimeError) a bug of tilelang, original as __cause__

The builtins in parentheses are further bases, so that ``except ValueError`` in existing programs
works: they are what Python's own habit suggests, and what other implementations raise there (many
of their checks of operands are ``assert`` statements).
``TileWarning`` (a ``UserWarning``) is the category of everything said without stopping.

A location attaches itself: code that walks statements runs under ``with at(stmt.loc):`` and a
``TileError`` raised inside without a location takes the innermost one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tilelang.notebook import Preformatted
from tilelang.records import dataclass

if TYPE_CHECKING:
    import ast
    from types import FrameType

_TAB = 4
_CHAIN_HEAD, _CHAIN_TAIL = 8, 2  # calls shown at each end of a long call chain


@dataclass(frozen=True)
class Loc:
    """A span of the user's source and, inside a macro, the place that called it.

    ``line``/``end_line`` count from 1; ``col``/``end_col`` are UTF-8 byte offsets from 0, exactly
    as ``ast`` nodes and ``code.co_positions()`` give them. Rendering converts to characters
    counted from 1. ``function`` is the function that contains the span; ``call_site`` is where
    that function was called, when it is a macro or helper expanded into a kernel.
    """

    file: str
    line: int
    col: int | None = None
    end_line: int | None = None
    end_col: int | None = None
    function: str | None = None
    call_site: Loc | None = None

    @classmethod
    def of_node(
        cls, node: ast.AST, file: str, *, line_offset: int = 0, col_offset: int = 0,
        function: str | None = None,
    ) -> Loc:  # fmt: skip
        """The span of an ``ast`` node parsed from a snippet that starts further into ``file``."""
        line: int = getattr(node, "lineno", 1)
        col: int | None = getattr(node, "col_offset", None)
        end_line: int | None = getattr(node, "end_lineno", None)
        end_col: int | None = getattr(node, "end_col_offset", None)
        return cls(
            file,
            line + line_offset,
            None if col is None else col + col_offset,
            None if end_line is None else end_line + line_offset,
            None if end_col is None else end_col + col_offset,
            function,
        )

    @classmethod
    def of_frame(cls, frame: FrameType) -> Loc:
        """The location that ``frame`` executes: exact from Python 3.11 on, else the line."""
        code = frame.f_code
        positions: Callable[[], Iterator[tuple[int | None, ...]]] | None = getattr(
            code, "co_positions", None
        )
        line, end_line, col, end_col = frame.f_lineno, None, None, None
        if positions is not None and frame.f_lasti >= 0:
            from itertools import islice

            position = next(islice(positions(), frame.f_lasti // 2, None), None)
            if position is not None and position[0] is not None:
                line, end_line, col, end_col = position[0], *position[1:]
        return cls(code.co_filename, line, col, end_line, end_col, code.co_name)

    def __str__(self) -> str:
        column = self._column()
        return f"{self.file}:{self.line}" + ("" if column is None else f":{column}")

    def source(self) -> str | None:
        """The source line without its newline, or None when the file cannot be read."""
        import linecache

        linecache.checkcache(self.file)
        return linecache.getline(self.file, self.line).rstrip("\r\n") or None

    def render(self) -> str:
        """The location, its source line with carets, and the chain of calls that led there."""
        lines = [f" --> {self}", *self._snippet()]
        calls: list[tuple[str, Loc]] = []
        times: list[int] = []
        loc: Loc = self
        while loc.call_site is not None:
            name = loc.function or "?"
            loc = loc.call_site
            if calls and calls[-1][0] == name and str(calls[-1][1]) == str(loc):
                times[-1] += 1  # a macro that calls itself
                continue
            calls.append((name, loc))
            times.append(1)
        hidden = len(calls) - _CHAIN_HEAD - _CHAIN_TAIL
        for number, (name, site) in enumerate(calls):
            if hidden > 0 and _CHAIN_HEAD <= number < _CHAIN_HEAD + hidden:
                if number == _CHAIN_HEAD:
                    lines.append(f"  ... {hidden} more calls ...")
                continue
            often = f", {times[number]} times" if times[number] > 1 else ""
            lines.append(f"  in expansion of macro `{name}` called at {site}{often}")
            lines.extend(site._snippet())
        return "\n".join(lines)

    def _column(self) -> int | None:
        """Column in characters, from 1."""
        if self.col is None:
            return None
        source = self.source()
        return (self.col if source is None else len(_bytes_prefix(source, self.col))) + 1

    def _snippet(self) -> list[str]:
        source = self.source()
        if source is None:
            return []
        gutter = f"{self.line:5d}"
        lines = [f"{gutter} | {_expand(source)}"]
        if self.col is not None:
            before = _bytes_prefix(source, self.col)
            inside = source[len(before) :].rstrip()
            if self.end_line in (None, self.line):
                end = self.col + 1 if self.end_col is None else self.end_col
                inside = _bytes_prefix(source, end)[len(before) :]
            start = _width(before)
            width = max(1, _width(before + inside) - start)
            lines.append(f"{' ' * len(gutter)} | {' ' * start}{'^' * width}")
        return lines


def _bytes_prefix(text: str, count: int) -> str:
    """The characters of ``text`` that end within its first ``count`` UTF-8 bytes."""
    if text.isascii():
        return text[:count]
    return text.encode("utf-8", "surrogatepass")[:count].decode("utf-8", "ignore")


def _advance(column: int, char: str) -> int:
    """Screen column after ``char``: tabs to the next stop, wide characters 2, combining 0."""
    import unicodedata

    if char == "\t":
        return column + _TAB - column % _TAB
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return column
    return column + (2 if unicodedata.east_asian_width(char) in "WF" else 1)


def _width(text: str) -> int:
    if text.isascii() and "\t" not in text:
        return len(text)
    column = 0
    for char in text:
        column = _advance(column, char)
    return column


def _expand(text: str) -> str:
    """``text`` with tabs replaced by blanks up to the stops that ``_width`` assumes."""
    if "\t" not in text:
        return text
    column, out = 0, []
    for char in text:
        after = _advance(column, char)
        out.append(" " * (after - column) if char == "\t" else char)
        column = after
    return "".join(out)


@dataclass(frozen=True)
class Site:
    """A check of generated code: its condition as text, its place, whether a kernel
    or the host code around it does the checking, whether ``T.assume`` asked for it, and which
    threads are waited for."""

    condition: str
    loc: Loc | None = None
    in_kernel: bool = True
    assumed: bool = False
    threads: str = ""

    def error(self, message: str) -> TileRuntimeError | KernelArgumentError:
        """The exception of a failed check with ``message``."""
        if self.assumed:
            return KernelArgumentError(message, loc=self.loc)
        if not self.in_kernel:
            return TileRuntimeError(message, loc=self.loc)
        if self.threads:
            hint = 'execution_backend="interpret" runs the program, or names the threads that wait'
            return DeadlockError(message, expected=self.threads, hint=hint, loc=self.loc)
        return DeviceAssertError(message, expected=f"`{self.condition}` to hold", loc=self.loc)


class TileError(Exception, Preformatted):
    """Base of all errors of tilelang. ``str()`` gives the whole text, location included.

    Args:
        message: what is wrong, one sentence without a full stop.
        loc: the user's source it is about; filled in by ``at`` when missing.
        expected: what would have been right.
        got: what was found instead.
        hint: what to do about it.
    """

    def __init__(
        self, message: str = "", *, loc: Loc | None = None, expected: object = None,
        got: object = None, hint: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.expected = None if expected is None else str(expected)
        self.got = None if got is None else str(got)
        self.hint = hint
        self._place: str | None = None  # rendered location of an unpickled error

    def __str__(self) -> str:
        lines = [self.message]
        for label, text in (("expected", self.expected), ("got", self.got), ("hint", self.hint)):
            if text is not None:
                indent = "\n" + " " * (len(label) + 4)
                lines.append(f"  {label}: {indent.join(text.splitlines())}")
        if self._place is not None:
            lines.append(self._place)
        elif self.loc is not None:
            lines.append(self.loc.render())
        return "\n".join(lines)

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython shows: the program's frames and the message."""
        from traceback import format_exception

        tb = self.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_name in ("run_code", "run_cell_async"):
            tb = tb.tb_next
        return "".join(format_exception(type(self), self, tb)).splitlines()

    def __reduce__(self) -> tuple[Any, ...]:
        # The source may be unreadable where the error is unpickled (notebook cells, other hosts),
        # so the rendered location travels with it.
        state = dict(self.__dict__)
        if state["_place"] is None and self.loc is not None:
            state["_place"] = self.loc.render()
        return _rebuild, (type(self), self.args, state)


def shown(value: object, limit: int = 80) -> str:
    """An object of the program in a message: its ``repr`` on one line, cut off at ``limit``
    characters.

    Safe for any object: long containers are not written out, and where ``repr`` itself fails the
    type is named.
    """
    import reprlib

    class Short(reprlib.Repr):
        def repr_instance(self, x: Any, level: int) -> str:
            """Arrays of others by their kind: their memory may be elsewhere, or gone."""
            kind = type(x)
            if not hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__"):
                return super().repr_instance(x, level)
            shape, dtype = getattr(x, "shape", "?"), getattr(x, "dtype", "?")
            return f"<{kind.__name__} of shape {tuple(shape)} and dtype {dtype}>"

    short = Short()  # names the type where the `repr` of an object raises
    short.maxlevel, short.maxother, short.maxlong = 4, sys.maxsize, 4 * limit
    short.maxlist = short.maxtuple = short.maxset = short.maxfrozenset = short.maxdict = limit
    short.maxarray = short.maxdeque = limit
    short.maxstring = 2 * limit
    try:
        text = short.repr(value)
    except (ValueError, RecursionError):  # an int too long for decimal digits
        text = f"<{type(value).__name__}>"
    return (" ".join(text.split()) if "\n" in text else text)[:limit]


def check_type(
    value: object, kinds: type | tuple[type, ...], message: str, expected: str,
    show: Callable[[Any], str] | None = None,
) -> None:  # fmt: skip
    """Refuse an argument of another type.

    Args:
        value: the argument.
        kinds: what it may be.
        message: the sentence that does not hold.
        expected: the types in words.
        show: gives the text of what came; by default :func:`shown`.

    Raises:
        TileTypeError: it is something else.
    """
    if not isinstance(value, kinds):
        raise TileTypeError(message, expected=expected, got=(show or shown)(value))


def check_choice(
    value: object, choices: Collection[Any], message: str, expected: str | None = None,
    show: Callable[[Any], str] | None = None,
) -> None:  # fmt: skip
    """Refuse an argument that is none of a few.

    Args:
        value: the argument.
        choices: what it may be.
        message: the sentence that says what is wrong.
        expected: the choices in words; by default they are listed.
        show: gives the text of what came; by default :func:`shown`.

    Raises:
        TileValueError: it is something else.
    """
    if value not in choices:
        expected = expected or ", ".join(choices)
        raise TileValueError(message, expected=expected, got=(show or shown)(value))


def path_of(value: object, option: str) -> Path:
    """The path that a caller has given as ``option``.

    Raises:
        TileTypeError: it is none.
    """
    check_type(value, (str, PathLike), f"{option} is a path", "a str or a pathlib.Path")
    if "\0" in str(value):
        raise TileValueError(f"{option} has a NUL", expected="the path of a file", got=shown(value))
    return Path(str(value))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report what the system refuses while a file is written as an error at the caller's line.

    Raises:
        TileValueError: it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise TileValueError(
            "a file cannot be written",
            expected="a path where this user can write",
            got=f"{error.strerror}: {shown(error.filename or str(path), 200)}",
        ) from error


def near(name: str, names: Iterable[str], value: bool = False) -> str | None:
    """The hint that ``name`` may be meant to be one of ``names``; None where none is like it.

    A name is code, a ``value`` is text that a program passes.
    """
    closest = nearest(name, names)
    if closest is None:
        return None
    return f"did you mean {closest!r}?" if value else f"did you mean `{closest}`?"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """That of ``names`` which is most like ``name``, or alone has it as a word; None where none is
    like it."""
    from difflib import get_close_matches

    known = list(names)
    longer = [other for other in known if name in other.split("_")]
    return next(iter(longer if len(longer) == 1 else get_close_matches(name, known, n=1)), None)


_E = TypeVar("_E", bound=TileError)


def _rebuild(cls: type[_E], args: tuple[Any, ...], state: dict[str, Any]) -> _E:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class TileSyntaxError(TileError):
    """Python syntax that has no meaning inside a kernel."""


class TileTypeError(TileError, TypeError, ValueError, AssertionError):
    """An operand of the wrong kind or dtype."""


class TileValueError(TileError, ValueError, AssertionError):
    """A value outside what is allowed."""


class TileIndexError(TileError, IndexError, RuntimeError):
    """A wrong number of indices, or a constant index out of range."""


class TileNameError(TileError, NameError, RuntimeError):
    """A name that is undefined, or is used outside the region that defines it."""


class TileUnsupportedError(TileError, NotImplementedError):
    """Part of the language that this target, option or version does not have."""


class SharedMemoryLimitError(TileUnsupportedError):
    """A block needs more shared memory than the target has."""


class CompilationStopped(TileError):  # noqa: N818  # asked for, no mistake
    """A compilation that was told to stop after a pass.

    Attributes:
        program: the function as it is there.
    """

    program: object = None


class JITNoBuilderError(TileError, RuntimeError, ValueError):
    """A function of kernels is called while no kernel is being traced."""


class KernelArgumentError(TileError, RuntimeError, ValueError, AssertionError):
    """An argument of a kernel call differs in ndim, dtype, shape, stride or device."""


class ArgumentCountError(KernelArgumentError):
    """A kernel is called with the wrong number of arguments."""


class ArgumentTypeError(KernelArgumentError, TypeError):
    """An argument's dtype differs from the one declared in an annotation."""


class CompileError(TileError, RuntimeError):
    """A compiler outside tilelang is missing or refused the source; ``log`` is its output."""

    log: str = ""


class TileRuntimeError(TileError, RuntimeError):
    """A running kernel did something wrong."""


class OutOfBoundsError(TileRuntimeError, IndexError):
    """An access outside a buffer of a scope that has no bounds rule."""


class UninitializedReadError(TileRuntimeError):
    """A read of shared, fragment or local memory that nothing has written."""


class DeadlockError(TileRuntimeError):
    """Threads or blocks wait for something that can no longer happen."""


class DeviceAssertError(TileRuntimeError, AssertionError):
    """A ``T.device_assert``, or in a checked run a ``T.assume``, of a kernel does not hold."""


class SanitizerError(TileRuntimeError):
    """A kernel that ran checked did something wrong; ``report`` holds what was found."""

    report: Any = None


class InternalError(TileError, RuntimeError):
    """A bug of tilelang; the original exception is the ``__cause__``."""


class TileWarning(UserWarning):
    """Category of warnings about a program that runs but probably not as intended."""


def assert_never(node: NoReturn) -> NoReturn:
    """End of a ``match`` over nodes: the type checker proves that it is not reached.

    That of ``typing`` is there since Python 3.11 only.
    """
    raise InternalError(f"no case for the node {type(node).__name__}")


class at:  # lower case: reads as a keyword, `with at(loc):`
    """Context manager: a ``TileError`` raised inside without a location takes ``loc``."""

    __slots__ = ("loc",)

    def __init__(self, loc: Loc | None) -> None:
        self.loc = loc

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, TileError) and error.loc is None:
            error.loc = self.loc


@contextmanager
def internal_boundary(activity: str, loc: Loc | None = None) -> Iterator[None]:
    """Turn an unexpected exception inside into ``InternalError`` that names what was being done.

    Only for code of tilelang itself: user code that runs inside (the traced body) must keep its
    own exceptions and belongs outside the boundary.

    Args:
        activity: the work in progress, e.g. ``"pass `simplify` on kernel `main`"``.
        loc: the user's source being worked on, used when the error has no better one.
    """
    try:
        with at(loc):
            yield
    # Running out of memory is not a bug of ours, nor a warning that the user wants to be an error.
    except (TileError, MemoryError, Warning):
        raise
    except Exception as error:  # the one broad except: every bug becomes a readable report
        detail = f"{type(error).__name__}: {error}".rstrip(": ")
        raise InternalError(
            f"internal error in {activity}: {detail}",
            loc=loc,
            hint="this is a bug of tilelang; please report it with the kernel and the traceback",
        ) from error
