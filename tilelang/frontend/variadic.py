"""Variable parameters of kernels: ``*args`` and ``**kwargs``.

What they take is known at compile time: every value is part of the key of a call, and a call with
other values is another kernel. The rest of the frontend sees two ordinary constants, a tuple and a
dict, each under the name of its parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.errors import ArgumentTypeError, Loc, TileSyntaxError, shown
from tilelang.frontend.values import Annot, Value

_Kind = inspect.Parameter


class Variadic:
    """The conversion of calls with variable parameters to calls without, and back.

    Attributes:
        signature: with keyword parameters of the same names in their place.
        positional: names of the parameters before ``*args``.
        args, kwargs: the names of the variable parameters; None without one.
    """

    def __init__(self, name: str, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        kinds = {parameter.kind: parameter.name for parameter in parameters}
        self.name = name
        self.args = kinds.get(_Kind.VAR_POSITIONAL)
        self.kwargs = kinds.get(_Kind.VAR_KEYWORD)
        self.positional = [p.name for p in parameters if p.kind is _Kind.POSITIONAL_OR_KEYWORD]
        self._fixed = {p.name for p in parameters} - {self.args, self.kwargs}
        self._empty: dict[str | None, Any] = {self.args: (), self.kwargs: {}}
        self.signature = signature.replace(parameters=[self._plain(p) for p in parameters])

    def __bool__(self) -> bool:
        return self.args is not None or self.kwargs is not None

    def _plain(self, parameter: inspect.Parameter) -> inspect.Parameter:
        if parameter.name in self._fixed:
            return parameter
        return parameter.replace(kind=_Kind.KEYWORD_ONLY, default=self._empty[parameter.name])

    def check(
        self, annots: Mapping[str, Annot], body: frozenset[str], location: Callable[[str], Loc]
    ) -> None:
        """Reject annotations of variable parameters that are not constants.

        Args:
            annots: of all parameters.
            body: the parameters that the body annotates.
            location: maps a parameter to its source location.

        Raises:
            TileSyntaxError: a variable parameter is annotated as a tensor, a run-time scalar, a
                pointer or a dtype.
        """
        for name, stars in ((self.args, "*"), (self.kwargs, "**")):
            if name is None:
                continue
            annot = annots[name]
            if name in body or not isinstance(annot, Value) or annot.is_kernel_arg():
                raise TileSyntaxError(
                    f"the variable parameter `{stars}{name}` of the kernel `{self.name}` is "
                    "annotated",
                    expected="no annotation: what it takes is known at compile time",
                    hint="give each tensor and run-time scalar a parameter of its own",
                    loc=location(name),
                )

    def fold(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call as arguments of :attr:`signature`.

        Raises:
            ArgumentTypeError: a tensor among the constants, or a keyword that nothing takes.
        """
        count = len(self.positional)
        fixed = {key: value for key, value in kwargs.items() if key in self._fixed}
        if self.args is not None and len(args) > count:
            fixed[self.args] = tuple(self._constant(value, "*") for value in args[count:])
            args = args[:count]
        rest = {key: value for key, value in kwargs.items() if key not in self._fixed}
        if self.kwargs is None and self.args in rest:
            raise ArgumentTypeError(
                f"unexpected argument `{self.args}`",
                expected=f"values of `*{self.args}` by position",
            )
        if self.kwargs is None:
            return args, {**fixed, **rest}
        if rest:
            fixed[self.kwargs] = {k: self._constant(value, "**") for k, value in rest.items()}
        return args, fixed

    def _constant(self, value: Any, stars: str) -> Any:
        if hasattr(value, "__dlpack__"):
            name = self.args if stars == "*" else self.kwargs
            raise ArgumentTypeError(
                f"`{stars}{name}` of the kernel `{self.name}` takes a tensor",
                expected="values that are known at compile time",
                got=f"{type(value).__name__} of shape {tuple(value.shape)}"
                if hasattr(value, "shape")
                else shown(value),
                hint="give the tensor a parameter of its own: X: T.Tensor(shape, dtype)",
            )
        return value

    def unfold(self, values: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments of the Python function itself, from values by parameter name."""
        if not self:
            return (), dict(values)
        rest = {k: v for k, v in values.items() if k in self._fixed and k not in self.positional}
        args = [values[name] for name in self.positional]
        return (*args, *values.get(str(self.args), ())), {
            **rest,
            **values.get(str(self.kwargs), {}),
        }
