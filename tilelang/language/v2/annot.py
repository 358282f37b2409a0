"""Annotations of kernel parameters, and the specialisation key they give a call.

Each annotation says three things about an argument: whether it is passed to the kernel at launch,
which hashable key it contributes to the cache of compiled kernels, and which ``Buffer`` or ``Var``
stands for it in the traced function. ``A: T.Tensor[[int, T.dyn["K"]], T.float16]`` makes::

    TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16'))

where ``$`` marks a compile-time value still unknown and ``$dyn`` a value known at run time only.
Arguments are read by attribute (``shape``, ``dtype``, strides), so torch tensors, numpy arrays,
other arrays and placeholders ``T.Tensor((m, n), dtype)`` all work and torch is never imported.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast

from tilelang.errors import (
    ArgumentCountError,
    ArgumentTypeError,
    KernelArgumentError,
    TileTypeError,
    TileValueError,
)
from tilelang.ir import buffer as ir
from tilelang.ir.active import current
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.dtypes import is_compatible_storage
from tilelang.ir.expr import Const, Expr, Var
from tilelang.language.v2.builder import placed
from tilelang.language.v2.keys import freeze

if TYPE_CHECKING:
    import inspect

__all__ = [
    "Annot",
    "ArgVarTable",
    "Buffer",
    "BufferAnnot",
    "DTypeAnnot",
    "DynAnnot",
    "FragmentBufferAnnot",
    "FuncAnnot",
    "LocalBufferAnnot",
    "PtrAnnot",
    "Scope",
    "SharedBufferAnnot",
    "StridedTensorAnnot",
    "TIRAnnot",
    "TensorAnnot",
    "Value",
    "annotation_of",
    "freeze",
]

Scope = Literal["global", "shared", "shared.dyn", "local", "local.fragment", "local.var"]
Key = tuple[Any, ...]
KeyParser = Callable[[Any], Key]

_Shape = TypeVar("_Shape")
_DType = TypeVar("_DType")


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
        raise NotImplementedError

    @abstractmethod
    def get_key_parser(self) -> KeyParser:
        """A function from the argument to its part of the cache key."""
        raise NotImplementedError

    @abstractmethod
    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> Any:
        """What stands for the argument ``value`` in the traced function."""
        raise NotImplementedError

    def promote(self) -> TIRAnnot | None:
        """The annotation as a fixed parameter if nothing of it depends on the argument."""
        return None


class ArgVarTable:
    """Run-time variables of one signature by name: equal names are the same variable."""

    def __init__(self) -> None:
        self.var_tab: dict[str, Var] = {}
        self.tmp_name_idx = 0

    def get_or_create_var(self, name: str, dtype: object) -> Var:
        """The variable ``name``, made with ``dtype`` the first time."""
        if name not in self.var_tab:
            self.var_tab[name] = Var(name, DType(dtype))
        return self.var_tab[name]

    def create_tmp_name(self) -> str:
        """A name no other argument has."""
        self.tmp_name_idx += 1
        return f"varg_{self.tmp_name_idx - 1}"


def _add_param(param: ir.Buffer | Var) -> None:
    """Declare a parameter of the function being traced, if one is."""
    add = getattr(current(), "add_param", None)
    if add is not None:
        add(param)


def _same_value(value: Any) -> Key:
    return (value,)


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
        if index is not None and not isinstance(value, (bool, Expr)):
            return Value("static", prefer_name, DType("int32"), index())
        raise TileTypeError(
            "this is not a dimension",
            expected='an int, `int`, `Any`, T.dyn, T.dyn["name"], T.dynamic("name") or an '
            "expression of symbols",
            got=f"{value!r}"[:80],
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
        return lambda value: (freeze(value),)

    def parse_key(self, target: Any) -> Key:
        """The key of the argument ``target``."""
        if self.kind == "dynamic":
            return ()
        if self.value is None:
            return (freeze(target),)
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
        made = self.value
        if made is None and self.creator is not None:
            made = self.creator()
        if made is None:
            made = vt.get_or_create_var(self.name or name, self.dtype or DType("int32"))
        if create_arg and isinstance(made, Var):
            _add_param(made)
        return made

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
        items = params if isinstance(params, tuple) else (params,)
        name: str | None = None
        kind = DType("int32")
        for item in items:
            if isinstance(item, str) and not isinstance(item, DType):
                name = item
            else:
                kind = DType(item)
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


def _extents(value: object) -> tuple[Any, ...]:
    """A shape as written: one extent or a sequence of them."""
    if isinstance(value, (list, tuple)):
        return tuple(cast("Sequence[Any]", value))
    return (value,)


def _element_type(value: Any) -> DType | None:
    """The declared element type; None when it is taken from the argument."""
    if value is None or value is Any or isinstance(value, TypeVar):
        return None
    return DType("int64") if isinstance(value, PtrAnnot) else DType(value)


class BufferAnnot(Annot):
    """An array with a shape, optional strides and an element type (None: the argument's)."""

    strided: ClassVar[bool] = False

    def __init__(
        self,
        shape: Sequence[Any] | None = None,
        strides: Sequence[Any] | None = None,
        dtype: object = None,
    ) -> None:
        self.shape = None if shape is None else [Value.from_value(item) for item in shape]
        self.strides = None if strides is None else [Value.from_value(item) for item in strides]
        self.dtype = _element_type(dtype)
        self.name: str | None = None

    def is_kernel_arg(self) -> bool:
        """Arrays are passed at launch."""
        return True

    @property
    def scope(self) -> str:
        """Memory scope of the buffer."""
        return "global"

    def __call__(
        self,
        shape: object,
        dtype: object = "float32",
        data: object = None,
        strides: Sequence[Any] | None = None,
        elem_offset: object = None,
        scope: str | None = None,
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: object = None,
    ) -> Any:
        """``T.Tensor(shape, dtype)``; with ``data=A.data`` inside a kernel the memory of ``A`` in
        another shape. The remaining options are accepted and have no effect."""
        if data is not None:
            from tilelang.language.entry import make_tensor

            return make_tensor(data, shape, dtype, strides)
        with placed():
            return type(self)(_extents(shape), strides, dtype)

    def __getitem__(self, params: Any) -> Any:
        """``T.Tensor[shape, dtype]``."""
        shape, dtype = params if isinstance(params, tuple) and len(params) == 2 else (params, None)
        if isinstance(params, tuple) and not isinstance(shape, (list, tuple)):
            shape, dtype = ([shape], dtype) if len(params) == 2 else (list(params), None)
        with placed():
            return type(self)(_extents(shape), None, dtype)

    def with_name(self, name: str) -> BufferAnnot:
        """This annotation for the parameter ``name``; unknown extents are named after it."""
        made = type(self)(None, None, self.dtype)
        made.name = name
        for field, what in (("shape", "shape"), ("strides", "stride")):
            values = getattr(self, field)
            if values is not None:
                named = [v.with_name(f"{name}_{what}_{i}") for i, v in enumerate(values)]
                setattr(made, field, named)
        return made

    def get_key_parser(self) -> KeyParser:
        """Fast reader of the compile-time extents, strides and dtype of an array."""
        shape, dtype = self.shape, self.dtype
        rank = None if shape is None else len(shape)
        dims = tuple(range(rank or 0)) if shape is None else _unknown(shape)
        steps = () if self.strides is None else _unknown(self.strides)
        known: dict[Any, DType] = {}
        packing = 1 if dtype is None else dtype.packing

        def parse(target: Any) -> Key:
            if target is None:
                return (None,)
            if isinstance(target, (BufferAnnot, PtrAnnot)):
                return self._placeholder_key(target)
            try:
                extents, raw = target.shape, target.dtype
                kind = known.get(raw)
            except AttributeError:
                raise self._not_an_array(target) from None
            if kind is None:
                kind = known[raw] = self._check_dtype(raw)
            if rank is not None and len(extents) != rank:
                raise self._rank_error(len(extents))
            key: Key = tuple([extents[d] for d in dims])
            if packing > 1 and rank and dims and dims[-1] == rank - 1:
                key = (*key[:-1], key[-1] * packing)
            if steps:
                strides = _strides_of(target)
                key += tuple([strides[d] for d in steps])
            return key if dtype is not None else (*key, kind)

        return parse

    def parse_key(self, target: Any) -> Key:
        """The key of the argument ``target``."""
        return self.get_key_parser()(target)

    def _placeholder_key(self, target: Any) -> Key:
        if isinstance(target, PtrAnnot) or target.shape is None:
            raise self._not_an_array(target)
        shape = target.shape
        if self.shape is not None and len(shape) != len(self.shape):
            raise self._rank_error(len(shape))
        dims = range(len(shape)) if self.shape is None else _unknown(self.shape)
        key = tuple(_placeholder_extent(shape[d]) for d in dims)
        if self.strides is not None:
            strides = _strides_of(target)
            key += tuple(strides[d] for d in _unknown(self.strides))
        return key if self.dtype is not None else (*key, target.dtype or DType("float32"))

    def _check_dtype(self, raw: Any) -> DType:
        kind = DType(raw)
        if self.dtype is not None and not is_compatible_storage(self.dtype, kind, raw=True):
            raise ArgumentTypeError(
                f"Tensor dtype mismatch for argument `{self.name}`, "
                f"expected {self.dtype}, got {kind}"
            )
        return kind

    def _rank_error(self, got: int) -> KernelArgumentError:
        return KernelArgumentError(
            f"Tensor rank mismatch for argument `{self.name}`",
            expected=f"{len(self.shape or ())} dimensions",
            got=f"{got}",
        )

    def _not_an_array(self, target: Any) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"argument `{self.name}` is not a tensor",
            expected="a torch tensor, a numpy array or another array with shape and dtype",
            got=f"{target!r}"[:80] + f" of type {type(target).__name__}",
        )

    @staticmethod
    def match_shape(
        shape: Sequence[Value], target_shape: Sequence[Any] | None, vt: ArgVarTable
    ) -> tuple[Any, ...]:
        """Extents of the traced buffer: ints of the argument where static, else variables."""
        made: list[Any] = []
        for number, item in enumerate(shape):
            actual = None if target_shape is None else target_shape[number]
            if item.kind == "static" and item.value is None and actual is None:
                raise TileValueError(
                    f"the compile-time dimension `{item.name}` is unknown",
                    hint="pass a tensor or a placeholder T.Tensor((m, n), dtype)",
                )
            made.append(
                item.create_prim_func_arg(item.name or vt.create_tmp_name(), actual, vt, False)
            )
        return tuple(made)

    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> ir.Buffer:
        """The parameter for the array (or placeholder) ``value``."""
        shape = self.shape
        actual, strides, kind = _facts(value)
        if shape is None:
            shape = [Value("static", None, DType("int32"), extent) for extent in actual or ()]
        packing = 1 if self.dtype is None or isinstance(value, BufferAnnot) else self.dtype.packing
        if actual and packing > 1:
            actual = (*actual[:-1], actual[-1] * packing)
        dtype = self.dtype if self.dtype is not None else kind
        if dtype is None:
            raise TileValueError(
                f"the dtype of argument `{name}` is unknown",
                hint="pass a tensor or a placeholder T.Tensor((m, n), dtype)",
            )
        made = self.match_shape(shape, actual, vt)
        steps = None
        if self.strides is not None:
            steps = self.match_shape(self.strides, strides, vt)
        found = ir.Buffer(name, ir.Shape(made), dtype, self.scope, steps)
        _add_param(found)
        return found

    def promote(self) -> TIRAnnot | None:
        """The fixed parameter if shape, strides and dtype are known without the argument."""
        values = [*(self.shape or ()), *(self.strides or ())]
        if self.shape is None or self.dtype is None:
            return None
        if any(v.value is None and v.creator is None for v in values):
            return None
        vt = ArgVarTable()
        steps = None if self.strides is None else self.match_shape(self.strides, None, vt)
        shape = self.match_shape(self.shape, None, vt)
        name = self.name or "buf"
        return TIRAnnot(ir.Buffer(name, ir.Shape(shape), self.dtype, self.scope, steps))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(shape={self.shape}, strides={self.strides}, "
            f"dtype={self.dtype!r})"
        )


class TensorAnnot(BufferAnnot):
    """``T.Tensor``: contiguous row-major; the strides follow from the shape."""

    def promote(self) -> TIRAnnot | None:
        """The fixed parameter if shape and dtype are known without the argument."""
        return super().promote()


class StridedTensorAnnot(BufferAnnot):
    """``T.StridedTensor``: shape and strides (in elements) are both declared."""

    strided = True

    def __call__(  # type: ignore[override]  # strides are the second argument in the language
        self,
        shape: object,
        strides: object,
        dtype: object = "float32",
        data: object = None,
        elem_offset: object = None,
        scope: str | None = None,
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: object = None,
    ) -> StridedTensorAnnot:
        """``T.StridedTensor(shape, strides, dtype)``."""
        with placed():
            return self._make(shape, strides, dtype)

    def __getitem__(self, params: Any) -> StridedTensorAnnot:
        """``T.StridedTensor[shape, strides, dtype]``."""
        with placed():
            if not isinstance(params, tuple) or len(params) not in (2, 3):
                raise TileTypeError(
                    "T.StridedTensor[...] needs a shape, strides and a dtype",
                    expected="T.StridedTensor[[shape], [strides], dtype]",
                    got=f"{params!r}"[:80],
                )
            return self._make(*params)

    def _make(self, shape: object, strides: object, dtype: object = None) -> StridedTensorAnnot:
        extents, steps = _extents(shape), _extents(strides)
        if len(extents) != len(steps):
            raise TileValueError(
                "a strided tensor has a different number of extents and strides",
                expected=f"{len(extents)} strides",
                got=f"{len(steps)}",
            )
        return type(self)(extents, steps, dtype)


class FragmentBufferAnnot(BufferAnnot):
    """``T.FragmentBuffer``: documents a macro parameter in registers."""

    @property
    def scope(self) -> str:
        """``local.fragment``"""
        return "local.fragment"


class SharedBufferAnnot(BufferAnnot):
    """``T.SharedBuffer``: documents a macro parameter in shared memory."""

    @property
    def scope(self) -> str:
        """``shared.dyn``"""
        return "shared.dyn"


class LocalBufferAnnot(BufferAnnot):
    """``T.LocalBuffer``: documents a macro parameter that is private to a thread."""

    @property
    def scope(self) -> str:
        """``local``"""
        return "local"


@dataclass(frozen=True, repr=False, eq=False)
class DTypeAnnot(Annot):
    """``dt: T.dtype``: a compile-time dtype; every accepted form is converted.

    >>> DTypeAnnot("A").get_key_parser()("float")
    (dtype('float32'),)
    """

    name: str | None = None

    def is_kernel_arg(self) -> bool:
        """A dtype is a compile-time value."""
        return False

    def with_name(self, name: str) -> DTypeAnnot:
        """This annotation for the parameter ``name``."""
        return DTypeAnnot(name)

    def get_key_parser(self) -> KeyParser:
        """The dtype is the key."""
        return lambda value: (DType(value),)

    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> DType:
        """The converted dtype."""
        return DType(value)

    def __repr__(self) -> str:
        return f"{self.name or ''}$dtype"


@dataclass(frozen=True, repr=False, eq=False)
class TIRAnnot(Annot):
    """A finished ``Buffer`` or ``Var`` used as an annotation."""

    data: Any = None

    def is_kernel_arg(self) -> bool:
        """It is passed at launch."""
        return True

    def with_name(self, name: str) -> TIRAnnot:
        """The same parameter under ``name``."""
        if isinstance(self.data, ir.Buffer):
            return TIRAnnot(replace(self.data, name=name, data=Var(name, DType("handle"))))
        return self

    def get_key_parser(self) -> KeyParser:
        """Nothing of it depends on the argument."""
        return lambda _: ()

    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> Any:
        """The parameter itself."""
        _add_param(self.data)
        return self.data

    def promote(self) -> TIRAnnot:
        """Already fixed."""
        return self

    def __repr__(self) -> str:
        return f"TIRAnnot({self.data!r})"


class Buffer(Generic[_Shape, _DType]):
    """Typing view of a buffer: ``Buffer((m, n), dtype)`` describes one without memory."""

    def __init__(
        self,
        shape: object,
        dtype: object = "float32",
        data: object = None,
        strides: Sequence[Any] | None = None,
        elem_offset: object = None,
        scope: str | None = None,
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: object = None,
    ) -> None:
        self._shape = _extents(shape)
        self._dtype = _element_type(dtype) or DType("float32")
        self._strides = None if strides is None else tuple(strides)
        self._scope = scope or "global"

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self._dtype

    @property
    def strides(self) -> tuple[Any, ...]:
        """Strides in elements; row-major when none were given."""
        if self._strides is not None:
            return self._strides
        return ir.Buffer("buf", ir.Shape(self._shape), self._dtype).stride_list()

    def scope(self) -> str:
        """Memory scope."""
        return self._scope


def _unknown(values: Sequence[Value]) -> tuple[int, ...]:
    """Positions whose value only the argument knows."""
    return tuple(i for i, v in enumerate(values) if v.kind == "static" and v.value is None)


def _placeholder_extent(value: Value) -> Any:
    if value.kind == "static" and value.value is not None:
        return value.value
    raise TileValueError(
        f"the placeholder dimension {value!r} is not a number",
        expected="a placeholder with constant extents, e.g. T.Tensor((1024, 512), dtype)",
    )


def _strides_of(target: Any) -> tuple[Any, ...]:
    """Strides in elements of a tensor, array or placeholder."""
    if isinstance(target, BufferAnnot):
        if target.strides is not None:
            return tuple(_placeholder_extent(item) for item in target.strides)
        extents = [_placeholder_extent(item) for item in target.shape or ()]
        steps, step = [], 1
        for extent in reversed(extents):
            steps.append(step)
            step *= extent
        return tuple(reversed(steps))
    if callable(getattr(target, "stride", None)):
        return tuple(target.stride())
    strides = getattr(target, "strides", None)
    if strides is None:
        return _strides_of(TensorAnnot(target.shape, None, "float32"))
    return tuple(step // target.itemsize for step in strides)


def _facts(value: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None, DType | None]:
    """Shape, strides (only when asked later) and dtype of an argument; None for no argument."""
    if value is None or isinstance(value, PtrAnnot):
        return None, None, None
    if isinstance(value, BufferAnnot):
        shape = tuple(_placeholder_extent(item) for item in value.shape or ())
        return shape, _strides_of(value), value.dtype
    return tuple(value.shape), _strides_of(value), DType(value.dtype)


def annotation_of(raw: Any, name: str, *, runtime_scalars: bool = False) -> Annot:
    """The annotation written as ``raw`` for the parameter ``name``.

    ``runtime_scalars``: whether Python's ``int``, ``float`` and ``bool`` mean scalar arguments
    (prim_func) or compile-time constants (jit kernels).
    """
    if isinstance(raw, (BufferAnnot, Value, DTypeAnnot, TIRAnnot)):
        return raw.with_name(name)
    if raw is DType:
        return DTypeAnnot(name)
    if isinstance(raw, (ir.Buffer, Var)):
        return TIRAnnot(raw).with_name(name)
    if isinstance(raw, Buffer):
        return TensorAnnot(raw.shape, None, raw.dtype).with_name(name)
    if isinstance(raw, DType):
        return PtrAnnot(name=name) if raw == "handle" else Value("dynamic", name, raw)
    if runtime_scalars and isinstance(raw, type) and raw in (int, float, bool):
        return Value("dynamic", name, DType(raw))
    if type(raw).__module__ == "torch" and type(raw).__name__ == "dtype":
        return Value("dynamic", name, DType(raw))
    return Value("static", name)


class FuncAnnot:
    """The annotations of a function: reads calls into keys and launch arguments."""

    def __init__(self, sig: inspect.Signature, annots: dict[str, Annot]) -> None:
        self.sig = sig
        self.arg_names = list(sig.parameters)
        self.annots = annots
        self.arg_parser = {name: annot.get_key_parser() for name, annot in annots.items()}
        self.ker_arg_names = [name for name in self.arg_names if annots[name].is_kernel_arg()]
        self._count = len(self.arg_names)
        self._index = {name: i for i, name in enumerate(self.arg_names)}
        self._parsers = [self.arg_parser[name] for name in self.arg_names]
        self._kernel_at = [self._index[name] for name in self.ker_arg_names]
        self._defaults = [sig.parameters[name].default for name in self.arg_names]
        empty = sys.modules["inspect"].Parameter.empty
        self._required = 1 + max(
            (i for i, value in enumerate(self._defaults) if value is empty), default=-1
        )

    @classmethod
    def from_sig_annots(cls, sig: inspect.Signature, func_annots: Mapping[str, Any]) -> FuncAnnot:
        """From a signature and its evaluated annotations; what has none is compile-time."""
        made = {name: annotation_of(func_annots.get(name), name) for name in sig.parameters}
        return cls(sig, made)

    def bind(self, args: Sequence[Any], kws: Mapping[str, Any]) -> Sequence[Any]:
        """All arguments in the order of the parameters, defaults filled in."""
        if not kws and self._required <= len(args) <= self._count:
            return args if len(args) == self._count else [*args, *self._defaults[len(args) :]]
        values = self.bind_partial(args, kws)
        for name, value in zip(self.arg_names, values, strict=True):
            if value is _EMPTY:
                raise ArgumentCountError(
                    f"missing argument `{name}`", expected=f"({', '.join(self.arg_names)})"
                )
        return values

    def bind_partial(self, args: Sequence[Any], kws: Mapping[str, Any]) -> list[Any]:
        """Like :meth:`bind`, with ``FuncAnnot.EMPTY`` where an argument is missing."""
        if len(args) > self._count:
            raise ArgumentCountError(
                "too many arguments",
                expected=f"{self._count} ({', '.join(self.arg_names)})",
                got=f"{len(args)}",
            )
        values: list[Any] = list(args)
        empty = sys.modules["inspect"].Parameter.empty
        values += [_EMPTY if item is empty else item for item in self._defaults[len(args) :]]
        for name, value in kws.items():
            at = self._index.get(name)
            if at is None or at < len(args):
                raise ArgumentTypeError(
                    f"unexpected argument `{name}`"
                    if at is None
                    else f"argument `{name}` is given twice",
                    expected=f"({', '.join(self.arg_names)})",
                )
            values[at] = value
        return values

    def parse_key(self, *args: Any, **kws: Any) -> Key:
        """The cache key of a call."""
        key: list[Any] = []
        for parser, value in zip(self._parsers, self.bind(args, kws)):
            key += parser(value)
        return tuple(key)

    def convert_to_kernel_args(self, *args: Any, **kws: Any) -> list[Any]:
        """The arguments passed at launch, in order."""
        values = self.bind(args, kws)
        return [values[at] for at in self._kernel_at]

    def create_argument(self, name: str, value: Any, vt: ArgVarTable) -> Any:
        """What stands for the argument ``name`` in the traced function."""
        return self.annots[name].create_prim_func_arg(name, value, vt)

    def is_all_static(self) -> bool:
        """Whether every parameter is known without any argument."""
        return all(_is_known(annot) for annot in self.annots.values())

    def get_all_static_args(self) -> dict[str, Any]:
        """The parameters that are known without an argument: fixed parameters and constants."""
        found: dict[str, Any] = {}
        for name, annot in self.annots.items():
            fixed = annot.promote()
            if fixed is not None:
                found[name] = fixed.data
            elif isinstance(annot, Value) and annot.kind == "static" and annot.value is not None:
                found[name] = annot.value
        return found

    def get_compile_time_unknown_args(self) -> list[str]:
        """Names of the parameters of which something must be known to compile."""
        return [name for name, annot in self.annots.items() if not _is_known(annot)]


def _is_known(annot: Annot) -> bool:
    if isinstance(annot, Value):
        return annot.kind == "dynamic" or annot.value is not None
    if isinstance(annot, BufferAnnot):
        return (
            annot.dtype is not None
            and annot.shape is not None
            and not _unknown([*annot.shape, *(annot.strides or ())])
        )
    return isinstance(annot, TIRAnnot)


class _Empty:
    def __repr__(self) -> str:
        return "<missing>"


_EMPTY = _Empty()
FuncAnnot.EMPTY = _EMPTY  # type: ignore[attr-defined]  # the marker belongs to bind_partial
