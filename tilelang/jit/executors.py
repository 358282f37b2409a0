"""Work on an executor that the user brings: ``concurrent.futures``, a Dask client, or Ray."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tilelang.errors import TileTypeError, shown

__all__ = ["submit"]


def submit(executor: Any, function: Callable[..., Any], *args: Any) -> Future[Any]:
    """The future of ``function(*args)`` on ``executor``.

    Args:
        executor: has ``submit(function, *args)`` as those of ``concurrent.futures`` and a Dask
            ``Client`` have, or is the module ``ray``.
        function: of a module, so that it pickles.

    Raises:
        TileTypeError: the executor is nothing of that kind.
    """
    if hasattr(executor, "submit"):
        given = executor.submit(function, *args)
        return given if isinstance(given, Future) else _followed(given)
    if hasattr(executor, "remote") and hasattr(executor, "get"):
        made: Future[Any] = executor.remote(function).remote(*args).future()
        return made
    raise TileTypeError(
        "executor= cannot run functions",
        expected="an executor of concurrent.futures, a Dask client, or the module ray",
        got=shown(executor),
    )


def _followed(given: Any) -> Future[Any]:
    """A future of another library as one of ``concurrent.futures``."""
    made: Future[Any] = Future()

    def settle(done: Any) -> None:
        error = done.exception()
        if error is not None:
            made.set_exception(error)
        else:
            made.set_result(done.result())

    given.add_done_callback(settle)
    return made
