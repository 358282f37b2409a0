"""Kernel templates: functions traced at once (``prim_func``) or per call (``EagerFunc``).

For the JIT layer:

``trace_prim_func(fn) -> PrimFunc``
    Trace a fully annotated function.
``EagerFunc(fn)``
    A kernel template: ``@tilelang.lazy_jit`` and eager ``@tilelang.jit``. Tensor parameters are
    annotated in the signature (``T.Tensor[[int, T.dyn["K"]], dtype]``) or by statements of the
    body (``A: T.Tensor[[M, N], dtype]`` with ``M, N = T.const("M, N")``); ``T.int32`` etc. are
    run-time scalars; everything else is a compile-time constant.

    ``.annot``                          parameter name -> annotation
    ``.parse_key(*args, **kwargs)``     hashable key: calls with equal keys share a kernel
    ``.specialise(*args, **kwargs)``    the PrimFunc for these arguments; tensors may be
                                        placeholders ``T.Tensor((m, n), dtype)`` or, where the
                                        body annotates them, left out with ``M=..., N=...`` given
    ``.kernel_args(*args, **kwargs)``   the launch arguments, in the order of ``PrimFunc.params``
                                        without the outputs
``is_factory(fn)``
    True: ``fn`` contains a ``@T.prim_func``. False: it is a kernel itself. None: only a call
    tells (see :func:`classify_by_call`).

How body annotations are read: the body is traced once per combination of the other arguments with
the constants as variables and stopped after the last annotation; this gives a plan (which extent
of which argument is which constant) that reads every later call without tracing.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tilelang import errors
from tilelang.frontend.annot import (
    _EMPTY,
    Annot,
    ArgVarTable,
    BufferAnnot,
    FuncAnnot,
    Value,
    annotation_of,
)
from tilelang.frontend.ast import FunctionInfo, analyse, rewrite
from tilelang.frontend.ir_builder import Block, Builder, builder, describe, locate
from tilelang.frontend.scope import Scope
from tilelang.frontend.trace import trace_root
from tilelang.frontend.values import Key
from tilelang.frontend.variadic import Variadic
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Var
from tilelang.ir.stmt import PrimFunc
from tilelang.ir.trace_context import activate

_MAKERS = frozenset({"Kernel", "ClusterKernel", "empty", "const", "CUDASourceCodeKernel"})


def plain_function(fn: Any, op_name: str) -> FunctionType:
    """``fn`` itself, if it is a Python function."""
    if isinstance(fn, FunctionType):
        return fn
    if isinstance(fn, PrimFunc):
        raise errors.TileTypeError(
            f"{op_name} decorates `{fn.name}`, which already is a program",
            expected="a function written with `def`",
            loc=locate(),
            hint="one decorator is enough: T.prim_func around a program, tilelang.jit around a "
            "function that returns one",
        )
    raise errors.TileTypeError(
        f"{op_name} decorates something that is not a function",
        expected="a function written with `def`",
        got=describe(fn),
        loc=locate(),
    )


def function_loc(info: FunctionInfo) -> errors.Loc:
    """The ``def`` line."""
    node = info.node
    return errors.Loc(info.filename, node.lineno, node.col_offset, function=info.name)


def capture(fn: FunctionType, info: FunctionInfo) -> dict[str, Any]:
    """Names that annotations use and Python did not put into the closure.

    With ``from __future__ import annotations`` a variable of the enclosing function that only
    annotations mention is not captured. The enclosing function is still running while the
    decorator is, so its variables are read from the frames of the same file.
    """
    import ast

    written = [a.annotation for a in ast.walk(info.node.args) if isinstance(a, ast.arg)]
    nodes: list[ast.AST] = [annotation for annotation in written if annotation is not None]
    nodes += [n.annotation for n in ast.walk(info.node) if isinstance(n, ast.AnnAssign)]
    texts = [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    for text in texts:
        try:
            nodes.append(ast.parse(text, mode="eval"))
        except SyntaxError:
            continue  # reported when the annotation is evaluated
    names = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
    names -= {*fn.__code__.co_freevars, *fn.__globals__, *vars(builtins), *info.params}
    captured: dict[str, Any] = {}
    frame = sys._getframe(1) if names else None
    while frame is not None and names:
        if frame.f_code.co_filename == info.filename:
            for name in [name for name in names if name in frame.f_locals]:
                captured[name] = frame.f_locals[name]
                names.discard(name)
        frame = frame.f_back
    return captured


def _namespace(fn: FunctionType, captured: Mapping[str, Any]) -> dict[str, Any]:
    space = dict(captured)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        try:
            space[name] = cell.cell_contents
        except ValueError:  # not bound yet; a use is reported as unknown
            continue
    return space


def evaluate_annotations(
    fn: FunctionType, info: FunctionInfo, captured: Mapping[str, Any]
) -> dict[str, Any]:
    """Annotations of the parameters, strings evaluated where the function was defined."""
    space: dict[str, Any] | None = None
    evaluated: dict[str, Any] = {}
    for name, raw in fn.__annotations__.items():
        if _is_text(raw) and name != "return":
            space = _namespace(fn, captured) if space is None else space
            raw = _evaluate(raw, fn, space, info, name)
        evaluated[name] = raw
    return evaluated


def evaluate_annotation(
    fn: FunctionType, info: FunctionInfo, captured: Mapping[str, Any], name: str
) -> Any:
    """The annotation of one parameter; None where its text cannot be evaluated."""
    raw = fn.__annotations__[name]
    if not _is_text(raw):
        return raw
    try:
        return _evaluate(raw, fn, _namespace(fn, captured), info, name)
    except (errors.TileError, ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError):
        return None


def _is_text(raw: object) -> bool:
    return isinstance(raw, str) and not isinstance(raw, DType)


def _evaluate(
    text: str, fn: FunctionType, space: dict[str, Any], info: FunctionInfo, name: str
) -> Any:
    try:
        value = eval(text, fn.__globals__, space)  # the user's own annotation text
    except errors.TileError as error:
        error.loc = argument_loc(info, name)
        raise
    except NameError as error:
        try:
            return DType(text)
        except errors.TileTypeError:
            pass
        loc = argument_loc(info, name)
        raise errors.TileNameError(
            f"the annotation of `{name}` uses an unknown name: {error}", loc=loc
        ) from None
    if isinstance(value, str) and not isinstance(value, DType):
        return _evaluate(value, fn, space, info, name)
    return value


def argument_loc(info: FunctionInfo, name: str) -> errors.Loc:
    """Where the parameter ``name`` is written."""
    import ast

    for node in ast.walk(info.node.args):
        if isinstance(node, ast.arg) and node.arg == name:
            return errors.Loc.of_node(node, info.filename, function=info.name)
    return function_loc(info)


def check_parameters(info: FunctionInfo, op_name: str) -> None:
    """Refuse parameters that no kernel can have."""
    arguments = info.node.args
    if arguments.posonlyargs:
        name = arguments.posonlyargs[0].arg
        raise errors.TileSyntaxError(
            f"{op_name} `{info.name}` has the positional-only parameter `{name}`",
            loc=argument_loc(info, name),
            hint="remove the `/`",
        )


class _Traced:
    """A rewritten function and the scope it enters when it runs."""

    def __init__(self, fn: FunctionType, info: FunctionInfo, eager: bool) -> None:
        self.fn, self.info = fn, info
        self.captured = capture(fn, info)
        self.run = rewrite(
            fn,
            info,
            self._enter,
            captured=self.captured,
            annotated=info.body_annotated if eager else frozenset(),
        )

    def _enter(self, values: Mapping[str, object]) -> Scope:
        return Scope(builder(self.info.name), self.info.name, values, frozenset())

    def start(self) -> Builder:
        trace = Builder()
        trace.name, trace.loc, trace.origin = self.info.name, function_loc(self.info), self.fn
        return trace


def trace_prim_func(fn: Any) -> PrimFunc:
    """The traced ``@T.prim_func``.

    Raises:
        TileSyntaxError: a parameter is positional-only, variable or not annotated, or the body
            uses Python that kernels do not have.
    """
    function = plain_function(fn, "T.prim_func")
    info = analyse(function)
    check_parameters(info, "prim_func")
    star = info.node.args.vararg or info.node.args.kwarg
    if star is not None:
        raise errors.TileSyntaxError(
            f"prim_func `{info.name}` has the variable parameter `{star.arg}`",
            loc=argument_loc(info, star.arg),
            expected="a fixed list of parameters",
        )
    traced = _Traced(function, info, eager=False)
    written = evaluate_annotations(function, info, traced.captured)
    missing = [name for name in info.params if written.get(name) is None]
    if missing and info.body_annotated.issuperset(missing):
        return EagerFunc(function, "T.prim_func").specialise()  # annotated by statements
    trace, vt = traced.start(), ArgVarTable()
    values: dict[str, Any] = {}
    body = trace.push("func")
    for name in info.params:
        if name not in written or written[name] is None:
            raise errors.TileSyntaxError(
                f"Argument `{name}` is not annotated",
                loc=argument_loc(info, name),
                expected="T.Tensor(shape, dtype), T.StridedTensor(...), T.ptr or a scalar dtype",
                hint="for a kernel with compile-time arguments use @tilelang.jit",
            )
        with errors.at(argument_loc(info, name)):
            values[name] = _prim_func_arg(written[name], name, trace, vt)
    trace.set_results(trace_root(trace, traced.run, (), values))
    return _finished(trace, body)


def _finished(builder: Builder, body: Block) -> PrimFunc:
    from tilelang.frontend.symbols import check_symbols

    return check_symbols(builder.finish(builder.pop(body)))


def _prim_func_arg(raw: Any, name: str, builder: Builder, vt: ArgVarTable) -> Any:
    annot = annotation_of(raw, name, runtime_scalars=True)
    if not annot.is_kernel_arg() or (isinstance(annot, BufferAnnot) and annot.shape is None):
        raise errors.TileTypeError(
            f"the annotation of `{name}` does not describe an argument",
            expected="T.Tensor(shape, dtype), T.StridedTensor(...), T.ptr or a scalar dtype",
            got=errors.shown(raw),
        )
    if isinstance(annot, BufferAnnot) and annot.dtype is None:
        annot = annot.with_name(name)
        annot.dtype = DType("float32")  # as T.Tensor(shape) has it
    with activate(builder):
        return annot.create_prim_func_arg(name, None, vt)


# -- templates ----------------------------------------------------------------------------------
class _SignatureDone(BaseException):
    """All body annotations were seen; the rest of the body is not needed yet."""


class _Hooks:
    """The effects of T.const and body annotations while an EagerFunc is traced."""

    def __init__(self, template: EagerFunc, builder: Builder, vt: ArgVarTable) -> None:
        self.template, self.builder, self.vt = template, builder, vt
        self.annots: dict[str, Annot] = {}
        self.created: dict[str, Any] = {}

    def const(self, name: str, dtype: DType) -> Any:
        raise NotImplementedError

    def annotate(self, name: str, annotation: Callable[[], object], current: Any) -> Any:
        """The value of parameter ``name`` from its annotation statement on."""
        annot = annotation_of(annotation(), name)
        if not annot.is_kernel_arg():
            return annot.create_prim_func_arg(name, current, self.vt)
        self.annots[name] = annot
        self.created[name] = param = self.create(annot, name, current)
        return param

    def create(self, annot: Annot, name: str, current: Any) -> Any:
        raise NotImplementedError


class _SignatureHooks(_Hooks):
    """First run: constants are variables; stops after the last annotation."""

    def __init__(self, template: EagerFunc, builder: Builder, vt: ArgVarTable) -> None:
        super().__init__(template, builder, vt)
        self.consts: dict[str, Var] = {}

    def const(self, name: str, dtype: DType) -> Var:
        if name not in self.consts:
            self.consts[name] = Var(name, dtype)
        return self.consts[name]

    def create(self, annot: Annot, name: str, current: Any) -> Any:
        rank_known = not isinstance(annot, BufferAnnot) or annot.shape is not None
        param = None
        if rank_known and (not isinstance(annot, BufferAnnot) or annot.dtype is not None):
            param = annot.create_prim_func_arg(name, None, self.vt)
        if len(self.annots) == len(self.template.info.body_annotated):
            raise _SignatureDone
        return param if param is not None else current


class _KernelHooks(_Hooks):
    """Real run: constants are ints."""

    def __init__(
        self, template: EagerFunc, builder: Builder, vt: ArgVarTable, consts: Mapping[str, int]
    ) -> None:
        super().__init__(template, builder, vt)
        self.consts = consts

    def const(self, name: str, dtype: DType) -> int:
        if name in self.consts:
            return self.consts[name]
        raise errors.TileValueError(
            f"the constant `{name}` cannot be inferred",
            expected=f"`{name}` alone as an extent or stride of an annotated tensor",
            hint=f"annotate a tensor with it, or pass {name}=... by keyword"
            if self.template.variadic.kwargs is None
            else f"annotate a tensor with it: `**{self.template.variadic.kwargs}` takes keywords",
        )

    def create(self, annot: Annot, name: str, current: Any) -> Any:
        return annot.create_prim_func_arg(name, current, self.vt)


class _Plan:
    """The way to read the constants and keys of body-annotated arguments from a call."""

    def __init__(self, template: EagerFunc, hooks: _SignatureHooks) -> None:
        self.names = frozenset(hooks.consts)
        self.sources: list[tuple[str, int, str, int]] = []  # const, argument, field, position
        self.parsers: list[tuple[int, Callable[[Any], Key]]] = []
        by_var = {id(var): name for name, var in hooks.consts.items()}
        index = {name: i for i, name in enumerate(template.func_annot.arg_names)}
        for name, annot in hooks.annots.items():
            self.parsers.append((index[name], annot.get_key_parser()))
            for field in ("shape", "strides") if isinstance(annot, BufferAnnot) else ():
                for position, value in enumerate(getattr(annot, field) or ()):
                    const = by_var.get(id(value.value))
                    if const is not None:
                        self.sources.append((const, index[name], field, position))
        self.scale = {  # of what counts bytes in an array of a dtype smaller than a byte
            (field, index[name], d): annot.dtype.packing
            for name, annot in hooks.annots.items()
            if isinstance(annot, BufferAnnot) and annot.shape and annot.dtype is not None
            for d in range(len(annot.shape))
            for field in ["shape" if d == len(annot.shape) - 1 else "strides"]
        }
        self.first = [source for i, source in enumerate(self.sources) if self._is_first(i)]
        by_name = sorted(self.first)
        plain = len(by_name) == len(self.names) and all(
            field == "shape" and self.scale.get((field, argument, position), 1) == 1
            for _, argument, field, position in by_name
        )
        # Extents that are the constants in the order of their names; None: not that simple.
        self.fast = (
            [(argument, position) for _, argument, _, position in by_name] if plain else None
        )

    def _is_first(self, at: int) -> bool:
        return self.sources[at][0] not in [source[0] for source in self.sources[:at]]

    def key(self, values: Sequence[Any], sizes: Mapping[str, Any]) -> Key:
        """The key of the body-annotated arguments."""
        key: list[Any] = []
        for position, parser in self.parsers:
            key += parser(values[position]) if values[position] is not _EMPTY else (None,)
        if self.fast is not None and not sizes:
            try:
                read = [values[argument].shape[position] for argument, position in self.fast]
            except (AttributeError, TypeError):  # None, left out, or a pointer
                read = [None]
            if all(type(extent) is int for extent in read):  # placeholders hold symbols
                return (*key, *read)
        constants = self.consts(values, sizes, self.first, None)
        key.extend(constants.get(name) for name in sorted(self.names | set(sizes)))
        return tuple(key)

    def consts(
        self, values: Sequence[Any], sizes: Mapping[str, Any],
        sources: Sequence[tuple[str, int, str, int]], names: Sequence[str] | None,
    ) -> dict[str, int]:  # fmt: skip
        """Values of the constants; with ``names`` every source is checked for agreement."""
        constants: dict[str, int] = dict(sizes)
        origin = dict.fromkeys(sizes, "the keyword argument")
        for const, argument, field, position in sources:
            actual = _extent(values[argument], field, position)
            if actual is None:
                continue
            if not isinstance(values[argument], BufferAnnot):
                actual *= self.scale.get((field, argument, position), 1)
            if names is not None and constants.setdefault(const, actual) != actual:
                raise errors.TileValueError(
                    f"the constant `{const}` has two values",
                    expected=f"{constants[const]} ({origin[const]})",
                    got=f"{actual} (`{names[argument]}`.{field}[{position}])",
                )
            constants.setdefault(const, actual)
            if names is not None:
                origin.setdefault(const, f"`{names[argument]}`.{field}[{position}]")
        return constants


def _extent(value: Any, field: str, position: int) -> int | None:
    from tilelang.frontend import annot as module

    if value is None or value is _EMPTY or not hasattr(value, "shape"):
        return None
    if isinstance(value, BufferAnnot):
        if value.shape is None:
            return None
        source = value.shape if field == "shape" else module._strides_of(value)
        tensor = source[position]
        return int(module._placeholder_extent(tensor) if isinstance(tensor, Value) else tensor)
    source = value.shape if field == "shape" else module._strides_of(value)
    return int(source[position]) if position < len(source) else None


class EagerFunc:
    """A kernel template; see the module's description for the interface."""

    def __init__(self, fn: Any, op_name: str = "tilelang.jit") -> None:
        import inspect

        self.orig_func = plain_function(fn, op_name)
        self.info = analyse(self.orig_func)
        check_parameters(self.info, "the kernel")
        self._traced = _Traced(self.orig_func, self.info, eager=True)
        written = evaluate_annotations(self.orig_func, self.info, self._traced.captured)
        self.variadic = Variadic(self.info.name, inspect.signature(self.orig_func))
        self.signature = self.variadic.signature
        self.func_annot = FuncAnnot.from_sig_annots(self.signature, written)
        self.variadic.check(
            self.func_annot.annots,
            self.info.body_annotated,
            lambda name: argument_loc(self.info, name),
        )
        self.__name__ = self.orig_func.__name__
        self.__doc__ = self.orig_func.__doc__
        self.__wrapped__ = self.orig_func
        index = {name: i for i, name in enumerate(self.func_annot.arg_names)}
        self._body_at = {index[name] for name in self.info.body_annotated}
        self._static = [
            (i, parser)
            for i, parser in enumerate(self.func_annot._parsers)
            if i not in self._body_at
        ]
        empty = inspect.Parameter.empty
        self._defaults = [_EMPTY if v is empty else v for v in self.func_annot._defaults]
        self._required = 1 + max(
            (i for i, v in enumerate(self._defaults) if v is _EMPTY), default=-1
        )
        self._kernel_at = sorted({*self.func_annot._kernel_at, *self._body_at})
        self._uses_consts = bool(self._body_at) or "const" in self.info.constructs
        self._plans: dict[Key, _Plan] = {}

    @property
    def annot(self) -> dict[str, Annot]:
        """Parameter name -> annotation."""
        return self.func_annot.annots

    def with_placeholders(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """``kwargs``, and for tensors left out whose annotations say all, the annotations."""
        arguments = dict(kwargs)
        if self.variadic:
            args = args[: len(self.variadic.positional)]
        for number, name in enumerate(self.func_annot.arg_names):
            annot = self.annot[name]
            if number < len(args) or name in arguments or number in self._body_at:
                continue
            if isinstance(annot, BufferAnnot) and annot.promote() is not None:
                arguments[name] = annot
        return arguments

    def forget(self) -> None:
        """Read the annotations of the body anew: names in them have other values."""
        self._plans.clear()

    def parse_key(self, *args: Any, **kwargs: Any) -> Key:
        """The cache key of a call."""
        if self.variadic:
            args, kwargs = self.variadic.fold(args, kwargs)
        if not self._uses_consts:
            return self.func_annot.parse_key(*args, **kwargs)
        values, sizes = self._bind(args, kwargs)
        static = self._static_key(values)
        return static + self._plan(static, values).key(values, sizes)

    def kernel_args(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The launch arguments in the order of ``PrimFunc.params``, without outputs."""
        if self.variadic:
            args, kwargs = self.variadic.fold(args, kwargs)
        if not self._uses_consts:
            return tuple(self.func_annot.convert_to_kernel_args(*args, **kwargs))
        values, _ = self._bind(args, kwargs)
        arguments = tuple([values[i] for i in self._kernel_at])
        if any(value is _EMPTY for value in arguments):
            missing = next(i for i in self._kernel_at if values[i] is _EMPTY)
            raise errors.ArgumentTypeError(
                f"missing argument `{self.func_annot.arg_names[missing]}`"
            )
        return arguments

    def specialise(self, *args: Any, **kwargs: Any) -> PrimFunc:
        """The function traced for these arguments."""
        if self.variadic:
            args, kwargs = self.variadic.fold(args, kwargs)
        values, sizes = self._bind(args, kwargs)
        consts: Mapping[str, int] = sizes
        if self._body_at:
            plan = self._plan(self._static_key(values), values)
            self._reject_unknown(set(sizes) - plan.names)
            for position, parser in plan.parsers:
                if values[position] is not _EMPTY:
                    parser(values[position])
            consts = plan.consts(values, sizes, plan.sources, self.func_annot.arg_names)
        trace, vt = self._traced.start(), ArgVarTable()
        hooks = _KernelHooks(self, trace, vt, consts)
        trace.hooks = hooks
        body = trace.push("func")
        arguments = self._arguments(values, trace, vt)
        result = trace_root(trace, self._traced.run, *self.variadic.unfold(arguments))
        hooks.created.update({k: v for k, v in arguments.items() if k not in hooks.created})
        order = [hooks.created[name] for name in self.func_annot.arg_names]
        inputs = [entry for entry in order if any(entry is param for param in trace.params)]
        trace.params = [*inputs, *trace.empties]
        trace.set_results(result)
        return _finished(trace, body)

    def _reject_unknown(self, names: set[str]) -> None:
        if names:
            name = min(names)
            raise errors.ArgumentTypeError(
                f"unexpected argument `{name}`",
                expected=f"({', '.join(self.func_annot.arg_names)}) or a constant of T.const",
                hint=errors.near(name, self.func_annot.arg_names),
            )

    def _bind(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """All arguments (missing ones ``_EMPTY`` where the body describes them), and constants."""
        if not kwargs and self._required <= len(args) <= self.func_annot._count:
            return [*args, *self._defaults[len(args) :]], {}
        names = self.func_annot._index
        sizes = {key: value for key, value in kwargs.items() if key not in names}
        if sizes and not self._uses_consts:
            self._reject_unknown(set(sizes))
        own = {key: value for key, value in kwargs.items() if key in names} if sizes else kwargs
        values = self.func_annot.bind_partial(args, own)
        for i, value in enumerate(values):
            if value is _EMPTY and i not in self._body_at:
                annot = self.annot[self.func_annot.arg_names[i]]
                if not annot.is_kernel_arg() or (not sizes and self._needs_value(annot)):
                    raise errors.ArgumentTypeError(
                        f"missing argument `{self.func_annot.arg_names[i]}`",
                        expected=f"({', '.join(self.func_annot.arg_names)})",
                    )
        return values, sizes

    @staticmethod
    def _needs_value(annot: Annot) -> bool:
        """Whether compiling needs the argument itself."""
        return isinstance(annot, BufferAnnot) and annot.promote() is None

    def _static_key(self, values: Sequence[Any]) -> Key:
        key: list[Any] = []
        for position, parser in self._static:
            value = values[position]
            key += parser(value) if value is not _EMPTY else (None,)
        return tuple(key)

    def _plan(self, static: Key, values: Sequence[Any]) -> _Plan:
        plan = self._plans.get(static)
        if plan is None:
            trace, vt = self._traced.start(), ArgVarTable()
            trace.hooks = hooks = _SignatureHooks(self, trace, vt)
            trace.push("func")
            arguments = self._arguments(values, trace, vt)
            try:
                if self._body_at:
                    trace_root(trace, self._traced.run, *self.variadic.unfold(arguments))
            except _SignatureDone:
                pass
            plan = self._plans[static] = _Plan(self, hooks)
        return plan

    def _arguments(
        self, values: Sequence[Any], builder: Builder, vt: ArgVarTable
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        with activate(builder):
            for i, (name, value) in enumerate(zip(self.func_annot.arg_names, values, strict=True)):
                if i in self._body_at:
                    arguments[name] = None if value is _EMPTY else value
                else:
                    actual = None if value is _EMPTY else value
                    arguments[name] = self.func_annot.create_argument(name, actual, vt)
        return arguments

    def __repr__(self) -> str:
        return f"<kernel template {self.__name__}>"


LazyFunc = EagerFunc  # the signature-annotated style is the same object


def is_factory(fn: Any) -> bool | None:
    """Whether ``fn`` makes a ``@T.prim_func`` (True), is a kernel (False), or either (None)."""
    info = analyse(plain_function(fn, "tilelang.jit"))
    if info.factory:
        return True
    return False if info.body_annotated or info.constructs & _MAKERS else None


def classify_by_call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> PrimFunc | None:
    """Call a function of unknown kind: its PrimFunc if it is a factory, None if it is a kernel."""
    try:
        result = fn(*args, **kwargs)
    except errors.JITNoBuilderError:
        return None
    return result if isinstance(result, PrimFunc) else None
