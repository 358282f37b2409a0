"""Source code of a function as an AST, from files, notebooks and the REPL.

The whole module text is parsed and the function is found by its first line and name. Nothing is
dedented, so continuation lines, decorators and multi-line strings cannot break it, and every node
keeps the line and column of the user's file.

The interactive interpreter keeps what was typed from Python 3.13 on; before that the lines are
taken from the history of ``readline``.
"""

from __future__ import annotations

import ast
import linecache
import sys
import zlib
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from tilelang.errors import Loc, TileSyntaxError

_MAX_TYPED = 500  # lines of history looked at


@lru_cache(maxsize=64)
def _parse(text: str, filename: str) -> ast.Module:
    return ast.parse(text, filename)


def _first_line(node: ast.AST) -> int:
    """Line of the first decorator, or of ``def``: what ``co_firstlineno`` holds."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([decorator.lineno for decorator in decorators] + [node.lineno])  # type: ignore[attr-defined]  # a def or class


def _enclosing_stmts(module: ast.Module, line: int, inside: bool) -> Iterator[ast.AST]:
    """The statements around a line; with ``inside`` also all that is in them."""
    todo: list[Any] = list(module.body)
    while todo:
        node = todo.pop()
        end = getattr(node, "end_lineno", None)  # a case of `match` has no lines
        if hasattr(node, "lineno") and (
            _first_line(node) > line or (end is not None and line > end)
        ):
            continue
        if inside:
            yield from ast.walk(node)
            continue
        yield node
        for key in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo.extend(reversed(getattr(node, key, ())))


def argument_names(arguments: ast.arguments) -> tuple[str, ...]:
    """Parameter names in the order of ``co_varnames``."""
    names = [
        argument.arg
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    names.extend(
        argument.arg for argument in (arguments.vararg, arguments.kwarg) if argument is not None
    )
    return tuple(names)


def _as_function(node: ast.Lambda) -> ast.FunctionDef:
    """``lambda args: e`` written as ``def``."""
    body = ast.copy_location(ast.Return(value=node.body), node.body)
    return ast.copy_location(new_function("<lambda>", node.args, body), node)


def _is_same_code(node: ast.Lambda, fn: FunctionType) -> bool:
    """Whether ``node`` is the lambda ``fn``, where a line holds several with equal parameters."""
    compiled = compile(ast.Expression(node), fn.__code__.co_filename, "eval").co_consts[0]
    code = fn.__code__
    names = code.co_names + code.co_freevars
    return bool(
        set(compiled.co_names) == set(names)
        and compiled.co_consts == code.co_consts
        and len(compiled.co_code) == len(code.co_code)
    )


def new_function(name: str, arguments: ast.arguments, body: ast.stmt) -> ast.FunctionDef:
    """A ``def`` node without a position."""
    newer: dict[str, Any] = {}
    if "type_params" in ast.FunctionDef._fields:  # Python 3.12
        newer["type_params"] = []
    return ast.FunctionDef(
        name=name, args=arguments, body=[body], decorator_list=[], returns=None, **newer
    )


def _has_same_lines(a: CodeType, b: CodeType) -> bool:
    return a.co_name == b.co_name and list(a.co_lines()) == list(b.co_lines())


def _typed_lines(fn: FunctionType) -> list[str]:
    """Source of a function typed at the prompt: the last lines that compile to its code."""
    history: Any = sys.modules.get("readline")
    code = fn.__code__
    if history is None or code.co_filename != "<stdin>":
        return []
    count = history.get_current_history_length()
    lines: list[str] = []
    for number in range(count, max(0, count - _MAX_TYPED), -1):
        lines.insert(0, (history.get_history_item(number) or "") + "\n")
        try:
            module = compile("".join(lines), "<stdin>", "exec", dont_inherit=True)
        except SyntaxError:
            continue
        codes = [constant for constant in module.co_consts if isinstance(constant, CodeType)]
        if any(_has_same_lines(constant, code) for constant in codes):
            return lines
    return []


def _no_source(fn: FunctionType) -> TileSyntaxError:
    return TileSyntaxError(
        f"the source of `{fn.__name__}` is not available",
        expected="a function written in a file, a notebook or a REPL that keeps its input",
        got=f"code from {fn.__code__.co_filename!r}",
        hint="put the kernel into a .py file; for generated text add it to `linecache.cache` "
        "under the file name it is compiled with",
    )


def function_node(fn: FunctionType) -> tuple[ast.FunctionDef, str]:
    """The syntax tree of ``fn`` and the name its lines are filed under in ``linecache``.

    The tree is shared, so copy it before changing it.

    Raises:
        TileSyntaxError: the source cannot be found, or ``fn`` is ``async``.
    """
    code = fn.__code__
    filename, first = code.co_filename, code.co_firstlineno
    linecache.checkcache(filename)
    lines = linecache.getlines(filename, fn.__globals__)
    if not lines:
        lines = _typed_lines(fn)
        filename = f"<stdin {zlib.crc32(''.join(lines).encode()):08x}>" if lines else filename
        if lines:  # every statement typed starts at line 1, so each is a file of its own
            linecache.cache[filename] = (len(lines), None, lines, filename)
    if not lines:
        raise _no_source(fn)
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    arguments = code.co_varnames[:count]
    functions: list[ast.FunctionDef] = []
    lambdas: list[ast.Lambda] = []
    module = _parse("".join(lines), filename)
    for node in _enclosing_stmts(module, first, code.co_name == "<lambda>"):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            if node.lineno == first and argument_names(node.args) == arguments:
                lambdas.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if node.name != code.co_name or _first_line(node) != first:
                continue
            if isinstance(node, ast.AsyncFunctionDef):
                loc = Loc(filename, node.lineno, node.col_offset, function=fn.__name__)
                raise TileSyntaxError(
                    f"`async def {fn.__name__}` cannot be a kernel", loc=loc, hint="write `def`"
                )
            if argument_names(node.args) == arguments:
                functions.append(node)
    if len(lambdas) > 1:
        lambdas = [node for node in lambdas if _is_same_code(node, fn)]
    functions.extend(_as_function(node) for node in lambdas)
    if not functions:
        if filename == "<string>":  # the text of `python -c` has this name, too, since Python 3.13
            raise _no_source(fn)
        raise TileSyntaxError(
            f"the source of `{fn.__name__}` has changed since it was loaded",
            expected=f"`def {fn.__name__}` at line {first} of {filename}",
            hint="reload the module",
        )
    return functions[0], filename
