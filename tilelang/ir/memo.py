"""Methods whose results an object keeps."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def memoized(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Result]:
    """``method``, which runs once for an object and arguments; the object keeps the result.

    The arguments are given by position and can be hashed.
    """
    attribute = f"_results_of_{method.__qualname__}"

    @wraps(method)
    def look_up(self: Any, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        results: dict[tuple[Any, ...], Result] = vars(self).setdefault(attribute, {})
        if args not in results:
            results[args] = method(self, *args, **kwargs)
        return results[args]

    return look_up
