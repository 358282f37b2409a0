"""A build hook: the kernels of the package are compiled into its wheel.

``pip wheel examples/wheel`` makes a wheel that needs numpy alone. Whoever builds needs tilelang and
a C compiler; whoever installs, neither.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))  # kernels.py stands beside this file


class BuildWithKernels(build_py):
    """Copies the Python files, then compiles the kernels beside them."""

    def run(self) -> None:
        """See the class."""
        super().run()
        from kernels import programs

        from tilelang import export_library

        folder = Path(self.build_lib) / "fast_ops" / "kernels"
        # Every x86-64 processor since 2013; "native" would bind the wheel to the builder's.
        export_library(folder, programs(), name="fast_ops", march=_march())


def _march() -> str:
    import platform

    return "x86-64-v3" if platform.machine() in ("x86_64", "AMD64") else ""


class WithLibrary(Distribution):
    """The wheel is for one kind of machine."""

    def has_ext_modules(self) -> bool:
        """It holds a shared library."""
        return True


setup(cmdclass={"build_py": BuildWithKernels}, distclass=WithLibrary)
