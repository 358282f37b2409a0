"""The target and options of a compilation, as one object that every pass gets."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

from tilelang.errors import InternalError
from tilelang.ir.launch_schedule import MEMORY
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.target.features import FEATURES
from tilelang.target.limits import Limits
from tilelang.target.parse import Target

# Options that take features away -> which ones.
_WITHOUT = {
    "no_tma": ("tma", "bulk_copy"),
    "no_wgmma": ("wgmma", "async_products"),
    "no_roles": ("roles",),
}
# Features that are there only where an option asks for them, because no vendor promises them.
_ONLY_WITH = {"element_map": ("simdgroup_elements",)}


@dataclass(frozen=True)
class Context:
    """The target of a compilation and what the program asks of it.

    Attributes:
        target: the machine.
        options: the options of the compilation.
        memory: how much shared memory there is (the field of a schedule).
    """

    target: Target
    options: Options = field(default_factory=Options)
    memory: str = MEMORY[0]

    @cached_property
    def features(self) -> frozenset[str]:
        """Features of the target that passes may choose: those of the options are left out.

        Instructions that the program names itself need ``target.features`` only.
        """
        options = self.options
        left_out = [names for option, names in _WITHOUT.items() if getattr(options, option)]
        left_out += [names for option, names in _ONLY_WITH.items() if not getattr(options, option)]
        return self.target.features.difference(*left_out)

    @property
    def saves_shared(self) -> bool:
        """Whether what takes shared memory for speed is left out."""
        return self.memory != MEMORY[0]

    @property
    def limits(self) -> Limits:
        """The resources that a block may use."""
        return self.target.limits

    def has(self, feature: str) -> bool:
        """Whether passes may use ``feature``, a name of :data:`FEATURES`."""
        if feature not in FEATURES:
            raise InternalError(f"there is no feature {feature!r}")
        return feature in self.features
