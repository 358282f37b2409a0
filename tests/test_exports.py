"""The public names: what ``__all__`` says exists, and what programs may rely on is in it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import shutil
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import tilelang
import tilelang.language as T
from tilelang.language import builtin

MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(tilelang.__path__, "tilelang.")
    if not info.name.rpartition(".")[2].startswith("_")
)

# Import paths that existing programs use.
PATHS = (
    "tilelang.autotuner", "tilelang.cache", "tilelang.carver.arch.driver", "tilelang.contrib.nvcc",
    "tilelang.engine.param", "tilelang.env", "tilelang.jit.adapter.wrapper", "tilelang.jit.kernel",
    "tilelang.language.builtin", "tilelang.language.dtypes", "tilelang.language.eager.ast",
    "tilelang.language.eager.builder", "tilelang.language.kernel", "tilelang.language.loop",
    "tilelang.language.v2.annot", "tilelang.language.v2.ast", "tilelang.language.v2.builder",
    "tilelang.language.v2.dtypes", "tilelang.layout", "tilelang.profiler.bench",
    "tilelang.testing", "tilelang.tools", "tilelang.utils.device", "tilelang.utils.target",
    "tilelang.utils.tensor",
)  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_every_module_can_be_imported_and_has_what_it_lists(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", ())
    assert len(set(listed)) == len(listed), "a name is listed twice"
    missing = [item for item in listed if not hasattr(module, item)]
    assert not missing


@pytest.mark.parametrize("name", PATHS)
def test_import_paths_of_programs_exist(name: str) -> None:
    importlib.import_module(name)


def test_facades_have_exactly_these_names(golden: Callable[[str, str], None]) -> None:
    golden(
        "names.txt",
        "\n".join(
            f"[{module.__name__}]\n{textwrap.fill(' '.join(sorted(module.__all__)), 100)}\n"
            for module in (tilelang, T, builtin)
        ),
    )


@pytest.mark.parametrize("module", [tilelang, T], ids=lambda module: module.__name__)
def test_facades_list_all_their_names(module: ModuleType) -> None:
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    unlisted = own - set(module.__all__) - {"annotations", "TYPE_CHECKING", "Any"}
    assert not unlisted


def test_the_decorator_and_its_package_are_one() -> None:
    assert callable(tilelang.jit)
    assert tilelang.jit.JITKernel is tilelang.JITKernel


def test_the_vocabulary_can_be_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    # Programs that wrap an operation assign their own function to its name.
    monkeypatch.setattr(T, "gemm_v1", "replaced")
    assert T.gemm_v1 == "replaced"


def test_the_version_has_one_source() -> None:
    from tilelang.version import __version__

    assert tilelang.__version__ == __version__
    assert __version__.count(".") == 2


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = tilelang.no_such_name
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = T.no_such_name


def test_import_is_light() -> None:
    code = (
        "import os, sys; before = dict(os.environ); import tilelang, tilelang.language; "
        "assert dict(os.environ) == before; "
        "print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    )
    loaded = set(_printed(code).split())
    assert "numpy" in loaded
    third_party = loaded & {"torch", "cuda", "tqdm", "matplotlib", "hypothesis", "ml_dtypes"}
    assert not third_party
    assert not loaded & {"asyncio", "concurrent", "multiprocessing", "unittest"}


# Parts that writing or reading a program does not need.
_LATER = (
    "autotuner", "compat.adapter", "compat.carver", "compat.tvm", "compiler", "emulator", "explain",
    "interpret", "jit.export", "pipelines", "profiler", "tools", "transforms.lower", "utils", "cuda.driver", "cuda.nvrtc", "hip.driver",
    "metal.executable", "cpu.codegen",
)  # fmt: skip


def test_names_of_the_language_are_exported_to_strict_type_checkers() -> None:
    tree = ast.parse(Path(T.__file__ or "").read_text(encoding="utf-8"))
    plain = [
        item.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilelang")
        for item in node.names
        if item.name != "*" and item.name[0] != "_" and item.asname is None
    ]
    assert not plain, "written `import x as x`, or mypy --strict does not let programs use them"


def test_import_loads_no_part_that_only_some_programs_need() -> None:
    code = "import sys, tilelang.language; print(' '.join(sys.modules))"
    loaded = _printed(code).split()
    own = [name.removeprefix("tilelang.") for name in loaded if name.startswith("tilelang.")]
    assert not [name for name in own if f"{name}.".startswith(tuple(f"{part}." for part in _LATER))]
    assert len(own) <= 147, "what does the first line of a program need the new modules for?"
    assert "importlib.resources" not in loaded  # comes with importlib.abc: a tenth of our time


def test_import_compiles_no_methods_of_dataclasses() -> None:
    code = (
        "import builtins; real, made = exec, []\n"
        "def counted(text, *rest):\n"
        "    made.append(rest[0].get('__name__', '') if 'self' in str(text) else '')\n"
        "    return real(text, *rest)\n"
        "builtins.exec = counted\n"
        "import tilelang.language\n"
        "print(' '.join(sorted({name for name in made if name.startswith('tilelang')})))"
    )
    few = {"tilelang.runtime.executable", "tilelang.watch", "tilelang.language.v2.flow"}
    assert set(_printed(code).split()) <= few, "tilelang.records has a dataclass for these"


def _printed(code: str) -> str:
    """What another Python prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_the_source_distribution_holds_what_its_tests_read(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77", reason="it makes the distribution")
    root = Path(__file__).resolve().parents[1]
    # What is tracked begins with these; other tests write caches (`.hypothesis`, `__pycache__`) meanwhile.
    hidden = {".ci", ".github", ".gitignore", ".pre-commit-config.yaml"}

    def left_out(_folder: str, names: list[str]) -> set[str]:
        made = {"__pycache__", "build", "site"}
        return {
            name
            for name in names
            if name in made or name.endswith(".egg-info") or (name[0] == "." and name not in hidden)
        }

    shutil.copytree(root, tmp_path / "copy", ignore=left_out)
    code = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=tmp_path / "copy", check=True, capture_output=True,
        timeout=300,
    )  # fmt: skip
    (made,) = tmp_path.glob("tilelang-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [path for folder in ("tests", "examples", "docs", "scripts", "tilelang")
              for path in (tmp_path / "copy" / folder).rglob("*.*") if path.is_file()]  # fmt: skip
    missing = {path.relative_to(tmp_path / "copy").as_posix() for path in wanted} - names
    assert not missing and {"README.md", "mkdocs.yml", ".ci/run"} <= names
