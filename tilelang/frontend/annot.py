"""Annotations of kernel parameters and the specialization key of a call.

Each annotation says three things about an argument: whether it is passed to the kernel at launch,
which hashable key it contributes to the cache of compiled kernels, and which ``Buffer`` or ``Var``
represents it in the traced function. ``A: T.Tensor[[int, T.dyn["K"]], T.float16]`` makes::

    TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16'))

where ``$`` marks a compile-time value still unknown and ``$dyn`` a value known at run time only.
Arguments are read by attribute (``shape``, ``dtype``, strides), so torch tensors, numpy arrays,
other arrays and placeholders ``T.Tensor((m, n), dtype)`` all work and torch is never imported.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

from tilelang import errors
from tilelang.frontend.described import check_extents, checked_offset, is_same_memory, make_tensor
from tilelang.frontend.ir_builder import placed
from tilelang.frontend.values import (
    Annot,
    ArgVarTable,
    DynAnnot,
    Key,
    KeyParser,
    PtrAnnot,
    Value,
    add_param,
    element_type,
    extents_of,
    freeze,
    is_element_type,
)
from tilelang.ir import buffer as ir
from tilelang.ir.buffer import row_major_strides
from tilelang.ir.dtypes import dtype as DType, is_compatible_storage
from tilelang.ir.expr import Expr, Var
from tilelang.records import dataclass
from tilelang.tracebacks import border

if TYPE_CHECKING:
    import inspect

__all__ = [
    "Annot", "ArgVarTable", "Buffer", "BufferAnnot", "DTypeAnnot", "DynAnnot",
    "FragmentBufferAnnot", "FuncAnnot", "LocalBufferAnnot", "PtrAnnot", "Scope",
    "SharedBufferAnnot", "StridedTensorAnnot", "TIRAnnot", "TensorAnnot", "Value", "annotation_of",
    "freeze",
]  # fmt: skip

Scope = Literal["global", "shared", "shared.dyn", "local", "local.fragment", "local.var"]

_Shape = TypeVar("_Shape")
_DType = TypeVar("_DType")


class BufferAnnot(Annot):
    """An array with a shape, optional strides and an element type (None: the argument's)."""

    strided: ClassVar[bool] = False
    memory: ClassVar[str | None] = None  # scope of the kind of buffer; None: not said
    shape: list[Value] | None = None
    strides: list[Value] | None = None
    dtype: DType | None = None

    def __init__(
        self, shape: Sequence[Any] | None = None, strides: Sequence[Any] | None = None,
        dtype: object = None, scope: str | None = None,
    ) -> None:  # fmt: skip
        self.said_scope = _checked_scope(type(self).memory, scope)
        self.shape = None if shape is None else [Value.from_value(extent) for extent in shape]
        self.strides = None if strides is None else [Value.from_value(extent) for extent in strides]
        self.dtype = element_type(dtype)
        self.name: str | None = None

    def is_kernel_arg(self) -> bool:
        """Arrays are passed at launch."""
        return True

    @property
    def word(self) -> str:
        """The name of this kind of annotation in programs."""
        return f"T.{type(self).__name__.removesuffix('Annot')}"

    @property
    def scope(self) -> str:
        """Memory scope of the buffer."""
        return self.memory or self.said_scope or "global"

    @border
    def __call__(
        self, shape: object, dtype: object = "float32", data: object = None,
        strides: Sequence[Any] | None = None, elem_offset: object = None, scope: str | None = None,
        align: int = 0, offset_factor: int = 0, buffer_type: str = "",
        axis_separators: object = None,
    ) -> Any:  # fmt: skip
        """``T.Tensor(shape, dtype)``; with ``data=A.data`` inside a kernel the memory of ``A`` in
        another shape, from element ``elem_offset`` on.

        Args:
            shape: a tuple of ints or symbols; one int for one dimension.
            dtype: dtype of the elements.
            data: memory of a buffer of the kernel; without it, the annotation of a parameter.
            strides: elements between neighbours in each dimension; row-major by default.
            elem_offset: elements of ``dtype`` in front of the first one; with ``data`` only.
            scope: the memory scope that the buffer must have.
            align: a power of two that divides the address, in bytes; generated code does not
                assume it.
            offset_factor: divides a constant ``elem_offset``.
            buffer_type, axis_separators: those of TVM programs, without effect.

        Raises:
            TileTypeError: a shape that is not one tuple, or ``data`` that is not memory.
            TileValueError: an invalid option, or a view that exceeds its memory.
            TileUnsupportedError: another ``buffer_type`` than "default".
        """
        with placed():
            return self._described(
                shape, dtype, data, strides, elem_offset, scope,
                align=align, offset_factor=offset_factor, buffer_type=buffer_type,
                axis_separators=axis_separators,
            )  # fmt: skip

    def _described(
        self, shape: object, dtype: object, data: object, strides: Any, elem_offset: object,
        scope: str | None, **options: Any,
    ) -> Any:  # fmt: skip
        """The buffer over ``data``, or the annotation without it."""
        if isinstance(dtype, (int, Expr)) and not isinstance(dtype, bool):
            raise errors.TileTypeError(
                f"the shape of {self.word} is not one tuple",
                expected=f'{self.word}((m, n), "float32")',
                got=f"{errors.shown(shape)}, {errors.shown(dtype)}",
            )
        if data is not None:
            return make_tensor(
                data, shape, dtype, strides, elem_offset=elem_offset, scope=scope, **options
            )
        kind = element_type(dtype)
        annotation = self.word
        if checked_offset(annotation, elem_offset, **options) != 0:
            raise errors.TileUnsupportedError(
                f"{annotation} as a parameter with elem_offset",
                expected="0: the tensor of a call has the start",
                got=errors.shown(elem_offset),
                hint="pass a slice such as x[8:], or give data= to describe memory of the kernel",
            )
        extents = None if shape is None else extents_of(shape)
        check_extents(annotation, extents or ())
        if extents is not None and strides is not None:
            _check_steps(extents, strides)
        return type(self)(extents, None if strides is None else extents_of(strides), kind, scope)

    @border
    def __getitem__(self, params: Any) -> Any:
        """``T.Tensor[shape, dtype]``."""
        shape, dtype = params if isinstance(params, tuple) and len(params) == 2 else (params, None)
        if isinstance(params, tuple) and not isinstance(shape, (list, tuple)):
            shape, dtype = ([shape], dtype) if len(params) == 2 else (list(params), None)
        with placed():
            check_extents(self.word, extents_of(shape))
            return type(self)(extents_of(shape), None, dtype)

    def with_name(self, name: str) -> BufferAnnot:
        """This annotation for the parameter ``name``; unknown extents are named after it."""
        copied = type(self)(None, None, self.dtype, self.said_scope)
        copied.name = name
        for field, noun in (("shape", "shape"), ("strides", "stride")):
            values = getattr(self, field)
            if values is not None:
                named = [v.with_name(f"{name}_{noun}_{i}") for i, v in enumerate(values)]
                setattr(copied, field, named)
        return copied

    def get_key_parser(self) -> KeyParser:
        """Fast reader of the compile-time extents, strides and dtype of an array."""
        shape, dtype = self.shape, self.dtype
        rank = None if shape is None else len(shape)
        dims = () if shape is None else _unknown(shape)
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
            key: Key = tuple(extents) if rank is None else tuple([extents[d] for d in dims])
            if packing > 1 and rank and dims and dims[-1] == rank - 1:
                key = (*key[:-1], key[-1] * packing)
            if steps:
                strides = _strides_of(target, packing)
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
            raise errors.ArgumentTypeError(
                f"Tensor dtype mismatch for argument `{self.name}`, "
                f"expected {self.dtype}, got {kind}"
            )
        return kind

    def _rank_error(self, got: int) -> errors.KernelArgumentError:
        return errors.KernelArgumentError(
            f"Tensor rank mismatch for argument `{self.name}`",
            expected=f"{len(self.shape or ())} dimensions",
            got=f"{got}",
        )

    def _not_an_array(self, target: Any) -> errors.ArgumentTypeError:
        return errors.ArgumentTypeError(
            f"argument `{self.name}` is not a tensor",
            expected="a torch tensor, a numpy array or another array with shape and dtype",
            got=errors.shown(target) + f" of type {type(target).__name__}",
        )

    @staticmethod
    def match_shape(
        shape: Sequence[Value], target_shape: Sequence[Any] | None, vt: ArgVarTable
    ) -> tuple[Any, ...]:
        """Extents of the traced buffer: ints of the argument where static, else variables."""
        if target_shape is not None and len(target_shape) != len(shape):
            raise errors.KernelArgumentError(
                "a shape has another rank than its annotation",
                expected=f"{len(shape)} extents {list(shape)}",
                got=f"{len(target_shape)} extents {list(target_shape)}",
            )
        extents: list[Any] = []
        for number, extent in enumerate(shape):
            actual = None if target_shape is None else target_shape[number]
            if extent.kind == "static" and extent.value is None and actual is None:
                raise errors.TileValueError(
                    f"the compile-time dimension `{extent.name}` is unknown",
                    hint="pass a tensor or a placeholder T.Tensor((m, n), dtype)",
                )
            extents.append(
                extent.create_prim_func_arg(extent.name or vt.create_tmp_name(), actual, vt, False)
            )
        return tuple(extents)

    def create_prim_func_arg(self, name: str, value: Any, vt: ArgVarTable) -> ir.Buffer:
        """The parameter for the array (or placeholder) ``value``."""
        shape = self.shape
        if self.scope != "global":
            raise errors.TileTypeError(
                f"the parameter `{name}` of a kernel is in {self.scope} memory",
                expected="global memory: T.Tensor, T.StridedTensor or T.Buffer",
                hint="allocate it in the kernel, or annotate a parameter of a macro with it",
            )
        packing = 1 if self.dtype is None or isinstance(value, BufferAnnot) else self.dtype.packing
        actual, strides, kind = _facts(value, packing)
        if shape is None:
            shape = [Value("static", None, DType("int32"), extent) for extent in actual or ()]
        if actual and packing > 1:
            actual = (*actual[:-1], actual[-1] * packing)
        dtype = self.dtype if self.dtype is not None else kind
        if dtype is None:
            raise errors.TileValueError(
                f"the dtype of argument `{name}` is unknown",
                hint="pass a tensor or a placeholder T.Tensor((m, n), dtype)",
            )
        matched = self.match_shape(shape, actual, vt)
        steps = None
        if self.strides is not None:
            steps = self.match_shape(self.strides, strides, vt)
        buffer = ir.Buffer(name, ir.Shape(matched), dtype, self.scope, steps)
        add_param(buffer)
        return buffer

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

    @border
    def __call__(  # type: ignore[override]  # strides are the second argument in the language
        self, shape: object, strides: object, dtype: object = "float32", data: object = None,
        elem_offset: object = None, scope: str | None = None, align: int = 0,
        offset_factor: int = 0, buffer_type: str = "", axis_separators: object = None,
    ) -> Any:  # fmt: skip
        """``T.StridedTensor(shape, strides, dtype)``; the options of ``T.Tensor``."""
        with placed():
            _check_steps(shape, strides)
            return self._described(
                shape, dtype, data, strides, elem_offset, scope,
                align=align, offset_factor=offset_factor, buffer_type=buffer_type,
                axis_separators=axis_separators,
            )  # fmt: skip

    @border
    def __getitem__(self, params: Any) -> StridedTensorAnnot:
        """``T.StridedTensor[shape, strides, dtype]``."""
        with placed():
            if not isinstance(params, tuple) or len(params) not in (2, 3):
                raise errors.TileTypeError(
                    "T.StridedTensor[...] needs a shape, strides and a dtype",
                    expected="T.StridedTensor[[shape], [strides], dtype]",
                    got=errors.shown(params),
                )
            shape, strides = params[:2]
            _check_steps(shape, strides)
            check_extents(self.word, extents_of(shape))
            kind = params[2] if len(params) == 3 else None
            return type(self)(extents_of(shape), extents_of(strides), kind)


def _check_steps(shape: object, strides: object) -> None:
    extents, steps = extents_of(shape), extents_of(strides)
    if len(extents) != len(steps):
        raise errors.TileValueError(
            "a strided tensor has a different number of extents and strides",
            expected=f"{len(extents)} strides",
            got=f"{len(steps)}",
        )


class FragmentBufferAnnot(BufferAnnot):
    """``T.FragmentBuffer``: a macro parameter in registers."""

    memory = "local.fragment"


class SharedBufferAnnot(BufferAnnot):
    """``T.SharedBuffer``: a macro parameter in shared memory."""

    memory = "shared.dyn"


class LocalBufferAnnot(BufferAnnot):
    """``T.LocalBuffer``: a macro parameter that is private to a thread."""

    memory = "local"


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
        add_param(self.data)
        return self.data

    def promote(self) -> TIRAnnot:
        """Already fixed."""
        return self

    def __repr__(self) -> str:
        return f"TIRAnnot({self.data!r})"


def _checked_scope(memory: str | None, scope: str | None) -> str | None:
    """The scope that an annotation says; None when it says none.

    Raises:
        TileValueError: no scope, or another one than that of its kind of buffer.
    """
    if scope is None or scope == memory:
        return memory
    errors.check_choice(scope, ir.SCOPES, f"unknown scope {scope!r}")
    if memory is not None and not is_same_memory(memory, scope):
        raise errors.TileValueError(
            f"the scope {scope!r} of the annotation is not that of its data", expected=repr(memory)
        )
    return scope


_OPTIONS = (
    "shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor",
    "buffer_type", "axis_separators",
)  # fmt: skip


class Buffer(Generic[_Shape, _DType]):
    """``T.Buffer``: describes a buffer without memory, as an annotation of a fixed parameter.

    ``Buffer((m, n), dtype)``; without a shape, ``Buffer(dtype)`` and ``Buffer()`` describe tensors
    of any shape. The other options are those of ``T.Tensor``: with ``data=`` inside a kernel the
    result is that memory in another form.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        options = _buffer_options(args, kwargs)
        if options.get("data") is None:
            return super().__new__(cls)
        with placed():
            return TensorAnnot()(**options)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        options = _buffer_options(args, kwargs)
        with placed():
            self.described: BufferAnnot = BufferAnnot()(**{"shape": None, **options})
        self._scope: str = self.described.scope

    def __class_getitem__(cls, params: Any) -> Any:
        """``T.Buffer[shape, dtype]`` as ``T.Tensor``; type variables and types as in typing."""
        first = params[0] if isinstance(params, tuple) and params else params
        if isinstance(first, (list, tuple, int, Value, Expr)) or first is int:
            return BufferAnnot()[params]
        return super().__class_getitem__(params)  # type: ignore[misc]  # Generic has it at run time

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents; none when any shape will do."""
        return tuple(_as_written(extent) for extent in self.described.shape or ())

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.described.dtype or DType("float32")

    @property
    def strides(self) -> tuple[Any, ...]:
        """Strides in elements; row-major when none were given."""
        if self.described.strides is not None:
            return tuple(_as_written(stride) for stride in self.described.strides)
        return ir.Buffer("buf", ir.Shape(self.shape), self.dtype).stride_list()

    def scope(self) -> str:
        """Memory scope."""
        return self._scope

    def annotation(self) -> Annot:
        """Return the fixed parameter that this describes, or what depends on the argument."""
        fixed = self.described.promote() if self._scope == "global" else None
        return fixed or self.described


def _as_written(value: Value) -> Any:
    """An extent of an annotation as programs give it."""
    return value if value.value is None else value.value


def _buffer_options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The options of ``T.Buffer`` by name: the first one is the shape, or the dtype without one."""
    names = _OPTIONS[1:] if args and is_element_type(args[0]) else _OPTIONS
    options = dict(zip(names, args))
    twice = [name for name in kwargs if name in options or name not in _OPTIONS]
    if len(args) > len(names) or twice:
        raise errors.TileTypeError(
            f"T.Buffer cannot take {', '.join(twice) or 'so many arguments'}",
            expected=f"each once of ({', '.join(_OPTIONS)})",
        )
    return {**options, **kwargs}


def _unknown(values: Sequence[Value]) -> tuple[int, ...]:
    """Positions whose value only the argument knows."""
    return tuple(i for i, v in enumerate(values) if v.kind == "static" and v.value is None)


def _placeholder_extent(value: Value) -> Any:
    if value.kind == "static" and value.value is not None:
        return value.value
    raise errors.TileValueError(
        f"the placeholder dimension {value!r} is not a number",
        expected="a placeholder with constant extents, e.g. T.Tensor((1024, 512), dtype)",
    )


def _strides_of(target: Any, packing: int = 1) -> tuple[Any, ...]:
    """Strides in elements of a tensor, array or placeholder; ``packing`` elements are in each byte
    of a tensor whose dtype is smaller."""
    if isinstance(target, Buffer):
        return target.strides
    if isinstance(target, BufferAnnot):
        if target.strides is not None:
            return tuple(_placeholder_extent(stride) for stride in target.strides)
        return row_major_strides([_placeholder_extent(extent) for extent in target.shape or ()])
    if callable(getattr(target, "stride", None)):
        strides = tuple(target.stride())
    elif getattr(target, "strides", None) is None:
        strides = row_major_strides(list(target.shape))
    else:
        strides = tuple(step // target.itemsize for step in target.strides)
    return (*[step * packing for step in strides[:-1]], *strides[-1:])


def _facts(
    value: Any, packing: int
) -> tuple[tuple[Any, ...] | None, tuple[Any, ...] | None, DType | None]:
    """Shape, strides (only when asked later) and dtype of an argument; None for no argument."""
    if value is None or isinstance(value, PtrAnnot):
        return None, None, None
    if isinstance(value, BufferAnnot):
        shape = tuple(_placeholder_extent(extent) for extent in value.shape or ())
        return shape, _strides_of(value), value.dtype
    return tuple(value.shape), _strides_of(value, packing), DType(value.dtype)


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
    if raw is Buffer:
        return BufferAnnot().with_name(name)
    if isinstance(raw, Buffer):
        return raw.annotation().with_name(name)
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
        annotations = {name: annotation_of(func_annots.get(name), name) for name in sig.parameters}
        return cls(sig, annotations)

    def bind(self, args: Sequence[Any], kws: Mapping[str, Any]) -> Sequence[Any]:
        """All arguments in the order of the parameters, defaults filled in."""
        if not kws and self._required <= len(args) <= self._count:
            return args if len(args) == self._count else [*args, *self._defaults[len(args) :]]
        values = self.bind_partial(args, kws)
        for name, value in zip(self.arg_names, values, strict=True):
            if value is _EMPTY:
                raise errors.ArgumentCountError(
                    f"missing argument `{name}`", expected=f"({', '.join(self.arg_names)})"
                )
        return values

    def bind_partial(self, args: Sequence[Any], kws: Mapping[str, Any]) -> list[Any]:
        """Like :meth:`bind`, with ``FuncAnnot.EMPTY`` where an argument is missing."""
        if len(args) > self._count:
            raise errors.ArgumentCountError(
                "too many arguments",
                expected=f"{self._count} ({', '.join(self.arg_names)})",
                got=f"{len(args)}",
            )
        values: list[Any] = list(args)
        empty = sys.modules["inspect"].Parameter.empty
        values += [
            _EMPTY if default is empty else default for default in self._defaults[len(args) :]
        ]
        for name, value in kws.items():
            at = self._index.get(name)
            if at is None or at < len(args):
                raise errors.ArgumentTypeError(
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
        """The buffer, variable or constant of argument ``name`` in the traced function."""
        return self.annots[name].create_prim_func_arg(name, value, vt)

    def is_all_static(self) -> bool:
        """Whether every parameter is known without any argument, run-time values included."""
        return len(self.get_all_static_args()) == len(self.annots)

    def get_all_static_args(self) -> dict[str, Any]:
        """The parameters that are known without an argument: fixed parameters and constants."""
        static: dict[str, Any] = {}
        for name, annot in self.annots.items():
            fixed = annot.promote()
            if isinstance(fixed, TIRAnnot):
                static[name] = fixed.data
            elif isinstance(annot, Value) and annot.kind == "static" and annot.value is not None:
                static[name] = annot.value
        return static

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
