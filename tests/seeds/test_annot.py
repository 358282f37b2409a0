"""Every class, attribute and method of the document of ``tilelang.language.v2.annot``."""

from __future__ import annotations

import abc
import inspect
from typing import Any, Generic

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import KernelArgumentError, TileTypeError, TileValueError
from tilelang.ir.buffer import Buffer as IRBuffer
from tilelang.ir.expr import Var
from tilelang.language.v2 import annot
from tilelang.language.v2.builder import Builder

BUFFER_CALL = (
    "shape", "dtype", "data", "strides", "elem_offset", "scope", "align", "offset_factor",
    "buffer_type", "axis_separators",
)  # fmt: skip
STRIDED_CALL = (
    "shape", "strides", "dtype", "data", "elem_offset", "scope", "align", "offset_factor",
    "buffer_type", "axis_separators",
)  # fmt: skip
CREATE = ("name", "value", "vt")

# class -> (documented base or None, {method: parameters without self or cls})
CLASSES: dict[str, tuple[str | None, dict[str, tuple[str, ...]]]] = {
    "Annot": (None, {
        "is_kernel_arg": (), "with_name": ("name",), "get_key_parser": (),
        "create_prim_func_arg": CREATE, "promote": (),
    }),
    "ArgVarTable": (None, {"get_or_create_var": ("name", "dtype"), "create_tmp_name": ()}),
    "Value": ("Annot", {
        "is_kernel_arg": (), "from_value": ("value", "prefer_name"), "with_name": ("name",),
        "get_key_parser": (), "parse_key": ("target",),
        "create_prim_func_arg": (*CREATE, "create_arg"), "__repr__": (),
    }),
    "BufferAnnot": ("Annot", {
        "is_kernel_arg": (), "__call__": BUFFER_CALL, "__getitem__": ("params",),
        "with_name": ("name",), "get_key_parser": (), "parse_key": ("target",),
        "match_shape": ("shape", "target_shape", "vt"), "create_prim_func_arg": CREATE,
        "promote": (),
    }),
    "TensorAnnot": ("BufferAnnot", {"__call__": BUFFER_CALL, "promote": ()}),
    "StridedTensorAnnot": ("BufferAnnot", {"__call__": STRIDED_CALL, "__getitem__": ("params",)}),
    "FragmentBufferAnnot": ("BufferAnnot", {}),
    "SharedBufferAnnot": ("BufferAnnot", {}),
    "LocalBufferAnnot": ("BufferAnnot", {}),
    "DynAnnot": ("Value", {"__call__": ("dtype", "name"), "__getitem__": ("params",)}),
    "DTypeAnnot": ("Annot", {
        "is_kernel_arg": (), "with_name": ("name",), "get_key_parser": (),
        "create_prim_func_arg": CREATE, "__repr__": (),
    }),
    "TIRAnnot": ("Annot", {
        "is_kernel_arg": (), "get_key_parser": (), "create_prim_func_arg": CREATE,
        "with_name": ("name",),
    }),
    "Buffer": (None, {"scope": ()}),
    "FuncAnnot": (None, {
        "from_sig_annots": ("sig", "func_annots"), "create_argument": CREATE,
        "is_all_static": (), "get_all_static_args": (), "get_compile_time_unknown_args": (),
        "parse_key": ("args", "kws"), "convert_to_kernel_args": ("args", "kws"),
    }),
}  # fmt: skip


def parameters(cls: type, method: str) -> tuple[str, ...]:
    function = inspect.getattr_static(cls, method)
    if isinstance(function, (classmethod, staticmethod)):
        names = list(inspect.signature(getattr(cls, method)).parameters)
    else:
        names = list(inspect.signature(function).parameters)[1:]
    return tuple(names)


@pytest.mark.parametrize("name", CLASSES)
def test_the_class_has_its_documented_base(name: str) -> None:
    base = CLASSES[name][0]
    cls = getattr(annot, name)
    assert inspect.isclass(cls)
    if base is not None:
        assert issubclass(cls, getattr(annot, base))


def test_annot_is_abstract() -> None:
    assert issubclass(annot.Annot, abc.ABC)
    abstract = {"with_name", "get_key_parser", "create_prim_func_arg"}
    assert abstract <= annot.Annot.__abstractmethods__
    with pytest.raises(TypeError):
        annot.Annot()  # type: ignore[abstract]  # the refusal is the test

    class Own(annot.Annot):
        """What a program derives, with nothing but the abstract methods."""

        def with_name(self, name: str) -> annot.Annot:
            return self

        def get_key_parser(self) -> Any:
            return lambda value: (value,)

        def create_prim_func_arg(self, name: str, value: Any, vt: Any) -> Any:
            return value

    assert Own().is_kernel_arg() is False and Own().promote() is None
    assert issubclass(annot.Buffer, Generic)  # type: ignore[arg-type]  # a special form to mypy


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, (_, ms) in CLASSES.items() for method in ms]
)
def test_the_method_takes_the_documented_parameters(name: str, method: str) -> None:
    expected = CLASSES[name][1][method]
    found = parameters(getattr(annot, name), method)
    assert found[: len(expected)] == expected
    assert found == expected


@pytest.mark.parametrize("where", [annot.Value, annot.Value()])
def test_values_have_their_documented_defaults(where: Any) -> None:
    assert (where.kind, where.name, where.value, where.creator) == ("dynamic", None, None, None)
    assert where.dtype is None


def test_values_are_named_and_read() -> None:
    unknown, known = annot.Value("static"), annot.Value("static", "k", T.int32, 5)
    assert unknown.with_name("n").name == "n" and known.with_name("n").name == "k"
    keys = [unknown.parse_key(value) for value in (3, 3, 4, "3")]
    assert keys[0] == keys[1] == unknown.get_key_parser()(3) and len({*keys}) == 3
    assert known.get_key_parser()(5) == known.parse_key(5) == ()
    for parse in (known.get_key_parser(), known.parse_key):
        with pytest.raises(KernelArgumentError, match="`k` has the wrong value"):
            parse(4)
    assert annot.Value().get_key_parser()(3) == annot.Value().parse_key(3) == ()


def test_values_create_their_expressions() -> None:
    table = annot.ArgVarTable()
    made = annot.Value("static", "k", creator=lambda: 7).create_prim_func_arg("k", None, table)
    assert made == 7
    wide = annot.Value(dtype=T.int64).create_prim_func_arg("n", None, table)
    assert (wide.name, wide.dtype) == ("n", "int64") and table.var_tab == {"n": wide}
    builder = Builder()
    with builder.prim_func("f"):
        annot.Value(name="m").create_prim_func_arg("m", None, table, False)
        declared = annot.Value(name="s").create_prim_func_arg("s", None, table)
        with T.Kernel(1, threads=32):
            T.sync_threads()
    assert list(table.var_tab) == ["n", "m", "s"] and declared.dtype == "int32"
    assert [param.name for param in builder.get().params] == ["s"]


def test_dynamic_sizes_are_called_and_indexed() -> None:
    assert (T.dyn().kind, T.dyn().dtype, T.dyn().name) == ("dynamic", "float32", None)
    assert (T.dyn("int64", "n").dtype, T.dyn("int64", "n").name) == ("int64", "n")
    assert (T.dyn["K"].kind, T.dyn["K"].name, T.dyn["K"].dtype) == ("dynamic", "K", "int32")
    assert isinstance(T.dyn["K"], annot.DynAnnot) and isinstance(T.dyn["K"], annot.Value)
    inspected = inspect.signature(annot.DynAnnot.__call__).parameters
    assert (inspected["dtype"].default, inspected["name"].default) == ("float32", None)


def test_scope_names_the_storage_scopes() -> None:
    assert hasattr(annot, "Scope")
    assert T.SharedBuffer.scope == "shared.dyn"
    assert T.FragmentBuffer.scope == "local.fragment"
    assert T.LocalBuffer.scope == "local"
    assert T.Tensor((4,), "float32").scope == "global"
    for annotation in (T.SharedBuffer, T.FragmentBuffer, T.LocalBuffer):
        assert annotation((4,), "float32", scope=annotation.scope).scope == annotation.scope
        with pytest.raises(TileValueError, match="of the annotation is not that of its data"):
            annotation((4,), "float32", scope="local.var")


def test_only_what_is_passed_at_launch_is_a_kernel_argument() -> None:
    assert annot.TensorAnnot((4,), None, T.dtype("float32")).is_kernel_arg()
    assert annot.Value(kind="dynamic", name="n", dtype=T.int32, value=None).is_kernel_arg()
    assert not annot.Value(kind="static", name="n", dtype=T.int32, value=3).is_kernel_arg()
    assert not annot.DTypeAnnot("dt").is_kernel_arg()


def test_an_arg_var_table_gives_each_name_one_variable() -> None:
    table = annot.ArgVarTable()
    assert table.var_tab == {} and table.tmp_name_idx == 0
    one = table.get_or_create_var("n", T.int32)
    assert isinstance(one, Var)
    assert table.get_or_create_var("n", T.int32) is one
    assert table.get_or_create_var("m", T.int32) is not one
    assert table.create_tmp_name() != table.create_tmp_name()
    assert table.tmp_name_idx == 2


def test_value_from_value_knows_constants_and_dynamic_sizes() -> None:
    constant = annot.Value.from_value(3)
    assert (constant.kind, constant.value) == ("static", 3)
    unknown = annot.Value.from_value(int, prefer_name="N")
    assert (unknown.kind, unknown.value, repr(unknown)) == ("static", None, "N$")
    dynamic = annot.Value.from_value(T.dyn["K"])
    assert (dynamic.kind, dynamic.name, repr(dynamic)) == ("dynamic", "K", "K$dyn")


def test_promote_gives_a_result_for_fully_static_annotations_only() -> None:
    assert T.Tensor[[4, 8], T.float16].promote() is not None
    assert T.Tensor[[int, 8], T.float16].promote() is None
    assert T.Tensor[[T.dyn, 8], T.float16].promote() is None


def test_annotations_make_parameters_inside_a_function() -> None:
    tensor = T.Tensor[[int, T.dyn["K"]], T.float16].with_name("A")
    table = annot.ArgVarTable()
    with Builder().prim_func("f"):
        made = tensor.create_prim_func_arg("A", np.zeros((4, 8), np.float16), table)
    assert isinstance(made, IRBuffer)
    assert made.name == "A" and made.dtype == "float16"
    assert made.shape[0] == 4 and isinstance(made.shape[1], Var)
    assert table.var_tab["K"] is made.shape[1]


def test_dtype_annotations_convert_every_form() -> None:
    annotation = annot.DTypeAnnot().with_name("A")
    assert annot.DTypeAnnot().name is None and annotation.name == "A"
    forms: list[Any] = ["float32", T.float32, np.float32, np.dtype("float32")]
    for form in forms:
        made = annotation.create_prim_func_arg("A", form, annot.ArgVarTable())
        assert made is T.dtype("float32") and repr(made) == "dtype('float32')"
        assert annotation.get_key_parser()(form) == (T.dtype("float32"),)
    assert repr(annotation) == "A$dtype" and isinstance(annotation, annot.Annot)


def test_dtypes_arrive_converted_in_the_function(capsys: Any) -> None:
    """The document's example, whose first line is a dtype of torch."""
    torch = pytest.importorskip("torch", reason="the example has a dtype of torch")

    @tilelang.lazy_jit(execution_backend="interpret")
    def foo(A: T.dtype):
        print(repr(A))  # noqa: T201  # as the example does
        with T.Kernel(1, threads=32):
            pass

    for form in (torch.float32, T.float32, "float32", torch.float16):
        foo(form)
    # What is compiled already is not traced again.
    assert capsys.readouterr().out == "dtype('float32')\ndtype('float16')\n"


def test_class_attributes_have_their_documented_values() -> None:
    assert annot.ArgVarTable.tmp_name_idx == 0
    for thing in (annot.BufferAnnot, annot.BufferAnnot()):
        assert (thing.shape, thing.strides, thing.dtype) == (None, None, None)


def test_a_dimension_has_one_name() -> None:
    assert T.dyn["n", T.int64].dtype == "int64"
    with pytest.raises(TileTypeError, match="is one dimension, with one name"):
        T.dyn["a", "b"]


def test_a_tensor_has_a_stride_for_each_extent() -> None:
    with pytest.raises(TileValueError, match="different number of extents and strides"):
        T.Tensor((4,), "float32", strides=(1, 2))


def test_arrays_are_read_named_and_fixed() -> None:
    open_shape, fixed = T.Tensor[[int, 8], T.float16], T.Tensor[[4, 8], T.float16]
    assert open_shape.parse_key(np.zeros((4, 8), np.float16)) == (4,)
    assert fixed.parse_key(np.zeros((4, 8), np.float16)) == ()
    named = T.StridedTensor[[int, T.dyn], [int, 1], T.float16].with_name("A")
    assert [item.name for item in named.shape] == ["A_shape_0", "A_shape_1"]
    assert [item.name for item in named.strides] == ["A_stride_0", "A_stride_1"]
    assert [item.value for item in named.strides] == [None, 1]
    promoted = fixed.with_name("A").promote().data
    assert (promoted.name, promoted.dtype, promoted.shape) == ("A", "float16", (4, 8))


def test_a_fixed_parameter_has_no_key() -> None:
    parse = annot.TIRAnnot(Var("n", T.int32)).get_key_parser()
    assert parse(1) == parse("two") == ()


def test_functions_know_their_static_arguments_and_make_the_others() -> None:
    def f(A: Any, k: Any) -> None: ...

    known = annot.Value("static", "k", T.int32, 5)
    func = annot.FuncAnnot.from_sig_annots(
        inspect.signature(f), {"A": T.Tensor[[4, 8], T.float16], "k": known}
    )
    static = func.get_all_static_args()
    assert static["k"] == 5 and static["A"].shape == (4, 8) and func.is_all_static()
    with Builder().prim_func("f"):
        made = func.create_argument("A", np.zeros((4, 8), np.float16), annot.ArgVarTable())
    assert (made.name, made.shape) == ("A", (4, 8))


def _function_annotations() -> Any:
    def f(A: Any, n: Any, block: int = 64) -> None: ...

    return annot.FuncAnnot.from_sig_annots(
        inspect.signature(f), {"A": T.Tensor[[int, T.dyn], T.float16], "n": T.int32, "block": int}
    )


def test_func_annot_makes_keys_and_kernel_arguments() -> None:
    func = _function_annotations()
    assert list(func.sig.parameters) == list(func.annots) == list(func.arg_parser)
    assert func.sig.parameters["block"].default == 64
    assert list(func.arg_names) == ["A", "n", "block"]
    assert list(func.ker_arg_names) == ["A", "n"]
    a, b = np.zeros((4, 8), np.float16), np.zeros((4, 9), np.float16)
    assert func.parse_key(a, 3) == func.parse_key(b, 4, 64) == func.parse_key(A=a, n=5, block=64)
    assert func.parse_key(a, 3) != func.parse_key(a, 3, 32)
    assert func.parse_key(a, 3) != func.parse_key(np.zeros((5, 8), np.float16), 3)
    converted = func.convert_to_kernel_args(a, 3)
    values = list(converted.values()) if isinstance(converted, dict) else list(converted)
    assert values[0] is a and values[1] == 3 and len(values) == 2
    assert not func.is_all_static()
    assert "A" in str(func.get_compile_time_unknown_args())
