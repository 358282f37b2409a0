"""Text, locations, builtin bases and pickling of the exception tree; the environment module."""

from __future__ import annotations

import ast
import linecache
import pickle
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang import env as env_module, errors
from tilelang.env import env
from tilelang.errors import (
    InternalError,
    Loc,
    TileError,
    TileTypeError,
    TileValueError,
    assert_never,
    at,
    internal_boundary,
    shown,
)


@pytest.fixture
def source() -> Iterator[str]:
    """A file that exists only in linecache, as a notebook cell does."""
    name = "<cell 1>"
    lines = [
        "def kernel(A):", "    T.copy(A[0], B)", "\tx =\tA[i]", '    s = "漢字" + bad',
        "    y = é + bad", "    z = f(", "        1)",
    ]  # fmt: skip
    linecache.cache[name] = (1, None, [f"{line}\n" for line in lines], name)
    yield name
    del linecache.cache[name]


def test_the_whole_text_of_an_error(source: str) -> None:
    loc = Loc(source, 2, 4, 2, 19, "kernel")
    error = TileTypeError(
        "the source is not a buffer", loc=loc, expected="a buffer", got=3, hint="use T.fill"
    )
    assert str(error) == (
        "the source is not a buffer\n"
        "  expected: a buffer\n"
        "  got: 3\n"
        "  hint: use T.fill\n"
        " --> <cell 1>:2:5\n"
        "    2 |     T.copy(A[0], B)\n"
        "      |     ^^^^^^^^^^^^^^^"
    )


def test_lines_of_a_long_hint_are_aligned() -> None:
    assert str(TileError("m", hint="one\ntwo")) == "m\n  hint: one\n        two"


def test_carets_align_under_tabs_wide_and_accented_characters(source: str) -> None:
    tabs = Loc(source, 3, 5, 3, 9)
    assert tabs.render() == (" --> <cell 1>:3:6\n    3 |     x = A[i]\n      |         ^^^^")
    wide = Loc(
        source, 4, 4 + len('s = "漢字" + '.encode()), 4, 4 + len('s = "漢字" + bad'.encode())
    )
    lines = wide.render().splitlines()
    assert lines[0] == " --> <cell 1>:4:16"
    assert lines[2] == "      | " + " " * 17 + "^^^"  # two characters of two columns each
    accent = Loc(source, 5, 4 + len("y = é + ".encode()), 5, 4 + len("y = é + bad".encode()))
    assert accent.render().splitlines()[2] == "      | " + " " * 12 + "^^^"


def test_a_span_of_several_lines_is_marked_to_the_end_of_the_first(source: str) -> None:
    assert Loc(source, 6, 8, 7, 10).render().splitlines()[2] == "      |         ^^"


def test_without_column_or_file_less_is_shown(source: str) -> None:
    assert Loc(source, 2).render() == " --> <cell 1>:2\n    2 |     T.copy(A[0], B)"
    assert Loc("no such file.py", 7, 3).render() == " --> no such file.py:7:4"


def test_the_call_chain_of_a_macro_is_shown(source: str) -> None:
    outer = Loc(source, 2, 4, 2, 10, "kernel")
    inner = Loc(source, 6, 4, 6, 5, "load", call_site=outer)
    assert inner.render() == (
        " --> <cell 1>:6:5\n"
        "    6 |     z = f(\n"
        "      |     ^\n"
        "  in expansion of macro `load` called at <cell 1>:2:5\n"
        "    2 |     T.copy(A[0], B)\n"
        "      |     ^^^^^^"
    )


def test_a_deep_call_chain_is_shortened() -> None:
    loc = Loc("f.py", 1, function="f")
    for line in range(2, 32):
        loc = Loc("f.py", line, function="f", call_site=loc)
    lines = loc.render().splitlines()
    assert len(lines) == 1 + 8 + 1 + 2
    assert lines[9] == "  ... 20 more calls ..."
    assert lines[-1].endswith("called at f.py:1")


def test_locations_of_ast_nodes_and_frames() -> None:
    node = ast.parse("f(1)").body[0]
    loc = Loc.of_node(node, "f.py", line_offset=10, col_offset=4, function="g")
    assert loc == Loc("f.py", 11, 4, 11, 8, "g")
    here = Loc.of_frame(sys._getframe())
    assert here.file == __file__ and here.function == "test_locations_of_ast_nodes_and_frames"
    assert "of_frame" in (here.source() or "")
    if hasattr(sys._getframe().f_code, "co_positions"):  # Python 3.11 and later
        text = (here.source() or "")[here.col : here.end_col]
        assert text == "Loc.of_frame(sys._getframe())"


def test_the_drawing_names_every_class_under_its_parent() -> None:
    stack: list[str] = []
    drawn: dict[str, str] = {}
    builtins: dict[str, set[str]] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = line.replace("│", " ").replace("├──", "   ").replace("└──", "   ")
        if "──" in line:
            depth = (len(name) - len(name.lstrip())) // 4 - 1
            stack[depth - 1 :] = [name.split()[0]]
            drawn[stack[-1]] = stack[-2] if depth > 1 else "Exception"
            given = re.search(r"\(([A-Za-z, ]+Error)\)", line)
            builtins[stack[-1]] = set(given[1].split(", ")) if given else set()
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, TileError)]
    assert drawn == {kind.__name__: kind.__bases__[0].__name__ for kind in kinds}
    assert builtins == {
        kind.__name__: {b.__name__ for b in kind.__bases__[1:] if b.__module__ == "builtins"}
        for kind in kinds
    }


def all_kinds(kind: type[TileError] = TileError) -> list[type[TileError]]:
    own = [kind, *(k for sub in kind.__subclasses__() for k in all_kinds(sub))]
    return [k for k in own if k.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", all_kinds())
def test_pickling_keeps_the_text_even_without_the_source(
    kind: type[TileError], source: str
) -> None:
    error = kind("m", loc=Loc(source, 2, 4, 2, 10), expected="a", got="b", hint="c")
    text = str(error)
    data = pickle.dumps(error)
    saved = linecache.cache.pop(source)
    again = pickle.loads(data)
    linecache.cache[source] = saved
    assert type(again) is kind and str(again) == text and again.args == ("m",)
    assert again.loc == error.loc and again.hint == "c"
    assert str(pickle.loads(pickle.dumps(again))) == text


def test_the_innermost_location_attaches_itself() -> None:
    inner, outer = Loc("f.py", 1), Loc("f.py", 2)
    with pytest.raises(TileError) as caught, at(outer), at(inner), at(None):
        raise TileError("m")
    assert caught.value.loc is inner
    own = Loc("g.py", 3)
    with pytest.raises(TileError) as caught, at(outer):
        raise TileError("m", loc=own)
    assert caught.value.loc is own
    with pytest.raises(KeyError), at(outer):
        raise KeyError("other exceptions pass")


def test_an_unexpected_exception_becomes_an_internal_error() -> None:
    with pytest.raises(InternalError) as caught, internal_boundary("pass `p`", Loc("f.py", 4)):
        raise KeyError("missing")
    assert str(caught.value) == (
        "internal error in pass `p`: KeyError: 'missing'\n"
        "  hint: this is a bug of tilelang; please report it with the kernel and the traceback\n"
        " --> f.py:4"
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_node_without_a_case_is_a_bug() -> None:
    with pytest.raises(InternalError, match=r"^no case for the node int$"):
        assert_never(3)


def test_the_internal_boundary_lets_users_errors_and_interrupts_pass() -> None:
    loc = Loc("f.py", 4)
    with pytest.raises(TileTypeError) as caught, internal_boundary("pass", loc):
        raise TileTypeError("m")
    assert caught.value.loc is loc
    for kind in (KeyboardInterrupt, MemoryError, UserWarning):
        with pytest.raises(kind), internal_boundary("pass"):
            raise kind


def test_environment_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in env_module._READERS:
        monkeypatch.delenv(name, raising=False)
    for name in ("CUDA_PATH", "ROCM_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert Path(env.TILELANG_CACHE_DIR) == Path.home() / ".cache" / "tilelang-python"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert Path(env.TILELANG_CACHE_DIR) == Path("/elsewhere/tilelang-python")
    assert Path(env.TILELANG_TMP_DIR) == Path(tempfile.gettempdir())
    assert (env.TILELANG_DEFAULT_TARGET, env.TILELANG_EXECUTION_BACKEND) == ("auto", "auto")
    assert not env.TILELANG_DISABLE_CACHE and not env.TILELANG_VERBOSE
    assert env.CUDA_HOME is None and env.get_default_target() == "auto"


def test_environment_is_read_at_access(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", "/opt/cuda")
    monkeypatch.setenv("TILELANG_VERBOSE", "Yes")
    assert env.TILELANG_CACHE_DIR == str(tmp_path) and env.CUDA_HOME == "/opt/cuda"
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "tmp"))
    assert env_module.TILELANG_TMP_DIR == str(tmp_path / "tmp")
    assert env.TILELANG_VERBOSE is True
    monkeypatch.setattr(env, "TILELANG_CACHE_DIR", "elsewhere", raising=False)
    assert env.TILELANG_CACHE_DIR == "elsewhere"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TILELANG_VERBOSE", "maybe", "is not a switch\n  expected: 0 or 1\n  got: 'maybe'"),
        ("TILELANG_NUM_THREADS", "two", "is not a number\n  expected: an integer\n  got: 'two'"),
        (
            "TILELANG_AUTO_TUNING_CPU_UTILITIES",
            "2",
            "is not a share\n  expected: a number above 0 and up to 1\n  got: '2'",
        ),
    ],
)
def test_a_senseless_variable_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, text: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(errors.TileValueError) as caught:
        getattr(env, name)
    assert str(caught.value) == f"the environment variable {name} {text}"


def test_the_cache_switch_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(env, "_cache", None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert not env_module.is_cache_enabled()
    env_module.enable_cache()
    assert env_module.is_cache_enabled()
    env_module.disable_cache()
    assert not env_module.is_cache_enabled()


def test_unknown_variables_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="did you mean TILELANG_CACHE_DIR"):
        _ = env.TILELANG_CACHE_DIRS
    with pytest.raises(AttributeError):
        _ = env_module.TILELANG_NOTHING


# -- objects of the program in messages -------------------------------------------------------------
class Rude:
    def __repr__(self) -> str:
        raise ZeroDivisionError("no text")


class Wordy:
    def __repr__(self) -> str:
        return "wordy\n" + "x" * 10**6


@pytest.mark.parametrize(
    ("value", "start"),
    [
        (Rude(), "<Rude instance at 0x"), ([1, Rude()], "[1, <Rude instance at 0x"),
        (Wordy(), "wordy xxxxx"), (list(range(10**6)), "[0, 1, 2, 3, "), ("x" * 10**7, "'xxxxxx"),
        (7**20000, "<int"), ({"a": 1}, "{'a': 1}"), (3.5, "3.5"), (None, "None"),
    ],
    ids=range(9),
)  # fmt: skip
def test_any_object_can_be_shown_on_one_line(value: object, start: str) -> None:
    text = shown(value)
    assert text.startswith(start)
    assert len(text) <= 80 and "\n" not in text
    assert len(shown(value, 6)) <= 6


def test_containers_that_contain_themselves_can_be_shown() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert len(shown(loop)) <= 80


def test_arguments_that_refuse_to_be_shown_do_not_hide_the_error() -> None:
    @T.prim_func
    def program(A: T.Tensor((4,), "float32"), n: T.int32):
        with T.Kernel(1, threads=4):
            A[0] = n

    array = np.zeros(4, np.float32)
    for mode in ("interpret", "auto"):
        kernel = tilelang.compile(program, target="cpu", execution_backend=mode)
        with pytest.raises(TypeError, match=r"(?s)input n is not an integer.*<Rude instance at"):
            kernel(array, Rude())
        with pytest.raises(TypeError, match=r"(?s)input A: this is not a tensor.*got: Rude"):
            kernel(Rude(), 3)
        with pytest.raises(TypeError, match=r"(?s)input n is not an integer.*got: '1111"):
            kernel(array, "1" * 10**7)
    with pytest.raises(TileError, match="<Rude instance at"):
        tilelang.compile(program, target=Rude())
    with pytest.raises(TileError, match="out_idx has the wrong type"):
        tilelang.compile(program, out_idx=Rude(), target="cpu")
    with pytest.raises(TileError, match="pass_configs has the key <Rude instance at"):
        tilelang.compile(program, target="cpu", pass_configs={Rude(): 1})


def test_notebooks_show_the_lines_of_an_error() -> None:
    error = TileValueError("a < b", expected="more", got="less")
    assert error._repr_html_() == (
        '<pre style="font-family: monospace; white-space: pre">'
        "a &lt; b\n  expected: more\n  got: less</pre>"
    )
