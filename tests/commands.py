"""Commands that tests run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any


def run(words: list[Any], folder: Path, **variables: str) -> str:
    """What a command prints; it ends well."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
