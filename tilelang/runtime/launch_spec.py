"""Launch signatures of traced functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.symbols import size_variables, symbols_of
from tilelang.errors import Site, TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.postfix import Program, program_of
from tilelang.ir.simplify import simplify
from tilelang.runtime.alignment import aligned
from tilelang.runtime.dims import DimExpr
from tilelang.runtime.signature import LaunchSpec, Param, Symbol, pointer, scalar, tensor


def launch_spec(
    func: S.PrimFunc, outputs: Sequence[int] | None = None, *, messages: Sequence[str] = (),
    sites: Sequence[Site] = (), device: str = "cpu", noalias: int = 0,
) -> LaunchSpec:  # fmt: skip
    """The launch signature of ``func``.

    Args:
        func: the program; only its parameters matter, and which of them the body uses.
        outputs: positions of the parameters that the launcher allocates; default
            ``func.outputs``.
        messages: of the entry's error codes.
        sites: source locations of the checks with these codes.
        device: kind of the target.
        noalias: what the generated source assumes of tensors that alias, see :class:`LaunchSpec`.

    Raises:
        TileUnsupportedError: a dimension that is not an integer expression.
        TileValueError: a symbol that no argument provides.
    """
    results = tuple(func.outputs if outputs is None else outputs)
    free = symbols_of(func)
    written = effects.written(func.body)
    body = _relevant(func.body)
    used = {data for stmt in body for data in effects.used(stmt, nested=False)} | {
        var for stmt in body for expr in effects.expressions(stmt) for var in expr.variables
    }
    needed = _needed(func, body, used, results)
    table = [Symbol(var.name, str(var.dtype), used=var in needed) for var in free]
    numbers = {var: number for number, var in enumerate(free)}
    sizes = size_variables(func).keys() | {
        var for stmt in _views(func.body) for part in _form(stmt.buffer) for var in part.variables
    }
    for position, param in enumerate(func.params):
        if isinstance(param, E.Var) and param in sizes:
            numbers[param] = len(table)
            table.append(Symbol(param.name, str(param.dtype), position))
    params = [
        _param(func, position, position in results, numbers, used, written)
        for position in range(len(func.params))
    ]
    is_list = len(results) > 1 or func.attr("returns_list", False)
    return LaunchSpec(
        name=func.name, params=tuple(params), symbols=tuple(table), outputs=results,
        returns="list" if is_list else ("none", "one")[len(results)], messages=tuple(messages),
        sites=tuple(sites), device=device,
        noalias=noalias if func.attr("tir.noalias", True) else 0,
    )  # fmt: skip


def artifact_spec(
    func: S.PrimFunc, outputs: Sequence[int], artifact: Artifact, device: str, noalias: int = 0
) -> LaunchSpec:
    """The launch signature of ``func`` with its generated source.

    Args:
        func, outputs, device, noalias: as for :func:`launch_spec`, which has the errors, too.
        artifact: the source; a kernel for a GPU needs the alignments of its vector accesses.
    """
    spec = launch_spec(
        func, outputs, messages=artifact.messages, sites=artifact.sites, device=device,
        noalias=noalias,
    )  # fmt: skip
    return spec if artifact.device is None else aligned(spec, artifact.alignments)


def _param(
    func: S.PrimFunc, position: int, is_output: bool, numbers: dict[E.Var, int], used: set[E.Var],
    written: set[E.Var],
) -> Param:  # fmt: skip
    param = func.params[position]
    if isinstance(param, E.Var):
        if param.dtype.is_handle:
            return pointer(param.name, tuple(_pointed(func, param, numbers)))
        return scalar(param.name, param.dtype, numbers.get(param))
    strides = None
    if param.strides is not None:
        strides = tuple(program(extent, numbers, func) for extent in param.strides)
    return tensor(
        param.name,
        param.dtype,
        tuple(program(extent, numbers, func) for extent in param.shape),
        strides,
        nullable=param.data not in used,
        is_output=is_output,
        written=param.data in written,
    )


def _views(body: S.Stmt) -> Iterator[S.View]:
    """The tensors that are made at a pointer parameter under no condition."""
    for stmt in _unconditional(body):
        if isinstance(stmt, S.View) and isinstance(stmt.source, E.Var):
            yield stmt


def _form(buffer: Buffer) -> Iterator[E.Expr]:
    yield from map(E.as_expr, (*buffer.shape, *buffer.stride_list(), buffer.elem_offset))


def _pointed(
    func: S.PrimFunc, param: E.Var, numbers: dict[E.Var, int]
) -> Iterator[tuple[str, DimExpr]]:
    """Dtypes and sizes of the tensors at a pointer, where the host knows them."""
    for stmt in _views(func.body):
        buffer = stmt.buffer
        if stmt.source is not param or any(
            E.holds(part, E.Load) or not part.variables <= numbers.keys() for part in _form(buffer)
        ):
            continue
        if (
            buffer.strides is None
            and isinstance(buffer.elem_offset, int)
            and not buffer.elem_offset
        ):
            size: E.Expr = E.const(1)
            for extent in buffer.shape:
                size = E.binary("mul", size, E.as_expr(extent))
            yield str(buffer.dtype), program(simplify(size), numbers, func)
            continue
        size, filled = E.as_expr(buffer.elem_offset) + 1, E.conjunction(())
        for extent, stride in zip(buffer.shape, buffer.stride_list()):
            size = E.as_expr(size + (E.as_expr(extent) - 1) * stride)
            filled = E.conjunction((filled, E.as_expr(E.as_expr(extent) > 0)))
        yield str(buffer.dtype), program(simplify(E.select(filled, size, 0)), numbers, func)


def _unconditional(stmt: S.Stmt) -> Iterator[S.Stmt]:
    yield stmt
    if not isinstance(stmt, S.If):
        for block in stmt.blocks():
            yield from _unconditional(block)


def program(extent: int | E.Expr, numbers: dict[E.Var, int], func: S.PrimFunc) -> DimExpr:
    """An extent as an int or postfix program over numbered symbols."""
    if isinstance(extent, int):
        return extent

    def leaf(node: E.Expr) -> Program:
        if isinstance(node, E.Var) and node in numbers:
            return (f"${numbers[node]}",)
        if isinstance(node, E.Cast) and not node.type.is_float:
            return program_of(node.value, leaf)
        raise TileUnsupportedError(
            f"kernel {func.name}: the extent `{node!r}` cannot be computed before the launch",
            loc=func.loc,
            expected="integer arithmetic on sizes and scalar parameters",
        )

    tokens = program_of(extent, leaf)
    return tokens[0] if len(tokens) == 1 and isinstance(tokens[0], int) else tokens


def _relevant(body: S.Stmt) -> list[S.Stmt]:
    """The statements, except views of memory that nothing else names."""
    stmts = list(S.walk(body))
    views = {stmt for stmt in stmts if isinstance(stmt, S.View) and stmt.source is None}
    others = [stmt for stmt in stmts if stmt not in views]
    named = {data for stmt in others for data in effects.used(stmt, nested=False)}
    return [stmt for stmt in stmts if stmt not in views or stmt.buffer.data in named]


def _needed(
    func: S.PrimFunc, body: Sequence[S.Stmt], used: set[E.Var], results: Sequence[int]
) -> set[E.Var]:
    """Variables whose values matter: those that the body names, and those in the forms of results
    and of tensors that it uses."""
    variables = set(used)
    buffers = {id(b): b for stmt in body for b in stmt.parts("buffer")}
    for position, param in enumerate(func.params):
        if isinstance(param, Buffer) and (position in results or param.data in used):
            buffers[id(param)] = param
    for buffer in buffers.values():
        for extent in (*buffer.shape, *(buffer.strides or ()), buffer.elem_offset):
            if isinstance(extent, E.Expr):
                variables.update(extent.variables)
    return variables
