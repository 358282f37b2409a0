"""What each option of measuring and of tuning may be, by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.utils.tensor import TensorSupplyType

BACKENDS = ("event", "cupti", "cudagraph")
FIGURES = ("GB/s", "TFLOP/s", "latency")
MODES = ("auto", "mean", "median", "min", "max", "steady")


def _is_number(value: Any, low: float = 0, high: float = 1e300, kind: Any = Real) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and bool(low <= value <= high)


def _is_a(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    return isinstance(value, (list, tuple, set, frozenset, np.ndarray)) and all(map(fits, value))


def _is_clock(value: Any) -> bool:
    return value in BACKENDS if isinstance(value, str) else hasattr(value, "estimate")


_IS_COUNT = partial(_is_number, kind=Integral)
_IS_SHARE = partial(_is_number, high=1)
# Names of options, what fits, and that in words.
_ROWS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("warmup rep", _is_number, "milliseconds, 0 or more"),
    ("timeout budget", _is_number, "seconds, 0 or more, or None for no limit"),
    ("n_warmup n_repeat repeat seed", _IS_COUNT, "a whole number, 0 or more"),
    ("num_workers", _IS_COUNT, "how many, or None for one per core"),
    ("early_stop_factor", partial(_is_number, low=1), "a factor, 1 or more"),
    ("prune_by_model", partial(_is_number, low=1), "a factor, 1 or more, or None"),
    ("rtol atol", _is_number, "a number, 0 or more"),
    ("max_mismatched_ratio", _IS_SHARE, "a number from 0 to 1"),
    ("quantiles", partial(_is_list, fits=_IS_SHARE), "numbers from 0 to 1 in a list, or None"),
    ("fast_flush skip_check early_stop isolate", _is_a(bool, np.bool_), "True or False"),
    ("ref_prog supply_prog manual_check_prog", callable, "a function, or None"),
    ("kernel", lambda value: hasattr(value, "adapter"), "what tilelang.compile gives"),
    ("supply_type", _is_a(TensorSupplyType), "a member of tilelang.TensorSupplyType"),
    ("backend", _is_clock, ", ".join(BACKENDS)),
    ("return_mode", lambda value: value in MODES, ", ".join(MODES)),
    ("figure", lambda value: value in FIGURES, ", ".join(FIGURES)),
    ("input_tensors", _is_a(list, tuple), "what a call passes, in a list, or None"),
    ("dynamic_symbolic_constraints", _is_a(Mapping), "a dict: name -> number, or None"),
    ("do_not_specialize", partial(_is_list, fits=_is_a(str)), "names in a list, or None"),
)
_KINDS = {name: (fits, words) for names, fits, words in _ROWS for name in names.split()}
_OPTIONAL = frozenset(name for name, (_, words) in _KINDS.items() if ", or None" in words)


def check_options(**options: Any) -> None:
    """Refuse values that options cannot have.

    Raises:
        TileValueError: the first of them, with what the option may be.
    """
    for name, value in options.items():
        fits, words = _KINDS.get(name.strip("_"), (None, ""))
        if fits and not fits(value) and not (value is None and name in _OPTIONAL):
            raise TileValueError(f"{name} has the wrong value", expected=words, got=shown(value))


def can_call(function: object, *args: Any, **kwargs: Any) -> bool:
    """Whether it is a function, and does not say that it takes other arguments."""
    try:
        return callable(function) and bool(inspect.signature(function).bind(*args, **kwargs))
    except (TypeError, ValueError) as error:  # the second of one that says nothing
        return isinstance(error, ValueError)


def check_function(function: object, count: int, message: str) -> None:
    """Refuse what cannot be called with ``count`` arguments.

    Raises:
        TileTypeError: it is not a function, or one of other parameters.
    """
    if not can_call(function, *range(count)):
        expected = f"a function of {count or 'no'} argument{'s' * (count != 1)}"
        raise TileTypeError(message, expected=expected, got=shown(function))
