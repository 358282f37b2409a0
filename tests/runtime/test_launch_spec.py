"""From a traced function to its launch signature."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.codegen.symbols import symbols_of
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype
from tilelang.ir.tables import portable
from tilelang.runtime.launch_spec import launch_spec
from tilelang.runtime.signature import Symbol, pointer, scalar, tensor

m, n = E.Var("m", dtype("int32")), E.Var("n", dtype("int64"))


def buffer(name: str, *shape: object, strides: tuple[int | E.Expr, ...] | None = None) -> Buffer:
    return Buffer(name, Shape(shape), dtype("float32"), strides=strides)


def store(target: Buffer, source: Buffer) -> S.Stmt:
    zero = (E.const(0),)
    value = E.Load(source, zero * source.ndim)
    return S.Store(buffer=target, indices=zero * target.ndim, value=value)


def test_parameters_in_order_with_programs_for_sizes() -> None:
    a, c = buffer("A", m * 4, 8), buffer("C", m, n, strides=(n * 2, 1))
    x, p = E.Var("x", dtype("float16")), E.Var("p", dtype("handle"))
    func = S.PrimFunc("f", (a, x, c, p), store(c, a))
    spec = launch_spec(func, messages=("no",))
    assert symbols_of(func) == (m, n)
    assert spec.params == (
        tensor("A", "float32", (("$0", 4, "mul"), 8)),
        scalar("x", "float16"),
        tensor("C", "float32", (("$0",), ("$1",)), (("$1", 2, "mul"), 1), written=True),
        pointer("p"),
    )
    assert spec.symbols == (Symbol("m", "int32"), Symbol("n", "int64"))
    assert (spec.name, spec.returns, spec.messages) == ("f", "none", ("no",))


def test_scalar_parameter_in_a_shape_is_no_free_symbol() -> None:
    a = buffer("A", m, n)
    spec = launch_spec(S.PrimFunc("f", (a, n), store(a, a)))
    assert spec.symbols == (Symbol("m", "int32"), Symbol("n", "int64", 1))
    assert spec.params[1] == scalar("n", "int64", 1)
    assert spec.free_symbols == (0,)


def test_tensor_the_body_does_not_use_may_be_none() -> None:
    a, b, c = buffer("A", 4), buffer("B", 4), buffer("C", 4)
    spec = launch_spec(S.PrimFunc("f", (a, b, c), store(c, a), outputs=(2,)))
    assert [param.nullable for param in spec.params] == [False, True, False]
    assert [param.written for param in spec.params] == [False, False, True]
    assert (spec.outputs, spec.returns, spec.inputs) == ((2,), "one", (0, 1))


def test_symbol_that_nothing_needs_is_noted() -> None:
    a, b, c = buffer("A", m), buffer("B", m), buffer("C", n)
    func = S.PrimFunc("f", (a, b, c), store(c, c))
    assert launch_spec(func).symbols == (Symbol("m", used=False), Symbol("n", "int64"))
    # A tensor that the body uses, a result, or the body itself needs the extents.
    assert launch_spec(S.PrimFunc("f", (a, b, c), store(c, a))).symbols[0].used
    assert launch_spec(func, (1,)).symbols[0].used
    at_m = S.Store(buffer=c, indices=(m,), value=E.const(1.0))
    assert launch_spec(S.PrimFunc("f", (a, b, c), at_m)).symbols[0].used


def test_every_integer_operator_becomes_a_program() -> None:
    size = E.select(m > 3, -m, E.binary("min", m // 2, m % 5))
    spec = launch_spec(S.PrimFunc("f", (buffer("A", m), buffer("B", size)), S.Seq(stmts=())))
    program = spec.params[1].shape[0]
    from tilelang.ir.postfix import evaluate

    for value in range(9):
        wanted = -value if value > 3 else min(value // 2, value % 5)
        assert evaluate(program, (value,)) == wanted


def test_size_read_from_memory_is_refused() -> None:
    sizes = Buffer("sizes", Shape((1,)), dtype("int32"))
    bad = buffer("B", E.Load(sizes, (E.const(0),)))
    with pytest.raises(TileUnsupportedError) as found:
        launch_spec(S.PrimFunc("f", (sizes, bad), S.Seq(stmts=())))
    assert "cannot be computed before the launch" in str(found.value)


def test_a_size_without_an_argument_is_refused() -> None:
    func = S.PrimFunc("f", (buffer("C", m),), S.Seq(stmts=()), outputs=(0,))
    with pytest.raises(TileValueError, match="kernel f: no argument determines the value of m"):
        launch_spec(func)


def test_what_external_calls_get_the_address_of_is_written() -> None:
    def called(*args: E.Expr) -> S.Stmt:
        return S.Eval(
            value=E.Call(portable("call_extern"), (E.StringImm("f"), *args), dtype("void"))
        )

    a, b, c, d = buffer("A", 4), buffer("B", 4), buffer("C", 4), buffer("D", 4)
    zero = (E.const(0),)
    body = S.seq(
        called(E.AddressOf(a, zero), E.AddressOf(b, zero, "r")),
        S.Let(var=E.Var("p", dtype("handle")), value=E.AddressOf(c, zero)),
        called(d.data),
    )
    spec = launch_spec(S.PrimFunc("f", (a, b, c, d), body))
    assert [param.written for param in spec.params] == [True, False, True, True]
    assert not any(param.nullable for param in spec.params)


def test_a_tensor_of_which_only_an_unused_view_is_made_may_be_none() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def program(W: T.Tensor((m, 4), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            T.reshape(W, (m * 4,))
            for i in T.Parallel(32):
                B[i] = 1.0

    @T.prim_func
    def reader(W: T.Tensor((m, 4), "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            flat = T.reshape(W, (m * 4,))
            for i in T.Parallel(32):
                B[i] = flat[0]

    assert [param.nullable for param in launch_spec(program).params] == [True, False]
    assert not any(symbol.used for symbol in launch_spec(program).symbols)
    assert [param.nullable for param in launch_spec(reader).params] == [False, False]
