"""Import paths of the original TileLang that have another home here: one table, one import finder.

``import tilelang.carver`` gives the module ``tilelang.compat.carver``; there is one module object
with two names, so classes are the same whichever path a program takes. ``import tvm`` gives
``tilelang.compat.tvm`` where no TVM is installed: the original brings a TVM of its own and makes
it importable, so programs written for it say ``from tvm import DataType``.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

# Import path -> home. A path below one of these has its home below that of the longest prefix.
ALIASES: Mapping[str, str] = {
    "tilelang.analysis": "tilelang.compat.analysis",
    "tilelang.backend": "tilelang.compat.backend",
    "tilelang.cache": "tilelang.runtime.cache",
    "tilelang.carver": "tilelang.compat.carver",
    "tilelang.contrib": "tilelang.compat.contrib",
    "tilelang.cuda.intrinsics": "tilelang.compat.emitters",
    "tilelang.cuda.language": "tilelang.language",
    "tilelang.dtypes": "tilelang.language.dtypes",
    "tilelang.engine": "tilelang.compat.engine",
    "tilelang.engine.param": "tilelang.compat.engine",
    "tilelang.intrinsics": "tilelang.compat.intrinsics",
    "tilelang.intrinsics.mma_layout": "tilelang.compat.emitters.layout.mma_layout",
    "tilelang.intrinsics.mma_macro_generator": "tilelang.compat.emitters.macro.mma_macro_generator",
    "tilelang.intrinsics.utils": "tilelang.compat.emitters.layout.utils",
    "tilelang.intrinsics.wgmma_macro_generator": (
        "tilelang.compat.emitters.macro.wgmma_macro_generator"
    ),
    "tilelang.jit.adapter": "tilelang.compat.adapter",
    "tilelang.language.eager": "tilelang.frontend",
    "tilelang.language.entry": "tilelang.frontend.entry",
    "tilelang.language.kernel": "tilelang.frontend.kernel",
    "tilelang.language.loop": "tilelang.frontend.loop",
    "tilelang.language.v2": "tilelang.frontend",
    "tilelang.primitives": "tilelang.compat.primitives",
    "tilelang.quantize": "tilelang.compat.quantize",
    "tilelang.quantize.utils": "tilelang.compat.quantize.pack",
    "tilelang.rocm": "tilelang.compat.rocm",
    "tilelang.rocm.intrinsics.mfma_macro_generator": (
        "tilelang.compat.intrinsics.mfma_macro_generator"
    ),
    "tilelang.tileop": "tilelang.compat.tileop",
    "tilelang.tileop.base": "tilelang.compat.tileop",
    "tilelang.tools.cuda": "tilelang.compat.nvidia_tools",
    "tilelang.tools.drawing": "tilelang.layout.drawing",
    "tilelang.transform": "tilelang.compat.transform",
    "tilelang.transform.pass_config": "tilelang.compat.transform",
    "tilelang.tvm": "tilelang.compat.tvm",
    "tilelang.tvm.tirx": "tilelang.compat.tvm.tir",
    "tvm": "tilelang.compat.tvm",
}
# Import paths with others below them: packages, also where the home is one module.
_PACKAGES = {path.rpartition(".")[0] for path in ALIASES}


def home_of(name: str) -> str | None:
    """The path of the module that ``name`` is an alias of; None for any other path."""
    # `from tilelang.quantize import utils` asks for a module of the home of `tilelang.quantize`.
    prefix, rest = name.replace("tilelang.compat.", "tilelang."), ""
    while prefix:
        if prefix in ALIASES:
            home = ALIASES[prefix] + rest
            return home if home != name else None
        prefix, _, last = prefix.rpartition(".")
        rest = f".{last}{rest}"
    return None


class AliasFinder:
    """Finds modules under the paths of the table.

    It comes first: below a package with two names, the finder of files would find each module a
    second time. It has no base: those of ``importlib.abc`` take a sixth of the time of importing
    this package.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The home of ``fullname`` under that name."""
        home = home_of(fullname) if self.is_ours(fullname) else None
        try:
            spec = importlib.util.find_spec(home) if home is not None else None
        except ModuleNotFoundError:  # its parent is a module, no package
            return None
        if spec is None:
            return None
        is_package = spec.submodule_search_locations is not None or fullname in _PACKAGES
        return ModuleSpec(fullname, cast("Loader", self), origin=spec.origin, is_package=is_package)

    def is_ours(self, fullname: str) -> bool:
        """Whether the table may have ``fullname``; modules of an installed TVM are its own."""
        root = fullname.partition(".")[0]
        return root == "tilelang" or (root == "tvm" != fullname and _tvm_is_ours())

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module at its home."""
        module = importlib.import_module(home_of(spec.name) or "")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has been executed."""
        # The import system has set the alias's spec on the module, which is one with two names.
        alias = module.__spec__
        if alias is not None and alias.loader is cast("Loader", self):
            module.__spec__ = alias.loader_state


class TvmFinder(AliasFinder):
    """Finds ``tvm``. It comes last: an installed TVM is found before it."""

    def is_ours(self, fullname: str) -> bool:
        """Whether this is TVM."""
        return fullname == "tvm"


def _tvm_is_ours() -> bool:
    return sys.modules.get("tvm") is sys.modules.get("tilelang.compat.tvm", object)


def install() -> None:
    """Let programs import the paths of the table, once in a process."""
    if not any(isinstance(finder, TvmFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
        sys.meta_path.append(TvmFinder())
        # A finder that imports this path would replace the function `T.macro` by the module.
        sys.modules["tilelang.language.macro"] = sys.modules["tilelang.frontend.macro"]
