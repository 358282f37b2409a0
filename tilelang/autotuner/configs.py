"""Configurations to try, as a list of dicts."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.options import check_configs
from tilelang.profiler.options import can_call

Config: TypeAlias = dict[str, Any]
PASS_CONFIGS = "pass_configs"  # a key of configurations, for the compiler
KINDS = (
    "a list of dicts, a dict of lists (all combinations), or a function of the arguments that "
    "gives one of these"
)


class OpenNames(tuple[str, ...]):
    """Names of the parameters of a function with ``**kwargs``: contains any name."""

    def __contains__(self, name: object) -> bool:
        return name != PASS_CONFIGS or super().__contains__(name)


def names_of(signature: inspect.Signature) -> tuple[str, ...]:
    """The names that a configuration may give values to."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = signature.parameters.items()
    names = tuple(name for name, param in parameters if param.kind not in variadic)
    return OpenNames(names) if any(param.kind is variadic[1] for _, param in parameters) else names


def by_name(bound: inspect.BoundArguments) -> Config:
    """The arguments of a call by name, those in ``**kwargs`` included."""
    values = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            values.update(values.pop(name, {}))
    return values


def expand(
    configs: Any, name: str, parameters: Sequence[str], args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> list[Config]:  # fmt: skip
    """The configurations as dicts, each once, in the order given.

    Args:
        configs: a list of dicts, a dict of lists, or a function of the call's arguments that gives
            one of these. An item of a list may also be a sequence: values of the last parameters.
            The key "pass_configs", unless a parameter has that name, is what this configuration
            is compiled with: ``tilelang.PassConfigKey`` or its string -> value.
        name: of the function that is tuned.
        parameters: names of its parameters.
        args, kwargs: the arguments of the call.

    Raises:
        TileTypeError: ``configs`` is nothing of that kind, or "pass_configs" is not a dict.
        TileValueError: there are none, or one names no parameter.
    """
    if callable(configs):
        configs = called(configs, args, dict(kwargs or {}))
    if isinstance(configs, Mapping):
        rows = itertools.product(*map(_listed, configs.values())) if configs else ()
        expanded = [dict(zip(configs, row)) for row in rows]
    elif isinstance(configs, Iterable) and not isinstance(configs, str):
        expanded = [_config(values, name, parameters) for values in configs]
    else:
        raise TileTypeError(
            f"the configurations of `{name}` have the wrong type",
            expected=KINDS,
            got=shown(configs),
        )
    if not expanded:
        raise TileValueError(f"there are no configurations of `{name}` to try", expected=KINDS)
    for config in expanded:
        for key in config:
            if key == PASS_CONFIGS and key not in parameters:
                check_configs(config[key], f"{PASS_CONFIGS} of a configuration of `{name}`")
            elif key not in parameters:
                raise TileValueError(
                    f"a configuration names {key!r}, which is not a parameter of `{name}`",
                    expected=", ".join(parameters),
                    got=shown(config),
                )
    return list({frozen(config): config for config in expanded}.values())


def arguments_of(config: Config, parameters: Container[str]) -> Config:
    """The arguments of a configuration for the tuned function."""
    return {key: value for key, value in config.items() if key in parameters}


def pass_configs_of(config: Config, parameters: Container[str]) -> dict[Any, Any]:
    """The pass configurations of a configuration."""
    return {} if PASS_CONFIGS in parameters else dict(config.get(PASS_CONFIGS) or {})


def without(config: Config, names: Container[str]) -> Config:
    """A configuration without the ``names`` parameters; empty if no parameter remains."""
    tuned = {key: value for key, value in config.items() if key not in names}
    return {} if set(tuned) == {PASS_CONFIGS} and len(config) > 1 else tuned


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``function`` of the call's arguments, or of those that it has parameters for."""
    if can_call(function, *args, **kwargs):
        return function(*args, **kwargs)
    names = inspect.signature(function).parameters
    known = {name: value for name, value in kwargs.items() if name in names}
    if can_call(function, **known):
        return function(**known)
    message = "the function of the configurations takes other arguments than the call"
    raise TileTypeError(message, expected=", ".join(kwargs) or "none by name", got=", ".join(names))


def frozen(config: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """A configuration as a key."""
    return tuple(sorted((name, repr(value)) for name, value in config.items()))


def text(config: Mapping[str, Any]) -> str:
    """A configuration on one line."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def _listed(values: Any) -> list[Any]:
    is_list = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
    return list(values) if is_list else [values]


def _config(values: Any, name: str, parameters: Sequence[str]) -> Config:
    if isinstance(values, Mapping):
        return dict(values)
    if isinstance(values, (list, tuple)) and len(values) <= len(parameters):
        return dict(zip(parameters[len(parameters) - len(values) :], values))
    raise TileTypeError(
        f"a configuration of `{name}` has the wrong type",
        expected="a dict of parameters, or values of the last parameters in a list",
        got=shown(values),
    )
