"""What a call that has to fail says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def refusal(error: type[Exception], call: Callable[..., Any], *args: Any, **named: Any) -> str:
    """The message of the ``error`` that the call raises."""
    with pytest.raises(error) as caught:
        call(*args, **named)
    return str(caught.value)
