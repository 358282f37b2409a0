"""What all tests share: golden texts, hypothesis profiles, seeds, and a cache of their own.

* ``golden(name, text)`` compares ``text`` with ``golden/<name>`` next to the test file;
  ``pytest --update-golden`` writes the files instead, and the difference is read in review.
* ``HYPOTHESIS_PROFILE`` picks "ci" (the default: the same examples in every run) or "long".
* ``@pytest.mark.share(n)``: one in ``n`` of the cases of a test runs, chosen by the hashes of their
  names (``share(n, of="...")``: of all that say the same); ``pytest --share K`` runs the K-th of the
  ``n`` shares, ``--whole`` all cases. In a run of all tests, those without a mark have up to four.
* Every pass is checked: what it gives has to be legal at its level of the IR.
* Kernels are cached in pytest's cache folder, never in the user's.
"""

from __future__ import annotations

import difflib
import gc
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pytest
from shares import MANY, leave_out, leave_out_most

if TYPE_CHECKING:
    from tilelang.cpu.toolchain import Compiler

SEED = 0

hypothesis.settings.register_profile(
    "ci",
    derandomize=True,  # a red run can be repeated
    deadline=None,  # the first example compiles C, the others do not
    database=None,
    print_blob=True,
)
hypothesis.settings.register_profile("long", deadline=None, max_examples=5000, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )
    parser.addoption("--share", type=int, default=0, help="which cases of tests that run a share")
    parser.addoption("--full", action="store_true", help="run all tests, as CI")
    parser.addoption("--whole", action="store_true", help="run all cases of all tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "share(n, of=...): one in n of the cases runs, see tests/conftest.py"
    )
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
    # By default it looks at every few hundred objects of a compilation, in a sixteenth of the time.
    gc.set_threshold(20_000, 20, 20)
    os.environ.setdefault("TILELANG_CHECK_PASSES", "1")
    if "TILELANG_CACHE_DIR" not in os.environ:
        cache = getattr(config, "cache", None)  # None under `-p no:cacheprovider`
        folder = cache.mkdir("kernels") if cache else Path(tempfile.mkdtemp(prefix="tilelang-"))
        # Code is loaded from there, so it must not be writable by others whatever the umask is.
        folder.chmod(0o700)
        os.environ["TILELANG_CACHE_DIR"] = str(folder)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--whole"):
        return
    arguments = [Path(config.rootpath, argument) for argument in config.args]
    everything = arguments == [config.rootpath / "tests"] and not config.getoption(
        "--update-golden"
    )
    leave_out(config, items, most=MANY if everything else 1)
    if everything and not config.getoption("--full"):
        leave_out_most(config, items)


def pytest_collection_finish() -> None:
    """Modules and items stay to the end: the collector need not look at them again and again."""
    gc.freeze()


@pytest.fixture(scope="session")
def compiler() -> Compiler:
    """The C compiler of this machine."""
    from tilelang.cpu.toolchain import find_compiler  # where its caches are is settled by now

    found = find_compiler(quiet=True)
    if found is None:
        pytest.skip("no C compiler on this machine")
    return found


@pytest.fixture(autouse=True)
def _seeds() -> None:
    """Global generators start the same in every test, in whatever order tests run."""
    random.seed(SEED)
    np.random.seed(SEED)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(SEED)


@pytest.fixture(autouse=True)
def _recursion_limit() -> Iterator[None]:
    """Deep programs raise Python's limit for good; the next test must not need that."""
    limit = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(limit)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: ``text`` is what ``golden/<name>`` next to the test file holds."""
    folder = request.path.parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def compare(name: str, text: str) -> None:
        path = folder / name
        got = text.rstrip("\n") + "\n"
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(got, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"{path} does not exist; `pytest --update-golden` writes it")
        expected = path.read_text(encoding="utf-8")
        if got != expected:
            difference = difflib.unified_diff(
                expected.splitlines(), got.splitlines(), "expected", "got", lineterm=""
            )
            pytest.fail(
                "\n".join([f"{path.name} differs (`pytest --update-golden` accepts):", *difference])
            )

    return compare


@pytest.fixture(autouse=True)
def _roofs_of_one_test(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that one test has measured would change the reports of others."""
    monkeypatch.setattr(
        "tilelang.profiler.roof.FORMAT", f"roof of {request.node.nodeid} {id(request)}"
    )
