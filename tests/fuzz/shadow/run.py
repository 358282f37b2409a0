"""Runs the text of a program: one Python function for each kernel, called for each block."""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from .tiles import TILE_WORDS, Tile, counted, persistent, product, region, reshape, view
from .values import FLOAT_DIGITS, INT_BITS, Scalar, converted, dtype_of, joint, plain, scalar

COLLECTIVE = {"shfl_xor", "shfl_down", "shfl_up", "shfl_sync"}
LOOPS = {"serial", "unroll", "vectorized", "Pipelined"}


class NotShadowed(Exception):
    """The program uses something that is not written out here."""


class Dtype(str):
    """``T.int32``: a name that converts numbers."""

    def __call__(self, value: Any = 0) -> Scalar:
        return scalar(value, str(self))


# -- words on numbers --------------------------------------------------------------------------------
def _extreme(pick: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Scalar]:
    def extreme(a: Any, b: Any) -> Scalar:
        dtype = joint(a, b)
        first, second = plain(a, dtype), plain(b, dtype)
        if first != first or second != second:  # the number of the two, if there is one
            return Scalar(second if first != first else first, dtype)
        return Scalar(pick(first, second), dtype)

    return extreme


def _select(condition: Any, yes: Any, no: Any) -> Scalar:
    dtype = joint(yes, no)
    return Scalar(plain(yes if condition else no, dtype), dtype)


def _float(function: Callable[[float], float]) -> Callable[[Any], Scalar]:
    def apply(value: Any) -> Scalar:
        number = scalar(value)
        try:
            found = function(number.v)
        except OverflowError:
            found = math.inf
        except ValueError:
            found = math.nan
        return Scalar(converted(found, number.d), number.d)

    return apply


def _whole(function: Callable[[float], int]) -> Callable[[float], float]:
    def apply(value: float) -> float:
        return math.copysign(float(function(value)), value) if math.isfinite(value) else value

    return apply


EXTERN = {
    "fabsf": _float(abs), "floorf": _float(_whole(math.floor)), "ceilf": _float(_whole(math.ceil)),
    "truncf": _float(_whole(math.trunc)),
}  # fmt: skip
WORDS: dict[str, Any] = {
    "max": _extreme(max), "min": _extreme(min), "if_then_else": _select, "Select": _select,
    "cast": lambda value, dtype: scalar(value, str(dtype)),
    "Cast": lambda dtype, value: scalar(value, str(dtype)),
    "abs": _float(abs), "floor": _float(_whole(math.floor)), "ceil": _float(_whole(math.ceil)),
    "trunc": _float(_whole(math.trunc)), "exp": _float(math.exp), "exp2": _float(lambda x: 2.0**x),
    "sqrt": _float(math.sqrt), "rsqrt": _float(lambda x: 1 / math.sqrt(x)),
    "sigmoid": _float(lambda x: 1 / (1 + math.exp(-x))), "tanh": _float(math.tanh),
    "sin": _float(math.sin), "cos": _float(math.cos), "log": _float(math.log),
    "erf": _float(math.erf),
    "isnan": lambda x: Scalar(x.v != x.v, "bool"),
    "And": lambda a, b: Scalar(bool(a) and bool(b), "bool"),
    "Or": lambda a, b: Scalar(bool(a) or bool(b), "bool"),
    "Not": lambda a: Scalar(not bool(a), "bool"),
    "ceildiv": lambda a, b: -(-a // b), "call_extern": lambda dtype, name, *args: EXTERN[name](*args),
    "infinity": lambda dtype: Scalar(math.inf, str(dtype)),
    "max_value": lambda dtype: Scalar(2 ** (INT_BITS[str(dtype)] - 1) - 1, str(dtype)),
    "min_value": lambda dtype: Scalar(-(2 ** (INT_BITS[str(dtype)] - 1)), str(dtype)),
    "clamp": lambda x, low, high: x if x.v != x.v else WORDS["min"](WORDS["max"](x, low), high),
    "alloc_fragment": Tile.new, "alloc_local": Tile.new, "alloc_shared": Tile.new,
    "alloc_reducer": lambda shape, dtype, **rest: Tile.new(shape, dtype),
    "alloc_var": lambda dtype, init=0: scalar(init, str(dtype)),
    "reshape": reshape, "view": view, "region": region, "Parallel": product, "grid": product,
    "Persistent": persistent, **dict.fromkeys(LOOPS, counted), **TILE_WORDS,
    **{name: Dtype(name) for name in (*FLOAT_DIGITS, *INT_BITS)},
}  # fmt: skip
SILENT = {
    "use_swizzle", "annotate_layout", "finalize_reducer", "Fragment", "Layout", "swizzled",
    "padded", "GemmWarpPolicy", "assume", "fence_proxy_async",
}  # fmt: skip


class Words:
    """The replacement of ``T``."""

    def __getattr__(self, name: str) -> Any:
        if name in WORDS:
            return WORDS[name]
        if name in SILENT:
            return _Anything()
        raise NotShadowed(f"T.{name}")


class _Anything:
    def __call__(self, *args: Any, **rest: Any) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return self


# -- from the program's text to Python ---------------------------------------------------------------
def _word(node: ast.AST) -> str | None:
    """The word of a call ``T.word(...)``."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="T"), attr=name)):
            return name
    return None


class _Rewrite(ast.NodeTransformer):
    """Variables keep their dtype, operands of tile words are regions, threads wait at barriers."""

    def __init__(self, per_thread: bool) -> None:
        self.per_thread = per_thread
        self.variables: set[str] = set()

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        is_new = _word(node.value) == "alloc_var"
        node.value = self.visit(node.value)
        if isinstance(target, ast.Name):
            if is_new:
                self.variables.add(target.id)
            elif target.id in self.variables:
                node.value = _call("__keep", ast.Name(target.id, ast.Load()), node.value)
            return node
        node.targets = [self.visit(one) for one in node.targets]
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        node.value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            old = ast.Name(node.target.id, ast.Load())
            value: ast.expr = ast.BinOp(old, node.op, node.value)
            if node.target.id in self.variables:
                value = _call("__keep", old, value)
            return ast.Assign([ast.Name(node.target.id, ast.Store())], value)
        node.target = self.visit(node.target)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = _word(node)
        if name in TILE_WORDS:
            node.args = [self._operand(arg) for arg in node.args]
            return node
        self.generic_visit(node)
        if self.per_thread and name == "get_thread_binding":
            return ast.Name("__thread", ast.Load())
        if self.per_thread and name in ("alloc_shared", "alloc_fragment", "alloc_reducer"):
            return _call("__shared", ast.Constant(node.lineno), ast.Constant(name), *node.args[:2])
        if self.per_thread and name in COLLECTIVE:
            return ast.Yield(ast.Tuple([ast.Constant(name), *node.args], ast.Load()))
        return node

    def _operand(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Subscript):
            index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            parts = [self._part(one) for one in index]
            return ast.Call(
                ast.Attribute(ast.Name("T", ast.Load()), "region", ast.Load()),
                [node.value, *parts], [],
            )  # fmt: skip
        visited: ast.expr = self.visit(node)
        return visited

    def _part(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Slice):
            visited: ast.expr = self.visit(node)
            return visited
        ends = [ast.Constant(None) if end is None else self.visit(end)
                for end in (node.lower, node.upper)]  # fmt: skip
        return _call("slice", *ends)

    def visit_Expr(self, node: ast.Expr) -> Any:
        name = _word(node.value)
        if self.per_thread and name == "sync_threads":
            return ast.Expr(ast.Yield(None))
        tile_word = name in TILE_WORDS and not self._of_one_thread(node.value)
        self.generic_visit(node)
        return self._by_one(node) if self.per_thread and tile_word else node

    @staticmethod
    def _of_one_thread(call: ast.expr) -> bool:
        """Whether this is an atomic update of one element."""
        name = _word(call) or ""
        return name.startswith("atomic_") and isinstance(call, ast.Call) and (
            not isinstance(call.args[1], ast.Name) or not call.args[1].id.startswith("t")
        )  # fmt: skip

    def visit_For(self, node: ast.For) -> Any:
        parallel = _word(node.iter) == "Parallel"
        inner = _Rewrite(False) if parallel else self
        inner.variables = self.variables
        node.iter = self.visit(node.iter)
        node.body = [made for stmt in node.body for made in _listed(inner.visit(stmt))]
        return self._by_one(node) if parallel and self.per_thread else node

    @staticmethod
    def _by_one(node: ast.stmt) -> list[ast.stmt]:
        """A statement of the whole block, done by thread 0 while the others wait."""
        first = ast.Compare(ast.Name("__thread", ast.Load()), [ast.Eq()], [ast.Constant(0)])
        wait = ast.Expr(ast.Yield(None))
        return [wait, ast.If(first, [node], []), ast.Expr(ast.Yield(None))]


def _listed(made: Any) -> list[Any]:
    return made if isinstance(made, list) else [made]


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


@lru_cache(maxsize=8)
def _kernels(source: str) -> list[tuple[list[str], ast.With, bool]]:
    """Names of the block indices, the kernel, whether its statements are those of one thread."""
    tree = ast.parse(source)
    main = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "main")
    found = []
    for node in main.body:
        if not isinstance(node, ast.With) or _word(node.items[0].context_expr) != "Kernel":
            raise NotShadowed(type(node).__name__)
        names = node.items[0].optional_vars
        bound = [n.id for n in ast.walk(names) if isinstance(n, ast.Name)] if names else []
        words = {_word(n) for n in ast.walk(node)}
        found.append((bound, node, "get_thread_binding" in words))
    return found


def _macros(source: str, space: dict[str, Any]) -> None:
    """Define the macros of the program as functions."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name != "main":
            made = _Rewrite(False)
            node.decorator_list = []
            node.body = [stmt for old in node.body for stmt in _listed(made.visit(old))]
            module = ast.fix_missing_locations(ast.Module([node], []))
            exec(compile(module, "<shadow>", "exec"), space)  # noqa: S102


def _compiled(names: list[str], node: ast.With, per_thread: bool) -> Any:
    rewrite = _Rewrite(per_thread)
    node = ast.parse(ast.unparse(node)).body[0]  # type: ignore[assignment]  # a copy
    body = [made for stmt in node.body for made in _listed(rewrite.visit(stmt))]
    extra = ["__thread", "__shared"] if per_thread else []
    arguments = ast.arguments([], [ast.arg(n) for n in [*names, *extra]], None, [], [], None, [])
    if per_thread:
        body = [*body, ast.Expr(ast.Yield(None))]
    function = ast.FunctionDef("block", arguments, body, [], None)
    if hasattr(function, "type_params"):
        function.type_params = []
    module = ast.Module([function], [])
    return compile(ast.fix_missing_locations(module), "<shadow>", "exec")


# -- running -----------------------------------------------------------------------------------------
def _keep(old: Any, value: Any) -> Scalar:
    dtype = dtype_of(old)
    return Scalar(plain(value, dtype), dtype)


class _Block:
    """Memory of one block whose threads run one after the other between barriers."""

    def __init__(self) -> None:
        self.tiles: dict[int, Tile] = {}

    def shared(self, line: int, word: str, shape: Any, dtype: Any) -> Tile:
        if line not in self.tiles:
            self.tiles[line] = Tile.new(shape, dtype)
        return self.tiles[line]


def _lockstep(threads: list[Iterator[Any]]) -> None:
    """Run until all threads end; values are exchanged where all threads of a warp ask for it."""
    answers: list[Any] = [None] * len(threads)
    alive = dict(enumerate(threads))
    started: set[int] = set()
    while alive:
        asked: dict[int, Any] = {}
        for lane in list(alive):
            try:
                if lane in started:
                    asked[lane] = alive[lane].send(answers[lane])
                else:
                    started.add(lane)
                    asked[lane] = next(alive[lane])
            except StopIteration:
                del alive[lane]
        answers = [None] * len(threads)
        for lane, request in asked.items():
            if request is not None:
                answers[lane] = _exchanged(lane, request, asked)


def _exchanged(lane: int, request: Any, asked: Mapping[int, Any]) -> Any:
    word, value, by = request[0], request[1], int(request[2])
    place = lane % 32
    if word == "shfl_sync":
        value, by = request[2], int(request[3])
        other = by % 32
    else:
        other = {"shfl_xor": place ^ by, "shfl_down": place + by, "shfl_up": place - by}[word]
    if not 0 <= other < 32:
        return value
    theirs = asked.get(lane - place + other)
    return value if theirs is None else theirs[2 if word == "shfl_sync" else 1]


def shadow_results(
    source: str, arguments: Mapping[str, Any], results: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """Contents of the tensors named in ``results`` (name to dtype) after the program ran.

    ``arguments`` has a :class:`Tile` for each tensor and a :class:`Scalar` for each number,
    dynamic extents included. Raises :class:`NotShadowed`.
    """
    space: dict[str, Any] = {"T": Words(), "range": counted, "__keep": _keep, **arguments}
    _macros(source, space)
    for names, node, per_thread in _kernels(source):
        exec(_compiled(names, node, per_thread), space)  # noqa: S102
        block = space["block"]
        call = node.items[0].context_expr
        assert isinstance(call, ast.Call)
        extents = [eval(ast.unparse(arg), space) for arg in call.args]  # noqa: S307
        keywords = {k.arg: k.value for k in call.keywords}
        kinds = [joint(0, extent) for extent in extents]  # 64 bits where the extent has them
        for index in itertools.product(*(range(int(n)) for n in extents)):
            blocks = [Scalar(i, kind) for i, kind in zip(index, kinds, strict=True)]
            if not per_thread:
                block(*blocks)
                continue
            count = int(eval(ast.unparse(keywords["threads"]), space))  # noqa: S307
            memory = _Block()
            _lockstep([block(*blocks, scalar(t), memory.shared) for t in range(count)])
    return {name: arguments[name].data for name in results}
