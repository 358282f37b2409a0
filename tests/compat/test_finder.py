"""Import paths of the original have one home each, and one module object."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from tilelang.compat.finder import ALIASES, home_of

# Paths below those of the table, as programs write them.
BELOW = (
    "tilelang.carver.arch.driver", "tilelang.carver.roller.rasterization", "tilelang.contrib.nvcc",
    "tilelang.cuda.intrinsics.layout.mma_layout", "tilelang.cuda.intrinsics.sparse_layout",
    "tilelang.engine.callback", "tilelang.jit.adapter.wrapper", "tilelang.language.eager.builder",
    "tilelang.language.v2.annot", "tilelang.rocm.target", "tilelang.transform.simplify",
    "tilelang.tvm.tir.stmt_functor",
)  # fmt: skip


def in_process(code: str) -> str:
    """What the code prints in a process of its own, where nothing is imported yet."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


# Those of `tvm` need a process of its own: tests/tvm is a folder of that name.
@pytest.mark.parametrize("name", [n for n in (*ALIASES, *BELOW) if n.startswith("tilelang")])
def test_an_alias_imports_the_aliased_module(name: str) -> None:
    home = home_of(name)
    assert home is not None
    assert importlib.import_module(name) is importlib.import_module(home)


def test_every_path_can_be_the_first_import() -> None:
    loop = "import importlib\nfor name in {!r}:\n    importlib.import_module(name)\nprint('all')"
    names = [name for name in (*ALIASES, *BELOW) if name.startswith("tilelang")]
    assert in_process(loop.format(names)) == "all"
    assert in_process(loop.format(names[::-1])) == "all"


def test_modules_of_a_path_are_taken_from_their_package() -> None:
    made = in_process(
        "from tilelang.quantize import utils\n"
        "from tilelang.intrinsics import mma_layout\n"
        "from tilelang.language import kernel\n"
        "from tilelang import carver, dtypes\n"
        "print(utils.__name__, mma_layout.__name__, kernel.__name__, carver.__name__)"
    )
    assert made == (
        "tilelang.compat.quantize.pack tilelang.compat.emitters.layout.mma_layout"
        " tilelang.frontend.kernel tilelang.compat.carver"
    )


def test_the_former_module_of_macros_leaves_the_function() -> None:
    from tilelang import language
    from tilelang.language.macro import Macro

    assert isinstance(language.macro(lambda: None), Macro)


def test_an_unknown_alias_is_not_found() -> None:
    assert home_of("tilelang.jit.kernel") is None and home_of("numpy") is None
    assert home_of("tilelang.carverish") is None
    with pytest.raises(ModuleNotFoundError, match=r"tilelang\.carver\.nowhere"):
        importlib.import_module("tilelang.carver.nowhere")


def test_an_alias_keeps_the_spec_of_its_module() -> None:
    module = importlib.import_module("tilelang.carver")
    assert module.__spec__ is not None and module.__spec__.name == "tilelang.compat.carver"
    assert importlib.reload(module) is module


def test_no_alias_hides_an_operation() -> None:
    # Importing a module gives its parent an attribute of that name.
    loop = (
        "import importlib, tilelang, tilelang.language as T\n"
        "def names(): return {(m.__name__, n): getattr(m, n) for m in (tilelang, T) for n in m.__all__}\n"
        "before = names()\n"
        "for name in %r:\n    importlib.import_module(name)\n"
        "print([key for key, value in names().items() if value is not before[key]])"
    )
    paths = [name for name in (*ALIASES, *BELOW) if name.startswith("tilelang")]
    assert in_process(loop % (paths,)) == "[]"


def test_metadata_of_sparse_operands_is_counted() -> None:
    from tilelang.cuda.intrinsics import sparse_layout

    assert sparse_layout.get_e_factor("float16", "int16") == 16
    assert sparse_layout.get_e_factor("float32", "int32") == 16
    assert sparse_layout.get_e_factor("float8_e4m3", "int32") == 32
    assert [sparse_layout.get_e_replicate_factor(name) for name in ("int8", "bfloat16")] == [1, 2]
