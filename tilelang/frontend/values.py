"""The base of parameter annotations, and annotations of constants, sizes and pointers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, cast

from tilelang.errors import KernelArgumentError, TileTypeError, shown
from tilelang.ir import buffer as ir
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import current
from tilelang.ir.expr import Const, Expr, Var
from tilelang.records import dataclass

Key = tuple[Any, ...]
KeyParser = Callable[[Any], Key]


def freeze(value: Any, name: str | None = None) -> Any:
    """A hashable key of a compile-time argument; equal only for equal values and types. A dataclass
    without a hash counts by its fields, so that a changed object is another argument.

    Raises:
        TileTypeError: the value cannot be hashed.
    """
    if type(value) is int or value is None:
        return (int, value)
    if isinstance(value, (list, tuple)):
        return (type(value), *(freeze(element, name) for element in value))
    if isinstance(value, Mapping):
        return (
            dict,
            *((freeze(key, name), freeze(element, name)) for key, element in value.items()),
        )
    if isinstance(value, (set, frozenset)):
        return (set, frozenset(freeze(element, name) for element in value))
    if isinstance(value, DType):
        return (str, str(value))
    try:
        hash(value)
    except TypeError:
        own = [field.name for field in fields(value)] if is_dataclass(value) else None
        if own is not None and getattr(value, "__dict__", dict.fromkeys(own)).keys() == {*own}:
            return (type(value), *(freeze(getattr(value, key), f"{name}.{key}") for key in own))
        raise TileTypeError(
            f"a value of type {type(value).__name__} cannot be a compile-time argument"
            + (f": `{name}`" if name else ""),
            expected="a hashable value, or a list, tuple, dict or set of such values",
            got=shown(value),
            hint="a tensor needs an annotation: T.Tensor[[...], dtype]",
        ) from None
    return (type(value), value)


class Annot(ABC):
    """Base of annotations: how to interpret one argument of a jit kernel.

    It (1) tells whether the argument is passed at launch, (2) parses the argument into a key of
    the jit cache, (3) makes the ``Var`` or ``Buffer`` of the traced function.
    """

    def is_kernel_arg(self) -> bool:
        """Whether the argument is passed to the kernel at launch."""
        return False

    @abstractmethod
    def with_name(self, name: str) -> Annot:
        """This annotation for the parameter ``name``."""

    @abstractmethod
    def get_key_parser(self) -> KeyParser:
        """A function from the argument to its part of the cache key."""

    @abstractmethod
    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> Any:
        """The buffer, variable or constant of argument ``value`` in the traced function."""

    def promote(self) -> Annot | None:
        """The annotation as a fixed parameter if nothing of it depends on the argument."""
        return None


class ArgVarTable:
    """Run-time variables of one signature by name: equal names are the same variable."""

    tmp_name_idx: int = 0

    def __init__(self) -> None:
        self.var_tab: dict[str, Var] = {}

    def get_or_create_var(self, name: str, dtype: object) -> Var:
        """The variable ``name``, made with ``dtype`` the first time."""
        kind = DType(dtype)
        var = self.var_tab.setdefault(name, Var(name, kind))
        if var.dtype != kind:
            raise TileTypeError(
                f"the run-time value `{name}` has two dtypes",
                expected=f"{var.dtype}, as where it is named first",
                got=str(kind),
                hint="give one of them another name",
            )
        return var

    def create_tmp_name(self) -> str:
        """A name no other argument has."""
        self.tmp_name_idx += 1
        return f"varg_{self.tmp_name_idx - 1}"


def add_param(param: ir.Buffer | Var) -> None:
    """Declare a parameter of the function being traced, if one is."""
    add = getattr(current(), "add_param", None)
    if add is not None:
        add(param)


@dataclass(frozen=True, repr=False, eq=False)
class Value(Annot):
    """A scalar: a compile-time constant (``static``) or a run-time variable (``dynamic``).

    ``value`` is the known int, or the variable or expression of an existing symbol; ``creator``
    makes the value when it is needed instead.
    """

    kind: Literal["static", "dynamic"] = "dynamic"
    name: str | None = None
    dtype: DType | None = None
    value: Any = None
    creator: Callable[[], Any] | None = None

    def is_kernel_arg(self) -> bool:
        """Run-time values are passed at launch."""
        return self.kind == "dynamic"

    @classmethod
    def from_value(cls, value: Any, prefer_name: str | None = None) -> Value:
        """A shape or stride atom as written: ``int``, ``Any``, an int, ``T.dyn``, a symbol."""
        if isinstance(value, Value):
            return (
                value
                if value.name is not None or value.value is not None
                else Value(value.kind, prefer_name, value.dtype, value.value, value.creator)
            )
        if value is int or value is Any or value is None:
            return Value("static", prefer_name, DType("int32"))
        if isinstance(value, TypeVar):
            return Value("static", value.__name__, DType("int32"))
        if isinstance(value, Const):
            value = value.__index__()
        if isinstance(value, int) and not isinstance(value, bool):
            return Value("static", prefer_name, DType("int32"), value)
        if isinstance(value, DType):
            return Value("dynamic", prefer_name, value)
        if isinstance(value, Expr) and value.dtype.is_integer:
            name = value.name if isinstance(value, Var) else prefer_name
            return Value("dynamic", name, value.dtype, value)
        index = getattr(value, "__index__", None)
        number = not isinstance(value, (bool, Expr)) and not getattr(value, "ndim", 0)
        if index is not None and number:
            return Value("static", prefer_name, DType("int32"), index())
        raise TileTypeError(
            "this is not a dimension",
            expected='an int, `int`, `Any`, T.dyn, T.dyn["name"], T.dynamic("name") or an '
            "expression of symbols",
            got=shown(value),
            hint="use `//` for integer division" if isinstance(value, float) else None,
        )

    def with_name(self, name: str) -> Value:
        """This value under ``name`` unless it has a name of its own."""
        return self if self.name is not None else replace(self, name=name)

    def get_key_parser(self) -> KeyParser:
        """Unknown compile-time values are the key; the others add nothing."""
        if self.kind == "dynamic":
            return lambda _: ()
        if self.value is not None:
            return self.parse_key
        return lambda value: (freeze(value, self.name),)

    def parse_key(self, target: Any) -> Key:
        """The key of the argument ``target``."""
        if self.kind == "dynamic":
            return ()
        if self.value is None:
            return (freeze(target, self.name),)
        if target != self.value:
            raise KernelArgumentError(
                f"`{self.name}` has the wrong value", expected=self.value, got=repr(target)
            )
        return ()

    def create_prim_func_arg(
        self, name: str, value: Any, vt: ArgVarTable, create_arg: bool = True
    ) -> Any:
        """The constant, or the variable (declared as a parameter if ``create_arg``)."""
        if self.kind == "static":
            if self.value is not None:
                return self.value
            return self.creator() if self.creator is not None else value
        param = self.value
        if param is None and self.creator is not None:
            param = self.creator()
        if param is None:
            param = vt.get_or_create_var(self.name or name, self.dtype or DType("int32"))
        if create_arg and isinstance(param, Var):
            add_param(param)
        return param

    def __repr__(self) -> str:
        if self.kind == "static":
            return f"{self.name or ''}$" if self.value is None else repr(self.value)
        if isinstance(self.value, Expr) and not isinstance(self.value, Var):
            return f"({self.value!r})$dyn"
        return f"{self.name or ''}$dyn"


@dataclass(frozen=True, repr=False, eq=False)
class DynAnnot(Value):
    """``T.dyn``: a run-time dimension; ``T.dyn["K"]`` names and ``T.dyn[T.int64]`` types it."""

    def __call__(self, dtype: object = "float32", name: str | None = None) -> DynAnnot:
        return DynAnnot("dynamic", name, DType(dtype))

    def __getitem__(self, params: object) -> DynAnnot:
        names = params if isinstance(params, tuple) else (params,)
        name: str | None = None
        kind = DType("int32")
        for entry in names:
            if isinstance(entry, str) and not isinstance(entry, DType):
                if name is not None:
                    raise TileTypeError(
                        "T.dyn[...] is one dimension, with one name",
                        expected='T.dyn["name"] or T.dyn["name", dtype]',
                        got=", ".join(map(shown, names)),
                    )
                name = entry
            else:
                kind = DType(entry)
        return DynAnnot("dynamic", name, kind)


_HANDLE = DType("handle")


@dataclass(frozen=True, repr=False, eq=False)
class PtrAnnot(Value):
    """``T.ptr``: a raw pointer; pass a tensor or an address. Used as a dtype it is int64."""

    dtype: DType | None = _HANDLE

    def __call__(self, dtype: object = None, scope: str = "global") -> PtrAnnot:
        return self

    def with_name(self, name: str) -> PtrAnnot:
        """The pointer parameter ``name``."""
        return replace(self, name=name)

    def __repr__(self) -> str:
        return f"{self.name or ''}$ptr"


def extents_of(value: object) -> tuple[Any, ...]:
    """A shape as written: one extent or a sequence of them."""
    return tuple(cast("Sequence[Any]", value)) if isinstance(value, (list, tuple)) else (value,)


def element_type(value: Any) -> DType | None:
    """The declared element type; None when it is taken from the argument."""
    if value is None or value is Any or isinstance(value, TypeVar):
        return None
    return DType("int64") if isinstance(value, PtrAnnot) else DType(value)


def is_element_type(value: object) -> bool:
    """Whether ``value`` is written as an element type."""
    if isinstance(value, (DType, str, PtrAnnot)) or value in (int, float, bool):
        return True
    return type(value).__name__ == "dtype"
