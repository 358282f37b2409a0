"""Instruction wrappers: ``T.<name>`` made from its table entry: parameters, checks, documentation.

Those that give no value emit a statement; those that give one return an expression. The program
itself orders what asynchronous units do: no barrier is inserted for what they read and write. All
trace and print everywhere and run where their rows say.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.frontend import regions
from tilelang.ir.atoms import Atom, Operand, Option
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import current
from tilelang.ir.expr import AddressOf, Call, Const, Expr, Load, StringImm, as_expr, call
from tilelang.language.sync import barrier_address, check_named
from tilelang.target.features import FEATURES, lowest_with
from tilelang.target.instruction_table import ROWS
from tilelang.target.nvidia import TMEM_MOVES
from tilelang.tracebacks import borders

_NUMBERED = ("count", "block", "blocks", "bytes", "parity")  # ends of roles that are not negative
_MEMORY = ("registers", "shared", "global", "memory")
# Space of an operand -> what its documentation says.
_MEANING = {
    "text": "a string", "registers": "registers of the thread",
    "shared": "where a tile in shared memory starts", "map": "a tensor map",
    "global": "where data in global memory starts", "barrier": "an element of ``T.alloc_barrier``",
    "descriptor": "a variable for a matrix descriptor", "descriptor bits": "a matrix descriptor",
    "tensor memory": "an element of tensor memory, or a buffer of it",
}  # fmt: skip


# -- operands --------------------------------------------------------------------------------------
def operand(value: object, op_name: str = "an instruction") -> Expr:
    """Any operand: text, a number, a value, or the address of a buffer."""
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var):
        return regions.address_of_operand(value, op_name)
    return as_expr(value)


def _address(value: object, operand: Operand, op_name: str) -> Expr:
    """A place in memory: elements count as their addresses, pointers as they are."""
    if isinstance(value, (Buffer, Region, Load)):
        return regions.address_of_operand(value, op_name, operand.access or "rw")
    return as_expr(value)


def _tensor_memory_address(value: object, operand: Operand, op_name: str) -> Expr:
    address = _address(value, operand, op_name)
    if isinstance(address, AddressOf) and address.buffer.storage != "shared.tmem":
        raise TileTypeError(
            f"{op_name} of something that is not tensor memory",
            expected="a buffer made by T.alloc_tmem",
            got=regions.describe(value),
        )
    return address


def _descriptor(value: object, operand: Operand, op_name: str) -> Expr:
    if isinstance(value, Buffer) and value.storage == "local.descriptor":
        return AddressOf(value, value.whole().mins, "w")
    if isinstance(value, Load) and value.buffer.storage == "local.descriptor":
        return AddressOf(value.buffer, value.indices, "w")
    raise TileTypeError(
        f"the descriptor of {op_name} is not a descriptor",
        expected="a buffer made by T.alloc_wgmma_desc or T.alloc_tcgen05_smem_desc",
        got=regions.describe(value),
    )


def _integer(expr: Expr, value: object, op_name: str, role: str) -> Expr:
    """``value`` as ``expr``, which counts, numbers or masks: data is in memory or registers."""
    if expr.dtype.is_float or (isinstance(value, bool) and role.endswith(_NUMBERED)):
        return regions.integer(value, op_name, role)
    return expr


def _value(value: object, operand: Operand, op_name: str) -> Expr:
    expr = _integer(regions.scalar(value, op_name, operand.role), value, op_name, operand.role)
    known = expr.value if isinstance(expr, Const) else 0
    if operand.role.endswith(_NUMBERED) and known < 0:
        raise TileValueError(
            f"the {operand.role} of {op_name} is negative", expected="0 or more", got=str(known)
        )
    return regions.cast_to(expr, DType(operand.dtype)) if operand.dtype else expr


_OPERANDS: dict[str, Callable[[object, Operand, str], Expr]] = {
    "value": _value,
    "constant": _value,
    "barrier": lambda value, _, op_name: barrier_address(value, op_name),
    "barrier id": _value,
    "descriptor": _descriptor,
    "tensor memory": _tensor_memory_address,
    **dict.fromkeys(_MEMORY, _address),
}


# -- checks that rows name -------------------------------------------------------------------------
def _check_move(op_name: str, arguments: dict[str, Any]) -> None:
    """The forms of ``tcgen05.ld`` and ``tcgen05.st``: at most 128 registers of a thread."""
    shape, count = arguments["shape"], arguments["count"]
    limit = 128 // TMEM_MOVES.get(shape, 1)
    if shape not in TMEM_MOVES or count < 1 or count > limit or count & (count - 1):
        raise TileValueError(
            f"{op_name} of a form that does not exist",
            expected="a shape of " + ", ".join(TMEM_MOVES) + f" and a power of two up to {limit}",
            got=f"{shape} x {count}",
        )


def _check_barrier(op_name: str, arguments: dict[str, Any]) -> None:
    check_named(arguments["barrier_id"], arguments["thread_count"], op_name)


def _check_block(op_name: str, arguments: dict[str, Any]) -> None:
    """A block of the cluster is one that there is."""
    rank = arguments.get("cta_id", arguments.get("block"))
    known = rank.value if isinstance(rank, Const) else rank
    active = current()
    blocks = 0 if active is None else active.cluster_blocks()
    if isinstance(known, int) and 0 < blocks <= known:
        raise TileValueError(
            f"{op_name} of a block that the cluster does not have",
            expected=f"0 to {blocks - 1}: it has {blocks} block{'s' * (blocks > 1)}",
            got=str(known),
            hint="T.Kernel(..., cluster_dims=(x, y, z)) says how many",
        )


def _check_layouts(op_name: str, arguments: dict[str, Any]) -> None:
    """The layouts of A and B after the shape, in whatever form the operands come."""
    layouts = [form for form in arguments["forms"] if isinstance(form, str)][-6:]
    for name, layout in zip("AB", layouts[1:3], strict=False):
        if len(layouts) == 6 and layout not in ("row", "col"):
            raise TileValueError(
                f"the layout of {name} of {op_name} does not exist",
                expected='"row" or "col"',
                got=repr(layout),
            )


_CHECKS: dict[str, Callable[[str, dict[str, Any]], None]] = {
    "move of tensor memory": _check_move,
    "named barrier": _check_barrier,
    "block of the cluster": _check_block,
    "operand layouts": _check_layouts,
}


# -- functions -------------------------------------------------------------------------------------
def instruction(row: Atom, name: str) -> Callable[..., Any]:
    """The function ``T.<name>`` of a row.

    Its signature has the operands of the row, then its options, by name where the operands have no
    end. A row with several forms takes operands as they come.
    """
    op_name, signature = f"T.{name}", _signature(row, name in row.strict)
    result = row.result != "void"

    def function(*args: object, **named: object) -> Any:
        matches, attrs = _bound(row, op_name, signature, args, named)
        if result:
            return call(row, *matches, **attrs)
        return regions.emit_call(op_name, row.name, *matches, **attrs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = _document(row)
    function.__annotations__ = {
        **{key: parameter.annotation for key, parameter in signature.parameters.items()},
        "return": signature.return_annotation,
    }
    function.__signature__ = signature  # type: ignore[attr-defined]  # functions may have one
    return function


def _signature(row: Atom, strict: bool) -> Signature:
    parameters: list[Parameter] = []
    for operand in row.operands:
        form = Parameter.VAR_POSITIONAL if operand.many else Parameter.POSITIONAL_OR_KEYWORD
        default = Parameter.empty if strict or operand.many else operand.default
        parameters.append(Parameter(operand.parameter, form, default=default, annotation=object))
    if row.forms:
        parameters.append(Parameter("more", Parameter.VAR_POSITIONAL, annotation=object))
    after = any(operand.kind is Parameter.VAR_POSITIONAL for operand in parameters)
    kind = Parameter.KEYWORD_ONLY if after else Parameter.POSITIONAL_OR_KEYWORD
    for option in row.options:
        wanted = {"int": int, "bool": bool}.get(option.kind, str)
        annotation = wanted if option.default is not None else wanted | None
        parameters.append(
            Parameter(option.name, kind, default=option.default, annotation=annotation)
        )
    return Signature(parameters, return_annotation=Call if row.result == "void" else Expr)


def _document(row: Atom) -> str:
    needs = f"Needs {lowest_with(row.needs)}." if row.needs in FEATURES else ""
    gap = "\n\n" if "\n" in row.doc else " "
    source = f'\n\nSource: PTX ISA, "{row.ptx}".' if row.ptx else ""
    return f"{row.doc}{gap}{needs}".rstrip() + _arguments(row) + source


def _arguments(row: Atom) -> str:
    """A section about the parameters of a row with three or more, if its text has none."""
    if "Args:" in row.doc or len(row.operands) + len(row.options) + row.forms < 3:
        return ""
    lines = [f"{operand.parameter}: {_meaning(operand)}." for operand in row.operands]
    lines += ["more: the other operands of forms that have more."] * row.forms
    lines += [f"{option.name}: an option, {option.default!r} by default." for option in row.options]
    return "\n\nArgs:\n    " + "\n    ".join(lines)


def _meaning(operand: Operand) -> str:
    example, text = operand.example, _MEANING.get(operand.space, "a number")
    if example == 0 and operand.role.endswith(("offset", "index")):
        return "an offset in the operand before it"
    text = "a flag" if isinstance(example, bool) else text
    known = example is not None and text in ("a string", "a number", "a flag")
    text += "s" * operand.many
    return f"{text}, such as {example!r}" if known and not operand.many else text


def _bound(
    row: Atom, op: str, signature: Signature, args: tuple[object, ...], named: dict[str, object]
) -> tuple[list[Expr], dict[str, object]]:
    """The operands of the call, and its attributes."""
    if row.forms and not named:
        if row.check:
            _CHECKS[row.check](op, {"forms": args})
        exprs = [operand(arg, op) for arg in args]
        for at, expr in enumerate(exprs):
            if not isinstance(expr, Load):  # an element means its address
                _integer(expr, args[at], op, f"operand {at + 1}")
        return exprs, {}
    _check_count(row, op, len(args), bool(named))
    if "place" in named and "address" in signature.parameters:  # the name that it had before
        named["address"] = named.pop("place")
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        raise TileTypeError(
            f"{op}: {error}",
            expected=f"({', '.join(signature.parameters)})",
            got=_shown_call(args, named),
        ) from None
    bound.apply_defaults()
    arguments = bound.arguments
    attrs = {option.name: _option(option, arguments[option.name], op) for option in row.options}
    if row.check:
        _CHECKS[row.check](op, {**arguments, **attrs, "forms": (*arguments.values(),)})
    operands = []
    for row_operand in row.operands:
        values = arguments[row_operand.parameter]
        for value in values if row_operand.many else (values,):
            if value is not None or row_operand.default is not None:
                convert = _OPERANDS.get(row_operand.space)
                operands.append(convert(value, row_operand, op) if convert else operand(value, op))
    return operands, {key: value for key, value in attrs.items() if value is not None}


def _shown_call(args: tuple[object, ...], named: dict[str, object]) -> str:
    arguments = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in named.items())]
    return f"({', '.join(arguments)})"


def _check_count(row: Atom, op_name: str, count: int, named: bool) -> None:
    """Refuse too few or too many operands without names."""
    if not row.operands and count:
        raise TileTypeError(
            f"{op_name} takes no operands", expected=f"{op_name}()", got=f"{count} operands"
        )
    last = row.operands[-1] if row.operands else None
    if last is not None and last.many and last.default is Parameter.empty and count <= row.low:
        raise TileTypeError(
            f"{op_name} without {last.role}s",
            expected=f"at least {row.low + 1} arguments",
            got=f"{count} arguments",
        )
    limit = len(row.operands) + len(row.options)
    names = [*(operand.role for operand in row.operands), *(option.name for option in row.options)]
    if count < row.low and not named:
        raise TileTypeError(
            f"{op_name} with {count} arguments", expected=", ".join(names), got=f"{count} arguments"
        )
    if row.high >= 0 and limit < count:
        raise TileTypeError(
            f"{op_name} with {count} operands", expected=f"({', '.join(names)})", got=str(count)
        )


def _option(option: Option, value: object, op_name: str) -> object:
    if option.kind == "int":
        return regions.constant_int(value, op_name, option.name)
    if option.kind == "bool":
        return regions.constant_bool(value, op_name, option.name)
    if value is not None and option.choices and value not in option.choices:
        raise TileValueError(
            f"{op_name} {option.wrong}",
            expected=", ".join(option.choices),
            got=regions.describe(value),
        )
    return value


def instructions() -> dict[str, Callable[..., Any]]:
    """All functions that follow from rows, by their names in programs."""
    return {
        name: instruction(row, name)
        for row in ROWS.values()
        if row.doc
        for name in (*(row.names or (row.name,)), *row.strict)
    }


globals().update(instructions())
__all__ = sorted(name for name, value in globals().items() if hasattr(value, "__signature__"))
borders(globals(), __all__)


def __getattr__(name: str) -> Any:
    """Functions of rows are found above; this says to type checkers that there are more names."""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
