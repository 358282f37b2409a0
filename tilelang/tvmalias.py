"""``import tvm`` after ``import tilelang``, where no TVM is installed: the names of `tilelang.tvm`.

The incumbent brings a TVM of its own and makes it importable, so programs written for it say
``from tvm import DataType``. The finder stands last: an installed TVM is found before it. A module
that `tilelang.tvm` has not is not found here either, and importing it fails as it would without.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

__all__ = ["TvmFinder", "install"]


class TvmFinder:
    """Finds ``tvm`` and ``tvm.NAME`` as ``tilelang.tvm`` and ``tilelang.tvm.NAME``.

    It has no base: those of ``importlib.abc`` bring a sixth of the time of this package's import.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What ``tilelang.tvm`` has under the name."""
        if fullname.partition(".")[0] != "tvm":
            return None
        found = importlib.util.find_spec(f"tilelang.{fullname}")
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(
            fullname, cast("Loader", self), origin=found.origin, is_package=is_package
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module under its other name."""
        module = importlib.import_module(f"tilelang.{spec.name}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: it has been executed."""
        # The import system has set the alias's spec on the module, which is one with two names.
        alias = module.__spec__
        if alias is not None and alias.loader is cast("Loader", self):
            module.__spec__ = alias.loader_state


def install() -> None:
    """Let ``import tvm`` find the names here, once in a process."""
    if not any(isinstance(finder, TvmFinder) for finder in sys.meta_path):
        sys.meta_path.append(TvmFinder())
