"""Macros: ``@T.macro`` functions, expanded inline at each call.

Expressions are evaluated once at the call and passed by value, buffers by reference; a parameter
annotated ``T.Ref`` takes a place (an ``alloc_var``, a buffer element, a region) and assigning to
it inside the macro stores there. Everything else (strings, dtypes, functions, other macros) is an
ordinary Python argument. Macros may return values, call themselves under a condition known while
tracing, and be methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from tilelang import errors
from tilelang.frontend.annot import Buffer as BufferType, BufferAnnot
from tilelang.frontend.ast import analyse, rewrite
from tilelang.frontend.described import is_same_memory
from tilelang.frontend.ir_builder import Builder, builder, is_pure, locate, warn
from tilelang.frontend.pickling import reduce_function
from tilelang.frontend.scope import Scope
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Load, Var as Variable, as_expr
from tilelang.tracebacks import border

__all__ = ["Macro", "Ref", "Var", "inline", "macro", "meta_class"]

_MAX_DEPTH = 150  # nested expansions; Python's own stack allows little more


class Ref:
    """Annotation ``T.Ref``: the macro's parameter is the place itself, not its value."""


class _Variables(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Variable)

    def __call__(cls, name: str, dtype: object = "int32") -> Any:
        return new_variable("T.Var", name, dtype)


def new_variable(op_name: str, name: Any, dtype: object) -> Variable:
    """A variable that the program names itself."""
    errors.check_type(name, str, f"the name of {op_name} is not a string", "a str")
    return Variable(name, DType(dtype))


class Var(Ref, metaclass=_Variables):
    """The type of run-time sizes and other variables of a program: ``isinstance(m, T.Var)``.

    As the annotation of a macro's parameter it is the older spelling of ``T.Ref``.
    """


class Macro:
    """A function whose body is traced into the kernel at every call."""

    def __init__(self, fn: Any, *, attributes: bool = False) -> None:
        from tilelang.frontend.template import capture, plain_function

        fn = plain_function(fn, "T.macro")
        self.orig_func = fn
        self.__name__, self.__qualname__ = fn.__name__, fn.__qualname__
        self.__module__, self.__doc__ = fn.__module__, fn.__doc__
        self.__annotations__ = fn.__annotations__
        self.__wrapped__ = fn
        self._info = analyse(fn)
        self._captured = capture(fn, self._info)
        self._refs = frozenset(
            name for name, raw in fn.__annotations__.items() if self._is_ref(raw)
        )
        self._run = rewrite(
            fn, self._info, self._enter, captured=self._captured, attributes=attributes, macro=True
        )
        self._signature: Any = None
        self._said: dict[str, BufferAnnot] | None = None

    @staticmethod
    def _is_ref(raw: object) -> bool:
        if isinstance(raw, str):
            return raw.strip("'\" ").rpartition(".")[2] in ("Ref", "Var")
        return raw in (Ref, Var)

    def _enter(self, values: Mapping[str, object]) -> Scope:
        return Scope(builder(self.__name__), self.__name__, values, self._refs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    @border
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        active = builder(f"macro {self.__name__}")
        if active.pure_in:
            raise errors.TileRuntimeError(
                f"the macro `{self.__name__}` is called inside {active.pure_in}",
                expected="a call in a separate statement",
                hint=f"write `x = {self.__name__}(...)` before, or use `if` statements",
            )
        if active.macro_depth >= _MAX_DEPTH:
            raise errors.TileSyntaxError(
                f"the macro `{self.__name__}` calls itself without end",
                expected=f"at most {_MAX_DEPTH} nested expansions",
                hint="end the recursion by a condition known at trace time",
            )
        bound = self._bind(active, args, kwargs)
        active.macro_depth += 1
        result = self._run(*bound.args, **bound.kwargs)
        active.macro_depth -= 1
        return _result(active, result)

    def _bind(self, active: Builder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._signature is None:
            import inspect

            self._signature = inspect.signature(self.orig_func)
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.TileTypeError(
                f"wrong arguments for the macro `{self.__name__}`: {error}",
                expected=f"{self.__name__}({', '.join(self._info.params)})",
            ) from None
        for name, value in bound.arguments.items():
            kind = self._signature.parameters[name].kind
            if kind is kind.VAR_POSITIONAL:
                argument: Any = tuple(_by_value(active, name, element) for element in value)
            elif kind is kind.VAR_KEYWORD:
                argument = {key: _by_value(active, key, element) for key, element in value.items()}
            elif name in self._refs:
                argument = self._by_reference(active, name, value)
            else:
                argument = _by_value(active, name, value)
            bound.arguments[name] = argument
            annot = self._annotations().get(name)
            if annot is not None and isinstance(argument, Buffer) and not argument.is_var:
                self._compare(annot, name, argument)
        return bound

    def _compare(self, annot: BufferAnnot, name: str, argument: Buffer) -> None:
        """Remark on an argument that is something else than the annotation says."""
        if mismatch := _other_than_said(annot, argument):
            warn(
                f"the argument `{name}` of the macro `{self.__name__}` is `{argument.name}` "
                f"{mismatch[1]}, its annotation says {mismatch[0]}: the annotation is ignored",
                locate(),
            )

    def _annotations(self) -> Mapping[str, BufferAnnot]:
        """The annotations of buffers among the parameters; text that cannot be evaluated is a
        note for readers."""
        if self._said is None:
            from tilelang.frontend.template import evaluate_annotation

            self._said = {}
            for name in self.orig_func.__annotations__:
                value = evaluate_annotation(self.orig_func, self._info, self._captured, name)
                annot = value.described if isinstance(value, BufferType) else value
                if isinstance(annot, BufferAnnot):
                    self._said[name] = annot
        return self._said

    def _by_reference(self, active: Builder, name: str, value: Any) -> Any:
        if isinstance(value, Buffer) and value.is_var:
            return value
        if isinstance(value, Load):
            indices = tuple(
                index if is_pure(index) else as_expr(active.let("_tmp", index))
                for index in value.indices
            )
            return Load(value.buffer, indices)
        if isinstance(value, Region):
            return value
        raise errors.TileValueError(
            f"the argument `{name}` of the macro `{self.__name__}` is a T.Ref",
            expected="a T.alloc_var, a buffer element such as A[i], or a slice",
            got=f"`{value!r}`"[:80],
            hint="a value cannot be stored to; remove T.Ref, or pass a variable",
        )

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        return reduce_function(self, self.orig_func, type(self))

    def __deepcopy__(self, memo: object) -> Macro:
        """Itself, as of Python's functions."""
        return self

    def __repr__(self) -> str:
        return f"<macro {self.__name__}>"


def _other_than_said(annot: BufferAnnot, buffer: Buffer) -> tuple[str, str] | None:
    """The difference between the annotation of a macro's parameter and the buffer that is passed.
    Annotations of macros are documentation: the properties of the buffer count."""
    said_scope = annot.said_scope
    if said_scope is not None and not is_same_memory(said_scope, buffer.storage):
        return f"{said_scope} memory", f"in {buffer.storage} memory"
    if annot.dtype is not None and annot.dtype != buffer.dtype:
        return str(annot.dtype), f"of {buffer.dtype}"
    if annot.shape is None:
        return None
    if len(annot.shape) != buffer.ndim:
        return f"{len(annot.shape)} dimensions", f"of {buffer.ndim} dimensions"
    for dim, (declared, extent) in enumerate(zip(annot.shape, buffer.shape)):
        if _is_different(declared.value, extent):
            return f"shape[{dim}] = {declared.value}", f"with shape[{dim}] = {extent}"
    return None


def _is_different(declared: Any, extent: int | Expr) -> bool:
    """Whether two extents certainly are not the same."""
    if declared is None or isinstance(declared, Expr) or isinstance(extent, Expr):
        return False
    return not is_same_extent(declared, extent)


def _by_value(active: Builder, name: str, value: Any) -> Any:
    """An argument passed by value: expressions are evaluated here, once."""
    if isinstance(value, Buffer):
        return active.snapshot(value, name) if value.is_var else value
    return active.bind(name, value) if isinstance(value, Expr) else value


def _result(active: Builder, value: Any) -> Any:
    """The result of the call: loads are taken now, before the caller stores anything."""
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_result(active, element) for element in value)
    return active.snapshot(value) if isinstance(value, Expr) else value


@border
def macro(fn: Callable[..., Any] | None = None, *, hygienic: bool = True) -> Any:
    """Make ``fn`` a macro; also ``@T.macro()``.

    Raises:
        TileSyntaxError: the body uses Python that kernels do not have.
        TileUnsupportedError: ``hygienic=False``: names would be resolved at the call.
    """
    if not hygienic:
        raise errors.TileUnsupportedError(
            "a macro that reads the names of its callers",
            expected="hygienic=True",
            hint="pass what the macro reads as arguments",
        )
    return Macro if fn is None else Macro(fn)


def meta_class(cls: type) -> type:
    """Decorate a class whose methods are expanded in place and may assign ``self.x``.

    An attribute that holds a ``T.alloc_var`` is stored to by assignment.

    Raises:
        TileTypeError: what is decorated is not a class.
    """
    errors.check_type(cls, type, "T.meta_class decorates a class", "a class")
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and (not name.startswith("__") or name == "__init__"):
            setattr(cls, name, _Method(member))
    return cls


class _Method(Macro):
    """A method of a meta class; outside of a trace it is the plain function."""

    def __init__(self, fn: FunctionType) -> None:
        super().__init__(fn, attributes=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tilelang.ir.emitter import current

        if current() is None:
            return self.orig_func(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def inline(value: Any) -> Any:
    """Make a macro of a function, or a meta class of a class.

    Raises:
        TileTypeError: ``value`` is neither a function nor a class.
    """
    return meta_class(value) if isinstance(value, type) else macro(value)
