"""Work on an executor that the user brings: ``concurrent.futures``, a Dask client, or Ray."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tilelang.errors import TileTypeError, shown


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
        future = executor.submit(function, *args)
        return future if isinstance(future, Future) else _wrap_future(future)
    if hasattr(executor, "remote") and hasattr(executor, "get"):
        followed: Future[Any] = executor.remote(function).remote(*args).future()
        return followed
    raise TileTypeError(
        "executor= cannot run functions",
        expected="an executor of concurrent.futures, a Dask client, or the module ray",
        got=shown(executor),
    )


def _wrap_future(foreign: Any) -> Future[Any]:
    """A future of another library as one of ``concurrent.futures``."""
    future: Future[Any] = Future()

    def copy_result(finished: Any) -> None:
        error = finished.exception()
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(finished.result())

    foreign.add_done_callback(copy_result)
    return future
